"""How PostgreSQL itself writes a column's values; the rule: a pair of types that is not listed here takes another lane.

A value in CSV, and in the text that Arrow's columns are parsed from, has to be what SQLAlchemy's type and
`dualsql.formats` would have made of the driver's object. That is known for the pairs of a declared encoding and a
type of PostgreSQL below, and only where the SQLAlchemy type has no processing of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql.columns import ResultColumn, is_sqlalchemys_own

# Object ids: https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat
_INTEGERS = (20, 21, 23)
_TEXTS = (25, 1042, 1043, 19)
_FLOATS, _DECIMAL = (700, 701), 1700
_BUILT_IN = 16_384

# to_json() writes ISO 8601 whatever the session's DateStyle; where that is ISO anyway, the text is there sooner.
_ISO = "btrim(to_json({c})::text, '\"')"
# An infinity has no zone.
_ZONED = "replace(btrim(to_json({c} AT TIME ZONE 'UTC')::text, '\"') || '+00:00', 'y+00:00', 'y')"
_WHERE_ISO = {
    _ISO: "replace({c}::text, ' ', 'T')",
    _ZONED: "replace(replace(({c} AT TIME ZONE 'UTC')::text, ' ', 'T') || '+00:00', 'y+00:00', 'y')",
}
# As asyncpg makes a timedelta of an interval: a year of 365 days, to PostgreSQL's 365.25, and a month of 30.
_MICROSECONDS = "((extract(epoch FROM {c}) * 1000000)::bigint - extract(year FROM {c})::bigint * 21600000000)"
# And as dualsql.formats.json writes that: P1DT2H3M4.5S. OFFSET 0 keeps the planner from computing m for each part.
_SECONDS = (
    "CASE WHEN m % 1000000 = 0 THEN (abs(m) / 1000000 % 60)::text"
    " ELSE rtrim((abs(m) % 60000000 / 1000000.0)::text, '0') END"
)
_DURATION = (
    "(SELECT CASE WHEN m < 0 THEN '-P' ELSE 'P' END || (abs(m) / 86400000000)::text"
    " || 'DT' || (abs(m) / 3600000000 % 24)::text || 'H' || (abs(m) / 60000000 % 60)::text"
    f" || 'M' || {_SECONDS} || 'S' FROM (SELECT {_MICROSECONDS} AS m OFFSET 0) AS x)"
)
_AS_IT_IS, _TEXT, _FLOAT = "{c}", "{c}::text", "{c}::float8"
_BASE64 = "replace(encode({c}, 'base64'), chr(10), '')"
_JSON = "nullif({c}::text, 'null')"
_ARRAY = "to_json({c})::text"

_CSV: Mapping[tuple[str, int], str] = {
    **{("integer", oid): _AS_IT_IS for oid in _INTEGERS},
    **{("text", oid): _AS_IT_IS for oid in _TEXTS},
    # float4 is a Python float to everybody else: its digits are those of the same number as float8.
    **{("float", oid): _FLOAT for oid in (*_FLOATS, _DECIMAL)},
    ("decimal", _DECIMAL): _AS_IT_IS,
    ("boolean", 16): _TEXT,
    ("date", 1082): _ISO,
    ("datetime", 1114): _ISO,
    ("datetime", 1184): _ZONED,
    ("time", 1083): _TEXT,
    ("interval", 1186): _DURATION,
    ("uuid", 2950): _AS_IT_IS,
    ("base64", 17): _BASE64,
    ("json", 114): _JSON,
    ("json", 3802): _JSON,
    # One-dimensional or not: int2, int4, int8, text, varchar, bool, date.
    **{("array", oid): _ARRAY for oid in (1005, 1007, 1016, 1009, 1015, 1000, 1182)},
    # A column of no declared type has the driver's own objects.
    **{("any", oid): _AS_IT_IS for oid in (*_INTEGERS, *_TEXTS, 701, _DECIMAL)},
    ("any", 700): _FLOAT,
    ("any", 16): _TEXT,
}

_ARROW: Mapping[tuple[str, int], str] = {
    **{key: written for key, written in _CSV.items() if key[0] not in {"any", "interval"}},
    ("interval", 1186): _MICROSECONDS,
}


@dataclass(frozen=True, slots=True)
class Speller:
    """Writes the columns of one session's statement.

    Attributes:
        date_style: the session's.
    """

    dialect: Dialect
    date_style: str

    def for_csv(self, column: ResultColumn, type_: Any) -> str | None:
        """The SQL, with `{c}` for the column, whose text is the column's in CSV; None where there is none.

        Args:
            type_: what PostgreSQL says it is, as asyncpg tells it.
        """
        return self._spelled(_CSV, column, type_)

    def for_arrow(self, column: ResultColumn, type_: Any) -> str | None:
        """The SQL whose text is parsed into the column's Arrow type; see `for_csv`."""
        return self._spelled(_ARROW, column, type_)

    def _spelled(self, table: Mapping[tuple[str, int], str], column: ResultColumn, type_: Any) -> str | None:
        found = _found(table, column, type_, self.dialect)
        return _WHERE_ISO.get(found or "", found) if self.date_style.startswith("ISO") else found


def _found(
    table: Mapping[tuple[str, int], str], column: ResultColumn, type_: Any, dialect: Dialect
) -> str | None:
    encoding = column.describe()["encoding"]
    if not is_sqlalchemys_own(column.type, dialect) or (encoding == "json" and _reads_json_itself(dialect)):
        return None
    if isinstance(column.type, types.Enum) and type_.oid >= _BUILT_IN and type_.kind == "scalar":
        return _TEXT
    return table.get((encoding, type_.oid))


def _reads_json_itself(dialect: Any) -> bool:
    """Whether the application gave the engine a parser of its own."""
    return getattr(dialect, "_json_deserializer", None) is not None
