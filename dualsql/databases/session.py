"""Read-only sessions: running work in one, and mapping errors of the database."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import timedelta
from typing import Generic, TypeVar

from sqlalchemy import Executable
from sqlalchemy.exc import DBAPIError, StatementError, TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.driver import fingerprint
from dualsql.databases.guard import FailureKind, SessionTerms, too_large
from dualsql.databases.source import USED, Source
from dualsql.errors import (
    CallerMessage,
    DatabaseBusyError,
    DatabaseUnreachableError,
    DualResponseError,
    QueryExecutionError,
    QueryTimeoutError,
)
from dualsql.events import ERROR, EVENTS, UNMEASURED, Measurement, StatementStopped
from dualsql.log import REQUEST
from dualsql.tenancy import ActiveRules

logger = logging.getLogger(__name__)

# What types and drivers raise of a single value: of a date in the year 20000, of a text where a number should be.
_OF_ONE_VALUE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
_OUT_OF_RANGE = CallerMessage(
    "A number of the query, or of its rows, is out of range.",
    "Compare with whole numbers of 64 bits. The server's log has the cause.",
)
_FAILED = "The database could not run the query."
_UNSUITED = CallerMessage(
    "The database has no such function, operator or conversion for the types of the values in the query.",
    "If you wrote the query: a type without equality or order, such as JSON on many databases, cannot be in ORDER BY, "
    "DISTINCT, GROUP BY, UNION or a comparison: write cast(column, JSONB) there, or cast(column, Text). Otherwise tell "
    "the operator: the server's log has the cause.",
)
_UNREADABLE = CallerMessage(
    "A value of the result could not be read.",
    "Leave the column out, or CAST it to text. The server's log has the cause.",
)


@contextmanager
def database_errors(
    source: Source,
    failure: type[QueryExecutionError] = QueryExecutionError,
    *,
    limit: timedelta | None = None,
) -> Iterator[None]:
    """Map errors of the database to dualsql's errors, which are logged with their cause.

    Args:
        limit: how long the session's statements may run.

    Raises:
        QueryTimeoutError: the database stopped the statement.
        DatabaseBusyError: no connection was free, it was closed, or a lock or conflict stopped the statement;
            DatabaseUnreachableError: the database is down.
        QueryExecutionError: any other failure, as the class `failure`.
    """
    started_at = time.monotonic()
    try:
        yield
    except DualResponseError:
        raise
    except PoolTimeoutError as error:
        raise DatabaseBusyError("No database connection became free in time.") from error
    # A driver, a type's own processor or the network may raise anything, and its text may hold data.
    except Exception as error:
        # Stream backends get the driver's errors directly; SQLAlchemy wraps them.
        fault = source.guard.failure_kind(error.orig if isinstance(error, DBAPIError) else error)
        if fault is FailureKind.TIMEOUT:
            EVENTS.report(StatementStopped("timeout"))
            raise _timeout(limit, time.monotonic() - started_at) from error
        raise _translated(fault, error, failure) from error


def measured(
    source: Source, statement: Executable, rules: ActiveRules
) -> AbstractContextManager[Measurement | None]:
    """Measure the statement that the block runs; None if nothing is measured."""
    return _measured(source, statement, rules) if EVENTS.listener is not None else UNMEASURED


@contextmanager
def _measured(source: Source, statement: Executable, rules: ActiveRules) -> Iterator[Measurement | None]:
    told = {
        "db.system.name": source.engine.dialect.name,
        "db.operation.name": "SELECT",
        "dualsql.database": source.name,
    }
    with EVENTS.measured("statement", "SELECT", told) as measurement:
        try:
            yield measurement
        except DualResponseError:
            raise
        except Exception as error:
            fault = source.guard.failure_kind(error.orig if isinstance(error, DBAPIError) else error)
            if measurement is None:
                pass
            elif fault is FailureKind.TIMEOUT:  # or nobody waited for it any longer
                measurement.note({ERROR: "STOPPED"})
            else:
                measurement.fail("_OTHER" if fault is None else fault.name)
            raise
        finally:
            if measurement is not None and measurement.is_sampled:
                dialect = rules.dialect(source.engine.dialect)
                found = fingerprint(dialect, statement, rules.values, source.compiled)
                measurement.note({"dualsql.statement": found})


def ran_too_long(limit: timedelta) -> QueryTimeoutError:
    """The error for a statement that was stopped after `limit`."""
    return QueryTimeoutError(f"The query ran longer than {limit.total_seconds():g} seconds and was stopped.")


def _timeout(limit: timedelta | None, seconds: float) -> QueryTimeoutError:
    if limit is not None and seconds >= limit.total_seconds():
        return ran_too_long(limit)
    return QueryTimeoutError(
        "The database or its operator stopped the query.", hint="Select fewer rows or use a simpler query."
    )


_OF_DATA: Mapping[FailureKind | None, tuple[str, str | None]] = {
    FailureKind.DIVISION: ("The query divides by zero.", "Write x / NULLIF(y, 0)."),
    FailureKind.OVERFLOW: (
        "The query computes a number that is out of the range of its type.",
        "Write CAST(x AS DOUBLE PRECISION) before adding up or multiplying.",
    ),
    FailureKind.ARGUMENT: (
        "A function of the query is not defined for a value that it is given.",
        "Keep such values from it, for example by CASE WHEN x > 0 THEN ln(x) END.",
    ),
    FailureKind.PATTERN: (
        "A pattern of the query is not valid, or too large.",
        "Write a backslash before a bracket, a star or a backslash that is meant as itself, or repeat less in it.",
    ),
    FailureKind.DOCUMENT: (
        "A function of the query reads a text as JSON that is none.",
        "Keep such texts from it, for example by CASE WHEN json_valid(x) THEN json_extract(x, '$.a') END.",
    ),
    FailureKind.CALLBACK: (
        "A function of the query that runs in Python failed for a value: REGEXP, floor or one of the application.",
        "REGEXP takes a valid pattern and texts of at most a million characters: write substr(x, 1, n) REGEXP 'a'.",
    ),
    FailureKind.SEVERAL_ROWS: (
        "A subquery that stands for one value gives more than one row.",
        "Write IN instead of =, aggregate its rows, for example by max(x), or join it.",
    ),
}
"""Failures that only the data cause: their class is told, and no value."""


_OF_ITS_FORM: Mapping[FailureKind | None, tuple[str, str]] = {
    FailureKind.GROUPING: (
        "An aggregate stands in WHERE or in another aggregate, or a column beside aggregates is not in GROUP BY.",
        "Name each plain column in GROUP BY, or write min(x); put a condition on an aggregate into HAVING.",
    ),
    FailureKind.SORTING: (
        "SELECT DISTINCT is sorted by what it does not select.",
        "Select the sort key too, or write SELECT x FROM t GROUP BY x ORDER BY min(y).",
    ),
    FailureKind.WINDOW: (
        "A window function stands in WHERE, GROUP BY, HAVING or another window function.",
        "Compute it in FROM: SELECT * FROM (SELECT x, row_number() OVER (ORDER BY y) AS n FROM t) AS s WHERE n = 1.",
    ),
}
"""Failures of what the caller wrote, whatever the data are."""


_OF_THE_DATABASE: Mapping[FailureKind | None, tuple[str, str | None]] = {
    FailureKind.BUSY: ("A lock or a conflict in the database stopped the query.", None),
    FailureKind.FULL: ("The database ran out of disk space or memory while it ran the query.", None),
    FailureKind.PART: (
        "A part of the database could not be reached.",
        "Try again in a moment. A query that needs only other parts still works.",
    ),
}
"""Failures that may be over at the next attempt."""


def _translated(
    fault: FailureKind | None, error: Exception, failure: type[QueryExecutionError]
) -> DualResponseError:
    if fault in _OF_THE_DATABASE:
        message, hint = _OF_THE_DATABASE[fault]
        busy = DatabaseBusyError(message, hint=hint)
        busy.is_full = fault is FailureKind.FULL
        return busy
    if fault is FailureKind.UNREACHABLE:
        return DatabaseUnreachableError("The database could not be reached.")
    if fault is FailureKind.SIZE:
        return too_large()
    # A value that its type does not accept, before anything was sent.
    is_unbound = isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    is_unsuited = fault in (FailureKind.UNSUITED, FailureKind.VALUE) or is_unbound
    if is_unsuited and failure is QueryExecutionError:
        message, hint = _UNSUITED if fault is FailureKind.UNSUITED else (_FAILED, None)
        unsuited = QueryExecutionError(message, hint=hint)
        unsuited.is_unsuited, unsuited.is_of_a_value = True, fault is FailureKind.VALUE
        return unsuited
    is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if fault in _OF_ITS_FORM and failure is QueryExecutionError:
        message, hint = _OF_ITS_FORM[fault]
        misplaced = QueryExecutionError(message, hint=hint)
        misplaced.is_of_its_form = True
        return misplaced
    if fault is FailureKind.BROKEN or is_lost or isinstance(error, ConnectionError | EOFError):
        return DatabaseBusyError("The database closed the connection.")
    cause = error.orig if isinstance(error, StatementError) else error
    if not isinstance(cause, _OF_ONE_VALUE):
        message, hint = _OF_DATA.get(fault, (_FAILED, None))
        return failure(message, hint=hint)
    told = _OUT_OF_RANGE if isinstance(cause, OverflowError) else _UNREADABLE
    return failure(told.message, hint=told.hint)


def note_lane(lane: str) -> None:
    """Note for the log how the rows of the current request are read."""
    record = REQUEST.get()
    if record is not None:
        record.lane = lane


def _unheard(_: AsyncConnection) -> None:
    """A callback that does nothing."""


@asynccontextmanager
async def read_only(
    source: Source,
    rules: ActiveRules | None,
    *,
    limit: timedelta | None = None,
    on_connect: Callable[[AsyncConnection], None] = _unheard,
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
    async with AsyncExitStack() as stack:
        # The slot first: who waits for one must not hold a connection meanwhile.
        await stack.enter_async_context(source.limits.slot(for_stream=limit is None))
        connection = await _begun(source, _terms(source, rules, limit), stack, on_connect)
        # After the guard, whose own statements name no table.
        if rules is not None:
            _compile_under(connection, rules)
        yield connection


async def _begun(
    source: Source,
    terms: SessionTerms,
    stack: AsyncExitStack,
    on_connect: Callable[[AsyncConnection], None],
) -> AsyncConnection:
    """A connection in a read-only transaction that ends with `stack`.

    If a connection of an earlier session turns out to be dead, because its database was restarted, another one is
    taken. A ping at each checkout (`pool_pre_ping`) would cost three round trips more with asyncpg.
    """
    while True:
        async with AsyncExitStack() as begun:
            connection = await _connected(source, begun)
            # Before the first statement, so that whatever is sent can be stopped.
            on_connect(connection)
            assert connection.sync_connection is not None
            known = connection.sync_connection.info  # lives as long as the driver's connection
            try:
                async with asyncio.timeout(source.limits.connection_timeout.total_seconds()):
                    await begun.enter_async_context(source.guard.read_only(connection, terms))
            except TimeoutError as error:
                raise DatabaseBusyError("The database did not answer in time.") from error
            except (DBAPIError, ConnectionError) as error:
                if USED not in known or not _is_lost(source, error):
                    raise
                await connection.invalidate()
            else:
                known[USED] = True
                stack.push_async_exit(begun.pop_all())
                return connection


def _is_lost(source: Source, error: DBAPIError | ConnectionError) -> bool:
    if isinstance(error, ConnectionError) or error.connection_invalidated:
        return True
    return source.guard.failure_kind(error.orig) is FailureKind.BROKEN


def _terms(source: Source, rules: ActiveRules | None, limit: timedelta | None) -> SessionTerms:
    settings = () if rules is None else tuple(rules.settings)
    if source.role is not None:
        settings = (("role", source.role), *settings)
    return SessionTerms(limit=source.limits.longest_stream if limit is None else limit, settings=settings)


async def _connected(source: Source, stack: AsyncExitStack) -> AsyncConnection:
    """A connection of the source's pool, returned when `stack` ends."""
    try:
        async with asyncio.timeout(source.limits.connection_timeout.total_seconds()):
            if source.lock is not None:
                await stack.enter_async_context(source.lock)
            return await stack.enter_async_context(source.engine.connect())
    except (TimeoutError, PoolTimeoutError) as error:
        raise DatabaseBusyError("No database connection became free in time.") from error
    except DualResponseError:
        raise
    # A driver, a resolver or the network may raise anything; the caller's query is not the cause.
    except Exception as error:
        fault = source.guard.failure_kind(error.orig if isinstance(error, DBAPIError) else error)
        if fault is FailureKind.BUSY:
            raise DatabaseBusyError("The database accepts no more connections now.") from error
        raise DatabaseUnreachableError("The database could not be reached.") from error


