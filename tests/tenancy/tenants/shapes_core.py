"""Shapes of FROM: each kind of join, anti-join, alias and source, by name, for SQLite and PostgreSQL alike.

Joins are by natural keys, which overlap between tenants: rows of another tenant's would join.
"""

from __future__ import annotations

from datetime import date

from sqlalchemy import (
    Integer,
    String,
    and_,
    cast,
    column,
    exists,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    tuple_,
)

from dualsql.freeze.document import Statement
from tests.tenancy.tenants.office import AuthorPages, calendar, ledger, oddities, urgent_orders, visits
from tests.tenancy.tenants.tpch import customer, lineitem, nation, orders, part, partsupp, region, supplier

C, L, N, O, P, PS, S = (  # noqa: E741 - as TPC-H's specification writes them
    table.c for table in (customer, lineitem, nation, orders, part, partsupp, supplier)
)
pages = AuthorPages.__table__
other = customer.alias("other")
again = other.alias("again")
_odd = oddities.alias('an "odd" :alias %s')
first, second = orders.alias("first"), orders.alias("second")

_placed = C.c_custkey == O.o_custkey
_large = select(O.o_orderkey, O.o_custkey, O.o_totalprice).where(O.o_totalprice > 30_000_000)
_large_orders = _large.subquery("large_orders")
_returned = and_(L.l_orderkey == O.o_orderkey, L.l_returnflag == "R")
_suppliers_parts = partsupp.join(supplier, PS.ps_suppkey == S.s_suppkey)

