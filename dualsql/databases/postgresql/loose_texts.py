"""Texts of nondeterministic collations: PostgreSQL takes different ones for equal.

Only a database that has such a column is asked so: a second condition lets the planner expect fewer rows, and an order
by code point has no index.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from sqlalchemy import ColumnElement, types
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities
from dualsql.databases.generic import collated, stored_in
from dualsql.databases.postgresql.capabilities import CAPABILITIES
from dualsql.query_dialects import QueryDialect

# PostgreSQL before 12 has none, and no column that tells.
_ASKED = """
SELECT EXISTS (SELECT FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
    JOIN pg_collation c ON c.oid = a.attcollation
    WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f') AND to_jsonb(c)->>'collisdeterministic' = 'false')
"""


async def has_loose_texts(connection: AsyncConnection) -> bool:
    """Whether a column of the database has such a collation."""
    return bool((await connection.exec_driver_sql(_ASKED)).scalar())


def telling_apart(capabilities: Capabilities) -> Capabilities:
    """The capabilities, with texts compared by code point where they are compared for equality."""
    return replace(capabilities, query_dialect=_query, distinguishing=_keys)


@cache
def _query() -> QueryDialect:
    plain = CAPABILITIES.query
    return replace(plain, exact=plain.ordered, finds_equal_by_index=False)


def _keys(expression: ColumnElement[object]) -> list[ColumnElement[object]]:
    stored = stored_in("postgresql", expression.type)
    is_text = isinstance(stored, types.String) and not isinstance(stored, types.Enum)
    keys = CAPABILITIES.distinguishing(expression)
    return [*keys, collated(expression, "C")] if is_text and len(keys) == 1 else keys
