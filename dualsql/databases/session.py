"""Read-only sessions, how the work in them is stopped, and what its errors mean."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import USED, memory_of, synchronous
from dualsql.databases.guard import FailureKind, SessionTerms
from dualsql.databases.source import Source
from dualsql.errors import DatabaseBusyError, DualResponseError, QueryExecutionError
from dualsql.events import EVENTS, UNMEASURED, Measurement, StatementStopped
from dualsql.log import REQUEST
from dualsql.tenancy import ActiveRules

logger = logging.getLogger(__name__)

T = TypeVar("T")
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
    session = Session(source, rules, work, timeout, partial(set_deadline, deadline, timeout))
    with DatabaseErrors(source, failure, limit=timeout):
        try:
            async with deadline:
                await session.answered  # sooner than its task, and not cancelled with the caller
                return session.result()
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


def set_deadline(deadline: asyncio.Timeout, limit: timedelta) -> None:
    """Give the work of a session `limit` from now."""
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
        answered: when the work is done, if the session may end behind its caller, else when the task ends.
    """

    source: Source
    rules: ActiveRules | None
    work: Work[T]
    limit: timedelta | None = None
    on_begin: Callable[[], None] = lambda: None
    connection: AsyncConnection | None = field(default=None, init=False)
    _answer: tuple[T] | None = field(default=None, init=False)
    _working: _Working | None = field(default=None, init=False)
    _ending: asyncio.TimerHandle | None = field(default=None, init=False)
    _is_stopped: bool = field(default=False, init=False)
    _stopping: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.ensure_future(self._run())

    @property
    def is_busy(self) -> bool:
        """Whether its caller still waits for it."""
        return self._answer is None and not self.task.done()

    def result(self) -> T:
        """What the work has returned, once it is `answered`; raises what has ended the session before that."""
        return self.task.result() if self._answer is None else self._answer[0]

    async def _run(self) -> T:
        try:
            return await self._work()
        except Exception as error:
            if self._answer is None:
                raise
            logger.warning("A session of %r failed after its answer.", self.source.name, exc_info=error)
            return self._answer[0]
        finally:
            if self._ending is not None:
                self._ending.cancel()
            if not self.answered.done():  # else its caller has left
                self.answered.set_result(None)

    async def _work(self) -> T:
        on_connect = partial(setattr, self, "connection")
        async with read_only(self.source, self.rules, limit=self.limit, on_connect=on_connect) as connection:
            if self._is_stopped:
                raise asyncio.CancelledError
            self.on_begin()
            self._working = working = _Working()
            try:
                result = await self.work(connection)
                if self.source.may_end_behind:
                    self._end_behind(result)
                return result
            finally:
                working.set_result(None)
                # A request to cancel that is still on its way would hit the ROLLBACK, or the next session.
                if self._stopping.locked():
                    async with self._stopping:
                        pass

    def _end_behind(self, result: T) -> None:
        """Answer with the result: its caller does not wait for the ROLLBACK, only the server that closes does."""
        if self.answered.done():
            return
        self._answer = (result,)
        self.answered.set_result(None)
        self.source.finish(self.task)
        self._ending = asyncio.get_running_loop().call_later(_UNWINDING, self._give_up)

    def _give_up(self) -> None:
        logger.error("A session of %r did not end: its connection is given up.", self.source.name)
        self.task.cancel()

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
            self._give_up()
            await asyncio.wait({self.task}, timeout=_GRACE)
        if self.task.done() and not self.task.cancelled():
            self.task.exception()  # else asyncio logs that it was never retrieved
