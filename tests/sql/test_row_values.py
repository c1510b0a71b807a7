"""A row value stands in comparisons; elsewhere a text is refused by name, or by the database itself."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table

from dualsql.errors import ForbiddenSQLError
from dualsql.freeze import Registry, freeze, thaw
from dualsql.sql import read_select

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
