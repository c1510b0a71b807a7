"""A count that is written from the text of its sample is the one that SQLAlchemy compiles, with the same values."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, func, select

from dualsql import Principal, Registry, RowFilter, TenantFilter, plan
from dualsql.databases.counts import counted, counting_statement
from dualsql.databases.driver import DriverStatement, driver_statement
from dualsql.databases.fetch import Fetch
from dualsql.databases.source import Source, open_source
from dualsql.errors import DualResponseError
from dualsql.results.view import Derived
from dualsql.tenancy import ActiveRules, Policy
from tests.freeze.shop import SHAPES, customers, orders as shop_orders
from tests.freeze.test_plain_statements import _EVERY

pytestmark = pytest.mark.filterwarnings("ignore")

URLS = {
    "asyncpg": "postgresql+asyncpg://nobody@localhost/none",
    "psycopg": "postgresql+psycopg://nobody@localhost/none",
    "mariadb": "mysql+asyncmy://nobody@localhost/none",
    "sqlite": "sqlite:///:memory:",
}
"""Statements are compiled for them, and none is sent."""

TABLES = MetaData()
parts = Table(
    "parts", TABLES, Column("id", Integer, primary_key=True), Column("owner", String), Column("size", Integer)
)
orders = Table("a ORDER BY b", TABLES, Column("id", Integer, primary_key=True), Column("what?", Integer))
REGISTRY = Registry(TABLES)
PARTS = Registry([parts])
SHOP = Registry([customers, shop_orders])
"""Without elements and functions of an application, beside which no count is written."""
ANN = Principal(id="ann", tenant="north")

_REPEATED = re.compile(r'(\.("[^"]+"|`[^`]+`|\w+)) AS \2(?=,| \n)')
"""SQLAlchemy names each column of a table in a subquery, which changes no row."""


def both(
    source: Source, rules: ActiveRules, statement: Any
) -> tuple[DriverStatement | None, DriverStatement | None]:
    """The count that is written from the sample, None if it has to be compiled; and the one that is compiled."""
    derived = Derived(source.thaw(source.freeze(statement)), source.meanings)
    rows = derived.ordered(source.capabilities, rules.form, [])
    first = plan.windowed(rows.window, rows, 0, 16)
    sample = Fetch(
        source=source,
        select=lambda: first.select,
        rules=rules.with_values(first.values),
        described=derived.names,
        timeout=timedelta(minutes=1),
    )
    dialect = rules.dialect(source.engine.dialect)
    sent = sample.statement_for(dialect)
    compiled = driver_statement(
        dialect, plan.count(derived.shape), rules.values, source.compiled, ("",), drafts={}
    )
    return counting_statement(rows, sent, source, dialect), compiled


def require_same(written: DriverStatement, compiled: DriverStatement | None) -> None:
    assert compiled is not None
    assert _REPEATED.sub(r"\1", written.sql) == _REPEATED.sub(r"\1", compiled.sql)
    parameters = written.parameters
    if isinstance(parameters, dict):
        parameters = {name: value for name, value in parameters.items() if f"%({name})s" in written.sql}
    assert parameters == compiled.parameters
    assert [*map(repr, written.types)] == [*map(repr, compiled.types)]
    assert (written.dialect, written.described) == (compiled.dialect, compiled.described)


@pytest.mark.parametrize("driver", URLS)
def test_every_count_that_is_written_is_the_compiled_one(driver: str) -> None:
    number = 0
    source, rules = open_source("default", URLS[driver], SHOP), Policy(SHOP).rules_for(None)
    for statement in (*SHAPES.values(), *_EVERY.values()):
        try:
            written, compiled = both(source, rules, statement)
        except DualResponseError:  # not of this database
            continue
        if written is not None:
            number += 1
            require_same(written, compiled)
    assert number >= 10, number


@pytest.mark.parametrize("driver", URLS)
def test_rules_are_in_it_with_their_values(driver: str) -> None:
    source = open_source("default", URLS[driver], PARTS)
    rules = Policy(PARTS, [TenantFilter(column="owner", value=lambda who: who.tenant)]).rules_for(ANN)
    statement = select(parts.c.id, parts.c.size).where(parts.c.size > 3).order_by((parts.c.size == 5).desc())
    written, compiled = both(source, rules, statement)
    if driver == "psycopg":
        assert written is not None
    else:
        # The value in its ORDER BY stands before those of LIMIT and OFFSET.
        assert written is None
        written, compiled = both(source, rules, statement.order_by(None))
    assert written is not None
    require_same(written, compiled)
    assert "north" in (written.parameters.values() if driver == "psycopg" else written.parameters)


@pytest.mark.parametrize("driver", URLS)
@pytest.mark.parametrize("sizes", [[], [1], [1, 2, 3], [*range(40)]], ids=len)
def test_beside_a_rule_with_a_list_its_values_are_those_of_the_compiled_one(
    driver: str, sizes: list[int]
) -> None:
    source = open_source("default", URLS[driver], PARTS)
    tenants = TenantFilter(column="owner", value=lambda who: who.tenant)
    listed = RowFilter(parts, lambda _: parts.c.size.in_(sizes))
    written, compiled = both(source, Policy(PARTS, [tenants, listed]).rules_for(ANN), select(parts))
    assert compiled is not None
    if driver == "asyncpg" and sizes:
        assert written is None
    else:
        assert written is not None
        require_same(written, compiled)


def _limited_rule(_: Principal | None) -> Any:
    most = parts.alias("most")
    return parts.c.id.in_(select(most.c.id).order_by(most.c.size).limit(3))


@pytest.mark.parametrize(
    "statement",
    [
        select(parts).limit(3),
        select(parts.c.id).order_by(func.count(parts.c.id)),
        select(parts.c.id).order_by(parts.c.size).offset(2),
        select(orders),
        select(func.row_number().over(order_by=parts.c.size).label("n"), parts.c.id),
        select(select(parts.c.id).order_by(parts.c.size).limit(2).subquery()),
        select(select(parts.c.id).cte("some")),
    ],
    ids=["limit", "aggregate", "offset", "name", "window", "subquery", "cte"],
)
def test_other_counts_are_compiled(statement: Any) -> None:
    source = open_source("default", URLS["sqlite"], REGISTRY)
    written, compiled = both(source, Policy(REGISTRY).rules_for(None), statement)
    assert written is None
    assert compiled is not None


def test_beside_a_rule_with_an_order_it_is_compiled() -> None:
    source = open_source("default", URLS["sqlite"], PARTS)
    rules = Policy(PARTS, [RowFilter(parts, _limited_rule)]).rules_for(ANN)
    written, compiled = both(source, rules, select(parts))
    assert written is None
    assert compiled is not None
    assert "ORDER BY" in compiled.sql


def test_a_text_that_does_not_tell_its_parameters_is_not_used() -> None:
    dialect = open_source("default", URLS["sqlite"], REGISTRY).engine.dialect
    text = "SELECT a.id \nFROM a ORDER BY {} \n LIMIT ? OFFSET ?"
    for order in ("a.size = ?", '"a?"', '" ORDER BY "'):
        listed = DriverStatement(text.format(order), (1, 2), (), dialect, ("id",))
        assert counted(listed) is None
    listed = DriverStatement(text.format("a.id"), (1, 2), (), dialect, ("id",))
    assert counted(listed) == DriverStatement(
        "SELECT count(*) AS count_1 \nFROM (SELECT a.id \nFROM a) AS result",
        (),
        counted(listed).types,  # type: ignore[union-attr]
        dialect,
        ("",),
    )
