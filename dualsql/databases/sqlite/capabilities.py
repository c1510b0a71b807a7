"""What SQLite can do."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Dialect, collate, func, types
from sqlalchemy.dialects import sqlite

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType, plain_type, stored_type
from dualsql.databases.generic import raw_form, unchanged


def _keys(expression: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    plain = plain_type(expression.type)
    if isinstance(plain, types.String):
        # A NOCASE column compares 'a' equal to 'A'.
        return [collate(expression, "BINARY")]
    # 1 equals 1.0, and a column without a type can hold both.
    return [expression, func.typeof(expression)] if isinstance(plain, types.NullType) else [expression]


def _scale(type_: SQLType) -> int | None:
    stored: Any = stored_type(type_, _DIALECT)
    if not isinstance(stored, types.Numeric | types.Float) or not stored.asdecimal:
        return None
    return int(stored._effective_decimal_return_scale)


_DIALECT: Dialect = sqlite.dialect()

CAPABILITIES = Capabilities(
    name="SQLite",
    nulls_last=True,
    splits_statements=False,
    groups_strictly=False,
    has_row_security=False,
    has_roles=False,
    has_schemas=False,
    has_loose_types=True,
    sortable=unchanged,
    distinguishing=_keys,
    nulls_last_by_default=(False, True),
    searches_row_values=True,
    keeps_zones=False,
    key_form=raw_form,
    is_bytes=lambda expression: func.typeof(expression) == "blob",
    has_loose_comparisons=True,
    spells_instants=True,
    divides_in_doubles=True,
    shown_scale=_scale,
)
