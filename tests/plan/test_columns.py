"""Columns are named, typed and told apart by reading the Select."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ARRAY, Integer, Numeric, String, TypeDecorator, column, func, literal, select, types
from sqlalchemy.dialects.postgresql import INT4RANGE, INTERVAL
from sqlalchemy.orm import DeclarativeBase, Mapped, column_property, mapped_column

from dualsql.columns.meanings import Meanings
from dualsql.columns.result import result_columns
from dualsql_client.wire import ENCODINGS
from tests.schools import Program, School


def described(statement: Any) -> dict[str, tuple[str, str]]:
    columns = [column.describe() for column in result_columns(statement)]
    return {column["name"]: (column["type"], column["encoding"]) for column in columns}


def names(statement: Any) -> list[str]:
    return [column.name for column in result_columns(statement)]


def test_every_type_has_a_word_and_an_encoding() -> None:
    assert described(select(School)) == {
        "id": ("number", "integer"),
        "name": ("string", "text"),
        "state": ("string", "text"),
        "enrollment": ("number", "integer"),
        "endowment": ("number", "integer"),
        "tuition": ("number", "decimal"),
        "rating": ("number", "float"),
        "is_open": ("boolean", "boolean"),
        "founded": ("date", "date"),
        "updated": ("date", "datetime"),
        "bell": ("string", "time"),
        "term": ("string", "interval"),
        "code": ("string", "uuid"),
        "crest": ("string", "base64"),
        "control": ("string", "text"),
        "extra": ("string", "json"),
    }


def test_types_of_single_databases() -> None:
    class Money(TypeDecorator[Any]):
        impl = Numeric(10, 2)
        cache_ok = True

    statement = select(
        column("a", INTERVAL()),
        column("b", INT4RANGE()),
        column("c", Money()),
        column("d", types.NullType()),
        func.avg(column("e", Integer)),
    )
    assert list(described(statement).values()) == [
        ("string", "interval"),
        ("string", "text"),
        ("number", "decimal"),
        ("string", "any"),
        ("number", "any"),
    ]
    listed = result_columns(select(column("tags", ARRAY(Numeric))))[0].describe()
    assert (listed["encoding"], listed["items"]) == ("array", "decimal")


def test_no_encoding_is_unknown_to_the_wire() -> None:
    assert {encoding for _, encoding in described(select(School)).values()} <= ENCODINGS


def test_equal_names_are_told_apart_by_their_table() -> None:
    assert names(select(School.id, Program.school_id, School.id.label("id"))) == ["id", "school_id", "id_2"]
    assert names(select(School.id, School.id)) == ["id", "schools_id"]


def test_names_of_another_case_are_equal() -> None:
    """Databases read the first column of a subquery for both."""
    assert names(select(School.id.label("n"), School.name.label("N"))) == ["n", "N_2"]
    assert names(select(School.id.label("n"), School.name.label("N"), School.id.label("N_2"))) == [
        "n",
        "N_3",
        "N_2",
    ]


def test_a_name_that_is_already_there_is_not_given_twice() -> None:
    taken = select(School.id, School.id, School.name.label("schools_id"))
    assert names(taken) == ["id", "id_2", "schools_id"]


def test_expressions_without_a_name() -> None:
    assert names(select(func.count(), School.id + 1, literal(3))) == ["count", "column_2", "column_3"]


def test_strings_of_a_fixed_length_are_text() -> None:
    assert described(select(column("x", String(2)))) == {"x": ("string", "text")}


def test_a_computed_attribute_has_its_own_name() -> None:
    class Base(DeclarativeBase):
        pass

    class Box(Base):
        __tablename__ = "boxes"
        id: Mapped[int] = mapped_column(primary_key=True)
        width: Mapped[int]
        area: Mapped[int] = column_property(select(literal(1)).scalar_subquery())

    assert sorted(names(select(Box))) == ["area", "id", "width"]


def test_a_column_of_the_orm_is_that_of_its_own_statement() -> None:
    """It equals the table's, but the ORM reads it from what its statement joins: rows of other sources were counted."""
    meanings = Meanings()
    for statement in (select(School.__table__), select(School.id), select(School.id), select(School)):
        items = list(statement.selected_columns.items())
        columns = result_columns(statement, meanings)
        assert all(column.expression is element for column, (_, element) in zip(columns, items, strict=True))
