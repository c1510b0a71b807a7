"""A stream gives every row once with its type, however often the connection breaks."""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import gzip
import io
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from backports import zstd
from pyarrow import parquet
from rich.console import Console
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Integer,
    MetaData,
    Numeric,
    Select,
    Table,
    Text,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from dualsql.settings import ALL_ACTIONS
from dualsql_client import (
    DualResponseClient,
    FetchError,
    ParsedDualResponse,
    Progress,
    ResourceNotFoundError,
    Retry,
    StreamBrokenError,
)
from dualsql_client.progress import Bar
from dualsql_client.rewriting import with_tabs
from tests.client.cutting import CuttingProxy
from tests.client.hosting import listening_socket, serving
from tests.servers import create_server

# What is about databases is in tests/databases and tests/results.
pytestmark = pytest.mark.quick(50, "sqlite")

METADATA = MetaData()
ENTRIES = Table(
    "entries",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("amount", Numeric(12, 2)),
    Column("size", BigInteger),
    Column("at", DateTime(timezone=True), nullable=False),
)
HARD_TEXTS = (
    '"',
    "\r\n",
    'a "quoted\r\n" line',
    ",",
    "",
    "\n",
    '{"$summary":{"rows":1,"complete":true}}',
    "é€😀",
)
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "text": HARD_TEXTS[number % len(HARD_TEXTS)] + "x" * (number % 97),
        "amount": None if number % 5 == 0 else Decimal(number * 7) / 100,
        "size": None if number % 3 == 0 else 2**62 + number,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=number),
    }
    for number in range(1, 3001)
]
ALL = select(ENTRIES).order_by(ENTRIES.c.id)
UNORDERED = select(ENTRIES).order_by(func.random())
AT_ONCE = Retry(times=200, first=dt.timedelta())
RESUMED = ["ndjson", "csv", "arrows"]


class Service:
    """A server over a database of entries, and clients of it."""

    def __init__(self, server: DualResponseServer, engine: AsyncEngine, port: int) -> None:
        self.server, self.engine, self.port = server, engine, port

    async def open(
        self,
        http: Any,
        statement: Select[Any] = ALL,
        *,
        origin: str | None = None,
        retry: Retry = AT_ONCE,
    ) -> ParsedDualResponse:
        """What an application has that reaches the server, by itself or at another origin."""
        response = await self.server.create_response(statement, name="Entries [bold]")
        base_url = f"{origin or f'http://127.0.0.1:{self.port}'}/resources"
        client = DualResponseClient(base_url, http=http, retry=retry)
        return client.parse(response.to_mcp_tool_result(), strict=True)


@pytest.fixture
async def service(engine: AsyncEngine) -> AsyncIterator[Service]:
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(ENTRIES), ROWS)
    with listening_socket() as bound:
        port = bound.getsockname()[1]
        server = create_server(
            engine,
            base_url=f"http://127.0.0.1:{port}/resources",
            tables=METADATA,
            anonymous_actions=ALL_ACTIONS,
            allowed_hosts=["*"],
        )
        app = Starlette(routes=[Mount("/resources", server.router())], lifespan=server.lifespan)
        async with serving(app, bound):
            yield Service(server, engine, port)


@pytest.fixture
async def plain_http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as http:
        yield http


def has_zones(service: Service) -> bool:
    return service.engine.dialect.name == "postgresql"


def as_kept(service: Service, row: dict[str, Any]) -> dict[str, Any]:
    """A row as it comes back: SQLite keeps no time zones."""
    return row if has_zones(service) else row | {"at": row["at"].replace(tzinfo=None)}


def budgets(seed: int, *, least: int = 1, most: int = 1_000_000) -> Callable[[], int | None]:
    """Bytes of each connection: as often a few as many; of the first, between the head of its answer and its end."""
    chance, began = random.Random(seed), False

    def budget() -> int | None:
        nonlocal began
        begins, began = not began, True
        return chance.randrange(2_000, 200_000) if begins else int(least * (most / least) ** chance.random())

    return budget


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def content(path: Path) -> Any:
    """Its bytes; of Arrow its table, because a stream that goes on begins anew with small batches."""
    data = path.read_bytes()
    return pa.ipc.open_stream(data).read_all() if path.suffix == ".arrows" else data