def _compile_under(connection: AsyncConnection, rules: ActiveRules) -> None:
    opened = connection.sync_connection
    assert opened is not None
    opened.dialect = rules.dialect(opened.engine.dialect)


T = TypeVar("T")
Work = Callable[[AsyncConnection], Awaitable[T]]

# The database's own limit comes first: it says what it did, and its connection stays good.
GRACE = 0.25

_UNWINDING = 10.0
"""Seconds in which a guard stops a statement, and again in which its session ends. Then its connection is given up."""

_SET_UP = 5.0
"""Seconds that a stopped session may go on to set up its connection before it is cancelled."""


async def in_session(source: Source, rules: ActiveRules | None, work: Work[T], *, timeout: timedelta) -> T:
    """Run `work` with a read-only connection and return its result.

    The database stops a statement after `timeout`. If it does not, or if there are several statements, dualsql cancels
    the statement.

    Raises:
        QueryTimeoutError: `work` took longer than `timeout`; the database was told to stop.
        DatabaseBusyError: no connection was free; TooManyQueriesError: too many queries wait for one.
    """
    session = Session(source, rules, work, limit=timeout)
    try:
        async with asyncio.timeout(None) as deadline:
            session.allow(deadline, timeout.total_seconds() + GRACE)
            return await asyncio.shield(session.task)
    except TimeoutError as error:
        if not deadline.expired():  # the driver's own
            raise
        EVENTS.report(StatementStopped("timeout"))
        await asyncio.shield(source.finish(session.stop()))
        raise ran_too_long(timeout) from error
    except asyncio.CancelledError:
        EVENTS.report(StatementStopped("cancelled"))
        source.finish(session.stop())
        raise


