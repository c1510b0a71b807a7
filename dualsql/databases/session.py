"""Read-only sessions, the statements that run in them, how these are stopped, and what their errors mean."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar, cast

from sqlalchemy import Dialect, Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import (
    USED,
    Drafts,
    DriverStatement,
    driver_statement,
    memory_of,
    must_use_sqlalchemy,
    require_described,
    synchronous,
)
from dualsql.databases.guard import FailureKind, SessionTerms
from dualsql.databases.source import Source
from dualsql.errors import (
    CountExecutionError,
    DatabaseBusyError,
    DualResponseError,
    QueryExecutionError,
    QueryTimeoutError,
)
from dualsql.events import EVENTS, UNMEASURED, Measurement, StatementStopped
from dualsql.formats.writer import PlainPage, Rows, WrittenRows
from dualsql.freeze.document import AnySelect
from dualsql.log import REQUEST
from dualsql.plan import Ordered, Shape
from dualsql.resource import UNCOUNTED, CountMethod, Total
from dualsql.settings import Settings
from dualsql.tenancy import ActiveRules

logger = logging.getLogger(__name__)

T = TypeVar("T")
RowsOrNone = TypeVar("RowsOrNone", Rows, Rows | WrittenRows | None)
Work = Callable[[AsyncConnection], Awaitable[T]]

# The database's own limit comes first: it says what it did, and its connection stays good.
_GRACE = 0.25

_UNWINDING = 10.0
"""Seconds in which a guard stops a statement, and again in which its session ends. Then its connection is given up."""

_SET_UP = 5.0
"""Seconds that a stopped session may go on to set up its connection before it is cancelled."""


class DatabaseErrors(AbstractContextManager[None, None]):
    """Maps errors of the database in its block to dualsql's errors, which are logged with their cause.

    Args:
        limit: how long the session's statements may run.
        started_at: when they began, by time.monotonic(); now, if not given.

    Raises:
        QueryTimeoutError: the database stopped the statement.
        DatabaseBusyError: no connection was free, it was closed, or a lock or conflict stopped the statement;
            DatabaseUnreachableError: the database is down.
        QueryExecutionError: any other failure, as the class `failure`.
    """

    def __init__(
        self,
        source: Source,
        failure: type[QueryExecutionError] = QueryExecutionError,
        *,
        limit: timedelta | None = None,
        started_at: float | None = None,
    ) -> None:
        self._context = source, failure, limit
        self._started_at = time.monotonic() if started_at is None else started_at

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        # A driver, a type's own processor or the network may raise anything, and its text may hold data.
        if isinstance(error, Exception) and not isinstance(error, DualResponseError):
            from dualsql.databases.failures import caller_error

            raise caller_error(error, *self._context, time.monotonic() - self._started_at) from error


def measured(reading: Any) -> AbstractContextManager[Measurement | None]:
    """Measure the statement of a Fetch or StreamJob that the block runs; None if nothing is measured."""
    if EVENTS.listener is None:
        return UNMEASURED
    from dualsql.databases.measurements import measured_statement

    return measured_statement(reading.source, reading.statement, reading.rules)


def note_slow(reading: Any, seconds: float) -> None:
    """Log the statement of a Fetch or StreamJob that has run for longer than `Settings.slow_query`."""
    if seconds > reading.source.limits.slow_seconds:
        from dualsql.databases.measurements import log_slow_statement

        log_slow_statement(reading.source, reading.statement, reading.rules, seconds)


def note_lane(lane: str) -> None:
    """Note for the log how the rows of the current request are read."""
    if (record := REQUEST.get()) is not None:
        record.lane = lane


@asynccontextmanager
async def read_only(
    source: Source,
    rules: ActiveRules | None,
    *,
    limit: timedelta | None = None,
    on_connect: Callable[[AsyncConnection], None] = lambda _: None,
) -> AsyncIterator[AsyncConnection]:
    """A connection in a read-only transaction that compiles under `rules` and is rolled back at the end.

    Args:
        rules: None for dualsql's own statements, which check the database.
        limit: the time limit of one statement; None for a stream, which has its own limits.
        on_connect: called with the connection before anything is sent on it.

    Raises:
        TooManyQueriesError: no slot for a session was free.
        DatabaseBusyError: no connection of the pool became free in `Settings.queue_timeout`, or the database did not
            answer in that time; DatabaseUnreachableError: no connection could be opened.
    """
    role = () if source.role is None else (("role", source.role),)
    settings = role if rules is None else (*role, *rules.settings)
    terms = SessionTerms(source.limits.longest_stream if limit is None else limit, settings)
    # The slot first: who waits for one must not hold a connection meanwhile.
    async with source.limits.slot(for_stream=limit is None), AsyncExitStack() as session:
        connection = await _begin(source, terms, on_connect, session)
        # After the guard, whose own statements name no table.
        if rules is not None:
            synchronous(connection).dialect = rules.dialect(source.engine.dialect)
        yield connection


async def _begin(
    source: Source,
    terms: SessionTerms,
    on_connect: Callable[[AsyncConnection], None],
    session: AsyncExitStack,
) -> AsyncConnection:
    """A connection in a read-only transaction; both end with `session`.

    If a connection that was used before turns out to be dead, because its database was restarted, another one is taken.
    A ping at each checkout (`pool_pre_ping`) would cost three round trips more with asyncpg. An application may have
    used any connection of its engine, of which there are `maximum_connections`.
    """
    loop, seconds = asyncio.get_running_loop(), source.limits.connection_timeout.total_seconds()
    used_by_others = 0 if source.owns_engine else source.maximum_connections
    while True:
        connection, memory = None, dict[Any, Any]()
        try:
            async with asyncio.timeout(seconds) as limit:
                if source.lock is not None:
                    await session.enter_async_context(source.lock)
                connection = await session.enter_async_context(source.engine.connect())
                # Before the first statement, so that whatever is sent can be stopped.
                on_connect(connection)
                memory = memory_of(connection)
                limit.reschedule(loop.time() + seconds)
                await session.enter_async_context(source.guard.read_only(connection, terms))
        except DualResponseError:
            raise
        # A driver, a resolver or the network may raise anything; the caller's query is not the cause.
        except Exception as error:
            if connection is None:  # it was still connecting
                from dualsql.databases.failures import error_of_connecting

                raise error_of_connecting(error, source) from error
            if isinstance(error, TimeoutError):
                raise DatabaseBusyError("The database did not answer in time.") from error
            is_lost = getattr(error, "connection_invalidated", isinstance(error, ConnectionError))
            if USED not in memory:
                used_by_others -= 1
            if used_by_others < 0 or not (is_lost or source.failure_kind(error) is FailureKind.BROKEN):
                raise
            await connection.invalidate()
            await session.aclose()
        else:
            memory[USED] = True
            return connection


async def in_session(
    source: Source,
    rules: ActiveRules | None,
    work: Work[T],
    *,
    timeout: timedelta | None = None,
    failure: type[QueryExecutionError] = QueryExecutionError,
    deadline: asyncio.Timeout | None = None,
) -> T:
    """Run `work` with a read-only connection and return its result.

    The database stops a statement after `timeout`, by default `Settings.query_timeout`. If it does not, or if there
    are several statements, dualsql cancels the statement. `work` may set a `deadline` again for a statement with a
    limit of its own.

    Raises:
        QueryTimeoutError: `work` took longer than `timeout`; the database was told to stop.
        TooManyQueriesError: too many queries wait for a connection.
        DatabaseBusyError, DatabaseUnreachableError, QueryExecutionError: see `DatabaseErrors`.
    """
    timeout = source.limits.query_timeout if timeout is None else timeout
    # Set once the transaction has begun: what comes before has limits of its own.
    deadline = deadline or asyncio.timeout(None)
    session = Session(source, rules, work, timeout, partial(_set_deadline, deadline, timeout))
    with DatabaseErrors(source, failure, limit=timeout):
        try:
            async with deadline:
                await session.ended  # sooner than its task, and not cancelled with the caller
                return session.task.result()
        except TimeoutError as error:
            if not deadline.expired():  # the driver's own
                raise
            from dualsql.databases.failures import ran_too_long

            EVENTS.report(StatementStopped("timeout"))
            await asyncio.shield(source.finish(session.stop()))
            raise ran_too_long(timeout) from error
        except asyncio.CancelledError:
            EVENTS.report(StatementStopped("cancelled"))
            source.finish(session.stop())
            raise


def _set_deadline(deadline: asyncio.Timeout, limit: timedelta) -> None:
    deadline.reschedule(asyncio.get_running_loop().time() + limit.total_seconds() + _GRACE)


class _Working(asyncio.Future[None]):
    """Ends with the work of the current task, which `cancel` cancels. A task for the work would be slower."""

    def __init__(self) -> None:
        super().__init__()
        self._task: Any = asyncio.current_task()

    def cancel(self, msg: Any = None) -> bool:
        return not self.done() and self._task.cancel(msg)


@dataclass(eq=False, repr=False)
class Session(Generic[T]):
    """A connection, the work on it, and how to stop it.

    It runs in its own task. A caller may be cancelled several times while it unwinds (by anyio's cancel scopes). In the
    caller's task, clean-up would be interrupted, and a busy connection would return to its pool.

    Attributes:
        limit: the time limit of one statement; None for a stream.
        on_begin: called once the transaction has begun.
        ended: when the task ends.
    """

    source: Source
    rules: ActiveRules | None
    work: Work[T]
    limit: timedelta | None = None
    on_begin: Callable[[], None] = lambda: None
    connection: AsyncConnection | None = field(default=None, init=False)
    _working: _Working | None = field(default=None, init=False)
    _is_stopped: bool = field(default=False, init=False)
    _stopping: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> T:
        try:
            return await self._work()
        finally:
            if not self.ended.done():  # else its caller has left
                self.ended.set_result(None)

    async def _work(self) -> T:
        on_connect = partial(setattr, self, "connection")
        async with read_only(self.source, self.rules, limit=self.limit, on_connect=on_connect) as connection:
            if self._is_stopped:
                raise asyncio.CancelledError
            self.on_begin()
            self._working = working = _Working()
            try:
                return await self.work(connection)
            finally:
                working.set_result(None)
                # A request to cancel that is still on its way would hit the ROLLBACK, or the next session.
                if self._stopping.locked():
                    async with self._stopping:
                        pass

    async def stop(self) -> None:
        """Stop the work in the database, then wait until the connection is returned."""
        self._is_stopped = True
        if self._working is None or self.connection is None:
            # Cancelled within a statement, SQLAlchemy closes the connection: a database in memory would be lost.
            if self.connection is not None:
                await asyncio.wait({self.task}, timeout=_SET_UP)
            if not self.task.cancelling():  # else it is closing the connection, which has to end
                self.task.cancel()
        elif not self._working.done():  # else its session is about to end, and the connection may be closed
            async with self._stopping:
                try:
                    async with asyncio.timeout(_UNWINDING):
                        await self.source.guard.stop(self.connection, self._working)
                except Exception as error:
                    logger.warning(
                        "A statement of %r could not be stopped.", self.source.name, exc_info=error
                    )
                    self._working.cancel()
        await asyncio.wait({self.task}, timeout=_UNWINDING)
        if not self.task.done():
            logger.error("A session of %r did not end: its connection is given up.", self.source.name)
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=_GRACE)
        if self.task.done() and not self.task.cancelled():
            self.task.exception()  # else asyncio logs that it was never retrieved


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
        _set_deadline(first._deadline, limit)
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
