"""The SQL that reaches the database, read by another parser: each table stands in exactly its rule, its value bound.

This proof knows nothing of how narrowing is done. It asks, of every reference to a guarded table: does the SELECT
around it read this table alone, is its WHERE the rule and nothing else, is the rule's value the tenant's?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlglot import exp

from dualsql.freeze.document import Statement
from dualsql_client.wire import SortKey
from tests.tenancy.tenants.answers import pages, truth
from tests.tenancy.tenants.databases import principal_of
from tests.tenancy.tenants.parsed import Tree, number_of, parsed, tables_in
from tests.tenancy.tenants.shapes import A_THIRD, PORTABLE, POSTGRESQL_ONLY
from tests.tenancy.tenants.sites import ON_POSTGRESQL, ON_SQLITE, REGISTRY, Site
from tests.tenancy.tenants.tpch_rows import TENANTS

TENANT = TENANTS[2]
SHARED = {"region", "nation", "calendar"}
THROUGH = {"contractors": "people", "document_tags": "documents"}
TABLES: dict[str, Any] = {table.name: table for table in REGISTRY.tables.values()}  # type: ignore[attr-defined]

Sent = tuple[str, Sequence[Any]]


@contextmanager
def sent_to(engine: AsyncEngine) -> Iterator[list[Sent]]:
    """What reaches the database inside the block."""
    statements: list[Sent] = []

    def note(_connection: Any, _cursor: Any, sql: str, values: Sequence[Any], *_: Any) -> None:
        if not sql.startswith("PRAGMA"):
            statements.append((sql, values))

    has_events = engine.sync_engine._has_events
    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
        # SQLAlchemy does not take this back: streams of later tests would go the way of an engine with listeners.
        engine.sync_engine._has_events = has_events


def read_back(sql: str, dialect: str) -> Tree:
    # The parser takes no bound value in TABLESAMPLE (...), which names no table.
    bare = re.sub(r"TABLESAMPLE \w+\([^)]*\)( REPEATABLE \(abs\([^)]*\)\))?", "", sql)
    return parsed(bare, dialect)


def unproved(statement: Sent, dialect: str) -> list[str]:
    """The references to guarded tables in one statement that do not stand in their rule."""
    sql, values = statement
    guarded = [table for table in tables_in(read_back(sql, dialect)) if table.name not in SHARED]
    return [table.sql() for table in guarded if not _stands_in_its_rule(table, values)]


def _stands_in_its_rule(table: exp.Table, values: Sequence[Any]) -> bool:
    select = table.find_ancestor(exp.Select)
    if select is None or select.args.get("joins") or select.args["from_"].this is not table:
        return False
    where = select.args.get("where")
    if where is None:
        return False
    if table.name in THROUGH:
        return _is_one_source(select, table) and _is_through(where.this, table)
    if _in_rule_of_another(select):
        parts = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
        return any(_is_own(part, table, values) for part in parts)
    return _is_one_source(select, table) and _is_own(where.this, table, values)


def _is_one_source(select: exp.Select, table: exp.Table) -> bool:
    """`(SELECT every column FROM table WHERE ...) AS name`, and no other clause.

    A table without a key has its row's number beside its columns, by which rows are ordered.
    """
    clauses = {name for name, each in select.args.items() if each} - {"expressions", "from_", "where"}
    columns = [_unaliased(column).name for column in select.expressions]
    known = TABLES[table.name]
    expected = [column.name for column in known.c]
    if not known.primary_key and columns[-1:] == ["rowid"]:
        expected.append("rowid")
    around = select.parent
    return not clauses and columns == expected and isinstance(around, exp.Subquery) and bool(around.alias)


def _unaliased(column: Tree) -> Any:
    return column.this if isinstance(column, exp.Alias) else column


def _is_own(condition: Tree, table: exp.Table, values: Sequence[Any]) -> bool:
    """`table.tenant_id = :value`, and the value is the tenant's."""
    if not isinstance(condition, exp.EQ) or not isinstance(condition.this, exp.Column):
        return False
    column, number = condition.this, number_of(condition.expression)
    return (
        (column.name, column.table, column.db) == ("tenant_id", table.alias_or_name, table.db)
        and number is not None
        and values[number - 1] == TENANT.id
    )


