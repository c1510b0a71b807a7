"""Asks PostgreSQL for the constraints of tables, and for collations that take different texts for equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, types
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.capabilities import Capabilities
from dualsql.databases.expressions import stored_in

# A table has the rows of those that inherit it: its key is none of theirs, and they may drop its NOT NULL. That of a
# foreign table, and since PostgreSQL 18 one that is NOT VALID, is not enforced.
CONSTRAINTS = """
WITH RECURSIVE family AS (
    SELECT oid AS root, oid AS member FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND relname IN :names
    UNION SELECT f.root, h.inhrelid FROM family f JOIN pg_inherits h ON h.inhparent = f.member
), filled AS (
    SELECT f.root, min(a.attname::text) AS attname FROM family f JOIN pg_class m ON m.oid = f.member
    JOIN pg_attribute a ON a.attrelid = m.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_constraint k ON k.conrelid = m.oid AND k.contype = 'n' AND k.conkey = ARRAY[a.attnum]
    GROUP BY f.root, lower(a.attname)
    HAVING bool_and(a.attnotnull AND m.relkind <> 'f' AND coalesce(k.convalidated, true))
)
SELECT n.nspname, pg_table_is_visible(c.oid), c.relname, NULL::oid, l.attname FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN filled l ON l.root = c.oid
WHERE c.oid IN (SELECT root FROM family)
UNION ALL
SELECT n.nspname, pg_table_is_visible(c.oid), c.relname, i.indexrelid, a.attname FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indrelid = c.oid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE c.relname IN :names AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
AND i.indexprs IS NULL AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid))
"""

# PostgreSQL before 12 has none, and no column that tells.
_ASKED = """
SELECT EXISTS (SELECT FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
    JOIN pg_collation c ON c.oid = a.attcollation
    WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f') AND to_jsonb(c)->>'collisdeterministic' = 'false')
"""


async def has_loose_texts(connection: AsyncConnection) -> bool:
    """Whether a column of the database has a nondeterministic collation."""
    return bool((await connection.exec_driver_sql(_ASKED)).scalar())


def telling_apart(capabilities: Capabilities) -> Capabilities:
    """The capabilities, with equality of texts by code point.

    Not for other databases: a second condition lets the planner expect fewer rows, and that order has no index.
    """
    plain = capabilities.query
    query = replace(plain, exact=plain.ordered, finds_equal_by_index=False)

    def keys_of(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
        stored = stored_in("postgresql", expression.type)
        is_text = isinstance(stored, types.String) and not isinstance(stored, types.Enum)
        keys = capabilities.distinguishing(expression)
        return [*keys, plain.ordered(expression)] if is_text and len(keys) == 1 else keys

    return replace(capabilities, query_dialect=lambda: query, distinguishing=keys_of)
