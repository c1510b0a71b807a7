"""A row read on the event loop is the row of the long way, and whatever goes wrong is left to that."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from dualsql.resource import INTERRUPTED, Principal, Resource
from dualsql.store import ResourceChanges, SQLResourceStore
from dualsql.store.engines import FastRowReader, RowQuery
from dualsql.store.protocol import Requester
from dualsql.testing.stores import MOMENT, NOW, minutes, pending, resource

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
def reader(path: Path) -> Iterator[FastRowReader]:
    reader = FastRowReader(make_url(f"sqlite+aiosqlite:///{path}"))
    yield reader
    reader.close()


def test_a_row_is_read_while_another_process_writes(path: Path, reader: FastRowReader) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE numbers SET n = 2")
        assert reader.rows(ONE) == [(1,)]
        writer.execute("COMMIT")
        assert reader.rows(ONE) == [(2,)]


def test_what_takes_long_is_stopped_and_rests(reader: FastRowReader) -> None:
    begun = time.monotonic()
    assert reader.rows(ENDLESS) is None
    assert time.monotonic() - begun < 1  # milliseconds, on a machine with nothing else to do
    assert reader.rows(ONE) is None


def test_nothing_is_written(path: Path, reader: FastRowReader) -> None:
    assert reader.rows(RowQuery(text("DELETE FROM numbers RETURNING n"))) is None
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (1,)


def test_a_file_that_went_is_not_read_on(path: Path, reader: FastRowReader) -> None:
    assert reader.rows(ONE) == [(1,)]
    path.rename(path.with_suffix(".gone"))
    assert reader.rows(ONE) is None
    assert not path.exists()


def test_a_file_whose_readers_wait_for_writers_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    reader = FastRowReader(make_url(f"sqlite+aiosqlite:///{path}"))
    assert reader.rows(ONE) is None
    reader.close()


async def test_another_thread_takes_the_long_way(reader: FastRowReader) -> None:
    assert reader.rows(ONE) == [(1,)]
    assert await asyncio.to_thread(reader.rows, ONE) is None


def test_nothing_is_read_after_the_end(reader: FastRowReader) -> None:
    reader.close()
    assert reader.rows(ONE) is None


def test_a_file_in_the_place_of_another_is_read(path: Path, reader: FastRowReader) -> None:
    assert reader.rows(ONE) == [(1,)]
    other = path.with_suffix(".other")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE numbers AS SELECT 2 AS n")
        connection.commit()
    other.replace(path)
    assert reader.rows(ONE) == [(2,)]


def test_a_text_that_is_no_unicode_is_no_text(path: Path, reader: FastRowReader) -> None:
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
async def test_both_ways_read_the_same(sqlite_store_url: str, stored: Resource) -> None:
    store = SQLResourceStore(sqlite_store_url)
    await store.save(stored)
    viewer = Requester(Principal(id="ana", tenant="acme"), NOW)
    fast = [await store.get(stored.id), await store.get(stored.id, viewer)]
    assert store._fast_reader is not None
    store._fast_reader.close()
    assert fast == [await store.get(stored.id), await store.get(stored.id, viewer)] == [stored, stored]
    await store.close()


async def test_what_others_change_is_seen_at_the_next_read(sqlite_store_url: str) -> None:
    """Who reads is neither the one who saved nor the one who changes."""
    writer, reader, stored = (
        SQLResourceStore(sqlite_store_url),
        SQLResourceStore(sqlite_store_url),
        resource(),
    )
    await writer.save(stored)
    assert await reader.get(stored.id) == stored
    until, viewer = minutes(30), Requester(None, minutes(20))
    assert await reader.get(stored.id, viewer) is None  # it expired after 15 minutes
    await writer.update(stored.id, ResourceChanges(extend_to=until, now=NOW, accesses=2, accessed_at=NOW))
    changed = replace(stored, expires_at=until, access_count=2, last_accessed_at=NOW)
    assert await reader.get(stored.id, viewer) == changed
    assert await reader.get(stored.id, Requester(None, until + MOMENT)) is None
    await writer.delete(stored.id)
    assert await reader.get(stored.id) is None
    for each in (writer, reader):
        await each.close()
