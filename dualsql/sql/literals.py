"""Constants of the text as bound values; the rule: a constant takes the type of what it is compared with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeGuard

from sqlalchemy import BindParameter, ColumnElement, func, literal, types
from sqlalchemy.types import TypeEngine
from sqlglot import exp

from dualsql.sql.refusals import forbid, invalid
from dualsql_client import conversions
from dualsql_client.wire import INFINITIES

_LARGEST_INTEGER = 2**63 - 1
_LARGEST_SMALL = 2**31 - 1
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_PART = re.compile(r"\s*([+-]?[0-9]{1,9})\s*([a-zA-Z]+)\s*", re.ASCII)
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")

_HAVE_INFINITIES = ("postgresql", "duckdb")

# How a text is read where a value of the type is wanted.
_READERS: Sequence[tuple[type[TypeEngine[Any]], Callable[[str], Any]]] = (
    (types.DateTime, conversions.instant),
    (types.Date, conversions.day),
    (types.Time, conversions.clock),
    (types.Uuid, conversions.identifier),
    (types.Integer, conversions.integer),
    (types.Numeric, conversions.decimal),
    (types.Float, conversions.real),
)


def number(text: str, dialect: str) -> ColumnElement[Any]:
    """A number; with a fraction it is exact, but on SQLite, which knows only floating point."""
    whole = conversions.whole_or_none(text, _LARGEST_INTEGER)
    if whole is not None:
        return literal(whole, types.Integer() if whole <= _LARGEST_SMALL else types.BigInteger())
    if not _NUMBER.fullmatch(text) or not any(map(str.isdigit, text)):
        invalid(f"{text[:40]!r} is no number.", hint="Write digits, with a point or an exponent if need be.")
    if dialect == "sqlite":
        return literal(conversions.real(text), types.Float())
    return literal(conversions.decimal(text), types.Numeric())


def string(text: str) -> ColumnElement[Any]:
    """A text, that `typed` may make something else of."""
    try:
        conversions.require_storable(text)
    except ValueError:
        invalid("A text of the SQL holds a NUL character, or is not Unicode.", hint="Write it without.")
    return literal(text, types.String())


def value(found: Any) -> ColumnElement[Any]:
    """A parameter's value, as JSON has it."""
    if found is None or isinstance(found, bool | int | float | str):
        return literal(found)
    return forbid(
        f"A parameter that is a {type(found).__name__}", hint="Give a text, a number, a boolean or null."
    )


def typed(element: ColumnElement[Any], wanted: TypeEngine[Any], dialect: str) -> ColumnElement[Any]:
    """A constant text as a value of the type that it stands beside; everything else as it is."""
    if not is_text(element):
        return element
    text = str(element.value)
    if text in INFINITIES and dialect in _HAVE_INFINITIES and isinstance(wanted, types.Date | types.DateTime):
        return literal(text, wanted)
    for kind, read in _READERS:
        if isinstance(wanted, kind):
            with suppress(ValueError):
                # Not a decimal column's own type: PostgreSQL would round the constant to its digits, or refuse it.
                bare = types.Numeric() if type(wanted) is types.Numeric else wanted
                return literal(_zoned(read(text), wanted), bare)
            if dialect == "sqlite":  # which compares texts with texts
                return element
            invalid(
                f"{text[:40]!r} is no {type(wanted).__name__.lower()}.", hint="Write it as ISO 8601 does."
            )
    return literal(text, wanted) if isinstance(wanted, types.Enum | types.String) else element


def listed(elements: Sequence[ColumnElement[Any]]) -> BindParameter[Any] | None:
    """Constants of one type as one list, which costs less than as many parameters; None for anything else."""
    constants = [element for element in elements if isinstance(element, BindParameter)]
    if len(constants) < len(elements) or any(constant.value is None for constant in constants):
        return None
    kinds = {repr(constant.type): constant.type for constant in constants}
    whole = all(isinstance(kind, types.Integer) for kind in kinds.values())
    if len(kinds) != 1 and not whole:
        return None
    kind = types.BigInteger() if len(kinds) > 1 else constants[0].type
    return BindParameter(None, [constant.value for constant in constants], kind, unique=True, expanding=True)


def is_text(element: Any) -> TypeGuard[BindParameter[str]]:
    """Whether it is a constant text."""
    return isinstance(element, BindParameter) and isinstance(element.value, str)


def interval(node: exp.Interval, dialect: str) -> ColumnElement[Any]:
    """INTERVAL '3' MONTH, INTERVAL '1 year 2 days'."""
    if dialect != "postgresql":
        forbid(
            "INTERVAL", hint="On SQLite write date(column, '+3 months'), on MariaDB date_add is not served."
        )
    amounts = dict.fromkeys(_UNITS, 0)
    for amount, unit in _amounts(node):
        name = unit.lower().removesuffix("s")
        if name not in amounts:
            invalid(
                f"The unit {unit[:20]!r} of an interval is not known.", hint=f"Known: {', '.join(_UNITS)}."
            )
        amounts[name] += amount
    # years, months, weeks, days, hours, minutes, seconds
    return func.make_interval(
        *(literal(amount, types.Integer()) for amount in amounts.values()), type_=types.Interval()
    )


def _amounts(node: exp.Interval) -> list[tuple[int, str]]:
    text = node.this.name if isinstance(node.this, exp.Literal) else ""
    unit = node.args.get("unit")
    if isinstance(unit, exp.Var) and re.fullmatch(r"[+-]?[0-9]{1,9}", text.strip(), re.ASCII):
        return [(int(text), unit.name)]
    found = _PART.findall(text)
    if not found or _PART.sub("", text):
        invalid(
            "An interval's text cannot be read.", hint="Write INTERVAL '3' MONTH or INTERVAL '1 year 2 days'."
        )
    return [(int(amount), name) for amount, name in found]


def _zoned(found: Any, wanted: TypeEngine[Any]) -> Any:
    """An instant with or without a zone, as the column has it; without one the database's own is not guessed."""
    if isinstance(found, datetime) and isinstance(wanted, types.DateTime):
        if wanted.timezone and found.tzinfo is None:
            return found.replace(tzinfo=UTC)
        if not wanted.timezone and found.tzinfo is not None:
            raise ValueError("a zone where the column has none")
    return found