def _is_through(condition: Tree, table: exp.Table) -> bool:
    """IN or EXISTS of the table that says whose the rows are, which is proved by itself."""
    if not isinstance(condition, exp.In | exp.Exists):
        return False
    return {each.name for each in tables_in(condition)} == {THROUGH[table.name]}


def _in_rule_of_another(select: exp.Select) -> bool:
    around = select.find_ancestor(exp.Select)
    source = around.args.get("from_") if around else None
    return source is not None and isinstance(source.this, exp.Table) and source.this.name in THROUGH


async def prove(site: Site, statement: Statement) -> None:
    caller = principal_of(TENANT)
    with sent_to(site.shared) as statements:
        response = await site.narrowed.create_response(statement, name="x", principal=caller, sample_size=1)
        resource = await site.narrowed.open_resource(response.resource_id, caller, "read")
        by_last: SortKey = {"field": response.columns[-1]["name"], "order": "desc"}
        await pages(site.narrowed, resource, caller, [by_last])
    assert len(statements) >= 2
    dialect = site.shared.dialect.name
    assert [(unproved(each, dialect), each[0]) for each in statements if unproved(each, dialect)] == []


@pytest.mark.quick(3)
@ON_SQLITE
@pytest.mark.parametrize("name", A_THIRD)
async def test_every_table_stands_in_its_rule(site: Site, name: str) -> None:
    await prove(site, PORTABLE[name])


@pytest.mark.quick(3)
@ON_POSTGRESQL
@pytest.mark.parametrize("name", POSTGRESQL_ONLY)
async def test_every_table_of_postgresql_s_own_statements_does(site: Site, name: str) -> None:
    await prove(site, POSTGRESQL_ONLY[name])


@pytest.mark.long
@pytest.mark.parametrize("name", PORTABLE)
async def test_every_table_of_every_statement_does(site: Site, name: str) -> None:
    await prove(site, PORTABLE[name])


@ON_SQLITE
async def test_the_proof_fails_without_narrowing(site: Site) -> None:
    proved = []
    for name, statement in PORTABLE.items():
        with sent_to(site.own[TENANT]) as statements:
            await truth(site.own[TENANT], statement)
        if not unproved(statements[0], site.shared.dialect.name):
            proved.append(name)
    assert sorted(proved) == ["constants only", "shared tables alone"]


def _of_tags(source: str, condition: str) -> str:
    return (
        f"SELECT a.id FROM (SELECT tags.id, tags.tenant_id, tags.label FROM {source} WHERE {condition}) AS a"
    )


def _of_contractors(condition: str) -> str:
    columns = "contractors.id, contractors.agency"
    return f"SELECT a.id FROM (SELECT {columns} FROM contractors WHERE {condition}) AS a"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT tags.id FROM tags WHERE tags.tenant_id = $1",
        _of_tags("tags", "tags.tenant_id = $2"),
        _of_tags("tags", "tags.id = $1"),
        _of_tags("tags", "tags.tenant_id = 3"),
        _of_tags("tags", "tags.tenant_id >= $1"),
        _of_tags("tags", "tags.tenant_id = $1 OR 1 = 1"),
        _of_tags("tags", "rooms.tenant_id = $1"),
        _of_tags("tags, rooms", "tags.tenant_id = $1"),
        _of_tags("tags LEFT JOIN rooms ON true", "tags.tenant_id = $1"),
        _of_tags("tags", "tags.tenant_id = $1 UNION SELECT * FROM tags"),
        _of_contractors("contractors.id = $1"),
        _of_contractors("contractors.id IN (SELECT people.id FROM people)"),
        _of_contractors("contractors.id IN (SELECT people.id FROM people WHERE people.tenant_id = $2)"),
        _of_contractors("contractors.id IN (SELECT rooms.id FROM rooms WHERE rooms.tenant_id = $1)"),
    ],
)
def test_the_proof_is_not_fooled(sql: str) -> None:
    assert unproved((sql, [TENANT.id, 1]), "postgresql")


def test_the_proof_accepts_a_rule() -> None:
    through = "contractors.id IN (SELECT people.id FROM people WHERE people.tenant_id = $1)"
    for sql in (_of_tags("tags", "tags.tenant_id = $1"), _of_contractors(through)):
        assert unproved((sql, [TENANT.id, 1]), "postgresql") == []
