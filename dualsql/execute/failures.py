"""Map what a database raises to errors of ours; the rule: once, here, and nothing of its words goes on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dualsql.errors import DatabaseBusyError, DualResponseError, QueryExecutionError
from dualsql.execute.source import Source

logger = logging.getLogger(__name__)


@contextmanager
def database_errors(
    source: Source, failure: type[QueryExecutionError] = QueryExecutionError
) -> Iterator[None]:
    """Raise DatabaseBusyError when no connection is free, and `failure` for all else; the log has the cause."""
    try:
        yield
    except DualResponseError:
        raise
    except PoolTimeoutError as error:
        raise DatabaseBusyError("No database connection became free in time.") from error
    # A driver, a type's own processor or the network may raise anything, and its text may hold data.
    except Exception as error:
        logger.warning("A statement failed on the source %r.", source.name, exc_info=True)
        raise failure("The database could not run the query.") from error
