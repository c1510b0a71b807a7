"""Map what a database raises to errors of ours, once, here. The cause is chained for the log and never shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dualsql.errors import (
    DatabaseBusyError,
    DatabaseUnreachableError,
    DualResponseError,
    QueryExecutionError,
    QueryTimeoutError,
)
from dualsql.execute.guards import Fault
from dualsql.execute.metering import too_large
from dualsql.execute.source import Source

# What types and drivers raise of a single value: of a date in the year 20000, of a text where a number should be.
_OF_ONE_VALUE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
_LEAVE_OUT = "Leave its column out, or CAST it to text. The server's log has the cause."


@contextmanager
def database_errors(
    source: Source,
    failure: type[QueryExecutionError] = QueryExecutionError,
    *,
    limit: timedelta | None = None,
) -> Iterator[None]:
    """Raise errors of ours in place of the database's. Whoever answers the caller logs them with their cause.

    Args:
        limit: how long the session's statements may run.

    Raises:
        QueryTimeoutError: the database stopped the statement.
        DatabaseBusyError: no connection was free, it broke off, or something was in the way for the moment;
            DatabaseUnreachableError: the database is down.
        QueryExecutionError: all else, as an error of the class `failure`.
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
        # The lanes meet the driver's errors bare, SQLAlchemy wraps them.
        fault = source.guard.fault_of(error.orig if isinstance(error, DBAPIError) else error)
        if fault is Fault.TIMEOUT:
            raise _timeout(limit, time.monotonic() - started_at) from error
        raise _translated(fault, error, failure) from error


def ran_too_long(limit: timedelta) -> QueryTimeoutError:
    """The error for a statement that was stopped after `limit`."""
    return QueryTimeoutError(f"The query ran longer than {limit.total_seconds():g} seconds and was stopped.")


def _timeout(limit: timedelta | None, seconds: float) -> QueryTimeoutError:
    if limit is not None and seconds >= limit.total_seconds():
        return ran_too_long(limit)
    return QueryTimeoutError("The database's operator stopped the query.", hint="Try a query that does less.")


def _translated(
    fault: Fault | None, error: Exception, failure: type[QueryExecutionError]
) -> DualResponseError:
    if fault is Fault.BUSY:
        return DatabaseBusyError("Something in the database was in the query's way.")
    if fault is Fault.UNREACHABLE:
        return DatabaseUnreachableError("The database could not be reached.")
    if fault is Fault.FULL:
        return DatabaseBusyError("The database had no room left, on disk or in memory, to run the query.")
    if fault is Fault.SIZE:
        return too_large()
    # Before anything was sent: a value that a type does not take.
    is_unbound = isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    if (fault is Fault.UNSUITED or is_unbound) and failure is QueryExecutionError:
        unsuited = QueryExecutionError("The database could not run the query.")
        unsuited.is_unsuited = True
        return unsuited
    is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if fault is Fault.BROKEN or is_lost or isinstance(error, ConnectionError | EOFError):
        return DatabaseBusyError("The database broke off the connection.")
    cause = error.orig if isinstance(error, StatementError) else error
    if isinstance(cause, _OF_ONE_VALUE):
        return failure("A value of the result could not be read.", hint=_LEAVE_OUT)
    return failure("The database could not run the query.")
