"""A TypeScript client whose types are generated from /openapi.json of a running server."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql.openapi.operations import OPENAPI
from tests.client.hosting import listening_socket, origin_of, serving
from tests.docs.blocks import blocks_of
from tests.http.application import ALL, METADATA, ROWS
from tests.servers import create_server

HERE = Path(__file__).parent
INSTALLED = HERE.parents[2] / ".typescript" / "node_modules"

pytestmark = pytest.mark.skipif(
    not INSTALLED.exists(), reason="TypeScript is not installed (make test-typescript)"
)


async def run(folder: Path, *command: str) -> str:
    """What a program writes.

    Raises:
        AssertionError: it failed; with what it wrote.
    """
    program = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    written, _ = await program.communicate()
    assert program.returncode == 0, written.decode()
    return written.decode()


@pytest.fixture
async def base_url(institutions_url: str) -> AsyncIterator[tuple[str, str]]:
    """The base URL of a server, and the id of a result with all institutions."""
    with listening_socket() as listening:
        url = f"{origin_of(listening)}/resources"
        server = create_server(institutions_url, base_url=url, tables=METADATA, pages=True)
        app = Starlette(routes=[Mount("/resources", server.router())])
        async with server, serving(app, listening):
            response = await server.create_response(ALL, name="All")
            yield url, response.resource_id


def documented() -> str:
    """The program of docs/openapi.md."""
    [block] = [block for block in blocks_of("docs/openapi.md") if block.language == "ts"]
    # A bundler finds the types without their ending, and node with it.
    return "declare const id: string;\n" + block.code.replace('"./dualsql"', '"./dualsql.js"')


async def test_a_generated_client_type_checks_and_reads_every_row(
    base_url: tuple[str, str], tmp_path: Path
) -> None:
    url, resource_id = base_url
    for source in (*HERE.glob("*.ts"), HERE / "package.json"):
        shutil.copy(source, tmp_path)
    (tmp_path / "documented.ts").write_text(documented(), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(INSTALLED)
    tools = INSTALLED / ".bin"
    await run(tmp_path, str(tools / "openapi-typescript"), url + OPENAPI, "-o", "dualsql.d.ts")
    await run(
        tmp_path, str(tools / "tsc"), "--strict", "--module", "nodenext", "--target", "es2022",
        "--lib", "es2022,dom", "--noUncheckedIndexedAccess", "--noUnusedLocals",
        "page.ts", "mistakes.ts", "documented.ts",
    )  # fmt: skip
    document = json.loads(await run(tmp_path, "node", "page.js", url, resource_id))
    assert [row["id"] for row in document["rows"]] == [row["id"] for row in ROWS]
    assert document["columns"] == [column.name for column in ALL.selected_columns]
    assert document["unknown"] == "RESOURCE_NOT_FOUND"
    assert document["lines"] == len(ROWS) + 1  # and the summary
