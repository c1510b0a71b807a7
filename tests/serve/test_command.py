"""`dualsql serve` as a person runs it: a process of its own, real sockets, and errors of one line."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from mcp.client.stdio import stdio_client
from sqlalchemy import MetaData, make_url
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from dualsql import ConfigurationError, Registry
from dualsql.cli.commands import app
from dualsql.cli.options import PANELS, ServeOptions
from dualsql.cli.serve import _port_notice
from dualsql.databases.reach import reach
from dualsql.databases.source import open_source
from dualsql.mcp.listing import UI_EXTENSION
from dualsql.store import upgrade
from dualsql_client import DualResponseClient
from tests.engines import PostgreSQL, opened
from tests.relay import Relay, relaying
from tests.serve.conftest import PROGRAM, TOKEN, calling, environment, serving_process, text_of

PASSWORD = "hunter2-of-the-database"
SECRET = "a secret of at least thirty-two characters"
ELSEWHERE = ["--all", "--stdio", "--store", "sqlite://", "--rest-url"]


@pytest.mark.long
async def test_a_database_is_served_until_somebody_stops_it(shop: str) -> None:
    async with serving_process("--database", shop, "--all") as served:
        assert "Serving 3 tables of SQLite" in served.said
        for host in ("claude mcp add --transport http dualsql http", '{"servers": {"dualsql"', "Cursor"):
            assert host in served.said
        async with (
            Client(f"{served.origin}/mcp") as model,
            DualResponseClient(f"{served.origin}/resources") as application,
        ):
            query = "SELECT id, price FROM parts WHERE maker_id = :maker ORDER BY id"
            result = await model.call_tool("execute_query", {"query": query, "parameters": {"maker": 7}})
            assert "all 25 rows" in text_of(result)
            rows = await application.parse(result, strict=True).fetch_all()
            assert len(rows) == 25
            refused = await model.call_tool("execute_query", {"query": "DELETE FROM parts"})
            assert refused.is_error
            assert text_of(refused).startswith("FORBIDDEN_SQL")
        assert await served.stop(signal.SIGINT) == "Stopped.\n"
        assert served.process.returncode == 0


@pytest.mark.long
async def test_every_line_of_the_log_is_json_also_of_the_http_server(shop: str) -> None:
    async with serving_process("--database", shop, "--all", "--log", "json") as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(served.origin).port)
        writer.write(b"GET / HTTP/1.1\r\nX-Request-Id: \x1b[2K\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        lines = (await served.stop()).splitlines()
    assert lines.pop() == "Stopped.", "it is for a person"
    assert [json.loads(line)["logger"] for line in lines] == ["uvicorn.error"]


@pytest.mark.long
async def test_health_checks_have_a_port_of_their_own(shop: str) -> None:
    async with serving_process("--database", shop, "--all", "--admin-port", "0", "--token", TOKEN) as served:
        async with httpx.AsyncClient() as http:
            for path in ("/live", "/ready"):
                assert (await http.get(served.admin + path)).status_code == 200
                assert (await http.get(served.origin + path)).status_code == 404
            assert (await http.get(f"{served.admin}/resources/")).status_code == 404
        assert await served.stop() == "Stopped.\n"


@pytest.mark.long
async def test_over_stdio_with_the_rows_over_http(shop: str, tmp_path: Path) -> None:
    log = tmp_path / "said"
    parameters = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "serve", "--stdio", "--tables", "parts, makers", "--sample-size", "7"],
        env=environment(DUALSQL_DATABASE_URL=shop),
    )
    with log.open("w") as errors:
        async with Client(stdio_client(parameters, errlog=errors)) as model:
            result = await model.call_tool("execute_query", {"query": "SELECT * FROM parts"})
            structure = result.structured_content
            assert isinstance(structure, dict)
            assert structure["metadata"]["sample_count"] == 7
            base_url = structure["resource"]["url"].rpartition("/")[0]
            async with DualResponseClient(base_url) as application:
                assert len(await application.parse(result, strict=True).fetch_all()) == 1_000
            unknown = await model.call_tool("execute_query", {"query": "SELECT * FROM dear_parts"})
            assert unknown.is_error, "only what was named is served"
    assert "Serving 2 tables" in log.read_text()
    assert "REST ends with this process" in log.read_text()
    assert '"--tables", "parts,makers", "--sample-size", "7"' in log.read_text(), (
        "hosts start the same server"
    )
    assert "Traceback" not in log.read_text()


@pytest.mark.long
async def test_the_server_of_the_handshake_lists_what_the_started_one_lists(
    shop: str, tmp_path: Path
) -> None:
    """Over stdio another server answers which tools there are, before tables are read; over HTTP the started one."""
    parameters = StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], "serve", "--stdio", "--all"],
        env=environment(DUALSQL_DATABASE_URL=shop),
    )
    with (tmp_path / "said").open("w") as errors:
        async with (
            serving_process("--database", shop, "--all") as served,
            Client(f"{served.origin}/mcp", extensions=[advertise(UI_EXTENSION)]) as over_http,
            Client(
                stdio_client(parameters, errlog=errors), extensions=[advertise(UI_EXTENSION)]
            ) as over_stdio,
        ):
            actual = [
                {
                    "tools": (await model.list_tools()).model_dump(mode="json")["tools"],
                    "prompts": (await model.list_prompts()).model_dump(mode="json")["prompts"],
                    "resources": sorted(each.uri for each in (await model.list_resources()).resources),
                    "app": (await model.read_resource("ui://dualsql/result.html")).contents[0].model_dump(),
                }
                for model in (over_http, over_stdio)
            ]
    assert actual[0] == actual[1]
    [app] = [tool for tool in actual[0]["tools"] if tool["name"] == "dualsql_app_rows"]
    assert app["meta"]["ui"]["visibility"] == ["app"]
    assert {"ui://dualsql/result.html", "skill://dual-responses/SKILL.md"} <= {*actual[0]["resources"]}


@pytest.mark.long
async def test_over_stdio_it_ends_when_told_to_though_the_host_is_silent(shop: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "serve", "--stdio", "--all",
        env=environment(DUALSQL_DATABASE_URL=shop),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stdout is not None
    await process.stderr.readuntil(b"The server stops when the host closes it.\n")
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await process.wait() == 0
    assert await process.stderr.read() == b"Stopped.\n"
    assert await process.stdout.read() == b""


@pytest.mark.long
async def test_a_token_opens_both_doors_and_is_never_shown(shop: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.sqlite'}"
    (tmp_path / "store.sqlite").touch()
    await asyncio.to_thread(upgrade, store)
    variables = {"DUALSQL_TOKEN": TOKEN, "DUALSQL_SECRET": SECRET, "DUALSQL_STORE": store, "DUALSQL_ALL": "1"}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with serving_process("--database", shop, **variables) as served:
        assert TOKEN not in served.said
        assert SECRET not in served.said
        assert "Bearer $DUALSQL_TOKEN" in served.said
        async with httpx.AsyncClient() as stranger:
            for credential in ({}, {"Authorization": "Bearer wrong-wrong-wrong-wrong"}):
                refused = await stranger.post(f"{served.origin}/mcp", json={}, headers=credential)
                assert refused.status_code == 401
                assert "Bearer" in refused.headers["www-authenticate"]
                assert (
                    await stranger.get(f"{served.origin}/resources/", headers=credential)
                ).status_code == 401
        async with calling(served.origin, bearer) as model:
            result = await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})
        structure = result.structured_content
        assert isinstance(structure, dict)
        url, path = structure["resource"]["url"], structure["resource"]["url"].rpartition("/")[2]
        async with httpx.AsyncClient() as http1:
            assert (await http1.get(url)).status_code == 401
            assert (await http1.get(url, headers=bearer)).json()["total_count"] == 40
        assert TOKEN not in await served.stop()
    async with serving_process("--database", shop, **variables) as again, httpx.AsyncClient() as http2:
        kept = await http2.get(f"{again.origin}/resources/{path}", headers=bearer)
        assert kept.json()["total_count"] == 40, "what is kept in a store outlives the process"


@pytest.mark.long
async def test_a_process_for_each_call_hands_out_links_of_a_server_that_stays(
    shop: str, tmp_path: Path
) -> None:
    (tmp_path / "store.sqlite").touch()
    store = f"sqlite:///{tmp_path / 'store.sqlite'}"
    await asyncio.to_thread(upgrade, store)
    variables = {"DUALSQL_DATABASE_URL": shop, "DUALSQL_SECRET": SECRET, "DUALSQL_STORE": store}
    log = tmp_path / "said"
    async with serving_process("--all", **variables) as served:
        rest_url = f"{served.origin}/resources"
        parameters = StdioServerParameters(
            command=PROGRAM[0],
            args=[*PROGRAM[1:], "serve", "--stdio", "--all", "--rest-url", rest_url],
            env=environment(**variables),
        )
        with log.open("w") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as model:
                extensions = model.server_capabilities.extensions or {}
                assert rest_url in str(extensions), "what is announced before the tables are read"
                result = await model.call_tool("execute_query", {"query": "SELECT * FROM parts"})
        async with DualResponseClient(rest_url) as application:  # the process of the call has ended
            assert len(await application.parse(result, strict=True).fetch_all()) == 1_000
    assert f"{rest_url}/<id> (served by another process" in log.read_text()
    assert "MCP endpoint" not in log.read_text()


NOTES = """\
Prices are in Swiss francs, without tax.

