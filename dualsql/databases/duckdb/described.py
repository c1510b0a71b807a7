"""The types of columns by DuckDB's names of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import types

from dualsql.columns.own_types import SQLType

_TYPES: Mapping[str, SQLType] = {
    "BOOLEAN": types.Boolean(),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT"), types.Integer()),
    **dict.fromkeys(("BIGINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT"), types.BigInteger()),
    "FLOAT": types.REAL(),
    "DOUBLE": types.Double(),
    "VARCHAR": types.String(),
    "DATE": types.Date(),
    "TIME": types.Time(),
    "TIMESTAMP": types.DateTime(),
    "TIMESTAMP WITH TIME ZONE": types.DateTime(timezone=True),
    "INTERVAL": types.Interval(),
    "UUID": types.Uuid(),
    "BLOB": types.LargeBinary(),
    "JSON": types.JSON(),
}


def described_type(kind: Any) -> SQLType:
    """The type with this name; NullType for a struct, a map and others without a form in all formats."""
    name = str(kind)
    if name.endswith("[]"):
        items = described_type(name.removesuffix("[]"))
        return types.NULLTYPE if isinstance(items, types.NullType | types.ARRAY) else types.ARRAY(items)
    return types.Numeric() if name.startswith("DECIMAL(") else _TYPES.get(name, types.NULLTYPE)
