"""Intervals: their texts, dates that are moved by one, and the whole units between two dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, cast as cast_to

from sqlalchemy import BindParameter, cast, literal, type_coerce, types
from sqlalchemy.sql.visitors import iterate
from sqlglot import exp

from dualsql.columns.own_types import Element
from dualsql.sql.scope import Scope, forbid, invalid, only
from dualsql_client.wire_requests import Bucket

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


_PART = re.compile(r"\s*([+-]?[0-9]{1,9})\s*([a-zA-Z]+)\s*", re.ASCII)
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,9}\s*", re.ASCII)

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?")

_MOVES: Mapping[str, int] = {"date_add": 1, "adddate": 1, "date_sub": -1, "subdate": -1}
"""Functions of a date and an interval, and whether they add it or subtract it."""


def is_moment(text: str) -> bool:
    """Whether it is a day that exists, with or without a time."""
    try:
        return bool(_MOMENT.fullmatch(text) and datetime.fromisoformat(text))
    except ValueError:
        return False


def interval(node: exp.Interval, translator: Translator) -> Element:
    """INTERVAL '3' MONTH, INTERVAL '1 year 2 days', as a value of its own."""
    dialect = translator.dialect
    if dialect.moves_date is not None:
        invalid("An interval stands alone.", hint="Add it to a date: x + INTERVAL 1 MONTH.")
    if dialect.interval is None:
        forbid("INTERVAL", hint=dialect.interval_hint)
    text = node.this.name if isinstance(node.this, exp.Literal) else None
    unit = node.args.get("unit")
    if text is None or (unit is not None and not isinstance(unit, exp.Var)):
        invalid(
            "An interval's text cannot be read.", hint="Write INTERVAL '3' MONTH or INTERVAL '1 year 2 days'."
        )
    span = text if unit is None else f"{text} {unit.name}"
    parts = [(int(number), name.lower().removesuffix("s")) for number, name in _PART.findall(span)]
    if parts and not _PART.sub("", span) and all(name in _UNITS for _, name in parts):
        return dialect.interval([sum(n for n, name in parts if name == unit) for unit in _UNITS])
    # '1.5 hours', '90 milliseconds', '01:30:00': the database reads them.
    return cast(literal(span, types.Text()), types.Interval())


def days(translator: Translator, left: Element, right: Element) -> Element:
    """The right side of an instant ± a whole number, which are days where intervals are values of their own.

    Elsewhere the database would take a date for the number that it begins with.
    """
    if translator.dialect.moves_date is not None and any(
        isinstance(side.type, types.Date | types.DateTime) for side in (left, right)
    ):
        invalid("A date has no arithmetic here.", hint=translator.dialect.interval_hint)
    is_instant = isinstance(left.type, types.DateTime) and translator.dialect.interval is not None
    number = right.value if isinstance(right, BindParameter) else None
    if not is_instant or type(number) is not int or abs(number) > _MOST_DAYS:
        return right
    assert translator.dialect.interval is not None
    return translator.dialect.interval([number if unit == "day" else 0 for unit in _UNITS])


_MOST_DAYS = 1_000_000
_LARGEST_INSTANT = 3
"""Elements of an expression whose beginning is computed: max(x) has three. It is written several times."""


def start_of(translator: Translator, element: Element, unit: Bucket) -> Element:
    """date_trunc('month', x), where the database has no such function."""
    if not isinstance(element.type, types.Date | types.DateTime):
        invalid(
            "The beginning of a text or number is not computed here.", hint="Give it a column with dates."
        )
    if sum(1 for _ in islice(iterate(element), _LARGEST_INSTANT + 1)) > _LARGEST_INSTANT:
        invalid(
            "The beginning of a computed date is not computed here.",
            hint="Name it first: SELECT date_trunc('month', s.x) FROM (SELECT ... AS x FROM t) AS s.",
        )
    # Of a plain column, SQLite's form is faster, and so long that its parser refuses it beside another instant.
    instant = type_coerce(element, element.type)
    return cast_to("Element", translator.capabilities.query.bucket_start(instant, unit))


def shift(translator: Translator, node: Any, scope: Scope) -> Element | None:
    """`date + INTERVAL 1 MONTH` where an interval is no value of its own; None for other operations."""
    left, right = node.this, node.expression
    if translator.dialect.moves_date is None:
        return None
    if isinstance(right, exp.Interval):
        return _shift(translator, left, right, scope, sign=-1 if isinstance(node, exp.Sub) else 1)
    if isinstance(left, exp.Interval) and isinstance(node, exp.Add):
        return _shift(translator, right, left, scope, sign=1)
    return None


def duration_call(translator: Translator, name: str, nodes: list[Any], scope: Scope) -> Element | None:
    """DATE_ADD(x, INTERVAL 1 MONTH), TIMESTAMPDIFF(YEAR, x, y); None for other functions."""
    dialect = translator.dialect
    if dialect.moves_date is None:
        return None
    if name in _MOVES and len(nodes) == 2:
        days = nodes[1]
        if not isinstance(days, exp.Interval):
            days = exp.Interval(this=days, unit=exp.Var(this="DAY"))
        return _shift(translator, nodes[0], days, scope, sign=_MOVES[name])
    if name not in ("timestampdiff", "timestampadd") or len(nodes) != 3 or dialect.units_between is None:
        return None
    unit = _unit(translator, nodes[0])
    if name == "timestampadd":
        return _shift(
            translator, nodes[2], exp.Interval(this=nodes[1], unit=exp.Var(this=unit)), scope, sign=1
        )
    first, second = (translator.expression(part, scope) for part in nodes[1:])
    return dialect.units_between(unit, first, second)


def _shift(translator: Translator, date: Any, node: Any, scope: Scope, *, sign: int) -> Element:
    args = only(node, "this", "unit")
    unit, amount = _unit(translator, args.get("unit")), args["this"]
    is_text = isinstance(date, exp.Literal) and date.args.get("is_string")
    if translator.dialect.date_cast_hint and is_text and not is_moment(date.name):
        invalid(f"{date.name[:30]!r} is no date.", hint="Write it as '2026-01-31'.")
    if isinstance(amount, exp.Literal) and _NUMBER.fullmatch(amount.name):
        number: Element = literal(sign * int(amount.name), types.Integer())
    else:
        value = translator.expression(amount, scope)
        number = value if sign > 0 else -value
    assert translator.dialect.moves_date is not None
    return translator.dialect.moves_date(unit, number, translator.expression(date, scope))


def _unit(translator: Translator, node: Any) -> str:
    name = node.name.lower() if isinstance(node, exp.Var | exp.Column | exp.Identifier) else ""
    name = name.removesuffix("s") if name not in translator.dialect.units else name
    if name not in translator.dialect.units:
        units = ", ".join(translator.dialect.units)
        invalid(f"The unit {name[:20]!r} of an interval is not known.", hint=f"Known: {units}.")
    return name
