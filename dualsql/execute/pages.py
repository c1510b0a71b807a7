"""Fetch the rows of one page; the rule: the short way and the long way answer the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta

from sqlalchemy import Executable

from dualsql.execute.failures import database_errors, ran_too_long
from dualsql.execute.lanes.statement import driver_statement, is_listened_to
from dualsql.execute.quick import HeldUpError
from dualsql.execute.rows import Rows, fetch_rows
from dualsql.execute.session import apart
from dualsql.execute.source import Source
from dualsql.narrowing import Narrowing

# The database's own limit comes first: see dualsql.execute.running.
_GRACE = 0.25


async def fetch_page(
    source: Source,
    statement: Executable,
    narrowing: Narrowing,
    *,
    described: Sequence[str],
    timeout: timedelta,
) -> Rows:
    """All rows of `statement` under `narrowing`; see `fetch_rows`, which it goes by where there is no shorter way."""
    found = await _quickly(source, statement, narrowing, described=described, timeout=timeout)
    if found is not None:
        return found
    return await fetch_rows(source, statement, narrowing, described=described, timeout=timeout)


async def _quickly(
    source: Source,
    statement: Executable,
    narrowing: Narrowing,
    *,
    described: Sequence[str],
    timeout: timedelta,
) -> Rows | None:
    """The rows; None for a statement that only SQLAlchemy can run, and when the thread is not to be had."""
    reader = source.quick
    if reader is None or is_listened_to(source.engine.sync_engine):
        return None
    with database_errors(source, limit=timeout):
        dialect = narrowing.dialect(source.engine.dialect)
        sent = driver_statement(dialect, statement, narrowing.values, source.compiled, described)
        if sent is None:
            return None
        async with apart(source, narrowing, limit=timeout):
            found = reader.fetch_at_once(sent, timeout)
            return await _in_time(reader.fetch(sent, timeout), timeout) if found is None else found


async def _in_time(fetching: Awaitable[Rows], timeout: timedelta) -> Rows | None:
    try:
        async with asyncio.timeout(timeout.total_seconds() + _GRACE):
            return await fetching
    except HeldUpError:
        return None
    except TimeoutError as error:
        raise ran_too_long(timeout) from error
