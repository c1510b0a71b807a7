"""The types of columns by PostgreSQL's numbers of them, which stand in the description of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import types

from dualsql.columns.own_types import SQLType
from dualsql.sqlalchemy_dialects import JSONB

# By type: its number, and that of lists of it. https://www.postgresql.org/docs/current/catalog-pg-type.html
_NUMBERS: Mapping[SQLType, tuple[tuple[int, int], ...]] = {
    types.Boolean(): ((16, 1000),),
    types.Integer(): ((21, 1005), (23, 1007)),
    types.BigInteger(): ((20, 1016),),
    types.Numeric(): ((1700, 1231),),
    types.REAL(): ((700, 1021),),
    types.Double(): ((701, 1022),),
    types.String(): ((19, 1003), (25, 1009), (1042, 1014), (1043, 1015)),
    types.Date(): ((1082, 1182),),
    types.Time(): ((1083, 1183),),
    types.Time(timezone=True): ((1266, 1270),),
    types.DateTime(): ((1114, 1115),),
    types.DateTime(timezone=True): ((1184, 1185),),
    types.Uuid(): ((2950, 2951),),
}
_ALONE: Mapping[int, SQLType] = {
    17: types.LargeBinary(),
    114: types.JSON(),
    1186: types.Interval(),
    3802: JSONB(),
}
"""Lists of these have no form in all formats."""

_TYPES: Mapping[int, SQLType] = {
    **_ALONE,
    **{one: kind for kind, numbers in _NUMBERS.items() for one, _ in numbers},
    **{many: types.ARRAY(kind) for kind, numbers in _NUMBERS.items() for _, many in numbers},
}


def described_type(number: Any) -> SQLType:
    """The type with this number; NullType for one that the server does not know."""
    return _TYPES.get(number, types.NULLTYPE)
