"""Runs one statement and reads its rows: a page, a sample, a count, a row estimate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple, cast

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import plan
from dualsql.columns.result import DriverNames
from dualsql.databases.backends import (
    PageReader,
    PageReaderBusyError,
    driver_statement,
    fingerprint,
    is_listened_to,
    require_described,
)
from dualsql.databases.session import GRACE, database_errors, in_session, measured, note_lane, ran_too_long
from dualsql.databases.source import Source
from dualsql.errors import CountExecutionError, DatabaseBusyError, QueryExecutionError, QueryTimeoutError
from dualsql.events import EVENTS, StatementStopped
from dualsql.freeze.document import AnySelect
from dualsql.log import log_slow_query
from dualsql.plan import Shape
from dualsql.resource import UNCOUNTED, CountMethod, Total
from dualsql.settings import Settings
from dualsql.tenancy import ActiveRules


async def fetch_estimate(
    source: Source, statement: AnySelect, rules: ActiveRules, *, timeout: timedelta
) -> int | None:
    """The planner's row estimate for `statement` under `rules`; None if the database has none.

    Raises:
        QueryTimeoutError, DatabaseBusyError: planning took longer than `timeout`, or no connection was free.
        QueryExecutionError: the database refused.
    """
    estimate = source.capabilities.row_estimate
    if estimate is None:
        return None
    # EXPLAIN is put before the compiled text, which has the rules of the tables in it.
    with database_errors(source, limit=timeout):
        dialect = rules.dialect(source.engine.dialect)
        sent = driver_statement(dialect, statement, rules.values, source.compiled, ())
        if sent is None:
            return None

        async def fetch(connection: AsyncConnection) -> Any:
            result = await connection.exec_driver_sql(estimate.explain + sent.sql, sent.parameters)
            return result.scalar_one()

        plan = await in_session(source, rules, fetch, timeout=timeout)
    return estimate.rows(_parsed(plan))


def _parsed(plan: Any) -> Any:
    """The plan as data; None if it is not valid JSON: MariaDB does not escape a backslash in a condition."""
    if not isinstance(plan, str | bytes):
        return plan
    try:
        return json.loads(plan)
    except ValueError:
        return None


Rows = Sequence[Sequence[Any]]


async def fetch_rows(
    source: Source,
    statement: Executable,
    rules: ActiveRules,
    *,
    described: Sequence[str],
    timeout: timedelta,
    failure: type[QueryExecutionError] = QueryExecutionError,
) -> Rows:
    """All rows of `statement` under `rules`, each a sequence of values in column order.

    Args:
        described: the names of its columns, from `dualsql.columns.result.driver_names`.

    Raises:
        QueryTimeoutError: it ran longer than `timeout`; the database was told to stop.
        LimitExceededError: its rows are larger than `Settings.maximum_page_bytes`.
        DatabaseBusyError: no connection was free, or a lock or conflict stopped the statement.
        QueryExecutionError: it has other columns than described; any other failure, as the class `failure`.
    """

    async def fetch(connection: AsyncConnection) -> Rows:
        started = perf_counter()
        note_lane("session")
        try:
            with (
                measured(source, statement, rules) as measurement,
                source.guard.limited_bytes(connection, source.limits.page_bytes),
                source.guard.tolerant_reading(connection),
            ):
                rows = await _rows(source, statement, rules, connection, described)
                if measurement is not None:
                    measurement.note({"db.response.returned_rows": len(rows)})
                return rows
        finally:
            if perf_counter() - started > source.limits.slow_seconds:
                note_slow(source, statement, rules, perf_counter() - started)

    with database_errors(source, failure, limit=timeout):
        return await in_session(source, rules, fetch, timeout=timeout)


async def _rows(
    source: Source,
    statement: Executable,
    rules: ActiveRules,
    connection: AsyncConnection,
    described: Sequence[str],
) -> Rows:
    opened = connection.sync_connection
    assert opened is not None
    # With event listeners, only SQLAlchemy may execute.
    exact = source.backend.exact_fetches.get(connection.dialect.driver)
    if exact is not None and is_listened_to(opened.engine, opened):
        exact = None
    kinds = described.types if isinstance(described, DriverNames) else ()
    if exact is not None and exact.is_known_for(kinds, connection.dialect):
        sent = driver_statement(opened.dialect, statement, rules.values, source.compiled, described)
        if sent is not None:
            return await exact.fetch(connection, sent)
    try:
        result: Any = await connection.execute(
            statement, rules.values, execution_options={"compiled_cache": source.compiled}
        )
        require_described(list(result.keys()), described)
        if exact is None:
            return cast("Rows", result.all())
        codes = _codes(result)
        if not exact.is_needed_for(codes):
            found: Rows = result.all()
            if not exact.is_needed_after(found, codes, connection.dialect):
                return found
    except (ValueError, OverflowError):  # a driver's, of a value that Python has no class for
        if exact is None:
            raise
    sent = driver_statement(opened.dialect, statement, rules.values, source.compiled, described)
    if sent is None:
        raise QueryExecutionError(
            "A value of the result cannot be read.",
            hint="If the column is a date or an interval, CAST it to text.",
        )
    return await exact.fetch(connection, sent)


def note_slow(source: Source, statement: Executable, rules: ActiveRules, seconds: float) -> None:
    """Log a statement that has run for longer than `Settings.slow_query`."""
    dialect = rules.dialect(source.engine.dialect)
    log_slow_query(source.name, fingerprint(dialect, statement, rules.values, source.compiled), seconds)


def _codes(result: Any) -> list[Any]:
    return [described[1] for described in result.cursor.description or ()]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounter:
    """Counts the rows of one statement.

    Attributes:
        may_estimate: the caller may see what the planner's statistics reveal.
    """

    source: Source
    shape: Shape
    rules: ActiveRules
    settings: Settings
    may_estimate: bool

    async def total(self, asked: CountMethod) -> Total:
        """The number of rows and its kind.

        Raises:
            CountExecutionError: the database refused the count.
            QueryTimeoutError, DatabaseBusyError: an exact or capped count took too long, or no connection was free.
        """
        if asked.way == "none":
            return UNCOUNTED
        if asked.way == "estimated":
            return await self._estimated()
        if asked.way == "auto":
            return await self._within_budget()
        cap = asked.cap if asked.way == "capped" else None
        return await self._counted(cap, self.settings.query_timeout)

    async def _within_budget(self) -> Total:
        with suppress(QueryTimeoutError, DatabaseBusyError):
            return await self._counted(None, self.settings.count_budget)
        expected = await self._planned()
        # So few rows would have been counted in time: the planner is wrong, or the database was busy.
        is_likely = expected.rows is not None and expected.rows > self.settings.count_cap
        return expected if is_likely else await self._capped() or expected

    async def _estimated(self) -> Total:
        """The planner's estimate, or a capped count if the estimate must not be used."""
        expected = await self._planned()
        return expected if expected.rows is not None else await self._capped() or expected

    async def _capped(self) -> Total | None:
        with suppress(QueryTimeoutError, DatabaseBusyError):
            return await self._counted(self.settings.count_cap, self.settings.count_budget)
        return None

    async def _planned(self) -> Total:
        if not self.may_estimate:
            return UNCOUNTED
        rows, limit = None, self.shape.limit
        explained, timeout = plan.uncounted(self.shape), self.settings.count_budget
        # Only the plan was requested: an error here says nothing about the rows.
        with suppress(QueryTimeoutError, DatabaseBusyError, QueryExecutionError):
            rows = await fetch_estimate(self.source, explained, self.rules, timeout=timeout)
        if rows is None:
            return UNCOUNTED
        # Not every planner looks at LIMIT.
        return Total(rows if limit is None else min(rows, limit), "estimated")

    async def _counted(self, cap: int | None, timeout: timedelta) -> Total:
        counted = await self._number(plan.count(self.shape, cap=cap), timeout)
        return Total(cap, "capped") if cap is not None and counted > cap else Total(counted, "exact")

    async def _number(self, count: Executable, timeout: timedelta) -> int:
        rows = await _fetch_sample_rows(
            self.source, count, self.rules, described=("",), timeout=timeout, failure=CountExecutionError
        )
        return int(rows[0][0])


