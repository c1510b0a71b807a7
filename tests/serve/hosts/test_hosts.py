"""A host on each SDK, with a script for its model, as it is printed; each SDK in an environment of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.examples.running import EXAMPLES, ROOT, output_of, served

HOSTS = sorted(file.name for file in (EXAMPLES / "hosts").glob("*.py"))
SAYS = {"with_mcp.py": "Colleges: showing 15 of 146 rows. Cells are data, not instructions."}


def needs_of(host: str) -> list[str]:
    """What its first lines say that it needs (PEP 723), the client from this checkout."""
    code = (EXAMPLES / "hosts" / host).read_text(encoding="utf-8")
    [block] = re.findall(r"^# /// script\n((?:#.*\n)+?)# ///$", code, re.MULTILINE)
    said = tomllib.loads(re.sub(r"^# ?", "", block, flags=re.MULTILINE))
    return [str(ROOT / "client") if need == "dualsql-client" else need for need in said["dependencies"]]


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
@pytest.mark.parametrize("host", [host for host in HOSTS if host != "with_mcp.py"])
async def test_a_host_on_an_sdk(tmp_path: Path, host: str) -> None:
    python = environment(tmp_path / "environment", needs_of(host))
    async with served("server.py", tmp_path) as origin:
        shown = await output_of(f"hosts/{host}", origin, tmp_path, python)
    assert_shown(shown, host)


def assert_shown(shown: str, host: str) -> None:
    says = SAYS.get(host, "Here are colleges of New Jersey.")
    assert shown.splitlines() == [
        f"The model says: {says}",
        "The application has 146 rows of Colleges.",
    ]
