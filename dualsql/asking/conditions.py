"""Conditions of a question as SQL; the rule: NULL meets `is_null` alone, and texts are compared exactly."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from sqlalchemy import ColumnElement, and_, case, cast, func, not_, null, or_, type_coerce, types
from sqlalchemy.dialects.postgresql import ranges
from sqlalchemy.sql import operators

from dualsql import instants
from dualsql.asking.abilities import Abilities, Element, bound, equal, one_of
from dualsql.asking.literals import digits, has_months, literal
from dualsql.asking.question import AllOf, AnyOf, Comparison, Condition, Negation
from dualsql.columns import ResultColumn, SQLType, plain_type
from dualsql.dialects import Capabilities
from dualsql.errors import BadParameterError, UnknownColumnError
from dualsql_client.questions import Operator

_EQUALITY: frozenset[Operator] = frozenset({"eq", "ne", "in"})
_ORDER: frozenset[Operator] = frozenset({"lt", "le", "gt", "ge", "between"})
_TEXT: frozenset[Operator] = frozenset({"contains", "starts_with"})
_COMPARED = _EQUALITY | _ORDER

# What a column of each encoding can be asked, besides is_null.
_OPERATORS: Mapping[str, frozenset[Operator]] = {
    "integer": _COMPARED,
    "float": _COMPARED,
    "decimal": _COMPARED,
    "text": _COMPARED | _TEXT,
    "boolean": _EQUALITY,
    "date": _COMPARED,
    "time": _COMPARED,
    "datetime": _COMPARED,
    "interval": _COMPARED,
    # Engines put UUIDs in order each in a way of its own.
    "uuid": _EQUALITY,
    "base64": _EQUALITY,
    "any": _COMPARED,
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Writes conditions on columns of these names.

    Attributes:
        of: what has the columns, for messages.
    """

    columns: Mapping[str, ResultColumn]
    abilities: Abilities
    capabilities: Capabilities
    of: str = "The result"

    def column(self, name: str) -> ResultColumn:
        """The column of that name.

        Raises:
            UnknownColumnError: there is none.
        """
        found = self.columns.get(name)
        if found is None:
            raise UnknownColumnError(name, list(self.columns), of=self.of)
        return found

    def write(self, condition: Condition) -> ColumnElement[bool]:
        """The condition, on these columns.

        Raises:
            UnknownColumnError: it names another one.
            BadParameterError: a column cannot be asked that, or holds no such values.
        """
        match condition:
            case AllOf(parts):
                return and_(*(self.write(part) for part in parts))
            case AnyOf(parts):
                return or_(*(self.write(part) for part in parts))
            case Negation(part):
                return not_(self.write(part))
            case Comparison():
                return self._compared(condition)

    def _compared(self, comparison: Comparison) -> ColumnElement[bool]:
        column = self.column(comparison.column)
        element = column.expression
        if comparison.operator == "is_null":
            # Whatever its type: there are some that SQLAlchemy knows no operator for.
            bare = type_coerce(element, types.NULLTYPE)
            return bare.is_(None) if comparison.value else bare.is_not(None)
        _require_operator(column, comparison.operator, self.capabilities)
        given = comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
        scale = shown_scale(column, self.capabilities)
        if scale is not None:
            return _of_rounded(
                element, comparison.operator, [digits(column, value) for value in given], scale
            )
        values = [literal(column, value, self.capabilities) for value in given]
        if self.capabilities.spells_instants and instants.is_instant(element):
            return _of_instants(element, comparison.operator, values)
        if not is_plain_text(column):
            return self._of_any_but_text(column, comparison.operator, values, given)
        if comparison.operator in _TEXT:
            return self._within(element, comparison.operator, comparison.value)
        if comparison.operator in _ORDER:
            return _simple(self.abilities.ordered(element), comparison.operator, values)
        return self._equal(element, comparison.operator, values)

    def _of_any_but_text(
        self, column: ResultColumn, operator: Operator, values: list[Element], given: Sequence[Any]
    ) -> ColumnElement[bool]:
        element = operand(column, self.capabilities)
        if operator in _EQUALITY and needs_exact(column, self.abilities):
            return self._equal(element, operator, values)
        if column.encoding == "any" and not column.meaning.is_made:
            return self._loose(element, operator, values, given)
        return _simple(element, operator, values)

    def _loose(
        self, element: Element, operator: Operator, values: list[Element], given: Sequence[Any]
    ) -> ColumnElement[bool]:
        """What has no declared type: the database tells which it has, where a text may stand for several."""
        name = self.capabilities.type_name
        kinds = [_moments_shown_as(one) if name else {} for one in given]
        if name is not None and kinds[0] and all(one == kinds[0] for one in kinds):
            return _of_moments(element, operator, given, name(element), kinds[0])
        found = _simple(element, operator, values)
        read = [one for one in map(_bytes_shown_as, given) if one is not None]
        if not read or (operator == "between" and len(read) < len(given)):
            return found
        stored = element
        if not self.capabilities.has_loose_comparisons:
            stored = cast(cast(element, types.Text()), types.LargeBinary())  # which suits every type
        compared = _simple(stored, operator, [bound(one, types.LargeBinary()) for one in read])
        return case((self.capabilities.is_bytes(element), compared), else_=found)

    def _equal(self, text: Element, operator: Operator, values: list[Element]) -> ColumnElement[bool]:
        if operator == "in":
            return one_of(self.abilities, text, values)
        same = equal(self.abilities, text, values[0])
        return same if operator == "eq" else not_(same)

    def _within(self, element: Element, operator: Operator, part: str) -> ColumnElement[bool]:
        # No LIKE: it has wildcards to be escaped, and takes 'a' for 'A' on SQLite and MariaDB.
        if operator == "contains":
            return self.abilities.position(element, bound(part, types.String())) > 0
        beginning = func.substr(element, 1, len(part), type_=types.String())
        return self.abilities.exact(beginning) == bound(part, types.String())


