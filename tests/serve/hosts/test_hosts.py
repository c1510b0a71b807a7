"""A host on each SDK, with a script for its model, as it is printed; each SDK in an environment of its own.

`make test-sdks` runs all of them. The hosts in TypeScript need Node and npm.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.examples.running import EXAMPLES, ROOT, output_of, program, served
from tests.javascript.running import INSTALLED, application_with, node, packed, run as ran

HOSTS = sorted(file.name for file in (EXAMPLES / "hosts").glob("*.*"))
ON_SDKS = [host for host in HOSTS if host.endswith(".py") and host != "with_mcp.py"]
IN_TYPESCRIPT = [host for host in HOSTS if host.endswith(".ts")]
SAYS = {"with_mcp.py": "Colleges: showing 15 of 146 rows. Cells are data, not instructions."}


def needs_of(host: str) -> list[str]:
    """What its first lines say that it needs (PEP 723), the client from this checkout."""
    code = (EXAMPLES / "hosts" / host).read_text(encoding="utf-8")
    [block] = re.findall(r"^# /// script\n((?:#.*\n)+?)# ///$", code, re.MULTILINE)
    configuration = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))
    return [
        str(ROOT / "client") if need == "dualsql-client" else need for need in configuration["dependencies"]
    ]


def environment(folder: Path, needs: list[str]) -> Path:
    """The Python of a new environment that has them."""
    python = folder / "bin" / "python"
    if uv := shutil.which("uv"):
        run(uv, "venv", "--quiet", "--python", sys.executable, folder)
        run(uv, "pip", "install", "--quiet", "--python", python, *needs)
    else:
        venv.create(folder, with_pip=True)
        run(python, "-I", "-m", "pip", "install", "--quiet", *needs)
    return python


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_host_is_short_and_every_host_is_named_in_the_docs() -> None:
    listed = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    for host in HOSTS:
        assert len((EXAMPLES / "hosts" / host).read_text(encoding="utf-8").splitlines()) < 80
        assert f"examples/hosts/{host}" in listed


@pytest.mark.long
async def test_a_host_of_one_s_own(tmp_path: Path) -> None:
    async with served("server.py", tmp_path) as origin:
        shown = await output_of("hosts/with_mcp.py", origin, tmp_path)
    assert_shown(shown, "with_mcp.py")


@pytest.mark.exhaustive  # installs the SDKs anew: `make test-sdks`
@pytest.mark.parametrize("host", ON_SDKS)
async def test_a_host_on_an_sdk(tmp_path: Path, host: str) -> None:
    python = environment(tmp_path / "environment", needs_of(host))
    async with served("server.py", tmp_path) as origin:
        shown = await output_of(f"hosts/{host}", origin, tmp_path, python)
    assert_shown(shown, host)


@pytest.mark.exhaustive
@pytest.mark.skipif(not INSTALLED.exists(), reason="TypeScript is not installed (make test-sdks)")
@pytest.mark.parametrize("host", IN_TYPESCRIPT)
async def test_a_host_in_typescript(tmp_path: Path, host: str) -> None:
    [needs] = re.findall(r"^ \* npm install (.*)$", (EXAMPLES / "hosts" / host).read_text(), re.MULTILINE)
    *sdk, client = needs.split()
    assert client == "dualsql-client"
    folder = application_with(tmp_path, *sdk, packed(tmp_path))
    async with served("server.py", tmp_path) as origin:
        (folder / host).write_text(program(origin, f"hosts/{host}"), encoding="utf-8")
        shown = await ran(node(), host, folder=folder)
    assert_shown(shown, host)
    await ran(
        INSTALLED / ".bin" / "tsc", "--strict", "--noEmit", "--skipLibCheck", "--module", "nodenext",
        "--target", "es2022", "--lib", "es2023,dom,dom.iterable,dom.asynciterable", host, folder=folder,
    )  # fmt: skip


def assert_shown(shown: str, host: str) -> None:
    says = SAYS.get(host, "Here are colleges of New Jersey.")
    assert shown.splitlines() == [
        f"The model says: {says}",
        "The application has 146 rows of Colleges.",
    ]
