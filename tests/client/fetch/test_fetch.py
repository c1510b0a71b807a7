"""`dualsql fetch` as a person runs it: against a real server, over connections that break."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import io
import json
import os
import pty
import random
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from openpyxl import load_workbook
from pyarrow import parquet
from rich.console import Console
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, select, text
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typer.testing import CliRunner

from dualsql import Principal
from dualsql_client.cli.commands import app
from dualsql_client.progress import Bar, Progress, progress_text
from tests.client.cutting import CuttingProxy
from tests.client.hosting import Host, problem
from tests.client.reading import until
from tests.client.served import Served, serving_results

METADATA = MetaData()
SCHOOLS = Table("schools", METADATA, Column("id", Integer, primary_key=True), Column("name", String))
ROWS = [{"id": number, "name": f'School "{number}", é\n' + "x" * (number % 50)} for number in range(1, 3001)]
ORDERED = select(SCHOOLS).order_by(SCHOOLS.c.id)

LINE = b'{"id":1}\n{"$summary":{"rows":1,"complete":true}}\n'
Variables = dict[str, str | None]


class Ran(NamedTuple):
    """How a command ended."""

    code: int | None
    output: str
    errors: str

    @property
    def told(self) -> dict[str, str]:
        return dict(re.findall(r"^(\w+) +(\S+)", self.output, re.MULTILINE))


@pytest.fixture(scope="module")
async def served(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    database = f"sqlite:///{tmp_path_factory.mktemp('schools') / 'schools.sqlite'}"
    engine = create_engine(database)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(insert(SCHOOLS), ROWS)
    engine.dispose()
    async with serving_results(database, METADATA, ORDERED, signed_links=True) as served:
        yield served


@pytest.fixture(scope="module")
async def host(anyio_backend: str) -> AsyncIterator[Host]:
    async with Host().listening() as listening:
        yield listening


async def fetch(*arguments: str | Path, stdin: bytes = b"", variables: Variables | None = None) -> Ran:
    """The command in a thread, which spares the seconds that a process takes to begin."""
    environment: Variables = {name: None for name in os.environ if name.startswith("DUALSQL_")}
    words = ["fetch", *map(str, arguments)]
    ran = await asyncio.to_thread(
        CliRunner().invoke, app, words, input=stdin, env=environment | (variables or {})
    )
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


async def started(
    *arguments: str | Path, program: str = "dualsql_client", stderr: int = asyncio.subprocess.PIPE
) -> asyncio.subprocess.Process:
    """The command in a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"from {program}.cli import main; main()", "fetch", *map(str, arguments),
        stdout=asyncio.subprocess.PIPE, stderr=stderr, env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