async def test_every_row_as_python_has_it(service: Service, plain_http: httpx.AsyncClient) -> None:
    parsed = await service.open(plain_http)
    assert await parsed.to_dicts() == [as_kept(service, row) for row in ROWS]


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("batch_size", [1, 7, 3000])
async def test_batches_are_of_the_size_asked_for(
    service: Service, plain_http: httpx.AsyncClient, batch_size: int
) -> None:
    parsed = await service.open(plain_http)
    batches = [batch async for batch in parsed.fetch_stream(batch_size=batch_size)]
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}
    assert [row["id"] for batch in batches for row in batch] == [row["id"] for row in ROWS]


async def test_columns_sort_and_limit(service: Service, plain_http: httpx.AsyncClient) -> None:
    parsed = await service.open(plain_http)
    calls: list[tuple[int, int | None]] = []
    rows = await parsed.fetch_all(
        columns=["size", "id"],
        sort={"field": "id", "order": "desc"},
        limit=5,
        progress=lambda progress: calls.append((progress.rows, progress.total)),
    )
    assert [list(row.items()) for row in rows] == [
        [("size", row["size"]), ("id", row["id"])] for row in ROWS[:-6:-1]
    ]
    assert calls[-1] == (5, 5)


async def test_formulas_are_guarded_when_asked(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path
) -> None:
    parsed = await service.open(plain_http, select(literal("\ufeff=1").label("=name")))
    plain = await parsed.save(tmp_path / "plain.csv")
    assert list(csv.reader(plain.read_text("utf-8").splitlines())) == [["=name"], ["\ufeff=1"]]
    guarded = await parsed.save(tmp_path / "guarded.csv", guard_formulas=True)
    assert guarded.read_text("utf-8") == '"\'=name"\n"\'\ufeff=1"\n'
    for name in ("rows.ndjson", "rows.parquet", "rows.xlsx", "rows.sqlite", "rows.arrow"):
        with pytest.raises(ValueError, match="guard_formulas is for CSV"):
            await parsed.save(tmp_path / name, guard_formulas=True)


async def test_an_empty_result(service: Service, plain_http: httpx.AsyncClient, tmp_path: Path) -> None:
    parsed = await service.open(plain_http, ALL.where(ENTRIES.c.id < 0))
    assert await parsed.fetch_all() == []
    assert [batch async for batch in parsed.fetch_stream()] == []
    table = await parsed.to_arrow()
    assert (table.num_rows, table.column_names) == (0, list(ROWS[0]))
    assert (await parsed.save(tmp_path / "none.csv")).read_bytes() == b"id,text,amount,size,at\r\n"
    assert (await parsed.save(tmp_path / "none.ndjson")).read_bytes() == b""
    assert parquet.read_table(await parsed.save(tmp_path / "none.parquet")).num_rows == 0


async def test_tables_keep_the_types(service: Service, plain_http: httpx.AsyncClient) -> None:
    parsed = await service.open(plain_http)
    zone = "UTC" if has_zones(service) else None
    expected = [as_kept(service, row) for row in ROWS]
    table = await parsed.to_arrow()
    assert table.schema.types[2:] == [pa.decimal128(12, 2), pa.int64(), pa.timestamp("us", tz=zone)]
    assert table.to_pylist() == expected
    frame = await parsed.to_polars()
    assert frame.schema["size"] == pl.Int64
    assert frame.schema["amount"] == pl.Decimal(12, 2)
    assert frame.schema["at"] == pl.Datetime("us", zone)
    assert frame.to_dicts() == expected
    pandas = await parsed.to_pandas()
    assert pandas["size"].dtype == pd.ArrowDtype(pa.int64())
    assert pandas["amount"].dtype == pd.ArrowDtype(pa.decimal128(12, 2))
    assert pandas["at"].dtype == pd.ArrowDtype(pa.timestamp("us", tz=zone))
    assert [None if pd.isna(size) else int(size) for size in pandas["size"]] == [r["size"] for r in ROWS]


@pytest.mark.quick(1, "sqlite")
async def test_files(service: Service, plain_http: httpx.AsyncClient, tmp_path: Path) -> None:
    parsed = await service.open(plain_http)
    rows = await parsed.fetch_all()
    table = await parsed.to_arrow()
    (tmp_path / "rows.ndjson").write_text("what stood there before")
    lines = await parsed.save(tmp_path / "rows.ndjson")
    assert [json.loads(line) for line in lines.read_bytes().split(b"\n")[:-1]] == rows
    with pa.ipc.open_stream((await parsed.save(str(tmp_path / "rows.arrow"))).read_bytes()) as reader:
        assert reader.read_all() == table
    assert parquet.read_table(await parsed.save(tmp_path / "rows.PARQUET")) == table
    assert len(pd.read_csv(await parsed.save(tmp_path / "rows.csv"))) == len(ROWS)
    assert "rows.ndjson" in names_in(tmp_path)
    assert not [name for name in names_in(tmp_path) if name.startswith(".")]


