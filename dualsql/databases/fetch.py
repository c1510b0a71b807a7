"""Statements whose rows are read at once, by the fast reader of the database or in a session, and their totals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import Dialect, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import (
    Drafts,
    DriverStatement,
    driver_statement,
    must_use_sqlalchemy,
    require_described,
)
from dualsql.databases.guard import FailureKind, SessionTerms
from dualsql.databases.session import (
    DatabaseErrors,
    in_session,
    measured,
    note_lane,
    note_slow,
    set_deadline,
)
from dualsql.databases.source import Source
from dualsql.errors import (
    CountExecutionError,
    DatabaseBusyError,
    DualResponseError,
    QueryExecutionError,
    QueryTimeoutError,
)
from dualsql.formats.writer import PlainPage, Rows, WrittenRows
from dualsql.freeze.document import AnySelect
from dualsql.plan import Ordered, Shape
from dualsql.resource import UNCOUNTED, CountMethod, Total
from dualsql.settings import Settings
from dualsql.tenancy import ActiveRules

RowsOrNone = TypeVar("RowsOrNone", Rows, Rows | WrittenRows | None)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Fetch:
    """A statement under `rules`, all rows of which are read at once.

    Attributes:
        select: returns the statement, which is not made if its text follows from that of `counted`.
        described: the names of its columns, from `dualsql.columns.result.driver_names`.
        timeout: how long it may run.
        failure: the class of the error for what the database refuses.
        may_be_fast: the fast reader of the database may read them.
        following: what may be read next in its session.
        drafts: see `driver_statement`.
        ordered, counted: the statement whose first rows these are; the first of the rows that it counts.
        read_ahead: returns the rows, if they came with those of the statement before, and was sent at `sent_at`.
    """

    source: Source
    select: Callable[[], Executable]
    rules: ActiveRules
    described: Sequence[str]
    timeout: timedelta
    failure: type[QueryExecutionError] = QueryExecutionError
    may_be_fast: bool = True
    following: Following | None = None
    drafts: Drafts = field(default_factory=dict)
    ordered: Ordered | None = None
    counted: Fetch | None = None
    sent: DriverStatement | None = field(default=None, init=False)
    read_ahead: Callable[[], Awaitable[Rows]] | None = field(default=None, init=False)
    sent_at: float | None = field(default=None, init=False)
    _deadline: Any = field(default=None, init=False)

    @property
    def statement(self) -> Executable:
        return self.select()

    def statement_for(self, dialect: Dialect) -> DriverStatement | None:
        """The statement for the driver; None if its columns cannot be matched by position."""
        if (first := self.counted) is not None and first.ordered is not None:
            from dualsql.databases.counts import counting_statement

            if (count := counting_statement(first.ordered, first.sent, self.source, dialect)) is not None:
                return count
        values, cache, names = self.rules.values, self.source.compiled, self.described
        self.sent = driver_statement(dialect, self.statement, values, cache, names, drafts=self.drafts)
        return self.sent

    async def execute(self, connection: AsyncConnection) -> Any:
        """SQLAlchemy's result; raises QueryExecutionError if it has other columns than described."""
        options = {"compiled_cache": self.source.compiled}
        result: Any = await connection.execute(self.statement, self.rules.values, execution_options=options)
        require_described(list(result.keys()), self.described)
        return result

    async def rows_of_sqlalchemy(self, connection: AsyncConnection) -> Rows:
        """All rows as SQLAlchemy reads them; raises LimitExceededError as `page`."""
        rows = cast("Rows", (await self.execute(connection)).all())
        self.source.guard.require_size(rows, self.source.limits.page_bytes)
        return rows

    async def rows(self) -> Rows:
        """Each row a sequence of values in column order; see `page`."""
        return cast("Rows", await self.page(None))

    async def page(self, page: PlainPage | None) -> Rows | WrittenRows:
        """The rows: by the fast reader of the database, which may write those of a `page`, else in a session.

        If what follows was needed in the session, the rows are those of that.

        Raises:
            QueryTimeoutError: it ran longer than `timeout`; the database was told to stop.
            LimitExceededError: its rows are larger than `Settings.maximum_page_bytes`.
            DatabaseBusyError: no connection was free, or a lock or conflict stopped the statement.
            QueryExecutionError: it has other columns than described; any other failure, as the class `failure`.
        """
        if (fast := await self._fast_rows(page)) is not None:
            return fast
        self._deadline = deadline = asyncio.timeout(None)
        return await in_session(
            self.source, self.rules, self._work, timeout=self.timeout, failure=self.failure, deadline=deadline
        )

    async def _work(self, connection: AsyncConnection) -> Rows:
        rows, following = await self._in_session(connection), self.following
        if following is None or not following.is_needed(rows):
            return rows
        return await following.fetch._rows_behind(self, connection)

    async def _fast_rows(self, page: PlainPage | None) -> Rows | WrittenRows | None:
        source = self.source
        # Event listeners of an application must see each statement, which only SQLAlchemy shows them.
        if not self.may_be_fast or source.fast is None or must_use_sqlalchemy(source.engine.sync_engine):
            return None
        with DatabaseErrors(source, self.failure, limit=self.timeout):
            statement = self.statement_for(self.rules.dialect(source.engine.sync_engine.dialect))
            if statement is None or not source.fast.reads(statement):
                return None
            # Without a slot: these run one after the other, and end at once.
            return await self._measure("page_reader", source.fast.fetch(statement, self.timeout, page))

    async def _rows_behind(self, first: Fetch, connection: AsyncConnection) -> Rows:
        """The rows, in the session of `first` if they are not read faster."""
        if (fast := await self._fast_rows(None)) is not None:
            return cast("Rows", fast)
        with DatabaseErrors(self.source, self.failure, limit=self.timeout, started_at=self.sent_at):
            if self.read_ahead is None:
                await self.renew_limit(first, connection, self.timeout)
            return await self._in_session(connection)

    async def renew_limit(self, first: Fetch, connection: AsyncConnection, limit: timedelta) -> None:
        """Give the next statement in the session of `first` its own time limit, and the session `limit` from now."""
        set_deadline(first._deadline, limit)
        terms, is_new = SessionTerms(self.timeout), self.timeout != first.timeout
        await self.source.guard.renew_limit(connection, terms, is_new=is_new)

    async def _in_session(self, connection: AsyncConnection) -> Rows:
        return await self._measure("session", self._read(connection))

    async def _read(self, connection: AsyncConnection) -> Rows:
        if self.read_ahead is not None:
            return await self.read_ahead()
        source = self.source
        own = source.backend.row_fetches.get(connection.dialect.driver)
        with (
            source.guard.limited_bytes(connection, source.limits.page_bytes),
            source.guard.tolerant_reading(connection),
        ):
            if own is None or must_use_sqlalchemy(source.engine.sync_engine, connection.sync_connection):
                return await self.rows_of_sqlalchemy(connection)
            return await own(self, connection)

    async def _measure(self, lane: str, reading: Awaitable[RowsOrNone]) -> RowsOrNone:
        """The rows of a reader. The statement is measured, and logged by the reader and if it is slow."""
        start = perf_counter()
        note_lane(lane)
        try:
            with measured(self) as measurement:
                rows = await reading
                if measurement is not None and rows is not None:
                    measurement.note({"db.response.returned_rows": len(rows)})
                return rows
        finally:
            note_slow(self, perf_counter() - start)


