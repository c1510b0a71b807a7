"""Streams over real sockets: readers who leave, stall or are told the truth when something breaks."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import insert, literal, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.identity import AuditEvent
from tests.http.application import INSTITUTIONS, ROWS, fill
from tests.http.live.serving import LiveServer, listening
from tests.http.live.test_connections import sextuples
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.quick(50, "sqlite")

DOUBLINGS = 8
MANY = len(ROWS) * 2**DOUBLINGS
LONG = pytest.mark.long

WIDE = select(INSTITUTIONS, literal("x" * 600).label("padding"))
"""Of all institutions eleven megabytes: more than batches and sockets on the way hold."""

_OTHERS = INSTITUTIONS.alias()
LASTING = WIDE.join(_OTHERS, _OTHERS.c.id <= 40)
"""Forty times as many rows: a Parquet file of equal texts is small, and would end before its reader has left."""

END_OF_BODY = b"\r\n0\r\n\r\n"
"""The last chunk of HTTP/1.1, which is sent after a body that is whole."""

END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
)

MakeEngine = Callable[[str], AsyncEngine]


async def multiply(engine: AsyncEngine, doublings: int = DOUBLINGS) -> None:
    """Institutions 1 to 15,360, unless doubled more often."""
    await fill(engine)
    table = INSTITUTIONS
    others = [column for column in table.c if column is not table.c.id]
    async with engine.begin() as connection:
        for doubling in range(doublings):
            copied = select(table.c.id + len(ROWS) * 2**doubling, *others)
            await connection.execute(insert(table).from_select([c.name for c in table.c], copied))
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql("ANALYZE institutions")


@dataclass
class Trail:
    """An audit sink that can be waited for."""

    readings: asyncio.Queue[AuditEvent] = field(default_factory=asyncio.Queue)

    def __call__(self, event: AuditEvent) -> None:
        if event.action == "read":
            self.readings.put_nowait(event)

    async def reading(self) -> AuditEvent:
        """How the next stream ended."""
        async with asyncio.timeout(PATIENCE):
            return await self.readings.get()


@pytest.fixture
async def many_url(database_url: str, make_engine: MakeEngine) -> str:
    """The URL of a database that holds many institutions."""
    await multiply(make_engine(database_url))
    return database_url


@asynccontextmanager
async def begun(
    live: LiveServer, query: str, *fields: str
) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    """A connection on which a stream has begun, of which nothing more is read by itself."""
    async with live.connection() as (reader, writer):
        request = f"GET {live.path}/rows?{query} HTTP/1.1"
        head = "\r\n".join([request, f"Host: 127.0.0.1:{live.port}", "Connection: close", *fields, "", ""])
        writer.write(head.encode())
        async with asyncio.timeout(PATIENCE):
            answered = await reader.readuntil(b"\r\n\r\n")
        assert answered.startswith(b"HTTP/1.1 200"), answered
        yield reader, writer


async def busy_backends(engine: AsyncEngine) -> int:
    """How many other connections to this PostgreSQL database are in a query or a transaction."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'"
        " AND backend_type = 'client backend'"  # and not autovacuum, which comes after many new rows
    )
    async with engine.connect() as connection:
        actual: int = (await connection.execute(query)).scalar_one()
        return actual


async def until_idle(engine: AsyncEngine) -> None:
    """Ask until no query is left."""
    await until(lambda: busy_backends(engine), lambda actual: not actual)


async def test_every_row_crosses_a_real_connection(many_url: str) -> None:
    async with listening(many_url, statement=WIDE) as live:
        response = await live.http.get(f"{live.path}/rows", params={"columns": "id"})
        *rows, last = response.content.splitlines()
        assert orjson.loads(last) == {"$summary": {"rows": MANY, "complete": True}}
        assert [orjson.loads(row)["id"] for row in rows] == list(range(1, MANY + 1))


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("coding", ["gzip", "zstd", "identity"])
async def test_the_first_rows_arrive_before_the_last_are_read(many_url: str, coding: str) -> None:
    trail = Trail()
    async with listening(many_url, statement=WIDE, audit=trail) as live:
        headers = {"Accept-Encoding": coding}
        some = f"{live.path}/rows?limit=4000"
        async with live.http.stream("GET", some, headers=headers) as response:
            pieces = response.aiter_bytes() if coding != "zstd" else response.aiter_raw()
            assert await anext(pieces)
            assert trail.readings.empty()  # the server has not come to the end
            rest = b"".join([piece async for piece in pieces])
        if coding != "zstd":
            assert rest.endswith(b'"complete":true}}\n')
        assert (await trail.reading()).is_complete


class TestReadersWhoLeave:
    @pytest.mark.quick(1, "sqlite")
    @pytest.mark.parametrize(
        "format_name",
        ["ndjson", "csv", *(pytest.param(name, marks=LONG) for name in ("json", "arrow", "parquet"))],
    )
    async def test_their_query_ends_in_the_database(
        self, postgresql_url: str, make_engine: MakeEngine, format_name: str
    ) -> None:
        engine, trail = make_engine(postgresql_url), Trail()
        await multiply(engine)
        async with listening(postgresql_url, statement=LASTING, audit=trail) as live:
            async with begun(live, f"format={format_name}", "Accept-Encoding: identity"):
                # The first bytes of a file may come before its query.
                await until(lambda: busy_backends(engine))
            ended = await trail.reading()
            await until_idle(engine)
        assert not ended.is_complete
        assert ended.rows is not None and ended.rows < 40 * MANY

    async def test_before_the_first_row(self, postgresql_url: str, make_engine: MakeEngine) -> None:
        engine, trail = make_engine(postgresql_url), Trail()
        await fill(engine, ROWS[:1])
        async with listening(postgresql_url, statement=sextuples(), audit=trail) as live:
            await fill(engine, ROWS[1:])
            async with live.connection() as (_, writer):
                writer.write(live.head_of("GET").replace(b"?", b"/rows?"))
                await until(lambda: busy_backends(engine))
            ended = await trail.reading()
            await until_idle(engine)
        assert (ended.rows, ended.is_complete) == (0, False)

    async def test_they_give_their_slot_back(self, many_url: str) -> None:
        trail = Trail()
        async with listening(many_url, statement=WIDE, maximum_streams=1, audit=trail) as live:
            async with begun(live, "format=csv", "Accept-Encoding: identity"):
                refused = await live.http.get(f"{live.path}/rows")
                assert (refused.status_code, refused.json()["code"]) == (503, "TOO_MANY_QUERIES")
                assert int(refused.headers["retry-after"]) > 0
            assert not (await trail.reading()).is_complete
            assert (await live.http.get(f"{live.path}/rows", params={"limit": 1})).status_code == 200


