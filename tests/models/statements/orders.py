"""A shop, and a ledger of numbers: decimals, dates, times, intervals, arrays, composites, set operations."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    LABEL_STYLE_TABLENAME_PLUS_COL,
    Float,
    Integer,
    Numeric,
    String,
    and_,
    any_,
    between,
    bindparam,
    case,
    cast,
    column,
    distinct,
    extract,
    func,
    lateral,
    literal,
    nulls_last,
    select,
    text,
    true,
    type_coerce,
    union,
    union_all,
    values,
)
from sqlalchemy.dialects.postgresql import array, array_agg, distinct_on
from sqlalchemy.orm import Bundle, aliased, defer, undefer

from tests.models.models import Customer, Ledger, Line, Order, OrderStatus, visits
from tests.models.rows import PLAIN

Other = aliased(Order, name="other")
_spent = (
    select(
        Order.customer_id, func.sum(Line.price).label("spent"), func.count(distinct(Order.id)).label("orders")
    )
    .join(Order.lines)
    .group_by(Order.customer_id)
    .subquery("spent")
)
_first_orders = (
    select(Order.customer_id, func.min(Order.placed).label("first")).group_by(Order.customer_id).cte("firsts")
)
_numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
_numbers = _numbers.union_all(select(_numbers.c.n + 1).where(_numbers.c.n < 12))
_rich = select(Customer.id, Customer.name).where(Customer.credit > 500)
_german = select(Customer.id, Customer.name).where(Customer.country == "DE")

SHOP: dict[str, Any] = {
    "customers": select(Customer),
    "customers, ordered": select(Customer).order_by(
        Customer.country.nulls_last(), Customer.name, Customer.id
    ),
    "homes": select(Customer.id, Customer.home),
    "home's parts": select(Customer.id, Customer.__table__.c.home_x).where(Customer.__table__.c.home_y > 1),
    "country": select(Customer.country, func.count(), func.sum(Customer.credit)).group_by(Customer.country),
    "credit": select(Customer.id, Customer.credit).where(Customer.credit >= Decimal("300.10")),
    "credit, computed": select(Customer.id, (Customer.credit * Decimal("1.19")).label("gross")),
    "born": select(Customer.id, Customer.born)
    .where(Customer.born < dt.date(1975, 1, 1))
    .order_by(Customer.born),
    "born in": select(extract("year", Customer.born).label("year"), Customer.id),
    "key": select(Customer.key).where(Customer.key == UUID(int=2**127 + 3)),
    "keys": select(Customer.id, Customer.key).where(Customer.key.is_not(None)),
    "orders": select(Order),
    "orders, ordered": select(Order).order_by(Order.placed.desc(), Order.id.desc()),
    "orders and customers": select(Order, Customer).join(Order.customer),
    "orders with totals": select(Order).options(undefer(Order.total)),
    "order totals": select(Order.id, Order.total),
    "orders by total": select(Order.id).where(Order.total > 100).order_by(Order.total.desc(), Order.id),
    "orders without a note": select(Order).options(defer(Order.note)),
    "status": select(Order.status, func.count(Order.id)).group_by(Order.status).order_by(Order.status),
    "paid": select(Order.id).where(Order.status == OrderStatus.PAID),
    "status listed": select(Order.id, Order.status).where(
        Order.status.in_([OrderStatus.NEW, OrderStatus.SHIPPED])
    ),
    "placed on": select(func.date(Order.placed).label("day"), func.count()).group_by("day"),
    "placed between": select(Order.id, Order.placed).where(
        between(Order.placed, PLAIN + dt.timedelta(days=1), PLAIN + dt.timedelta(days=3))
    ),
    "due": select(Order.id, Order.due).where(Order.due >= dt.date(2026, 6, 1)).order_by(Order.due, Order.id),
    "due or not": select(Order.id, func.coalesce(Order.due, dt.date(2030, 1, 1)).label("due")),
    "at": select(Order.id, Order.at).where(Order.at > dt.time(12, 0)),
    "discounts": select(Order.discount, func.count()).group_by(Order.discount),
    "discounted": select(Order.id, Order.discount).where(Order.discount == Decimal("0.125")),
    "shipping": select(Order.id, Order.shipping),
    "shipping, at least": select(Order.id).where(Order.shipping >= Decimal("2.99")),
    "shipping, ordered": select(Order.id, Order.shipping).order_by(
        Order.shipping.desc().nulls_last(), Order.id
    ),
    "shipping, all": select(func.max(Order.shipping), func.min(Order.shipping).label("least")),
    "scores": select(Order.id, Order.scores),
    "notes": select(Order.note).where(Order.note.is_not(None)).distinct(),
    "notes like": select(Order.id, Order.note).where(Order.note.contains("a", autoescape=True)),
    "notes, empty": select(Order.id).where(Order.note == ""),
    "lines": select(Line),
    "lines with prices": select(Line.order_id, Line.product, Line.price).order_by(
        Line.price.desc(), Line.order_id
    ),
    "dear lines": select(Line).where(Line.price > 100),
    "products": select(Line.product, func.sum(Line.amount).label("amount"), func.avg(Line.cents)).group_by(
        Line.product
    ),
    "products sold": select(Line.product).group_by(Line.product).having(func.sum(Line.price) > 800),
    "lines of orders": select(Order.id, Line.product).join(Order.lines).order_by(Order.id, Line.position),
    "lines of orders, outer": select(Order.id, Line.product).outerjoin(Order.lines),
    "spent": select(Customer.name, _spent.c.spent, _spent.c.orders).join(
        _spent, _spent.c.customer_id == Customer.id
    ),
    "first orders": select(Customer.id, _first_orders.c.first).join(
        _first_orders, _first_orders.c.customer_id == Customer.id
    ),
    "orders on the same day": select(Order.id, Other.id.label("other")).join(
        Other, and_(Other.placed == Order.placed, Other.id > Order.id)
    ),
    "nth order": select(
        Order.customer_id,
        Order.id,
        func.row_number()
        .over(partition_by=Order.customer_id, order_by=(Order.placed, Order.id))
        .label("nth"),
    ),
    "cumulative": select(
        Line.order_id,
        Line.position,
        func.sum(Line.cents)
        .over(partition_by=Line.order_id, order_by=Line.position, range_=(None, 0))
        .label("so_far"),
    ),
    "share of order": select(
        Line.order_id,
        Line.position,
        (Line.price * 100 / func.sum(Line.price).over(partition_by=Line.order_id)).label("pct"),
    ),
    "previous order": select(Order.id, func.lag(Order.id, 1, 0).over(order_by=Order.id).label("previous")),
    # SQLAlchemy calls it a Numeric, and rounds the database's double to ten digits.
    "percent rank": select(
        Line.product, func.percent_rank(type_=Float()).over(order_by=Line.cents), Line.cents
    ),
    "bundle": select(Bundle("who", Customer.id, Customer.name), Customer.country),
    "bundle alone": select(Bundle("what", Line.product, Line.price)),
    "customer or none": select(Customer, Order).outerjoin(Order, Order.customer_id == Customer.id),
    "united": union(_rich, _german),
    "united, ordered": union(_rich, _german).order_by("name", "id"),
    "united all": union_all(_rich, _german),
    "united all, limited": union_all(_rich, _german).order_by("id", "name").limit(5),
    "united entities": select(Customer).where(Customer.id < 3).union(select(Customer).where(Customer.id > 7)),
    "united, nested": select(union(_rich, _german).subquery("both").c.name).distinct(),
    "common": _rich.intersect(_german),
    "rest": _rich.except_(_german),
    "united three times": union_all(_rich, _german, _rich.where(Customer.id > 6)),
    "numbers": select(_numbers.c.n),
    "days without orders": select(_numbers.c.n)
    .outerjoin(Order, Order.id == _numbers.c.n * 3)
    .where(Order.id.is_(None)),
    "one row": select(literal(1).label("one"), literal("x").label("word")),
    "one value": select(func.count(Order.id)),
    "many aggregates": select(
        func.count(),
        func.count(Order.note),
        func.min(Order.placed),
        func.max(Order.due),
        func.min(Order.note),
    ),
    "scalar of two": select(
        select(func.count(Order.id)).scalar_subquery().label("orders"),
        select(func.count(Customer.id)).scalar_subquery().label("customers"),
    ),
    "bound by name": select(Order.id).where(Order.id > bindparam("least")).params(least=20),
    "any of": select(Order.id).where(
        Order.customer_id == select(func.max(Customer.id) - 2).scalar_subquery()
    ),
    "not in": select(Customer.id).where(Customer.id.not_in([1, 2, 3])),
    "in nothing": select(Customer.id).where(Customer.id.in_([])),
    "order by a number": select(Customer.name, Customer.id).order_by(text("2")),
    "order by an expression": select(Customer.id, Customer.name).order_by(
        func.length(Customer.name).desc(), Customer.id
    ),
    "order by a case": select(Order.id, Order.status).order_by(
        case((Order.status == OrderStatus.PAID, 0), else_=1), Order.id
    ),
    "order by what is not shown": select(Order.note).order_by(Order.placed, Order.id),
    "group by an expression": select((Order.id % 4).label("rest"), func.count()).group_by("rest"),
    "group by a function": select(func.lower(Customer.name), func.count()).group_by(
        func.lower(Customer.name)
    ),
    "having and order": select(Order.customer_id, func.count().label("n"))
    .group_by(Order.customer_id)
    .having(func.count() >= 3)
    .order_by(func.count().desc(), Order.customer_id),
    "distinct pairs": select(Order.status, Order.customer_id).distinct(),
    "distinct expression": select(func.coalesce(Order.note, "-").label("note")).distinct(),
    "distinct by prefix": select(Order.customer_id).prefix_with("DISTINCT"),
    "distinct entity": select(Customer).join(Order, Order.customer_id == Customer.id).distinct(),
    "limit and offset": select(Order.id).order_by(Order.id).limit(9).offset(4),
    "limited join": select(Order.id, Line.product)
    .join(Order.lines)
    .order_by(Order.id, Line.position)
    .limit(8),
    "offset alone": select(Order.id).order_by(Order.id.desc()).offset(15),
    "limited in a join": select(
        (few := select(Order.id, Order.customer_id).order_by(Order.id).limit(6).subquery("few")).c.id,
        Customer.name,
    ).join(Customer, Customer.id == few.c.customer_id),
    "visits": select(visits),
    "visits, grouped": select(visits.c.page, func.count(), func.sum(visits.c.seconds)).group_by(
        visits.c.page
    ),
    "visits, ordered": select(visits).order_by(visits.c.day.desc(), visits.c.page.nulls_last()),
    "visits of pages": select(visits.c.day).where(visits.c.page.is_(None)),
    "equal labels": select(Customer.id.label("x"), Customer.name.label("x")),
    "labels that are words": select(Customer.id.label("select"), Customer.name.label("order by")),
    "label of an outer space": select(Customer.name.label('name, of the "customer"')),
    "table names and columns": select(Customer.__table__).set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL),
}

L = Ledger
LEDGER: dict[str, Any] = {
    "all": select(L),
    "all, ordered": select(L).order_by(L.exact.desc().nulls_last(), L.id),
    "whole numbers": select(L.id, L.small, L.big),
    "large": select(L.id).where(L.big > 2**62),
    "exact": select(L.id, L.exact).where(L.exact > Decimal("10.5")),
    "exact one": select(L.id).where(L.exact == Decimal("3.000125")),
    "exact sums": select(func.sum(L.exact), func.avg(L.loose).label("mean"), func.max(L.exact)),
    "exact arithmetic": select(L.id, (L.exact + L.loose).label("sum"), (L.exact - 1).label("less")),
    "exact in groups": select(L.loose, func.count(), func.sum(L.exact).label("sum")).group_by(L.loose),
    "ratio": select(L.id, L.ratio).where(L.ratio > 1.5),
    "ratio, ordered": select(L.ratio).order_by(L.ratio.desc().nulls_last()),
    "blob": select(L.id, L.blob).where(L.blob == b"\x00\x01"),
    "blob lengths": select(func.length(L.blob).label("n"), func.count()).group_by(func.length(L.blob)),
    "words": select(L.word).distinct(),
    "words, ordered": select(L.id, L.word).order_by(L.word.asc().nulls_first(), L.id),
    "flags": select(L.flag, func.count()).group_by(L.flag),
    "flagged": select(L.id, L.flag).where(L.flag.is_(True)),
    "not flagged": select(L.id).where(L.flag.is_(False)),
    "days": select(L.id, L.day).where(L.day.between(dt.date(2001, 1, 1), dt.date(2010, 12, 31))),
    "days ordered": select(L.day).order_by(L.day.desc().nulls_last(), L.id),
    "clocks": select(L.id, L.clock).where(L.clock < dt.time(9)),
    "moments": select(L.id, L.moment).where(L.moment >= PLAIN + dt.timedelta(seconds=2)),
    "moment exactly": select(L.id).where(L.moment == PLAIN + dt.timedelta(seconds=3, microseconds=1)),
    "moments in groups": select(L.moment, func.count()).group_by(L.moment),
    "spans": select(L.id, L.span),
    "longer than": select(L.id).where(L.span > dt.timedelta(hours=3)),
    "codes": select(L.code, func.count()).group_by(L.code),
    "code": select(L.id).where(L.code == UUID(int=4)),
    "documents": select(L.id, L.doc),
    "documents, word": select(L.doc["s"].as_string().label("s"), L.id).where(L.doc["n"].as_integer() == 1),
    "numeric cast": select(L.id, cast(L.ratio, Numeric(10, 2)).label("rounded")),
    "integer cast": select(L.id, cast(L.word, String), cast(L.flag, Integer)),
    "small": select(L.small),
    "nulls and not": select(L.small.is_(None).label("missing"), func.count()).group_by(L.small.is_(None)),
    "nullif": select(L.id, func.nullif(L.small, 0).label("n"), func.abs(L.small)),
    "truth": select(L.id, and_(L.flag.is_(True), L.small > 0).label("both"), (L.small > 0).label("positive")),
    "constants": select(
        L.id, literal(Decimal("1.50")).label("price"), literal(dt.date(2026, 1, 1)).label("day")
    ),
    "null label": select(L.id, literal(None).label("empty")),
    "concatenated": select((L.word + "-" + cast(L.id, String)).label("w")).order_by(nulls_last(L.word), L.id),
    "division": select(L.id, (cast(L.big, Float) / 3).label("third"), (L.small / 2).label("half")),
    "in subquery of itself": select(L.id, L.exact).where(
        L.exact == select(func.max(L.exact)).scalar_subquery()
    ),
    "above average": select(L.id).where(L.ratio > select(func.avg(L.ratio)).scalar_subquery()),
    "subquery in from": select(
        (inner := select(L).where(L.id < 9).subquery("inner_ledger")).c.exact, inner.c.word
    ),
    "entity of a subquery": select(aliased(L, select(L).where(L.id > 9).subquery("part"))),
    "cte twice": select(
        (small := select(L.id, L.small).where(L.small.is_not(None)).cte("small_ones")).c.id,
        (again := small.alias("again")).c.id.label("other"),
    ).join(again, and_(again.c.small == small.c.small, again.c.id == small.c.id + 3)),
}

STATEMENTS = {
    f"{application}: {name}": statement
    for application, each in (("shop", SHOP), ("ledger", LEDGER))
    for name, statement in each.items()
}

_best_lines = lateral(
    select(Line.product, Line.cents).where(Line.order_id == Order.id).order_by(Line.cents.desc()).limit(1),
    name="best_line",
)
POSTGRESQL: dict[str, Any] = {
    "shop: slice of an array": select(type_coerce(Order.scores, ARRAY(Integer))[1:2], Order.id),
    "shop: values": select(
        values(column("a", Integer), column("b", String), name="v").data(
            [(1, "x"), (2, "y"), (2, "y"), (3, None)]
        )
    ),
    "shop: values joined": select(
        (
            wanted := values(column("id", Integer), column("why", String), name="wanted").data(
                [(1, "x"), (5, "y")]
            )
        ).c.why,
        Customer.name,
    ).join(wanted, wanted.c.id == Customer.id),
    "shop: lateral": select(Order.id, _best_lines.c.product).join(_best_lines, true()),
    "shop: distinct on": select(Order)
    .ext(distinct_on(Order.customer_id))
    .order_by(Order.customer_id, Order.placed.desc(), Order.id),
    "shop: array contains": select(Order.id, Order.scores).where(literal(2) == any_(Order.scores)),
    "shop: array length": select(Order.id, func.cardinality(Order.scores).label("n")),
    "shop: arrays made": select(Order.customer_id, array_agg(Order.id)).group_by(Order.customer_id),
    "shop: arrays of texts": select(Line.order_id, array_agg(Line.product)).group_by(Line.order_id),
    "shop: array literal": select(Order.id, array([Order.id, Order.customer_id]).label("pair")),
    "shop: unnest": select(func.unnest(Order.scores).label("score"), Order.id),
    "shop: generate_series": select(func.generate_series(1, 5).label("n")),
    "shop: rollup": select(Order.status, Order.customer_id, func.count()).group_by(
        func.rollup(Order.status, Order.customer_id)
    ),
    "shop: within a month": select(
        func.date_trunc("month", Order.placed).label("month"), func.count()
    ).group_by("month"),
    "shop: nulls first": select(Order.id).order_by(Order.due.asc().nulls_first(), Order.id),
    "shop: full": select(Customer.id, Order.id.label("o")).join(Order, Order.id == Customer.id, full=True),
    "ledger: intervals summed": select(func.sum(L.span), func.max(L.span).label("longest")),
    "ledger: moments shifted": select(L.id, (L.moment + L.span).label("later"), (L.day + 7).label("week")),
    "ledger: days between": select(L.id, (L.day - dt.date(2000, 1, 1)).label("days")),
    "ledger: age": select(L.id, func.extract("epoch", L.span).label("seconds")),
    "ledger: part of a document": select(L.id, L.doc["n"]),
    "ledger: bits": select(L.id, L.small.bitwise_and(1)),
    "ledger: regexp": select(L.word).where(L.word.regexp_match("^[a-z]+$")),
}
