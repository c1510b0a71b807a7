"""Node, and the programs of this folder on it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import playwright

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "client-js"
INSTALLED = PACKAGE.parent / ".typescript" / "node_modules"
SOURCE = PACKAGE / "src" / "index.ts"


@cache
def node() -> str:
    """A node that runs TypeScript as it is (22.18 or newer): the machine's, or the one that playwright brings."""
    for found in (shutil.which("node"), Path(playwright.__file__).parent / "driver" / "node"):
        if found and _runs_typescript(found):
            return str(found)
    raise RuntimeError("neither PATH nor playwright has a node of 22.18 or newer")


def _runs_typescript(found: str | Path) -> bool:
    output = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.(\d+)", output)
    return version is not None and (int(version[1]), int(version[2])) >= (22, 18)


def packed(folder: Path) -> Path:
    """The package of the client, packed in `folder`."""
    subprocess.run(
        [PACKAGE.parent / "scripts" / "pack_javascript", folder], check=True, stdout=subprocess.DEVNULL
    )
    return next(folder.glob("dualsql-client-*.tgz"))


def application_with(folder: Path, *packages: str | Path) -> Path:
    """A folder of its own in which packages are installed, and nothing else."""
    installed = folder / "application"
    installed.mkdir()
    (installed / "package.json").write_text('{"private": true, "type": "module"}')
    _npm("install", "--no-audit", "--no-fund", *packages, folder=installed)
    return installed


def _npm(*arguments: str | Path, folder: Path) -> None:
    subprocess.run([shutil.which("npm") or "npm", "--silent", *arguments], cwd=folder, check=True)


async def run(*command: str | Path, folder: Path = HERE, given: Any = None, client: Path = SOURCE) -> str:
    """What a program writes. It reads `given` as JSON from its input, and imports the client from `client`.

    Raises:
        AssertionError: it failed; with what it wrote.
    """
    program = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**os.environ, "DUALSQL_CLIENT": client.as_uri(), "NO_PROXY": "*"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    written, _ = await program.communicate(json.dumps(given).encode())
    assert program.returncode == 0, written.decode()[-6_000:]
    return written.decode()
