"""The start of `dualsql serve --stdio`: hosts give a server few seconds to its first answers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import IO, Any

import pytest
from mcp import Client
from mcp.client import advertise
from mcp.server import MCPServer
from mcp_types import Implementation
from sqlalchemy import MetaData

from dualsql import DualResponseServer, Settings, default_features
from dualsql.cli.checks import dialect_of, settings_of
from dualsql.cli.files import with_database
from dualsql.cli.options import ServeOptions
from dualsql.cli.serve import authenticate_of, kept_feature, pages_of
from dualsql.mcp.listing import UI_EXTENSION, low_level
from dualsql.serve import build_mcp
from dualsql.serve.stdio import OUTLINE, Started, outline
from tests.serve.conftest import PROGRAM, TOKEN, environment

# Each is needed by some command, format or database, and by no server before it is asked for that.
HEAVY = frozenset(
    """alembic asyncmy asyncpg duckdb fastmcp httpx jinja2 mako matplotlib numpy pandas polars psycopg pyarrow
    rapidfuzz sqlglot textual vl_convert""".split()
)

BARE = """
from mcp.server import MCPServer

server = MCPServer("bare")


@server.tool()
def greet(name: str) -> str:
    "Greets a person."
    return name


server.run("stdio")
"""


# A thread imports the server; the host hangs up at once, and the process ends once it is imported.
COLLECTIONS = """
import gc, sys

collections = []


def note(*_):
    server = sys.modules.get("dualsql.cli.serve")
    collections.append("sqlalchemy" in sys.modules and not hasattr(server, "serve_beside"))


gc.callbacks.append(note)
sys.argv = ["dualsql", "serve", "--stdio", "--all"]
from dualsql.cli import main
try:
    main()
finally:
    assert hasattr(sys.modules["dualsql.cli.serve"], "serve_beside")
    assert gc.get_freeze_count() and gc.isenabled()
    assert not any(collections), sum(collections)
"""

FROZEN = """
import gc
import sqlalchemy as sa
import dualsql.databases.duckdb
from dualsql.packages import importing
with importing():
    import duckdb_sqlalchemy
with sa.create_engine("duckdb:///:memory:").connect() as connection:
    connection.execute(sa.text("SELECT 1")).all()
