"""Rows for TPC-H's tables from a seed. One tenant's rows depend on that tenant and the scale alone.

The words are TPC-H's, fewer of each, so that every query finds something for a small tenant too. Free text
ends in the tenant's canary, which no other tenant's rows hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from sqlalchemy import Table

from tests.tenancy.tenants.tpch import customer, lineitem, nation, orders, part, partsupp, region, supplier

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Tenant:
    """One customer of the application.

    Attributes:
        size: rows, relative to other tenants.
    """

    id: int
    name: str
    size: float

    @property
    def canary(self) -> str:
        """What all free text of this tenant ends in."""
        return f"~{self.name}~"


TENANTS = (
    Tenant(1, "acme", 1.0),
    Tenant(2, "birch", 0.5),
    Tenant(3, "cobalt", 0.25),
    Tenant(4, "dune", 0.1),
)

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
)
# BRAZIL, CANADA, FRANCE, GERMANY, INDIA, SAUDI ARABIA: those the queries ask for.
SETTLED = (2, 3, 6, 7, 8, 20)
SEGMENTS = ("BUILDING", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
TYPES = ("ECONOMY ANODIZED STEEL", "MEDIUM POLISHED BRASS", "PROMO BRUSHED BRASS", "SMALL PLATED STEEL")
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
CONTAINERS = ("SM CASE", "MED BOX", "LG BOX")
SIZES = (3, 9, 14, 15)
COLOURS = ("forest", "green", "almond", "ivory")
MODES = ("MAIL", "SHIP", "AIR")
INSTRUCTIONS = ("DELIVER IN PERSON", "NONE")
WORDS = ("quick", "special", "deposits", "requests", "sleep", "packages")
FIRST_DAY, LAST_DAY = date(1992, 1, 1), date(1998, 8, 2)
TODAY = date(1995, 6, 17)


def shared_rows() -> dict[Table, Rows]:
    """The rows that belong to nobody."""
    return {
        region: [
            {"r_regionkey": key, "r_name": name, "r_comment": "of everyone"}
            for key, name in enumerate(REGIONS)
        ],
        nation: [
            {"n_nationkey": key, "n_name": name, "n_regionkey": at, "n_comment": "of everyone"}
            for key, (name, at) in enumerate(NATIONS)
        ],
    }


class Generator:
    """One tenant's rows of TPC-H.

    Args:
        customers: how many a tenant of size 1 has; it has ten orders for each, and four lines for each order.
    """

    def __init__(self, tenant: Tenant, customers: int) -> None:
        self._tenant = tenant
        self._random = Random(f"tpch of {tenant.name}")
        self._customers = max(4, round(customers * tenant.size))
        self._suppliers = max(4, self._customers // 4)
        self._parts = max(6, self._customers * 4 // 3)
        # A third of the customers never order, as in the specification.
        self._buyers = [key for key in _keys(self._customers) if key % 3]

    def rows(self) -> dict[Table, Rows]:
        """Every owned table's rows, in an order in which they can be inserted."""
        placed = list(self._orders())
        return {
            supplier: [self._supplier(key) for key in _keys(self._suppliers)],
            customer: [self._customer(key) for key in _keys(self._customers)],
            part: [self._part(key) for key in _keys(self._parts)],
            partsupp: [
                self._partsupp(key, self._supplier_of(key, nth))
                for key in _keys(self._parts)
                for nth in range(4)
            ],
            orders: [order for order, _ in placed],
            lineitem: [line for _, lines in placed for line in lines],
        }

    def _row(self, **values: Any) -> dict[str, Any]:
        return {"tenant_id": self._tenant.id, **values}

    def _words(self, *words: str) -> str:
        chosen = [*self._random.sample(WORDS, 3), *words]
        return f"{' '.join(chosen)} {self._tenant.canary}"

    def _one_of(self, values: Any) -> Any:
        return values[self._random.randrange(len(values))]

    def _day(self, after: date, least: int, most: int) -> date:
        return after + timedelta(days=self._random.randint(least, most))

    def _supplier_of(self, part_key: int, nth: int) -> int:
        return (part_key + nth * max(1, self._suppliers // 4)) % self._suppliers + 1

    def _supplier(self, key: int) -> dict[str, Any]:
        at = SETTLED[key % len(SETTLED)]
        return self._row(
            s_suppkey=key,
            s_name=f"Supplier#{key:09d}",
            s_address=self._words(),
            s_nationkey=at,
            s_phone=self._phone(at),
            s_acctbal=self._random.randint(-99_999, 999_999),
            s_comment=self._words(*(["Customer Complaints"] if key % 7 == 3 else [])),
        )

    def _customer(self, key: int) -> dict[str, Any]:
        at = self._one_of(SETTLED)
        return self._row(
            c_custkey=key,
            c_name=f"Customer#{key:09d}",
            c_address=self._words(),
            c_nationkey=at,
            c_phone=self._phone(at),
            c_acctbal=self._random.randint(-99_999, 999_999),
            c_mktsegment=self._one_of(SEGMENTS),
            c_comment=self._words(),
        )

    def _phone(self, at: int) -> str:
        return f"{at + 10}-{self._random.randint(100, 999)}-{self._random.randint(1000, 9999)}"

    def _part(self, key: int) -> dict[str, Any]:
        return self._row(
            p_partkey=key,
            p_name=" ".join(self._random.sample(COLOURS, 2)),
            p_mfgr=f"Manufacturer#{key % 5 + 1}",
            p_brand=self._one_of(BRANDS),
            p_type=self._one_of(TYPES),
            p_size=self._one_of(SIZES),
            p_container=self._one_of(CONTAINERS),
            p_retailprice=_retail_price(key),
            p_comment=self._words(),
        )

    def _partsupp(self, part_key: int, supplier_key: int) -> dict[str, Any]:
        return self._row(
            ps_partkey=part_key,
            ps_suppkey=supplier_key,
            ps_availqty=self._random.randint(1, 9_999),
            ps_supplycost=self._random.randint(100, 100_000),
            ps_comment=self._words(),
        )

    def _orders(self) -> Iterator[tuple[dict[str, Any], Rows]]:
        for key in _keys(self._customers * 10):
            placed = self._day(FIRST_DAY, 0, (LAST_DAY - FIRST_DAY).days - 151)
            lines = [self._line(key, number, placed) for number in _keys(self._lines_of(key))]
            statuses = {line["l_linestatus"] for line in lines}
            yield self._order(key, placed, statuses.pop() if len(statuses) == 1 else "P", lines), lines

    def _lines_of(self, order_key: int) -> int:
        # Some orders are large, for Q18.
        return 7 if order_key % 20 == 0 else self._random.randint(1, 7)

    def _order(self, key: int, placed: date, status: str, lines: Rows) -> dict[str, Any]:
        return self._row(
            o_orderkey=key,
            o_custkey=self._one_of(self._buyers),
            o_orderstatus=status,
            o_totalprice=sum(line["l_extendedprice"] for line in lines),
            o_orderdate=placed,
            o_orderpriority=self._one_of(PRIORITIES),
            o_clerk=f"Clerk#{key % 10:09d}",
            o_shippriority=0,
            o_comment=self._words(),
        )

    def _line(self, order_key: int, number: int, placed: date) -> dict[str, Any]:
        part_key = self._random.randint(1, self._parts)
        quantity = self._random.randint(40 if order_key % 20 == 0 else 1, 50)
        shipped = self._day(placed, 1, 121)
        committed = self._day(placed, 30, 90)
        received = self._day(shipped, 1, 30)
        return self._row(
            l_orderkey=order_key,
            l_linenumber=number,
            l_partkey=part_key,
            l_suppkey=self._supplier_of(part_key, self._random.randrange(4)),
            l_quantity=quantity,
            l_extendedprice=quantity * _retail_price(part_key),
            l_discount=self._random.randint(0, 10),
            l_tax=self._random.randint(0, 8),
            l_returnflag=self._one_of("RA") if received <= TODAY else "N",
            l_linestatus="O" if shipped > TODAY else "F",
            l_shipdate=shipped,
            l_commitdate=committed,
            l_receiptdate=received,
            l_shipinstruct=self._one_of(INSTRUCTIONS),
            l_shipmode=self._one_of(MODES),
            l_comment=self._words(),
        )


def _keys(count: int) -> range:
    return range(1, count + 1)


def _retail_price(part_key: int) -> int:
    return 90_000 + part_key // 10 % 20_001 + 100 * (part_key % 1_000)
