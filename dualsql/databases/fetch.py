"""Runs one statement and reads its rows: a page, a sample, a count, a row estimate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple, Protocol, cast

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import plan
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import DriverNames
from dualsql.databases.backends import PageReader, PageReaderBusyError
from dualsql.databases.driver import (
    DriverStatement,
    driver_statement,
    fingerprint,
    is_listened_to,
    require_described,
)
from dualsql.databases.session import GRACE, database_errors, in_session, measured, note_lane, ran_too_long
from dualsql.databases.source import Source
from dualsql.errors import CountExecutionError, DatabaseBusyError, QueryExecutionError, QueryTimeoutError
from dualsql.events import EVENTS, Measurement, StatementStopped
from dualsql.formats.writer import Rows
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A statement under `rules`, all rows of which are read at once.

    Attributes:
        described: the names of its columns, from `dualsql.columns.result.driver_names`.
        timeout: how long it may run.
        failure: the class of the error for what the database refuses.
    """

    source: Source
    statement: Executable
    rules: ActiveRules
    described: Sequence[str]
    timeout: timedelta
    failure: type[QueryExecutionError] = QueryExecutionError

    @property
    def types(self) -> Sequence[SQLType]:
        """The types of its columns, as far as they are known."""
        return self.described.types if isinstance(self.described, DriverNames) else ()

    def sent(self, dialect: Dialect) -> DriverStatement | None:
        """The statement for the driver; None if its columns cannot be matched by position."""
        return driver_statement(
            dialect, self.statement, self.rules.values, self.source.compiled, self.described
        )

    async def execute(self, connection: AsyncConnection) -> Any:
        """SQLAlchemy's result.

        Raises:
            QueryExecutionError: it has other columns than described.
        """
        options = {"compiled_cache": self.source.compiled}
        result: Any = await connection.execute(self.statement, self.rules.values, execution_options=options)
        require_described(list(result.keys()), self.described)
        return result

    @contextmanager
    def noted(self, lane: str) -> Iterator[Measurement | None]:
        """Measure the statement that the block runs, and log it by its reader and if it is slow."""
        started = perf_counter()
        note_lane(lane)
        try:
            with measured(self.source, self.statement, self.rules) as measurement:
                yield measurement
        finally:
            seconds = perf_counter() - started
            if seconds > self.source.limits.slow_seconds:
                note_slow(self.source, self.statement, self.rules, seconds)


class RowReader(Protocol):
    """Reads all rows of a statement. There are two: a session of the pool, and the fast reader of the database."""

    async def rows(self, fetch: Fetch) -> Rows | None:
        """Each row a sequence of values in column order; None if the next reader has to read them.

        Raises:
            QueryTimeoutError: it ran longer than `timeout`; the database was told to stop.
            LimitExceededError: its rows are larger than `Settings.maximum_page_bytes`.
            DatabaseBusyError: no connection was free, or a lock or conflict stopped the statement.
            QueryExecutionError: it has other columns than described; any other failure, as the class `failure`.
        """


def readers_of(source: Source, fast: PageReader | None) -> Sequence[RowReader]:
    """The readers of a source in the order in which they are asked; the last one reads every statement.

    Args:
        fast: of the source, either for pages or for samples and counts.
    """
    # Event listeners of an application must see each statement, which only SQLAlchemy shows them.
    if fast is None or is_listened_to(source.engine.sync_engine):
        return (SessionReader(),)
    return (FastReader(fast), SessionReader())


class SessionReader:
    """Reads in a read-only session of the pool, through SQLAlchemy or by `Backend.row_fetches`."""

    async def rows(self, fetch: Fetch) -> Rows:
        """See `RowReader`."""

        async def read(connection: AsyncConnection) -> Rows:
            source = fetch.source
            with (
                fetch.noted("session") as measurement,
                source.guard.limited_bytes(connection, source.limits.page_bytes),
                source.guard.tolerant_reading(connection),
            ):
                rows = await _by_driver(fetch, connection)
                if measurement is not None:
                    measurement.note({"db.response.returned_rows": len(rows)})
                return rows

        return await in_session(fetch.source, fetch.rules, read, timeout=fetch.timeout)


