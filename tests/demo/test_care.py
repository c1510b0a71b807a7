"""What the demo must not do to the person who runs it: lose their tables, show a traceback, trust an argument."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.demo.app import build_mcp
from dualsql.demo.database import Base, build, keep_secret
from dualsql.errors import ConfigurationError, StorageError
from dualsql.features import DualResponseServer
from dualsql.serve.sockets import listen, origin_of_listener
from tests.demo.test_demo import demo, output_of

MakeEngine = Callable[[str], AsyncEngine]

# Most start the command as a process of its own, again and again.
pytestmark = pytest.mark.long


async def test_a_table_of_somebody_else_is_left_alone(database_url: str, make_engine: MakeEngine) -> None:
    engine = make_engine(database_url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE programs (note VARCHAR(20))"))
        await connection.execute(text("INSERT INTO programs VALUES ('irreplaceable')"))
    with pytest.raises(ConfigurationError, match="'programs' that the demo did not make"):
        await build(database_url)
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT note FROM programs"))).all() == [("irreplaceable",)]


async def test_a_build_that_fails_leaves_nothing_behind(
    database_url: str, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next build would take the half of it for somebody else's tables."""
    monkeypatch.setattr("dualsql.demo.database.VERSION", None)
    with pytest.raises(StorageError):
        await build(database_url)
    monkeypatch.undo()
    await build(database_url)
    async with make_engine(database_url).connect() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM programs"))).scalar_one() > 40_000


async def test_an_older_release_is_replaced(sqlite_url: str, make_engine: MakeEngine) -> None:
    await build(sqlite_url)
    engine = make_engine(sqlite_url)
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE demo_release SET version = 'older'"))
        await connection.execute(text("DELETE FROM programs"))
    await build(sqlite_url)
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM programs"))).scalar_one() > 40_000


@pytest.mark.parametrize(
    "database", ["postgresql://someone:pa55word@127.0.0.1:1/x", "sqlite:////no/such/folder/demo.db"]
)
async def test_a_database_out_of_reach_is_one_line(tmp_path: Path, database: str) -> None:
    code, output = await output_of(tmp_path, "--port", "0", "--database", database)
    assert code == 1
    assert output.startswith("dualsql: ")
    assert output.count("\n") == 1
    assert "pa55word" not in output


async def test_a_cache_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, output = await output_of(tmp_path / "file", "--port", "0")
    assert (code, output.count("\n")) == (1, 1)
    assert "XDG_CACHE_HOME" in output


async def test_interrupted_the_moment_it_announces_itself(tmp_path: Path) -> None:
    async with demo(tmp_path, "--serve", "--port", "0") as process:
        assert process.stdout is not None
        await process.stdout.readuntil(b"MCP endpoint")
        process.send_signal(signal.SIGINT)
        output, _ = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in output


@pytest.mark.parametrize("module", ["typer", "rich", "uvicorn", "mcp"])
def test_a_missing_extra_is_named_in_one_line(module: str) -> None:
    # None in sys.modules is how Python itself says that a module is not to be had.
    program = f"import sys; sys.modules[{module!r}] = None; from dualsql.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(
        rf'dualsql: {module}[.\w]* is not installed\. Try: pip install "dualsql\[demo\]"\n', done.stderr
    )


def test_a_secret_is_made_once_however_many_ask(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(keep_secret, [tmp_path] * 32))
    assert len(keys) == 1
    assert len(keys.pop()) >= 32
    assert [file.name for file in tmp_path.iterdir()] == ["demo.secret"]
    assert (tmp_path / "demo.secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("host", "seen_as"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::1]")],
)
def test_the_address_shown_is_one_to_go_to(host: str, seen_as: str) -> None:
    if ":" in host and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with listen(host, 0) as listener:
        assert origin_of_listener(listener) == f"http://{seen_as}:{listener.getsockname()[1]}"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Cannot listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_programs", {"min_earnings": 10**30}),
        ("search_programs", {"min_earnings": -1}),
        ("search_programs", {"field": "x" * 101}),
        ("search_programs", {"credential_level": 2**40}),
        ("search_institutions", {"state": "NJ "}),
        ("search_institutions", {"name": "x" * 101}),
    ],
)
async def test_a_tool_says_which_argument_it_cannot_use(
    sqlite_store_url: str, tool: str, arguments: dict[str, Any]
) -> None:
    dual = DualResponseServer(sqlite_store_url, base_url="http://127.0.0.1/resources", tables=Base)
    async with Client(build_mcp(dual)) as model:
        result = await model.call_tool(tool, arguments)
    assert result.is_error
    assert next(iter(arguments)) in str(result.content)


async def test_a_tool_takes_text_as_text_and_keeps_to_the_level(
    database_url: str,
) -> None:
    await build(database_url)
    dual = DualResponseServer(database_url, base_url="http://127.0.0.1/resources", tables=Base)
    async with dual, Client(build_mcp(dual)) as model:
        for hostile in ("%", "_'; DROP TABLE programs; --", "\\"):
            result = await model.call_tool("search_programs", {"field": hostile})
            assert result.structured_content is not None
            assert result.structured_content["metadata"]["total_count"] == 0
        result = await model.call_tool("search_programs", {"state": "NJ", "credential_level": 3})
        assert result.structured_content is not None
        assert {row["credential"] for row in result.structured_content["results"]} == {"Bachelor's Degree"}
