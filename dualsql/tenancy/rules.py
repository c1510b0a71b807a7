"""The rules that an operator can set for rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement

from dualsql.freeze.document import Statement
from dualsql.resource import Principal


class HookContext(NamedTuple):
    """The principal and the source of a statement that is about to run."""

    principal: Principal | None
    source: str


Function = Callable[[Statement, HookContext], Statement]
"""Returns the statement to run instead of a thawed one: the same columns, the same rows or fewer.

It gets the author's own tables and classes. The statement may be a set operation or text().columns(), which
have no .where(): filter `select(statement.subquery())` there, or raise an error. A function that raises stops the
request.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TenantFilter:
    """Keep the rows whose `column` equals the principal's `value`, in every table that has such a column.

    Attributes:
        column: the column's name in the database.
        value: the value for the current principal; None refuses the request.
        tables: Tables, mapped classes or names; by default every table with the column.
    """

    column: str
    value: Callable[[Principal], Any]
    tables: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """Keep the rows of one table for which the predicate holds.

    Attributes:
        table: a Table, a mapped class or a name.
        predicate: a function of the current principal that returns a condition on the table's own columns. Tables in
            its subqueries are read without rules. If a subquery reads the table itself, use an alias.
    """

    table: Any
    predicate: Callable[[Principal], ColumnElement[bool]]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Hide a column's values wherever it is read: in the output, and in filters, sorts and groups.

    Attributes:
        column: a Column or a mapped attribute that is not part of a primary key, because pages are sorted by keys.
        how: "null" for NULL, "redact" for a constant text, or a function of the column that returns an
            expression of the same type.
        unless: whether this principal sees the column unmasked.
    """

    column: Any
    how: Literal["null", "redact"] | Callable[[ColumnElement[Any]], ColumnElement[Any]] = "null"
    unless: Callable[[Principal], bool] | None = None


class Shared:
    """Declare tables that every tenant may read: Tables, mapped classes or names."""

    __slots__ = ("tables",)

    def __init__(self, *tables: Any) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        return f"Shared({', '.join(map(str, self.tables))})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowSecurity:
    """Use PostgreSQL's row-level security. Its policies read `setting`, which is set for each transaction.

    The server does not start unless row security is active on these tables for its database user.

    Attributes:
        setting: the name of a custom setting, with a dot: "app.tenant".
        value: the value for the current principal, written as text; None refuses the request.
        tables: Tables, mapped classes or names; by default all tables that no other rule names.
    """

    setting: str
    value: Callable[[Principal], Any]
    tables: Sequence[Any] | None = None


Rule = TenantFilter | RowFilter | Mask | Shared | RowSecurity
Hook = Rule | Function
"""A rule, or a plain function `(statement, context) -> statement`."""
