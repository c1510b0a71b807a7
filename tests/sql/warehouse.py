"""Tables for analytic queries, of the make of TPC-H and TPC-DS, and their rows. Small, and never empty.

Every query of `legitimate/` finds something here, NULLs and ties among it. `x`, `y` and `z` are the three tables of
the optimizer fixtures of sqlglot, where duplicates and NULLs decide what a join or a set operation gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from sqlalchemy import Boolean, Column, Date, DateTime, Integer, MetaData, Numeric, String, Table

METADATA = MetaData()
Rows = list[dict[str, Any]]

FIRST_DAY = date(1994, 1, 1)
DAYS = 730
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE")
NATIONS = (("BRAZIL", 1), ("CANADA", 1), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("KENYA", 0))
SEGMENTS = ("BUILDING", "MACHINERY", "AUTOMOBILE")
BRANDS = ("Brand#12", "Brand#23", "Brand#34")
KINDS = ("ECONOMY ANODIZED STEEL", "MEDIUM POLISHED BRASS", "PROMO BRUSHED BRASS", "SMALL PLATED STEEL")
CONTAINERS = ("SM CASE", "MED BOX", "LG BOX")
MODES = ("MAIL", "SHIP", "AIR")
PRIORITIES = ("1-URGENT", "2-HIGH", "5-LOW")
CATEGORIES = (("Books", "fiction"), ("Books", "travel"), ("Music", "pop"), ("Sports", "golf"))
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TODAY = date(1995, 6, 17)


def _table(name: str, *columns: Column[Any]) -> Table:
    columns[0].primary_key = True
    return Table(name, METADATA, *columns)


def _keyless(name: str, *columns: Column[Any]) -> Table:
    return Table(name, METADATA, *columns)


def _whole(*names: str) -> list[Column[Any]]:
    return [Column(name, Integer, autoincrement=False) for name in names]


def _text(*names: str) -> list[Column[Any]]:
    return [Column(name, String(60)) for name in names]


def _money(*names: str) -> list[Column[Any]]:
    return [Column(name, Numeric(12, 2)) for name in names]


def _day(*names: str) -> list[Column[Any]]:
    return [Column(name, Date) for name in names]


region = _table("region", *_whole("r_regionkey"), *_text("r_name", "r_comment"))
nation = _table("nation", *_whole("n_nationkey", "n_regionkey"), *_text("n_name", "n_comment"))
supplier = _table(
    "supplier",
    *_whole("s_suppkey", "s_nationkey"),
    *_text("s_name", "s_address", "s_phone", "s_comment"),
    *_money("s_acctbal"),
)
customer = _table(
    "customer",
    *_whole("c_custkey", "c_nationkey"),
    *_text("c_name", "c_address", "c_phone", "c_mktsegment", "c_comment"),
    *_money("c_acctbal"),
)
part = _table(
    "part",
    *_whole("p_partkey", "p_size"),
    *_text("p_name", "p_mfgr", "p_brand", "p_type", "p_container", "p_comment"),
    *_money("p_retailprice"),
)
partsupp = _keyless(
    "partsupp",
    *_whole("ps_partkey", "ps_suppkey", "ps_availqty"),
    *_money("ps_supplycost"),
    *_text("ps_comment"),
)
orders = _table(
    "orders",
    *_whole("o_orderkey", "o_custkey", "o_shippriority"),
    *_text("o_orderstatus", "o_orderpriority", "o_clerk", "o_comment"),
    *_money("o_totalprice"),
    *_day("o_orderdate"),
)
lineitem = _keyless(
    "lineitem",
    *_whole("l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity"),
    *_money("l_extendedprice", "l_discount", "l_tax"),
    *_text("l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode"),
    *_day("l_shipdate", "l_commitdate", "l_receiptdate"),
)
date_dim = _table(
    "date_dim",
    *_whole("d_date_sk", "d_year", "d_moy", "d_dom", "d_qoy", "d_week_seq"),
    *_day("d_date"),
    *_text("d_day_name"),
)
item = _table(
    "item",
    *_whole("i_item_sk", "i_manager_id"),
    *_text("i_item_id", "i_category", "i_class", "i_brand", "i_color"),
    *_money("i_current_price", "i_wholesale_cost"),
)
store = _table("store", *_whole("s_store_sk", "s_floor"), *_text("s_store_name", "s_state", "s_city"))
store_sales = _keyless(
    "store_sales",
    *_whole(
        "ss_ticket_number", "ss_sold_date_sk", "ss_item_sk", "ss_customer_sk", "ss_store_sk", "ss_quantity"
    ),
    *_money("ss_sales_price", "ss_ext_sales_price", "ss_net_profit"),
)
store_returns = _keyless(
    "store_returns",
    *_whole("sr_ticket_number", "sr_item_sk", "sr_returned_date_sk", "sr_return_quantity"),
    *_money("sr_return_amt"),
)
web_sales = _keyless(
    "web_sales",
    *_whole("ws_order_number", "ws_sold_date_sk", "ws_item_sk", "ws_customer_sk", "ws_quantity"),
    *_money("ws_sales_price", "ws_net_profit"),
)
employee = _table(
    "employee",
    *_whole("e_id", "e_manager", "e_salary"),
    *_text("e_name", "e_team"),
    *_day("e_hired"),
    Column("e_active", Boolean),
)
event = _table("event", *_whole("v_id", "v_customer", "v_amount"), *_text("v_kind"), Column("v_at", DateTime))
x = _keyless("x", *_whole("a", "b"))
y = _keyless("y", *_whole("b", "c"))
z = _keyless("z", *_whole("b", "c"))


def rows() -> dict[Table, Rows]:
    """The rows of every table, the same at every call."""
    return {table: list(rows) for table, rows in _made(Random("warehouse"))}


def _made(random: Random) -> Iterator[tuple[Table, Rows]]:
    yield (
        region,
        [{"r_regionkey": key, "r_name": name, "r_comment": "of all"} for key, name in enumerate(REGIONS)],
    )
    yield (
        nation,
        [
            {"n_nationkey": key, "n_name": name, "n_regionkey": at, "n_comment": None}
            for key, (name, at) in enumerate(NATIONS)
        ],
    )
    yield supplier, [_supplier(random, key) for key in range(1, 9)]
    yield customer, [_customer(random, key) for key in range(1, 25)]
    yield part, [_part(random, key) for key in range(1, 21)]
    yield partsupp, [_partsupp(random, key, nth) for key in range(1, 21) for nth in range(3)]
    placed = [_order(random, key) for key in range(1, 91)]
    lines = [line for order in placed for line in _lines(random, order)]
    yield orders, placed
    yield lineitem, lines
    yield date_dim, [_calendar(number) for number in range(DAYS)]
    yield item, [_item(random, key) for key in range(1, 17)]
    yield (
        store,
        [
            {"s_store_sk": key, "s_floor": key * 100, "s_store_name": name, "s_state": state, "s_city": city}
            for key, name, state, city in (
                (1, "able", "TN", "Midway"),
                (2, "bar", "TN", "Fairview"),
                (3, "eing", "CA", None),
            )
        ],
    )
    sales = [_sale(random, number) for number in range(1, 241)]
    yield store_sales, sales
    yield store_returns, [_return(random, sale) for sale in sales[::6]]
    yield web_sales, [_web_sale(random, number) for number in range(1, 121)]
    yield employee, [_employee(key) for key in range(1, 16)]
    yield event, [_event(random, key) for key in range(1, 61)]
    yield x, [{"a": a, "b": b} for a, b in ((1, 1), (2, 2), (2, 2), (3, 3), (None, None), (4, 1))]
    yield y, [{"b": b, "c": c} for b, c in ((2, 2), (2, 3), (3, 3), (4, 4), (None, 5))]
    yield z, [{"b": b, "c": c} for b, c in ((3, 3), (4, 4), (5, 5), (None, None), (3, 3))]


def _cents(random: Random, least: int, most: int) -> Decimal:
    return Decimal(random.randint(least, most)) / 100


def _supplier(random: Random, key: int) -> dict[str, Any]:
    return {
        "s_suppkey": key,
        "s_name": f"Supplier#{key:09d}",
        "s_address": f"{key} Main St",
        "s_nationkey": key % len(NATIONS),
        "s_phone": f"{10 + key}-555-{key:04d}",
        "s_acctbal": _cents(random, -99_999, 999_999),
        "s_comment": "Customer Complaints of old" if key == 5 else "quick deposits",
    }


def _customer(random: Random, key: int) -> dict[str, Any]:
    return {
        "c_custkey": key,
        "c_name": f"Customer#{key:09d}",
        "c_address": f"{key} Side Rd",
        "c_nationkey": random.randrange(len(NATIONS)),
        "c_phone": f"{random.choice((13, 17, 23, 31))}-555-{key:04d}",
        "c_mktsegment": random.choice(SEGMENTS),
        "c_comment": None if key % 5 == 0 else "blithely special requests",
        "c_acctbal": _cents(random, -99_999, 999_999),
    }


def _part(random: Random, key: int) -> dict[str, Any]:
    return {
        "p_partkey": key,
        "p_name": random.choice(("forest green", "green almond", "ivory forest", "Café_100% noir")),
        "p_mfgr": f"Manufacturer#{key % 3 + 1}",
        "p_brand": random.choice(BRANDS),
        "p_type": random.choice(KINDS),
        "p_size": random.choice((3, 9, 14, 15)),
        "p_container": random.choice(CONTAINERS),
        "p_comment": "it's a part",
        "p_retailprice": _cents(random, 90_000, 120_000),
    }


def _partsupp(random: Random, key: int, nth: int) -> dict[str, Any]:
    return {
        "ps_partkey": key,
        "ps_suppkey": (key + nth * 3) % 8 + 1,
        "ps_availqty": random.randint(1, 999),
        "ps_supplycost": _cents(random, 100, 100_000),
        "ps_comment": None,
    }


def _order(random: Random, key: int) -> dict[str, Any]:
    placed = FIRST_DAY + timedelta(days=random.randrange(DAYS - 130))
    return {
        "o_orderkey": key,
        "o_custkey": random.choice([number for number in range(1, 25) if number % 3]),
        "o_orderstatus": "F" if placed < TODAY else "O",
        "o_totalprice": _cents(random, 100_000, 40_000_000),
        "o_orderdate": placed,
        "o_orderpriority": random.choice(PRIORITIES),
        "o_clerk": f"Clerk#{key % 7:09d}",
        "o_shippriority": 0,
        "o_comment": random.choice(("special packages requests", "quick deposits", None)),
    }


def _lines(random: Random, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for number in range(1, 7 if order["o_orderkey"] % 10 == 0 else random.randint(2, 5)):
        shipped = order["o_orderdate"] + timedelta(days=random.randint(1, 90))
        received = shipped + timedelta(days=random.randint(1, 30))
        part_key = random.randint(1, 20)
        yield {
            "l_orderkey": order["o_orderkey"],
            "l_linenumber": number,
            "l_partkey": part_key,
            "l_suppkey": (part_key + random.randrange(3) * 3) % 8 + 1,
            "l_quantity": random.randint(40 if order["o_orderkey"] % 10 == 0 else 1, 50),
            "l_extendedprice": _cents(random, 100_000, 10_000_000),
            "l_discount": Decimal(random.randint(0, 10)) / 100,
            "l_tax": Decimal(random.randint(0, 8)) / 100,
            "l_returnflag": random.choice("AR") if received <= TODAY else "N",
            "l_linestatus": "O" if shipped > TODAY else "F",
            "l_shipdate": shipped,
            "l_commitdate": order["o_orderdate"] + timedelta(days=random.randint(30, 60)),
            "l_receiptdate": received,
            "l_shipinstruct": random.choice(("DELIVER IN PERSON", "NONE")),
            "l_shipmode": random.choice(MODES),
        }


def _calendar(number: int) -> dict[str, Any]:
    day = FIRST_DAY + timedelta(days=number)
    return {
        "d_date_sk": number + 1,
        "d_date": day,
        "d_year": day.year,
        "d_moy": day.month,
        "d_dom": day.day,
        "d_qoy": (day.month + 2) // 3,
        "d_week_seq": number // 7,
        "d_day_name": WEEKDAYS[day.weekday()],
    }


def _item(random: Random, key: int) -> dict[str, Any]:
    category, kind = CATEGORIES[key % len(CATEGORIES)]
    return {
        "i_item_sk": key,
        "i_manager_id": key % 5,
        "i_item_id": f"AAAA{key % 8:04d}",
        "i_category": category if key != 9 else None,
        "i_class": kind,
        "i_brand": f"brand {key % 3}",
        "i_color": random.choice(("red", "blue", None)),
        "i_current_price": None if key == 4 else _cents(random, 100, 9_900),
        "i_wholesale_cost": _cents(random, 50, 5_000),
    }


def _sale(random: Random, number: int) -> dict[str, Any]:
    price, quantity = _cents(random, 100, 9_900), random.randint(1, 20)
    return {
        "ss_ticket_number": number // 2,
        "ss_sold_date_sk": None if number % 40 == 0 else random.randint(1, DAYS),
        "ss_item_sk": random.randint(1, 16),
        "ss_customer_sk": None if number % 30 == 0 else random.randint(1, 24),
        "ss_store_sk": random.randint(1, 3),
        "ss_quantity": quantity,
        "ss_sales_price": price,
        "ss_ext_sales_price": price * quantity,
        "ss_net_profit": _cents(random, -50_000, 90_000),
    }


def _return(random: Random, sale: dict[str, Any]) -> dict[str, Any]:
    return {
        "sr_ticket_number": sale["ss_ticket_number"],
        "sr_item_sk": sale["ss_item_sk"],
        "sr_returned_date_sk": random.randint(1, DAYS),
        "sr_return_quantity": random.randint(1, sale["ss_quantity"]),
        "sr_return_amt": _cents(random, 100, 50_000),
    }


def _web_sale(random: Random, number: int) -> dict[str, Any]:
    return {
        "ws_order_number": number // 3,
        "ws_sold_date_sk": random.randint(1, DAYS),
        "ws_item_sk": random.randint(1, 16),
        "ws_customer_sk": random.randint(1, 24),
        "ws_quantity": random.randint(1, 20),
        "ws_sales_price": _cents(random, 100, 9_900),
        "ws_net_profit": None if number % 25 == 0 else _cents(random, -50_000, 90_000),
    }


def _employee(key: int) -> dict[str, Any]:
    return {
        "e_id": key,
        "e_manager": None if key == 1 else key // 2,
        "e_salary": 9_000 - 500 * (key // 3),
        "e_name": f"Person {key}",
        "e_team": None if key == 1 else ("sales", "lab", "ops")[key % 3],
        "e_hired": FIRST_DAY + timedelta(days=37 * key),
        "e_active": key % 4 != 0,
    }


def _event(random: Random, key: int) -> dict[str, Any]:
    return {
        "v_id": key,
        "v_customer": random.randint(1, 6),
        "v_amount": None if key % 7 == 0 else random.randint(1, 100),
        "v_kind": random.choice(("view", "click", "buy")),
        "v_at": datetime.combine(FIRST_DAY, time(12)) + timedelta(minutes=97 * key),
    }
