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
from dualsql.digits import reads_for_an_application

# Object ids: https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat
_INTEGERS = (20, 21, 23)
_TEXTS = (25, 1042, 1043, 19)
_DECIMAL = 1700
_BUILT_IN = 16_384

# to_json() writes ISO 8601 whatever the session's DateStyle.
_ISO = "btrim(to_json({c})::text, '\"')"
_ZONED_ISO = "regexp_replace(btrim(to_json({c} AT TIME ZONE 'UTC')::text, '\"'), '( BC)?$', '+00:00\\1')"
_LAST = "9999-12-31 23:59:59.999999"
_WITHOUT_MONTHS = (
    "date_trunc('month', {c}) = interval '0'"
    " AND {c} BETWEEN interval '-999999999 days' AND interval '999999998 days'"
)
_PARTS = " || ".join(
    f"extract({part} FROM {{c}})::text || '{sign}'"
    for part, sign in (("year", "Y"), ("month", "M"), ("day", "DT"), ("hour", "H"), ("minute", "M"))
)
# A year, or its mark, as Python has none; in what else a database writes of arrays and ranges.
_ODD = "BC|[0-9]{5,}-"

# What Python has a class for: years 1 to 9999, times of day before 24:00, durations without months.
_DATE = "{c} BETWEEN date '0001-01-01' AND date '9999-12-31'"
_MOMENT = f"{{c}} BETWEEN timestamp '0001-01-01' AND timestamp '{_LAST}'"
_INSTANT = f"{{c}} BETWEEN timestamptz '0001-01-01 00:00+00' AND timestamptz '{_LAST}+00'"

READABLE: Mapping[int, str] = {
    # The driver knows the infinities, of dates and instants alone.
    1082: f"({_DATE} OR NOT isfinite({{c}}))",
    1114: f"({_MOMENT} OR NOT isfinite({{c}}))",
    1184: f"({_INSTANT} OR NOT isfinite({{c}}))",
    1083: "{c} < time '24:00'",
    1266: "{c}::time < time '24:00'",
    1186: f"({_WITHOUT_MONTHS})",
    **dict.fromkeys((1182, 1115, 1185), f"{{c}}::text !~ '{_ODD}'"),
    **dict.fromkeys((1183, 1270), "{c}::text !~ '24:00:00'"),
    1187: "{c}::text !~ 'year|mon'",
    **dict.fromkeys((3908, 3910, 3912, 4533, 4534, 4535), f"{{c}}::text !~ '{_ODD}|infinity'"),
}
"""By PostgreSQL's number of a type that has values that asyncpg cannot read, or reads as others: whether it can."""

SPELLED: Mapping[int, str] = {
    **dict.fromkeys(READABLE, "{c}::text"),
    **dict.fromkeys((1182, 1115, 1185, 1183, 1270, 1187), "to_json({c})::text"),
    1082: _ISO,
    1114: _ISO,
    1184: f"CASE WHEN isfinite({{c}}) THEN {_ZONED_ISO} ELSE {{c}}::text END",
    1186: (
        f"CASE WHEN NOT isfinite({{c}}) THEN {{c}}::text ELSE 'P' || {_PARTS} || "
        "rtrim(rtrim(extract(second FROM {c})::numeric(20, 6)::text, '0'), '.') || 'S' END"
    ),
}
"""By the same number: its text, where it cannot."""

_DAY_TEXT = f"CASE WHEN {_DATE} THEN {{c}}::text ELSE {_ISO} END"
_MOMENT_TEXT = f"CASE WHEN {_MOMENT} THEN replace({{c}}::text, ' ', 'T') ELSE {_ISO} END"
_INSTANT_TEXT = (
    f"CASE WHEN {_INSTANT} THEN replace(({{c}} AT TIME ZONE 'UTC')::text, ' ', 'T') || '+00:00'"
    f" ELSE {SPELLED[1184]} END"
)
# Where the session's dates are not ISO, the text takes longer.
_ELSEWHERE = {_DAY_TEXT: _ISO, _MOMENT_TEXT: _ISO, _INSTANT_TEXT: SPELLED[1184]}

_MICROSECONDS = "(extract(epoch FROM {c}) * 1000000)::bigint"
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
    **{("float", oid): _FLOAT for oid in (701, _DECIMAL)},
    ("float", 700): _TEXT,
    ("decimal", _DECIMAL): _AS_IT_IS,
    ("boolean", 16): _TEXT,
    ("date", 1082): _DAY_TEXT,
    ("datetime", 1114): _MOMENT_TEXT,
    ("datetime", 1184): _INSTANT_TEXT,
    ("time", 1083): _TEXT,
    ("interval", 1186): f"CASE WHEN {_WITHOUT_MONTHS} THEN {_DURATION} ELSE {SPELLED[1186]} END",
    ("uuid", 2950): _AS_IT_IS,
    ("base64", 17): _BASE64,
    ("json", 114): _JSON,
    ("json", 3802): _JSON,
    # One-dimensional or not: int2, int4, int8, text, varchar, bool, date.
    **{("array", oid): _ARRAY for oid in (1005, 1007, 1016, 1009, 1015, 1000, 1182)},
    # A column of no declared type has the driver's own objects.
    **{("any", oid): _AS_IT_IS for oid in (*_INTEGERS, *_TEXTS, 701, _DECIMAL)},
    ("any", 700): _TEXT,
    ("any", 16): _TEXT,
}

_ARROW: Mapping[tuple[str, int], str] = {
    **{key: written for key, written in _CSV.items() if key[0] not in {"any", "interval"}},
    ("interval", 1186): f"CASE WHEN {_WITHOUT_MONTHS} THEN {_MICROSECONDS}::text ELSE {{c}}::text END",
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
        return found if self.date_style.startswith("ISO") else _ELSEWHERE.get(found or "", found)


def _found(
    table: Mapping[tuple[str, int], str], column: ResultColumn, type_: Any, dialect: Dialect
) -> str | None:
    encoding = column.encoding
    if not is_sqlalchemys_own(column.type, dialect) or (
        encoding == "json" and reads_for_an_application(dialect)
    ):
        return None
    if isinstance(column.type, types.Enum) and type_.oid >= _BUILT_IN and type_.kind == "scalar":
        return _TEXT
    return table.get((encoding, type_.oid))
