"""The types of columns by the codes of MariaDB's protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import types

from dualsql.columns.own_types import SQLType

# https://mariadb.com/kb/en/result-set-packets/. Texts and bytes share their codes.
_TYPES: Mapping[int, SQLType] = {
    **dict.fromkeys((1, 2, 3, 9, 13), types.Integer()),
    8: types.BigInteger(),
    **dict.fromkeys((4, 5), types.Double()),
    **dict.fromkeys((0, 246), types.Numeric()),
    10: types.Date(),
    **dict.fromkeys((7, 12), types.DateTime()),
}


def described_type(code: Any) -> SQLType:
    """The type with this code; NullType for one that has several."""
    return _TYPES.get(code, types.NULLTYPE)
