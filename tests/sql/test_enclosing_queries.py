"""Texts answer as PostgreSQL answers them: subqueries without a FROM, merged columns, constants of a column's type."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from sqlalchemy import ARRAY, REAL, Column, Integer, LargeBinary, MetaData, String, Table, insert, text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import ForbiddenSQLError, InvalidSQLError, Registry
from dualsql.sql import read_select
from tests import engines
from tests.http.application import Application, running

METADATA = MetaData()
ONE, TWO, THREE = (
    Table(
        name,
        METADATA,
        Column("k", Integer, primary_key=True),
        Column("a", Integer),
        Column("b", Integer),
        Column("s", String(9)),
        Column("ratio", REAL),
        Column("raw", LargeBinary),
        Column("items", ARRAY(Integer)),
    )
    for name in ("one", "two", "three")
)


class Served(NamedTuple):
    """The rows of a text, directly and as a stored result."""

    engine: AsyncEngine
    registry: Registry
    application: Application

    async def direct(self, sql: str) -> list[tuple[Any, ...]]:
        async with self.engine.connect() as connection:
            return [tuple(row) for row in await connection.execute(text(sql.replace(":", "\\:")))]

    async def stored(self, sql: str) -> list[tuple[Any, ...]]:
        select = read_select(sql, self.registry, "postgresql")
        path = await self.application.create(select)
        page = (await self.application.http.get(path, params={"limit": 1000})).json()
        return [tuple(row.values()) for row in page["data"]]


@pytest.fixture(scope="module")
async def served(anyio_backend: str, postgresql_server: engines.PostgreSQL) -> AsyncIterator[Served]:
    """No test here writes."""
    with postgresql_server.database() as url:
        async with engines.opened(url) as engine:
            async with engine.begin() as connection:
                await connection.run_sync(METADATA.create_all)
                for step, table in enumerate((ONE, TWO, THREE), start=1):
                    rows = [
                        {"k": k, "a": k * step, "b": k % 4, "s": f"s{k}", "ratio": k + 0.3, "raw": bytes([k])}
                        for k in range(1, 8)
                    ]
                    await connection.execute(insert(table), [{**row, "items": [row["k"], 2]} for row in rows])
            async with running(engine, tables=METADATA) as application:
                yield Served(engine, Registry(METADATA), application)


EQUAL = (
    # A subquery that reads nothing but the enclosing query.
    "SELECT x.k, l.v FROM one x, LATERAL (SELECT x.a AS v) l",
    "SELECT x.k, l.v FROM one x CROSS JOIN LATERAL (SELECT x.a UNION ALL SELECT x.b) l(v)",
    "SELECT x.k, l.v FROM one x LEFT JOIN LATERAL (SELECT x.a AS v) l ON true",
    "SELECT x.k, v.p FROM one x LEFT JOIN two y ON x.b = y.a, LATERAL (SELECT x.a, y.a, y.b) v(p, q, r)",
    "SELECT x.k, (SELECT x.a UNION ALL SELECT x.b LIMIT 1) FROM one x",
    "SELECT x.k, EXISTS (SELECT x.a INTERSECT SELECT y.b FROM two y) FROM one x",
    "SELECT k FROM one x WHERE x.a IN (SELECT x.b UNION SELECT y.a FROM two y WHERE y.k = x.k)",
    "SELECT k FROM one x WHERE EXISTS (SELECT 1 WHERE x.a > 5)",
    "SELECT k FROM one x WHERE (SELECT max(v) FROM (SELECT y.a AS v FROM two y) q WHERE q.v > x.a) > 5",
    # A subquery in FROM that reads the query around its own.
    "SELECT x.k, (SELECT sum(a) FROM (SELECT y.a FROM two y WHERE y.k <= x.k ORDER BY y.k DESC LIMIT 2) q) FROM one x",
    "SELECT k FROM one x WHERE EXISTS (SELECT 1 FROM (SELECT y.a + 1 AS n FROM two y WHERE y.k = x.k) q WHERE n > 5)",
    "SELECT x.k, (SELECT sum(v) FROM (SELECT 1 AS v UNION ALL SELECT x.a) u) FROM one x",
    """SELECT x.k, (SELECT max(n) FROM (SELECT y.k AS n FROM two y WHERE y.k < (SELECT max(k) FROM (
        SELECT w.k FROM three w WHERE w.k <= x.k AND w.k >= y.k) z)) r) FROM one x""",
    # Columns that USING merges.
    "SELECT a FROM one FULL JOIN two USING (a)",
    "SELECT a FROM one FULL JOIN two USING (a) FULL JOIN three USING (a)",
    "SELECT a, b, count(*) FROM one FULL JOIN two USING (a, b) FULL JOIN three USING (a, b) GROUP BY a, b",
    "SELECT q.a FROM (SELECT * FROM one FULL JOIN two USING (a)) q WHERE q.a > 5",
    "SELECT a, one.k, two.k FROM one RIGHT JOIN two USING (a) LEFT JOIN three USING (a)",
    "SELECT a FROM one LEFT JOIN (two JOIN three USING (a)) USING (a)",
    "SELECT three.k, x.s, q FROM three, one x JOIN (SELECT k AS q, b FROM two) y ON x.k = y.q",
    "SELECT * FROM (SELECT k, a FROM one) x NATURAL FULL JOIN (SELECT a FROM two) y NATURAL JOIN (SELECT k FROM two) z",
    # A constant has the type of what it is beside.
    "SELECT k FROM one WHERE ratio = '1.3'",
    "SELECT k FROM one WHERE ratio IN ('1.3', '2.3') OR ratio BETWEEN '4.3' AND '4.3'",
    "SELECT ratio * '-10' FROM one",
    "SELECT k FROM one WHERE raw = '\\x02'",
    "SELECT k FROM one WHERE NOT items && ARRAY[1, 3] ORDER BY items && ARRAY[4] DESC, (k > 3) = (items && ARRAY[4])",
    "SELECT k FROM one WHERE items = '{3,2}' OR k = ANY ('{1,7}')",
    "SELECT k FROM one WHERE k <> ALL ('{1,7}') AND a < SOME ('{4,5}')",
    # One expression under two names, one of which is grouped.
    "SELECT s AS x, s AS y, b AS z, count(*) FROM one GROUP BY z, ROLLUP (y)",
    "SELECT s AS x, s AS y, count(*) FROM one GROUP BY one.k, ROLLUP (y)",
    "SELECT s AS k, s AS y, count(*) FROM one GROUP BY k, ROLLUP (y)",
    # NOT LIKE ALL is not NOT of LIKE ALL.
    "SELECT s FROM one WHERE s NOT LIKE ALL (ARRAY['s1%', 's2%'])",
    "SELECT s FROM one WHERE s NOT ILIKE ANY (ARRAY['S1%', 'S2%'])",
    "SELECT s FROM one WHERE NOT (s LIKE ANY (ARRAY['s1%', 's2%']))",
)  # fmt: skip


@pytest.mark.parametrize("sql", EQUAL)
async def test_the_answer_is_that_of_the_database(served: Served, sql: str) -> None:
    direct = await served.direct(sql)
    assert direct
    assert sorted(map(repr, await served.stored(sql))) == sorted(map(repr, direct))


async def test_functions_of_texts_give_bytes_of_bytes(served: Served) -> None:
    sql = """
        SELECT (SELECT string_agg(raw, raw ORDER BY k) FROM one) AS a, substr(raw, 1, 1) AS b, raw || raw AS c,
            overlay(raw PLACING raw FROM 1) AS d, trim(raw FROM raw) AS e, md5(raw) AS f FROM one WHERE k = 1"""
    async with running(served.engine, tables=METADATA) as application:
        path = await application.create(read_select(sql, served.registry, "postgresql"))
        page = (await application.http.get(path, params={"limit": 10})).json()
    encodings = {column["name"]: column["encoding"] for column in page["columns"]}
    assert encodings == {**dict.fromkeys("abcde", "base64"), "f": "text"}
    joined = bytes([1, *(k for each in range(2, 8) for k in (each, each))])
    assert page["data"][0]["a"] == b64encode(joined).decode()


async def test_star_shows_what_is_merged_before_the_rest(served: Served) -> None:
    sql = "SELECT * FROM (SELECT k FROM three) x, (SELECT a, b FROM one) y FULL JOIN (SELECT a, s FROM two) z USING (a)"
    assert sorted(map(repr, await served.direct(sql))) == sorted(map(repr, await served.stored(sql)))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM one WHERE ALL ('{1}')", "to the right of a comparison"),
        ("SELECT k FROM one WHERE NOT ANY ('{1}')", "to the right of a comparison"),
        ("SELECT k FROM one WHERE SOME ('{1}') = k", "to the right of a comparison"),
        ("SELECT a FROM one JOIN two USING (a), three", "'a' is ambiguous"),
        ("SELECT one.k FROM one JOIN two ON one.k = two.k JOIN three USING (a)", "'a' is ambiguous"),
        ("SELECT a FROM one JOIN two USING (a), three x JOIN three y USING (a)", "'a' is ambiguous"),
    ],
)
async def test_what_the_database_refuses_is_refused(served: Served, sql: str, message: str) -> None:
    with pytest.raises(InvalidSQLError, match=message):
        read_select(sql, served.registry, "postgresql")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, b, count(*) FROM one GROUP BY DISTINCT ROLLUP (a, b), ROLLUP (a, b)",
        "SELECT s AS x, s AS y, count(*) FROM one GROUP BY x, ROLLUP (y)",
        "SELECT s AS x, s AS y, count(*) FROM one GROUP BY GROUPING SETS ((1), (2, b))",
        "SELECT DISTINCT ON (b) b, generate_series(1, 3) FROM one ORDER BY b, a",
        "SELECT * FROM unnest(ARRAY[1, 2], ARRAY['x', 'y']) WITH ORDINALITY AS u(a, b, n)",
    ],
)
async def test_what_would_be_answered_otherwise_is_refused(served: Served, sql: str) -> None:
    with pytest.raises(ForbiddenSQLError):
        read_select(sql, served.registry, "postgresql")
