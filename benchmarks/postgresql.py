"""The flights in a real PostgreSQL, for the length of a benchmark. The rows are those of the SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import Table, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.flights import TIMES_FIVE, airlines, copies, database, flights, metadata, planes
from benchmarks.statements import every_type
from tests import engines

TYPED_ROWS = 200_000

_EVERY_TYPE = f"""
INSERT INTO {{table}} SELECT
    n, n % 1000, n / 7.0, n / 3.0::float8, 'name "' || n || '", ' || chr(945 + n % 20), n % 3 = 0,
    date '2000-01-01' + n % 9000, timestamp '2001-01-01' + n * interval '1 second 1 millisecond',
    timestamptz '2002-01-01 00:00Z' + n * interval '1 minute', time '00:00' + n * interval '1 second',
    n * interval '1.5 seconds', md5(n::text)::uuid, decode(md5(n::text), 'hex'),
    jsonb_build_object('n', n, 'even', n % 2 = 0), array[n, n + 1, -n]
FROM generate_series(1, {TYPED_ROWS}) AS numbers(n)
"""


@asynccontextmanager
async def loaded() -> AsyncIterator[str]:
    """The URL, for asyncpg's dialect, of a database with all that `benchmarks.statements` asks for."""
    with engines.postgresql_server() as server, server.database() as url:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        await engine.dispose()
        connection = await connected(url)
        try:
            await _copy(connection, flights, _flights(database()))
            for table in (airlines, planes):
                await _copy(connection, table, _rows(database(), table))
            await _copy(connection, copies, ((number,) for number in range(1, TIMES_FIVE + 1)))
            await connection.execute(_EVERY_TYPE.format(table=every_type.name))
            await connection.execute("VACUUM ANALYZE")
        finally:
            await connection.close()
        yield url


async def connected(url: str) -> Any:
    """A bare asyncpg connection to the database of an SQLAlchemy URL."""
    parts = make_url(url)
    return await asyncpg.connect(
        host=parts.query["host"], user=parts.username, database=parts.database, timeout=60
    )


async def _copy(connection: Any, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    await connection.copy_records_to_table(table.name, records=rows)


def _flights(path: Path) -> Iterator[tuple[Any, ...]]:
    for *values, instant in _rows(path, flights):
        yield (*values, datetime.fromisoformat(instant))


def _rows(path: Path, table: Table) -> Iterator[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        yield from connection.execute(f"SELECT * FROM {table.name}")
