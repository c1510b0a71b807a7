"""Rows by psycopg, which sends a statement and the one that follows it in one round trip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic, perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import util
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.driver import DriverStatement, driver_of, require_described
from dualsql.databases.fetch import Fetch
from dualsql.databases.postgresql.guard import has_pipeline, noticing_loss
from dualsql.formats.cells import processed
from dualsql.formats.writer import Rows

_QUICK = 0.025
"""Seconds in which a statement is quick: it costs little if it was sent along and is not needed."""

_MOST_QUICK = 1_000

_quick: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""By engine: hashes of the statements that were quick when they ran last."""


async def fetch_in_pipeline(fetch: Fetch, connection: AsyncConnection) -> Rows:
    """All rows of a statement by psycopg; those of what follows it come along if both were quick when they ran last."""
    # Outside a transaction (an engine in AUTOCOMMIT), the database has no limit for the count.
    driver = driver_of(connection)
    can_pipeline = has_pipeline(driver.__class__) and driver.pgconn.transaction_status
    statement = _statement(fetch, connection) if can_pipeline else None
    if statement is None:
        return await fetch.rows_of_sqlalchemy(connection)
    quick = _quick_of(fetch.source.engine.sync_engine)
    following = fetch.following.fetch if fetch.following and hash(statement.sql) in quick else None
    next_statement = None if following is None else _statement(following, connection)
    start, is_quick = perf_counter(), False
    try:
        if following is None or next_statement is None or hash(next_statement.sql) not in quick:
            rows = await _read(driver, statement)
        else:
            rows = await _read_both(fetch, statement, following, next_statement, connection)
        is_quick = perf_counter() - start < _QUICK
        return rows
    finally:
        if is_quick:
            quick[hash(statement.sql)] = True
        else:
            quick.pop(hash(statement.sql), None)


def _statement(fetch: Fetch, connection: AsyncConnection) -> DriverStatement | None:
    """The statement for the driver; None if SQLAlchemy has to run it."""
    if internals.logs(fetch.source.engine.sync_engine):
        return None
    with suppress(Exception):  # of a value that its type does not accept: SQLAlchemy raises its own
        return fetch.statement_for(connection.dialect)
    return None


def _quick_of(engine: Any) -> Any:
    """The statements of an engine that were quick: a cache that forgets those that were used least recently."""
    if engine not in _quick:
        _quick[engine] = util.LRUCache(_MOST_QUICK)
    return _quick[engine]


async def _read(driver: Any, statement: DriverStatement) -> Rows:
    with noticing_loss(driver):
        cursor = await driver.execute(statement.sql, statement.parameters)
        return await _rows(cursor, statement)


async def _read_both(
    fetch: Fetch,
    statement: DriverStatement,
    following: Fetch,
    next_statement: DriverStatement,
    connection: AsyncConnection,
) -> Rows:
    driver, failure = driver_of(connection), None
    cursor, next_cursor = driver.cursor(), driver.cursor()

    async def send() -> None:
        await cursor.execute(statement.sql, statement.parameters)
        await following.renew_limit(fetch, connection, fetch.timeout + following.timeout)
        await next_cursor.execute(next_statement.sql, next_statement.parameters)

    following.sent_at = monotonic()
    try:
        with noticing_loss(driver):
            await _pipelined(driver, send)
    except Exception as error:
        if cursor.pgresult is None:
            raise
        failure = error

    async def read_ahead() -> Rows:
        if failure is not None:
            raise failure
        return await _rows(next_cursor, next_statement)

    following.read_ahead = read_ahead
    return await _rows(cursor, statement)


async def _pipelined(driver: Any, send: Callable[[], Awaitable[None]]) -> None:
    """Send in a pipeline; raises the first error of what was sent."""
    failures: list[Exception] = []
    try:
        async with driver.pipeline():
            try:
                await send()
            except Exception as error:  # noqa: BLE001 - psycopg logs what leaves its pipeline, and raises another one
                failures.append(error)
    except Exception as error:  # noqa: BLE001 - raised below
        failures.append(error)
    if failures:
        raise failures[0]


async def _rows(cursor: Any, statement: DriverStatement) -> Rows:
    result, columns = cursor.pgresult, range(cursor.pgresult.nfields)
    # Not `cursor.description`, which makes an object of each column.
    encoding = cursor.connection.info.encoding
    require_described([result.fname(each).decode(encoding) for each in columns], statement.described)
    rows = await cursor.fetchall()
    return processed(rows, statement.processors([result.ftype(each) for each in columns]))
