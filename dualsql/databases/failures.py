"""The errors that callers get when a database fails: dualsql's own words, and never the database's."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import timedelta

from sqlalchemy.exc import DBAPIError, StatementError, TimeoutError as PoolTimeoutError

from dualsql import hints
from dualsql.databases.guard import FailureKind, Guard
from dualsql.databases.source import Source
from dualsql.errors import (
    Asked,
    BadParameterError,
    CallerMessage,
    DatabaseBusyError,
    DatabaseUnreachableError,
    DualResponseError,
    InvalidSQLError,
    LimitExceededError,
    NotFreezableError,
    QueryExecutionError,
    QueryTimeoutError,
)
from dualsql.events import EVENTS, StatementStopped

_log = logging.getLogger(__name__)

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
"""Failures that only the data cause: the message names their class, and no value."""

_OF_ITS_FORM: Mapping[FailureKind | None, tuple[str, str]] = {
    FailureKind.GROUPING: (
        "An aggregate stands in WHERE or in another aggregate, or a column beside aggregates is not in GROUP BY.",
        "Name each plain column in GROUP BY, or write min(x); put a condition on an aggregate into HAVING.",
    ),
    FailureKind.DEPTH: (
        "The query is nested deeper than the database reads.",
        "Compute a part first: WITH s AS (SELECT *, date_trunc('month', x) AS m FROM t) SELECT * FROM s WHERE x >= m.",
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


def ran_too_long(limit: timedelta) -> QueryTimeoutError:
    """The error for a statement that was stopped after `limit`."""
    return QueryTimeoutError(f"The query ran longer than {limit.total_seconds():g} seconds and was stopped.")


def refinement_not_stored(error: NotFreezableError) -> LimitExceededError:
    """The error for a refinement whose statement cannot be stored, in words for the caller; the log has the cause."""
    _log.warning("A refinement could not be stored: %s", error)
    return LimitExceededError(
        "The new result cannot be stored: its statement is too large, or of an unusual form.",
        hint="Use fewer filters and columns, refine an earlier result, or run the query again.",
    )


def too_large() -> LimitExceededError:
    """The error for rows that are too large for memory."""
    return LimitExceededError(
        "The rows are too large for one page.",
        hint="Select fewer or shorter columns or fewer rows, or use a stream.",
    )


def error_of_connecting(error: Exception, source: Source) -> DatabaseBusyError | DatabaseUnreachableError:
    """The error for a caller who got no connection."""
    if isinstance(error, TimeoutError | PoolTimeoutError):
        return DatabaseBusyError("No database connection became free in time.")
    if source.failure_kind(error) is FailureKind.BUSY:
        return DatabaseBusyError("The database accepts no more connections now.")
    return DatabaseUnreachableError("The database could not be reached.")


def caller_error(
    error: Exception,
    source: Source,
    failure: type[QueryExecutionError],
    limit: timedelta | None,
    seconds: float,
) -> DualResponseError:
    """The error for a caller whose statement failed.

    Args:
        failure: the class of the error, where no other one is known.
        limit: how long the session's statements may run. seconds: how long this one ran.
    """
    cause = error.orig if isinstance(error, StatementError) else error
    kind = source.failure_kind(error)
    if kind is FailureKind.TIMEOUT:
        return _timeout(limit, seconds)
    if kind is FailureKind.SIZE:
        return too_large()
    specific: DualResponseError | None = _of_the_database(error, kind)
    if specific is None and failure is QueryExecutionError:
        specific = _of_the_query(error, kind, _missing_operation(str(cause), source.guard))
    is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if specific is None and (
        kind is FailureKind.BROKEN or is_lost or isinstance(error, ConnectionError | EOFError)
    ):
        specific = DatabaseBusyError("The database closed the connection.")
    if specific is not None:
        return specific
    if not isinstance(cause, _OF_ONE_VALUE):
        message, hint = _OF_DATA.get(kind, (_FAILED, None))
        return failure(message, hint=hint)
    text = _OUT_OF_RANGE if isinstance(cause, OverflowError) else _UNREADABLE
    return failure(text.message, hint=text.hint)


def _timeout(limit: timedelta | None, seconds: float) -> QueryTimeoutError:
    EVENTS.report(StatementStopped("timeout"))
    if limit is not None and seconds >= limit.total_seconds():
        return ran_too_long(limit)
    return QueryTimeoutError(
        "The database or its operator stopped the query.", hint="Select fewer rows or use a simpler query."
    )


def _of_the_database(error: Exception, kind: FailureKind | None) -> DatabaseBusyError | None:
    if isinstance(error, PoolTimeoutError):
        return DatabaseBusyError("No database connection became free in time.")
    if kind is FailureKind.UNREACHABLE:
        return DatabaseUnreachableError("The database could not be reached.")
    if kind not in _OF_THE_DATABASE:
        return None
    message, hint = _OF_THE_DATABASE[kind]
    busy = DatabaseBusyError(message, hint=hint)
    busy.is_full = kind is FailureKind.FULL
    return busy


_TYPE_WORDS = frozenset(
    """bigint bit blob boolean bytea char character date decimal double float hugeint integer integer_literal interval
    json jsonb numeric precision real record smallint string_literal text time timestamp tinyint ubigint uinteger
    unknown usmallint utinyint uuid varchar varying with without zone operator comparison of and""".split()
)
_NAME_OF_FUNCTION = re.compile(r"^function \w+(?=\()")


def _missing_operation(message: str, guard: Guard) -> str:
    """The operation that a message of the database names, such as "function round(text, integer)"; else empty.

    Only names of functions and of the database's own types are passed on: a message may hold anything.
    """
    for pattern, operation in guard.missing_operations.items():
        if (match := pattern.search(message)) is not None:
            name = match.expand(operation)
            words = re.findall(r"[^\W\d]\w*", _NAME_OF_FUNCTION.sub("", name).lower())
            return name if _TYPE_WORDS.issuperset(words) else ""
    return ""


def _of_the_query(error: Exception, kind: FailureKind | None, operation: str) -> QueryExecutionError | None:
    # A value that its type does not accept, before anything was sent.
    is_unbound = isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    if kind in (FailureKind.UNSUITED, FailureKind.VALUE) or is_unbound:
        message, hint = _UNSUITED if kind is FailureKind.UNSUITED else (_FAILED, None)
        unsuited = QueryExecutionError(
            f"The database has no {operation}." if operation else message, hint=hint
        )
        unsuited.missing_operation = operation
        unsuited.is_unsuited, unsuited.is_of_a_value = True, kind is FailureKind.VALUE
        return unsuited
    if kind not in _OF_ITS_FORM:
        return None
    message, hint = _OF_ITS_FORM[kind]
    misplaced = QueryExecutionError(message, hint=hint)
    misplaced.is_of_its_form = True
    return misplaced


def raise_for_input(
    error: DualResponseError, input_kind: Asked | None, reads_conversions: Callable[[], bool]
) -> None:
    """Raise the error of an unsuited statement as one of the caller who gave its input; return for any other error.

    Args:
        input_kind: what the caller gave; None for a statement of the application.
        reads_conversions: whether a statement converts values that the question or the text reads.

    Raises:
        QueryExecutionError: a value could not be converted, by the one or by the other; or the text failed and the
            error has no hint of its own.
        BadParameterError, InvalidSQLError: the database has no such operation for the types of the values in the
            question, in the text; or a part of the text stands where it cannot.
    """
    if input_kind is None or not isinstance(error, QueryExecutionError):
        return
    kind: type[DualResponseError] = QueryExecutionError
    message, hint, is_text = error.message, error.hint, input_kind == "text"
    if is_text and error.is_of_its_form:
        kind = InvalidSQLError
    elif error.is_unsuited and error.is_of_a_value and reads_conversions():
        message, hint = hints.UNCONVERTED
    elif error.is_unsuited:
        kind = InvalidSQLError if is_text else BadParameterError
        is_conversion = is_text and error.is_of_a_value
        message, hint = hints.CONVERSION if is_conversion else hints.UNSUITED[input_kind]
        if is_text and error.missing_operation:
            message = error.message
    elif is_text and hint == QueryExecutionError.default_hint:
        hint = hints.OWN_TEXT
    else:
        return
    raise kind(message, hint=hint) from error