JOINS: dict[str, Statement] = {
    "inner join": select(C.c_name, O.o_totalprice).join_from(customer, orders, _placed),
    "join in WHERE": select(C.c_name, O.o_totalprice).where(_placed),
    "left join": select(C.c_name, O.o_comment).select_from(customer.outerjoin(orders, _placed)),
    "left join, a condition on the nullable side": select(C.c_name, O.o_comment).select_from(
        customer.outerjoin(orders, and_(_placed, O.o_orderstatus == "F"))
    ),
    "left join, filtered after": select(C.c_name, O.o_comment)
    .select_from(customer.outerjoin(orders, _placed))
    .where(or_(O.o_orderkey.is_(None), O.o_totalprice > 10_000_000)),
    "outerjoin_from": select(P.p_name, L.l_quantity).outerjoin_from(
        part, lineitem, and_(P.p_partkey == L.l_partkey, L.l_quantity > 45)
    ),
    "right join": select(O.o_orderkey, C.c_name).select_from(orders.outerjoin(customer, _placed)),
    "full join": select(S.s_name, C.c_name).select_from(
        supplier.join(customer, S.s_suppkey == C.c_custkey, full=True)
    ),
    "full join of filtered subqueries": select(_large_orders.c.o_orderkey, L.l_linenumber).select_from(
        _large_orders.join(
            lineitem, and_(_large_orders.c.o_orderkey == L.l_orderkey, L.l_quantity > 48), full=True
        )
    ),
    "cross join": select(S.s_name, visits.c.day).select_from(supplier.join(visits, true())),
    "natural-like join on every shared value": select(C.c_name, S.s_name).join_from(
        customer, supplier, and_(C.c_nationkey == S.s_nationkey, C.c_custkey == S.s_suppkey)
    ),
    "chain of outer joins": select(C.c_name, O.o_orderkey, L.l_quantity, P.p_name).select_from(
        customer.outerjoin(orders, _placed)
        .outerjoin(lineitem, _returned)
        .outerjoin(part, P.p_partkey == L.l_partkey)
    ),
    "join inside a nullable side": select(P.p_name, S.s_name).select_from(
        part.outerjoin(_suppliers_parts, and_(P.p_partkey == PS.ps_partkey, PS.ps_availqty > 5_000))
    ),
    "nested joins on both sides": select(C.c_name, N.n_name, O.o_orderkey, L.l_linenumber).select_from(
        customer.join(nation, C.c_nationkey == N.n_nationkey).outerjoin(
            orders.join(lineitem, _returned), _placed
        )
    ),
    "inner after outer": select(C.c_name, O.o_orderkey, S.s_name).select_from(
        customer.outerjoin(orders, _placed).join(supplier, S.s_nationkey == C.c_nationkey)
    ),
    "shared tables between": select(N.n_name, func.count(C.c_custkey), func.count(S.s_suppkey))
    .select_from(
        nation.outerjoin(customer, C.c_nationkey == N.n_nationkey).outerjoin(
            supplier, S.s_nationkey == N.n_nationkey
        )
    )
    .group_by(N.n_name),
    "shared tables alone": select(N.n_name, region.c.r_name).join_from(
        nation, region, N.n_regionkey == region.c.r_regionkey
    ),
    "left join to a shared table": select(visits.c.note, calendar.c.season).select_from(
        visits.outerjoin(calendar, calendar.c.day == visits.c.day)
    ),
    "shared table left join guarded": select(calendar.c.day, visits.c.note).select_from(
        calendar.outerjoin(visits, calendar.c.day == visits.c.day)
    ),
    "self-join": select(C.c_name, other.c.c_name).join_from(
        customer, other, and_(C.c_nationkey == other.c.c_nationkey, C.c_custkey < other.c.c_custkey)
    ),
    "self left join": select(C.c_name, other.c.c_name).select_from(
        customer.outerjoin(other, and_(C.c_nationkey == other.c.c_nationkey, C.c_custkey < other.c.c_custkey))
    ),
    "alias alone": select(other),
    "alias of an alias": select(again.c.c_name, S.s_name).where(again.c.c_custkey == S.s_suppkey),
    "two aliases and the table": select(O.o_orderkey, first.c.o_orderkey, second.c.o_orderkey).where(
        O.o_orderkey + 1 == first.c.o_orderkey, first.c.o_orderkey + 1 == second.c.o_orderkey
    ),
    "aliased subquery": select(_large_orders.alias("big").c.o_totalprice),
    "join of a subquery": select(C.c_name, _large_orders.c.o_totalprice).join_from(
        customer, _large_orders, _large_orders.c.o_custkey == C.c_custkey
    ),
    "subquery of a subquery": select(select(_large.subquery("inner").c.o_custkey).subquery("outer")),
    "NOT EXISTS": select(C.c_name).where(~exists().where(O.o_custkey == C.c_custkey)),
    "LEFT JOIN, IS NULL": select(C.c_name)
    .select_from(customer.outerjoin(orders, _placed))
    .where(O.o_orderkey.is_(None)),
    "NOT IN": select(C.c_custkey, C.c_name).where(C.c_custkey.not_in(select(O.o_custkey))),
    "EXISTS": select(S.s_name).where(exists().where(L.l_suppkey == S.s_suppkey, L.l_quantity > 49)),
    "EXISTS in EXISTS": select(C.c_name).where(
        exists().where(
            O.o_custkey == C.c_custkey,
            ~exists().where(L.l_orderkey == O.o_orderkey, L.l_returnflag == "R"),
        )
    ),
    "IN of a subquery": select(S.s_name).where(
        S.s_suppkey.in_(select(PS.ps_suppkey).where(PS.ps_availqty > 9_000))
    ),
    "tuple IN a subquery": select(L.l_orderkey, L.l_linenumber).where(
        tuple_(L.l_partkey, L.l_suppkey).in_(
            select(PS.ps_partkey, PS.ps_suppkey).where(PS.ps_availqty > 8_000)
        )
    ),
    "tuple IN a list": select(L.l_comment).where(
        tuple_(L.l_orderkey, L.l_linenumber).in_([(1, 1), (2, 1), (7, 2), (40, 7)])
    ),
    "NOT of everything": select(C.c_comment).where(not_(or_(C.c_custkey > 3, C.c_acctbal < 0))),
    "OR at the top": select(C.c_comment).where(or_(C.c_custkey == 1, C.c_custkey == 2, true())),
    "parts of texts": select(P.p_name, P.p_type).where(
        or_(P.p_name.contains("green"), P.p_name.istartswith("F"), not_(P.p_type.icontains("brass"))),
        or_(P.p_type.endswith("L"), P.p_type.startswith("PROMO"), P.p_name.iendswith("%", autoescape=True)),
    ),
    "a table without a key": select(visits),
    "names that must be quoted": select(oddities).where(
        or_(oddities.c.percent == 1, oddities.c.unicode.like("%0%")), oddities.c.quoted.is_not(None)
    ),
    "names that must be quoted, grouped": select(
        _odd.c.mixed, oddities.c.dotted, func.count().label("how many")
    )
    .join_from(_odd, oddities, _odd.c.percent == oddities.c.percent)
    .group_by(_odd.c.mixed, oddities.c.select)
    .order_by(oddities.c.unicode, oddities.c.select, _odd.c.mixed),
    "view": select(pages),
    "view, grouped": select(func.count(), func.sum(pages.c.pages)),
    "view joined with its own table": select(urgent_orders.c.o_comment, O.o_clerk).join_from(
        urgent_orders, orders, urgent_orders.c.o_orderkey == O.o_orderkey
    ),
    "view on the nullable side": select(C.c_name, urgent_orders.c.o_totalprice).select_from(
        customer.outerjoin(urgent_orders, urgent_orders.c.o_custkey == C.c_custkey)
    ),
    "a column of the tenant's": select(visits.c.tenant_id, ledger.c.tenant_id, ledger.c.entry).where(
        visits.c.tenant_id == ledger.c.tenant_id
    ),
    "another tenant asked for": select(C.c_comment).where(or_(C.tenant_id == 2, C.tenant_id != 2)),
    "tenants counted": select(O.tenant_id, func.count()).group_by(O.tenant_id),
}

