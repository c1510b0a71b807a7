"""The packed JavaScript client: installed in an empty folder, on the machine's node, under tsc, and in a browser."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tests.client.hosting import listening_socket, origin_of, serving
from tests.javascript.running import HERE, INSTALLED, PACKAGE, application_with, packed, run
from tests.javascript.serving import ROWS, given_to_client
from tests.web.browser import chromium, needs_chromium

SCHEMAS = PACKAGE.parent / "client" / "dualsql_client" / "schemas"
TYPES = (
    "openapi.d.ts", "wire.d.ts", "json.d.ts", "errors.d.ts", "addresses.d.ts", "budget.d.ts",
    "transport.d.ts", "stream.d.ts",
    "links.d.ts", "walk.d.ts", "detect.d.ts", "result.d.ts", "client.d.ts", "index.d.ts",
)  # fmt: skip

pytestmark = pytest.mark.skipif(
    not INSTALLED.exists(), reason="TypeScript is not installed (make test-javascript)"
)


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the packed client is installed, and nothing else."""
    folder = tmp_path_factory.mktemp("packed")
    return application_with(folder, packed(folder), "--offline")


def entry_of(application: Path) -> Path:
    return application / "node_modules" / "dualsql-client" / "dist" / "index.js"


def test_the_package_has_what_it_needs_and_nothing_else(application: Path) -> None:
    with tarfile.open(next(application.parent.glob("*.tgz"))) as file:
        names = {name.removeprefix("package/") for name in file.getnames()}
    built = {f"dist/{name.replace('.d.ts', kind)}" for name in TYPES for kind in (".d.ts", ".js")}
    schemas = {f"schemas/{path.name}" for path in SCHEMAS.iterdir()}
    assert names == {"LICENSE", "README.md", "package.json", *built, *schemas}
    assert json.loads((application / "package-lock.json").read_text())["packages"].keys() == {
        "",
        "node_modules/dualsql-client",
    }


@pytest.mark.parametrize("program", ["json.test.mjs", "client.test.mjs"])
async def test_it_runs_on_the_machine_s_node(application: Path, program: str, sqlite_url: str) -> None:
    async with given_to_client(sqlite_url, is_cut=program == "client.test.mjs") as given:
        await run(shutil.which("node") or "node", program, given=given, client=entry_of(application))


@pytest.mark.parametrize("resolution", ["nodenext", "bundler"])
async def test_an_application_in_typescript_type_checks(application: Path, resolution: str) -> None:
    shutil.copy(HERE / "consumer.ts", application)
    await check_types(application, resolution, "consumer.ts")


async def check_types(application: Path, resolution: str, *files: str) -> None:
    module = {"nodenext": "nodenext", "bundler": "esnext"}[resolution]
    await run(
        INSTALLED / ".bin" / "tsc", "--strict", "--noEmit", "--exactOptionalPropertyTypes", "--target", "es2022",
        "--lib", "es2022,dom,dom.iterable,dom.asynciterable", "--module", module, "--moduleResolution", resolution,
        *files, folder=application,
    )  # fmt: skip


DECLARED = """import { DualClient, DualResult, FetchError } from "dualsql-client";
declare const session: { token: string }, messages: unknown, toolResult: unknown, signal: AbortSignal;
declare function show(rows: unknown): void;
declare function offer(hint: string): void;
declare function save(name: string, file: Blob): Promise<void>;
declare function salesToken(): Promise<string>;
"""


async def test_the_code_of_the_documents_type_checks(application: Path) -> None:
    documents = [PACKAGE / "README.md", PACKAGE.parent / "docs" / "javascript.md"]
    for number, document in enumerate(documents):
        blocks = re.findall(r"^```ts\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
        code = re.sub(r"^import .*$", "", "\n".join(blocks), flags=re.MULTILINE)
        declares = "" if "const result = " in code else "declare const result: DualResult;\n"
        (application / f"document{number}.ts").write_text(f"{DECLARED}{declares}{code}\nexport {{}};\n")
        assert blocks
    await check_types(application, "nodenext", "document0.ts", "document1.ts")


@asynccontextmanager
async def host_of(application: Path) -> AsyncIterator[str]:
    """The origin of an application's page, which has the client."""
    routes = [
        Route("/", lambda _: HTMLResponse("<!doctype html><link rel=icon href='data:,'><title>Host</title>")),
        Route("/redirect/{id}", lambda _: RedirectResponse("/", 307), methods=["POST"]),
        Mount("/client", StaticFiles(directory=entry_of(application).parent)),
        Mount("/programs", StaticFiles(directory=HERE)),
    ]
    with listening_socket() as bound:
        async with serving(Starlette(routes=routes), bound):
            yield origin_of(bound)


@needs_chromium
async def test_a_page_of_another_origin_gets_every_row(application: Path, sqlite_url: str) -> None:
    async with (
        host_of(application) as host,
        given_to_client(sqlite_url, cors_origins=[host]) as given,
        chromium() as browser,
    ):
        # Not a `tab`: it takes what the console says of a cut connection for a fault.
        page = await browser.new_page()
        await page.goto(host)
        script = "async (given) => (await import('/programs/page.mjs')).read(given)"
        document = json.loads(await page.evaluate(script, given))
    assert document["rows"] == document["paged"] == document["cut"] == given["rows"]
    assert (document["file"], document["text"].count("\r\n")) == ("Schools.csv", 1 + len(ROWS))
    assert (document["code"], document["pinned"]) == (["UNKNOWN_COLUMN", "string"], None)


@needs_chromium
async def test_a_page_learns_why_it_gets_nothing(application: Path, sqlite_url: str) -> None:
    async with (
        host_of(application) as host,
        given_to_client(sqlite_url, is_cut=False) as given,
        chromium() as browser,
    ):
        page = await browser.new_page()
        await page.goto(host)
        script = "async (given) => (await import('/programs/page.mjs')).refused(given)"
        foreign, redirected = await page.evaluate(script, given)
    assert foreign[:2] == ["FetchError", "FETCH_ERROR"]
    assert redirected[2] == "The server redirects; redirects are not followed."
