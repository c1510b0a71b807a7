"""The columns of a statement are those that the database returns for it, whatever its mapped classes load besides."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, ForeignKey, StaticPool, create_engine, func, inspect, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    joinedload,
    lazyload,
    mapped_column,
    relationship,
)
from sqlalchemy.orm.context import _ORMCompileState

from dualsql import NotFreezableError, Registry
from dualsql.freeze import freeze, thaw
from dualsql.plan import shape, written_out
from dualsql.plan.derived import with_outputs
from tests.columns.mappings.people import Account, Animal, Base, Dog, House, Moment, Room, fill
from tests.columns.mappings.statements import STATEMENTS

REGISTRY = Registry(Base)
# Their objects are no values, or the statement is of no session.
NO_OBJECTS = {"composite", "union", "union of all classes"}
# SQLAlchemy itself reads one column as two: the database finds the name ambiguous.
FAILS_AS_OBJECTS = {"class twice"}
# Without eager loads, SQLAlchemy reads no option; with them, rows have columns more.
LOADS_OTHERWISE = {
    "inner eager",
    "inner eager, limited",
    "inner eager, beyond an outer join",
    "inner eager by option",
    "inner eager of what is joined",
    "inner eager of an alias that is joined",
    "load_only",
    "defer",
    "undefer",
    "undefer_group",
    "undefer all",
    "with_expression",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with create_engine("sqlite://", poolclass=StaticPool).connect() as connection:
        fill(connection)
        connection.commit()
        yield connection


def rows_of(connection: Connection, statement: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in connection.execute(statement))


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", STATEMENTS)
def test_columns_and_rows_are_those_that_the_database_returns(connection: Connection, name: str) -> None:
    statement, expected = STATEMENTS[name]
    written = written_out(statement)
    assert [column.name for column in shape(written).columns] == expected.split()
    assert len(connection.execute(written).keys()) == len(expected.split())
    assert written_out(written) is written
    thawed = thaw(freeze(written, REGISTRY, dialect=connection.dialect), REGISTRY)
    assert rows_of(connection, thawed) == rows_of(connection, written)
    if name not in LOADS_OTHERWISE:
        assert rows_of(connection, written) == rows_of(connection, without_eager_loads(statement))


@pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian product")
@pytest.mark.parametrize(
    "statement",
    [
        select(func.sum(func.length(Dog.name) * Dog.tricks).label("x")),
        select((func.length(Dog.name) * Dog.tricks).label("x"), Dog.name),
        select(func.max(func.length(Animal.name)).label("x")),
        select((House.id + Account.id).label("x")).select_from(Account).join(Account.houses),
        select((House.id + Account.id).label("x")),
    ],
    ids=["a figure", "a sum beside a column", "one table", "a join", "every pair"],
)
def test_columns_that_are_left_out_leave_the_tables(connection: Connection, statement: Any) -> None:
    first = statement.selected_columns[0]
    wanted = [row[:1] for row in connection.execute(statement)]
    assert list(map(tuple, connection.execute(with_outputs(statement, [first])))) == wanted


def without_eager_loads(statement: Any) -> Any:
    """As `Query.enable_eagerloads(False)` makes it."""
    plainly = statement._generate()
    if hasattr(plainly, "_compile_options"):
        given = _ORMCompileState.default_compile_options.safe_merge(statement._compile_options)
        plainly._compile_options = given + {"_enable_eagerloads": False}
    return plainly


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", [name for name in STATEMENTS if name not in NO_OBJECTS | FAILS_AS_OBJECTS])
def test_as_many_rows_as_a_session_finds_objects(connection: Connection, name: str) -> None:
    statement, _ = STATEMENTS[name]
    with Session(connection) as session:
        actual = {tuple(map(identity, row)) for row in session.execute(statement).unique()}
    assert len(actual) == len(rows_of(connection, written_out(statement)))


def identity(value: Any) -> Any:
    return inspect(value).identity if hasattr(value, "__mapper__") else value


@pytest.mark.parametrize(
    "statement",
    [
        select(Room).distinct(),
        select(House).options(joinedload(House.owner, innerjoin=True)).limit(2),
        select(Room).options(joinedload(Room.house.and_(House.id > 1), innerjoin=True)),
    ],
    ids=["distinct", "limit beside a collection", "condition"],
)
def test_an_eager_load_that_chooses_among_made_rows_is_refused(statement: Any) -> None:
    with pytest.raises(NotFreezableError, match="innerjoin=True") as raised:
        written_out(statement)
    assert "lazyload" in raised.value.hint


def test_rows_stay_where_the_eager_load_is_taken_away(connection: Connection) -> None:
    assert (
        len(rows_of(connection, written_out(select(Room.id, Room).options(lazyload(Room.house)).distinct())))
        == 6
    )


def test_what_sqlalchemy_cannot_compile_is_refused() -> None:
    with pytest.raises(NotFreezableError, match="cannot compile it"):
        written_out(select(House).join(Base.metadata.tables["plain"]))


def test_an_eager_load_of_classes_with_own_types_is_stored() -> None:
    class Own(DeclarativeBase):
        pass

    class Parent(Own):
        __tablename__ = "parent"
        id: Mapped[int] = mapped_column(primary_key=True)
        kind: Mapped[str]
        at: Mapped[dt.datetime] = mapped_column(Moment)
        __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "p", "with_polymorphic": "*"}

    class Special(Parent):
        __tablename__ = "special"
        id: Mapped[int] = mapped_column(ForeignKey("parent.id"), primary_key=True)
        __mapper_args__ = {"polymorphic_identity": "s"}

    class Child(Own):
        __tablename__ = "child"
        id: Mapped[int] = mapped_column(primary_key=True)
        parent_id: Mapped[int] = mapped_column(ForeignKey("parent.id"))
        parent: Mapped[Parent] = relationship(lazy="joined", innerjoin=True)

    written = written_out(select(Child))
    registry = Registry(Own)
    thawed = thaw(freeze(written, registry), registry)
    assert str(thawed) == str(written)
    assert "EXISTS (SELECT 1 \nFROM parent AS parent_1" in str(written)
    Own.registry.dispose()