SELECT_LISTS: dict[str, Statement] = {
    "count": select(func.count()).select_from(lineitem),
    "one row of aggregates": select(func.count(), func.sum(L.l_quantity), func.min(L.l_comment)),
    "scalar subquery in SELECT": select(
        C.c_name,
        select(func.count()).where(O.o_custkey == C.c_custkey).scalar_subquery().label("orders"),
    ),
    "scalar subquery of another table in SELECT": select(
        N.n_name, select(func.max(O.o_totalprice)).scalar_subquery().label("largest")
    ),
    "scalar subquery in WHERE": select(O.o_orderkey).where(
        O.o_totalprice > select(func.avg(orders.alias("every").c.o_totalprice)).scalar_subquery() * 2
    ),
    "correlated with an alias of itself": select(first.c.o_orderkey).where(
        first.c.o_totalprice
        == select(func.max(second.c.o_totalprice))
        .where(second.c.o_custkey == first.c.o_custkey)
        .scalar_subquery()
    ),
    "scalar subquery in ORDER BY": select(C.c_custkey).order_by(
        select(func.count()).where(O.o_custkey == C.c_custkey).scalar_subquery().desc(), C.c_custkey
    ),
    "scalar subquery in HAVING": select(O.o_custkey, func.count())
    .group_by(O.o_custkey)
    .having(func.count() > select(func.count()).select_from(supplier).scalar_subquery()),
    "scalar subquery in a CASE": select(
        C.c_custkey,
        cast(C.c_custkey.in_(select(O.o_custkey).where(O.o_orderstatus == "P")), Integer).label("open"),
    ),
    "grouped by a primary key": select(C.c_name, C.c_comment, func.count(O.o_orderkey))
    .select_from(customer.outerjoin(orders, _placed))
    .group_by(C.tenant_id, C.c_custkey),
    "grouped by a primary key and an expression": select(C.c_name, func.count())
    .group_by(C.tenant_id, C.c_custkey, func.lower(C.c_phone))
    .having(func.length(C.c_address) > 0),
    "grouped by a primary key and a label": select(
        C.c_name, func.lower(C.c_phone).label("phone"), func.count()
    ).group_by(C.tenant_id, C.c_custkey, "phone"),
    "grouped by a primary key, correlated": select(
        C.c_custkey, select(func.count()).where(O.o_custkey == C.c_nationkey).scalar_subquery()
    ).group_by(C.tenant_id, C.c_custkey),
    "grouped by an alias's primary key": select(other.c.c_name, func.count())
    .join_from(other, orders, other.c.c_custkey == O.o_custkey)
    .group_by(other.c.tenant_id, other.c.c_custkey)
    .having(func.length(other.c.c_comment) > 0)
    .order_by(other.c.c_phone, other.c.c_custkey),
    "distinct": select(C.c_nationkey).distinct(),
    "distinct, joined": select(P.p_brand, S.s_nationkey)
    .join_from(part, partsupp, P.p_partkey == PS.ps_partkey)
    .join(supplier, S.s_suppkey == PS.ps_suppkey)
    .distinct(),
    "windows": select(
        O.o_custkey,
        O.o_orderkey,
        func.row_number().over(partition_by=O.o_custkey, order_by=O.o_orderkey).label("nth"),
        func.sum(O.o_totalprice).over(order_by=O.o_orderkey, rows=(None, 0)).label("so_far"),
    ),
    "window of an aggregate": select(
        O.o_orderpriority, func.count(), func.sum(func.count()).over(order_by=O.o_orderpriority)
    ).group_by(O.o_orderpriority),
    "aggregate FILTER": select(
        L.l_shipmode, func.count().filter(L.l_returnflag == "R"), func.count().filter(L.l_tax > 4)
    ).group_by(L.l_shipmode),
    "aggregate of DISTINCT": select(func.count(L.l_suppkey.distinct()), func.count(L.l_partkey.distinct())),
    "equal labels": select(C.c_name.label("x"), O.o_comment.label("x")).where(_placed),
    "constants only": select(literal(1).label("one"), literal("x").label("letter")),
    "LIMIT, totally ordered": select(O.o_orderkey, O.o_comment).order_by(O.o_orderkey.desc()).limit(7),
    "LIMIT and OFFSET": select(O.o_orderkey).order_by(O.o_totalprice, O.o_orderkey).limit(9).offset(5),
    "LIMIT in a subquery": select(
        select(O.o_orderkey, O.o_custkey)
        .order_by(O.o_totalprice.desc(), O.o_orderkey)
        .limit(5)
        .subquery("five")
    ),
    "FETCH in IN": select(C.c_name).where(
        C.c_custkey.in_(select(O.o_custkey).order_by(O.o_totalprice.desc(), O.o_orderkey).limit(6).offset(2))
    ),
    "functions, casts, texts": select(
        func.lower(C.c_name), cast(C.c_custkey, String), func.substr(C.c_phone, 1, 2), C.c_acctbal % 7
    ),
    "dates": select(O.o_orderdate, func.count())
    .where(O.o_orderdate.between(date(1994, 1, 1), date(1994, 12, 31)))
    .group_by(O.o_orderdate),
    "a bare column of a table": select(column("c_name")).select_from(customer),
}
