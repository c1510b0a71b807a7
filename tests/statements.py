"""Statements of every shape a tool might hand over, by name; used wherever a promise holds for "any Select"."""

from __future__ import annotations

from sqlalchemy import (
    Integer,
    String,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    select,
    text,
    true,
    union,
    union_all,
    values,
)
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import aliased

from dualsql.freeze.document import Statement
from tests.schools import Program, School, visits

Other = aliased(School, name="other")

_per_state = select(School.state, func.count().label("schools")).group_by(School.state)
_per_state_cte = _per_state.cte("per_state")
_numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
_numbers = _numbers.union_all(select(_numbers.c.n + 1).where(_numbers.c.n < 17))
_nj = select(School.id, School.name, School.state).where(School.state == "NJ")
_big = select(School.id, School.name, School.state).where(School.enrollment >= 100)
_programs = select(Program.school_id, func.max(Program.earnings).label("best")).group_by(Program.school_id)
_latest = (
    select(Program.field)
    .where(Program.school_id == School.id)
    .order_by(Program.field.desc())
    .limit(1)
    .lateral("latest")
)
_numbers_of_schools = select(School.tuition, School.rating).subquery("numbers_of_schools")
_levels = select(School.id, Program.level).join(School.programs).subquery().alias("levels")
_best = _programs.subquery("best")

STATEMENTS: dict[str, Statement] = {
    "entity": select(School),
    "entity, filtered": select(School).where(School.state == "NJ", School.enrollment.is_not(None)),
    "ordered with ties": select(School.id, School.state).order_by(School.state.desc(), School.name),
    "key not in the output": select(School.state, School.enrollment),
    "author's own limit": select(School.id, School.state).order_by(School.state).limit(13).offset(2),
    "limit without order": select(School.state).limit(9),
    "relationship join": select(School.name, Program.field, Program.level).join(School.programs),
    "outer join": select(School.name, Program.field).outerjoin(School.programs).order_by(School.name),
    "two entities": select(School, Program).join(School.programs),
    "self join": select(School.name, Other.name).join(Other, Other.id == School.id + 1),
    "equal labels": select(School.id.label("x"), School.state.label("x")),
    "aggregate": _per_state,
    "aggregate, ordered": _per_state.order_by(func.count().desc()),
    "having": _per_state.having(func.count() > 2),
    "one row": select(func.count(), func.avg(School.enrollment), func.max(School.founded)),
    "group key not in the output": select(func.count().label("n"))
    .select_from(School)
    .group_by(School.state, School.enrollment),
    "distinct": select(School.state, School.enrollment).distinct(),
    "distinct numbers": select(School.tuition, School.rating).distinct(),
    "numbers of a subquery": select(_numbers_of_schools.c.tuition, _numbers_of_schools.c.rating),
    "alias of a subquery": select(_levels.c.level),
    "distinct, ordered": select(School.state).distinct().order_by(School.state.desc()),
    "union": union(_nj, _big),
    "union all, ordered": union_all(_nj, _big).order_by("name", "id"),
    "union all, limited": union_all(_nj, _big).order_by("name").limit(7),
    "common table expression": select(_per_state_cte),
    "joined common table expression": select(School.id, _per_state_cte.c.schools).join(
        _per_state_cte, _per_state_cte.c.state == School.state
    ),
    "recursive": select(_numbers.c.n),
    "subquery": select(School.name, _best.c.best).join(_best, _best.c.school_id == School.id),
    "scalar subquery": select(
        School.name,
        select(func.count()).where(Program.school_id == School.id).scalar_subquery().label("programs"),
    ),
    "exists": select(School.id).where(exists().where(Program.school_id == School.id, Program.level > 1)),
    "window": select(
        School.name,
        School.state,
        func.row_number().over(partition_by=School.state, order_by=School.enrollment).label("rank"),
    ),
    "case and cast": select(
        case((School.enrollment > 100, "big"), else_="small").label("size"), cast(School.id, String)
    ),
    "in": select(School.id, School.name).where(School.state.in_(["NJ", "PA"]), School.id.not_in([3])),
    "table without a key": select(visits),
    "part of a table without a key": select(visits.c.note, visits.c.school_id).order_by(visits.c.day),
}

# What SQLite has no words for.
POSTGRESQL_ONLY: dict[str, Statement] = {
    "values": select(
        values(column("a", Integer), column("b", String), name="v").data([(1, "x"), (2, "y"), (2, "y")])
    ),
    "distinct on": select(School.id, School.state, School.name).ext(distinct_on(School.state)),
    "rollup": select(School.state, School.control, func.count()).group_by(
        func.rollup(School.state, School.control)
    ),
    "lateral": select(School.id, _latest.c.field).join(_latest, true()),
    "groups of several rows": select(
        School.state, func.unnest(func.array_agg(School.id)).label("one")
    ).group_by(School.state),
    "keys of documents": select(
        School.id, func.jsonb_object_keys(func.jsonb_build_object("a", 1, "b", School.id)).label("key")
    ),
}

TEXT: dict[str, Statement] = {
    "text": text("SELECT id, state FROM schools WHERE state = :state OR state IS NULL")
    .bindparams(state="NJ")
    .columns(column("id", Integer), column("state", String)),
}
