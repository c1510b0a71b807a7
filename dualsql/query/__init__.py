"""A question about a stored result, as a Select over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualsql.capabilities import Capabilities
from dualsql.freeze.document import AnySelect
from dualsql.plan import Shape
from dualsql.query.model import ResultQuery, SQLQuery, StructuredQuery, in_words
from dualsql.query.parse import KEYS, WINDOW_KEYS, read_structured_query
from dualsql.query.select import TEXT_KEYS, build_sql_select, build_structured_select, read_sql_query

__all__ = [
    "KEYS",
    "TEXT_KEYS",
    "WINDOW_KEYS",
    "ResultQuery",
    "SQLQuery",
    "StructuredQuery",
    "build_select",
    "in_words",
    "read_result_query",
    "read_sql_query",
    "read_structured_query",
]


def read_result_query(values: Any) -> ResultQuery:
    """The question that a JSON object is; one with `sql` is asked in SQL.

    Raises:
        BadParameterError, LimitExceededError: it is none, or there is too much of it.
    """
    if isinstance(values, StructuredQuery | SQLQuery):
        return values
    return (
        read_sql_query(values)
        if isinstance(values, Mapping) and "sql" in values
        else read_structured_query(values)
    )


def build_select(
    query: ResultQuery, result: Shape, capabilities: Capabilities, dialect: str, *, is_fenced: bool = False
) -> AnySelect:
    """The Select that answers `query` about `result`, on a database of SQLAlchemy's `dialect`.

    Args:
        is_fenced: rows are hidden from whoever asks: what a text computes is computed of the others alone.

    Raises:
        UnknownColumnError, BadParameterError: it names what is not there, or asks what cannot be.
        InvalidSQLError, ForbiddenSQLError, UnknownTableError: a text cannot be read; see `dualsql.sql`.
    """
    if isinstance(query, SQLQuery):
        return build_sql_select(query, result, capabilities, dialect, is_fenced=is_fenced)
    return build_structured_select(query, result, capabilities)
