"""The same rows read by a driver alone, in this process and with no HTTP. The fastest plain way there is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from importlib import import_module
from typing import Any

import httpx
from sqlalchemy import make_url

from benchmarks.postgresql import connected

ALL = "SELECT * FROM flights ORDER BY id"


async def adbc(url: str, query: str = ALL) -> int:
    """Rows of the Arrow batches of `query`, none of them kept."""
    database = "sqlite" if url.startswith("sqlite") else "postgresql"
    module: Any = import_module(f"adbc_driver_{database}.dbapi")
    with closing(module.connect(_driver_url(url))) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query)
        return sum(batch.num_rows for batch in cursor.fetch_record_batch())


async def dicts(url: str) -> int:
    """All rows as dicts in one list."""
    if url.startswith("sqlite"):
        return len(_sqlite_dicts(str(make_url(url).database)))
    async with _connection(url) as connection:
        return len([dict(record) for record in await connection.fetch(ALL)])


async def copied(url: str, query: str = ALL) -> int:
    """Bytes of PostgreSQL's COPY to CSV."""
    size = 0

    async def count(data: bytes) -> None:
        nonlocal size
        size += len(data)

    async with _connection(url) as connection:
        await connection.copy_from_query(query, output=count, format="csv", header=True)
    return size


async def csv_rows(http: httpx.AsyncClient, url: str) -> int:
    """Rows of a CSV answer that is not compressed, read as fast as a client can count its lines."""
    lines = 0
    plain = {"Accept-Encoding": "identity"}
    async with http.stream("GET", url, headers=plain, timeout=600) as response:
        response.raise_for_status()
        async for chunk in response.aiter_raw():
            lines += chunk.count(b"\n")
    return lines - 1


def _sqlite_dicts(path: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(ALL)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[Any]:
    connection = await connected(url)
    try:
        yield connection
    finally:
        await connection.close()


def _driver_url(url: str) -> str:
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        return str(parts.database)
    return f"postgresql:///{parts.database}?host={parts.query['host']}&user={parts.username}"
