"""The 22 queries of TPC-H as SQLAlchemy selects that run on SQLite and PostgreSQL alike.

With the specification's validation parameters, but for three thresholds that are lower, so that a small
tenant finds something. ORDER BY of a limited query ends in a key: its answer is one. No query names a tenant.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from sqlalchemy import and_, case, exists, extract, func, or_, select

from dualsql.freeze.document import AnySelect
from tests.tenancy.tenants.tpch import customer, lineitem, nation, orders, part, partsupp, region, supplier

Expression = Any

C, L, N, O, P, PS, R, S = (  # noqa: E741 - as the specification writes them
    table.c for table in (customer, lineitem, nation, orders, part, partsupp, region, supplier)
)


def _revenue(lines: Any = L) -> Expression:
    return lines.l_extendedprice * (100 - lines.l_discount)


def pricing_summary() -> AnySelect:
    charge = _revenue() * (100 + L.l_tax)
    return (
        select(
            L.l_returnflag,
            L.l_linestatus,
            func.sum(L.l_quantity).label("sum_qty"),
            func.sum(L.l_extendedprice).label("sum_base_price"),
            func.sum(_revenue()).label("sum_disc_price"),
            func.sum(charge).label("sum_charge"),
            func.avg(L.l_quantity).label("avg_qty"),
            func.avg(L.l_extendedprice).label("avg_price"),
            func.avg(L.l_discount).label("avg_disc"),
            func.count().label("count_order"),
        )
        .where(L.l_shipdate <= date(1998, 9, 2))
        .group_by(L.l_returnflag, L.l_linestatus)
        .order_by(L.l_returnflag, L.l_linestatus)
    )


def minimum_cost_supplier() -> AnySelect:
    def in_europe(*columns: Any) -> AnySelect:
        return (
            select(*columns)
            .select_from(partsupp, supplier, nation, region)
            .where(
                S.s_suppkey == PS.ps_suppkey,
                S.s_nationkey == N.n_nationkey,
                N.n_regionkey == R.r_regionkey,
                R.r_name == "EUROPE",
            )
        )

    inner_ps, inner_s, inner_n, inner_r = (table.alias() for table in (partsupp, supplier, nation, region))
    cheapest = (
        select(func.min(inner_ps.c.ps_supplycost))
        .select_from(inner_ps, inner_s, inner_n, inner_r)
        .where(
            P.p_partkey == inner_ps.c.ps_partkey,
            inner_s.c.s_suppkey == inner_ps.c.ps_suppkey,
            inner_s.c.s_nationkey == inner_n.c.n_nationkey,
            inner_n.c.n_regionkey == inner_r.c.r_regionkey,
            inner_r.c.r_name == "EUROPE",
        )
        .correlate(part)
        .scalar_subquery()
    )
    return (
        in_europe(S.s_acctbal, S.s_name, N.n_name, P.p_partkey, P.p_mfgr, S.s_address, S.s_phone, S.s_comment)
        .where(
            P.p_partkey == PS.ps_partkey,
            P.p_size == 15,
            P.p_type.like("%BRASS"),
            PS.ps_supplycost == cheapest,
        )
        .order_by(S.s_acctbal.desc(), N.n_name, S.s_name, P.p_partkey)
        .limit(100)
    )


def shipping_priority() -> AnySelect:
    revenue = func.sum(_revenue()).label("revenue")
    return (
        select(L.l_orderkey, revenue, O.o_orderdate, O.o_shippriority)
        .where(
            C.c_mktsegment == "BUILDING",
            C.c_custkey == O.o_custkey,
            L.l_orderkey == O.o_orderkey,
            O.o_orderdate < date(1995, 3, 15),
            L.l_shipdate > date(1995, 3, 15),
        )
        .group_by(L.l_orderkey, O.o_orderdate, O.o_shippriority)
        .order_by(revenue.desc(), O.o_orderdate, L.l_orderkey)
        .limit(10)
    )


def order_priority() -> AnySelect:
    return (
        select(O.o_orderpriority, func.count().label("order_count"))
        .where(
            O.o_orderdate >= date(1993, 7, 1),
            O.o_orderdate < date(1993, 10, 1),
            exists().where(L.l_orderkey == O.o_orderkey, L.l_commitdate < L.l_receiptdate),
        )
        .group_by(O.o_orderpriority)
        .order_by(O.o_orderpriority)
    )


def local_supplier_volume() -> AnySelect:
    revenue = func.sum(_revenue()).label("revenue")
    return (
        select(N.n_name, revenue)
        .where(
            C.c_custkey == O.o_custkey,
            L.l_orderkey == O.o_orderkey,
            L.l_suppkey == S.s_suppkey,
            C.c_nationkey == S.s_nationkey,
            S.s_nationkey == N.n_nationkey,
            N.n_regionkey == R.r_regionkey,
            R.r_name == "ASIA",
            O.o_orderdate >= date(1994, 1, 1),
            O.o_orderdate < date(1995, 1, 1),
        )
        .group_by(N.n_name)
        .order_by(revenue.desc(), N.n_name)
    )


def revenue_change() -> AnySelect:
    return select(func.sum(L.l_extendedprice * L.l_discount).label("revenue")).where(
        L.l_shipdate >= date(1994, 1, 1),
        L.l_shipdate < date(1995, 1, 1),
        L.l_discount.between(5, 7),
        L.l_quantity < 24,
    )


def volume_shipping() -> AnySelect:
    seller, buyer = nation.alias("n1"), nation.alias("n2")
    shipping = (
        select(
            seller.c.n_name.label("supp_nation"),
            buyer.c.n_name.label("cust_nation"),
            extract("year", L.l_shipdate).label("l_year"),
            _revenue().label("volume"),
        )
        .where(
            S.s_suppkey == L.l_suppkey,
            O.o_orderkey == L.l_orderkey,
            C.c_custkey == O.o_custkey,
            S.s_nationkey == seller.c.n_nationkey,
            C.c_nationkey == buyer.c.n_nationkey,
            or_(
                and_(seller.c.n_name == "FRANCE", buyer.c.n_name == "GERMANY"),
                and_(seller.c.n_name == "GERMANY", buyer.c.n_name == "FRANCE"),
            ),
            L.l_shipdate.between(date(1995, 1, 1), date(1996, 12, 31)),
        )
        .subquery("shipping")
    )
    keys = (shipping.c.supp_nation, shipping.c.cust_nation, shipping.c.l_year)
    return select(*keys, func.sum(shipping.c.volume).label("revenue")).group_by(*keys).order_by(*keys)


def market_share() -> AnySelect:
    buyer, seller = nation.alias("n1"), nation.alias("n2")
    all_nations = (
        select(
            extract("year", O.o_orderdate).label("o_year"),
            _revenue().label("volume"),
            seller.c.n_name.label("nation"),
        )
        .where(
            P.p_partkey == L.l_partkey,
            S.s_suppkey == L.l_suppkey,
            L.l_orderkey == O.o_orderkey,
            O.o_custkey == C.c_custkey,
            C.c_nationkey == buyer.c.n_nationkey,
            buyer.c.n_regionkey == R.r_regionkey,
            R.r_name == "AMERICA",
            S.s_nationkey == seller.c.n_nationkey,
            O.o_orderdate.between(date(1995, 1, 1), date(1996, 12, 31)),
            P.p_type == "ECONOMY ANODIZED STEEL",
        )
        .subquery("all_nations")
    )
    brazil = func.sum(case((all_nations.c.nation == "BRAZIL", all_nations.c.volume), else_=0))
    return (
        select(all_nations.c.o_year, (brazil / func.sum(all_nations.c.volume)).label("mkt_share"))
        .group_by(all_nations.c.o_year)
        .order_by(all_nations.c.o_year)
    )


def product_type_profit() -> AnySelect:
    profit = (
        select(
            N.n_name.label("nation"),
            extract("year", O.o_orderdate).label("o_year"),
            (_revenue() - 100 * PS.ps_supplycost * L.l_quantity).label("amount"),
        )
        .where(
            S.s_suppkey == L.l_suppkey,
            PS.ps_suppkey == L.l_suppkey,
            PS.ps_partkey == L.l_partkey,
            P.p_partkey == L.l_partkey,
            O.o_orderkey == L.l_orderkey,
            S.s_nationkey == N.n_nationkey,
            P.p_name.like("%green%"),
        )
        .subquery("profit")
    )
    return (
        select(profit.c.nation, profit.c.o_year, func.sum(profit.c.amount).label("sum_profit"))
        .group_by(profit.c.nation, profit.c.o_year)
        .order_by(profit.c.nation, profit.c.o_year.desc())
    )


def returned_items() -> AnySelect:
    revenue = func.sum(_revenue()).label("revenue")
    keys = (C.c_custkey, C.c_name, C.c_acctbal, N.n_name, C.c_address, C.c_phone, C.c_comment)
    return (
        select(*keys[:2], revenue, *keys[2:])
        .where(
            C.c_custkey == O.o_custkey,
            L.l_orderkey == O.o_orderkey,
            O.o_orderdate >= date(1993, 10, 1),
            O.o_orderdate < date(1994, 1, 1),
            L.l_returnflag == "R",
            C.c_nationkey == N.n_nationkey,
        )
        .group_by(*keys)
        .order_by(revenue.desc(), C.c_custkey)
        .limit(20)
    )


def important_stock() -> AnySelect:
    value = func.sum(PS.ps_supplycost * PS.ps_availqty)
    in_germany = (
        PS.ps_suppkey == S.s_suppkey,
        S.s_nationkey == N.n_nationkey,
        N.n_name == "GERMANY",
    )
    # Of 200th, not of 10,000th: the specification divides by the scale.
    whole = select(value).where(*in_germany).correlate(None).scalar_subquery()
    return (
        select(PS.ps_partkey, value.label("value"))
        .where(*in_germany)
        .group_by(PS.ps_partkey)
        .having(value * 200 > whole)
        .order_by(value.desc(), PS.ps_partkey)
    )


def shipping_modes() -> AnySelect:
    is_high = O.o_orderpriority.in_(["1-URGENT", "2-HIGH"])
    return (
        select(
            L.l_shipmode,
            func.sum(case((is_high, 1), else_=0)).label("high_line_count"),
            func.sum(case((~is_high, 1), else_=0)).label("low_line_count"),
        )
        .where(
            O.o_orderkey == L.l_orderkey,
            L.l_shipmode.in_(["MAIL", "SHIP"]),
            L.l_commitdate < L.l_receiptdate,
            L.l_shipdate < L.l_commitdate,
            L.l_receiptdate >= date(1994, 1, 1),
            L.l_receiptdate < date(1995, 1, 1),
        )
        .group_by(L.l_shipmode)
        .order_by(L.l_shipmode)
    )


def customer_distribution() -> AnySelect:
    placed = and_(C.c_custkey == O.o_custkey, O.o_comment.not_like("%special%requests%"))
    counted = (
        select(C.c_custkey, func.count(O.o_orderkey).label("c_count"))
        .select_from(customer.outerjoin(orders, placed))
        .group_by(C.c_custkey)
        .subquery("c_orders")
    )
    distribution = func.count().label("custdist")
    return (
        select(counted.c.c_count, distribution)
        .group_by(counted.c.c_count)
        .order_by(distribution.desc(), counted.c.c_count.desc())
    )


def promotion_effect() -> AnySelect:
    promoted = func.sum(case((P.p_type.like("PROMO%"), _revenue()), else_=0))
    return select((100 * promoted / func.sum(_revenue())).label("promo_revenue")).where(
        L.l_partkey == P.p_partkey,
        L.l_shipdate >= date(1995, 9, 1),
        L.l_shipdate < date(1995, 10, 1),
    )


def top_supplier() -> AnySelect:
    revenue = (
        select(L.l_suppkey.label("supplier_no"), func.sum(_revenue()).label("total_revenue"))
        .where(L.l_shipdate >= date(1996, 1, 1), L.l_shipdate < date(1996, 4, 1))
        .group_by(L.l_suppkey)
        .cte("revenue")
    )
    best = select(func.max(revenue.c.total_revenue)).scalar_subquery()
    return (
        select(S.s_suppkey, S.s_name, S.s_address, S.s_phone, revenue.c.total_revenue)
        .where(S.s_suppkey == revenue.c.supplier_no, revenue.c.total_revenue == best)
        .order_by(S.s_suppkey)
    )


def parts_by_supplier() -> AnySelect:
    complained = select(S.s_suppkey).where(S.s_comment.like("%Customer%Complaints%"))
    suppliers = func.count(PS.ps_suppkey.distinct()).label("supplier_cnt")
    keys = (P.p_brand, P.p_type, P.p_size)
    return (
        select(*keys, suppliers)
        .where(
            P.p_partkey == PS.ps_partkey,
            P.p_brand != "Brand#45",
            P.p_type.not_like("MEDIUM POLISHED%"),
            P.p_size.in_([49, 14, 23, 45, 19, 3, 36, 9]),
            PS.ps_suppkey.not_in(complained),
        )
        .group_by(*keys)
        .order_by(suppliers.desc(), *keys)
    )


def small_quantity_revenue() -> AnySelect:
    other = lineitem.alias()
    average = select(func.avg(other.c.l_quantity)).where(other.c.l_partkey == P.p_partkey).scalar_subquery()
    return select((func.sum(L.l_extendedprice) / 7).label("avg_yearly")).where(
        P.p_partkey == L.l_partkey,
        P.p_brand == "Brand#23",
        P.p_container == "MED BOX",
        L.l_quantity * 5 < average,
    )


def large_volume_customer() -> AnySelect:
    large = select(L.l_orderkey).group_by(L.l_orderkey).having(func.sum(L.l_quantity) > 250)
    keys = (C.c_name, C.c_custkey, O.o_orderkey, O.o_orderdate, O.o_totalprice)
    return (
        select(*keys, func.sum(L.l_quantity).label("quantity"))
        .where(
            O.o_orderkey.in_(large),
            C.c_custkey == O.o_custkey,
            O.o_orderkey == L.l_orderkey,
        )
        .group_by(*keys)
        .order_by(O.o_totalprice.desc(), O.o_orderdate, O.o_orderkey)
        .limit(100)
    )


def discounted_revenue() -> AnySelect:
    def choice(brand: str, containers: list[str], least: int, largest: int) -> Expression:
        return and_(
            P.p_partkey == L.l_partkey,
            P.p_brand == brand,
            P.p_container.in_(containers),
            L.l_quantity.between(least, least + 10),
            P.p_size.between(1, largest),
            L.l_shipmode.in_(["AIR", "AIR REG"]),
            L.l_shipinstruct == "DELIVER IN PERSON",
        )

    return select(func.sum(_revenue()).label("revenue")).where(
        or_(
            choice("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5),
            choice("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10),
            choice("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15),
        )
    )


def potential_promotion() -> AnySelect:
    shipped = (
        select(func.sum(L.l_quantity))
        .where(
            L.l_partkey == PS.ps_partkey,
            L.l_suppkey == PS.ps_suppkey,
            L.l_shipdate >= date(1994, 1, 1),
            L.l_shipdate < date(1995, 1, 1),
        )
        .scalar_subquery()
    )
    forest = select(P.p_partkey).where(P.p_name.like("forest%"))
    stocked = select(PS.ps_suppkey).where(PS.ps_partkey.in_(forest), PS.ps_availqty * 2 > shipped)
    return (
        select(S.s_name, S.s_address)
        .where(S.s_suppkey.in_(stocked), S.s_nationkey == N.n_nationkey, N.n_name == "CANADA")
        .order_by(S.s_name)
    )


def waiting_suppliers() -> AnySelect:
    line, other, late = (lineitem.alias(name) for name in ("l1", "l2", "l3"))
    waits = func.count().label("numwait")
    return (
        select(S.s_name, waits)
        .where(
            S.s_suppkey == line.c.l_suppkey,
            O.o_orderkey == line.c.l_orderkey,
            O.o_orderstatus == "F",
            line.c.l_receiptdate > line.c.l_commitdate,
            exists().where(other.c.l_orderkey == line.c.l_orderkey, other.c.l_suppkey != line.c.l_suppkey),
            ~exists().where(
                late.c.l_orderkey == line.c.l_orderkey,
                late.c.l_suppkey != line.c.l_suppkey,
                late.c.l_receiptdate > late.c.l_commitdate,
            ),
            S.s_nationkey == N.n_nationkey,
            N.n_name == "SAUDI ARABIA",
        )
        .group_by(S.s_name)
        .order_by(waits.desc(), S.s_name)
        .limit(100)
    )


def global_sales_opportunity() -> AnySelect:
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    code = func.substr(C.c_phone, 1, 2)
    average = (
        select(func.avg(C.c_acctbal))
        .where(C.c_acctbal > 0, code.in_(codes))
        .correlate(None)
        .scalar_subquery()
    )
    idle = (
        select(code.label("cntrycode"), C.c_acctbal)
        .where(code.in_(codes), C.c_acctbal > average, ~exists().where(O.o_custkey == C.c_custkey))
        .subquery("custsale")
    )
    return (
        select(
            idle.c.cntrycode,
            func.count().label("numcust"),
            func.sum(idle.c.c_acctbal).label("totacctbal"),
        )
        .group_by(idle.c.cntrycode)
        .order_by(idle.c.cntrycode)
    )


QUERIES: dict[str, AnySelect] = {
    f"Q{number} {build.__name__.replace('_', ' ')}": build()
    for number, build in enumerate(
        (
            pricing_summary,
            minimum_cost_supplier,
            shipping_priority,
            order_priority,
            local_supplier_volume,
            revenue_change,
            volume_shipping,
            market_share,
            product_type_profit,
            returned_items,
            important_stock,
            shipping_modes,
            customer_distribution,
            promotion_effect,
            top_supplier,
            parts_by_supplier,
            small_quantity_revenue,
            large_volume_customer,
            discounted_revenue,
            potential_promotion,
            waiting_suppliers,
            global_sales_opportunity,
        ),
        start=1,
    )
}
