"""Random statements over the tenants' tables: joins by any two whole numbers, subqueries wherever one may stand."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from sqlalchemy import Integer, and_, exists, false, func, or_, select, true, union, union_all

from dualsql.freeze.document import Statement
from tests.tenancy.tenants import tpch
from tests.tenancy.tenants.office import (
    AuthorPages,
    Contractor,
    Device,
    Document,
    Employee,
    Person,
    Tag,
    document_tags,
    ledger,
    urgent_orders,
    visits,
)

Source = Any
Condition = Any

TABLES: list[Any] = [
    tpch.customer,
    tpch.supplier,
    tpch.part,
    tpch.partsupp,
    tpch.orders,
    tpch.nation,
    Person.__table__,
    Employee.__table__,
    Contractor.__table__,
    Document.__table__,
    Tag.__table__,
    Device.__table__,
    AuthorPages.__table__,
    document_tags,
    ledger,
    urgent_orders,
    visits,
]
ALIASES = [None, "rooms", "Vehicles", 'a "name"']
"""Tables' own names among them: an alias may shadow a table that the statement does not read."""

Draw = st.DrawFn


@st.composite
def statements(draw: Draw) -> Statement:
    """A Select or a union of two, without LIMIT: what it answers is one multiset."""
    inner: Any = draw(_selects())
    match draw(
        st.sampled_from(["plain", "plain", "subquery", "cte", "cte twice", "union", "union all", "count"])
    ):
        case "subquery":
            return select(inner.subquery())
        case "cte":
            return select(inner.cte())
        case "cte twice":
            cte = inner.cte()
            again = cte.alias()
            return select(cte, *again.c).where(next(iter(cte.c)) == next(iter(again.c)))
        case "union":
            return union(inner, inner.where(draw(_where(inner.get_final_froms()))))
        case "union all":
            return union_all(inner, inner)
        case "count":
            return select(func.count()).select_from(inner.subquery())
    return inner  # type: ignore[no-any-return]


@st.composite
def _selects(draw: Draw) -> Any:
    sources = draw(_sources())
    joined, seen = sources[0], [sources[0]]
    for source in sources[1:]:
        kind = draw(st.sampled_from(["inner", "left", "left", "full"]))
        condition = draw(_joint(seen, source))
        if kind == "left" and draw(st.booleans()):
            condition = and_(condition, draw(_where([source])))
        joined = joined.join(source, condition, isouter=kind == "left", full=kind == "full")
        seen.append(source)
    columns = [column for source in sources for column in source.c]
    shown = draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4))
    outputs = [column.label(f"c{number}") for number, column in enumerate(shown)]
    statement: Any = select(*outputs).select_from(joined)
    if draw(st.booleans()):
        statement = statement.where(draw(_where(sources)))
    match draw(st.sampled_from(["rows", "rows", "distinct", "grouped"])):
        case "distinct":
            statement = statement.distinct()
        case "grouped":
            statement = statement.group_by(*shown).add_columns(func.count().label("n"))
    return statement


@st.composite
def _sources(draw: Draw) -> list[Source]:
    tables = draw(st.lists(st.sampled_from(TABLES), min_size=1, max_size=3))
    sources = [table.alias() if tables.count(table) > 1 else table for table in tables]
    name = draw(st.sampled_from(ALIASES))
    if name is not None:
        sources[0] = tables[0].alias(name)
    if draw(st.booleans()):
        narrower = select(tables[-1]).where(draw(_where([tables[-1]])))
        sources[-1] = narrower.subquery()
    return sources


def _numbers(source: Source) -> list[Any]:
    return [column for column in source.c if isinstance(column.type, Integer)]


@st.composite
def _joint(draw: Draw, seen: list[Source], source: Source) -> Condition:
    left = draw(st.sampled_from([column for one in seen for column in _numbers(one)]))
    return left == draw(st.sampled_from(_numbers(source)))


@st.composite
def _where(draw: Draw, sources: list[Source]) -> Condition:
    leaves = [leaf for source in sources for leaf in _leaves(source)]
    column = draw(st.sampled_from([column for leaf in leaves for column in _numbers(leaf)]))
    other: Any = draw(st.sampled_from(TABLES)).alias()
    theirs = draw(st.sampled_from(_numbers(other)))
    among = select(theirs).where(theirs.is_not(None))
    actual = draw(
        st.sampled_from(
            [
                column > draw(st.integers(-1, 20)),
                column.is_(None),
                column.in_(among),
                column.not_in(among),
                exists().where(theirs == column),
                ~exists().where(theirs == column),
                column == select(func.max(theirs)).scalar_subquery(),
                column <= select(func.count(theirs)).where(theirs == column).scalar_subquery(),
                or_(column == 2, column != 2, true()),
                and_(column.is_not(None), or_(false(), column.is_distinct_from(2))),
            ]
        )
    )
    return ~actual if draw(st.integers(0, 5)) == 0 else actual


def _leaves(source: Source) -> list[Source]:
    return [*_leaves(source.left), *_leaves(source.right)] if hasattr(source, "onclause") else [source]