- A "dear" part costs more than 90.
- SKU is another word for the id of a part.
"""


@pytest.mark.long
async def test_what_a_model_reads_is_the_operators_choice(shop: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text(NOTES, encoding="utf-8")
    flags = (
        "--sample-size",
        "3",
        "--text-format",
        "csv",
        "--results-format",
        "columnar",
        "--notes",
        str(notes),
    )
    variables = {"DUALSQL_ALL": "1", "DUALSQL_COUNT_BUDGET": "5"}
    async with (
        serving_process("--database", shop, *flags, **variables) as served,
        Client(f"{served.origin}/mcp") as model,
    ):
        result = await model.call_tool("execute_query", {"query": "SELECT id, price FROM parts ORDER BY id"})
        answer = await model.call_tool("search_catalog", {"terms": ["sku", "tax francs", "dear", "nowhere"]})
        instructions = model.instructions or ""
    structure = result.structured_content
    assert isinstance(structure, dict)
    assert structure["results"] == {"id": [1, 2, 3], "price": [1.5, 2.5, 3.5]}
    assert "3 of 1,000 rows" in text_of(result)
    assert "id,price\n1,1.5\n" in text_of(result).replace("\r\n", "\n")
    assert instructions.endswith(NOTES)
    searched = answer.structured_content
    assert isinstance(searched, dict)
    assert searched["notes"] == [
        "- SKU is another word for the id of a part.",
        "Prices are in Swiss francs, without tax.",
        '- A "dear" part costs more than 90.',
    ]
    assert searched["unmatched"] == ["nowhere"]


@pytest.mark.long
async def test_a_refused_origin_or_host_is_told_the_flag_that_allows_it(shop: str) -> None:
    page, name = "https://app.example", "shop.example"
    flags = ("--cors-origins", f"{page}, https://b.example", "--allowed-hosts", name)
    async with serving_process("--database", shop, "--all", *flags) as served, httpx.AsyncClient() as http:
        for url in (f"{served.origin}/mcp", f"{served.origin}/resources/"):
            for header, flag in (("origin", "--cors-origins"), ("host", "--allowed-hosts")):
                refused = await http.get(
                    url, headers={header: "https://evil.example"[8 * (header == "host") :]}
                )
                assert (refused.status_code, flag in refused.json()["hint"]) == (403, True)
            assert (await http.get(url, headers={"origin": page, "host": name})).status_code != 403
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    assert {"--cors-origins", "--allowed-hosts"} <= {
        flag for each in group.commands["serve"].params for flag in each.opts
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("origins", "allowed", "refused"),
    [
        (None, [], ["https://app.example", "https://evil.example"]),
        ("https://app.example", ["https://app.example"], ["https://evil.example"]),
        ("*", ["https://app.example", "https://evil.example"], []),
    ],
)
async def test_mcp_and_rest_are_at_the_port_and_for_the_origins_of_the_options(
    shop: str, origins: str | None, allowed: list[str], refused: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {} if origins is None else {"DUALSQL_CORS_ORIGINS": origins}
    async with (
        serving_process("--database", shop, "--all", "--port", str(port), **variables) as served,
        httpx.AsyncClient() as http,
    ):
        assert f"http://127.0.0.1:{port}/mcp" in served.said
        for path in ("/mcp", "/resources/x"):
            for origin in (*allowed, *refused):
                asking = {"origin": origin, "access-control-request-method": "POST"}
                answer = await http.options(f"http://127.0.0.1:{port}{path}", headers=asking)
                origin_of_answer = answer.headers.get("access-control-allow-origin")
                assert (answer.status_code, origin_of_answer in {origin, "*"}) == (
                    (200, True) if origin in allowed else (403, False)
                )
        assert (await http.get(f"http://127.0.0.1:{port}/mcp")).status_code == 405


@pytest.mark.long
async def test_callers_and_addresses_are_limited_as_the_operator_says(shop: str) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    flags = ("--all", "--rate-limits", "create=1/2", "--address-rate-limits", "ask=1/3")
    async with (
        serving_process("--database", shop, *flags, DUALSQL_TOKEN=TOKEN) as served,
        calling(served.origin, bearer) as model,
        httpx.AsyncClient(headers=bearer) as http,
    ):
        results = [
            await model.call_tool("execute_query", {"query": f"SELECT * FROM makers LIMIT {limit}"})
            for limit in (5, 6, 7)
        ]
        url = results[0].structured_content["resource"]["url"]
        pages = [await http.get(url, params={"limit": limit}) for limit in (1, 2, 3, 4)]
    assert [bool(result.is_error) for result in results] == [False, False, True]
    assert "creates results too often" in text_of(results[-1])
    assert [page.status_code for page in pages] == [200, 200, 200, 429]
    assert pages[-1].json()["code"] == "RATE_LIMITED" and int(pages[-1].headers["retry-after"]) > 0


def one_line(*arguments: str, command: str = "serve", **variables: str) -> str:
    """The one line in which the command ends."""
    done = CliRunner().invoke(app, [command, *arguments], env={**dict.fromkeys(_VARIABLES), **variables})
    assert done.exit_code == 1, done.output
    line = done.output.rstrip("\n")
    assert line.startswith("dualsql: ")
    assert "\n" not in line
    assert PASSWORD not in line
    return line


_VARIABLES = (
    "DUALSQL_ALL DUALSQL_SCHEMA DUALSQL_TABLES DUALSQL_TOKEN DUALSQL_STORE DUALSQL_SECRET DUALSQL_AUTHENTICATE "
    "DUALSQL_DATABASE_URL DUALSQL_HOST DUALSQL_PORT DUALSQL_READ_ONLY_ROLE DUALSQL_BASE_URL DUALSQL_STDIO "
    "DUALSQL_NOTES DUALSQL_CORS_ORIGINS"
).split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "abc"], "'abc' is not a whole number."),
        (["--port", "99999"], "99999 is more than 65535."),
        (["--wait", "long"], "'long' is not a number."),
        (["--text-format", "md"], "'md' is not one of 'markdown',"),
    ],
)
def test_values_that_are_no_parameters(arguments: list[str], message: str) -> None:
    refused = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["serve", *arguments])
    assert refused.exit_code == 2 and message in refused.output and "Value error" not in refused.output


def test_variables_that_no_option_reads_are_named() -> None:
    variables = {"DUALSQL_TOKN": TOKEN, "DUALSQL_SECRET": TOKEN, "DUALSQL_SERVICE_HOST": "10.0.0.1"}
    done = CliRunner(env=variables).invoke(app, ["openapi"])
    assert done.exit_code == 0
    assert done.stderr == (
        "dualsql: Ignored, because no option reads them: DUALSQL_SERVICE_HOST, DUALSQL_TOKN "
        "(did you mean DUALSQL_TOKEN?).\n"
    )


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give --schema, --tables or --all."),
        (["--all", "--schema", "main"], "--schema and --all cannot be combined"),
        (["--tables", "partz"], "The database has no table 'partz'. Did you mean parts"),
        (["--schema", "nowhere"], "The database has no schema 'nowhere'."),
        (["--all", "--read-only-role", "r"], "SQLite has no roles"),
        (["--all", "--host", "0.0.0.0"], "DUALSQL_TOKEN"),
        (["--all", "--host", "0.0.0.0", "--token", TOKEN], "--base-url"),
        (["--all", "--token", "short"], "must have 16 or more"),
        (["--all", "--token", TOKEN + "é"], "printable ASCII characters"),
        (["--all", "--token", TOKEN, "--authenticate", "a:b"], "cannot be combined"),
        (
            ["--all", "--authenticate", "nowhere:x"],
            "'nowhere:x' cannot be imported: No module named 'nowhere'",
        ),
        (["--all", "--authenticate", "json:dumps"], "is not an async function"),
        (["--all", "--store", "sqlite:///x.sqlite"], "DUALSQL_SECRET"),
        (["--all", "--base-url", "https://shop.example"], "DUALSQL_TOKEN"),
        (["--all", "--token", TOKEN, "--base-url", "ftp://x"], "must be an absolute URL"),
        (["--all", "--rest-url", "http://x/r"], "--rest-url requires --stdio and --store."),
        (["--all", "--stdio", "--rest-url", "http://x/r"], "--rest-url requires --stdio and --store."),
        (["--all", "--store", "sqlite://", "--rest-url", "http://x/r"], "requires --stdio and --store."),
        ([*ELSEWHERE, "http://x/r"], "cannot be combined with --port"),
        ([*ELSEWHERE, "http://x/"], "with its path"),
        (["--all", "--notes", "nowhere.md"], "--notes: 'nowhere.md' cannot be read as a text in UTF-8."),
        (["--all", "--notes", "README.md"], "The notes for the model have"),
        (["--all", "--cors-origins", "app.example"], "--cors-origins: 'app.example' is not an origin."),
        (["--all", "--cors-origins", "https://app.example/page"], "is not an origin."),
    ],
)
def test_options_that_cannot_be_used(shop: str, arguments: list[str], message: str) -> None:
    port = [] if "with its path" in message else ["--port", "0"]
    assert message in one_line("--database", shop, *port, *arguments)


def test_metrics_without_their_packages_are_one_line(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)  # as where it is not installed
    arguments = ["--database", shop, "--all", "--port", "0", "--metrics", "--admin-port", "0"]
    assert 'pip install "dualsql[prometheus]"' in one_line(*arguments)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"no url {PASSWORD}", "is malformed"),
        (f"oracle://u:{PASSWORD}@h/x", "oracledb is not installed"),
        ("sqlite:////nowhere/x.sqlite", "There is no SQLite database"),
        (f"sqlite:///{__file__}", "no database of this kind"),
        (f"duckdb:///{__file__}", "no database of this kind"),
        ("duckdb:////nowhere/x.duckdb", "rights on the file and its folder"),
    ],
)
def test_databases_that_cannot_be_used(url: str, message: str) -> None:
    assert message in one_line("--all", "--port", "0", DUALSQL_DATABASE_URL=url)


HOLDER = """
import sys
import duckdb
connection = duckdb.connect(sys.argv[1])
connection.execute("CREATE TABLE t AS SELECT 1 AS a")
print(flush=True)
sys.stdin.read()
"""


def test_a_database_file_that_another_program_has_open_is_called_that(tmp_path: Path) -> None:
    path = str(tmp_path / "own.duckdb")
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=-1, stdout=-1) as holder:
        assert holder.stdout and holder.stdout.readline()
        assert "Another program has the database file open. Close" in one_line("--port", "0", path)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
async def test_a_database_that_cannot_be_reached_is_waited_for(kind: str, tmp_path: Path) -> None:
    """503 and not ready meanwhile; one message, which says what to check; SIGHUP does not end it, and SIGTERM does."""
    (tmp_path / "secrets").write_text(SECRET)
    url = f"{kind}://u:{PASSWORD}@127.0.0.1:1/x"
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "serve", "--all", *ports, "--secret-file", str(tmp_path / "secrets"),
        env=environment(DUALSQL_DATABASE_URL=url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    async with asyncio.timeout(60), httpx.AsyncClient() as http:
        output = (await process.stdout.readuntil(b"Ctrl-C stops.\n")).decode()
        assert output.startswith("dualsql: No database answers at that address. Check the host and port")
        for path in ("/mcp", "/resources/x", "/"):
            refused = await http.post(f"http://127.0.0.1:{ports[1]}{path}", json={})
            assert (refused.status_code, refused.json()["code"]) == (503, "SERVER_UNAVAILABLE")
            assert refused.headers["retry-after"]
        health = f"http://127.0.0.1:{ports[3]}"
        process.send_signal(signal.SIGHUP)
        assert (await http.get(f"{health}/ready")).json()["parts"] == {"server": "not started"}
        assert (await http.get(f"{health}/live")).status_code == 200
        process.send_signal(signal.SIGTERM)
        rest, _ = await process.communicate()
    assert rest.decode() == "Stopped.\n" and PASSWORD not in output


@pytest.mark.long
async def test_sighup_reads_the_secrets_again(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text(f"{SECRET}\n")
    options = ("--database", shop, "--all", "--secret-file", str(file))
    async with serving_process(*options) as served, asyncio.timeout(60):
        assert served.process.stdout is not None
        for written, message in (
            (f"another {SECRET}\n{SECRET}\n", b"The secrets were read again.\n"),
            ("short", b"The secrets were not read again: A secret is shorter than 32 bytes."),
            ("", b"The secrets were not read again: secrets must be"),
        ):
            file.write_text(written)
            served.process.send_signal(signal.SIGHUP)
            assert SECRET.encode() not in await served.process.stdout.readuntil(message)
        async with Client(f"{served.origin}/mcp") as model:
            assert not (await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})).is_error


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def test_every_option_has_a_group_in_the_help() -> None:
    grouped = [name for names in PANELS.values() for name in names]
    assert sorted(grouped) == sorted(each.name for each in fields(ServeOptions) if each.name != "files")


def test_a_store_that_is_not_migrated(shop: str, tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").touch()
    store = f"sqlite:///{tmp_path / 'store.sqlite'}"
    text = one_line("--database", shop, "--all", "--port", "0", "--store", store, DUALSQL_SECRET=SECRET)
    assert "dualsql migrate" in text


def test_a_file_that_is_no_store_is_called_that(shop: str, tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("a text")
    for store, reason in (
        (f"sqlite:///{tmp_path / 'text.sqlite'}", "no database of this kind"),
        ("sqlite:////proc/store.sqlite", "cannot be made"),
    ):
        assert reason in one_line("--create", command="migrate", DUALSQL_STORE=store)
    options = ["--database", shop, "--all", "--port", "0", "--store", f"sqlite:///{tmp_path / 'text.sqlite'}"]
    assert "no database of this kind" in one_line(*options, DUALSQL_SECRET=SECRET)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "ragged.csv").write_text("a,b\n1\n")
    text = one_line(str(tmp_path / "ragged.csv"), "--port", "0", "--store", "memory")
    assert "'ragged.csv' cannot be read" in text


def test_a_base_url_with_another_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        [notice] = _port_notice("http://localhost:9", own)
        assert "port 9" in notice and f"listens on {port}" in notice
        for right in (None, f"http://127.0.0.1:{port}", "https://data.example.com"):
            assert list(_port_notice(right, own)) == []


def test_a_port_that_is_taken(shop: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"Port {port} is in use." in one_line("--database", shop, "--all", "--port", port)


def test_postgresql_refuses_by_its_own_reasons(shop: str, postgresql_url: str) -> None:
    url, role = make_url(postgresql_url), f"weak_{uuid4().hex}"
    asyncio.run(executed(postgresql_url, f"CREATE ROLE {role} LOGIN"))
    reasons = {
        url.set(username="nobody_known", password=PASSWORD): "rejected the login",
        url.set(database="nowhere"): "no such database",
        url.set(username=role): "lacks a right",
    }
    for wrong, reason in reasons.items():
        given = wrong.render_as_string(hide_password=False)
        assert reason in one_line("--create", command="migrate", DUALSQL_STORE=given)
        if reason == "lacks a right":
            continue  # it may read the catalogue, where the tables of the store are missing
        assert reason in one_line("--all", "--port", "0", DUALSQL_DATABASE_URL=given)
        of_store = one_line(
            "--all", "--port", "0", "--database", shop, "--store", given, DUALSQL_SECRET=SECRET
        )
        assert of_store.startswith("dualsql: The resource store: ") and reason in of_store
    asyncio.run(executed(postgresql_url, f"DROP ROLE {role}"))


async def executed(url: str, statement: str) -> None:
    """Run a statement."""
    async with opened(url) as engine, engine.begin() as connection:
        await connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"nonsense": "1"}, "has no option 'nonsense'"),
        (
            {"sslmode": "verify-ful"},
            "must be one of: disable, allow, prefer, require, verify-ca, verify-full",
        ),
        ({"sslmode": "verify-full"}, 'root.crt" does not exist'),
    ],
)
def test_an_option_of_a_url_that_is_wrong_is_told(
    postgresql_url: str, tmp_path: Path, options: dict[str, str], reason: str
) -> None:
    given = make_url(postgresql_url).set(host="127.0.0.1").update_query_dict(options)
    wrong = given.render_as_string(hide_password=False)
    assert reason in one_line("--all", "--port", "0", DUALSQL_DATABASE_URL=wrong, HOME=str(tmp_path))


async def test_a_server_without_tls_is_named(postgresql_url: str) -> None:
    direct = make_url(postgresql_url)
    async with relaying(Relay(f"{direct.query['host']}/.s.PGSQL.5432")) as relay:
        url = f"postgresql://postgres@127.0.0.1:{relay.port}/{direct.database}?sslmode=require"
        line = await asyncio.to_thread(one_line, command="migrate", DUALSQL_STORE=url)
        assert "The encrypted connection to the database was refused" in line
        source = open_source("default", url, Registry(MetaData()))
        with pytest.raises(ConfigurationError, match="encrypted connection"):
            await reach(source, timeout=timedelta(seconds=10))


@pytest.mark.long
def test_a_role_that_can_write_is_refused(postgresql_server: PostgreSQL, postgresql_url: str) -> None:
    name = str(make_url(postgresql_url).database)
    role = f"role_{name}"
    options = ("--database", postgresql_url, "--all", "--port", "0", "--read-only-role")
    postgresql_server.execute(
        f"CREATE TABLE parts (id INTEGER PRIMARY KEY); CREATE ROLE {role}; GRANT SELECT, DELETE ON parts TO {role}",
        name,
    )
    try:
        assert f"The role '{role}' can change: parts." in one_line(*options, role)
        assert "The role 'postgres' can change: parts." in one_line(*options, "postgres"), "a superuser"
        assert "has no such role" in one_line(*options, "no_such_role")
        postgresql_server.execute(f"REVOKE DELETE ON parts FROM {role}", name)
        asyncio.run(_answered(*options, role))
    finally:
        postgresql_server.execute(f"DROP OWNED BY {role}; DROP ROLE {role}", name)


async def _answered(*arguments: str) -> None:
    async with serving_process(*arguments) as served, Client(f"{served.origin}/mcp") as model:
        result = await model.call_tool("execute_query", {"query": "SELECT * FROM parts"})
        assert text_of(result).startswith("Parts: 0 rows.")


@pytest.mark.long
async def test_an_authenticate_of_ones_own(shop: str, tmp_path: Path) -> None:
    (tmp_path / "doors.py").write_text(
        "from dualsql import Principal\n"
        "async def who(request):\n"
        "    name = request.headers.get('x-name')\n"
        "    return None if name is None else Principal(id=name)\n"
    )
    options = ("--database", shop, "--all", "--authenticate", "doors:who")
    async with serving_process(*options, PYTHONPATH=":".join([str(tmp_path), *sys.path])) as served:
        async with calling(served.origin, {"x-name": "ana"}) as model:
            result = await model.call_tool("execute_query", {"query": "SELECT * FROM makers"})
        structure = result.structured_content
        assert isinstance(structure, dict)
        async with httpx.AsyncClient() as rest:
            answers = [
                (await rest.get(structure["resource"]["url"], headers=headers)).status_code
                for headers in ({}, {"x-name": "bo"}, {"x-name": "ana"})
            ]
    assert answers == [401, 404, 200]


def test_every_flag_and_its_variable_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    parameters = group.commands["serve"].params
    options = [each for each in parameters if each.param_type_name == "option" and each.name != "help"]
    assert len(options) == 39
    for option in options:
        flag, variable = option.opts[0], option.envvar
        assert any(f"`{flag}`" in row and f"`{variable}`" in row for row in rows), flag
