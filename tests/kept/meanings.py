"""Texts that use each entry of the tables of `dualsql.kept.translation`, over values that tell databases apart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import product
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    MetaData,
    Numeric,
    SmallInteger,
    String,
    Table,
)

from dualsql.kept.translation.aggregates import AGGREGATES, NUMBERS, RANKS
from dualsql.kept.translation.casts import CASTS
from dualsql.kept.translation.functions import FUNCTIONS, PARTS
from dualsql.kept.translation.operators import LIKE, OPERATORS

metadata = MetaData()
values = Table(
    "hostile",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("i", Integer),
    Column("b", BigInteger),
    Column("r", Double),
    Column("n", Numeric(12, 2)),
    Column("t", String(60)),
    Column("f", Boolean),
    Column("d", Date),
    Column("ts", DateTime),
    Column("s", SmallInteger),
    Column("k", Double),
    Column("m", Numeric(20, 6)),
)
_DAYS = (dt.date(2024, 2, 29), dt.date(2023, 12, 31), None, dt.date(1999, 1, 1), dt.date(2024, 1, 7))
_WHOLE = (7, -7, 0, None, 2, 3, -1, 2**31 - 1, 1, 12)
_LARGE = (2**53 + 1, -(2**63), 2**63 - 1, None, 0, 5, -5, 2**53, 10, 3)
_REAL = (2.5, -2.5, 0.5, None, 0.0, 2.675, 1e300, -1.25, 3.0, 0.125, 33.333333, 1.005)
_EXACT = ("2.50", "-2.50", "0.00", None, "1.25", "100.00", "0.01", "33.33", "7.00")
_TEXT = (
    "Apple", "apple", "APPLE", "ÉCLAIR", "éclair", "100%", "a_b", "ab", "", None, " pad ", "pad", "pad ", "12abc", "42",
    "3.5", "-7", "\U0001f600x", "2024-02-29", "2024-01-07 10:20:30", "Straße", "zebra", "_", "B", "a\\b", "x'y",
)  # fmt: skip


def _at(given: tuple[Any, ...], number: int) -> Any:
    return given[number % len(given)]


ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "i": _at(_WHOLE, number),
        "b": _at(_LARGE, number),
        "r": _at(_REAL, number),
        "n": None if _at(_EXACT, number) is None else Decimal(_at(_EXACT, number)),
        "t": _at(_TEXT, number),
        "f": _at((True, False, None), number),
        "d": _at(_DAYS, number),
        "ts": None
        if _at(_DAYS, number + 1) is None
        else dt.datetime.combine(_at(_DAYS, number + 1), dt.time(number % 24, 59, 58)),
        "s": _at((7, -32768, None, 3), number),
        "k": 0.1,
        "m": Decimal(_at(("2.500000", "0.000001", "-0.010000"), number)),
    }
    for number in range(1, 61)
]

Texts = Iterator[tuple[str, str]]
"""The entry that a text is for, and an expression."""

_EXPRESSIONS: Mapping[str, Mapping[str, list[str]]] = {
    "sqlite": {
        "integer": ["i", "b", "3"],
        "real": ["r", "2.5"],
        "numeric": ["n"],
        "text": ["t", "'apple'"],
        "boolean": ["(i > 1)"],
        "flag": ["f"],
        "date": ["d"],
        "datetime": ["ts"],
        "null": ["NULL"],
    },
    "postgresql": {
        "integer": ["i", "b", "3"],
        "real": ["r"],
        "decimal": ["n", "2.50"],
        "quotient": ["(n / 3)", "(100.0 * i / 7)"],
        "text": ["t", "'apple'"],
        "boolean": ["f", "(i > 1)"],
        "date": ["d"],
        "datetime": ["ts"],
        "span": ["INTERVAL '1 month'"],
    },
    "mariadb": {
        "integer": ["i", "b", "3"],
        "real": ["r"],
        "decimal": ["n", "2.50"],
        "text": ["t"],
        "boolean": ["(i > 1)"],
        "date": ["d"],
        "datetime": ["ts"],
    },
}
_SAME = {"sqlite": "IS", "postgresql": "IS NOT DISTINCT FROM", "mariadb": "<=>"}
_OTHER = {"sqlite": "IS NOT", "postgresql": "IS DISTINCT FROM"}


def operators(dialect: str) -> Texts:
    """Each operator between each two kinds of operands."""
    known = _EXPRESSIONS[dialect]
    for word, left, right in OPERATORS[dialect]:
        written = {"is": _SAME[dialect], "is not": _OTHER.get(dialect, ""), "%": "%"}.get(word, word)
        for one, other in product(known.get(left, ()), known.get(right, ())) if written else ():
            yield f"{left} {word} {right}", f"{one} {written} {other}"
    yield "negative", "-i"
    yield "negative", "-b"
    for nested in (
        "(i + 2) * 3", "-(i - 1)", "2 - (i - 1)", "(i % 5) * 2", "(r - 1.5) * (r + 1.5)", "i - (r - 1)", "-(-r)",
        "CASE WHEN NOT (i > 1 OR i IS NULL) AND r > 0 THEN 1 END", "CASE WHEN NOT i > 1 THEN 1 END",
        "CASE WHEN (i > 1) = (r > 1) THEN 1 END", "CASE WHEN NOT (NOT i > 1 AND NOT r > 1) THEN 1 END",
        "CASE WHEN b + 1 > 5 THEN 1 END", "CASE WHEN -b <> 0 THEN 1 END", "CASE WHEN 5 - b > 3 THEN 1 END",
        "(i - 1) / 2 * 3", "12 / (i - 4) / 2", "r / (r - 0.5) / 2",
    ):  # fmt: skip
        yield "nested", nested
    yield "not", "CASE WHEN NOT (i > 1 AND r < 3) OR b IS NULL THEN 1 ELSE 2 END"
    yield "in", "CASE WHEN i IN (7, 2, 3) THEN 'a' WHEN i NOT IN (0, 1) THEN 'b' END"
    yield "between", "CASE WHEN i BETWEEN 0 AND 7 THEN 1 WHEN r NOT BETWEEN 0 AND 2 THEN 2 END"
    for pattern, (name, word) in product(
        ("'a%'", "'A_%'", "'%\\_%'", "'éc%'", "'%P%'", "'100!%'", "t", "''", "'%e'"), LIKE
    ):
        if name == dialect:
            yield word, f"CASE WHEN t {word.upper()} {pattern} THEN 1 ELSE 0 END"
            yield word, f"CASE WHEN t NOT {word.upper()} {pattern} ESCAPE '!' THEN 1 ELSE 0 END"


_TYPES: Mapping[str, Mapping[str, list[str]]] = {
    "sqlite": {
        "whole": ["INTEGER", "BIGINT"],
        "real": ["REAL", "FLOAT"],
        "exact": ["NUMERIC"],
        "text": ["TEXT"],
    },
    "postgresql": {
        "whole": ["INTEGER", "BIGINT", "SMALLINT"],
        "real": ["DOUBLE PRECISION"],
        "exact": ["NUMERIC", "NUMERIC(10, 1)", "NUMERIC(20, 4)"],
        "text": ["TEXT", "VARCHAR(3)"],
        "date": ["DATE"],
        "datetime": ["TIMESTAMP"],
        "truth": ["BOOLEAN"],
    },
    "mariadb": {"whole": ["SIGNED"], "real": ["DOUBLE", "FLOAT"], "date": ["DATE"], "datetime": ["DATETIME"]},
}


def casts(dialect: str) -> Texts:
    """Each CAST."""
    for kind, target in CASTS[dialect]:
        for value, written in product(_EXPRESSIONS[dialect].get(kind, ()), _TYPES[dialect].get(target, ())):
            yield f"CAST {kind} {target}", f"CAST({value} AS {written})"


_CALLS: Mapping[str, str] = {
    "abs": "abs(i); abs(b); abs(r); abs(n); abs(s); abs(-r * 0)",
    "btrim": "btrim(t); btrim(t, 'pa')",
    "ceil": "ceil(r); ceil(n)",
    "ceiling": "ceiling(r); ceiling(n)",
    "char_length": "char_length(t)",
    "character_length": "character_length(t)",
    "coalesce": "coalesce(i, b, 0); coalesce(t, 'none'); coalesce(r, 0.5); "
    "coalesce(n, 1.00); coalesce(d, d); coalesce(n, m); coalesce(n, n)",
    "concat": "concat(t, 'x', i); concat(t, NULL)",
    "concat_ws": "concat_ws('-', t, 'x', t)",
    "date": "date(d); date(ts); date(t)",
    "date_part": "date_part('year', d); date_part('dow', ts); date_part('week', d)",
    "date_trunc": "date_trunc('month', ts); date_trunc('week', ts); date_trunc('quarter', ts); date_trunc('hour', ts)",
    "datediff": "datediff(d, ts); datediff(ts, d)",
    "datetime": "datetime(ts); datetime(d); datetime(t)",
    "day": "day(d)",
    "dayofmonth": "dayofmonth(ts)",
    "dualsql_instant": "ts > '2023-01-01'; ts = '2024-01-07 10:59:58'",
    "floor": "floor(r); floor(n)",
    "greatest": "greatest(i, b, 3); greatest(r, 1.5); greatest(d, d)",
    "hour": "hour(ts)",
    "ifnull": "ifnull(i, 0); ifnull(t, 'none')",
    "instr": "instr(t, 'p'); instr(t, 'é')",
    "julianday": "julianday(ts); julianday(d); julianday(t); julianday(ts) - julianday(d)",
    "least": "least(i, b, 3); least(n, 1.50)",
    "left": "left(t, 2)",
    "length": "length(t); length('é'); length(i)",
    "likely": "likely(i)",
    "lower": "lower(t)",
    "ltrim": "ltrim(t); ltrim(t, 'a ')",
    "make_interval": "d + INTERVAL '1 month'; ts - INTERVAL '40 days'; "
    "d + INTERVAL '1 year 2 days'; d + INTERVAL '8000 years'",
    "max": "max(i, 3); max(r, 1.5); max(t, 'b'); max(i, b)",
    "min": "min(i, 3); min(r, 1.5); min(t, 'b'); min(d, d)",
    "minute": "minute(ts)",
    "mod": "mod(i, 3); mod(b, i); mod(i, -2)",
    "month": "month(d)",
    "nullif": "nullif(i, 7); nullif(t, 'apple'); nullif(r, 0.5)",
    "quarter": "quarter(d)",
    "replace": "replace(t, 'p', 'PP'); replace(t, 'é', '')",
    "right": "right(t, 2); right(t, 0)",
    "round": "round(r); round(r, 1); round(r, 2); round(i); round(n); "
    "round(n, 1); round(n / 3, 2); round(i, 1); round(-k); round(n, 5)",
    "rtrim": "rtrim(t); rtrim(t, 'd ')",
    "sign": "sign(i); sign(r)",
    "sqrt": "sqrt(r); sqrt(i)",
    "starts_with": "starts_with(t, 'a')",
    "strftime": "strftime('%Y-%m', d); strftime('%H:%M:%S', ts); strftime('%w %j', d); strftime('%d', t)",
    "strpos": "strpos(t, 'p')",
    "substr": "substr(t, 2); substr(t, 2, 3); substr(t, -2); substr(t, 0); substr(t, -1, 3); substr(i, 1, 1)",
    "substring": "substring(t, 2); substring(t, 1, 3); substring(t, 0, 2)",
    "time": "time(ts); time(t)",
    "to_char": "to_char(ts, 'YYYY-MM-DD HH24:MI:SS'); to_char(d, 'YYYY/MM')",
    "trim": "trim(t); trim(t, ' p')",
    "typeof": "typeof(i); typeof(r); typeof(t); typeof(i > 1); typeof(NULL); typeof(d)",
    "unixepoch": "unixepoch(ts); unixepoch(t)",
    "unlikely": "unlikely(t)",
    "upper": "upper(t)",
    "year": "year(d)",
}


def functions(dialect: str) -> Texts:
    """Each function; an entry without a call here is a KeyError."""
    for name in FUNCTIONS[dialect]:
        for call in _CALLS[name].split("; "):
            yield name, call
    for field, column in product(PARTS, ("d", "ts")) if dialect != "sqlite" else ():
        yield "extract", f"EXTRACT({field} FROM {column})"


def expressions(dialect: str) -> Texts:
    """Of one row."""
    yield from operators(dialect)
    yield from casts(dialect)
    yield from functions(dialect)


def statements(dialect: str) -> Texts:
    """Of several rows: aggregates, groups, orders, windows, subqueries."""
    known = _EXPRESSIONS[dialect]
    for name, kind in AGGREGATES[dialect]:
        for value in known.get(kind, ()):
            yield f"{name} {kind}", f"SELECT {name}({value}) AS x FROM data"
            yield f"{name} {kind}", f"SELECT {name}({value}) AS x FROM data WHERE id < 0"
            yield (
                f"{name} {kind}",
                f"SELECT i, {name}({value}) AS x, count(*) AS n FROM data GROUP BY i ORDER BY i",
            )
            yield f"{name} {kind}", f"SELECT f, {name}(DISTINCT {value}) AS x FROM data GROUP BY f ORDER BY f"
            yield (
                f"{name} {kind}",
                f"SELECT id, {name}({value}) OVER (PARTITION BY i) AS x FROM data ORDER BY id",
            )
    for column in values.c:
        name = column.name
        yield f"order {name}", f"SELECT id, {name} FROM data ORDER BY {name}, id LIMIT 15"
        yield f"order {name}", f"SELECT id, {name} FROM data ORDER BY {name} DESC, id LIMIT 15"
        yield (
            f"group {name}",
            f"SELECT {name}, count(*) AS n FROM data GROUP BY {name} ORDER BY n DESC LIMIT 4",
        )
        yield f"group {name}", f"SELECT DISTINCT {name} FROM data"
        yield f"count {name}", f"SELECT count({name}) AS n, count(DISTINCT {name}) AS m FROM data"
        yield f"null {name}", f"SELECT id FROM data WHERE {name} IS NULL ORDER BY id"
    for name in (*RANKS[dialect], *NUMBERS):
        yield (
            name,
            f"SELECT id, {name}() OVER (PARTITION BY f ORDER BY i DESC, id) AS x FROM data ORDER BY id",
        )
        order = "i, id" if name == "row_number" else "i"  # equal rows have no order
        yield name, f"SELECT id, {name}() OVER (ORDER BY {order}) AS x FROM data ORDER BY id"
    yield "subquery", "SELECT id FROM data WHERE i = (SELECT max(i) FROM data WHERE i < 12) ORDER BY id"
    yield "subquery", "SELECT id FROM data WHERE i IN (SELECT i FROM data WHERE r > 2) ORDER BY id"
    yield (
        "subquery",
        "SELECT id FROM data AS a WHERE EXISTS (SELECT 1 FROM data AS b WHERE b.i = a.i AND b.id < a.id)",
    )
    yield "join", "SELECT a.id, b.id AS other FROM data AS a JOIN data AS b ON a.i = b.b ORDER BY a.id, b.id"
    yield "join", "SELECT a.id, b.i FROM data AS a LEFT JOIN data AS b ON a.id = b.i ORDER BY a.id, b.id"
    yield (
        "with",
        "WITH q AS (SELECT i, count(*) AS n FROM data GROUP BY i) SELECT i, n FROM q WHERE n > 5 ORDER BY i",
    )
    yield "union", "SELECT i FROM data UNION SELECT id FROM data"
    yield (
        "having",
        "SELECT i, sum(r) AS s FROM data WHERE r < 10 GROUP BY i HAVING count(*) > 2 AND sum(r) > 1 ORDER BY i",
    )
    # What some databases refuse, and what DuckDB adds in another order.
    for window in ("count(DISTINCT i)", "rank()", "cume_dist()", "sum(k)", "avg(k)"):
        for over in ("", "PARTITION BY f", "ORDER BY id"):
            yield "window", f"SELECT id, {window} OVER ({over}) AS x FROM data ORDER BY id"
    yield "sum", "SELECT sum(k) AS x, avg(k) AS mean, sum(DISTINCT r) AS y FROM data WHERE r < 10"
    yield "sum", "SELECT f, sum(k) AS x, avg(k * 3) AS mean FROM data GROUP BY f ORDER BY f"
    # MariaDB's drivers write these constants as a whole number, a double and a text.
    yield "constant", "SELECT max(3e0) AS x, max(1e-7) AS y FROM data"
    if dialect != "sqlite":
        moment = "TIMESTAMP" if dialect == "postgresql" else "DATETIME"
        yield "constant", f"SELECT id, CAST('2024-02-29' AS {moment}) AS x FROM data ORDER BY id"
    # With compensation for what is rounded off, as SQLite has it from 3.43 on, the sum of ten is 1.0.
    yield "sum", "SELECT sum(0.1) AS x, avg(0.1) AS mean FROM data WHERE id <= 10"
    share = "100.0 * sum(CASE WHEN i > 1 THEN 1 ELSE 0 END) / count(*)"
    yield "percent", f"SELECT d, {share} AS x FROM data GROUP BY d ORDER BY d"
    yield "percent", f"SELECT d, round({share}, 2) AS x FROM data GROUP BY d ORDER BY d"
    yield "average", "SELECT d, round(avg(i), 2) AS x FROM data WHERE i < 100 GROUP BY d ORDER BY d"
