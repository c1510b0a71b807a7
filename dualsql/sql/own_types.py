"""Columns whose values the application's own types make, in a text; see `dualsql.meanings`.

A text computes with what is stored. Where that is another value than the one shown, it may stand only where the answer
is the same: beside a constant that the type takes, or another column of the same type; in count(); and in an order, a
group or a DISTINCT as far as the type keeps these.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, ColumnElement, literal, types
from sqlalchemy.sql.elements import False_, Null, True_
from sqlglot import exp

from dualsql.formats.made import taken
from dualsql.meanings import Meaning, SQLType
from dualsql.sql import literals
from dualsql.sql.refusals import forbid, invalid, shown
from dualsql_client.rows import decoder
from dualsql_client.wire import Column, Encoding

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator

Element = ColumnElement[Any]

_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
# They hand a value on, or are checked where they are read: a whole Select, ORDER BY and GROUP BY know their elements.
_HANDING_ON = (
    exp.Alias, exp.Filter, exp.Group, exp.Is, exp.Ordered, exp.Paren, exp.Select, exp.Subquery, exp.Cube, exp.Rollup,
    exp.GroupingSets,
)  # fmt: skip
_HINT = "Select the column as it is, or compare it with a value as it is shown."


def given(translator: Translator, element: Element, other: Element) -> Element:
    """The element; a constant is turned into what `other`, beside which it stands, is made of."""
    meaning = translator.meanings.of(other.type)
    if meaning.binds is None and not meaning.is_made:
        return literals.typed(element, other.type, translator.dialect)
    if not meaning.is_made:
        # What is stored is shown: compared is the value itself, and not what the application would make of it.
        typed = literals.typed(element, meaning.stored, translator.dialect)
        is_constant = isinstance(typed, BindParameter) and typed.value is not None
        return literal(typed.value, meaning.stored) if is_constant else typed
    value = _constant(translator, element, meaning)
    if value is None:
        return element
    if isinstance(meaning.shown, types.JSON):
        forbid(f"A comparison of documents that the type {meaning.name} makes", hint=_HINT)
    try:
        return literal(taken(value, meaning, translator.meanings), other.type)
    except ValueError:
        return invalid(
            f"{str(value)[:40]!r} is no value of a column whose values are made by the type {meaning.name}.",
            hint="Write it as the column shows its values.",
        )


def _constant(translator: Translator, element: Element, meaning: Meaning) -> Any:
    """The value of a constant, of the class that is shown where it can be; None for anything else."""
    if isinstance(element, True_ | False_):
        return isinstance(element, True_)
    if not isinstance(element, BindParameter) or element.value is None:
        return None
    typed = literals.typed(element, meaning.shown, translator.dialect)
    value = typed.value if isinstance(typed, BindParameter) else element.value
    if isinstance(value, str) and meaning.shown_class in _WRITTEN:
        value = _WRITTEN[meaning.shown_class](value)
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if meaning.shown_class in (float, Decimal) and is_number:
        return meaning.shown_class(str(value))
    return value


def _read(encoding: Encoding) -> Callable[[str], Any]:
    decode = decoder(Column(name="", type="string", encoding=encoding))

    def read(text: str) -> Any:
        with suppress(ValueError, ArithmeticError):
            return decode(text) if decode else text
        return text

    return read


_WRITTEN = {timedelta: _read("interval"), bytes: _read("base64")}
"""Values that no text of SQL has, as JSON writes them."""


def require_same(translator: Translator, left: Element, right: Element) -> None:
    """Refuse to compare what is stored in different forms."""
    one, other = (translator.meanings.of(side.type) for side in (left, right))
    if one.is_same and other.is_same:
        return
    if any(isinstance(side, Null) for side in (left, right)) or _are_alike(left.type, right.type):
        return
    name = other.name if one.is_same else one.name
    forbid(f"A comparison of values that the type {name} makes with others", hint=_HINT)


def _are_alike(one: SQLType, other: SQLType) -> bool:
    return one is other or (type(one) is type(other) and repr(one) == repr(other))


def require_place(translator: Translator, element: Element, node: Any) -> None:
    """Refuse an element whose values are made where a text would compute with what is stored."""
    kind = getattr(element, "type", None)
    if kind is None:
        return
    meaning = translator.meanings.of(kind)
    parent: Any = node.parent
    if meaning.is_same or parent is None or isinstance(parent, _HANDING_ON):
        return
    if isinstance(parent, _EQUAL) or (isinstance(parent, exp.Window) and node.arg_key == "partition_by"):
        require_equality(translator, element)
    elif isinstance(parent, _ORDERED):
        require_order(translator, element)
    elif isinstance(parent, exp.Distinct):
        require_equality(translator, element)
    elif isinstance(parent, exp.Window) and node.arg_key == "this":
        return
    elif isinstance(parent, exp.Anonymous) and str(parent.this).lower() in ("count", "min", "max"):
        if str(parent.this).lower() != "count":
            require_order(translator, element)
    else:
        forbid(f"Values that the type {meaning.name} makes in {shown(parent)}", hint=_HINT)


def require_equality(translator: Translator, element: Element) -> None:
    """Refuse an element whose equal values may be stored in several ways."""
    meaning = translator.meanings.of(element.type)
    if not meaning.keeps_equality and not isinstance(meaning.shown, types.NullType):
        forbid(f"A comparison of values that the type {meaning.name} makes", hint=_HINT)


def require_groups(translator: Translator, *elements: Any) -> None:
    """Refuse to tell rows apart by an element whose equal values may be stored in several ways."""
    for element in elements:
        meaning = translator.meanings.of(getattr(element, "type", types.NULLTYPE))
        if not meaning.keeps_equality:
            forbid(f"DISTINCT or GROUP BY over values that the type {meaning.name} makes", hint=_HINT)


def require_order(translator: Translator, element: Element) -> None:
    """Refuse an element that is stored in another order than it is shown in."""
    meaning = translator.meanings.of(element.type)
    if not meaning.keeps_order:
        forbid(f"An order of values that the type {meaning.name} makes", hint=_HINT)
