"""Two databases that differ only in what a principal of the tenant "south" must not see, on any engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, create_engine, insert, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.http.application import Application, by_header, running
from tests.query.readings import HOOKS, METADATA, READINGS, ROWS

Row = dict[str, Any]

_EXTREMES: Row = {
    "text": "not a number",
    "word": "one",
    "small": 0,
    "big": -(2**63) + 1,
    "price": Decimal("-9999999999.99"),
    "ratio": -1e308,
    "flag": True,
    "day": dt.date(9999, 12, 30),
    "moment": dt.datetime(9999, 12, 30, 23, 59),  # noqa: DTZ001
    "clock": dt.time(0, 0),
    "span": dt.timedelta(0),
    "code": UUID(int=2**128 - 1),
    "blob": b"\x00",
}
"""Values that make arithmetic and conversions of hidden rows fail."""


def _visible() -> list[Row]:
    return [row for row in ROWS if row["tenant"] == "south"]


def _first() -> list[Row]:
    return ROWS


def _second() -> list[Row]:
    """Other rows of the other tenant, more of them, and other masked values in the visible ones."""
    hidden: list[Row] = []
    for number in range(1_000, 1_700):
        kept = {name: None if number % 11 == 0 else value for name, value in _EXTREMES.items()}
        hidden.append({"id": number, "tenant": "north", **kept, "secret": "x" * (number % 9)})
    seen = [row | {"secret": f"s{row['id'] % 3}"} for row in _visible()]
    return [*hidden[:350], *seen, *hidden[350:]]


def _fill(connection: Connection, rows: list[Row], payroll: int) -> None:
    METADATA.create_all(connection)
    connection.execute(insert(READINGS), rows)
    if payroll:
        connection.execute(text("CREATE TABLE payroll (id INTEGER, salary INTEGER)"))
        connection.execute(text(f"INSERT INTO payroll VALUES (1, {payroll})"))
    if connection.dialect.name != "sqlite":
        connection.execute(text("ANALYZE"))


TIME_LIMITS = ("count_budget", "profile_budget", "query_timeout", "queue_timeout")
"""Settings by which an answer depends on time: a profile leaves out what it had no time for, and what waits for a
connection for too long is refused. On a busy machine that differs from one world to the other."""


@asynccontextmanager
async def world(url: str, rows: list[Row], *, payroll: int) -> AsyncIterator[Application]:
    """A server on the empty database at `url`, filled; a table beside that it does not serve, if `payroll`."""
    if url.startswith("duckdb"):
        synchronous: Engine = create_engine(url)
        with synchronous.begin() as connection:
            _fill(connection, rows, payroll)
        synchronous.dispose()
    else:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(_fill, rows, payroll)
        await engine.dispose()
    limits = dict.fromkeys(TIME_LIMITS, dt.timedelta(minutes=10))
    options: dict[str, Any] = {"authenticate": by_header, **limits}
    async with running(url, tables=METADATA, hooks=HOOKS, **options) as application:
        yield application


@asynccontextmanager
async def two_worlds(first: str, second: str) -> AsyncIterator[tuple[Application, Application]]:
    """Both, each in a database of its own."""
    async with AsyncExitStack() as stack:
        yield (
            await stack.enter_async_context(world(first, _first(), payroll=0)),
            await stack.enter_async_context(world(second, _second(), payroll=900_000)),
        )
