"""Types as SQL writes them; the rule: what the table below does not name, CAST does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import types
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine
from sqlglot import exp
from sqlglot.expressions import DType

from dualsql.sql.refusals import forbid, shown
from dualsql_client.conversions import whole_or_none

SQLType = TypeEngine[Any]

_LARGEST = 1_000_000

_PLAIN: Mapping[Any, Callable[[], SQLType]] = {
    DType.BIGINT: types.BigInteger,
    DType.BOOLEAN: types.Boolean,
    DType.DATE: types.Date,
    DType.DATETIME: types.DateTime,
    DType.DOUBLE: types.Double,
    DType.FLOAT: types.Float,
    DType.INT: types.Integer,
    DType.SMALLINT: types.SmallInteger,
    DType.TINYINT: types.SmallInteger,
    DType.TEXT: types.Text,
    DType.TIME: types.Time,
    DType.TIMESTAMP: types.DateTime,
    DType.TIMESTAMPTZ: lambda: types.DateTime(timezone=True),
    DType.UUID: types.Uuid,
    DType.INTERVAL: types.Interval,
    DType.JSON: types.JSON,
    DType.JSONB: postgresql.JSONB,
}
_SIZED: Mapping[Any, Callable[..., SQLType]] = {
    DType.CHAR: types.CHAR,
    DType.DECIMAL: types.Numeric,
    DType.VARCHAR: types.String,
}

# SQLite has no such types: a CAST to one of them gives a number.
DATE_LIKE = (types.Date, types.DateTime, types.Time, types.Interval)


def read_type(node: Any) -> SQLType:
    """The type of a CAST."""
    if isinstance(node, exp.DataType):
        if node.this in _PLAIN and not node.expressions:
            return _PLAIN[node.this]()
        if node.this in _SIZED:
            return _SIZED[node.this](*map(_size, node.expressions))
    return forbid(
        f"CAST to {shown(node)}", hint="Use a standard type, such as INTEGER, NUMERIC, TEXT or DATE."
    )


def _size(parameter: Any) -> int:
    text = parameter.this.name if isinstance(parameter, exp.DataTypeParam) else ""
    size = whole_or_none(text, _LARGEST)
    if size is None:
        forbid("A type of that size", hint="Give whole numbers, as in NUMERIC(10, 2).")
    return size