class Session(Generic[T]):
    """A connection, the work on it, and how to stop it.

    It runs in its own task. A caller may be cancelled several times while it unwinds (by anyio's cancel scopes). In the
    caller's task, clean-up would be interrupted, and a busy connection would return to its pool.

    `limit` is the time limit of one statement; None for a stream.
    """

    def __init__(
        self, source: Source, rules: ActiveRules | None, work: Work[T], *, limit: timedelta | None = None
    ) -> None:
        self._source = source
        self._rules = rules
        self._work = work
        self._limit = limit
        self._working: asyncio.Future[T] | None = None
        self._is_stopped = False
        self._stopping = asyncio.Lock()
        self._deadline: tuple[asyncio.Timeout, float] | None = None
        self.connection: AsyncConnection | None = None
        self.task = asyncio.ensure_future(self._run())

    def allow(self, deadline: asyncio.Timeout, seconds: float) -> None:
        """Set `deadline` so many seconds after the transaction has begun; what comes before has limits of its own."""
        self._deadline = deadline, seconds

    async def _run(self) -> T:
        async with read_only(
            self._source, self._rules, limit=self._limit, on_connect=self._connected
        ) as connection:
            if self._is_stopped:
                raise asyncio.CancelledError
            if self._deadline is not None:
                deadline, seconds = self._deadline
                deadline.reschedule(asyncio.get_running_loop().time() + seconds)
            self._working = asyncio.ensure_future(self._work(connection))
            try:
                return await self._working
            finally:
                # A request to cancel that is still on its way would hit the ROLLBACK, or the next session.
                async with self._stopping:
                    pass

    def _connected(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def stop(self) -> None:
        """Stop the work in the database, then wait until the connection is returned."""
        self._is_stopped = True
        if self._working is None or self.connection is None:
            # Cancelled within a statement, SQLAlchemy closes the connection: a database in memory would be lost.
            if self.connection is not None:
                await asyncio.wait({self.task}, timeout=_SET_UP)
            self.task.cancel()
        elif not self._working.done():  # else its session is about to end, and the connection may be closed
            async with self._stopping:
                try:
                    async with asyncio.timeout(_UNWINDING):
                        await self._source.guard.stop(self.connection, self._working)
                except Exception as error:
                    logger.warning(
                        "A statement of %r could not be stopped.", self._source.name, exc_info=error
                    )
                    self._working.cancel()
        await asyncio.wait({self.task}, timeout=_UNWINDING)
        if not self.task.done():
            logger.error("A session of %r did not end: its connection is given up.", self._source.name)
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=GRACE)
        if self.task.done() and not self.task.cancelled():
            self.task.exception()  # which nobody else asks for
