"""What newcomers pass by mistake is refused with what to pass instead, and what cannot work is said at start."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from starlette.applications import Starlette

from dualsql import (
    ConfigurationError,
    LimitExceededError,
    MemoryStore,
    NotFreezableError,
    TamperedError,
)
from tests.schools import Base, School
from tests.server.conftest import BASE_URL, MakeServer
from tests.servers import create_server

# What is about databases is in tests/databases and tests/results.
pytestmark = pytest.mark.quick(50, "sqlite")

SYNCHRONOUS = create_engine("sqlite://")
ASYNCHRONOUS = create_async_engine("sqlite+aiosqlite://")
SESSIONS = [Session(SYNCHRONOUS), sessionmaker(SYNCHRONOUS), AsyncSession(ASYNCHRONOUS)]
MISTAKES: list[tuple[str, Any, str]] = [
    ("databases", "shop.db", "sqlite:///shop.db"),
    ("databases", "./data/Shop 1.SQLite3", "sqlite:///./data/Shop 1.SQLite3"),
    ("databases", "shop.duckdb", "duckdb:///shop.duckdb"),
    ("databases", "user:hunter2@host/shop.db", "driver://user:password@host"),
    ("databases", Path("shop.db"), "Write the file's URL: sqlite:///shop.db"),
    *[("databases", session, "Pass its engine.*sessions") for session in SESSIONS],
    ("databases", async_sessionmaker(ASYNCHRONOUS), "Pass its engine.*sessions"),
    ("databases", ASYNCHRONOUS.connect(), "Pass its engine.*connections"),
    ("databases", None, "environment variable"),
    (
        "databases",
        "nonsense://u:hunter2@h/x",
        "'nonsense' read-only.*SQLite, PostgreSQL, MariaDB, DuckDB and",
    ),
    ("databases", "oracle://u:hunter2@h/x", "driver oracledb is not installed.*pip install oracledb"),
    ("databases", "oracle+oracledb://u:hunter2@h/x", "driver oracledb is not installed"),
    ("databases", "mssql+pyodbc://u:hunter2@h/x", "driver pyodbc is not installed"),
    ("store", "sqlite:///store.db", r"SQLResourceStore\(url\)"),
    ("store", ASYNCHRONOUS, "SQLResourceStore takes an async engine"),
    ("store", MemoryStore, "MemoryStore is a class"),
    ("tables", "schools", "not their names"),
    ("tables", sys.modules[Base.__module__], "its declarative base"),
    ("tables", SYNCHRONOUS, r"metadata.reflect\(engine\)"),
]


@pytest.mark.parametrize(("argument", "given", "told"), MISTAKES)
def test_a_wrong_argument_is_told_what_to_pass(argument: str, given: Any, told: str) -> None:
    options: dict[str, Any] = {
        "databases": "sqlite://",
        "tables": Base,
        "base_url": BASE_URL,
        argument: given,
    }
    with pytest.raises(ConfigurationError, match=told) as refused:
        create_server(options.pop("databases"), **options)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda: None, r"@dual\.tool\(mcp\)"),
        ("colleges", "comes first"),
        (Starlette(), "not the web application"),
    ],
)
def test_a_decorator_without_its_server_is_told_so(make_server: MakeServer, given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make_server().tool(given)


def test_a_tool_with_too_long_an_expiration_is_refused_where_it_is_written(make_server: MakeServer) -> None:
    with pytest.raises(LimitExceededError, match="maximum_lifetime"):

        @make_server().tool(MCPServer("schools"), expiration=timedelta(days=365))
        def all_schools() -> Any:
            """Schools."""


class OtherBase(DeclarativeBase):
    """The base that was forgotten."""


class Other(OtherBase):
    """A class of it."""

    __tablename__ = "others"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.mark.parametrize("forgotten", [Other, Table("others", MetaData(), Column("id", Integer))])
async def test_a_forgotten_table_is_told_how_to_bring_it(make_server: MakeServer, forgotten: Any) -> None:
    with pytest.raises(NotFreezableError, match=r"[Oo]ther.*tables=\[Base, .*Registered tables: .*school"):
        await make_server().create_response(select(forgotten), name="x")


async def test_tables_that_the_database_does_not_have_are_said_at_start(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_server():
        assert "has the tables" not in caplog.text
    async with make_server(tables=[Base, OtherBase]):
        assert "No database has the tables: others." in caplog.text


async def test_a_table_that_another_database_has_is_not_missing(
    make_server: MakeServer, schools: AsyncEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    second = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'second.db'}")
    async with second.begin() as connection:
        await connection.run_sync(OtherBase.metadata.create_all)
    try:
        async with make_server(databases={"one": schools, "two": second}, tables=[Base, OtherBase]):
            assert "has the tables" not in caplog.text
    finally:
        await second.dispose()


async def test_a_signature_of_another_secret_says_how_to_rotate(
    make_server: MakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = "o" * 32, "n" * 32
    first = make_server(secrets=[old])
    response = await first.create_response(select(School), name="x")
    other = make_server(store=first.store, secrets=[new])
    with pytest.raises(TamperedError):
        await other.read_page(response.resource_id, None)
    assert "another secret signed it" in caplog.text and "secrets=[old, new]" in caplog.text
    for secrets in ([old, new], [new, old]):  # the phases
        page = await make_server(store=first.store, secrets=secrets).read_page(response.resource_id, None)
        assert page.rows
