"""The check at start finds every way in which a database may take the value of one tenant for another's.

The databases here compare by `=`, as one does that nobody wrote a file for.
"""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import ConfigurationError, DualResponseServer, TenantFilter
from dualsql.databases import backends, comparison
from tests.databases.test_tenant_texts import BASE_URL

ICU = {
    "all_folded": "und-u-ks-level1",
    "case_folded": "und-u-ks-level2",
    "blanks_ignored": "und-u-ka-shifted-ks-level3",
}
"""PostgreSQL's nondeterministic collations, and their locales."""

EQUAL: dict[tuple[str, str], set[str]] = {
    ("sqlite", "BINARY"): set(),
    ("sqlite", "NOCASE"): {"A"},
    ("sqlite", "RTRIM"): {"a "},
    ("sqlite", "ends_at_nul"): {"a\0", "a\0b"},
    ("postgresql", "C"): set(),
    ("postgresql", "all_folded"): {"A", "ä", "\uff41", "a\u0301", "a\u200b"},
    ("postgresql", "case_folded"): {"A", "\uff41", "a\u200b"},
    ("postgresql", "blanks_ignored"): {" a", "a ", "a\u200b"},
    ("mariadb", "utf8mb4_nopad_bin"): set(),
    ("mariadb", "utf8mb4_bin"): {"a "},
    ("mariadb", "latin1_swedish_ci"): {"A", "a "},
    ("mariadb", "utf8mb4_general_ci"): {"A", "a ", "ä"},
    ("mariadb", "utf8mb4_unicode_ci"): {"A", "a ", "ä", "\uff41", "a\u0301", "a\u200b", "a\0"},
    ("mariadb", "utf8mb4_unicode_nopad_ci"): {"A", "ä", "\uff41", "a\u0301", "a\u200b", "a\0"},
}
"""By database and collation: the values that equal `a`."""


def compare_up_to_nul(one: str, other: str) -> int:
    """As a database that is written in C may do."""
    left, right = one.partition("\0")[0], other.partition("\0")[0]
    return (left > right) - (left < right)


def add_collations(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.run_async(
            lambda driver: driver._execute(driver._conn.create_collation, "ends_at_nul", compare_up_to_nul)
        )


def create(connection: Connection, table: Table) -> None:
    if connection.dialect.name == "postgresql":
        for name, locale in ICU.items():
            connection.execute(
                text(f"CREATE COLLATION {name} (provider=icu, locale='{locale}', deterministic=false)")
            )
    table.create(connection)


def refused_values(error: ConfigurationError) -> set[str]:
    """The values that the error names."""
    said = str(error).partition(" equals ")[2].partition(": a tenant")[0]
    actual: set[str] = literal_eval(f"{{{said}}}")
    return actual


@pytest.mark.parametrize(("kind", "collation"), EQUAL)
async def test_the_check_names_the_values_that_are_equal(
    kind: str, collation: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_async_engine(request.getfixturevalue(f"{kind}_url"))
    if kind == "sqlite":
        add_collations(engine)
    exact = backends.backend_named(engine.dialect.name)
    assert exact is not None
    loose = replace(exact, capabilities=replace(exact.capabilities, text_equality=None))
    monkeypatch.setitem(backends._loaded, engine.dialect.name, loose)
    columns = Column("id", Integer, primary_key=True), Column("tenant", String(20, collation=collation))
    table = Table("kinds", MetaData(), *columns)
    async with engine.begin() as connection:
        await connection.run_sync(create, table)
    rules = [TenantFilter(column="tenant", value=lambda person: person.tenant)]
    server = DualResponseServer(engine, base_url=BASE_URL, tables=table.metadata, hooks=rules)
    try:
        await server.start()
        found = set()
    except ConfigurationError as error:
        found = refused_values(error)
    finally:
        await server.shutdown()
        await engine.dispose()
    assert found == EQUAL[kind, collation]


def test_some_database_equates_each_value_that_is_tried() -> None:
    """A value that none equates would be tried for nothing."""
    assert set().union(*EQUAL.values()) == {*comparison._OTHERS, *comparison._WITH_NUL}
