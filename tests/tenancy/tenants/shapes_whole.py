"""Statements made of statements: common table expressions, recursion, set operations; and what only PostgreSQL has."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CompoundSelect,
    Integer,
    String,
    and_,
    cast,
    column,
    except_,
    func,
    intersect,
    literal,
    null,
    select,
    true,
    tuple_,
    union,
    union_all,
    values,
)
from sqlalchemy.dialects.postgresql import distinct_on

from dualsql.freeze.document import Statement
from tests.tenancy.tenants.office import Person, ledger, north_ledger, south_ledger
from tests.tenancy.tenants.tpch import customer, lineitem, orders, part, partsupp, supplier

C, L, O, P, PS, S = (  # noqa: E741 - as TPC-H's specification writes them
    table.c for table in (customer, lineitem, orders, part, partsupp, supplier)
)
people: Any = Person.__table__

_totals = select(O.o_custkey, func.sum(O.o_totalprice).label("total")).group_by(O.o_custkey).cte("totals")
_best = select(func.max(_totals.c.total).label("best")).cte("best")
_other = _totals.alias("other")


def _chain() -> Statement:
    """Each person with the path of managers above them."""
    chain = (
        select(people.c.id, people.c.name, literal(0).label("depth"))
        .where(people.c.manager_id.is_(None))
        .cte("chain", recursive=True)
    )
    below = select(people.c.id, people.c.name, chain.c.depth + 1).where(people.c.manager_id == chain.c.id)
    chain = chain.union_all(below.where(chain.c.depth < 30))
    return select(chain.c.id, chain.c.name, chain.c.depth)


def _reached() -> Statement:
    """Suppliers reached from one of them by shared parts: the table twice in the recursive half."""
    reached = select(PS.ps_suppkey.label("key")).where(PS.ps_partkey == 1).cte("reached", recursive=True)
    here, there = partsupp.alias("here"), partsupp.alias("there")
    step = (
        select(there.c.ps_suppkey)
        .select_from(reached)
        .join(here, here.c.ps_suppkey == reached.c.key)
        .join(there, and_(there.c.ps_partkey == here.c.ps_partkey, there.c.ps_partkey < 6))
    )
    reached = reached.union(step)
    return select(S.s_name).where(S.s_suppkey.in_(select(reached.c.key)))


def _numbers() -> Statement:
    """A recursion that reads no table, joined with one that does."""
    numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
    numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < 12))
    return select(numbers.c.n, C.c_comment).select_from(
        numbers.outerjoin(customer, C.c_custkey == numbers.c.n)
    )


_keys = select(C.c_custkey.label("key"), C.c_name.label("name"))
_supplier_keys = select(S.s_suppkey, S.s_name)
_both = union(_keys, _supplier_keys).subquery("both")
_ordering = select(O.o_custkey, C.c_name).where(O.o_custkey == C.c_custkey)
_ranked = select(
    O.o_custkey,
    O.o_orderkey,
    func.row_number().over(partition_by=O.o_custkey, order_by=O.o_orderkey.desc()).label("nth"),
).subquery("ranked")

WHOLE: dict[str, Statement] = {
    "common table expression": select(_totals),
    "common table expression used twice": select(_totals.c.o_custkey, _other.c.o_custkey).where(
        _totals.c.total < _other.c.total
    ),
    "nested common table expressions": select(C.c_name, _totals.c.total)
    .join_from(customer, _totals, _totals.c.o_custkey == C.c_custkey)
    .join(_best, _best.c.best == _totals.c.total),
    "common table expression in a subquery": select(C.c_name).where(
        C.c_custkey.in_(select(_totals.c.o_custkey).where(_totals.c.total > 100_000_000))
    ),
    "common table expression beside its table": select(_totals.c.total, O.o_orderkey).where(
        _totals.c.o_custkey == O.o_custkey
    ),
    "recursive": _chain(),
    "recursive over a join": _reached(),
    "recursive numbers, left join": _numbers(),
    "union": union(_keys, _supplier_keys),
    "union all": union_all(select(C.c_comment), select(S.s_comment), select(P.p_comment)),
    "union all, ordered and limited": union_all(_keys, _supplier_keys).order_by("key", "name").limit(9),
    "intersect": intersect(select(C.c_custkey), select(S.s_suppkey)),
    "except": except_(select(C.c_custkey), select(O.o_custkey)),
    "except of unions": except_(
        union(select(C.c_custkey), select(S.s_suppkey)).subquery().select(), select(O.o_custkey)
    ),
    "union of unions": select(
        union_all(union(_keys, _ordering).subquery().select(), _supplier_keys).subquery("everything")
    ),
    "union in FROM, joined": select(C.c_phone, _both.c.name).join_from(
        customer, _both, _both.c.key == C.c_custkey
    ),
    "window in FROM, joined": select(_ranked.c.o_orderkey, C.c_phone)
    .join_from(_ranked, customer, _ranked.c.o_custkey == C.c_custkey)
    .where(_ranked.c.nth == 1),
    "union in IN": select(L.l_comment).where(
        L.l_partkey.in_(union(select(C.c_custkey), select(S.s_suppkey)).subquery().select()),
        L.l_linenumber == 7,
    ),
    "a window's first rows": select(_ranked.c.o_custkey, _ranked.c.o_orderkey).where(_ranked.c.nth <= 2),
}


def _lateral() -> Statement:
    latest = (
        select(O.o_orderkey, O.o_totalprice)
        .where(O.o_custkey == C.c_custkey)
        .order_by(O.o_orderdate.desc(), O.o_orderkey)
        .limit(2)
        .lateral("latest")
    )
    return select(C.c_name, latest.c.o_orderkey).select_from(customer.outerjoin(latest, true()))


def _lateral_of_lateral() -> Statement:
    order = (
        select(O.o_orderkey)
        .where(O.o_custkey == C.c_custkey)
        .order_by(O.o_orderkey)
        .limit(1)
        .lateral("first")
    )
    line = select(L.l_comment).where(L.l_orderkey == order.c.o_orderkey).lateral("its_lines")
    return select(C.c_name, line.c.l_comment).select_from(customer).join(order, true()).join(line, true())


def _all_ledgers() -> CompoundSelect[Any]:
    books = (ledger, north_ledger, south_ledger)
    return union_all(*(select(book.c.entry, book.c.amount) for book in books))


_numbers_listed = values(column("n", Integer), column("word", String), name="listed").data(
    [(1, "one"), (2, "two"), (999, "none")]
)
_series = func.generate_series(1, 6).table_valued("n", name="series").render_derived()
_words = func.regexp_split_to_table(C.c_comment, " ").table_valued("word", name="words").render_derived()
_sampled = customer.tablesample(func.bernoulli(100), name="sampled", seed=func.abs(7))
_guest = customer.alias("guest")
_taken = func.generate_series(1, 3).table_valued("c_custkey", name="customer").render_derived()
_north, _south = north_ledger.alias("n"), south_ledger.alias("s")

POSTGRESQL_ONLY: dict[str, Statement] = {
    "lateral": _lateral(),
    "lateral of a lateral": _lateral_of_lateral(),
    "DISTINCT ON": select(O.o_custkey, O.o_orderkey, O.o_comment)
    .order_by(O.o_custkey, O.o_orderkey.desc())
    .ext(distinct_on(O.o_custkey)),
    "VALUES joined": select(_numbers_listed.c.word, C.c_name).select_from(
        _numbers_listed.outerjoin(customer, C.c_custkey == _numbers_listed.c.n)
    ),
    "table-valued function": select(_series.c.n, C.c_comment).select_from(
        _series.outerjoin(customer, C.c_custkey == _series.c.n)
    ),
    "function of a guarded column in FROM": select(C.c_custkey, _words.c.word).select_from(
        customer.join(_words, true())
    ),
    "function of a guarded column as a column": select(
        C.c_custkey, func.regexp_split_to_table(C.c_comment, " ").column_valued("word", joins_implicitly=True)
    ),
    "TABLESAMPLE": select(_sampled.c.c_name, _sampled.c.c_comment),
    "TABLESAMPLE joined with its table": select(_sampled.c.c_custkey, C.c_comment).where(
        _sampled.c.c_custkey == C.c_custkey
    ),
    "ROLLUP": select(O.o_orderstatus, O.o_orderpriority, func.count()).group_by(
        func.rollup(O.o_orderstatus, O.o_orderpriority)
    ),
    "GROUPING SETS": select(P.p_brand, P.p_size, func.count()).group_by(
        func.grouping_sets(tuple_(P.p_brand), tuple_(P.p_size))
    ),
    "CUBE": select(L.l_shipmode, L.l_returnflag, func.sum(L.l_quantity)).group_by(
        func.cube(L.l_shipmode, L.l_returnflag)
    ),
    "FOR UPDATE": select(C.c_custkey, C.c_name).with_for_update(),
    "FOR UPDATE OF": select(C.c_name, O.o_orderkey)
    .where(C.c_custkey == O.o_custkey)
    .with_for_update(of=orders, skip_locked=True),
    "FETCH FIRST": select(O.o_orderkey).order_by(O.o_orderkey).fetch(4),
    "FETCH WITH TIES in a subquery": select(
        select(O.o_custkey).order_by(O.o_custkey).fetch(3, with_ties=True).subquery("tied")
    ),
    "one name in three schemas": _all_ledgers(),
    "one name in three schemas, joined": select(ledger, north_ledger, south_ledger).where(
        ledger.c.amount * 10 == north_ledger.c.amount, north_ledger.c.amount * 10 == south_ledger.c.amount
    ),
    "a schema's table alone": select(south_ledger.c.entry, func.sum(south_ledger.c.amount)).group_by(
        south_ledger.c.entry
    ),
    "a schema's table, aliased": select(_north.c.entry, _south.c.entry).select_from(
        _north.outerjoin(_south, _north.c.amount * 10 == _south.c.amount)
    ),
    "a schema's table, grouped by its key": select(north_ledger.c.entry, func.count())
    .group_by(north_ledger.c.id)
    .order_by(north_ledger.c.amount),
    "arrays": select(func.array_agg(C.c_custkey), func.string_agg(C.c_mktsegment, ",")).where(
        C.c_custkey == 1
    ),
    "whole row as JSON": select(func.to_jsonb(C.c_comment), func.jsonb_build_object("k", C.c_name)),
    "whole row of a table": select(func.to_jsonb(customer.table_valued())),
    "whole row of an alias": select(func.to_jsonb(_guest.table_valued()), _guest.c.c_name),
    "whole rows counted": select(func.count(customer.table_valued())),
    "function that takes a table's name": select(_taken.c.c_custkey, _guest.c.c_comment).where(
        _taken.c.c_custkey == _guest.c.c_custkey
    ),
    "ordered-set aggregate": select(func.percentile_cont(0.5).within_group(O.o_totalprice)),
    "a null among types": union_all(select(C.c_custkey, cast(null(), String)), select(S.s_suppkey, S.s_name)),
}
