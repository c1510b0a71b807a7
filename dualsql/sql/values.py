"""Constants as bound values with the type of their other operand, and columns of the application's own types.

The database computes with stored values. If an own type stores another value than it shows, its column may be used only
where the result is the same: beside a constant that the type accepts, beside another column of that type, in count(),
and in ORDER BY, GROUP BY and DISTINCT if the type keeps order or equality.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeGuard

from sqlalchemy import BindParameter, Cast, ColumnClause, ColumnElement, cast, literal, tuple_, types
from sqlalchemy.sql.elements import CollectionAggregate, False_, Null, True_, Tuple
from sqlalchemy.types import TypeEngine
from sqlglot import exp

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.computed import MOMENTS
from dualsql.columns.exact import Digits
from dualsql.columns.own_types import Element, Meaning, SQLType
from dualsql.formats.bind_values import bind_value
from dualsql.sql.scope import Scope, excerpt, forbid, invalid
from dualsql.text_dialects import TextDialect
from dualsql_client import conversions
from dualsql_client.ndjson import decoder
from dualsql_client.wire import INFINITIES, Column, Encoding

if TYPE_CHECKING:
    from dualsql.sql.translate import Translator


_DIGITS_IN_TEXT = 'Write its digits in a text, such as "0.1234567890123456789".'
_LARGEST_INTEGER = 2**63 - 1
_LARGEST_SMALL = 2**31 - 1
_LISTED = 20
"""Values of an enumeration that an error names."""
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)

_DIGITS = "Write digits, with a point or an exponent if need be."

# How a text is read as a value of the type, and how to write one.
_READERS: Sequence[tuple[type[TypeEngine[Any]], Callable[[str], Any], str]] = (
    (types.DateTime, conversions.parse_instant, "Write it as ISO 8601 does: '2026-01-31T12:00:00'."),
    (types.Date, conversions.day, "Write it as ISO 8601 does: '2026-01-31'."),
    (types.Time, conversions.clock, "Write it as ISO 8601 does: '12:00:00'."),
    (types.Uuid, conversions.identifier, "Write it as '123e4567-e89b-12d3-a456-426614174000'."),
    (types.Integer, conversions.parse_integer, "Write a whole number of 64 bits."),
    (types.Numeric, conversions.parse_decimal, _DIGITS),
    (types.Float, conversions.parse_real, _DIGITS),
)


def number(text: str, dialect: TextDialect) -> ColumnElement[Any]:
    """A number. One with a fraction is an exact decimal, unless the database computes in floating point."""
    whole = conversions.whole_or_none(text, _LARGEST_INTEGER)
    if whole is not None:
        # BIGINT only if need be: PostgreSQL has date + integer, round(numeric, integer), but neither with bigint.
        return literal(whole, types.Integer() if whole <= _LARGEST_SMALL else types.BigInteger())
    if not _NUMBER.fullmatch(text) or not any(map(str.isdigit, text)):
        invalid(f"{text[:40]!r} is no number.", hint=_DIGITS)
    is_double = dialect.doubles_with_exponent and "e" in text.lower()
    if dialect.computes_in_doubles or is_double:
        return literal(conversions.parse_real(text), types.Float())
    return literal(conversions.parse_decimal(text), types.Numeric())


def string(text: str) -> ColumnElement[Any]:
    """A text. `typed_literal` may convert it to another type."""
    try:
        conversions.require_storable(text)
    except ValueError:
        invalid("A text of the SQL holds a NUL character, or is not Unicode.", hint="Write it without.")
    return literal(text, types.String())


def value(value: Any) -> ColumnElement[Any]:
    """The value of a parameter, from JSON."""
    if isinstance(value, Digits):
        double = float(value)
        if Decimal(value.text) != Decimal(repr(double)):
            invalid(f"The parameter {value.text[:40]} has more digits than a double.", hint=_DIGITS_IN_TEXT)
        value = double
    if value is None or isinstance(value, bool | int | float | str):
        return literal(value)
    return forbid(
        f"A parameter that is a {type(value).__name__}", hint="Give a text, a number, a boolean or null."
    )


def typed_literal(
    element: ColumnElement[Any], type_: TypeEngine[Any], capabilities: Capabilities
) -> ColumnElement[Any]:
    """A constant text as a value of the type of the other operand; any other element unchanged."""
    if not is_text(element):
        is_truth = isinstance(type_, types.Boolean) and capabilities.computation.has_truths
        return _truth(element) if is_truth else element
    text = str(element.value)
    if capabilities.text.casts_texts is not None and capabilities.text.casts_texts(type_):
        return cast(literal(text, types.Text()), type_)
    if isinstance(type_, types.Enum) and type_.enums and text not in type_.enums:
        words = ", ".join("'" + one.replace("'", "''") + "'" for one in type_.enums[:_LISTED])
        invalid(f"{text[:40]!r} is no value of the column.", hint=f"It holds one of: {words}.")
    is_date = isinstance(type_, types.Date | types.DateTime)
    if text in INFINITIES and capabilities.query.has_infinite_dates and is_date:
        return literal(text, type_)
    for kind, reader, hint in _READERS:
        if isinstance(type_, kind):
            with suppress(ValueError):
                # With the type of a decimal column, PostgreSQL would round the constant to its scale, or refuse it.
                bare = types.Numeric() if type(type_) is types.Numeric else type_
                return literal(_read_text(text, reader, type_, capabilities), bare)
            if capabilities.text.reads_dates and isinstance(type_, MOMENTS) and _is_dated(text):
                return capabilities.text.reads_dates(text, type_)
            if capabilities.has_loose_types:  # the stored value may be a text, which is compared with a text
                return element
            invalid(f"{text[:40]!r} is no {type(type_).__name__.lower()}.", hint=hint)
    if capabilities.text.reads_dates and isinstance(type_, types.Interval) and _is_dated(text):
        return capabilities.text.reads_dates(text, type_)
    return literal(text, type_) if isinstance(type_, types.Enum | types.String) else element


def _truth(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """A constant 1 or 0 beside a truth value."""
    is_number = isinstance(element, BindParameter) and type(element.value) is int and element.value in (0, 1)
    return literal(bool(element.value), types.Boolean()) if is_number else element


_DATED = re.compile(r"(?=.*[0-9])[\w\s/.:,+-]{1,60}", re.ASCII)
_NUMERAL = re.compile(r"[+-]?[0-9]{1,5}(\.[0-9]*)?", re.ASCII)


def _is_dated(text: str) -> bool:
    """Whether the database is asked to read the text as a date, a time of day or a length of time."""
    return _DATED.fullmatch(text) is not None and _NUMERAL.fullmatch(text) is None


def compared_array(translator: Translator, node: Any, inner: Any, scope: Scope) -> ColumnElement[Any]:
    """The array of ANY and ALL: a constant text, as in `x = ANY ('{1,2}')`, has items of the type of x."""
    if not isinstance(node.parent, exp.Binary) or node.parent.expression is not node:
        invalid("ANY and ALL stand to the right of a comparison.", hint="Write x = ANY (...).")
    array = translator.expression(inner, scope)
    if translator.dialect.array is None or not is_text(array):
        return array
    items = translator.expression(node.parent.this, scope).type
    return typed_literal(array, types.ARRAY(items), translator.capabilities)


def reads_constants(statement: Any) -> bool:
    """Whether the database is to read a constant text as a date, at which it fails for a row if it is none."""
    casts = (part.clause for part in internals.elements_of(statement) if isinstance(part, Cast))
    return any(isinstance(text, BindParameter) and type(text.type) is types.Text for text in casts)


def list_parameter(elements: Sequence[ColumnElement[Any]]) -> BindParameter[Any] | None:
    """Constants of one type as one list parameter, which is cheaper than many; None for other elements."""
    constants = [element for element in elements if isinstance(element, BindParameter)]
    if len(constants) < len(elements) or any(constant.value is None for constant in constants):
        return None
    # By repr, because a type of SQLAlchemy equals only itself.
    kinds = {repr(constant.type): constant.type for constant in constants}
    whole = all(isinstance(kind, types.Integer) for kind in kinds.values())
    if len(kinds) != 1 and not whole:
        return None
    kind = types.BigInteger() if len(kinds) > 1 else constants[0].type
    return BindParameter(None, [constant.value for constant in constants], kind, unique=True, expanding=True)


def is_text(element: Any) -> TypeGuard[BindParameter[str]]:
    """Whether the element is a constant text."""
    return isinstance(element, BindParameter) and isinstance(element.value, str)


def _read_text(
    text: str, reader: Callable[[str], Any], type_: TypeEngine[Any], capabilities: Capabilities
) -> Any:
    constant = _with_zone(reader(text), type_)
    is_nan = isinstance(constant, float | Decimal) and math.isnan(constant)
    if is_nan and "NaN" not in capabilities.query.odd_doubles:
        raise ValueError("the driver would bind it as NULL, with which no comparison is true")
    return constant


def _with_zone(instant: Any, type_: TypeEngine[Any]) -> Any:
    """An instant with or without a time zone, as the column needs it. Without a zone it is in UTC."""
    if isinstance(instant, datetime) and isinstance(type_, types.DateTime):
        if type_.timezone and instant.tzinfo is None:
            return instant.replace(tzinfo=UTC)
        if not type_.timezone and instant.tzinfo is not None:
            raise ValueError("a zone where the column has none")
    return instant


_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
# These pass a value on, or check it themselves: a whole Select, ORDER BY and GROUP BY check their elements.
_HANDING_ON = (
    exp.Alias, exp.Filter, exp.Group, exp.Is, exp.Ordered, exp.Paren, exp.Select, exp.Subquery, exp.Cube, exp.Rollup,
    exp.GroupingSets,
)  # fmt: skip
_HINT = "Select the column as it is, or compare it with a value as it is shown."


def in_stored_form(translator: Translator, element: Element, other: Element) -> Element:
    """The element. A constant is converted to the stored form of the other operand, also within a row."""
    if isinstance(element, Tuple) and isinstance(other, Tuple) and len(element.clauses) == len(other.clauses):
        pairs = zip(element.clauses, other.clauses, strict=True)
        return tuple_(*(in_stored_form(translator, one, another) for one, another in pairs))
    if isinstance(
        other, CollectionAggregate
    ):  # ANY (array), whose type in SQLAlchemy is that of the comparison
        return element
    if translator.capabilities.has_loose_types and is_text(element) and _lacks_affinity(other):
        return element
    meaning = translator.meanings.of(other.type)
    _require_range(element, meaning.stored)
    if meaning.binds is None and meaning.reads is None:
        return typed_literal(element, meaning.stored, translator.capabilities)
    if meaning.reads is None:
        # The type shows stored values unchanged, so the value itself is compared, without the application's code.
        constant = typed_literal(element, meaning.stored, translator.capabilities)
        is_constant = isinstance(constant, BindParameter) and constant.value is not None
        return literal(constant.value, meaning.stored) if is_constant else constant
    value = _constant(translator, element, meaning)
    if value is None:
        return element
    if isinstance(meaning.shown, types.JSON):
        forbid(f"A comparison of documents that the type {meaning.name} makes", hint=_HINT)
    try:
        return literal(bind_value(value, meaning, translator.meanings), other.type)
    except ValueError:
        return invalid(
            f"{str(value)[:40]!r} is no value of a column whose values are made by the type {meaning.name}.",
            hint="Write it as the column shows its values.",
        )


def _lacks_affinity(element: Element) -> bool:
    """Whether a number is computed. SQLite compares it with a text as it is: every number is less than every text.

    A text that is compared with a column or a CAST is read as a number, https://www.sqlite.org/datatype3.html#affinity.
    """
    if not isinstance(element.type, types.Boolean | types.Integer | types.Numeric | types.Float):
        return False
    return not any(
        isinstance(origin, Cast) or (isinstance(origin, ColumnClause) and origin.table is not None)
        for origin in element.base_columns
    )


def _require_range(element: Element, type_: SQLType) -> None:
    """Refuse a number beside doubles that no double is near to: PostgreSQL fails as it converts it."""
    number = element.value if isinstance(element, BindParameter) else None
    if isinstance(number, Decimal) and isinstance(type_, types.Float) and number:
        with suppress(OverflowError):
            if math.isfinite(double := float(number)) and double:
                return
        invalid(
            f"The number {number:.3e} is beyond the range of the doubles that it is compared with.",
            hint="Doubles reach from 1e-307 to 1.79e308, and so far below 0.",
        )


def _constant(translator: Translator, element: Element, meaning: Meaning) -> Any:
    """The value of a constant, converted to the shown class if possible; None for other elements."""
    if isinstance(element, True_ | False_):
        return isinstance(element, True_)
    if not isinstance(element, BindParameter) or element.value is None:
        return None
    constant = typed_literal(element, meaning.shown, translator.capabilities)
    value = constant.value if isinstance(constant, BindParameter) else element.value
    if isinstance(value, str) and meaning.shown_class in _WIRE_READERS:
        value = _WIRE_READERS[meaning.shown_class](value)
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


_WIRE_READERS = {timedelta: _read("interval"), bytes: _read("base64")}
"""Of values that SQL texts cannot contain; a text has them as JSON writes them."""


def require_same(translator: Translator, left: Element, right: Element) -> None:
    """Refuse to compare elements that are stored in different forms."""
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
    """Refuse an own type's element in an expression that would compute with its stored values."""
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
        require_sortable(translator, element)
    elif isinstance(parent, exp.Distinct):
        require_equality(translator, element)
    elif isinstance(parent, exp.Window) and node.arg_key == "this":
        return
    elif isinstance(parent, exp.Anonymous) and str(parent.this).lower() in ("count", "min", "max"):
        if str(parent.this).lower() != "count":
            require_sortable(translator, element)
    else:
        forbid(f"Values that the type {meaning.name} makes in {excerpt(parent)}", hint=_HINT)


def require_equality(translator: Translator, element: Element) -> None:
    """Refuse an element whose equal values may be stored in several ways."""
    meaning = translator.meanings.of(element.type)
    if not meaning.keeps_equality and not isinstance(meaning.shown, types.NullType):
        forbid(f"A comparison of values that the type {meaning.name} makes", hint=_HINT)


def require_groups(translator: Translator, *elements: Any) -> None:
    """Refuse to group by an element whose equal values may be stored in several ways."""
    for element in elements:
        meaning = translator.meanings.of(getattr(element, "type", types.NULLTYPE))
        if not meaning.keeps_equality:
            forbid(f"DISTINCT or GROUP BY over values that the type {meaning.name} makes", hint=_HINT)


def require_sortable(translator: Translator, element: Element) -> None:
    """Refuse to sort by an element whose stored values have another order than the shown ones."""
    meaning = translator.meanings.of(element.type)
    if not meaning.keeps_order:
        forbid(f"An order of values that the type {meaning.name} makes", hint=_HINT)
