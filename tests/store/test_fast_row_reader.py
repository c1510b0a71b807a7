"""A row read on the event loop is the row of the long way, and whatever goes wrong is left to that."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import QueuePool, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.resource import INTERRUPTED, Principal, Resource
from dualsql.store import ResourceChanges, SQLResourceStore
from dualsql.store.fast_rows import _SHORT_TRIP, PostgreSQLRowReader, RowQuery, RowReader, SQLiteRowReader
from dualsql.store.protocol import Requester
from dualsql.store.sql import _row_query
from dualsql.testing.stores import MOMENT, NOW, minutes, pending, resource
from tests.engines import PostgreSQL, opened
from tests.relay import Relay, relaying
from tests.waiting import until

ONE = RowQuery(text("SELECT n FROM numbers"))
ENDLESS = RowQuery(
    text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers AS SELECT 1 AS n")
        connection.commit()
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[SQLiteRowReader]:
    reader = SQLiteRowReader(make_url(f"sqlite+aiosqlite:///{path}"))
    yield reader
    asyncio.run(reader.close())


def test_a_row_is_read_while_another_process_writes(path: Path, reader: SQLiteRowReader) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE numbers SET n = 2")
        assert reader.rows(ONE) == [(1,)]
        writer.execute("COMMIT")
        assert reader.rows(ONE) == [(2,)]


def test_what_takes_long_is_stopped_and_rests(reader: SQLiteRowReader) -> None:
    begun = time.monotonic()
    assert reader.rows(ENDLESS) is None
    assert time.monotonic() - begun < 1  # milliseconds, on a machine with nothing else to do
    assert reader.rows(ONE) is None


def test_nothing_is_written(path: Path, reader: SQLiteRowReader) -> None:
    assert reader.rows(RowQuery(text("DELETE FROM numbers RETURNING n"))) is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (1,)


def test_a_file_that_went_is_not_read_on(path: Path, reader: SQLiteRowReader) -> None:
    assert reader.rows(ONE) == [(1,)]
    path.rename(path.with_suffix(".gone"))
    assert reader.rows(ONE) is None
    assert not path.exists()


async def test_a_file_whose_readers_wait_for_writers_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    reader = SQLiteRowReader(make_url(f"sqlite+aiosqlite:///{path}"))
    assert reader.rows(ONE) is None
    await reader.close()


async def test_another_thread_takes_the_long_way(reader: SQLiteRowReader) -> None:
    assert reader.rows(ONE) == [(1,)]
    assert await asyncio.to_thread(reader.rows, ONE) is None


async def test_nothing_is_read_after_the_end(reader: SQLiteRowReader) -> None:
    await reader.close()
    assert reader.rows(ONE) is None


def test_a_file_in_the_place_of_another_is_read(path: Path, reader: SQLiteRowReader) -> None:
    assert reader.rows(ONE) == [(1,)]
    other = path.with_suffix(".other")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers AS SELECT 2 AS n")
        connection.commit()
    other.replace(path)
    assert reader.rows(ONE) == [(2,)]


def test_a_text_that_is_no_unicode_is_no_text(path: Path, reader: SQLiteRowReader) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE numbers SET n = CAST(x'ff' AS TEXT)")
        connection.commit()
    for _ in range(2):
        rows = reader.rows(ONE)
        assert rows is not None
        assert not isinstance(rows[0][0], str)


EVERY_FIELD = resource(
    owner="ana", tenant="acme", sample=[{"unitid": 1, "tags": ["a"]}], metadata={"a": [1, None, 1.5]},
    access_count=3, last_accessed_at=minutes(1), pinned_by="f" * 64, lifetime=timedelta(seconds=1, microseconds=3),
    status="failed", failure=INTERRUPTED, pending_until=minutes(2), created_at=NOW + timedelta(microseconds=1),
)  # fmt: skip


@pytest.mark.parametrize(
    "stored", [EVERY_FIELD, resource(), pending(), resource(expires_at=None, kept={"reason": "none"})]
)
async def test_both_ways_read_the_same(store_url: str, stored: Resource) -> None:
    store = SQLResourceStore(store_url)
    await store.save(stored)
    viewer = Requester(Principal(id="ana", tenant="acme"), NOW)
    assert await row_of(store, stored) is not None
    fast = [await store.get(stored.id), await store.get(stored.id, viewer)]
    assert store._row_reader is not None
    await store._row_reader.close()
    assert await row_of(store, stored) is None
    assert fast == [await store.get(stored.id), await store.get(stored.id, viewer)] == [stored, stored]
    await store.close()


async def row_of(store: SQLResourceStore, stored: Resource) -> list[dict[str, Any]] | None:
    """What the reader alone reads."""
    assert store._row_reader is not None
    return await store._row_reader.read(_row_query("all"), {"resource_id": stored.id})


async def test_what_others_change_is_seen_at_the_next_read(store_url: str) -> None:
    """Who reads is neither the one who saved nor the one who changes."""
    writer, reader, stored = SQLResourceStore(store_url), SQLResourceStore(store_url), resource()
    await writer.save(stored)
    assert await reader.get(stored.id) == stored
    end, viewer = minutes(30), Requester(None, minutes(20))
    assert await reader.get(stored.id, viewer) is None  # it expired after 15 minutes
    await writer.update(stored.id, ResourceChanges(extend_to=end, now=NOW, accesses=2, accessed_at=NOW))
    changed = replace(stored, expires_at=end, access_count=2, last_accessed_at=NOW)
    assert await reader.get(stored.id, viewer) == changed
    assert await reader.get(stored.id, Requester(None, end + MOMENT)) is None
    await writer.delete(stored.id)
    assert await reader.get(stored.id) is None
    for each in (writer, reader):
        await each.close()


@pytest.fixture
async def filled(postgresql_store_url: str) -> AsyncIterator[tuple[SQLResourceStore, Resource]]:
    """A store in PostgreSQL whose reader has a connection."""
    store, stored = SQLResourceStore(postgresql_store_url), resource()
    await store.save(stored)
    assert await store.get(stored.id) == stored
    yield store, stored
    await store.close()


async def test_a_connection_that_postgresql_has_ended_is_replaced(
    filled: tuple[SQLResourceStore, Resource], postgresql_server: PostgreSQL
) -> None:
    store, stored = filled
    postgresql_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dualsql'"
    )
    assert await store.get(stored.id) == stored
    await until(lambda: row_of(store, stored))


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[AsyncConnection]:
    """A transaction for which each read of the store waits."""
    async with opened(url) as engine, engine.begin() as connection:
        await connection.execute(text("LOCK TABLE dualsql_resources IN ACCESS EXCLUSIVE MODE"))
        yield connection


async def test_a_read_that_waits_is_left_to_the_pool(
    filled: tuple[SQLResourceStore, Resource], postgresql_store_url: str
) -> None:
    store, stored = filled
    async with locked(postgresql_store_url):
        reads = [asyncio.ensure_future(store.get(stored.id)) for _ in range(3)]
        assert await row_of(store, stored) is None
        assert not any(read.done() for read in reads)
    assert await asyncio.gather(*reads) == [stored] * 3


async def test_a_read_does_not_wait_for_many_others(filled: tuple[SQLResourceStore, Resource]) -> None:
    """Where a row took 0.3 s, the last of fifty callers waited for 15 s, and for 2 s without the reader."""
    store, stored = filled
    reader = store._row_reader
    assert isinstance(reader, PostgreSQLRowReader)
    async with reader._lock, asyncio.timeout(10):  # the `timeout` of a store
        assert await store.get(stored.id) == stored


async def test_a_far_store_reads_as_many_rows_as_the_pool_alone(postgresql_store_url: str) -> None:
    """One connection reads one row each round trip: 600 ms for these, and 80 by fifteen connections."""
    url, stored = make_url(postgresql_store_url), resource()
    async with relaying(Relay(f"{url.query['host']}/.s.PGSQL.5432", latency=0.005)) as relay:
        store = SQLResourceStore(f"postgresql+asyncpg://postgres@127.0.0.1:{relay.port}/{url.database}")
        await store.save(stored)
        reader = store._row_reader
        seconds: dict[RowReader | None, list[float]] = {}
        for attempt in range(4):
            for way in (reader, None):
                store._row_reader, begun = way, time.monotonic()
                assert await asyncio.gather(*(store.get(stored.id) for _ in range(60))) == [stored] * 60
                if attempt:  # the first opens the connections
                    seconds.setdefault(way, []).append(time.monotonic() - begun)
        store._row_reader = reader
        await store.close()
    assert min(seconds[reader]) < 1.5 * min(seconds[None])


async def test_a_near_store_reads_rows_on_one_connection(filled: tuple[SQLResourceStore, Resource]) -> None:
    """An ordinary connection takes four times the CPU, however many read at once."""
    store, stored = filled
    reader = store._row_reader
    assert isinstance(reader, PostgreSQLRowReader)

    async def trip() -> float:
        await store.get(stored.id)
        return reader._shortest

    await until(trip, lambda seconds: seconds <= _SHORT_TRIP)
    taken = []
    event.listen(store._connections.engine.sync_engine, "checkout", lambda *_: taken.append(1))
    assert await asyncio.gather(*(store.get(stored.id) for _ in range(100))) == [stored] * 100
    assert taken == []


async def test_a_caller_who_leaves_takes_no_connection_with_it(
    filled: tuple[SQLResourceStore, Resource], postgresql_store_url: str
) -> None:
    store, stored = filled
    async with locked(postgresql_store_url) as connection:
        read = asyncio.ensure_future(store.get(stored.id))
        waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        await until(lambda: connection.scalar(waits))
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        await until(lambda: connection.scalar(waits), lambda waiting: waiting == 0)
    assert await row_of(store, stored) is not None
    pool = store._connections.engine.pool
    assert isinstance(pool, QueuePool)
    assert pool.checkedout() == 1


async def test_a_reader_is_not_that_of_another_event_loop(postgresql_store_url: str) -> None:
    store, stored = SQLResourceStore(postgresql_store_url), resource()

    async def read() -> object:
        await store.open()
        answer = await store.get(stored.id), await row_of(store, stored) is not None
        await store.close()
        return answer

    await store.save(stored)
    assert await read() == (stored, True)
    assert await asyncio.to_thread(asyncio.run, read()) == (stored, True)


async def test_a_connection_of_an_event_loop_that_ended_is_not_closed_in_another(
    postgresql_store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The pool logged errors: it found the connection among the garbage, and tried to end it in a closed loop."""
    store, stored = SQLResourceStore(postgresql_store_url), resource()
    await store.save(stored)
    await store.close()

    async def read() -> object:
        await store.open()
        return await row_of(store, stored) is not None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of sockets, which nobody has closed
        assert await asyncio.to_thread(asyncio.run, read())
        assert await read()
        gc.collect()
    await store.close()
    assert caplog.records == []
