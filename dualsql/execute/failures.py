"""Map what a database raises to errors of ours; the rule: once, here, and nothing of its words goes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dualsql.errors import DatabaseBusyError, DualResponseError, QueryExecutionError, QueryTimeoutError
from dualsql.execute.guards import Fault
from dualsql.execute.metering import too_large
from dualsql.execute.source import Source

logger = logging.getLogger(__name__)


@contextmanager
def database_errors(
    source: Source,
    failure: type[QueryExecutionError] = QueryExecutionError,
    *,
    limit: timedelta | None = None,
) -> Iterator[None]:
    """Raise errors of ours in place of the database's; the log has the cause.

    Args:
        limit: how long the session's statements may run.

    Raises:
        QueryTimeoutError: the database stopped the statement.
        DatabaseBusyError: no connection was free, it broke off, or something was in the way for the moment.
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
            # A matter of course: each count is stopped that takes longer than its budget.
            logger.info("A statement was stopped on the source %r.", source.name)
            raise _timeout(limit, time.monotonic() - started_at) from error
        logger.warning("A statement failed on the source %r.", source.name, exc_info=True)
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
    if fault is Fault.SIZE:
        return too_large()
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return DatabaseBusyError("The database broke off the connection.")
    return failure("The database could not run the query.")
