"""SQLModel's base, metadata and select() are taken as SQLAlchemy's are, and give the rows of a session.

Without `from __future__ import annotations`: SQLModel reads the types of its relationships as objects.
"""

import enum
import uuid
from collections.abc import AsyncIterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from sqlalchemy import Column, Integer, MetaData, Table, func, select as plain_select
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, registry
from sqlalchemy.sql.selectable import Select
from sqlmodel import Field, Relationship, SQLModel, col, select
from sqlmodel.sql.expression import SelectOfScalar

from dualsql import DualResponseServer, NotFreezableError
from dualsql.freeze import Registry, freeze
from tests.server.conftest import BASE_URL, UNHURRIED
from tests.servers import create_server

# What is about databases is in tests/databases and tests/results.
pytestmark = pytest.mark.quick(50, "sqlite")


class Rank(enum.Enum):
    """An enum, which SQLModel keeps as its names."""

    CAPTAIN = "captain"
    CADET = "cadet"


class Squad(SQLModel, table=True):
    """The one side of a relationship."""

    id: int | None = Field(default=None, primary_key=True)
    name: str
    heroes: list["Hero"] = Relationship(back_populates="squad")


class Hero(SQLModel, table=True):
    """A row of each type that SQLModel maps by itself."""

    id: int | None = Field(default=None, primary_key=True)
    name: str = Field(index=True)
    age: int | None = None
    rank: Rank = Rank.CADET
    pay: Decimal = Field(default=Decimal(0), max_digits=8, decimal_places=2)
    born: date | None = None
    key: uuid.UUID = Field(default_factory=uuid.uuid4)
    squad_id: int | None = Field(default=None, foreign_key="squad.id")
    squad: Squad | None = Relationship(back_populates="heroes")


HEROES = [
    {
        "id": number,
        "name": f"h{number:02}",
        "age": number or None,
        "rank": Rank.CAPTAIN,
        "pay": Decimal("1.10"),
    }
    | {"born": date(2020, 1, 1), "key": uuid.UUID(int=number), "squad_id": 1 + number % 2}
    for number in range(20)
]

STATEMENTS: dict[str, Any] = {
    "entity": select(Hero),
    "columns": select(Hero.name, Hero.age, Hero.rank, Hero.pay, Hero.key),
    "join": select(Hero, Squad).join(Squad),
    "where": select(Hero).where(col(Hero.age) > 3, col(Hero.name).like("h1%")).order_by(Hero.name),
    "scalar": select(func.upper(Hero.name)),
    "group": select(Hero.squad_id, func.count(col(Hero.id))).group_by(col(Hero.squad_id)),
    "related": select(Hero).where(col(Hero.squad).has(name="blue")),
    "union": select(Hero.name).union(select(Squad.name)),
    "subquery": select(Squad).where(
        col(Squad.id).in_(select(Hero.squad_id).where(Hero.rank == Rank.CAPTAIN))
    ),
}


@pytest.fixture
async def heroes(engine: AsyncEngine) -> AsyncEngine:
    """The engine, filled."""
    tables = SQLModel.metadata.tables
    async with engine.begin() as connection:
        await connection.run_sync(SQLModel.metadata.create_all)
        await connection.execute(
            tables["squad"].insert(), [{"id": 1, "name": "blue"}, {"id": 2, "name": "red"}]
        )
        await connection.execute(tables["hero"].insert(), HEROES)
    return engine


@pytest.fixture(params=["base", "metadata", "classes"])
async def dual(heroes: AsyncEngine, request: pytest.FixtureRequest) -> AsyncIterator[DualResponseServer]:
    tables = {"base": SQLModel, "metadata": SQLModel.metadata, "classes": [Hero, Squad]}[request.param]
    async with create_server(heroes, base_url=BASE_URL, tables=tables, count_budget=UNHURRIED) as server:
        yield server


@pytest.mark.quick(1, "sqlite")
async def test_statements_of_sqlmodel_give_the_rows_of_a_plain_execution(
    dual: DualResponseServer, heroes: AsyncEngine
) -> None:
    for name, statement in STATEMENTS.items():
        response = await dual.create_response(statement, name=name)
        page = await dual.read_page(response.resource_id, None)
        async with heroes.connect() as connection:
            expected = (await connection.execute(statement)).all()
        assert response.total_count == len(page.rows) == len(expected), name
        assert sorted(map(_plain, page.rows)) == sorted(map(_plain, expected)), name


def _plain(row: Any) -> str:
    values = row.values() if isinstance(row, dict) else row
    shown = [value.name if isinstance(value, Rank) else str(value) for value in values]
    return repr(shown)


async def test_a_tool_returns_what_sqlmodel_selects(dual: DualResponseServer) -> None:
    mcp = MCPServer("heroes")

    @dual.tool(mcp)
    def captains() -> SelectOfScalar[Hero]:
        """Heroes that lead."""
        return select(Hero).where(Hero.rank == Rank.CAPTAIN)

    async with Client(mcp) as client:
        result: Any = await client.call_tool("captains", {})
    assert not result.is_error and result.structured_content["metadata"]["total_count"] == 20


class Shouted(Select[Any]):
    """A Select that is written in another way."""

    inherit_cache = True


@compiles(Shouted)
def _(element: Any, compiler: Any, **kw: Any) -> str:
    return f"{compiler.visit_select(element, **kw)} -- !"


def test_a_select_with_sql_of_its_own_is_refused() -> None:
    with pytest.raises(NotFreezableError, match="Shouted"):
        freeze(Shouted(col(Hero.id)), Registry(SQLModel))


def test_a_metadata_brings_its_classes_and_no_table_of_another() -> None:
    near, far = MetaData(), MetaData()

    class Base(DeclarativeBase):
        metadata = near

    class Near(Base):
        __tablename__ = "near"
        id: Mapped[int] = mapped_column(primary_key=True)

    class Far(Base):
        __tablename__ = "far"
        metadata = far
        id: Mapped[int] = mapped_column(primary_key=True)

    class Plain:
        """A class without a base."""

    registry().map_imperatively(Plain, Table("plain", near, Column("id", Integer, primary_key=True)))
    known = Registry(near)
    assert (set(known.tables), set(known.mappers)) == ({"near", "plain"}, {"Near", "Plain"})
    freeze(plain_select(Plain), known)
    with pytest.raises(NotFreezableError, match="Far"):
        freeze(plain_select(Far), known)
