"""DISTINCT wherever its author wrote the word, joins without an ON, words that are rendered as written."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, distinct, func, literal, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql.elements import UnaryExpression

from dualsql import sqlalchemy_internals as internals
from dualsql.databases.source import open_source
from dualsql.errors import NotFreezableError
from dualsql.freeze import Proofs, Registry, freeze, prove_equal, thaw
from dualsql.plan import shape, written_out
from dualsql.plan.derived import projected
from tests.freeze.dialects import DIALECTS
from tests.freeze.own import Everything
from tests.freeze.test_round_trip import ALL, can_compile
from tests.plan.test_statements import sql
from tests.schools import School

# SQLAlchemy's advice to the author of a statement.
pytestmark = pytest.mark.filterwarnings("ignore:Column-expression-level unary distinct")

metadata = MetaData()
projects = Table("projects", metadata, Column("id", Integer, primary_key=True), Column("name", String))
builders = Table(
    "builders",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", ForeignKey("projects.id")),
)
builds = Table(
    "builds", metadata, Column("id", Integer, primary_key=True), Column("builder", ForeignKey("builders.id"))
)


class Base(DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owners"

    id: Mapped[int] = mapped_column(primary_key=True)


class Pet(Base):
    __tablename__ = "pets"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner_id: Mapped[int] = mapped_column(ForeignKey("owners.id"))


class Toy(Base):
    __tablename__ = "toys"

    id: Mapped[int] = mapped_column(primary_key=True)
    pet_id: Mapped[int] = mapped_column(ForeignKey("pets.id"))


named = distinct(School.state).label("s")
STATES = select(School.state).distinct()

DISTINCT: dict[str, tuple[Any, Any]] = {
    "distinct()": (select(distinct(School.state)), STATES),
    "method": (select(School.state.distinct()), STATES),
    "function": (select(func.distinct(School.state)), STATES),
    "prefix": (select(School.state).prefix_with("DISTINCT"), STATES),
    "prefix and clause": (select(School.state).prefix_with("distinct").distinct(), STATES),
    "comment": (
        select(School.state).prefix_with("/* a */ /*+ b */", "DISTINCT"),
        STATES.prefix_with("/* a */ /*+ b */"),
    ),
    "first of two": (
        select(distinct(School.state), School.name),
        select(School.state, School.name).distinct(),
    ),
    "ordered by its label": (
        select(named).order_by(named.desc()),
        select(School.state.label("s")).distinct().order_by(School.state.label("s").desc()),
    ),
    "joined": (
        select(distinct(projects.c.name)).join(builders).join(builds),
        select(projects.c.name).distinct().select_from(projects).join(builders).join(builds),
    ),
}


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_as_a_word_is_distinct_as_a_clause(name: str) -> None:
    written, meant = DISTINCT[name]
    statement = shape(written).select
    assert sql(statement) == sql(shape(meant).select)
    assert statement._distinct
    assert not any(isinstance(column, UnaryExpression) for column in statement.selected_columns)


@pytest.mark.parametrize(
    "statement",
    [
        select(func.count(distinct(School.state)).label("n")),
        select((func.count(func.distinct(School.state)) + 1).label("n")),
        select(School.name, func.group_concat(School.state.distinct()).label("s")).group_by(School.name),
        select(select(distinct(School.state)).limit(1).scalar_subquery().label("one")),
        select(select(distinct(School.state).label("state")).subquery()),
    ],
    ids=["count", "function in a count", "aggregate", "subquery of one value", "subquery"],
)
def test_where_the_word_belongs_to_an_aggregate_or_a_subquery_it_stays(statement: Any) -> None:
    assert sql(shape(statement).select) == sql(statement)


REFUSED = {
    "second column": select(School.name, distinct(School.state)),
    "in an expression": select(distinct(School.state) + "x"),
    "of two": select(func.distinct(School.state, School.name)),
    "prefix": select(School.state).prefix_with("TOP 5"),
    "distinct of one dialect": select(School.state).prefix_with("DISTINCT", dialect="mysql"),
    "between comments": select(School.state).prefix_with("/* a */ DISTINCT /* b */"),
    "run by MariaDB": select(School.state).prefix_with("/*! DISTINCT */"),
    "run by MariaDB alone": select(School.state).suffix_with("/*M!100100 LIMIT 3 */"),
    "comment in a comment": select(School.state).suffix_with("/* /* */ LIMIT 3 -- */"),
    "suffix": select(School.state).suffix_with("LIMIT 3"),
    "statement hint": select(School.state).with_statement_hint("LIMIT 3"),
    "clause of a custom class": select(School.state).ext(Everything()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_change_rows_and_is_not_understood_is_refused(name: str) -> None:
    with pytest.raises(NotFreezableError, match=r"distinct|may change which rows"):
        shape(REFUSED[name])


JOINS = {
    "chain": select(projects).join(builders).join(builds),
    "outer": select(projects.c.name).outerjoin(builders).outerjoin(builds),
    "of two tables": select(projects.c.id, builds.c.id.label("build")).join(
        builders, builders.c.project == projects.c.id
    ),
    "by a condition's table": select(literal(1).label("n"))
    .where(projects.c.id == 1)
    .join(builders)
    .join(builds),
    "columns chosen later": select(projects).join(builders).join(builds).with_only_columns(projects.c.name),
    "mapped": select(Owner).join(Pet).join(Toy),
    "mapped columns": select(Owner.id).join(Pet, Pet.owner_id == Owner.id).join(Toy, Toy.pet_id == Pet.id),
    "mapped, chosen later": select(Owner).join(Pet).with_only_columns(Pet.id).join(Toy),
}


@pytest.mark.parametrize("name", JOINS)
def test_more_columns_and_conditions_leave_the_joins_as_they_are(name: str) -> None:
    statement = shape(JOINS[name]).select
    assert sql(statement) == sql(JOINS[name])
    joined = sql(JOINS[name]).partition("FROM")[2].partition("WHERE")[0].strip()
    keys: list[Any] = [table.c.id for table in metadata.tables.values() if table.name in joined]
    keys = keys or [Owner.id, Pet.id, Toy.id]
    more = statement.add_columns(*(key.label(None) for key in keys)).where(*(key > 0 for key in keys))
    assert sql(more).partition("FROM")[2].partition("WHERE")[0].strip() == joined


@pytest.mark.parametrize("name", JOINS)
def test_fewer_columns_leave_the_joins_as_they_are_or_are_not_chosen(name: str) -> None:
    statement = shape(JOINS[name]).select
    for position in range(len(statement.selected_columns)):
        fewer = projected(statement, [position])
        assert fewer is None or sql(fewer).partition("FROM")[2] == sql(statement).partition("FROM")[2]


# Columns of subqueries that have no name of their own: SQLAlchemy's cache keys tell none from the next.
UNNAMED: dict[str, Any] = {
    "functions": select(func.min(projects.c.name), func.min(projects.c.id)).subquery("data"),
    "expressions": select(projects.c.id % 3, -projects.c.id, projects.c.id / 2).subquery("data"),
    "of one name": select(projects, builders, builds)
    .join_from(projects, builders)
    .join(builds)
    .subquery("data"),
    "of a union": select(-projects.c.id, -builders.c.id)
    .union(select(builds.c.id, -builds.c.id))
    .subquery("data"),
    "of a CTE": select(func.min(projects.c.name), func.min(projects.c.id)).cte("data"),
    "of a subquery of a subquery": select(
        *select(func.min(projects.c.name), func.min(projects.c.id)).subquery("inner").c
    ).subquery("data"),
}


@pytest.mark.parametrize("name", UNNAMED)
def test_statements_that_differ_have_cache_keys_that_differ(name: str) -> None:
    columns = list(UNNAMED[name].c)
    for write in (
        select,
        lambda column: select(func.count()).select_from(UNNAMED[name]).where(column == 1),
        lambda column: select(func.max(column).label("most")).group_by(column),
        lambda column: select(select(column.label("one")).where(column > 1).exists()),
        lambda column: select(column).union(select(projects.c.id)),
    ):
        actual = [shape(write(column)).select for column in columns]
        keys = {getattr(statement._generate_cache_key(), "key", None) for statement in actual}
        assert len(keys) == len({sql(statement) for statement in actual}) == len(columns)


def test_a_statement_is_read_in_time_linear_in_its_elements() -> None:
    actual = select(func.count(School.id), School.state).group_by(School.state).cte("c0")
    for number in range(1, 12):
        one, other = actual.alias(), actual.alias()
        joined = (
            select(func.max(one.c[0]), other.c[1]).join(other, one.c[1] == other.c[1]).group_by(other.c[1])
        )
        actual = joined.cte(f"c{number}")
    began = time.perf_counter()
    shape(select(actual.c[0], actual.c[1]))
    assert time.perf_counter() - began < 2


def test_what_is_noted_of_a_plain_statement_changes_no_plan() -> None:
    """A statement that was read back and compared has the shape of one that is read from its document later."""
    noted = 0
    for registry, statement in ALL.values():
        dialect = next(each for each in DIALECTS.values() if can_compile(statement, each))
        proofs = Proofs()
        document = freeze(written_out(statement), registry, dialect=dialect, proofs=proofs)
        kept, later = thaw(document, registry, proofs), thaw(document, registry)
        if internals.noted(kept, "dualsql_plain"):
            noted += 1
            one, other = shape(kept), shape(later)
            prove_equal(one.select, other.select, dialect)
            assert [column.name for column in one.columns] == [column.name for column in other.columns]
            assert not internals.noted(one.select.limit(1), "dualsql_plain")
    assert noted > 10


async def test_a_statement_whose_columns_are_labelled_is_known_by_its_own_form() -> None:
    source = open_source("default", "sqlite:///:memory:", Registry(metadata))
    statement = select(projects.c.id, builders.c.id, builds.c.id.label("x")).select_from(
        projects, builders, builds
    )
    assert source.proofs.known(statement) is None
    document = source.freeze(statement)
    assert source.proofs.known(statement) == document == source.freeze(statement)
    others = [statement.limit(1), statement.with_only_columns(projects.c.id, builders.c.id)]
    assert not any(map(source.proofs.known, others))
    await source.close()
    source = open_source("default", "sqlite:///:memory:", Registry(Base))
    opened = select(Owner, Pet.id)
    assert source.freeze(opened) == source.freeze(opened)
    assert source.proofs.known(opened) is None
    await source.close()
