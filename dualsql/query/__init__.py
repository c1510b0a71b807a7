"""Questions about a stored result, as Selects over it: parsed from JSON or SQL, compiled for its database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Dialect

from dualsql.capabilities import Capabilities
from dualsql.freeze.document import AnySelect
from dualsql.plan import Shape
from dualsql.query.model import ResultQuery, SQLQuery, StructuredQuery, in_words
from dualsql.query.parse import KEYS, WINDOW_KEYS, read_structured_query
from dualsql.query.select import TEXT_KEYS, build_sql_select, build_structured_select, read_sql_query
from dualsql.sql.service import NO_TABLES, ReadableTables

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
    """The question in a JSON object; one with the key `sql` is a SQL text.

    Raises:
        BadParameterError, LimitExceededError: it is malformed or too large.
    """
    if isinstance(values, StructuredQuery | SQLQuery):
        return values
    return (
        read_sql_query(values)
        if isinstance(values, Mapping) and "sql" in values
        else read_structured_query(values)
    )


def build_select(
    query: ResultQuery,
    result: Shape,
    capabilities: Capabilities,
    dialect: Dialect,
    *,
    is_fenced: bool = False,
    tables: ReadableTables = NO_TABLES,
) -> AnySelect:
    """The Select that answers `query` about `result`, on the database of `dialect`.

    Args:
        is_fenced: the caller may not see all rows: expressions of a SQL text are computed for visible rows only.
        tables: that a SQL text may read besides the result.

    Raises:
        UnknownColumnError, BadParameterError: a column is not there, or has no such operation.
        InvalidSQLError, ForbiddenSQLError, UnknownTableError: the SQL text is refused; see `dualsql.sql`.
    """
    if isinstance(query, SQLQuery):
        return build_sql_select(query, result, capabilities, dialect, is_fenced=is_fenced, tables=tables)
    return build_structured_select(query, result, capabilities)