def _bytes_shown_as(value: Any) -> bytes | None:
    """The bytes that are shown as this value; None where none are."""
    if not isinstance(value, str):
        return None
    try:
        found = b64decode(value, validate=True)
    except ValueError:
        return None
    return found if b64encode(found).decode() == value else None


# By the names that PostgreSQL has for types.
_INSTANT = "timestamp without time zone"
_DAYS: Mapping[str, SQLType] = {"date": types.Date(), _INSTANT: types.DateTime()}
_INSTANTS: Mapping[str, SQLType] = {"date": types.DateTime(), _INSTANT: types.DateTime()}
_ZONED_INSTANTS: Mapping[str, SQLType] = {"timestamp with time zone": types.DateTime(timezone=True)}
_HOURS: Mapping[str, SQLType] = {"time without time zone": types.Time()}
_ZONED_HOURS: Mapping[str, SQLType] = {"time with time zone": types.Time(timezone=True)}
_INTERVALS: Mapping[str, SQLType] = {"interval": types.Interval()}
_WORDED = ("text", "character varying", "character", "name", "citext")


def _moments_shown_as(value: Any) -> Mapping[str, SQLType]:
    """The types whose values are shown as such a text, and how it is read beside a value of each."""
    if not isinstance(value, str):
        return {}
    if has_months(value):
        return _INTERVALS
    for read, plain, zoned in (
        (date.fromisoformat, _DAYS, _DAYS),
        (datetime.fromisoformat, _INSTANTS, _ZONED_INSTANTS),
        (time.fromisoformat, _HOURS, _ZONED_HOURS),
    ):
        with suppress(ValueError):
            found = read(value)
            is_as_shown = found.isoformat() == value
            return (plain if getattr(found, "tzinfo", None) is None else zoned) if is_as_shown else {}
    return {}


