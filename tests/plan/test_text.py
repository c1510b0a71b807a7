"""Whether SQL text orders its rows is seen, and doubt counts as yes."""

from __future__ import annotations

import pytest

from dualsql.plan.other_statements import has_outer_order

UNORDERED = [
    "SELECT 1",
    "SELECT rank() OVER (ORDER BY x) FROM t",
    "SELECT * FROM (SELECT * FROM t ORDER BY x LIMIT 3) AS s",
    "SELECT 'ORDER BY x' FROM t",
    'SELECT "limit" FROM t',
    "SELECT `offset` FROM t",
    "SELECT 1 -- ORDER BY x",
    "SELECT 1 /* LIMIT 3 */",
    "SELECT $$ ORDER BY $$ FROM t",
    "SELECT $q$ ) LIMIT $q$ FROM t",
    "SELECT 'it''s ORDER BY' FROM t",
    "SELECT reorder, limits FROM t",
]
ORDERED = [
    "SELECT * FROM t ORDER BY x",
    "select * from t\norder\tby x",
    "SELECT * FROM t LIMIT 3",
    "SELECT * FROM t OFFSET 3",
    "SELECT * FROM t FETCH FIRST 3 ROWS ONLY",
    "SELECT ')' FROM (SELECT 1) AS s ORDER BY 1",
    "SELECT 1 /* ( */ ORDER BY 1",
    "SELECT 1 -- (\nORDER BY 1",
    "SELECT 1) ORDER BY 1",
]


@pytest.mark.parametrize("sql", UNORDERED)
def test_no_order_of_its_own(sql: str) -> None:
    assert not has_outer_order(sql)


@pytest.mark.parametrize("sql", ORDERED)
def test_an_order_of_its_own(sql: str) -> None:
    assert has_outer_order(sql)
