"""A tenant reads the rows of exactly its own value, whatever the collation of the column; else no server starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import CHAR, Column, Integer, MetaData, String, Table, create_engine, insert, select, text
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import ConfigurationError, DualResponseServer, Principal, QueryExecutionError, TenantFilter
from dualsql.databases import backends
from dualsql.databases.sqlite import BACKEND as SQLITE

BASE_URL = "http://127.0.0.1:8000/resources"
TENANTS = (
    "kind 1",
    "kind 1 ",
    "KIND 1",
    "kínd 1",
    " kind 1",
    "kind１1",
    "kind 1\u200b",
    "kind 10",
    "kind",
    "k",
    "K",
    "k\0",
)
RULES = [TenantFilter(column="tenant", value=lambda person: person.tenant)]

COLUMNS: dict[str, dict[str, Any]] = {
    "sqlite": {
        "plain": String(20),
        "nocase": String(20, collation="NOCASE"),
        "rtrim": String(20, collation="RTRIM"),
        "char": CHAR(20),
    },
    "postgresql": {
        "plain": String(20),
        "char": CHAR(20),
        "citext": CITEXT(),
        "binary": String(20, collation="C"),
        "folding": String(20, collation="folding"),
    },
    "mariadb": {
        "plain": String(20),
        "folding": String(20, collation="utf8mb4_general_ci"),
        "padding": String(20, collation="utf8mb4_bin"),
        "binary": String(20, collation="utf8mb4_nopad_bin"),
        "latin": mysql.VARCHAR(20, charset="latin1", collation="latin1_swedish_ci"),
        "char": CHAR(20),
    },
    "duckdb": {
        "plain": String(20),
        "nocase": String(20, collation="NOCASE"),
        "noaccent": String(20, collation="NOACCENT"),
    },
}
REFUSED = {("postgresql", "folding")}
CASES = [
    pytest.param(engine, name, id=f"{engine} {name}", marks=() if engine != "duckdb" else pytest.mark.long)
    for engine, columns in COLUMNS.items()
    for name in columns
]


def rows_of(connection: Any, table: Table) -> dict[int, str]:
    """The rows that the database takes, as it gives them back."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS citext"))
        connection.execute(
            text(
                "CREATE COLLATION IF NOT EXISTS folding (provider=icu, locale='und-u-ks-level1', deterministic=false)"
            )
        )
    table.create(connection)
    for number, tenant in enumerate(TENANTS):
        try:
            with connection.begin_nested():
                connection.execute(insert(table).values(id=number, tenant=tenant))
        except (DBAPIError, StatementError):  # no such character in its set
            continue
    return dict(connection.execute(select(table.c.id, table.c.tenant)).all())


@pytest.fixture
async def database(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """A URL, or an engine."""
    if engine == "duckdb":
        yield f"duckdb:///{tmp_path}/tenants.duckdb"
        return
    made = create_async_engine(request.getfixturevalue(f"{engine}_url"))
    yield made
    await made.dispose()


async def filled(database: Any, table: Table) -> dict[int, str]:
    if not isinstance(database, str):
        async with database.begin() as connection:
            actual: dict[int, str] = await connection.run_sync(rows_of, table)
            return actual
    writer = create_engine(database)
    with writer.begin() as opened:
        table.create(opened)
        for number, tenant in enumerate(TENANTS):
            opened.execute(insert(table).values(id=number, tenant=tenant))
    writer.dispose()
    return dict(enumerate(TENANTS))


@pytest.mark.quick(2)
@pytest.mark.parametrize(("engine", "name"), CASES)
async def test_a_tenant_reads_its_own_rows(engine: str, name: str, database: Any) -> None:
    table = Table(
        "kinds", MetaData(), Column("id", Integer, primary_key=True), Column("tenant", COLUMNS[engine][name])
    )
    stored = await filled(database, table)
    assert len(stored) >= 5

    def spelled(value: str) -> str:
        return (
            value.rstrip() if (engine, name) == ("postgresql", "char") and value in stored.values() else value
        )

    server = DualResponseServer(database, base_url=BASE_URL, tables=table.metadata, hooks=RULES)
    if (engine, name) in REFUSED:
        with pytest.raises(ConfigurationError, match="rows of others"):
            await server.start()
        await server.shutdown()
        return
    async with server:
        for tenant in TENANTS[:-1]:
            principal = Principal(id="somebody", tenant=tenant)
            # CHAR of some databases loses the blanks at the end of what it stores, or adds some.
            own = sorted(number for number, value in stored.items() if spelled(value) == spelled(tenant))
            try:
                response = await server.create_response(select(table.c.id), name="x", principal=principal)
            except QueryExecutionError:  # no such character in the column's set
                found = []
            else:
                found = [row["id"] for row in response.sample]
            assert found == own, tenant


async def test_a_database_that_nobody_wrote_a_file_for(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compares by `=`; where that is not exact, no server starts."""
    loose = replace(SQLITE, capabilities=replace(SQLITE.capabilities, name="Loose", text_equality=None))
    monkeypatch.setitem(backends._loaded, "sqlite", loose)
    engine = create_async_engine(sqlite_url)
    for number, (name, is_exact) in enumerate({"BINARY": True, "NOCASE": False, "RTRIM": False}.items()):
        column = Column("tenant", String(20, collation=name))
        table = Table(f"kinds_{number}", MetaData(), Column("id", Integer, primary_key=True), column)
        await filled(engine, table)
        server = DualResponseServer(engine, base_url=BASE_URL, tables=table.metadata, hooks=RULES)
        if is_exact:
            await server.start()
        else:
            with pytest.raises(ConfigurationError, match="rows of others"):
                await server.start()
        await server.shutdown()
    await engine.dispose()


@pytest.mark.parametrize("written", ["0", "no_such_function()"])
async def test_a_comparison_that_finds_nothing_or_fails_is_not_known(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """What is not equal to itself shows nothing of how others compare."""
    odd = replace(SQLITE, capabilities=replace(SQLITE.capabilities, text_equality=lambda *_: written))
    monkeypatch.setitem(backends._loaded, "sqlite", odd)
    engine = create_async_engine(sqlite_url)
    table = Table("kinds", MetaData(), Column("id", Integer, primary_key=True), Column("tenant", String(20)))
    await filled(engine, table)
    server = DualResponseServer(engine, base_url=BASE_URL, tables=table.metadata, hooks=RULES)
    with pytest.raises(ConfigurationError, match="is not known"):
        await server.start()
    await server.shutdown()
    await engine.dispose()