def _of_moments(
    element: Element,
    operator: Operator,
    given: Sequence[Any],
    type_name: Element,
    kinds: Mapping[str, SQLType],
) -> ColumnElement[bool]:
    """A date, time or interval beside what has no declared type: a driver takes no text for one."""
    text = cast(element, types.Text())
    texts = [bound(one, types.Text()) for one in given]
    compared = [
        (type_name == name, _simple(cast(text, type_), operator, [cast(one, type_) for one in texts]))
        for name, type_ in kinds.items()
    ]
    # Of any other type nothing is known, and the database refuses to read the value as a UUID.
    return case(
        *compared,
        (type_name.in_(_WORDED), _simple(text, operator, texts)),
        else_=cast(text, types.Uuid()).is_(None),
    )


def operand(column: ResultColumn, capabilities: Capabilities) -> Element:
    """The column in a comparison, which is one with what is shown."""
    if capabilities.shortens_reals and is_single(column):
        return cast(cast(column.expression, types.String()), types.Double())
    # SQLAlchemy has no operators for some types of a database.
    is_bare = column.encoding == "any" and not column.meaning.is_made
    return type_coerce(column.expression, types.NULLTYPE) if is_bare else column.expression


def is_shown_rounded(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the database computes more digits than are shown, which rows are told apart by."""
    return column.is_quotient and capabilities.divides_in_doubles and not column.is_computed


def shown_scale(column: ResultColumn, capabilities: Capabilities) -> int | None:
    """How many digits are shown of a decimal that is a double in the database; None for any other column."""
    if column.meaning.is_made:
        return None
    if is_shown_rounded(column, capabilities) or (column.is_double and capabilities.shows_doubles_rounded):
        plain: Any = plain_type(column.type)
        return int(plain._effective_decimal_return_scale)  # noqa: SLF001 - what SQLAlchemy shows them by
    return capabilities.shown_scale(column.type)


def is_single(column: ResultColumn) -> bool:
    """Whether it holds numbers of four bytes."""
    plain = plain_type(column.type)
    if not isinstance(plain, types.Float) or isinstance(plain, types.Double) or column.meaning.is_made:
        return False
    return plain.precision is None or plain.precision <= _MOST_BITS_OF_SINGLES


_MOST_BITS_OF_SINGLES = 24


def is_plain_text(column: ResultColumn) -> bool:
    """Whether it holds texts of any wording, which have collations."""
    return column.meaning.is_same and _is_text(column.shown) and _is_text(plain_type(column.type))


def needs_exact(column: ResultColumn, abilities: Abilities) -> bool:
    """Whether the application's code makes its values of texts that the database may take for equal."""
    stored = column.meaning.stored
    if not column.meaning.is_made or not _is_text(stored):
        return False
    return not abilities.finds_equal_by_index or bool(getattr(stored, "collation", None))


def _is_text(plain: SQLType) -> bool:
    return isinstance(plain, types.String) and not isinstance(plain, types.Enum)


def holds(column: ResultColumn) -> str:
    """What is in the column, in words."""
    encoding = column.encoding
    if isinstance(column.shown, types.Enum):
        words = f"one of the words of an enum ({', '.join(column.shown.enums[:5])})"
        return words if len(column.shown.enums) <= _FEW else words.replace(")", ", ...)")
    if isinstance(column.shown, ranges.AbstractRange):
        return "ranges"
    if column.is_quotient:
        return "quotients, of which not all digits are shown"
    meaning = column.meaning
    if not meaning.is_same:
        return f"values ({encoding}) that the database has in another form, of the type {meaning.name}"
    return _HELD.get(encoding, encoding)


_FEW = 5
_HELD = {"base64": "bytes", "json": "JSON documents", "array": "arrays", "any": "values of no declared type"}


def possible_operators(column: ResultColumn, capabilities: Capabilities) -> frozenset[Operator]:
    """What the column can be asked, besides is_null."""
    if not capabilities.compares(column.shown):
        return frozenset()
    encoding, meaning = column.encoding, column.meaning
    known = _OPERATORS.get(encoding, frozenset())
    if isinstance(column.shown, ranges.AbstractRange):
        return frozenset()  # it is text only once it is written
    if isinstance(column.shown, types.Enum):
        return _EQUALITY  # it has an order of its own on one engine
    if not meaning.is_made or meaning.is_same:
        return known if encoding != "text" or is_plain_text(column) else known - _TEXT - _ORDER
    # A value of no one kind is tried before it is compared; see `dualsql.asking.literals`.
    is_told_apart = meaning.keeps_equality or isinstance(meaning.shown, types.NullType)
    if not is_told_apart:
        return frozenset()
    return known - _TEXT if meaning.keeps_order else known & _EQUALITY


def _require_operator(column: ResultColumn, operator: Operator, capabilities: Capabilities) -> None:
    known = possible_operators(column, capabilities)
    if operator in known:
        return
    possible = sorted(known | {"is_null"})
    raise BadParameterError(
        f"{operator} cannot be asked of the column {column.name[:80]!r}, which holds {holds(column)}.",
        hint=f"Possible there: {', '.join(possible)}.",
        details={"column": column.name, "encoding": column.encoding, "operators": possible},
    )


def _of_instants(element: Any, operator: Operator, values: list[Element]) -> ColumnElement[bool]:
    if operator == "in":
        return instants.one_of(element, values)
    if operator == "between":
        return instants.between(element, *values)
    return instants.compared(getattr(operators, operator), element, values[0])


def _simple(element: Any, operator: Operator, values: list[Element]) -> ColumnElement[bool]:
    first = values[0]
    found: ColumnElement[bool]
    match operator:
        case "eq":
            found = element == first
        case "ne":
            found = element != first
        case "lt":
            found = element < first
        case "le":
            found = element <= first
        case "gt":
            found = element > first
        case "ge":
            found = element >= first
        case "in":
            found = element.in_(values)
        case _:
            found = and_(element >= first, element <= values[1])
    return found


# --- decimals that are doubles ----------------------------------------------------------------------------------
#
# SQLite computes in doubles, and SQLAlchemy shows them with the digits of their scale: 0.1 + 0.2 is shown as 0.30, and
# is no 0.3. Which doubles are shown as a decimal is known: those from one to another, which an index serves, too.

_EXACT = Context(prec=400)
_MOST_RANGES = 50
"""In an OR, which SQLite nests no deeper than other expressions."""


def _of_rounded(element: Any, operator: Operator, values: list[Decimal], scale: int) -> ColumnElement[bool]:
    low = [bound(_first_shown_from(value, scale), types.Double()) for value in values]
    high = [bound(_last_shown_to(value, scale), types.Double()) for value in values]
    found: ColumnElement[bool]
    match operator:
        case "lt":
            found = element < low[0]
        case "le":
            found = element <= high[0]
        case "gt":
            found = element > high[0]
        case "ge":
            found = element >= low[0]
        case "between":
            found = element.between(low[0], high[1])
        case _:
            ranges = [element.between(*ends) for ends in zip(low, high, strict=True)]
            found = or_(*ranges) if len(ranges) <= _MOST_RANGES else _any_of_many(element, ranges)
            found = not_(found) if operator == "ne" else found
    return found


def _any_of_many(element: Any, ranges: list[ColumnElement[bool]]) -> ColumnElement[bool]:
    """As the OR of all; unknown for NULL."""
    made = case((element.is_(None), null()), *((one, 1) for one in ranges), else_=0)
    return made == 1


def _first_shown_from(value: Decimal, scale: int) -> float:
    """The least double that is shown as this number or a greater one."""
    least = value.quantize(Decimal(1).scaleb(-scale), ROUND_CEILING, _EXACT)
    found = float(_EXACT.subtract(least, Decimal(5).scaleb(-scale - 1)))
    while _as_shown(found, scale) < least:
        found = math.nextafter(found, math.inf)
    while _as_shown(below := math.nextafter(found, -math.inf), scale) >= least:
        found = below
    return found


def _last_shown_to(value: Decimal, scale: int) -> float:
    """The greatest double that is shown as this number or a lesser one."""
    return -_first_shown_from(-value, scale)


def _as_shown(value: float, scale: int) -> Decimal:
    # As sqlalchemy.engine.processors.to_decimal_processor_factory has it.
    return Decimal(f"{value:.{scale}f}")
