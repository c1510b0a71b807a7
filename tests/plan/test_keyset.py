"""What a page beside a position compiles to; tests/results/paging proves that the rows are right."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Enum,
    Integer,
    MetaData,
    Select,
    Table,
    case,
    column,
    func,
    literal_column,
    select,
    union,
)

from dualsql.errors import NoTotalOrderError
from dualsql.plan import KeysetPosition, Ordered, ordered, page_beside, shape
from dualsql.plan.keys import depends_on_time, is_random
from tests.plan.test_statements import capabilities, sql
from tests.schools import Program, School, visits

PLAIN = select(School.id, School.state)
metadata = MetaData()
moods = Table(
    "moods", metadata, Column("id", Integer, primary_key=True), Column("mood", Enum("a", "b", name="m"))
)


def rows_of(statement: Any, dialect: str = "postgresql", sort: Any = (), **options: Any) -> Ordered:
    return ordered(shape(statement), capabilities(dialect), sort=sort, **options)


def beside(statement: Any, *values: Any, dialect: str = "postgresql", sort: Any = (), **position: Any) -> str:
    """The page after these values: WHERE, ORDER BY and what follows."""
    query = page_beside(rows_of(statement, dialect, sort), KeysetPosition(values=values, **position), limit=5)
    return _bare(sql(query.select, dialect))


def _bare(text: str) -> str:
    return re.sub(r"%\(\w+\)s(::\w+)?|%s", "?", text)


def where(text: str) -> str:
    return text.partition(" WHERE ")[2].partition(" ORDER BY ")[0].strip()


def order_by(text: str) -> str:
    return text.rpartition(" ORDER BY ")[2].partition(" LIMIT ")[0].strip()


def test_one_key() -> None:
    statement = beside(PLAIN, 7)
    assert (where(statement), order_by(statement)) == ("schools.id > ?", "schools.id")


def test_backward_every_key_is_turned_round() -> None:
    statement = beside(PLAIN.order_by(School.name), "x", 7, is_backward=True)
    assert where(statement) == "(schools.name, schools.id) < (?, ?)"
    assert order_by(statement) == "schools.name DESC, schools.id DESC"


def test_row_values_only_where_an_index_knows_them() -> None:
    statement = PLAIN.order_by(School.name.desc())
    assert where(beside(statement, "x", 7)) == "(schools.name, schools.id) < (?, ?)"
    assert where(beside(statement, "x", 7, dialect="mysql")) == (
        "schools.name <= ? AND (schools.name < ? OR schools.name = ? AND schools.id < ?)"
    )


def test_mixed_directions_begin_with_a_bound() -> None:
    statement = PLAIN.order_by(School.name.desc(), School.founded)
    assert where(beside(statement, "x", "2000-01-01", 7)).startswith(
        "schools.name <= ? AND (schools.name < ? OR "
    )


def test_nulls_that_follow_are_a_part_of_their_own() -> None:
    statement = beside(PLAIN.order_by(School.enrollment), 100, 7)
    assert statement.count("UNION ALL") == 1
    first, _, second = statement.partition(" UNION ALL ")
    assert (
        "WHERE (schools.enrollment, schools.id) > (?, ?) ORDER BY schools.enrollment, schools.id LIMIT"
        in first
    )
    assert "WHERE schools.enrollment IS NULL ORDER BY schools.id LIMIT" in second
    assert order_by(statement) == "result.key_1, result.id"


def test_beside_a_null_with_nothing_after_the_nulls() -> None:
    statement = beside(PLAIN.order_by(School.enrollment), None, 7)
    assert "UNION" not in statement
    assert where(statement) == "schools.enrollment IS NULL AND schools.id > ?"


def test_an_outer_join_makes_nulls_of_one_side_only() -> None:
    joined = select(School.id, Program.level).outerjoin(School.programs)
    keys = {str(key.expression): key.is_nullable for key in rows_of(joined).order.keys}
    assert keys["schools.id"] is False
    assert keys["programs.level"] is True


def test_a_masked_column_may_be_null() -> None:
    rows = rows_of(PLAIN.order_by(School.name), is_masked=lambda hidden: hidden.key == "name")
    assert [key.is_nullable for key in rows.order.keys] == [True, False]


@pytest.mark.parametrize(
    "statement",
    [
        select(School.state, func.count()).group_by(School.state),
        select(School.id).limit(5),
        select(School.id, func.row_number().over(order_by=School.id)),
        select(School.id).order_by(func.sum(School.id).over(order_by=School.id)),
    ],
    ids=["groups", "limit", "window", "ordered by a window"],
)
def test_where_taking_rows_away_would_change_others_the_condition_stands_outside(
    statement: Select[Any],
) -> None:
    count = len(rows_of(statement).order.keys)
    query = beside(statement, *range(count))
    assert query.index(") AS result WHERE ") > 0


def test_a_key_is_read_once_if_the_result_shows_it_as_it_is() -> None:
    shown = rows_of(select(School.id, School.name)).keyed_window
    assert (len(list(shown.select.selected_columns)), list(shown.positions)) == (2, [0])
    hidden = rows_of(select(School.name)).keyed_window
    assert (len(list(hidden.select.selected_columns)), list(hidden.positions)) == (2, [1])
    rounded = rows_of(select(School.id, School.tuition), sort=[{"field": "tuition"}]).keyed_window
    assert list(rounded.positions) == [2, 0], "a Numeric is shown as a type of SQLAlchemy's makes it"


def test_a_column_is_one_key_however_often_it_is_named() -> None:
    rows = rows_of(PLAIN.order_by(School.id.desc()), sort=[{"field": "id"}])
    assert len(rows.order.keys) == 1


def test_equal_rows_before_or_after_a_position() -> None:
    heap = select(visits.c.note)
    assert "OFFSET" in beside(heap, "a", equal_before=3)
    assert beside(heap, "a", equal_after=0).count("UNION ALL") == 1, "NULLs"
    assert beside(heap, "a", equal_after=2).count("UNION ALL") == 2


def test_an_enum_of_mariadb_is_ordered_by_number_and_only_where_it_is_known_to_be() -> None:
    assert "moods.mood + ?" in where(beside(select(moods).order_by(moods.c.mood), 1, 1, dialect="mysql"))
    both = union(select(moods.c.mood), select(moods.c.mood)).order_by("mood")
    assert rows_of(both, "mysql").order.obstacle
    assert not rows_of(both, "postgresql").order.obstacle


@pytest.mark.parametrize(
    "key", [func.random(), func.now() - School.updated, literal_column("1"), func.date("now")], ids=str
)
def test_no_place_can_be_told_in_an_order_that_moves(key: Any) -> None:
    rows = rows_of(select(School.id).order_by(key))
    assert rows.keyed_window.keys is None
    with pytest.raises(NoTotalOrderError) as refused:
        page_beside(rows, KeysetPosition(values=(1,)), limit=5)
    assert refused.value.hint


def test_distinct_rows_have_the_keys_they_show() -> None:
    hidden = select(School.state).distinct().order_by(School.name)
    assert rows_of(hidden, "sqlite").order.obstacle
    assert not rows_of(
        select(func.lower(School.state)).distinct().order_by(func.lower(School.state))
    ).order.obstacle


@pytest.mark.parametrize(
    ("expression", "is_clock"),
    [
        (func.date(column("x")), False),
        (func.date(), True),
        (func.age(column("x")), True),
        (func.age(column("x"), column("y")), False),
        (func.strftime("%Y", "now"), True),
        (case((column("x") == "today", 1), else_=2), False),
        (func.current_timestamp(), True),
    ],
    ids=str,
)
def test_what_is_a_clock(expression: Any, is_clock: bool) -> None:
    assert depends_on_time(expression) is is_clock
    assert not is_random(expression)


def test_orders_have_fingerprints_of_their_own() -> None:
    orders = [
        rows_of(PLAIN),
        rows_of(PLAIN, sort=[{"field": "state"}]),
        rows_of(PLAIN, sort=[{"field": "state", "order": "desc"}]),
        rows_of(PLAIN.order_by(func.lower(School.name))),
        rows_of(PLAIN.order_by(func.upper(School.name))),
        rows_of(select(Program)),
    ]
    assert len({rows.order.fingerprint for rows in orders}) == len(orders)
    assert rows_of(PLAIN).order.fingerprint == orders[0].order.fingerprint
    labelled = PLAIN.add_columns((School.id + 1).label(None))
    assert rows_of(labelled.order_by(School.id + 1)).order.fingerprint == (
        rows_of(labelled.order_by(School.id + 1)).order.fingerprint
    )


def test_hidden_keys_have_names_that_no_column_has() -> None:
    statement = select(School.id.label("key__1"), School.name.label("key_1")).order_by(School.state)
    page = rows_of(statement).keyed_window.select
    names = [column.name for column in page.selected_columns]
    assert len(names) == len(set(names)) == 3
