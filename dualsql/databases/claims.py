"""What the application's tables declare and the database does not enforce.

A page begins after the last row of the page before it. It would leave out rows whose NOT NULL column is NULL after all,
and rows that share a primary key. Of a table that the database does not describe, what is declared is believed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import Table, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import TableName
from dualsql.databases.session import in_session
from dualsql.databases.source import Source
from dualsql.errors import QueryExecutionError

logger = logging.getLogger(__name__)

_MOST_NAMES = 1_000

# Each row: a schema, whether it is the default one, a table, the name of a key or NULL, and a column: one of that key,
# or without a key one that is never NULL, or NULL.
_CONSTRAINTS: Mapping[str, str] = {
    # A key of PostgreSQL is not one of the tables that inherit the table, whose rows it has, too.
    "PostgreSQL": """
SELECT n.nspname, pg_table_is_visible(c.oid), c.relname, NULL::oid, a.attname FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attnotnull AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname IN :names
UNION ALL
SELECT n.nspname, pg_table_is_visible(c.oid), c.relname, i.indexrelid, a.attname FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indrelid = c.oid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE c.relname IN :names AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
AND i.indexprs IS NULL AND (c.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = c.oid))
""",
    "MariaDB": """
SELECT table_schema, table_schema = database(), table_name, NULL, IF(is_nullable = 'NO', column_name, NULL)
FROM information_schema.columns WHERE table_name IN :names
UNION ALL
SELECT table_schema, table_schema = database(), table_name, index_name, column_name
FROM information_schema.statistics WHERE non_unique = 0 AND table_name IN :names
""",
    # Without CROSS, SQLite (3.40) may read an index before the table whose it is, and finds none.
    "SQLite": """
SELECT t.schema, t.schema = 'main', t.name, NULL, c.name FROM pragma_table_list AS t
LEFT JOIN pragma_table_xinfo(t.name, t.schema) AS c ON c."notnull" OR c.pk AND NOT EXISTS (
    SELECT 1 FROM pragma_index_list(t.name, t.schema) WHERE origin = 'pk')
UNION ALL
SELECT t.schema, t.schema = 'main', t.name, '', c.name FROM pragma_table_list AS t
CROSS JOIN pragma_table_xinfo(t.name, t.schema) AS c WHERE c.pk AND NOT EXISTS (
    SELECT 1 FROM pragma_index_list(t.name, t.schema) WHERE origin = 'pk')
UNION ALL
SELECT t.schema, t.schema = 'main', t.name, i.name, c.name FROM pragma_table_list AS t
CROSS JOIN pragma_index_list(t.name, t.schema) AS i CROSS JOIN pragma_index_info(i.name, t.schema) AS c
WHERE i."unique" AND NOT i.partial
""",
    # An index without a constraint is no key of DuckDB's: it has the number of the row instead.
    "DuckDB": """
SELECT schema_name, schema_name = current_schema(), table_name, NULL,
CASE WHEN NOT is_nullable THEN column_name END FROM duckdb_columns() WHERE database_name = current_database()
UNION ALL
SELECT schema_name, schema_name = current_schema(), table_name, constraint_index::text,
unnest(constraint_column_names) FROM duckdb_constraints()
WHERE database_name = current_database() AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
""",
}
"""By the name of the database; of others, what is declared is believed."""


class _Enforced(NamedTuple):
    """The columns of a table that are never NULL, and those of each of its keys."""

    filled: set[str]
    keys: Mapping[Any, set[str]]

    def refutes_key(self, names: Iterable[str]) -> bool:
        """Whether rows may be alike in these columns."""
        wanted = {name.casefold() for name in names}
        return not any(key <= wanted and key <= self.filled for key in self.keys.values())


async def note_unenforced(source: Source, *, timeout: timedelta) -> None:
    """Ask the database for the constraints of the registered tables, and note the declared ones that it lacks.

    Raises:
        DatabaseBusyError, QueryTimeoutError: it could not be asked.
    """
    tables = [table for table in source.registry.tables.values() if isinstance(table, Table)]
    constraints = _CONSTRAINTS.get(source.capabilities.name)
    if source.capabilities.name == "PostgreSQL":
        from dualsql.databases.postgresql.loose_texts import has_loose_texts, telling_apart

        if await in_session(source, None, has_loose_texts, timeout=timeout):
            source.capabilities = telling_apart(source.capabilities)
    source.unkeyed.clear()
    source.unfilled.clear()
    if constraints is None or not tables:
        return
    try:
        enforced = await in_session(
            source, None, lambda connection: _enforced(connection, constraints, tables), timeout=timeout
        )
    except QueryExecutionError as error:
        logger.debug("the constraints of %r could not be read", source.name, exc_info=error)
        return
    for table in tables:
        actual = enforced.get((table.schema, table.name.casefold()))
        if actual is None:
            continue
        name = (table.schema, table.name)
        if table.primary_key and actual.refutes_key(column.name for column in table.primary_key):
            source.unkeyed.add(name)
        for column in table.c:
            if not column.nullable and column.name.casefold() not in actual.filled:
                source.unfilled.add((*name, column.name))


async def _enforced(
    connection: AsyncConnection, constraints: str, tables: Iterable[Table]
) -> Mapping[TableName, _Enforced]:
    names = sorted({table.name for table in tables})
    enforced: dict[TableName, _Enforced] = defaultdict(lambda: _Enforced(set(), defaultdict(set)))
    is_limited = ":names" in constraints
    for start in range(0, len(names) if is_limited else 1, _MOST_NAMES):
        asked = text(constraints)
        if is_limited:
            part = names[start : start + _MOST_NAMES]
            asked = asked.bindparams(bindparam("names", part, expanding=True))
        rows: Any = await connection.execute(asked)
        for schema, is_default, name, key, column in rows:
            for each in {schema, None if is_default else schema}:
                table = enforced[each, name.casefold()]
                if key is not None:
                    # An expression has no name.
                    table.keys[key].add("" if column is None else column.casefold())
                elif column is not None:
                    table.filled.add(column.casefold())
    return enforced