async def test_a_suffix_that_names_no_format(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path
) -> None:
    parsed = await service.open(plain_http)
    with pytest.raises(ValueError, match=r"\.parquet"):
        await parsed.save(tmp_path / "rows.xls")


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("suffix", RESUMED)
async def test_a_stream_cut_anywhere_is_the_unbroken_one(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path, suffix: str, seed: int
) -> None:
    whole = content(await (await service.open(plain_http)).save(tmp_path / f"whole.{suffix}"))
    proxy = CuttingProxy(service.port, budgets(seed, least=50))
    async with proxy.listening() as origin:
        parsed = await service.open(plain_http, origin=origin)
        assert content(await parsed.save(tmp_path / f"cut.{suffix}")) == whole
    assert proxy.cuts > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("suffix", RESUMED)
async def test_a_stream_cut_anywhere_many_times_over(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path, suffix: str, seed: int
) -> None:
    whole = content(await (await service.open(plain_http)).save(tmp_path / f"whole.{suffix}"))
    proxy = CuttingProxy(service.port, budgets(1_000 + seed))
    async with proxy.listening() as origin:
        parsed = await service.open(plain_http, origin=origin)
        assert content(await parsed.save(tmp_path / f"cut.{suffix}")) == whole


@pytest.mark.quick(1, "sqlite")
async def test_rows_and_tables_of_a_cut_stream(service: Service, http: Any) -> None:
    parsed = await service.open(http)
    rows, table = await parsed.to_dicts(), await parsed.to_arrow()
    proxy = CuttingProxy(service.port, budgets(7, least=500, most=600_000))
    async with proxy.listening() as origin:
        parsed = await service.open(http, origin=origin)
        assert await parsed.to_dicts() == rows
        assert await parsed.to_arrow() == table
    assert proxy.cuts > 0


class Once:
    """Cuts the first connection after so many bytes, and no other."""

    def __init__(self, size: int) -> None:
        self.size: int | None = size

    def __call__(self) -> int | None:
        size, self.size = self.size, None
        return size


async def begun(parsed: ParsedDualResponse) -> tuple[Any, list[Any]]:
    """A stream whose first rows were read."""
    stream = parsed.fetch_stream(batch_size=10)
    return stream, await anext(stream)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize(
    "change",
    [
        delete(ENTRIES).where(ENTRIES.c.id < 100),
        update(ENTRIES).values(text="another"),
        delete(ENTRIES).where(ENTRIES.c.id > 1),
    ],
    ids=["rows before", "other values", "fewer rows"],
)
async def test_data_that_changed_is_not_gone_on_with(
    service: Service, plain_http: httpx.AsyncClient, change: Any
) -> None:
    async with CuttingProxy(service.port, Once(30_000)).listening() as origin:
        stream, _ = await begun(await service.open(plain_http, origin=origin))
        async with service.engine.begin() as connection:
            await connection.execute(change)
        with pytest.raises(FetchError) as error:
            async for _ in stream:
                pass
    assert (error.value.code, error.value.status) == ("RESULT_CHANGED", 409)


async def test_without_a_total_order_a_break_is_an_error_that_counts_the_rows(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path
) -> None:
    proxy = CuttingProxy(service.port, Once(30_000))
    async with proxy.listening() as origin:
        parsed = await service.open(plain_http, UNORDERED, origin=origin)
        seen: list[int] = []
        with pytest.raises(StreamBrokenError, match="broke after") as error:
            await parsed.fetch_all(progress=lambda progress: seen.append(progress.rows))
    assert error.value.code == "STREAM_BROKEN"
    assert error.value.rows == error.value.details["rows"] == seen[-1] > 0
    assert "ORDER BY" in error.value.hint
    assert proxy.cuts == 1


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("before", [None, "an older file"])
async def test_a_broken_file_is_not_there(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path, before: str | None
) -> None:
    path = tmp_path / "rows.parquet"
    if before:
        path.write_text(before)
    async with CuttingProxy(service.port, Once(5_000)).listening() as origin:
        parsed = await service.open(plain_http, origin=origin)
        with pytest.raises(StreamBrokenError, match="broke"):
            await parsed.save(path)
    left = [name for name in names_in(tmp_path) if "rows" in name]
    assert left == (["rows.parquet"] if before else [])
    assert not before or path.read_text() == before


