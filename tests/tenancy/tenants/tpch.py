"""TPC-H as several customers of one application would share it. Keys and values of all tenants overlap.

Every table but `nation` and `region` begins its primary key with `tenant_id`; the other keys count from 1 for
each tenant, and queries join by those alone. So a table that was left unfiltered shows: it joins with the
rows of all. Money is in cents, discounts and taxes in percent: sums are exact on every engine.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Date, Index, Integer, String, Table
from sqlalchemy.orm import DeclarativeBase, Mapped, foreign, relationship, remote


class Base(DeclarativeBase):
    """The whole registry: this module's tables and those of `tests.tenancy.tenants.office`."""


def _table(name: str, *parts: Any) -> Table:
    return Table(name, Base.metadata, *parts)


def _owned(name: str, *parts: Any) -> Table:
    """A table whose primary key begins with its tenant."""
    return _table(name, Column("tenant_id", Integer, primary_key=True, autoincrement=False), *parts)


def _key(name: str) -> Column[int]:
    return Column(name, Integer, primary_key=True, autoincrement=False)


def _whole(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _money(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, String, nullable=False)


def _date(name: str) -> Column[Any]:
    return Column(name, Date, nullable=False)


region = _table("region", _key("r_regionkey"), _text("r_name"), _text("r_comment"))
nation = _table("nation", _key("n_nationkey"), _text("n_name"), _whole("n_regionkey"), _text("n_comment"))
supplier = _owned(
    "supplier",
    _key("s_suppkey"),
    _text("s_name"),
    _text("s_address"),
    _whole("s_nationkey"),
    _text("s_phone"),
    _money("s_acctbal"),
    _text("s_comment"),
)
customer = _owned(
    "customer",
    _key("c_custkey"),
    _text("c_name"),
    _text("c_address"),
    _whole("c_nationkey"),
    _text("c_phone"),
    _money("c_acctbal"),
    _text("c_mktsegment"),
    _text("c_comment"),
)
part = _owned(
    "part",
    _key("p_partkey"),
    _text("p_name"),
    _text("p_mfgr"),
    _text("p_brand"),
    _text("p_type"),
    _whole("p_size"),
    _text("p_container"),
    _money("p_retailprice"),
    _text("p_comment"),
)
partsupp = _owned(
    "partsupp",
    _key("ps_partkey"),
    _key("ps_suppkey"),
    _whole("ps_availqty"),
    _money("ps_supplycost"),
    _text("ps_comment"),
    Index("partsupp_supplier", "tenant_id", "ps_suppkey"),
)
orders = _owned(
    "orders",
    _key("o_orderkey"),
    _whole("o_custkey"),
    _text("o_orderstatus"),
    _money("o_totalprice"),
    _date("o_orderdate"),
    _text("o_orderpriority"),
    _text("o_clerk"),
    _whole("o_shippriority"),
    _text("o_comment"),
    Index("orders_customer", "tenant_id", "o_custkey"),
    Index("orders_date", "tenant_id", "o_orderdate"),
)
lineitem = _owned(
    "lineitem",
    _key("l_orderkey"),
    _key("l_linenumber"),
    _whole("l_partkey"),
    _whole("l_suppkey"),
    _whole("l_quantity"),
    _money("l_extendedprice"),
    _whole("l_discount"),
    _whole("l_tax"),
    _text("l_returnflag"),
    _text("l_linestatus"),
    _date("l_shipdate"),
    _date("l_commitdate"),
    _date("l_receiptdate"),
    _text("l_shipinstruct"),
    _text("l_shipmode"),
    _text("l_comment"),
    Index("lineitem_part", "tenant_id", "l_partkey", "l_suppkey"),
    Index("lineitem_shipdate", "tenant_id", "l_shipdate"),
)

SHARED = (region, nation)
OWNED = (supplier, customer, part, partsupp, orders, lineitem)


class Region(Base):
    __table__ = region


class Nation(Base):
    __table__ = nation
    region: Mapped[Region] = relationship(
        primaryjoin=foreign(nation.c.n_regionkey) == region.c.r_regionkey, viewonly=True
    )


class Customer(Base):
    __table__ = customer
    nation: Mapped[Nation] = relationship(
        primaryjoin=foreign(customer.c.c_nationkey) == nation.c.n_nationkey, viewonly=True
    )
    # By the natural key alone: what an application would get wrong, and a filter must make right.
    orders: Mapped[list[Order]] = relationship(
        primaryjoin=customer.c.c_custkey == foreign(orders.c.o_custkey), viewonly=True
    )


class Order(Base):
    __table__ = orders
    customer: Mapped[Customer] = relationship(
        primaryjoin=foreign(orders.c.o_custkey) == remote(customer.c.c_custkey), viewonly=True
    )
    lines: Mapped[list[LineItem]] = relationship(
        primaryjoin=orders.c.o_orderkey == foreign(lineitem.c.l_orderkey), viewonly=True
    )


class Part(Base):
    __table__ = part
    # Through a secondary table that is guarded too.
    suppliers: Mapped[list[Supplier]] = relationship(
        secondary=partsupp,
        primaryjoin=part.c.p_partkey == foreign(partsupp.c.ps_partkey),
        secondaryjoin=foreign(partsupp.c.ps_suppkey) == supplier.c.s_suppkey,
        viewonly=True,
    )


class Supplier(Base):
    __table__ = supplier


class PartSupp(Base):
    __table__ = partsupp


class LineItem(Base):
    __table__ = lineitem
    part: Mapped[Part] = relationship(
        primaryjoin=foreign(lineitem.c.l_partkey) == remote(part.c.p_partkey), viewonly=True
    )