async def test_rows_bytes_seconds_and_checksum(served: Served, tmp_path: Path) -> None:
    target = tmp_path / "rows.ndjson"
    ran = await fetch(served.url, "-o", target)
    assert (ran.code, ran.errors) == (0, "")
    data = target.read_bytes()
    assert [json.loads(line) for line in data.splitlines()] == ROWS
    assert ran.told["rows"] == "3,000"
    assert ran.told["bytes"] == f"{len(data):,}"
    assert float(ran.told["seconds"]) > 0
    # The rows and nothing else: anyone can compute it of the rows themselves.
    rows = b"".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for r in ROWS)
    assert ran.told["sha256"] == hashlib.sha256(rows).hexdigest()


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
async def test_binary_formats(served: Served, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    ran = await fetch(f"{served.url}/rows", "-o", target)
    assert (ran.code, ran.told["rows"]) == (0, "3,000"), ran.errors
    read = (
        parquet.read_table if name.endswith("parquet") else lambda path: pa.ipc.open_stream(path).read_all()
    )
    assert read(target).to_pylist() == ROWS
    assert ran.told["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()


async def test_excel(served: Served, tmp_path: Path) -> None:
    target = tmp_path / "rows.xlsx"
    ran = await fetch(served.url, "-o", target)
    assert (ran.code, ran.told["rows"]) == (0, "3,000"), ran.errors
    names, *rows = load_workbook(target)["Rows"].iter_rows(values_only=True)
    assert [dict(zip(names, row, strict=True)) for row in rows] == ROWS
    assert ran.told["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()


@pytest.mark.long
@pytest.mark.parametrize("name", ["rows.duckdb", "rows.sqlite"])
async def test_a_database(served: Served, tmp_path: Path, name: str) -> None:
    """Also over connections that break; and what is there already is not replaced."""
    drawn = random.Random(7)
    cuts = iter([drawn.randrange(1_000, 30_000) for _ in range(6)])
    proxy = CuttingProxy(urlsplit(served.url).port or 0, lambda: next(cuts, None))
    target = tmp_path / name
    async with proxy.listening() as origin:
        ran = await fetch(f"{origin}{urlsplit(served.url).path}", "-o", target)
    assert proxy.cuts >= 4
    assert (ran.code, ran.told["rows"]) == (0, "3,000"), ran.errors
    assert ran.told["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    url = f"duckdb:///{target}" if name.endswith("duckdb") else f"sqlite:///{target}"
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM schools ORDER BY id")).mappings().all()
    engine.dispose()
    assert [dict(row) for row in rows] == ROWS
    refused = await fetch(served.url, "-o", target)
    assert refused.code == 1
    assert "It exists, and may have other tables" in refused.errors


async def test_columns_sort_limit_format(served: Served, tmp_path: Path) -> None:
    target = tmp_path / "rows.txt"
    ran = await fetch(
        served.url, "-o", target, "--format", "csv", "--columns", "id", "--sort=-name,id", "--limit", "2"
    )  # fmt: skip
    assert ran.told["rows"] == "2", ran.errors
    first, second = sorted(ROWS, key=lambda row: (row["name"], row["id"]), reverse=True)[:2]
    assert target.read_bytes() == f"id\r\n{first['id']}\r\n{second['id']}\r\n".encode()


@pytest.mark.long
async def test_a_terminal_shows_a_bar(served: Served, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = await started(served.url, "-o", tmp_path / "rows.csv", stderr=theirs)
    os.close(theirs)
    await until(ours, b"3,000/3,000 rows")
    output, _ = await process.communicate()
    os.close(ours)
    assert output.startswith(b"rows     3,000\n"), "the bar is not in it"


@pytest.mark.long
@pytest.mark.parametrize("program", ["dualsql_client", "dualsql"])
async def test_the_command_of_either_package(served: Served, tmp_path: Path, program: str) -> None:
    process = await started(served.url, "-o", tmp_path / "rows.csv", program=program)
    output, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert output.startswith(b"rows     3,000\nbytes    ")


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", ["rows.ndjson", "rows.csv"])
async def test_a_connection_that_breaks_changes_nothing(served: Served, tmp_path: Path, name: str) -> None:
    whole = await fetch(served.url, "-o", tmp_path / f"whole-{name}")
    drawn = random.Random(7)
    cuts = iter([drawn.randrange(1_000, 30_000) for _ in range(6)])
    proxy = CuttingProxy(urlsplit(served.url).port or 0, lambda: next(cuts, None))
    async with proxy.listening() as origin:
        broken = await fetch(f"{origin}{urlsplit(served.url).path}", "-o", tmp_path / name)
    assert proxy.cuts >= 4
    assert broken.code == 0, broken.errors
    assert broken.told["sha256"] == whole.told["sha256"]


async def test_a_tool_result_in_a_file(served: Served, tmp_path: Path) -> None:
    written, target = tmp_path / "result.json", tmp_path / "rows.csv"
    written.write_text(json.dumps({"messages": [{"content": served.tool_result}]}))
    refused = await fetch(written, "-o", target)
    assert refused.code == 1
    assert "a URL in a tool result is not trusted" in refused.errors
    assert served.url in refused.errors and "--base-url" in refused.errors
    assert not target.exists()
    uri = f"resource://{served.url.rpartition('/')[2]}"
    without = await fetch(uri, "-o", target)
    assert without.code == 1 and "--base-url" in without.errors
    printed = await fetch(uri, "-o", target, "--base-url", served.base_url)
    assert printed.code == 0 and target.exists()
    given = await fetch(written, "-o", target, "--base-url", served.base_url)
    assert given.told["rows"] == "3,000"
    piped = await fetch(
        "-", "-o", target, stdin=written.read_bytes(), variables={"DUALSQL_BASE_URL": served.base_url}
    )
    assert piped.told["sha256"] == given.told["sha256"]


async def test_a_signed_link(served: Served, tmp_path: Path) -> None:
    ana = Principal(id="ana")
    response = await served.dual.create_response(ORDERED, name="Schools", principal=ana)
    url = await served.dual.links.create(response.resource_id, ana, formats=["csv"])
    ran = await fetch(url, "-o", tmp_path / "rows")
    assert ran.told["rows"] == "3,000", ran.errors
    assert (tmp_path / "rows").read_bytes().startswith(b"id,name\r\n")
    stranger = await fetch(url.partition("/rows")[0], "-o", tmp_path / "rows.csv")
    assert (stranger.code, stranger.errors.count("\n")) == (1, 1)


async def test_a_token_goes_by_the_environment(host: Host, tmp_path: Path) -> None:
    seen: list[str | None] = []

    async def asked(request: Request) -> Response:
        seen.append(request.headers.get("authorization"))
        return Response(LINE, media_type="application/x-ndjson")

    url = f"{host.serve(asked)}/{'a' * 24}"
    target = tmp_path / "rows.ndjson"
    tried: list[tuple[Variables, list[str]]] = [
        ({}, []),
        ({"DUALSQL_TOKEN": "one\n"}, []),
        ({"DUALSQL_TOKEN": "one", "MINE": "two"}, ["--token-env", "MINE"]),
    ]
    for variables, arguments in tried:
        ran = await fetch(url, "-o", target, *arguments, variables=variables)
        assert ran.code == 0, ran.errors
        assert "one" not in ran.output + ran.errors and "two" not in ran.output + ran.errors
    assert seen == [None, "Bearer one", "Bearer two"]
    unset = await fetch(url, "-o", target, "--token-env", "MINE")
    assert unset.errors == "dualsql: The variable MINE is not set.\n"
    assert "--token " not in (await fetch("--help")).output


async def test_a_query_that_still_runs_is_waited_for(host: Host, tmp_path: Path) -> None:
    requests: list[str] = []

    async def busy_at_first(request: Request) -> Response:
        requests.append(request.method)
        if request.method == "GET":
            status = "pending" if requests.count("GET") == 1 else "ready"
            return JSONResponse({"status": status, "name": "Schools", "columns": []})
        if len(requests) == 1:
            return problem(409, "RESOURCE_PENDING")
        return Response(LINE, media_type="application/x-ndjson")

    ran = await fetch(f"{host.serve(busy_at_first)}/{'a' * 24}", "-o", tmp_path / "rows.ndjson")
    assert (ran.code, ran.told["rows"]) == (0, "1"), ran.errors
    assert requests == ["POST", "GET", "GET", "POST"]


async def test_a_server_s_words_are_only_words(host: Host, tmp_path: Path) -> None:
    async def refuse(request: Request) -> Response:
        return problem(403, "FORBIDDEN", message="\x1b[2J\x1b]0;title\x07No\n\nTraceback")

    ran = await fetch(f"{host.serve(refuse)}/{'a' * 24}", "-o", tmp_path / "rows.ndjson")
    assert ran.code == 1
    assert ran.errors.count("\n") == 1 and ran.errors.strip().isprintable()


BAD = [
    (["ftp://host/x"], "cannot be read"),
    (
        ["resource://q4T79hXv2ZkLwPmB7sYd1RcE0aKLOHLki"],
        "https://api.example.com/resources/q4T79hXv2ZkLwPmB7sYd1RcE0aKLOHLki",
    ),
    (["http://127.0.0.1:1/"], "is not the URL of a resource"),
    (["http://127.0.0.1:1/..%2f/rows"], "is not the URL of a resource"),
    (["http://ana:secret@127.0.0.1:1/resources/abc"], "user name or password"),
    (["http://127.0.0.1:1/resources/abc"], "The request to the server failed"),
    (["missing.json"], "No such file"),
    (["ordinary.json", "--base-url", "http://127.0.0.1:1"], "no dual response"),
    (["not.json"], "is not JSON"),
]


@pytest.mark.quick(4)
@pytest.mark.parametrize(("arguments", "said"), BAD)
async def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "ordinary.json").write_text('{"content": [{"type": "text", "text": "42"}]}')
    (tmp_path / "not.json").write_bytes(b"\xff\x00")
    first, *rest = arguments
    where = tmp_path / first if (tmp_path / first).exists() else first
    ran = await fetch(where, *rest, "-o", tmp_path / "rows.csv")
    assert ran.code == 1
    assert said in ran.errors
    assert ran.errors.startswith("dualsql: ") and ran.errors.count("\n") == 1
    assert "secret" not in ran.errors
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.long
async def test_where_it_cannot_be_written(served: Served, tmp_path: Path) -> None:
    ran = await fetch(served.url, "-o", tmp_path / "no" / "folder" / "rows.csv")
    assert (ran.code, ran.errors.count("\n")) == (1, 1)
    assert "There is no such folder" in ran.errors
    wrong = await fetch(served.url, "-o", tmp_path / "rows.ods")
    assert (wrong.code, "suffix must be one of" in wrong.errors) == (1, True)


@pytest.mark.long
async def test_an_interrupt_leaves_what_stood_there(host: Host, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def silent(request: Request) -> Response:
        asked.set()
        while (await request.receive())["type"] != "http.disconnect":
            pass
        return Response(status_code=503)

    target = tmp_path / "rows.csv"
    target.write_text("before")
    process = await started(f"{host.serve(silent)}/{'a' * 24}", "-o", target)
    await asked.wait()
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (130, b"Stopped. No rows are kept: run it again.\n")
    assert target.read_text() == "before"
    assert names_in(tmp_path) == ["rows.csv"]


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


class Blocked:
    """A budget: the first connection carries so many bytes, and the others none, so that a download is under way."""

    def __init__(self, first: int) -> None:
        self._left = iter([first])

    def __call__(self) -> int | None:
        return next(self._left, 0)


async def stopped_midway(served: Served, target: Path, end: signal.Signals) -> Ran:
    """A fetch of which some rows came, ended by a signal."""
    proxy = CuttingProxy(urlsplit(served.url).port or 0, Blocked(60_000))
    async with proxy.listening() as origin:
        process = await started(f"{origin}{urlsplit(served.url).path}", "-o", target)
        # The note is written with the first rows; the cut connection is tried again for a while.
        while not (target.parent / f".{target.name}.part.json").exists():
            assert process.returncode is None
            await asyncio.sleep(0)
        process.send_signal(end)
        output, errors = await process.communicate()
    return Ran(process.returncode, output.decode(), errors.decode())


@pytest.mark.quick(1)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("name", ["rows.csv", "rows.ndjson", "rows.arrows"])
async def test_a_download_that_was_stopped_is_continued(
    served: Served, tmp_path: Path, name: str, end: signal.Signals
) -> None:
    target = tmp_path / name
    target.write_text("before")
    stopped = await stopped_midway(served, target, end)
    if end is signal.SIGINT:
        text = "Stopped. The rows so far are kept: run it again with --continue.\n"
        assert (stopped.code, stopped.errors) == (130, text)
    assert target.read_text() == "before"
    assert sorted(names_in(tmp_path)) == [f".{name}.part", f".{name}.part.json", name]
    ran = await fetch(served.url, "-o", target, "--continue")
    assert (ran.code, ran.errors, ran.told["rows"]) == (0, "", "3,000")
    whole = await fetch(served.url, "-o", tmp_path / f"whole-{name}")
    if name.endswith("arrows"):  # the same rows in other batches
        tables = [
            pa.ipc.open_stream(file.read_bytes()).read_all() for file in (target, tmp_path / f"whole-{name}")
        ]
        assert tables[0].equals(tables[1])
    else:
        assert ran.told["sha256"] == whole.told["sha256"]
    assert sorted(names_in(tmp_path)) == [name, f"whole-{name}"]


async def test_what_came_of_another_result_is_not_continued(served: Served, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    part = tmp_path / ".rows.csv.part"
    part.write_text("id,name\r\n1,x\r\n2,y\r\n")
    (tmp_path / ".rows.csv.part.json").write_text(
        json.dumps({"uri": "resource://other", "format": "csv", "request": {}})
    )
    ran = await fetch(served.url, "-o", target, "--continue")
    assert (ran.code, "of another result or of other options" in ran.errors) == (1, True)
    assert sorted(names_in(tmp_path)) == [".rows.csv.part", ".rows.csv.part.json"]


@pytest.mark.parametrize("note", ["no resume", '"resume": null', '"resume": 5', "nested"])
async def test_a_note_that_was_tampered_with_starts_again(served: Served, tmp_path: Path, note: str) -> None:
    target = tmp_path / "rows.csv"
    (tmp_path / ".rows.csv.part").write_text("id,name\r\n1,x\r\n2,y\r\n")
    uri = f"resource://{served.url.rpartition('/')[2]}"
    text = json.dumps({"uri": uri, "format": "csv", "request": {}})
    if note.startswith('"'):
        text = f"{text[:-1]}, {note}}}"
    (tmp_path / ".rows.csv.part.json").write_text("[" * 100_000 if note == "nested" else text)
    ran = await fetch(served.url, "-o", target, "--continue")
    assert (ran.code, ran.told["rows"]) == (0, "3,000"), ran.errors
    assert "1,x" not in target.read_text().splitlines()


@pytest.mark.long
async def test_a_note_is_not_written_through_a_link(served: Served, tmp_path: Path) -> None:
    """In a folder that others write to, they could have any file of the caller's overwritten."""
    target, other = tmp_path / "rows.csv", tmp_path / "other.json"
    await stopped_midway(served, target, signal.SIGINT)
    note = tmp_path / ".rows.csv.part.json"
    note.rename(other)
    note.symlink_to(other)
    before = other.read_bytes()
    ran = await fetch(served.url, "-o", target, "--continue")
    assert (ran.code, ran.output, other.read_bytes()) == (1, "", before)
    assert f"{note.name}: Too many levels of symbolic links" in ran.errors


async def test_two_downloads_do_not_write_to_one_file(served: Served, tmp_path: Path) -> None:
    part = tmp_path / ".rows.csv.part"
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = await fetch(served.url, "-o", tmp_path / "rows.csv")
    assert (ran.code, "Another download writes to it" in ran.errors) == (1, True)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.xlsx"])
async def test_where_nothing_is_to_be_continued_it_is_said(served: Served, tmp_path: Path, name: str) -> None:
    ran = await fetch(served.url, "-o", tmp_path / name, "--continue")
    assert (ran.code, ran.told["rows"]) == (0, "3,000")
    assert "nothing to continue: it starts again" in ran.errors


def test_the_bar_of_parquet_shows_bytes_and_moves() -> None:
    console = Console(force_terminal=True, width=100, file=io.StringIO())
    bar = Bar("Schools", console)
    bar.show(Progress(rows=0, total=3_000, bytes=2_500_000, seconds=2.0))
    assert progress_text(Progress(rows=0, total=3_000, bytes=2_500_000, seconds=2.0)) == "2.5 MB  1.2 MB/s"
    [task] = bar._progress.tasks
    assert task.total is None, "it moves to and fro: no row is known before the end"
