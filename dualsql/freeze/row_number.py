"""The number that a database gives to each row of a table, which no column of the table has: the rowid of SQLite."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Table
from sqlalchemy.sql.elements import ColumnClause

from dualsql import sqlalchemy_internals as internals

ROW_NUMBERS = ("rowid", "_rowid_", "oid")
"""The names that SQLite has for it; DuckDB has the first."""


ROW_NUMBER_OF = "row_number"
"""In `Table.info`: the column of the table that numbers its rows, which `*` of a SQL text leaves out."""


class RowNumber(ColumnClause[int]):
    """The number of a row. As a column of a subquery, SQLAlchemy copies it, with this class and another name."""

    # Without this, SQLAlchemy caches no statement that contains the class (sqlalchemy/sql/cache_key.py).
    inherit_cache = True
    nullable = False


def row_number(source: Any, name: str) -> RowNumber:
    """The number of the rows of a table or an alias of one. `name` is one of `ROW_NUMBERS`, and of no column there."""
    column = RowNumber(name, BigInteger())
    column.table = source
    return column


def is_row_number(element: Any) -> bool:
    """Whether it is the number of a row of a table, and no column of a subquery."""
    return isinstance(element, RowNumber) and isinstance(internals.table_under(element.table), Table)
