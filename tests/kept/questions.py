"""Structured questions, orders, profiles and charts of columns of every type, over values that tell databases apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Enum,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Time,
    Uuid,
    types,
)
from sqlalchemy.dialects import mysql, postgresql as pg

from dualsql.query.aggregates import AGGREGATES
from dualsql.query.model import BUCKETS, OPERATORS


class Hostile(NamedTuple):
    """A column: its type in SQL and in SQLAlchemy, and its values in SQL."""

    name: str
    sql_type: str
    type: Any
    values: Sequence[str]


_TEXTS = (
    "'Apple'", "'apple'", "'APPLE'", "'apple '", "'ÉCLAIR'", "'éclair'", "'eclair'", "NULL", "''", "' '",
    "'a_b'", "'100%'",
    "'Straße'", "'STRASSE'", "'STRAẞE'", "'İSTANBUL'", "'istanbul'", "'ΑΣ'", "'ας'", "'e\u0301'", "'E\u0301'",
    "'10'", "'9'", "'zebra'", "'Zebra'", "'_'", "'😀'", "'\ufffd'",
)  # fmt: skip
_WHOLE = ("7", "-7", "0", "NULL", "2", "3", "-1", "2147483647", "-2147483648", "7")
_LARGE = "9007199254740993 9007199254740992 -9223372036854775808 9223372036854775807 NULL 0 5 -5".split()
_REAL = "2.5 -2.5 0.5 NULL -0.5 0.0 -0.0 2.675 1e300 1e-300 0.1 0.30000000000000004 3.0".split()
_EXACT = "2.50 -2.50 0.00 NULL 1.25 100.00 0.01 33.33 -0.05 0.05 9999999999.99".split()
_DAYS = "'2024-02-29' '2023-12-31' NULL '1999-01-01' '2024-01-07' '2024-01-08' '1899-12-31'".split()
_INSTANTS = (
    "'2024-02-29 12:30:00.5'", "'2023-12-31 23:59:59.999999'", "NULL", "'1999-01-01 00:00:00'", "'2024-01-07 00:00:00'",
    "'2024-01-08 00:00:00.000001'", "'1899-12-31 23:00:00'",
)  # fmt: skip
_ZONED = (
    "'2024-03-31 01:30:00+01'", "'2024-03-31 02:30:00+02'", "'2024-03-31 00:30:00+00'", "NULL",
    "'2023-12-31 23:59:59-08'",
    "'2024-01-01 00:00:00+14'", "'1999-06-01 00:00:00+02'",
)  # fmt: skip
_HOURS = ("'12:30:00.500000'", "'00:00:00'", "NULL", "'23:59:59.999999'", "'00:00:00.000001'")
_FLAGS = ("true", "false", "NULL")
_IDS = (
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "'00000000-0000-0000-0000-000000000001'",
    "NULL",
    "'ffffffff-0000-0000-0000-000000000000'",
)
_DOCUMENTS = ("'{\"a\": [1, 2.5]}'", "'{\"b\": null}'", "NULL", "'[]'", "'\"text\"'")
_LETTERS = ("'beta'", "'Alpha'", "NULL", "'gamma'")
_ENUM = Enum("beta", "Alpha", "gamma", name="letter")

_COMMON = (
    Hostile("i", "INTEGER", Integer(), _WHOLE),
    Hostile("b", "BIGINT", BigInteger(), _LARGE),
    Hostile("n", "NUMERIC(12,2)", Numeric(12, 2), _EXACT),
    Hostile("f", "BOOLEAN", Boolean(), _FLAGS),
    Hostile("t", "VARCHAR(40)", String(40), _TEXTS),
    Hostile("d", "DATE", Date(), _DAYS),
    Hostile("h", "TIME", Time(), _HOURS),
)
_UNHYPHENED = tuple(each.replace("-", "") for each in _IDS)
HOSTILE: Mapping[str, Sequence[Hostile]] = {
    "sqlite": (
        *_COMMON,
        Hostile("r", "REAL", Double(), _REAL),
        Hostile("ci", "VARCHAR(40) COLLATE NOCASE", String(40, collation="NOCASE"), _TEXTS),
        Hostile("ts", "DATETIME", DateTime(), _INSTANTS),
        Hostile("x", "BLOB", LargeBinary(), ("x'00ff'", "x''", "NULL", "x'ff'", "x'61'")),
        Hostile("j", "JSON", JSON(), _DOCUMENTS),
        Hostile("u", "CHAR(32)", Uuid(), _UNHYPHENED),
        Hostile("e", "VARCHAR(8)", _ENUM, _LETTERS),
        Hostile("nn", "NUMERIC", Numeric(asdecimal=False), ("1.5", "-0.5", "NULL", "1e-12", "21.989")),
    ),
    "postgresql": (
        *_COMMON,
        Hostile("r", "DOUBLE PRECISION", Double(), (*_REAL, "'NaN'", "'Infinity'", "'-Infinity'")),
        Hostile("g", "REAL", types.REAL(), ("0.1", "0.2", "NULL", "-0.5", "16777216", "'NaN'", "3.4e38")),
        Hostile("s", "SMALLINT", types.SmallInteger(), ("7", "-7", "NULL", "32767")),
        Hostile("q", "NUMERIC", Numeric(), ("1.50", "1.500", "1e-20", "NULL", "-0.5", "1e30")),
        Hostile("ts", "TIMESTAMP", DateTime(), _INSTANTS),
        Hostile("tz", "TIMESTAMPTZ", DateTime(timezone=True), _ZONED),
        Hostile("v", "INTERVAL", Interval(), ("'1 day 02:03:04.5'", "'26:03:04.5'", "NULL", "'-1 day'", "'0'")),
        Hostile("x", "BYTEA", LargeBinary(), ("'\\x00ff'", "'\\x'", "NULL", "'\\xff'", "'\\x61'")),
        Hostile("j", "JSONB", pg.JSONB(), _DOCUMENTS),
        Hostile("u", "UUID", Uuid(), _IDS),
        Hostile("m", "MONEY", pg.MONEY(), ("'1234.5'", "'-0.01'", "NULL", "'9.00'")),
        Hostile("a", "INTEGER[]", pg.ARRAY(Integer), ("'{1,2}'", "'{}'", "NULL", "'{2,1}'")),
        Hostile("cc", 'VARCHAR(40) COLLATE "C"', String(40, collation="C"), _TEXTS),
        Hostile("cp", "CHAR(8)", types.CHAR(8), ("'ab'", "'AB'", "NULL", "'a'", "'a b'")),
    ),
    "mariadb": (
        *_COMMON,
        Hostile("r", "DOUBLE", Double(), _REAL),
        Hostile("g", "FLOAT", mysql.FLOAT(), ("0.1", "0.2", "NULL", "-0.5", "16777216", "3.4e38")),
        Hostile("ts", "DATETIME(6)", DateTime(), _INSTANTS),
        Hostile("x", "BLOB", LargeBinary(), ("x'00ff'", "x''", "NULL", "x'ff'", "x'61'")),
        Hostile("j", "JSON", JSON(), _DOCUMENTS),
        Hostile("u", "CHAR(32)", Uuid(native_uuid=False), _UNHYPHENED),
        Hostile("e", "ENUM('beta','Alpha','gamma')", _ENUM, _LETTERS),
        Hostile("tb", "VARCHAR(40) COLLATE utf8mb4_bin", String(40, collation="utf8mb4_bin"), _TEXTS),
    ),
    "duckdb": (
        *_COMMON,
        Hostile("r", "DOUBLE", Double(), (*_REAL, "'NaN'", "'Infinity'", "'-Infinity'")),
        Hostile("ts", "TIMESTAMP", DateTime(), _INSTANTS),
        Hostile("tz", "TIMESTAMPTZ", DateTime(timezone=True), _ZONED),
        Hostile("v", "INTERVAL", Interval(), ("INTERVAL '1 day 02:03:04.5'", "NULL", "INTERVAL '-1 day'")),
        Hostile("x", "BLOB", LargeBinary(), ("'\\x00\\xff'", "''", "NULL", "'\\xff'")),
        Hostile("j", "JSON", JSON(), _DOCUMENTS),
        Hostile("u", "UUID", Uuid(), _IDS),
        Hostile("e", "ENUM('beta', 'Alpha', 'gamma')", _ENUM, _LETTERS),
    ),
}  # fmt: skip
ROWS = 42
"""Each column repeats its values: rows tie, and two columns meet in many pairs."""


def declared(engine: str) -> Table:
    """The table of an engine."""
    columns = [Column(each.name, each.type) for each in HOSTILE[engine]]
    return Table(
        "hostile", MetaData(), Column("id", Integer, primary_key=True, autoincrement=False), *columns
    )


def statements(engine: str) -> Iterator[str]:
    """What makes and fills the table."""
    kinds = HOSTILE[engine]
    typed = ", ".join(f"{each.name} {each.sql_type}" for each in kinds)
    yield f"CREATE TABLE hostile (id INTEGER PRIMARY KEY, {typed})"
    for number in range(1, ROWS + 1):
        row = ", ".join(each.values[number % len(each.values)] for each in kinds)
        yield f"INSERT INTO hostile VALUES ({number}, {row})".replace("%", "%%")


Question = Mapping[str, Any]
_FURTHER: Mapping[type, Sequence[Any]] = {
    str: ("APPLE", "apple ", "a", "", "É", "2024-01-08", "2024-02-29T12:30:00Z"),
    int: (1.5, -1, 2**40),
    float: (0, 0.30000000000000004, -1),
}


def filters(shown: Sequence[Mapping[str, Any]], column: str) -> Iterator[Question]:
    """Each operator with each value that is shown, and some others of its kind."""
    values = [row[column] for row in shown if row[column] is not None]
    values = list({repr(value): value for value in values}.values())
    values += _FURTHER.get(type(values[0]), ()) if values else ()
    for operator in OPERATORS.values():
        if operator.takes == "flag":
            given: list[Any] = [True, False]
        elif operator.takes == "one":
            given = values
        else:
            given = [[one, other] for one, other in pairwise(values)]
        for value, negated in product(given, (False, True)):
            part: Any = {"column": column, "op": operator.name, "value": value}
            yield {"filters": [{"not": part} if negated else part], "columns": ["id", column]}


def orders(column: str) -> Iterator[Question]:
    """Both directions, of rows and of groups."""
    for order in ("asc", "desc"):
        key = {"column": column, "order": order}
        yield {"order_by": [key], "columns": ["id", column]}
        yield {"order_by": [key, {"column": "id", "order": "desc"}], "columns": ["id"]}
        yield {"group_by": [column], "aggregates": ["count"], "order_by": [key]}
        yield {"group_by": [column], "order_by": [key]}


def aggregates(column: str, others: Sequence[str]) -> Iterator[Question]:
    """Each aggregate, of all rows, of none, and of groups."""
    for name, known in AGGREGATES.items():
        for fraction in (0, 0.25, 0.9) if known.takes_fraction else (None,):
            one: Any = {"function": name, "column": column, "as": "x"}
            one |= {} if fraction is None else {"fraction": fraction}
            yield {"aggregates": [one]}
            yield {"aggregates": [one], "filters": [{"column": "id", "op": "lt", "value": 0}]}
            for other in others:
                yield {"group_by": [other], "aggregates": [one, "count"]}
            yield {
                "group_by": [others[0]],
                "aggregates": [one],
                "having": [{"column": "x", "op": "is_null", "value": False}],
                "order_by": [{"column": "x", "order": "desc"}],
            }


def groups(column: str) -> Iterator[Question]:
    """As it is, and in each bucket."""
    yield {"group_by": [column], "aggregates": ["count"]}
    yield {"group_by": [column, "f"], "aggregates": ["count", {"function": "sum", "column": "i"}]}
    for bucket in BUCKETS:
        yield {"group_by": [{"column": column, "bucket": bucket}], "aggregates": ["count"]}


def questions(shown: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[tuple[str, Question]]:
    """All structured questions, each with what it is about."""
    for column in names:
        for about, made in (
            ("filter", filters(shown, column)),
            ("order", orders(column)),
            ("aggregate", aggregates(column, ["f", "i"] if column != "f" else ["i", "d"])),
            ("group", groups(column)),
        ):
            for each in made:
                yield f"{about} {column}", each


def charts(names: Sequence[str]) -> Iterator[Question]:
    """Each mark over each column."""
    for column in names:
        yield {"mark": "bar", "x": column, "y": {"aggregate": "count"}}
        yield {"mark": "bar", "x": column, "y": {"aggregate": "sum", "field": "n"}, "sort": "-y"}
        yield {
            "mark": "line",
            "x": {"field": column, "bucket": "month"},
            "y": {"aggregate": "avg", "field": "i"},
        }
        yield {"mark": "point", "x": column, "y": "i", "color": "f"}
        yield {"mark": "histogram", "x": column}