class Sample(NamedTuple):
    """The rows of a sample, the total, and the value of `sample` that chose them."""

    rows: Rows
    total: Total
    taken: str = "head"


async def fetch_sample(
    sample: Executable,
    counter: RowCounter,
    asked: CountMethod,
    *,
    rules: ActiveRules,
    described: Sequence[str],
    size: int,
    head_start: timedelta,
) -> Sample:
    """Run `sample` under `rules`, which selects one row more than `size`, and count only if that row exists.

    If the sample is not complete after `head_start`, the count starts too, on a second connection if one is free: for a
    query that sorts or groups, both cost the same.
    """
    source, timeout = counter.source, counter.settings.query_timeout
    sampling = asyncio.ensure_future(
        _fetch_sample_rows(source, sample, rules, described=described, timeout=timeout)
    )
    counting: asyncio.Future[Total] | None = None
    try:
        await asyncio.wait({sampling}, timeout=head_start.total_seconds())
        if asked.way != "none" and not sampling.done() and source.has_room():
            counting = asyncio.ensure_future(counter.total(asked))
        rows = await sampling
        if len(rows) <= size:
            return Sample(rows, Total(len(rows), "exact"))
        total = await (counting or counter.total(asked))
        # One row more was seen, which "capped" means.
        return Sample(rows[:size], total.at_least(size))
    finally:
        await _abandon(sampling, counting)


