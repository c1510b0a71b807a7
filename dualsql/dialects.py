"""What each database can do; the rule: code asks for a capability, never for a dialect's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Dialect, Text, cast, collate, func, types

from dualsql.columns import SQLType, plain_type
from dualsql.keyforms import KeyForm, mysql_form, postgresql_form, raw_form

Transform = Callable[[ColumnElement[Any]], ColumnElement[Any]]


class MakeKeyForm(Protocol):
    """`is_stored` is for a plain column of a table, as the table has it."""

    def __call__(self, expression: ColumnElement[Any], *, is_stored: bool) -> KeyForm | None: ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One database's abilities, as far as dualsql depends on them.

    Attributes:
        name: for messages only.
        nulls_last: ORDER BY x NULLS LAST is understood.
        read_only_transactions: the transaction itself can be opened read-only (no statement needed).
        read_only_statements: run before and after a session where a transaction cannot be read-only.
        read_only_query: answers whether a connection refuses writes by itself; it must then be left alone.
        is_read_only_refusal: tells the driver's error for a forbidden write from any other.
        groups_strictly: an output column must be grouped by, or depend on the primary key of a table.
        has_row_security: rows can be narrowed by policies that read a setting of the transaction.
        interrupts: cancelling a task does not stop its statement; the driver's connection must be told.
        sortable: makes an expression of any type fit for ORDER BY.
        distinguishing: keys for ORDER BY in which values that differ never compare equal.
        nulls_last_by_default: where NULLs stand when ORDER BY does not say, ascending and descending.
        searches_row_values: (a, b) > (x, y) is looked up in an index.
        keeps_zones: an instant of a DateTime(timezone=True) is stored with its zone, and comes back with one.
        key_form: how the value of an order key is read and given back; None when it cannot be.
    """

    name: str
    nulls_last: bool
    read_only_transactions: bool
    read_only_statements: tuple[str, str] | None
    read_only_query: str | None
    is_read_only_refusal: Callable[[BaseException | None], bool]
    groups_strictly: bool
    has_row_security: bool
    interrupts: bool
    sortable: Transform
    distinguishing: Callable[[ColumnElement[Any]], list[ColumnElement[Any]]]
    nulls_last_by_default: tuple[bool, bool]
    searches_row_values: bool
    keeps_zones: bool
    key_form: MakeKeyForm


def _as_it_is(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    return expression


def _sqlite_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = plain_type(expression.type)
    if isinstance(plain, types.String):
        # A NOCASE column compares 'a' equal to 'A'.
        return [collate(expression, "BINARY")]
    # 1 equals 1.0, and a column without a type can hold both.
    return [expression, func.typeof(expression)] if isinstance(plain, types.NullType) else [expression]


def _as_text_if_unsortable(expression: ColumnElement[Any]) -> ColumnElement[Any]:
    # json, xml, point and extension types have no ordering; their text tells any two of them apart.
    return expression if _is_sortable(expression.type) else cast(expression, Text)


def _postgresql_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    # 1.0 equals 1.00, and 0.0 equals -0.0, and each is shown as it is.
    is_number = isinstance(plain_type(expression.type), types.Numeric | types.Float)
    sortable = _as_text_if_unsortable(expression)
    return [sortable, cast(expression, Text)] if is_number else [sortable]


def _mysql_keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = plain_type(expression.type)
    if isinstance(plain, types.String) and not isinstance(plain, types.Enum):
        # The default collations take 'a', 'A' and 'á' as equal.
        return [cast(expression, types.LargeBinary)]
    # 0.0 equals -0.0, 1.0 equals 1.00, and what has no type may be text.
    is_loose = isinstance(plain, types.Numeric | types.Float | types.NullType)
    return [expression, cast(expression, types.LargeBinary)] if is_loose else [expression]


def _is_sortable(type_: SQLType) -> bool:
    plain = plain_type(type_)
    if isinstance(plain, types.ARRAY):
        return _is_sortable(plain.item_type)
    return isinstance(plain, _SORTABLE) or plain._type_affinity is types.Interval


_SORTABLE = (
    types.String,
    types.Integer,
    types.Numeric,
    types.Float,
    types.Boolean,
    types.Date,
    types.DateTime,
    types.Time,
    types.Uuid,
    types.LargeBinary,
)


def _is_sqlite_refusal(error: BaseException | None) -> bool:
    return "readonly" in str(error)


def _is_postgresql_refusal(error: BaseException | None) -> bool:
    return getattr(error, "sqlstate", None) == "25006"


def _is_mysql_refusal(error: BaseException | None) -> bool:
    return error is not None and error.args[:1] == (1792,)


FORBID_WRITES = "PRAGMA query_only = ON"
"""SQLite: this connection refuses writes from now on."""

_SQLITE = Capabilities(
    name="SQLite",
    nulls_last=True,
    read_only_transactions=False,
    read_only_statements=(FORBID_WRITES, "PRAGMA query_only = OFF"),
    read_only_query="PRAGMA query_only",
    is_read_only_refusal=_is_sqlite_refusal,
    groups_strictly=False,
    has_row_security=False,
    interrupts=True,
    sortable=_as_it_is,
    distinguishing=_sqlite_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=True,
    keeps_zones=False,
    key_form=raw_form,
)
_POSTGRESQL = Capabilities(
    name="PostgreSQL",
    nulls_last=True,
    read_only_transactions=True,
    read_only_statements=None,
    read_only_query=None,
    is_read_only_refusal=_is_postgresql_refusal,
    groups_strictly=True,
    has_row_security=True,
    interrupts=False,
    sortable=_as_text_if_unsortable,
    distinguishing=_postgresql_keys,
    nulls_last_by_default=(True, False),
    searches_row_values=True,
    keeps_zones=True,
    key_form=postgresql_form,
)
_MYSQL = Capabilities(
    name="MariaDB",
    nulls_last=False,
    read_only_transactions=False,
    read_only_statements=("START TRANSACTION READ ONLY", "ROLLBACK"),
    read_only_query=None,
    is_read_only_refusal=_is_mysql_refusal,
    groups_strictly=False,
    has_row_security=False,
    interrupts=False,
    sortable=_as_it_is,
    distinguishing=_mysql_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=False,
    keeps_zones=False,
    key_form=mysql_form,
)
_KNOWN = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL}


def capabilities_of(dialect: Dialect) -> Capabilities | None:
    """What the dialect's database can do, or None for one that dualsql does not know to keep read-only."""
    return _KNOWN.get(dialect.name)