class Following(NamedTuple):
    """What may be read next in the session of some rows.

    Attributes:
        fetch: reads it.
        is_needed: whether it is read, after these rows.
    """

    fetch: Fetch
    is_needed: Callable[[Rows], bool]


class RowCounter(NamedTuple):
    """Counts the rows of one statement.

    Attributes:
        counting: the statement that counts, up to a number if that is given.
        may_estimate: the caller may see what the planner's statistics reveal.
    """

    source: Source
    shape: Shape
    counting: Callable[[int | None], AnySelect]
    rules: ActiveRules
    settings: Settings
    may_estimate: bool

    def fetch(self, method: CountMethod, first: Fetch | None = None) -> Fetch:
        """The count of the rows, up to the cap of `method`, in the time that it has; `first` are first rows."""
        return Fetch(
            source=self.source,
            select=partial(self.counting, method.cap or None),
            rules=self.rules,
            described=("",),
            timeout=self.settings.count_budget if method.way == "auto" else self.settings.query_timeout,
            failure=CountExecutionError,
            counted=None if method.cap else first,
        )

    async def total(self, method: CountMethod, counted: Awaitable[Rows] | None = None) -> Total:
        """The number of rows and its kind; `counted` are the rows of `fetch`, if it has run.

        Raises:
            CountExecutionError: the database refused the count.
            QueryTimeoutError, DatabaseBusyError: an exact or capped count took too long, or no connection was free.
        """
        if method.way == "none":
            return UNCOUNTED
        if method.way != "estimated":
            with suppress(*(QueryTimeoutError, DatabaseBusyError) if method.way == "auto" else ()):
                return await self.total_of(counted or self.fetch(method).rows(), method.cap)
        from dualsql.databases.explain import estimated_total

        run = partial(in_session, self.source, self.rules, timeout=self.settings.count_budget)
        return await estimated_total(self, method, run)

    async def total_of(self, counted: Awaitable[Rows], cap: int) -> Total:
        """The total of a count up to `cap`, or of one without a cap, if that is 0."""
        rows = int((await counted)[0][0])
        return Total(cap, "capped") if 0 < cap < rows else Total(rows, "exact")