class TestReadersWhoStall:
    @pytest.mark.long
    @pytest.mark.parametrize("option", ["stream_stall_timeout", "maximum_stream_duration"])
    async def test_they_are_let_go_while_the_socket_is_full(self, many_url: str, option: str) -> None:
        trail = Trail()
        options: dict[str, Any] = {option: timedelta(seconds=2)}
        async with listening(many_url, statement=WIDE, audit=trail, **options) as live:
            async with begun(live, "format=csv", "Accept-Encoding: identity") as (reader, _):
                ended = await trail.reading()
                assert not ended.is_complete
                assert ended.rows is not None and ended.rows < MANY
                async with asyncio.timeout(PATIENCE):
                    rest = await reader.read()
            assert not rest.endswith(END_OF_BODY)
            assert (await live.http.get(f"{live.path}/rows", params={"limit": 1})).status_code == 200

    async def test_others_are_served_meanwhile(self, many_url: str) -> None:
        async with (
            listening(many_url, statement=WIDE) as live,
            begun(live, "format=csv", "Accept-Encoding: identity"),
        ):
            assert (await live.http.get(live.path, params={"limit": 1})).status_code == 200
            assert (await live.http.get(f"{live.path}/rows", params={"limit": 1})).status_code == 200


class TestWhatBreaks:
    """The database ends the connection while a reader pauses; nothing that arrives may look whole."""

    @asynccontextmanager
    async def broken(
        self, url: str, engine: AsyncEngine, format_name: str, trail: Trail
    ) -> AsyncIterator[StreamReader]:
        await multiply(engine)
        async with (
            listening(url, statement=WIDE, audit=trail) as live,
            begun(live, f"format={format_name}", "Accept-Encoding: identity") as (reader, _),
        ):
            async with engine.connect() as connection:
                await connection.execute(text(END_OTHERS))
            yield reader

    async def test_ndjson_ends_with_the_problem(self, postgresql_url: str, make_engine: MakeEngine) -> None:
        engine, trail = make_engine(postgresql_url), Trail()
        async with self.broken(postgresql_url, engine, "ndjson", trail) as reader:
            async with asyncio.timeout(PATIENCE):
                body = await reader.read()
            ended = await trail.reading()
        assert body.endswith(END_OF_BODY)
        problem = orjson.loads(body.removesuffix(END_OF_BODY).splitlines()[-1])["$problem"]
        assert (problem["complete"], problem["rows"]) == (False, ended.rows)
        assert (ended.is_complete, ended.code) == (False, problem["code"])
        assert "terminating" not in str(problem)

    @pytest.mark.parametrize(
        "format_name", ["csv", *(pytest.param(name, marks=LONG) for name in ("json", "parquet"))]
    )
    async def test_the_others_are_cut_off(
        self, postgresql_url: str, make_engine: MakeEngine, format_name: str
    ) -> None:
        engine, trail = make_engine(postgresql_url), Trail()
        async with self.broken(postgresql_url, engine, format_name, trail) as reader:
            async with asyncio.timeout(PATIENCE):
                body = await reader.read()
            ended = await trail.reading()
        assert not body.endswith(END_OF_BODY)
        assert not ended.is_complete and ended.code

    async def test_http_clients_report_it(self, postgresql_url: str, make_engine: MakeEngine) -> None:
        engine = make_engine(postgresql_url)
        await multiply(engine)
        async with listening(postgresql_url, statement=WIDE, maximum_stream_bytes=1_000_000) as live:
            with pytest.raises(httpx.RemoteProtocolError):
                await live.http.get(f"{live.path}/rows", params={"format": "csv"})


async def test_a_page_of_rows_is_compressed_as_one_gzip_stream(many_url: str) -> None:
    async with listening(many_url, statement=WIDE) as live:
        headers = {"Accept-Encoding": "gzip"}
        async with live.http.stream("GET", f"{live.path}/rows", headers=headers) as response:
            packed = b"".join([piece async for piece in response.aiter_raw()])
        assert gzip.decompress(packed).count(b"\n") == MANY + 1
        assert len(packed) < MANY * 30


@LONG
@pytest.mark.parametrize("format_name", ["ndjson", "csv", "json"])
async def test_a_result_of_a_hundred_megabytes_is_never_held(
    database_url: str, make_engine: MakeEngine, format_name: str
) -> None:
    await multiply(make_engine(database_url), doublings=11)
    async with listening(database_url, statement=WIDE) as live:
        tracemalloc.start()
        try:
            rows = f"{live.path}/rows?format={format_name}"
            async with live.http.stream("GET", rows, headers={"Accept-Encoding": "gzip"}) as response:
                size = sum([len(piece) async for piece in response.aiter_bytes()])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size > 80_000_000
    assert peak < 20_000_000
