"""Questions about a stored result, as Selects over it: parsed from JSON or SQL, compiled for its database."""

from __future__ import annotations

from dualsql.query.model import ResultQuery, SQLQuery, StructuredQuery, in_words
from dualsql.query.parse import KEYS, WINDOW_KEYS, read_structured_query
from dualsql.query.select import TEXT_KEYS, build_select, read_result_query, read_sql_query

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
