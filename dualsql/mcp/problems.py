"""Exceptions as problems of a tool; the rule: no word reaches a model that was not written for callers.

SDKs differ in what they show of an exception, and one of them showed a database's URL.
"""

from __future__ import annotations

import logging

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dualsql.errors import DatabaseBusyError, DualResponseError, QueryExecutionError
from dualsql.formats.text import single_line
from dualsql.incidents import log_failure, log_unforeseen, new_incident
from dualsql_client.wire import ToolProblem

logger = logging.getLogger(__name__)

_LONGEST_WORDS = 2_000

TOOL_ERROR = "TOOL_ERROR"
"""The code of what a tool's author says with the ToolError of the SDK."""


class MalformedCallError(Exception):
    """The arguments of a call do not go together, which no schema of an SDK can say."""


def spoken_problem(error: Exception) -> ToolProblem:
    """What a tool's author has said to the model by raising `error`."""
    return ToolProblem(code=TOOL_ERROR, message=single_line(str(error), _LONGEST_WORDS), hint="", details={})


def problem_of(error: Exception, tool: str) -> ToolProblem:
    """What is said of `error`; what is not ours is in the log, under the incident in `details`."""
    if isinstance(error, SQLAlchemyError):
        cause, error = error, _translated(error)
        error.__cause__ = cause
    if not isinstance(error, DualResponseError):
        return _hidden(error, tool)
    if error.__cause__ is not None:
        log_failure(logger, error, f"the tool {tool!r}", level=logging.WARNING)
    else:
        logger.info("The tool %r answered %s: %s", tool, error.code, error)
    message, hint = error.told
    return ToolProblem(code=error.code, message=message, hint=hint, details=dict(error.details))


def _translated(error: SQLAlchemyError) -> DualResponseError:
    """For what a tool runs by itself; what `create_response` runs is translated where it is run."""
    if isinstance(error, PoolTimeoutError):
        return DatabaseBusyError("No database connection became free in time.")
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return DatabaseBusyError("The database broke off the connection.")
    return QueryExecutionError("The database could not run the query.")


def _hidden(error: Exception, tool: str) -> ToolProblem:
    incident = new_incident()
    log_unforeseen(logger, error, "incident %s: the tool %r failed", incident, tool)
    return ToolProblem(
        code=DualResponseError.code,
        message="The tool failed.",
        hint=f"Tell the operator of the server the incident {incident}.",
        details={"incident": incident},
    )