"""

INITIALIZE: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}


class Host:
    """A host that starts a server and speaks MCP 2025-06-18 with it, line by line."""

    def __init__(self, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        self.process = process
        self._errors = errors
        self._to: IO[bytes] = process.stdin
        self._from: IO[bytes] = process.stdout

    def send(self, method: str, id_: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self._to.write(json.dumps(message if id_ is None else {**message, "id": id_}).encode() + b"\n")
        self._to.flush()

    def answer(self) -> dict[str, Any]:
        """The next message; empty if the server has ended."""
        return dict(json.loads(self._from.readline() or b"{}"))

    def shake_hands(self) -> list[str]:
        """The names of the server's tools."""
        self.send("initialize", 1, **INITIALIZE)
        assert self.answer()["id"] == 1
        self.send("notifications/initialized")
        self.send("tools/list", 2)
        return [tool["name"] for tool in self.answer()["result"]["tools"]]

    def errors(self) -> str:
        """All that the server has written on its standard error."""
        self._errors.seek(0)
        return self._errors.read().decode()

    def cpu_seconds(self) -> float:
        """What the process has used until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started(*command: str, **variables: str) -> Iterator[Host]:
    """A server of which a host has the standard streams; killed at the end of the block."""
    with (
        TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=-1, stdout=-1, stderr=errors, env=environment(**variables)
        ) as process,
    ):
        try:
            yield Host(process, errors)
        finally:
            process.kill()


def test_the_outline_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_outline.py"))
    assert script["text"]() == OUTLINE.read_text("utf-8"), "run: python scripts/make_outline.py"


URLS = (
    "sqlite://",
    "postgresql://u@h/x",
    "postgres://u@h/x",
    "mysql+asyncmy://u@h/x",
    "mariadb://u@h/x",
    "duckdb:///x",
)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "options",
    [
        ServeOptions(),
        ServeOptions(
            name="shop", sample_size=7, wait=1.0, results_format="columnar", token=TOKEN, text_format="csv"
        ),
    ],
)
async def test_the_outline_answers_as_the_server_that_is_started(url: str, options: ServeOptions) -> None:
    settings, notes, base_url = settings_of(options), "SKU: a part", "http://127.0.0.1:1/resources"
    dual = DualResponseServer(
        url,
        base_url=base_url,
        tables=MetaData(),
        settings=settings,
        features=default_features(kept_feature(options), pages_of(options)),
        authenticate=authenticate_of(options),
    )
    built = build_mcp(
        dual,
        name=options.name,
        notes=notes,
        wait=None if options.wait is None else timedelta(seconds=options.wait),
        results_format=options.results_format,
        text_format=options.text_format,
    )
    before = outline(
        Started(),
        settings,
        name=options.name,
        notes=notes,
        results_format=options.results_format,
        dialect=dialect_of(replace(options, database=url)),
        base_url=base_url,
        is_authenticated=options.token is not None,
    )
    for server_mode in ("auto", "legacy"):
        for client in ("mcp", "host"):
            for apps in ((), (advertise(UI_EXTENSION),)):
                connection: dict[str, Any] = {
                    "mode": server_mode,
                    "client_info": Implementation(name=client, version="1"),
                    "extensions": apps,
                }
                answers = []
                for server in (built, before):
                    async with Client(server, **connection) as model:
                        answers.append(
                            [
                                model.server_info,
                                model.server_capabilities,
                                model.instructions,
                                await model.list_tools(),
                                await model.list_prompts(),
                                await model.list_resource_templates(),
                            ]
                        )
                assert answers[0] == answers[1], connection
    assert before._request_handlers.keys() == low_level(built)._request_handlers.keys()


async def test_of_a_database_of_another_package_the_started_server_lists_the_tools() -> None:
    started, base_url = Started(), "http://127.0.0.1:1/resources"
    server = outline(
        started,
        Settings(),
        name="shop",
        notes="",
        results_format="rows",
        dialect="far",
        base_url=base_url,
        is_authenticated=False,
    )
    own: MCPServer[Any] = MCPServer("started")
    own.tool()(dialect_of)
    async with Client(server) as model:
        listing = asyncio.create_task(model.list_tools())
        assert (await model.list_prompts()).prompts
        assert not listing.done()
        started.set_server(own)
        assert [tool.name for tool in (await listing).tools] == ["dialect_of"]


@pytest.mark.parametrize(
    "names",
    [("a.csv",), ("a.sqlite",), ("a.DB",), ("a.duckdb",), ("a.sqlite", "b.csv"), ("a#.sqlite",), ("folder",)],
)
def test_the_kind_of_files_is_that_of_their_database(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "only.db").touch()
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.touch()
    options = ServeOptions(files=paths)
    with with_database(options, lambda _: None) as (complete, _):
        assert dialect_of(options) == dialect_of(replace(complete, files=None))


@pytest.mark.long
def test_no_package_is_imported_that_is_not_needed_yet(shop: str) -> None:
    program = [sys.executable, "-X", "importtime", *PROGRAM[1:], "serve", "--stdio", "--all"]
    with started(*program, DUALSQL_DATABASE_URL=shop) as host:
        assert "describe_table" in host.shake_hands()
        host.send("tools/call", 3, name="list_tables", arguments={})
        assert host.answer()["result"]["structuredContent"]["total"] == 3
        imported = set(re.findall(r"\| +([\w.]+)$", host.errors(), re.MULTILINE))
    assert imported > {"sqlalchemy", "dualsql.features", "mcp"}
    actual = imported & HEAVY
    assert actual == set()


@pytest.mark.long
def test_no_garbage_is_collected_during_imports(shop: str) -> None:
    variables = environment(DUALSQL_DATABASE_URL=shop)
    subprocess.run([sys.executable, "-c", COLLECTIONS], env=variables, check=True, stdin=subprocess.DEVNULL)


@pytest.mark.long
def test_the_end_of_the_process_is_quiet_after_frozen_imports() -> None:
    ran = subprocess.run([sys.executable, "-c", FROZEN], check=True, capture_output=True)
    assert ran.stderr == b"", "DuckDB's binding reports frozen objects as leaks"


@pytest.mark.long
async def test_the_handshake_is_answered_while_the_database_is_silent_and_no_call_is() -> None:
    connected: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await connected.put(writer)

    async with await asyncio.start_server(accept, "127.0.0.1") as silent:
        port = silent.sockets[0].getsockname()[1]
        url = f"postgresql://reader:secret@127.0.0.1:{port}/shop?ssl=disable"
        with started(*PROGRAM, "serve", "--stdio", "--all", DUALSQL_DATABASE_URL=url) as host:
            assert "execute_query" in await asyncio.to_thread(host.shake_hands)
            host.send("tools/call", 3, name="execute_query", arguments={"query": "SELECT 1"})
            (await connected.get()).close()  # the database is no database: the server cannot start
            await asyncio.to_thread(
                host.process.wait, 60
            )  # with its standard input open, whose end would end it too
            assert host.process.stdout is not None
            output = await asyncio.to_thread(host.process.stdout.read)
            # The SDK may still tell the caller that the connection is closed.
            assert [json.loads(line)["error"]["message"] for line in output.splitlines()] in (
                [],
                ["Connection closed"],
            )
            assert host.process.returncode == 1
            assert re.fullmatch(r"dualsql: [^\n]+\n", host.errors())
            assert "secret" not in host.errors()


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("--all", "--database", "no url"),
        ("--all", "--database", "nowhere://x"),
        ("--all", "--database", "sqlite:////nowhere/x.sqlite"),
        ("--all", "--database", "postgresql://u:p@127.0.0.1:1/x", "--token", "short"),
        ("nowhere.csv",),
    ],
)
def test_an_error_of_the_start_is_the_line_that_it_is_over_http(arguments: tuple[str, ...]) -> None:
    command = [*PROGRAM, "serve", *arguments]
    over_http = subprocess.run([*command, "--port", "0"], env=environment(), capture_output=True, check=False)
    with started(*command, "--stdio") as host:
        host.process.wait(60)
        assert host.process.returncode == over_http.returncode == 1
        assert host.errors().startswith("dualsql: ")
        assert host.errors() == over_http.stderr.decode()


@pytest.mark.long
@pytest.mark.parametrize(("names", "extra"), [([], "serve"), (["sales.csv"], "serve,files")])
def test_the_extra_is_named_that_has_a_missing_package(tmp_path: Path, names: list[str], extra: str) -> None:
    program = f"import sys; sys.modules['uvicorn'] = None; {PROGRAM[-1]}"
    files = [tmp_path / name for name in names]
    for file in files:
        file.touch()
    for option in ("--all", "--stdio"):
        with started(*PROGRAM[:-1], program, "serve", option, *map(str, files)) as host:
            host.process.wait(60)
            assert f'uvicorn is not installed. Try: pip install "dualsql[{extra}]"' in host.errors()


@pytest.mark.long
def test_a_host_that_gave_up_on_discovery_falls_back_to_the_older_handshake(shop: str) -> None:
    """As the AI SDK does, one second after it has started a server."""
    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    client = {"io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"}}
    meta = {**version, **client, "io.modelcontextprotocol/clientCapabilities": {}}
    with started(*PROGRAM, "serve", "--stdio", "--all", DUALSQL_DATABASE_URL=shop) as host:
        host.send("server/discover", 0, _meta=meta)
        host.send("initialize", 1, **INITIALIZE)
        # The late answer to the first request may come, or not: the host waits for it no more.
        answer = next(answer for answer in iter(host.answer, {}) if answer["id"] == 1)
        assert answer["result"]["protocolVersion"] == "2025-06-18"
        host.send("notifications/initialized")
        host.send("tools/call", 2, name="list_tables", arguments={})
        assert host.answer()["result"]["structuredContent"]["total"] == 3
        host.send("server/discover", 3, _meta=meta)
        assert host.answer()["error"]["code"] == -32600, "a connection keeps its version of the protocol"
    with started(*PROGRAM, "serve", "--stdio", "--all", DUALSQL_DATABASE_URL=shop) as host:
        host.send("tools/call", 1, name="list_tables", arguments={}, _meta=meta)
        assert host.answer()["result"]["structuredContent"]["total"] == 3
        host.send("initialize", 2, **INITIALIZE)
        assert host.answer()["error"]["code"] == -32022


@pytest.mark.long
def test_a_host_that_hangs_up_before_the_database_answers_leaves_no_process(shop: str) -> None:
    with started(*PROGRAM, "serve", "--stdio", "--all", DUALSQL_DATABASE_URL=shop) as host:
        host.process.communicate(timeout=60)
        assert host.process.returncode == 0


@pytest.mark.long
def test_the_first_answers_take_little_longer_than_those_of_a_bare_server(shop: str, tmp_path: Path) -> None:
    """At most 1.4 times as long, with bytecode in place: the first run of each, which writes it, does not count."""
    variables = {
        "PYTHONPYCACHEPREFIX": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "",
        "DUALSQL_DATABASE_URL": shop,
    }
    commands = {
        "bare": [sys.executable, "-c", BARE],
        "dualsql": [*PROGRAM, "serve", "--stdio", "--all"],
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(8):
        for name, command in commands.items():
            begin = time.perf_counter()
            with started(*command, **variables) as host:
                host.shake_hands()
                seconds[name].append((time.perf_counter() - begin, host.cpu_seconds()))
    for of_wall_or_cpu in (0, 1):
        # Of neighbours: what else runs on the machine slows both.
        ratios = [
            ours[of_wall_or_cpu] / bare[of_wall_or_cpu]
            for bare, ours in zip(seconds["bare"][1:], seconds["dualsql"][1:], strict=True)
        ]
        assert median(ratios) <= 1.4, seconds
