"""What a page and a count compile to; the tests beside this one prove that the rows are right."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Integer, Select, column, func, select, text, union_all
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.dialects.postgresql import distinct_on

from dualsql.capabilities import Capabilities, capabilities_of
from dualsql.errors import NotFreezableError, NoTotalOrderError, UnknownColumnError
from dualsql.plan import count, ordered, page, shape
from tests.schools import Program, School, visits

DIALECTS: dict[str, Any] = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(),
    "mysql": mysql.dialect(),
}


def capabilities(name: str) -> Capabilities:
    return capabilities_of(DIALECTS[name])


def sql(statement: Select[Any], dialect: str = "sqlite") -> str:
    return " ".join(str(statement.compile(dialect=DIALECTS[dialect])).split())


def order_of(statement: Any, dialect: str = "sqlite", sort: Any = ()) -> str:
    paged = page(ordered(shape(statement), capabilities(dialect), sort=sort), offset=0, limit=5)
    return sql(paged, dialect).rpartition(" ORDER BY ")[2].partition(" LIMIT ")[0].strip()


def test_primary_keys_settle_ties_even_when_they_are_not_in_the_output() -> None:
    assert order_of(select(School.name)) == "schools.id"
    assert (
        order_of(select(School.name).join(School.programs).order_by(School.state))
        == "schools.state, schools.id, programs.school_id, programs.field, programs.level"
    )


def test_group_keys_settle_ties_of_groups() -> None:
    grouped = select(func.count().label("n")).group_by(School.state).order_by(text("n"))
    assert order_of(grouped) == "n, schools.state NULLS LAST"


@pytest.mark.parametrize("superaggregate", [func.rollup, func.cube, func.grouping_sets])
def test_under_a_superaggregate_only_the_whole_row_tells_groups_apart(superaggregate: Any) -> None:
    grouped = select(School.state, School.control, func.count()).group_by(
        superaggregate(School.state, School.control)
    )
    assert order_of(grouped, "postgresql") == "schools.state, schools.control, count"


def test_an_aggregate_over_everything_is_not_ordered_by_a_key_it_has_not() -> None:
    assert order_of(select(func.max(School.enrollment))) == "max NULLS LAST", "the column's name"
    assert "schools.id" not in order_of(select(func.my_own_aggregate(School.enrollment)))


def test_the_whole_row_in_a_form_that_tells_all_values_apart() -> None:
    assert order_of(select(visits.c.note)) == '(visits.note COLLATE "BINARY") NULLS LAST'
    assert order_of(select(visits.c.note), "mysql") == (
        "CAST(visits.note AS BINARY) IS NULL, CAST(visits.note AS BINARY)"
    )
    assert order_of(select(visits.c.extra), "postgresql") == "CAST(visits.extra AS TEXT)"


def test_distinct_on_keeps_its_keys_in_front() -> None:
    kept = select(School.id, School.state).ext(distinct_on(School.state))
    assert order_of(kept, "postgresql").startswith("schools.state, ")


def test_sorting_a_cut_result_does_not_change_which_rows_it_has() -> None:
    cut = select(Program.level).order_by(Program.field).limit(3)
    by_level = ordered(shape(cut), capabilities("sqlite"), sort=[{"field": "level", "order": "desc"}])
    inner = sql(page(by_level, offset=0, limit=5))
    assert (
        inner.index("ORDER BY programs.field") < inner.index("LIMIT") < inner.index("ORDER BY result.level")
    )


def test_a_window_ends_where_the_author_s_limit_does() -> None:
    cut = ordered(shape(select(School.id).limit(10).offset(4)), capabilities("sqlite"))
    paged = page(cut, offset=8, limit=5)
    parameters = paged.compile(dialect=DIALECTS["sqlite"]).params
    assert sorted(parameters.values()) == [2, 12]


def test_nulls_last_where_a_null_can_be() -> None:
    assert order_of(select(School.enrollment), sort=[{"field": "enrollment"}]).startswith(
        "schools.enrollment NULLS LAST"
    )
    assert order_of(select(School.enrollment), "mysql", [{"field": "enrollment"}]).startswith(
        "schools.enrollment IS NULL, schools.enrollment, "
    )
    assert order_of(select(School.name), sort=[{"field": "name"}]) == "schools.name, schools.id"


def test_the_count_drops_the_order_and_keeps_the_limit() -> None:
    counted = sql(count(shape(select(School.id).order_by(School.name).limit(5))))
    assert "ORDER BY" not in counted
    assert "LIMIT" in counted


def test_row_locks_are_dropped() -> None:
    locked = select(School.id).with_for_update()
    paged = page(ordered(shape(locked), capabilities("postgresql")), offset=0, limit=1)
    assert "FOR UPDATE" not in sql(paged, "postgresql")


@pytest.mark.parametrize(
    "statement",
    [
        select(School.id).fetch(3, with_ties=True),
        select(School.id).fetch(3, percent=True),
        select(School.id).limit(func.abs(3)),
        text("SELECT id FROM schools ORDER BY id").columns(School.id),
        union_all(select(School.id), select(Program.level)).order_by(text("1 + 1")),
    ],
    ids=["ties", "percent", "expression", "text", "set operation by an expression"],
)
def test_what_cannot_be_cut_into_pages_is_refused_with_a_way_out(statement: Any) -> None:
    with pytest.raises(NoTotalOrderError) as refused:
        shape(statement)
    assert "subquery()" in refused.value.developer_hint


def test_a_column_of_bare_text_is_refused() -> None:
    with pytest.raises(NotFreezableError):
        shape(select(School.id, text("1")))


def test_an_unknown_sort_column_is_answered_with_a_guess() -> None:
    with pytest.raises(UnknownColumnError) as refused:
        order_of(select(School.enrollment), sort=[{"field": "enrolment"}])
    assert "'enrollment'" in refused.value.hint


def test_a_subquery_s_alias_is_no_table() -> None:
    """It copies the primary key flags of columns that a join repeats."""
    inner = select(School.id, Program.level).join(School.programs).subquery().alias("s")
    assert order_of(select(inner.c.level)) == "s.level NULLS LAST"


def test_numbers_that_are_equal_and_shown_differently_are_told_apart() -> None:
    numbers = select(School.tuition).subquery("n")
    assert order_of(select(numbers), "postgresql") == "n.tuition, CAST(n.tuition AS TEXT)"
    untyped: Any = select(column("x")).select_from(visits)
    assert order_of(untyped) == "x NULLS LAST, typeof(x) NULLS LAST"
    assert order_of(select(School.tuition).distinct(), "postgresql") == "schools.tuition", "merged already"


def test_an_order_needs_no_sql_of_another_database() -> None:
    """SQLAlchemy writes a slice of an array for PostgreSQL only."""
    items = column("items", postgresql.ARRAY(Integer))
    paged = page(ordered(shape(select(items[1:2], items)), capabilities("postgresql")), offset=0, limit=5)
    assert "items[" in str(paged.compile(dialect=postgresql.dialect()))