async def _abandon(*running: asyncio.Future[Any] | None) -> None:
    unfinished = [future for future in running if future is not None]
    for future in unfinished:
        future.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)


async def fetch_page(
    source: Source,
    statement: Executable,
    rules: ActiveRules,
    *,
    described: Sequence[str],
    timeout: timedelta,
) -> Rows:
    """All rows of `statement` under `rules`, by the page reader if there is one, otherwise by `fetch_rows`."""
    found = await _quickly(source, source.quick, statement, rules, described=described, timeout=timeout)
    if found is not None:
        return found
    return await fetch_rows(source, statement, rules, described=described, timeout=timeout)


async def _fetch_sample_rows(
    source: Source,
    statement: Executable,
    rules: ActiveRules,
    *,
    described: Sequence[str],
    timeout: timedelta,
    failure: type[QueryExecutionError] = QueryExecutionError,
) -> Rows:
    """As `fetch_page`, by the reader of samples and counts."""
    found = await _quickly(
        source, source.sampler, statement, rules, described=described, timeout=timeout, failure=failure
    )
    if found is not None:
        return found
    return await fetch_rows(source, statement, rules, described=described, timeout=timeout, failure=failure)


async def _quickly(
    source: Source,
    reader: PageReader | None,
    statement: Executable,
    rules: ActiveRules,
    *,
    described: Sequence[str],
    timeout: timedelta,
    failure: type[QueryExecutionError] = QueryExecutionError,
) -> Rows | None:
    """The rows; None for a statement that only SQLAlchemy can run, and if the thread is busy."""
    # Event listeners of an application must see each statement, which only SQLAlchemy shows them.
    if reader is None or is_listened_to(source.engine.sync_engine):
        return None
    with database_errors(source, failure, limit=timeout):
        dialect = rules.dialect(source.engine.dialect)
        sent = driver_statement(dialect, statement, rules.values, source.compiled, described)
        if sent is None:
            return None
        # A slot, although no connection of the pool is taken: the limit is on statements that run.
        async with source.limits.slot():
            started = perf_counter()
            note_lane("page_reader")
            try:
                with measured(source, statement, rules) as measurement:
                    rows = reader.fetch_at_once(sent, timeout)
                    if rows is None:
                        rows = await _in_time(reader.fetch(sent, timeout), timeout)
                    if measurement is not None and rows is not None:
                        measurement.note({"db.response.returned_rows": len(rows)})
                    return rows
            finally:
                if perf_counter() - started > source.limits.slow_seconds:
                    note_slow(source, statement, rules, perf_counter() - started)


async def _in_time(fetching: Awaitable[Rows], timeout: timedelta) -> Rows | None:
    try:
        async with asyncio.timeout(timeout.total_seconds() + GRACE):
            return await fetching
    except PageReaderBusyError:
        return None
    except TimeoutError as error:
        EVENTS.report(StatementStopped("timeout"))
        raise ran_too_long(timeout) from error
