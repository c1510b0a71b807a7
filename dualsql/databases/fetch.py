"""Runs one statement and reads its rows: a page, a sample, a count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Any, NamedTuple, cast

from sqlalchemy import Dialect, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import plan
from dualsql.databases.driver import DriverStatement, driver_statement, is_listened_to, require_described
from dualsql.databases.session import database_errors, in_session, measured, note_lane, note_slow
from dualsql.databases.source import Source
from dualsql.errors import CountExecutionError, DatabaseBusyError, QueryExecutionError, QueryTimeoutError
from dualsql.events import Measurement
from dualsql.formats.writer import Rows
from dualsql.plan import Shape
from dualsql.resource import UNCOUNTED, CountMethod, Total
from dualsql.settings import Settings
from dualsql.tenancy import ActiveRules


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Fetch:
    """A statement under `rules`, all rows of which are read at once.

    Attributes:
        described: the names of its columns, from `dualsql.columns.result.driver_names`.
        timeout: how long it may run.
        failure: the class of the error for what the database refuses.
        may_be_fast: the fast reader of the database may read them.
    """

    source: Source
    statement: Executable
    rules: ActiveRules
    described: Sequence[str]
    timeout: timedelta
    failure: type[QueryExecutionError] = QueryExecutionError
    may_be_fast: bool = True

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

    async def rows(self) -> Rows:
        """Each row a sequence of values in column order: by the fast reader of the database, else in a session.

        Raises:
            QueryTimeoutError: it ran longer than `timeout`; the database was told to stop.
            LimitExceededError: its rows are larger than `Settings.maximum_page_bytes`.
            DatabaseBusyError: no connection was free, or a lock or conflict stopped the statement.
            QueryExecutionError: it has other columns than described; any other failure, as the class `failure`.
        """
        source = self.source
        with database_errors(source, self.failure, limit=self.timeout):
            # Event listeners of an application must see each statement, which only SQLAlchemy shows them.
            if self.may_be_fast and source.fast is not None and not is_listened_to(source.engine.sync_engine):
                sent = self.sent(self.rules.dialect(source.engine.dialect))
                if sent is not None and source.fast.reads(sent):
                    # A slot, although no connection of the pool is taken: the limit is on statements that run.
                    async with source.limits.slot():
                        with self._noted("page_reader") as measurement:
                            rows = await source.fast.fetch(sent, self.timeout)
                            _note_rows(measurement, rows)
                    if rows is not None:
                        return rows
        return await in_session(
            source, self.rules, self._in_session, timeout=self.timeout, failure=self.failure
        )

    async def _in_session(self, connection: AsyncConnection) -> Rows:
        source, opened = self.source, connection.sync_connection
        assert opened is not None
        with (
            self._noted("session") as measurement,
            source.guard.limited_bytes(connection, source.limits.page_bytes),
            source.guard.tolerant_reading(connection),
        ):
            own = source.backend.row_fetches.get(connection.dialect.driver)
            if own is None or is_listened_to(opened.engine, opened):
                rows = cast("Rows", (await self.execute(connection)).all())
            else:
                rows = await own(self, connection)
            _note_rows(measurement, rows)
            return rows

    @contextmanager
    def _noted(self, lane: str) -> Iterator[Measurement | None]:
        """Measure the statement that the block runs, and log it by its reader and if it is slow."""
        started = perf_counter()
        note_lane(lane)
        try:
            with measured(self.source, self.statement, self.rules) as measurement:
                yield measurement
        finally:
            note_slow(self.source, self.statement, self.rules, perf_counter() - started)


def _note_rows(measurement: Measurement | None, rows: Rows | None) -> None:
    if measurement is not None and rows is not None:
        measurement.note({"db.response.returned_rows": len(rows)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
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

    async def total(self, method: CountMethod) -> Total:
        """The number of rows and its kind.

        Raises:
            CountExecutionError: the database refused the count.
            QueryTimeoutError, DatabaseBusyError: an exact or capped count took too long, or no connection was free.
        """
        if method.way == "none":
            return UNCOUNTED
        if method.way in ("exact", "capped"):
            cap = method.cap if method.way == "capped" else None
            return await self._counted(cap, self.settings.query_timeout)
        is_auto = method.way == "auto"
        if is_auto:
            with suppress(QueryTimeoutError, DatabaseBusyError):
                return await self._counted(None, self.settings.count_budget)
        estimate = await self._estimate()
        # So few rows would have been counted in time: the planner is wrong, or the database was busy.
        is_doubtful = estimate is None or (is_auto and estimate <= self.settings.count_cap)
        if is_doubtful:
            with suppress(QueryTimeoutError, DatabaseBusyError):
                return await self._counted(self.settings.count_cap, self.settings.count_budget)
        return UNCOUNTED if estimate is None else Total(estimate, "estimated")

    async def _estimate(self) -> int | None:
        if not self.may_estimate or self.source.capabilities.row_estimate is None:
            return None
        from dualsql.databases.explain import fetch_estimate

        rows, limit = None, self.shape.limit
        # Only the plan was requested: an error here says nothing about the rows.
        with suppress(QueryTimeoutError, DatabaseBusyError, QueryExecutionError):
            explained, timeout = plan.uncounted(self.shape), self.settings.count_budget
            rows = await fetch_estimate(self.source, explained, self.rules, timeout=timeout)
        # Not every planner looks at LIMIT.
        return rows if rows is None or limit is None else min(rows, limit)

    async def _counted(self, cap: int | None, timeout: timedelta) -> Total:
        fetch = Fetch(
            source=self.source,
            statement=plan.count(self.shape, cap=cap),
            rules=self.rules,
            described=("",),
            timeout=timeout,
            failure=CountExecutionError,
        )
        counted = int((await fetch.rows())[0][0])
        return Total(cap, "capped") if cap is not None and counted > cap else Total(counted, "exact")


class Sample(NamedTuple):
    """The rows of a sample, the total, and the value of `sample` that chose them."""

    rows: Rows
    total: Total
    taken: str = "head"


async def fetch_sample(sample: Fetch, counter: RowCounter, method: CountMethod, *, size: int) -> Sample:
    """Run `sample`, which selects one row more than `size`, and count only if that row exists.

    If the sample is not complete after `Settings.count_head_start`, the count starts too, on a second connection if one
    is free: for a query that sorts or groups, both cost the same.
    """
    sampling = asyncio.ensure_future(sample.rows())
    counting: asyncio.Future[Total] | None = None
    try:
        await asyncio.wait({sampling}, timeout=counter.settings.count_head_start.total_seconds())
        if method.way != "none" and not sampling.done() and counter.source.has_room():
            counting = asyncio.ensure_future(counter.total(method))
        rows = await sampling
        if len(rows) <= size:
            return Sample(rows, Total(len(rows), "exact"))
        total = await (counting or counter.total(method))
        # One row more was seen, which "capped" means.
        return Sample(rows[:size], total.at_least(size))
    finally:
        unfinished: list[asyncio.Future[Any]] = [sampling, *([] if counting is None else [counting])]
        for future in unfinished:
            future.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
