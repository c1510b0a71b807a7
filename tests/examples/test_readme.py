"""What the README prints is what runs."""

from __future__ import annotations

import asyncio
import os
import re
import runpy
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import Principal
from dualsql.demo import Institution

ROOT = Path(__file__).parent.parent.parent


def printed(file: str) -> str:
    """The code of an example without its docstring, as the README shows it."""
    return (ROOT / "examples" / file).read_text().partition('"""\n\n')[2].strip()


def test_all_code_of_the_readme_is_an_example_word_for_word() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    examples = [printed(file.name) for file in (ROOT / "examples").glob("*.py")]
    assert sorted(map(str.strip, blocks)) == sorted(examples)


def loaded(file: str) -> dict[str, Any]:
    """The names an example defines, once it has run. It builds its database, so outside an event loop."""
    with ThreadPoolExecutor() as threads:
        return threads.submit(runpy.run_path, str(ROOT / "examples" / file)).result()


async def test_results_are_kept_in_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("DUALSQL_SECRET", "a secret of at least thirty-two characters")
    first, second = loaded("table.py")["dual"], loaded("table.py")["dual"]
    async with first, second:
        response = await first.create_response(select(Institution), name="Colleges")
        assert await second.get_resource(response.resource_id)


async def test_results_are_bound_to_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    people = loaded("people.py")
    [(token, ana)], dual = people["SESSIONS"].items(), people["dual"]
    app = Starlette(routes=[Mount("/resources", dual.router())])
    async with dual, httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        response = await people["colleges_for"](ana)
        assert (await http.get(response.resource_url)).status_code == 404
        mine = await http.get(response.resource_url, headers={"Authorization": token})
        assert mine.json()["total_count"] == 6_127


async def test_tables_are_narrowed_to_the_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tenants = loaded("tenants.py")
    async with tenants["dual"]:
        seen = [
            (await tenants["programs_of"](Principal(id=name, tenant=state))).sample[0]
            for name, state in (("ana", "NJ"), ("auditor", "NJ"), ("ben", "PA"))
        ]
    (ana_count, ana_debt), (auditor_count, auditor_debt), (ben_count, _) = (row.values() for row in seen)
    assert (ana_count, ana_debt) == (auditor_count, None)
    assert auditor_debt > 0
    assert 0 < ana_count < ben_count < 106_145


async def test_the_two_programs_run_against_each_other(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # The examples use the port a reader will; the test takes any, so it changes that one word.
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _at(origin, "server.py", SERVE), str(listener.fileno()),
            env=environment, pass_fds=(listener.fileno(),),
        )  # fmt: skip
        try:
            client = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _at(origin, "client.py"),
                env=environment,
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await client.communicate()
        finally:
            server.terminate()
            await server.wait()
    assert client.returncode == 0
    assert output.decode().strip() == "Colleges in NJ: the model saw 15 rows, the application got 146."


SERVE = "\nimport sys, uvicorn\nuvicorn.run(app, fd=int(sys.argv[1]), log_level='warning')\n"


def _at(origin: str, file: str, extra: str = "") -> str:
    code = (ROOT / "examples" / file).read_text()
    assert "http://127.0.0.1:8000" in code
    return code.replace("http://127.0.0.1:8000", origin) + extra