async def test_a_server_that_goes_away_is_tried_a_bounded_number_of_times(
    service: Service, plain_http: httpx.AsyncClient
) -> None:
    connections = 0

    def budget() -> int:
        nonlocal connections
        connections += 1
        return 30_000 if connections == 1 else 0

    async with CuttingProxy(service.port, budget).listening() as origin:
        parsed = await service.open(plain_http, origin=origin, retry=replace(AT_ONCE, times=4))
        with pytest.raises(StreamBrokenError, match=r"after [1-9]"):
            await parsed.fetch_all()
    assert connections == 1 + 4


class Breaks:
    """A budget for a proxy: so many connections break before the first byte of an answer."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.connections = 0

    def __call__(self) -> int | None:
        self.connections += 1
        self.left -= 1
        return 0 if self.left >= 0 else None


READING: dict[str, Callable[[ParsedDualResponse], Awaitable[Any]]] = {
    "all": lambda parsed: parsed.fetch_all(),
    "page": lambda parsed: parsed.fetch(limit=1),
    "metadata": lambda parsed: parsed.get_metadata(),
    "profile": lambda parsed: parsed.profile(),
    "question": lambda parsed: parsed.query(limit=1),
    "sql": lambda parsed: parsed.sql("SELECT id FROM data LIMIT 1"),
    "pin": lambda parsed: parsed.pin(),
    "unpin": lambda parsed: parsed.unpin(),
}


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("read", READING.values(), ids=list(READING))
async def test_a_first_request_that_breaks_is_sent_again_where_it_only_reads(
    service: Service, plain_http: httpx.AsyncClient, read: Callable[[ParsedDualResponse], Awaitable[Any]]
) -> None:
    breaks = Breaks(2)
    async with CuttingProxy(service.port, breaks).listening() as origin:
        assert await read(await service.open(plain_http, origin=origin))
    assert breaks.connections == 3


MAKING: dict[str, Callable[[ParsedDualResponse], Awaitable[Any]]] = {
    "refine": lambda parsed: parsed.refine(limit=3),
    "delete": lambda parsed: parsed.delete(),
}


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("make", MAKING.values(), ids=list(MAKING))
async def test_a_request_that_does_something_is_never_sent_again(
    service: Service, plain_http: httpx.AsyncClient, make: Callable[[ParsedDualResponse], Awaitable[Any]]
) -> None:
    breaks = Breaks(1)
    async with CuttingProxy(service.port, breaks).listening() as origin:
        with pytest.raises(FetchError, match="failed") as error:
            await make(await service.open(plain_http, origin=origin))
    assert (breaks.connections, error.value.status) == (1, None)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("read", [READING["all"], READING["page"]], ids=["all", "page"])
async def test_a_signed_link_is_never_sent_again(
    service: Service, read: Callable[[ParsedDualResponse], Awaitable[Any]]
) -> None:
    """It may be for a single use, which the first request has spent."""
    breaks = Breaks(1)
    async with (
        CuttingProxy(service.port, breaks).listening() as origin,
        httpx.AsyncClient(params={"link": "token"}) as http,
    ):
        parsed = await service.open(http, origin=origin)
        with pytest.raises(FetchError, match="failed"):
            await read(parsed)
    assert breaks.connections == 1


async def test_a_server_that_breaks_every_request_is_left(
    service: Service, plain_http: httpx.AsyncClient
) -> None:
    breaks = Breaks(1_000)
    async with CuttingProxy(service.port, breaks).listening() as origin:
        parsed = await service.open(plain_http, origin=origin, retry=replace(AT_ONCE, times=4))
        for read in (parsed.fetch, parsed.fetch_all):
            with pytest.raises(FetchError, match="failed"):
                await read()
    assert breaks.connections == 2 * (1 + 4)


async def test_who_stops_reading_stops_the_stream(service: Service, plain_http: httpx.AsyncClient) -> None:
    parsed = await service.open(plain_http)
    async with aclosing(parsed.fetch_stream(batch_size=1)) as stream:
        assert [row["id"] for row in await anext(stream)] == [1]
    assert len(await parsed.fetch_all()) == len(ROWS)


async def test_a_resource_that_is_not_there(service: Service, plain_http: httpx.AsyncClient) -> None:
    parsed = await service.open(plain_http)
    await parsed.delete()
    call: Callable[[], Awaitable[Any]]
    for call in (parsed.fetch_all, parsed.to_arrow):
        with pytest.raises(ResourceNotFoundError):
            await call()


async def test_progress_counts_rows_bytes_and_seconds(
    service: Service, plain_http: httpx.AsyncClient
) -> None:
    calls: list[Progress] = []

    async def tell(progress: Progress) -> None:
        calls.append(progress)

    parsed = await service.open(plain_http)
    await parsed.fetch_all(progress=tell)
    assert (calls[-1].rows, calls[-1].total) == (len(ROWS), len(ROWS))
    assert [p.bytes for p in calls] == sorted({p.bytes for p in calls})
    assert [p.seconds for p in calls] == sorted(p.seconds for p in calls)
    table_told: list[Progress] = []
    await parsed.to_arrow(progress=table_told.append)
    assert table_told[-1].rows == len(ROWS)


async def test_a_bar_in_no_terminal_says_nothing(
    service: Service, plain_http: httpx.AsyncClient, capfd: pytest.CaptureFixture[str]
) -> None:
    parsed = await service.open(plain_http)
    assert len(await parsed.fetch_all(progress=True)) == len(ROWS)
    assert capfd.readouterr() == ("", "")


def test_a_bar_in_a_terminal() -> None:
    drawn = io.StringIO()
    bar = Bar("[bold]Entries\x1b[2J", Console(file=drawn, force_terminal=True, width=120))
    bar.start()
    bar.show(Progress(rows=1_200, total=5_000, bytes=3_100_000, seconds=0.5))
    bar.stop()
    assert "1,200/5,000 rows (24%)  3.1 MB  2,400 rows/s" in drawn.getvalue()
    assert "[bold]Entries\N{REPLACEMENT CHARACTER}[2J" in drawn.getvalue()


async def test_streams_side_by_side(service: Service, plain_http: httpx.AsyncClient) -> None:
    parsed = await service.open(plain_http)
    results = await asyncio.gather(*[parsed.fetch_all() for _ in range(4)])
    assert [len(rows) for rows in results] == [len(ROWS)] * 4


REWRITTEN = [".tsv", ".json", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.zst", ".csv.zst"]


@pytest.mark.quick(3, "sqlite")
@pytest.mark.parametrize("suffix", REWRITTEN)
async def test_files_that_no_stream_has(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path, suffix: str
) -> None:
    """Of the same rows as the file that has the bytes of a stream."""
    parsed = await service.open(plain_http)
    plain = await parsed.save(tmp_path / ("plain.csv" if suffix[1:4] in {"csv", "tsv"} else "plain.ndjson"))
    saved = await parsed.save(tmp_path / f"rows{suffix}")
    opened: Any = {".gz": gzip.open, ".zst": zstd.open}.get(saved.suffix, open)
    with opened(saved, "rt", encoding="utf-8", newline="") as file:
        text = file.read()
    expected = plain.read_bytes().decode()
    if ".tsv" in suffix:
        assert list(csv.reader(text.splitlines(keepends=True), delimiter="\t")) == list(
            csv.reader(expected.splitlines(keepends=True))
        )
    elif ".json" in suffix and ".jsonl" not in suffix:
        assert json.loads(text) == [json.loads(line) for line in expected.splitlines()]
    else:
        assert text == expected


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ('a,"b,c",d\r\n', 'a\t"b,c"\td\r\n'),
        ('x\ty,,"",z\n', '"x\ty"\t\t""\tz\n'),
        ('"a ""q"" \t",1\n"new\nline",2\n', '"a ""q"" \t"\t1\n"new\nline"\t2\n'),
        ("only\n", "only\n"),
    ],
)
def test_tabs_between_fields(record: str, expected: str) -> None:
    assert with_tabs(record.encode()).decode() == expected
    assert list(csv.reader(io.StringIO(expected, newline=""), delimiter="\t")) == list(
        csv.reader(io.StringIO(record, newline=""))
    )


async def test_no_other_formats_are_compressed(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path
) -> None:
    parsed = await service.open(plain_http)
    for name in ("rows.parquet.gz", "rows.xlsx.zst", "rows.gz"):
        with pytest.raises(ValueError, match=r"gz|suffix"):
            await parsed.save(tmp_path / name)
    for name in ("rows.tsv", "rows.csv.gz"):
        with pytest.raises(ValueError, match="is not of ndjson"):
            await parsed.save(tmp_path / name, file_format="ndjson")


async def test_no_rows_are_an_empty_array(
    service: Service, plain_http: httpx.AsyncClient, tmp_path: Path
) -> None:
    parsed = await service.open(plain_http, select(literal(1).label("n")).where(literal(1) == 2))
    assert json.loads((await parsed.save(tmp_path / "none.json")).read_bytes()) == []
