"""A row value is compared with others; elsewhere a text is refused by name, unless the database has rows there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from dualsql import DualResponseServer
from dualsql.errors import ForbiddenSQLError, InvalidSQLError
from dualsql.freeze import Registry, freeze, thaw
from dualsql.sql import read_select
from tests.engines import opened
from tests.sql.test_hints import NUMBERS, numbers

__all__ = ["numbers"]

metadata = MetaData()
Table("t", metadata, Column("a", Integer, primary_key=True), Column("b", String))
REGISTRY = Registry([metadata])

COMPARED = [
    "SELECT a FROM t WHERE (a, b) = (1, 'x')",
    "SELECT a FROM t WHERE (a, b) IN ((1, 'x'), (2, 'y'))",
    "SELECT a FROM t WHERE (a, b) IN (SELECT a, b FROM t)",
    "SELECT a FROM t WHERE (a, b) < (1, 'x')",
]
SELECTED = [
    "SELECT (1, 2)",
    "SELECT ((1, 2)) AS x",
    "SELECT DISTINCT (a, b) FROM t",
    "SELECT CASE WHEN a = 1 THEN (1, 2) END FROM t",
    "SELECT x FROM (SELECT (1, 2) AS x) AS q",
    "WITH q AS (SELECT (a, b) AS x FROM t) SELECT * FROM q",
    "SELECT coalesce((a, b), (a, b)) FROM t",
    "SELECT nullif((1, 2), (1, 2))",
    "SELECT max((1, 2))",
    "SELECT first_value((a, b)) OVER (ORDER BY a) FROM t",
    "SELECT (SELECT (1, 2))",
    "SELECT (1, 2) UNION SELECT (3, 4)",
    "SELECT a FROM t WHERE EXISTS (SELECT (1, 2))",
]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql", "duckdb"])
def test_a_row_is_compared_and_never_one_column(dialect: str) -> None:
    for text in COMPARED:
        thaw(freeze(read_select(text, REGISTRY, dialect), REGISTRY), REGISTRY)
    for text in SELECTED:
        with pytest.raises(ForbiddenSQLError):
            read_select(text, REGISTRY, dialect)


ROW, OTHER = "(id, word)", "(2, '12')"
COMPARISONS = (
    *(f"{ROW} {operator} {OTHER}" for operator in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
    f"(({ROW})) = ({OTHER})",
    f"({ROW}, id) = ({OTHER}, 2)",
    f"NOT ({ROW} = {OTHER})",
    f"({ROW} = {OTHER}) AND ({ROW} < {OTHER} OR id = 1)",
    f"{ROW} IN ({OTHER})",
    f"{ROW} NOT IN ({OTHER}, {ROW})",
    f"{OTHER} IN ({ROW}, (1, 'x'))",
    f"{ROW} IN (SELECT id, word FROM numbers)",
    f"{ROW} IN (VALUES {OTHER})",
    f"{ROW} IN (VALUES {OTHER}, (1, 'x'))",
    f"{ROW} BETWEEN (1, 'a') AND {OTHER}",
    f"{ROW} IS NOT DISTINCT FROM {OTHER}",
    f"{ROW} IS DISTINCT FROM {OTHER}",
    f"CASE {ROW} WHEN {OTHER} THEN 1 ELSE 0 END = 1",
    f"CASE WHEN {ROW} = {OTHER} THEN 1 ELSE 0 END = 1",
    "EXISTS (SELECT 1 FROM numbers AS n WHERE (n.id, n.word) = (numbers.id, numbers.word))",
)
WRITTEN_OTHERWISE = ("<=>", "DISTINCT FROM", "BETWEEN", "CASE (", f"({ROW}, id)")
"""Comparisons that dualsql writes for databases that lack them, or have them under another name."""

ALONE = (
    *(
        "{}",
        "NOT {}",
        "{} AND id = 1",
        "id = 1 OR {}",
        "{} IS NULL",
        "{} IS NOT NULL",
        "{} IS TRUE",
        "{} LIKE 'x'",
    ),
    *(
        "id = {}",
        "{} = 1",
        "{} < NULL",
        "id IN ({})",
        "id IN (1, {})",
        "{} IN (1, 2)",
        "id BETWEEN {} AND {}",
    ),
    *("(id, {}) = (1, 2)", "({}, 1) IN ((1, 2))", "{} = (SELECT id FROM numbers)"),
)
VALUES = (
    *("count({})", "count(DISTINCT {})", "max({})", "length({})", "abs({})", "concat({}, 'x')", "upper({})"),
    *(
        "CAST({} AS CHAR(9))",
        "CASE WHEN {} THEN 1 END",
        "CASE WHEN id = 1 THEN {} END IS NULL",
        "-{}",
        "{} + 1",
    ),
    *("{} || 'x'", "coalesce({}, {}) = {}", "nullif({}, {}) IS NULL", "lag({}) OVER (ORDER BY id) IS NULL"),
    *("row_number() OVER (PARTITION BY {})", "row_number() OVER (ORDER BY {})", "sum(id) FILTER (WHERE {})"),
    *("extract(year FROM {})", "substr(word, {})", "CASE {} WHEN 1 THEN 2 END", "CASE id WHEN {} THEN 2 END"),
)
PLACES = (
    *(f"SELECT id FROM numbers WHERE {one}" for one in ALONE),
    *(f"SELECT {one} AS x FROM numbers" for one in (*ALONE, *VALUES)),
    *(f"SELECT id FROM numbers ORDER BY {one}" for one in ("{}", "{} DESC", "({})", "id, {}", *VALUES)),
    *(f"SELECT count(*) AS n FROM numbers GROUP BY {one}" for one in ("{}", "({})", "id, {}", "ROLLUP ({})")),
    "SELECT count(*) AS n FROM numbers GROUP BY id, word HAVING {}",
    "SELECT a.id FROM numbers AS a JOIN (SELECT 1 AS x) AS b ON {}",
    "SELECT * FROM (VALUES ({})) AS v",
    "SELECT * FROM (VALUES ({}, 3)) AS v",
    "SELECT id FROM numbers LIMIT {}",
    "SELECT DISTINCT ON {} id FROM numbers",
)
STRICT = frozenset({"sqlite", "mysql"})
"""They have rows in comparisons only."""


def compared() -> Iterator[str]:
    for one in COMPARISONS:
        yield f"SELECT id FROM numbers WHERE {one}"
        yield f"SELECT {one} AS x FROM numbers"
        yield f"SELECT id FROM numbers ORDER BY {one}, id"


async def accepted(url: str, texts: list[str]) -> set[str]:
    """The texts that the database itself runs."""
    if make_url(url).get_backend_name() == "duckdb":
        engine = create_engine(url)
        ran = set()
        for text in texts:
            try:
                with engine.connect() as connection:
                    connection.exec_driver_sql(text).fetchall()
                ran.add(text)
            except DBAPIError:
                continue
        engine.dispose()
        return ran
    ran = set()
    async with opened(url) as database:
        for text in texts:
            try:
                async with database.connect() as connection:
                    (await connection.exec_driver_sql(text)).fetchall()
                ran.add(text)
            except DBAPIError:
                continue
    return ran


@pytest.mark.quick(1, "sqlite")
async def test_a_row_value_runs_or_is_refused_by_name(numbers: str) -> None:
    """The database's own failure would be a 502 with an ERROR in the log."""
    kind = make_url(numbers).get_backend_name()
    comparisons = list(compared())
    others = [place.replace("{}", ROW) for place in PLACES]
    ran = await accepted(numbers, [*comparisons, *others])
    wrong = []
    async with DualResponseServer(
        numbers, base_url="http://127.0.0.1/resources", tables=NUMBERS.metadata
    ) as dual:
        for text in [*comparisons, *others]:
            is_comparison = text in comparisons
            try:
                await dual.create_response(dual.sql.resolve(text).select, name="x", is_text=True)
            except (ForbiddenSQLError, InvalidSQLError) as refusal:
                if is_comparison and text in ran:
                    wrong.append(f"{text}: {refusal}")
            except Exception as failure:  # noqa: BLE001
                wrong.append(f"{text}: {failure!r}")
            else:
                is_ours = is_comparison and any(each in text for each in WRITTEN_OTHERWISE)
                if kind in STRICT and text not in ran and not is_ours:
                    wrong.append(f"{text}: the database refuses it")
    assert wrong == []
    assert len(ran.intersection(comparisons)) > len(comparisons) / 2
