"""The rules that an operator can set for rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import ColumnElement

from dualsql.freeze.document import Statement
from dualsql.resource import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """For whom and on which source a statement is about to run."""

    principal: Principal | None
    source: str


Function = Callable[[Statement, HookContext], Statement]
"""Given a thawed statement, the one to run in its place: the same columns, fewer rows.

It sees the author's own tables and classes. The statement may be a set operation or text().columns(), which
have no .where(): filter `select(statement.subquery())` there, or raise an error. A function that raises stops the
request.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFilter:
    """Keep the rows whose `column` equals the principal's `value`, in every table that has such a column.

    Attributes:
        column: the column's name in the database.
        value: of the principal who asks now; None refuses the request.
        tables: Tables, mapped classes or names, when not every table with the column is meant.
    """

    column: str
    value: Callable[[Principal], Any]
    tables: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Keep the rows of one table that the predicate accepts.

    Attributes:
        table: a Table, a mapped class or a name.
        predicate: given the principal who asks now, a condition on the table's own columns. It is the
            operator's: tables of its subqueries are read whole. An alias of the table itself is needed where a
            subquery reads that table again.
    """

    table: Any
    predicate: Callable[[Principal], ColumnElement[bool]]


@dataclass(frozen=True, slots=True)
class Mask:
    """Hide a column's values wherever it is read: in the output, and before it is filtered, sorted or grouped by.

    Attributes:
        column: a Column or a mapped attribute; no part of a primary key, by which pages are cut.
        how: "null" for NULL, "redact" for a constant text, or a function of the column that gives an
            expression of the same type.
        unless: whether this principal sees the column unmasked.
    """

    column: Any
    how: Literal["null", "redact"] | Callable[[ColumnElement[Any]], ColumnElement[Any]] = "null"
    unless: Callable[[Principal], bool] | None = None


class Shared:
    """Declare tables to hold nothing that belongs to a tenant: Tables, mapped classes or names."""

    __slots__ = ("tables",)

    def __init__(self, *tables: Any) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        return f"Shared({', '.join(map(str, self.tables))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSecurity:
    """Leave rows to PostgreSQL's row-level security: its policies read `setting`, set for each transaction.

    The server does not start unless row security is active on these tables for its database user.

    Attributes:
        setting: the name of a custom setting, with a dot: "app.tenant".
        value: of the principal who asks now, written as text; None refuses the request.
        tables: Tables, mapped classes or names; all that no other rule names, when left out.
    """

    setting: str
    value: Callable[[Principal], Any]
    tables: Sequence[Any] | None = None


Rule = TenantFilter | RowFilter | Mask | Shared | RowSecurity
Hook = Rule | Function
"""A rule, or a plain function `(statement, context) -> statement`."""


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """Names of tables in the registry.

    Attributes:
        tables: those that the rules let the principal query ...
        filtered: ... and of them, those whose rows depend on who asks.
        masked: keys of the columns whose values are hidden, by table.
    """

    tables: frozenset[str] = frozenset()
    filtered: frozenset[str] = frozenset()
    masked: Mapping[str, frozenset[str]] = field(default_factory=dict)