async def _by_driver(fetch: Fetch, connection: AsyncConnection) -> Rows:
    opened = connection.sync_connection
    assert opened is not None
    own = fetch.source.backend.row_fetches.get(connection.dialect.driver)
    # With event listeners, only SQLAlchemy may execute.
    if own is not None and not is_listened_to(opened.engine, opened):
        return await own(fetch, connection)
    return cast("Rows", (await fetch.execute(connection)).all())


class FastReader:
    """Reads with the database's own reader, which takes no connection of the pool."""

    def __init__(self, reader: PageReader) -> None:
        self._reader = reader

    async def rows(self, fetch: Fetch) -> Rows | None:
        """See `RowReader`. None for a statement that only SQLAlchemy can run, and if the reader is busy."""
        source, timeout = fetch.source, fetch.timeout
        sent = fetch.sent(fetch.rules.dialect(source.engine.dialect))
        if sent is None:
            return None
        # A slot, although no connection of the pool is taken: the limit is on statements that run.
        async with source.limits.slot():
            with fetch.noted("page_reader") as measurement:
                rows = self._reader.fetch_at_once(sent, timeout)
                if rows is None:
                    rows = await _in_time(self._reader.fetch(sent, timeout), timeout)
                if measurement is not None and rows is not None:
                    measurement.note({"db.response.returned_rows": len(rows)})
                return rows


async def _in_time(fetching: Awaitable[Rows], timeout: timedelta) -> Rows | None:
    try:
        async with asyncio.timeout(timeout.total_seconds() + GRACE):
            return await fetching
    except PageReaderBusyError:
        return None
    except TimeoutError as error:
        EVENTS.report(StatementStopped("timeout"))
        raise ran_too_long(timeout) from error


async def _read(fetch: Fetch, readers: Sequence[RowReader]) -> Rows:
    for reader in readers:
        with database_errors(fetch.source, fetch.failure, limit=fetch.timeout):
            rows = await reader.rows(fetch)
            if rows is not None:
                return rows
    raise AssertionError("a session reads every statement")


async def fetch_rows(
    source: Source,
    statement: Executable,
    rules: ActiveRules,
    *,
    described: Sequence[str],
    timeout: timedelta,
    fast: PageReader | None = None,
) -> Rows:
    """All rows of `statement`; see `Fetch` and `RowReader.rows`.

    Args:
        fast: of the source, for a page: without it, a statement that may take long is read in a session.
    """
    fetch = Fetch(source=source, statement=statement, rules=rules, described=described, timeout=timeout)
    return await _read(fetch, readers_of(source, fast))


async def described_types(
    source: Source, statement: Executable, rules: ActiveRules, *, timeout: timedelta
) -> Sequence[SQLType]:
    """The types of the columns of `statement` as its database describes them; empty where it describes none.

    NullType stands for a type that has no form in answers.

    Raises:
        QueryTimeoutError, DatabaseBusyError, QueryExecutionError: see `RowReader.rows`.
    """
    type_of = source.backend.described_type
    if type_of is None:
        return ()

    def describe(opened: Connection) -> Sequence[SQLType]:
        options = {"compiled_cache": source.compiled}
        result = opened.execute(statement, rules.values, execution_options=options)
        assert result.cursor is not None
        return [type_of(column[1]) for column in result.cursor.description]

    with database_errors(source, limit=timeout):
        return await in_session(
            source, rules, lambda connection: connection.run_sync(describe), timeout=timeout
        )


def note_slow(source: Source, statement: Executable, rules: ActiveRules, seconds: float) -> None:
    """Log a statement that has run for longer than `Settings.slow_query`."""
    dialect = rules.dialect(source.engine.dialect)
    log_slow_query(source.name, fingerprint(dialect, statement, rules.values, source.compiled), seconds)


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
        fetch = Fetch(
            source=self.source,
            statement=count,
            rules=self.rules,
            described=("",),
            timeout=timeout,
            failure=CountExecutionError,
        )
        rows = await _read(fetch, readers_of(self.source, self.source.sampler))
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
    fetch = Fetch(source=source, statement=sample, rules=rules, described=described, timeout=timeout)
    sampling = asyncio.ensure_future(_read(fetch, readers_of(source, source.sampler)))
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