class Sample(NamedTuple):
    """The rows of a sample, the total, and the value of `sample` that chose them."""

    rows: Rows
    total: Total
    method: str = "head"


async def fetch_sample(sample: Fetch, counter: RowCounter, method: CountMethod, *, size: int) -> Sample:
    """Run `sample`, which selects one row more than `size`, and count only if that row exists.

    The count runs in the session of the sample. If the sample is not complete after `Settings.count_head_start`, the
    count starts too, on a second connection if one is free: for a query that sorts or groups, both cost the same.
    """
    loop = asyncio.get_running_loop()
    counting: asyncio.Task[Total] | None = None
    first: list[Rows] = []  # of the sample, if the count has followed it

    def is_counted(rows: Rows) -> bool:
        if counting is None and len(rows) > size:
            first.append(rows)
        return bool(first)

    def count_beside() -> None:
        nonlocal counting
        if method.way != "none" and not first and counter.source.has_room():
            sample.following = None
            counting = asyncio.ensure_future(counter.total(method))

    is_read = method.way not in ("none", "estimated")
    sample.following = Following(counter.fetch(method, sample), is_counted) if is_read else None
    timer = loop.call_later(counter.settings.count_head_start.total_seconds(), count_beside)
    last: asyncio.Future[Rows] = loop.create_future()  # of the sample, or of the count that followed it
    try:
        try:
            last.set_result(await sample.rows())
        except DualResponseError as error:
            if not first:
                raise
            # After a connection that was lost, the count runs again, in a session of its own.
            if counter.source.failure_kind(error.__cause__) is not FailureKind.BROKEN:
                last.set_exception(error)
        finally:
            timer.cancel()
        rows = first[0] if first else last.result()
        if len(rows) <= size:
            return Sample(rows, Total(len(rows), "exact"))
        counted = last if first and last.done() else None
        total = await (counter.total(method, counted) if counting is None else counting)
        # One row more was seen, which "capped" means.
        return Sample(rows[:size], total.at_least(size))
    finally:
        if counting is not None:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
