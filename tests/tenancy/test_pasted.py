"""Text that is rendered as written: each place of SQLAlchemy's compilers has a rule, and none passes by tenants'."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from sqlalchemy import Select, create_engine, func, literal_column, select, text, union_all
from sqlalchemy.dialects import mysql, postgresql, sqlite

from dualsql import ForbiddenSQLError, Registry
from dualsql.freeze import freeze, thaw
from tests.tenancy.pasted import PASTES, PASTES_NOTHING
from tests.tenancy.test_compiler import ANA, POLICY, metadata, people, written

DIALECTS: list[Any] = [
    sqlite.dialect(),
    postgresql.dialect(),
    mysql.dialect(),
    create_engine("duckdb://").dialect,
]
DRIVERS = ("postgresql.asyncpg", "postgresql.psycopg", "postgresql.psycopg2", "mysql.aiomysql", "mysql.asyncmy",
           "mysql.pymysql", "mysql.mariadbconnector")  # fmt: skip
FORGED = "UNION ALL SELECT 1, name FROM people"


def methods() -> Iterator[str]:
    """The methods of every compiler of a database or driver that dualsql speaks to."""
    drivers = [import_module(f"sqlalchemy.dialects.{name}").dialect() for name in DRIVERS]
    for dialect in [*DIALECTS, *drivers]:
        for cls in dialect.statement_compiler.__mro__[:-1]:
            yield from (name for name, each in vars(cls).items() if callable(each) and name[:2] != "__")


def test_every_method_of_the_compilers_is_in_the_table() -> None:
    """One that a new SQLAlchemy adds wants a rule; one that is gone wants none."""
    assert set(methods()) == PASTES.keys() | PASTES_NOTHING
    assert not PASTES.keys() & PASTES_NOTHING


def plain() -> Select[Any]:
    return select(people.c.id, people.c.name)


PASTED: dict[str, Select[Any]] = {
    "a statement hint": plain().with_statement_hint(FORGED),
    "a table hint": plain().with_hint(people, "USE INDEX (x)"),
    "a table hint of one dialect": plain().with_hint(people, "USE INDEX (x)", "mysql"),
    "a prefix": plain().prefix_with("1 AS a, (SELECT name FROM people) AS b,"),
    "a suffix": plain().suffix_with(FORGED),
    "literal_column": select(literal_column("(SELECT max(name) FROM people)").label("x")),
    "text in WHERE": plain().where(text("EXISTS (SELECT 1 FROM people)")),
    "text in ORDER BY": plain().order_by(text("(SELECT max(name) FROM people)")),
    "text in GROUP BY": select(func.count()).select_from(people).group_by(text("(SELECT 1)")),
    "text in FROM": select(text("x")).select_from(text("people AS x")),
}
NESTED = {
    "itself": lambda inner: inner,
    "subquery": lambda inner: select(inner.subquery()),
    "CTE": lambda inner: select(inner.cte("chosen")),
    "scalar subquery": lambda inner: select(inner.with_only_columns(people.c.id).scalar_subquery()),
    "IN": lambda inner: plain().where(people.c.id.in_(inner.with_only_columns(people.c.id))),
    "EXISTS": lambda inner: plain().where(inner.correlate(None).exists()),
    "UNION": lambda inner: union_all(inner, plain()),
    "lateral": lambda inner: select(inner.lateral()),
}


@pytest.mark.quick(30)
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("place", NESTED)
@pytest.mark.parametrize("name", [name for name in PASTED if "dialect" not in name])
def test_under_rules_text_is_refused_wherever_it_stands(name: str, place: str, dialect: Any) -> None:
    statement = PASTED[name]
    if place in ("scalar subquery", "IN") and name in ("literal_column", "text in FROM"):
        statement = statement.add_columns(people.c.id)
        nested: Any = select(statement.subquery())
    elif place == "UNION" and len(statement.selected_columns) < 2:
        nested = union_all(statement, statement)
    else:
        nested = NESTED[place](statement)
    with pytest.raises(ForbiddenSQLError):
        written(nested, dialect)


def test_a_hint_for_another_database_is_refused_too() -> None:
    with pytest.raises(ForbiddenSQLError):
        written(PASTED["a table hint of one dialect"], DIALECTS[0])
    with pytest.raises(ForbiddenSQLError):
        written(PASTED["a table hint of one dialect"], DIALECTS[2])


def test_a_word_in_the_place_of_distinct_is_refused() -> None:
    statement = plain()
    vars(statement)["_distinct"] = "DISTINCT (SELECT 1),"
    with pytest.raises(ForbiddenSQLError):
        written(statement, DIALECTS[2])


def test_what_is_stored_is_refused_as_what_was_given() -> None:
    """The holes were in statements that had been stored: allow_text lets them through there."""
    registry = Registry(metadata, allow_text=True)
    hinted = select(PASTED["a statement hint"].subquery())
    stored = thaw(freeze(hinted, registry, dialect=DIALECTS[0]), registry)
    assert FORGED in str(stored)
    with pytest.raises(ForbiddenSQLError):
        stored.compile(dialect=POLICY.rules_for(ANA).dialect(DIALECTS[0]))
