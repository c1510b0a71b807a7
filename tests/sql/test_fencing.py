"""What a text computes tells nothing of rows that rules hide; texts that cannot fail keep their indexes."""

from __future__ import annotations

import pytest
from sqlalchemy import exists, insert

from dualsql import RowFilter
from dualsql.errors import QueryExecutionError
from dualsql.sql.parse import parse_text
from dualsql.sql.scope import WorkBudget
from dualsql.sql.translate import can_fail
from tests.engines import opened, text_of
from tests.http.application import running
from tests.query.readings import METADATA, READINGS, ROWS, person, rows_of

HARMLESS = (
    "SELECT id, text FROM readings WHERE id = 5 AND text LIKE 'a%' ORDER BY id LIMIT 3",
    "SELECT tenant, count(*), sum(small) FROM readings WHERE day >= DATE '2020-01-01' GROUP BY tenant",
    "SELECT * FROM readings r JOIN readings s ON r.id = s.id WHERE r.small IN (1, -2) OR r.word IS NULL",
    "SELECT id FROM readings WHERE id IN (SELECT s.small FROM readings s)",
    "WITH x AS (SELECT id FROM readings) SELECT * FROM x WHERE id BETWEEN 1 AND 4",
)
FALLIBLE = (
    "SELECT id FROM readings WHERE 1 / (id - 3) > 0",
    "SELECT id FROM readings WHERE CAST(text AS INTEGER) = 1",
    "SELECT id FROM readings WHERE 'x' LIKE text",
    "SELECT id FROM readings WHERE text LIKE 'a\\'",
    "SELECT id FROM readings WHERE length(text) > 1",
    "SELECT id FROM readings r WHERE id = (SELECT s.id FROM readings s WHERE s.small = r.small)",
    "SELECT id FROM readings r WHERE EXISTS (SELECT sum(s.big) FROM readings s WHERE s.small = r.small)",
    "SELECT id FROM (SELECT id, -small AS z FROM readings) AS q WHERE z > 0",
    "SELECT CASE WHEN id = 3 THEN 1 END FROM readings",
)


@pytest.mark.parametrize("sql", HARMLESS)
def test_comparisons_need_no_fence(sql: str) -> None:
    assert not can_fail(parse_text(sql, text_of("postgresql"), WorkBudget()), text_of("postgresql"))
    assert can_fail(parse_text(sql, text_of("duckdb"), WorkBudget()), text_of("duckdb"))


@pytest.mark.parametrize("sql", FALLIBLE)
def test_what_computes_may_fail(sql: str) -> None:
    assert can_fail(parse_text(sql, text_of("postgresql"), WorkBudget()), text_of("postgresql"))


async def test_a_text_fails_on_no_hidden_row(source_url: str) -> None:
    other = READINGS.alias("other")
    rule = RowFilter(
        READINGS,
        lambda principal: exists().where(other.c.id == READINGS.c.id, other.c.tenant == principal.tenant),
    )
    async with opened(source_url) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(READINGS), ROWS)
    hidden, seen = (
        next(row["id"] for row in rows_of(tenant) if row["small"] == -2) for tenant in ("north", "south")
    )
    overflow = "CASE WHEN id = {} THEN abs(-9223372036854775807 - 1 - small + small) ELSE 1 END"
    text = f"SELECT id, word, count(*) AS n FROM readings WHERE {overflow} > 0 GROUP BY id"
    async with running(source_url, tables=METADATA, hooks=[rule]) as application:
        dual, ada = application.server, person("south")
        statement = dual.sql.resolve(text.format(hidden), principal=ada).select
        answer = await dual.create_response(statement, name="Seen", principal=ada)
        assert answer.total_count == len(rows_of("south"))
        statement = dual.sql.resolve(text.format(seen), principal=ada).select
        with pytest.raises(QueryExecutionError):
            await dual.create_response(statement, name="Failing", principal=ada)


async def test_a_subquery_in_from_that_reads_the_row_around_it_sees_no_hidden_row(source_url: str) -> None:
    rule = RowFilter(READINGS, lambda principal: READINGS.c.tenant == principal.tenant)
    text = """
        SELECT r.id, (SELECT count(*) FROM (SELECT s.id FROM readings s WHERE s.id <= r.id LIMIT 1000) AS q) AS n
        FROM readings r ORDER BY r.id"""
    async with opened(source_url) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(READINGS), ROWS)
    if source_url.startswith("mysql"):
        pytest.skip("MariaDB reads no enclosing query in FROM")
    async with running(source_url, tables=METADATA, hooks=[rule]) as application:
        ada = person("south")
        statement = application.server.sql.resolve(text, principal=ada).select
        answer = await application.server.create_response(statement, name="Seen", principal=ada)
    assert [row["n"] for row in answer.sample] == [*range(1, len(answer.sample) + 1)]
    assert answer.total_count == len(rows_of("south"))
