"""What the application's tables declare and the database does not enforce.

A page begins after the last row of the page before it. It would leave out rows whose NOT NULL column is NULL after all,
and rows that share a primary key. Of a table that the database does not describe, orders rely on what is declared.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from sqlalchemy import Table, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.databases.guard import TableName
from dualsql.databases.session import in_session
from dualsql.databases.source import Source
from dualsql.errors import QueryExecutionError
from dualsql.freeze.row_number import ROW_NUMBER_OF
from dualsql.sqlalchemy_internals import table_under

logger = logging.getLogger(__name__)

_MOST_NAMES = 1_000


class _Enforced(NamedTuple):
    """The columns of a table that are never NULL, and those of each of its keys."""

    filled: set[str]
    keys: Mapping[Any, set[str]]

    def refutes_key(self, names: Iterable[str]) -> bool:
        """Whether rows may be alike in these columns."""
        wanted = {name.casefold() for name in names}
        return not any(key <= wanted and key <= self.filled for key in self.keys.values())


class Unenforced:
    """What tables of a source declare in vain.

    Attributes:
        keys: the tables whose primary key is none.
        filled: the columns that may be NULL, by schema, table and name.
    """

    def __init__(
        self,
        enforced: Mapping[TableName, _Enforced],
        tables: Iterable[Table],
        row_numbers: Mapping[TableName, str],
    ) -> None:
        self._row_numbers = row_numbers
        self.keys: set[TableName] = set()
        self.filled: set[tuple[str | None, str, str]] = set()
        folded = {(schema, name.casefold()): each for (schema, name), each in enforced.items()}
        for table in tables:
            name = (table.schema, table.name)
            actual = enforced.get(name) or folded.get((table.schema, table.name.casefold()))
            # The number of a row of a file is made by us, and each row has its own.
            if actual is None or ROW_NUMBER_OF in table.info:
                continue
            if table.primary_key and actual.refutes_key(column.name for column in table.primary_key):
                self.keys.add(name)
            declared = [column.name for column in table.c if not column.nullable]
            self.filled.update((*name, each) for each in declared if each.casefold() not in actual.filled)

    def row_number(self, table: Any) -> str | None:
        """See `Capabilities.row_number`."""
        key = (table.schema, table.name)
        if key in self.keys:
            name = self._row_numbers.get(key, "")
            return "" if name in table.c else name
        is_key = table.primary_key and not any(column.nullable for column in table.primary_key)
        number = None if is_key else self._row_numbers.get(key)
        return None if number is None or number in table.c else number

    def is_filled(self, column: Any) -> bool:
        """See `Capabilities.is_filled`."""
        table = table_under(column.table)
        return column.nullable is False and (table.schema, table.name, column.name) not in self.filled


async def unenforced(source: Source) -> Unenforced:
    """Ask the database for the row numbers and constraints of the registered tables; see `heed_constraints`."""
    row_numbers = await in_session(source, None, source.guard.row_numbers)
    tables = [table for table in source.registry.tables.values() if isinstance(table, Table)]
    module = _module_of(source)
    if module is None or not tables:
        return Unenforced({}, (), row_numbers)
    try:
        enforced = await in_session(
            source, None, lambda connection: _enforced(connection, module.CONSTRAINTS, tables)
        )
    except QueryExecutionError as error:
        message = "The constraints of the database %r could not be read. Those of the model are relied on."
        logger.warning(message, source.name, exc_info=error)
        enforced = {}
    return Unenforced(enforced, tables, row_numbers)


async def heed_constraints(source: Source) -> None:
    """Let the orders of `source` rely on the row numbers of its database, and on the keys and NOT NULLs it enforces.

    Raises:
        QueryExecutionError, DatabaseBusyError, QueryTimeoutError: it could not be asked.
    """
    claims = await unenforced(source)
    source.capabilities = replace(
        source.backend.capabilities, row_number=claims.row_number, is_filled=claims.is_filled
    )
    has_loose_texts = getattr(module := _module_of(source), "has_loose_texts", None)
    if has_loose_texts is None:
        return
    try:
        is_loose = await in_session(source, None, has_loose_texts)
    except QueryExecutionError as error:
        logger.warning("The collations of the database %r could not be read.", source.name, exc_info=error)
        is_loose = True  # correct in either case, only slower
    if is_loose:
        source.capabilities = module.telling_apart(source.capabilities)


def _module_of(source: Source) -> Any:
    """The module with `CONSTRAINTS`, the SQL that returns the constraints of the tables called `:names`, or of all.

    Each row has a schema, whether it is the default one, a table, the name of a key or NULL, and a column: one of that
    key or, without a key, one that is never NULL; or NULL.
    """
    name = source.capabilities.constraints
    return import_module(name) if name else None


async def _enforced(
    connection: AsyncConnection, constraints: str, tables: Iterable[Table]
) -> Mapping[TableName, _Enforced]:
    names = sorted({table.name for table in tables})
    enforced: dict[TableName, _Enforced] = defaultdict(lambda: _Enforced(set(), defaultdict(set)))
    is_limited = ":names" in constraints
    for start in range(0, len(names) if is_limited else 1, _MOST_NAMES):
        statement = text(constraints)
        if is_limited:
            part = names[start : start + _MOST_NAMES]
            statement = statement.bindparams(bindparam("names", part, expanding=True))
        rows: Any = await connection.execute(statement)
        for schema, is_default, name, key, column in rows:
            for each in {schema, None if is_default else schema}:
                table = enforced[each, name]
                if key is not None:
                    # An expression has no name.
                    table.keys[key].add("" if column is None else column.casefold())
                elif column is not None:
                    table.filled.add(column.casefold())
    return enforced
