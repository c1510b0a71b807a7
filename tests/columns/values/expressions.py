"""Expressions over columns whose values tell types apart, as SQL text and as Selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Float,
    Integer,
    Interval,
    MetaData,
    Numeric,
    Table,
    Text,
    Time,
    case,
    func,
    select,
)

METADATA = MetaData()

cells = Table(
    "cells",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("n", Integer),
    Column("big", BigInteger),
    Column("x", Double),
    Column("p", Numeric(10, 2)),
    Column("f", Boolean),
    Column("s", Text),
)

ROWS = (
    "1, -3, 4611686018427387905, -0.5, -1.50, true, 'a'",
    "2, 0, 9007199254740993, 0.0, 0.05, false, 'B'",
    "3, 7, -4611686018427387904, 2.5, 21.99, true, 'a '",
    "4, 7, 3, 1e300, 0.00, false, ''",
    "5, NULL, NULL, NULL, NULL, NULL, NULL",
)

moments = Table(
    "moments",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("day", Date),
    Column("at", DateTime),
    Column("zoned", DateTime(timezone=True)),
    Column("clock", Time),
    Column("span", Interval),
    Column("rounded", Float(asdecimal=True)),
)
"""What is no number, and doubles that SQLAlchemy makes decimals of."""

_INSTANT = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
MOMENTS: dict[str, Any] = {
    "id": 1,
    "day": _INSTANT.date(),
    "at": _INSTANT.replace(tzinfo=None),
    "zoned": _INSTANT,
    "clock": time(12, 30),
    "span": timedelta(hours=26),
    "rounded": Decimal("0.1"),
}

COLUMNS = ("id", "n", "big", "x", "p", "f")
CONDITIONS = ("n > 1", "n IS NULL", "s LIKE 'a%'", "n IN (7, 0)", "x BETWEEN -1 AND 1", "NOT (n > 1)")

SCALARS = (
    "{v}", "-{v}", "{v} + 1", "{v} - 0.5", "{v} * 2", "{v} * 1.5", "{v} / 2", "{v} / 3.0", "{v} + {v}", "abs({v})",
    "round({v})", "coalesce({v}, 0)", "coalesce({v}, 0.5)", "nullif({v}, 0)", "CASE WHEN id > 2 THEN {v} ELSE 0 END",
    "CASE WHEN id > 2 THEN {v} ELSE 0.5 END", "lag({v}) OVER (ORDER BY id)", "sum({v}) OVER (ORDER BY id)",
    "avg({v}) OVER (ORDER BY id)", "{v} = 7", "({v}) + (n > 1)", "({v}) + ({v})",
)  # fmt: skip
AGGREGATES = (
    "sum({v})", "avg({v})", "min({v})", "max({v})", "count({v})", "round(avg({v}), 2)", "sum({v}) * 100 / count(*)",
    "round(count({v}) / count(*) * 100, 2)", "coalesce(sum({v}), 0)", "abs(sum({v}))", "sum({v}) + sum({v})",
    "sum(CASE WHEN id > 2 THEN {v} ELSE 0 END)", "max({v}) - min({v})",
)  # fmt: skip


def texts() -> Iterator[tuple[str, Sequence[str]]]:
    """The rest of a SELECT, and expressions for its list."""
    values = [*COLUMNS, *(f"({one})" for one in CONDITIONS)]
    for value in values:
        yield "FROM cells ORDER BY id", [one.format(v=value) for one in SCALARS]
        yield "FROM cells", [one.format(v=value) for one in AGGREGATES]


class Form(NamedTuple):
    """An expression of a column."""

    name: str
    of: Callable[[Any], Any]
    is_aggregate: bool = False
    computes: bool = False


FORMS = (
    Form("itself", lambda v: v),
    Form("negative", lambda v: -v, computes=True),
    Form("plus", lambda v: v + 1, computes=True),
    Form("product", lambda v: v * 1.5, computes=True),
    Form("quotient", lambda v: v / 4, computes=True),
    Form("whole quotient", lambda v: v // 4, computes=True),
    Form("coalesce", lambda v: func.coalesce(v, 0)),
    Form("fraction", lambda v: func.coalesce(v, 0.5)),
    Form("choice", lambda v: case((cells.c.id > 2, v), else_=0)),
    Form("rounded", func.round),
    Form("absolute", func.abs),
    Form("running", lambda v: func.sum(v).over(order_by=cells.c.id)),
    Form("before", lambda v: func.lag(v).over(order_by=cells.c.id)),
    Form(
        "beneath",
        lambda v: select((v + 1).label("w")).where(cells.c.id == 3).scalar_subquery(),
        computes=True,
    ),
    Form("joined", lambda v: v.concat("x")),
    Form("masked", lambda v: v.bitwise_and(3), computes=True),
    Form("remainder", lambda v: v.op("%")(3), computes=True),
    Form("remainder called", lambda v: func.mod(v, 3), computes=True),
    Form("divided", lambda v: v.op("/")(2), computes=True),
    Form("up", func.ceil),
    Form("root", lambda v: func.sqrt(func.abs(v))),
    Form("after", lambda v: func.lead(v, 1).over(order_by=cells.c.id)),
    Form("first", lambda v: func.first_value(v).over(order_by=cells.c.id)),
    Form("sum", func.sum, is_aggregate=True),
    Form("average", func.avg, is_aggregate=True),
    Form("greatest", func.max, is_aggregate=True),
    Form("rounded average", lambda v: func.round(func.avg(v)), is_aggregate=True),
    Form("deviation", func.stddev, is_aggregate=True),
    Form("whole average", lambda v: func.floor(func.sum(v)), is_aggregate=True),
    Form("sum of sums", lambda v: func.sum(v) + func.sum(v), is_aggregate=True, computes=True),
    Form("chosen sum", lambda v: func.sum(case((cells.c.id > 2, v), else_=0)), is_aggregate=True),
)


def of_moments() -> Iterator[tuple[str, Any]]:
    """Named expressions of what is no number. Databases refuse many of them."""
    c = moments.c
    for v in (c.day, c.at, c.zoned, c.clock, c.span, c.rounded):
        yield from (
            (f"{name} of {v}", made)
            for name, made in (
                ("negative", -v),
                ("plus", v + 1),
                ("double", v * 2),
                ("half", v / 2),
                ("operator", v.op("/")(2)),
                ("less a day", v - c.day),
                ("less an instant", v - c.at),
                ("of a day", c.day + v),
                ("of an instant", c.at + v),
                ("of a zoned instant", c.clock + v),
                ("coalesce", func.coalesce(v, v)),
                ("before", func.lag(v).over(order_by=c.id)),
                ("joined", v.concat("x")),
                ("month", func.date_trunc("month", v)),
                ("zone", func.timezone("UTC", v)),
                ("sum", func.sum(v)),
                ("average", func.avg(v)),
                ("double sum", func.sum(v) * 2),
                ("greatest", func.max(v)),
                ("absolute", func.abs(v)),
                ("length", func.length(v)),
            )
        )


def selects() -> Iterator[tuple[bool, Sequence[tuple[str, Any]]]]:
    """Named expressions of each column, all of rows or all of their aggregates."""
    c = cells.c
    for value in (c.n, c.big, c.x, c.p, c.f, c.n > 1, c.s.like("a%")):
        for is_aggregate in (False, True):
            yield (
                is_aggregate,
                [
                    (form.name, form.of(value))
                    for form in FORMS
                    if form.is_aggregate is is_aggregate
                    and not (form.computes and isinstance(value.type, Boolean))
                ],
            )
