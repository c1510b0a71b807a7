"""A row read on the event loop is the row of the long way, and whatever goes wrong is left to that."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url, text

from dualsql.store.engines import FastRowReader, RowQuery

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
