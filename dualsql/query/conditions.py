"""Conditions of a query as SQL, and the conversion of their values to the type of the column.

Their operators are rows of `OPERATORS` in `dualsql.query.model`.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, case, cast, func, not_, or_, type_coerce, types
from sqlalchemy.sql import operators

from dualsql.capabilities import Capabilities
from dualsql.columns import instants
from dualsql.columns.database_types import is_single
from dualsql.columns.exact import Digits
from dualsql.columns.instants import has_zone
from dualsql.columns.own_types import Element, SQLType
from dualsql.columns.result import ResultColumn
from dualsql.databases.expressions import parameter
from dualsql.errors import BadParameterError, UnknownColumnError
from dualsql.formats.bind_values import bind_value
from dualsql.formats.text import INT64_BOUND
from dualsql.query.model import (
    OPERATORS,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Negation,
    OperatorKind,
    condition_on,
    exactly,
    operators_of,
)
from dualsql.query_dialects import NOT_FINITE, QueryDialect
from dualsql.sqlalchemy_dialects import ranges
from dualsql_client.conversions import parse_decimal
from dualsql_client.ndjson import decoder
from dualsql_client.wire_requests import Operator

_MOST_DIGITS = 60
_LONGEST_NUMBER = 100
_MONTHS = re.compile(
    r"P(?:(?P<years>-?[0-9]{1,9})Y)?(?:-?[0-9]{1,9}M)?(?:-?[0-9]{1,9}D)?"
    r"(?:T(?=.)(?:-?[0-9]{1,9}H)?(?:-?[0-9]{1,9}M)?(?:-?[0-9]{1,9}(?:\.[0-9]{1,6})?S)?)?(?<=[YMDHS])",
    re.ASCII,
)
# PostgreSQL's intervals end at 178,000,000 years.
_MOST_YEARS = 170_000_000
_LARGEST_SAFE = 2**53
_DIGITS = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)

_SPELLED = {
    "integer": "a whole number of 64 bits",
    "float": 'a number, or its digits in a text, such as "12.5"',
    "decimal": 'a number, or its digits in a text, such as "12.50"',
    "boolean": "true or false",
    "text": "a text",
    "date": 'a date, such as "2026-01-31"',
    "time": 'a time of day, such as "08:30:00"',
    "datetime": 'an instant, such as "2026-01-31T08:30:00"',
    "interval": 'a duration, such as "P1DT2H"',
    "uuid": "a UUID",
    "base64": "bytes in base64",
    "any": "a text, a number, true or false",
}
_WIDE = "a whole number that the database has; beyond 64 bits, its digits in a text"
"""A number of JSON with more bits is a double to many programs; where all of its digits arrive, it is exact."""


def value_literal(column: ResultColumn, value: Any, capabilities: Capabilities) -> ColumnElement[Any]:
    """The value as SQL, for a comparison with the column.

    Raises:
        BadParameterError: the column cannot hold such a value.
    """
    description = column.describe()
    encoding = description["encoding"]
    if encoding == "any" and description["type"] == "number":
        encoding = "float"
    if encoding == "integer" and (wide := _wide_literal(column, value, capabilities)) is not None:
        return wide
    keeps_months = encoding == "interval" and capabilities.query.has_months and column.meaning.reads is None
    if keeps_months and has_months(value):
        return cast(parameter(value, types.Text()), column.type)
    try:
        operand = _READERS[encoding](column, value)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        raise _wrong(column, encoding) from None
    if isinstance(operand, datetime):
        if not capabilities.spells_instants or isinstance(column.type, types.TypeDecorator):
            operand = _with_zone(column, operand, capabilities)
        elif operand.tzinfo is not None:
            operand = operand.astimezone(UTC).replace(tzinfo=None)
    is_infinite_date = encoding in {"date", "datetime"} and isinstance(operand, str)
    is_finite = not isinstance(operand, float) or math.isfinite(operand)
    query = capabilities.query
    if (is_infinite_date and not query.has_infinite_dates) or (
        not is_finite and value not in query.odd_doubles
    ):
        raise _wrong(column, encoding)
    if column.meaning.reads is not None:
        return parameter(_stored_value(column, operand), column.type)
    value_element = parameter(operand, _type_of(column, encoding))
    # A four-byte float is shown in its shortest form, which equals it only as a four-byte float.
    is_real = capabilities.query.has_single_reals and isinstance(column.stored, types.REAL)
    return cast(value_element, types.REAL()) if is_real else value_element


def _wide_literal(column: ResultColumn, value: Any, capabilities: Capabilities) -> ColumnElement[Any] | None:
    """A whole number for a column that may hold more than 64 bits; None for one that is compared as in any column."""
    if column.meaning.reads is not None or capabilities.query.wide_integer is None:
        return None
    try:
        return capabilities.query.wide_integer(_whole(value), column.stored)
    except ValueError:
        raise _wrong(column, "integer", _WIDE) from None


def _stored_value(column: ResultColumn, value: Any) -> Any:
    try:
        return bind_value(value, column.meaning, column.meanings)
    except ValueError:
        raise BadParameterError(
            f"The values of the column {column.name[:80]!r} are kept in another form ({column.meaning.name}), "
            "which this one cannot be turned into and back.",
            hint="Write a value as the column shows it, or filter by another column.",
            details={"column": column.name},
        ) from None


def _type_of(column: ResultColumn, encoding: str) -> Any:
    if column.meaning.binds is not None:
        # The stored value is shown unchanged, so the application's code is not called.
        return _without_collation(column.meaning.stored)
    if encoding == "integer":
        # Not the column's type: a number of 32 bits is compared with one of 64 bits.
        return types.BigInteger()
    if encoding == "float":
        return types.Double()
    if isinstance(column.stored, types.Numeric):
        # Not the column's type: a quotient has more digits than the type that SQLAlchemy gives it.
        return types.Numeric()
    return _without_collation(column.type)


def _without_collation(type_: SQLType) -> SQLType:
    """The type, or a plain text's in place of one with a collation: PostgreSQL refuses two explicit ones."""
    return types.String() if isinstance(type_, types.String) and type_.collation else type_


def has_months(value: Any) -> bool:
    """Whether the value is a duration with months, which equals no number of days."""
    match = _MONTHS.fullmatch(value) if isinstance(value, str) else None
    return match is not None and abs(int(match["years"] or 0)) <= _MOST_YEARS


def _wrong(column: ResultColumn, encoding: str, spelled: str | None = None) -> BadParameterError:
    return BadParameterError(
        f"A value is no {encoding}, which the column {column.name[:80]!r} holds.",
        hint=f"Write {spelled or _SPELLED[encoding]}.",
        details={"column": column.name, "encoding": encoding},
    )


def _whole(value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    # Programs whose numbers are all doubles write 5 as 5.0; a larger one may have been rounded.
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_SAFE:
        value = int(value)
    if type(value) is not int:
        raise ValueError
    return value


def _integer(_: ResultColumn, value: Any) -> int:
    number = _whole(value)
    if not -INT64_BOUND <= number < INT64_BOUND:
        raise ValueError
    return number


def _float(_: ResultColumn, value: Any) -> float:
    if isinstance(value, str) and value not in NOT_FINITE:
        return float(parse_decimal(value))
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


def _decimal(_: ResultColumn, value: Any) -> Decimal:
    text = value.text if isinstance(value, Digits) else str(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(text) > _LONGEST_NUMBER:
        raise TypeError
    number = parse_decimal(text)
    # MariaDB has at most 65 digits. A short exponent could stand for millions of digits.
    if not number.is_finite() or len(format(number, "f")) > _MOST_DIGITS:
        raise ValueError
    return number


def _boolean(_: ResultColumn, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(column: ResultColumn, value: Any) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError
    value.encode()  # raises for a lone surrogate
    plain = column.shown
    if isinstance(plain, types.Enum) and value not in plain.enums:
        raise BadParameterError(
            f"{value[:80]!r} is no value of the column {column.name[:80]!r}.",
            hint=f"It holds one of: {', '.join(plain.enums[:20])}.",
            details={"column": column.name, "values": list(plain.enums[:100])},
        )
    return value


def _any(column: ResultColumn, value: Any) -> Any:
    if isinstance(value, str):
        return _text(column, value)
    if isinstance(value, bool) or (column.meaning.reads is not None and isinstance(value, int)):
        return value
    # An integer or a double of the database.
    if type(value) is int and (-INT64_BOUND <= value < INT64_BOUND or float(value) != value):
        return _integer(column, value)
    return _float(column, value)


def _decode(column: ResultColumn, value: Any) -> Any:
    decode = decoder(column.describe())
    if not isinstance(value, str) or decode is None:
        raise TypeError
    decoded = decode(value)
    if isinstance(decoded, datetime) and decoded.tzinfo is not None:
        decoded.astimezone(UTC)  # raises at the ends of the years 1 and 9999
    return decoded


def _with_zone(column: ResultColumn, instant: datetime, capabilities: Capabilities) -> datetime:
    """The instant as the column has it. Without a zone it is in UTC, as in SQL texts."""
    wants_zone = has_zone(column, keeps_zones=capabilities.keeps_zones)
    if wants_zone and instant.tzinfo is None:
        return instant.replace(tzinfo=UTC)
    if instant.tzinfo is not None and not wants_zone:
        raise BadParameterError(
            f"The column {column.name[:80]!r} holds instants without a zone.",
            hint='Write "2026-01-31T08:30:00".',
            details={"column": column.name},
        )
    return instant


_READERS: Mapping[str, Callable[[ResultColumn, Any], Any]] = {
    "integer": _integer,
    "float": _float,
    "decimal": _decimal,
    "boolean": _boolean,
    "text": _text,
    "date": _decode,
    "time": _decode,
    "datetime": _decode,
    "interval": _decode,
    "uuid": _decode,
    "base64": _decode,
    "any": _any,
}


_COMPARED: tuple[OperatorKind, ...] = ("equality", "order")

OPERATOR_KINDS: Mapping[str, tuple[OperatorKind, ...]] = {
    "integer": _COMPARED,
    "float": _COMPARED,
    "decimal": _COMPARED,
    "text": (*_COMPARED, "text"),
    "boolean": ("equality",),
    "date": _COMPARED,
    "time": _COMPARED,
    "datetime": _COMPARED,
    "interval": _COMPARED,
    # Databases sort UUIDs differently.
    "uuid": ("equality",),
    "base64": ("equality",),
    "any": _COMPARED,
}
"""The kinds of operators that columns of an encoding support, besides "null", which all do."""

_EQUALITY, _ORDER, _TEXT = operators_of("equality"), operators_of("order"), operators_of("text")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Writes conditions on columns of these names.

    Attributes:
        of: the name of the relation, for messages.
    """

    columns: Mapping[str, ResultColumn]
    dialect: QueryDialect
    capabilities: Capabilities
    of: str = "The result"

    def column(self, name: str) -> ResultColumn:
        """The column of that name.

        Raises:
            UnknownColumnError: there is no such column.
        """
        column = self.columns.get(name)
        if column is None:
            raise UnknownColumnError(name, list(self.columns), of=self.of)
        return column

    def write(self, condition: Condition) -> ColumnElement[bool]:
        """The condition, on these columns.

        Raises:
            UnknownColumnError: it names an unknown column.
            BadParameterError: a column does not support the operator, or cannot hold the value.
        """
        match condition:
            case AllOf(parts):
                return and_(*(self.write(part) for part in parts))
            case AnyOf(parts):
                return or_(*(self.write(part) for part in parts))
            case Negation(part):
                return not_(self.write(part))
            case Comparison():
                return self._compare(condition)

    def _compare(self, comparison: Comparison) -> ColumnElement[bool]:
        column = self.column(comparison.column)
        element = column.expression
        operator = OPERATORS[comparison.operator]
        if operator.kind == "null":
            _require_nulls(column)
            # The cast works for every type. SQLAlchemy has no operators for some of them.
            bare = type_coerce(element, types.NULLTYPE)
            return bare.is_(None) if comparison.value else bare.is_not(None)
        _require_operator(column, comparison.operator, self.capabilities)
        values = comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
        condition = self._on_values(column, comparison, values)
        if operator.kind != "equality":
            return condition
        return or_unfit(condition, column, values, self.capabilities, is_negated=operator.is_negated)

    def _on_values(
        self, column: ResultColumn, comparison: Comparison, constants: Sequence[Any]
    ) -> ColumnElement[bool]:
        element, operator = column.expression, OPERATORS[comparison.operator]
        values = [value_literal(column, value, self.capabilities) for value in constants]
        if self.capabilities.spells_instants and isinstance(column.stored, types.DateTime):
            return _of_instants(element, comparison.operator, values)
        if not is_plain_text(column):
            return self._of_any_but_text(column, comparison.operator, values, constants)
        if not isinstance(element.type, types.String):  # it is one on this database alone, by with_variant()
            element = type_coerce(element, column.stored)
        if operator.find is not None:
            return operator.find(self.dialect, element, comparison.value)
        if operator.kind == "order":
            return condition_on(comparison.operator, self.dialect.ordered(element), values)
        return exactly(operator, self.dialect, element, values)

    def _of_any_but_text(
        self, column: ResultColumn, operator: Operator, values: list[Element], constants: Sequence[Any]
    ) -> ColumnElement[bool]:
        is_negated = OPERATORS[operator].is_negated
        if is_loose_truth(column, self.capabilities):
            truths = {value is not is_negated for value in constants}
            return of_truths(column.expression, truths, self.capabilities)
        if is_spelled_uuid(column, self.capabilities):
            uuids = [UUID(str(_READERS["uuid"](column, value))) for value in constants]
            return of_uuids(column.expression, uuids, is_negated=is_negated)
        element = comparable(column, self.capabilities)
        if operator in _EQUALITY and needs_exact(column, self.dialect):
            return exactly(OPERATORS[operator], self.dialect, element, values)
        if column.encoding == "any" and column.meaning.reads is None:
            return self._loose(element, operator, values, constants)
        return condition_on(operator, element, values)

    def _loose(
        self, element: Element, operator: Operator, values: list[Element], constants: Sequence[Any]
    ) -> ColumnElement[bool]:
        """A condition on a column without a declared type. The database tests the type if a text fits several."""
        name = self.capabilities.query.type_name
        kinds = [_moments_shown_as(one) if name else {} for one in constants]
        if name is not None and kinds[0] and all(one == kinds[0] for one in kinds):
            return _of_moments(element, operator, constants, name(element), kinds[0])
        condition = condition_on(operator, element, values)
        literals = [one for one in map(_bytes_shown_as, constants) if one is not None]
        if not literals or (OPERATORS[operator].takes == "two" and len(literals) < len(constants)):
            return condition
        raw = element
        if not self.capabilities.query.has_loose_comparisons:
            raw = cast(cast(element, types.Text()), types.LargeBinary())  # valid for every type
        compared = condition_on(operator, raw, [parameter(one, types.LargeBinary()) for one in literals])
        return case((self.capabilities.query.is_bytes(element), compared), else_=condition)


def _bytes_shown_as(value: Any) -> bytes | None:
    """The bytes that are shown as this value; None if there are none."""
    if not isinstance(value, str):
        return None
    try:
        data = b64decode(value, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode() == value else None


# By PostgreSQL's names of types.
_INSTANT = "timestamp without time zone"
_DAYS: Mapping[str, SQLType] = {"date": types.Date(), _INSTANT: types.DateTime()}
_INSTANTS: Mapping[str, SQLType] = {"date": types.DateTime(), _INSTANT: types.DateTime()}
_ZONED_INSTANTS: Mapping[str, SQLType] = {"timestamp with time zone": types.DateTime(timezone=True)}
_HOURS: Mapping[str, SQLType] = {"time without time zone": types.Time()}
_ZONED_HOURS: Mapping[str, SQLType] = {"time with time zone": types.Time(timezone=True)}
_INTERVALS: Mapping[str, SQLType] = {"interval": types.Interval()}
_WORDED = ("text", "character varying", "character", "name", "citext")


def _moments_shown_as(value: Any) -> Mapping[str, SQLType]:
    """The types whose values may be shown as this text, and the type for reading it beside each of them."""
    if not isinstance(value, str):
        return {}
    if has_months(value):
        return _INTERVALS
    for parse, plain, zoned in (
        (date.fromisoformat, _DAYS, _DAYS),
        (datetime.fromisoformat, _INSTANTS, _ZONED_INSTANTS),
        (time.fromisoformat, _HOURS, _ZONED_HOURS),
    ):
        with suppress(ValueError):
            moment = parse(value)
            is_same = moment.isoformat() == value
            return (plain if getattr(moment, "tzinfo", None) is None else zoned) if is_same else {}
    return {}


def _of_moments(
    element: Element,
    operator: Operator,
    constants: Sequence[Any],
    type_name: Element,
    kinds: Mapping[str, SQLType],
) -> ColumnElement[bool]:
    """A condition on dates, times or intervals without a declared type, for which drivers accept no texts."""
    text = cast(element, types.Text())
    texts = [parameter(one, types.Text()) for one in constants]
    compared = [
        (type_name == name, condition_on(operator, cast(text, type_), [cast(one, type_) for one in texts]))
        for name, type_ in kinds.items()
    ]
    # Of any other type nothing is known, and the database refuses to read the value as a UUID.
    return case(
        *compared,
        (type_name.in_(_WORDED), condition_on(operator, text, texts)),
        else_=cast(text, types.Uuid()).is_(None),
    )


def comparable(column: ResultColumn, capabilities: Capabilities) -> Element:
    """The column, converted so that comparisons use the shown values."""
    if capabilities.query.shortens_reals and shows_singles(column):
        return cast(cast(column.expression, types.String()), types.Double())
    if is_spelled_time(column, capabilities):
        return in_one_form(column, capabilities)
    # SQLAlchemy has no operators for some types of a database.
    is_bare = column.encoding == "any" and column.meaning.reads is None
    return type_coerce(column.expression, types.NULLTYPE) if is_bare else column.expression


def shows_singles(column: ResultColumn) -> bool:
    """Whether the column shows the four-byte floats that it stores."""
    return is_single(column.stored) and column.meaning.reads is None


def is_plain_text(column: ResultColumn) -> bool:
    """Whether the column has free texts, which have a collation."""
    return column.meaning.is_same and _is_text(column.shown) and _is_text(column.stored)


def needs_exact(column: ResultColumn, dialect: QueryDialect) -> bool:
    """Whether the application's code reads the values from texts that a collation may treat as equal."""
    database_type = column.meaning.stored
    if column.meaning.reads is None or not _is_text(database_type):
        return False
    return not dialect.finds_equal_by_index or bool(getattr(database_type, "collation", None))


def _is_text(plain: SQLType) -> bool:
    return isinstance(plain, types.String) and not isinstance(plain, types.Enum)


def holds(column: ResultColumn) -> str:
    """The kind of the column's values, in words."""
    encoding = column.encoding
    if isinstance(column.shown, types.Enum):
        words = f"one of the words of an enum ({', '.join(column.shown.enums[:5])})"
        return words if len(column.shown.enums) <= _FEW else words.replace(")", ", ...)")
    if isinstance(column.shown, ranges.AbstractRange):
        return "ranges"
    meaning = column.meaning
    if not meaning.is_same:
        return f"values ({encoding}) that the database has in another form, of the type {meaning.name}"
    return _CONTENTS.get(encoding, encoding)


_FEW = 5
_CONTENTS = {
    "base64": "bytes",
    "json": "JSON documents",
    "array": "arrays",
    "any": "values of no declared type",
}


def possible_operators(column: ResultColumn, capabilities: Capabilities) -> frozenset[Operator]:
    """The operators that the column supports, besides is_null."""
    encoding, meaning, compares = column.encoding, column.meaning, capabilities.query.compares
    if not meaning.keeps_null or (compares is not None and not compares(column.shown)):
        return frozenset()
    operators = operators_of(*OPERATOR_KINDS.get(encoding, ()))
    if isinstance(column.shown, ranges.AbstractRange):
        return frozenset()  # the values become text only when they are written
    if isinstance(column.shown, types.Enum):
        return _EQUALITY  # databases sort it differently
    if meaning.reads is None or meaning.is_same:
        return operators if encoding != "text" or is_plain_text(column) else operators - _TEXT - _ORDER
    # Values without a common kind are tested before they are compared; see `Conditions`.
    is_told_apart = meaning.keeps_equality or isinstance(meaning.shown, types.NullType)
    if not is_told_apart:
        return frozenset()
    return operators - _TEXT if meaning.keeps_order else operators & _EQUALITY


def _require_operator(column: ResultColumn, operator: Operator, capabilities: Capabilities) -> None:
    operators = possible_operators(column, capabilities)
    if operator in operators:
        return
    _require_nulls(column)
    possible = sorted(operators | operators_of("null"))
    raise BadParameterError(
        f"{operator} cannot be asked of the column {column.name[:80]!r}, which holds {holds(column)}.",
        hint=f"Possible there: {', '.join(possible)}.",
        details={"column": column.name, "encoding": column.encoding, "operators": possible},
    )


def _require_nulls(column: ResultColumn) -> None:
    if column.meaning.keeps_null:
        return
    raise BadParameterError(
        f"The column {column.name[:80]!r} has a type of the application ({column.meaning.name}) that shows a stored "
        "value as null, or NULL as a value.",
        hint="Filter by another column, or filter the rows after you fetch them.",
        details={"column": column.name, "encoding": column.encoding, "operators": []},
    )


def _of_instants(element: Any, operator: Operator, values: list[Element]) -> ColumnElement[bool]:
    takes = OPERATORS[operator].takes
    if takes == "several":
        return instants.is_one_of(element, values)
    if takes == "two":
        return instants.between(element, *values)
    # SQLAlchemy's own comparisons can use an index.
    compare = getattr(operators, operator, None) or (
        lambda left, right: condition_on(operator, left, [right])
    )
    return instants.compared(compare, element, values[0])


#
# Cells whose stored form differs from the shown one, for databases that allow that: SQLite stores 2 in a BOOLEAN
# column, and dualsql shows true. A UUID may have dashes in one row and none in the next. A column of numbers may
# contain a text, which is shown as `dualsql.columns.exact.Unfit`.

_STORED: dict[type[Any], SQLType] = {
    int: types.BigInteger(),
    float: types.Double(),
    str: types.String(),
    bytes: types.LargeBinary(),
}


def is_loose_truth(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the column shows booleans but may store other values."""
    is_truth = isinstance(column.stored, types.Boolean) and column.meaning.reads is None
    return is_truth and bool(capabilities.query.shown_as_false)


def is_spelled_uuid(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the column stores UUIDs as texts, which have several spellings."""
    is_uuid = isinstance(column.stored, types.Uuid) and column.meaning.reads is None
    return is_uuid and capabilities.query.storage_class is not None


def is_spelled_time(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the column stores times of day as texts, with or without seconds and fractions."""
    is_time = isinstance(column.stored, types.Time) and column.meaning.reads is None
    return is_time and capabilities.query.storage_class is not None


def in_one_form(column: ResultColumn, capabilities: Capabilities) -> Element:
    """The column, converted so that cells that are shown alike are equal."""
    if is_loose_truth(column, capabilities):
        return _is_true(column.expression, capabilities)
    if is_spelled_uuid(column, capabilities):
        digits = _digits(column.expression)
        is_uuid = and_(func.length(digits) == 32, func.trim(digits, _HEXADECIMAL) == "")
        return type_coerce(case((is_uuid, digits), else_=_raw(column.expression)), column.type)
    if is_spelled_time(column, capabilities):
        return type_coerce(_padded(column.expression), column.type)
    return column.expression


#
# Truth values.


def of_truths(element: Element, truths: set[Any], capabilities: Capabilities) -> ColumnElement[bool]:
    """Whether the shown value is among `truths`; unknown for NULL."""
    if len(truths) > 1:
        return or_(_is_true(element, capabilities), _is_false(element, capabilities))
    return _is_true(element, capabilities) if True in truths else _is_false(element, capabilities)


def _is_false(element: Element, capabilities: Capabilities) -> ColumnElement[bool]:
    bare = type_coerce(element, types.NULLTYPE)
    return or_(*(bare == _constant(value) for value in capabilities.query.shown_as_false))


def _is_true(element: Element, capabilities: Capabilities) -> ColumnElement[bool]:
    # Two ranges, so that an index can be used.
    bare = type_coerce(element, types.NULLTYPE)
    zero, *others = capabilities.query.shown_as_false
    return and_(
        or_(bare < _constant(zero), bare > _constant(zero)), *(bare != _constant(value) for value in others)
    )


#
# UUIDs.


def of_uuids(element: Element, uuids: Sequence[UUID], *, is_negated: bool) -> ColumnElement[bool]:
    """Whether the shown UUID is one of these, in any spelling."""
    same = _digits(element).in_([parameter(one.hex, types.String()) for one in uuids])
    if is_negated:
        return not_(same)
    if len(uuids) > _MOST_RANGES:
        return same
    raw = _raw(element)
    begins = (
        raw.between(parameter(one, types.String()), parameter(one + "~", types.String()))
        for one in _beginnings(uuids)
    )
    # The range uses an index on the first digits, and the second condition compares all digits.
    return and_(or_(*begins), same)


_HEXADECIMAL = "0123456789abcdef"
_MOST_RANGES = 20
"""With more values, every row is read instead of an index."""


def _digits(element: Element) -> Element:
    """The 32 digits of any text that Python's UUID() accepts. SQLAlchemy reads stored UUIDs with it."""
    digits: Element = func.lower(_raw(element), type_=types.String())
    for part in ("urn:", "uuid:", "{", "}", "-"):
        digits = func.replace(digits, part, "", type_=types.String())
    return digits


def _beginnings(uuids: Sequence[UUID]) -> list[str]:
    both_cases = {
        "".join(letters) for one in uuids for letters in product(*({c, c.upper()} for c in one.hex[:3]))
    }
    return [*sorted(both_cases), "{", "u"]


#
# Times and numbers.


_WHOLE = "00:00:00.000000"


def _padded(element: Element) -> Element:
    """A time of day with seconds and six decimal digits, as SQLAlchemy writes it; any other text unchanged."""
    raw = _raw(element)
    missing = func.substr(parameter(_WHOLE, types.String()), func.length(raw) + 1, type_=types.String())
    # time() takes 24:00, too, which is shown as it is stored.
    is_time = and_(raw.like("__:__%"), raw.not_like("24:%"), func.time(raw).is_not(None))
    return case((is_time, raw.concat(missing)), else_=raw)


def _raw(element: Element) -> Element:
    return type_coerce(element, types.String())


#
# Cells that do not fit their column.


def or_unfit(
    condition: ColumnElement[bool],
    column: ResultColumn,
    values: Sequence[Any],
    capabilities: Capabilities,
    *,
    is_negated: bool,
) -> ColumnElement[bool]:
    """An equality condition that also matches cells that do not fit their column and show one of the values."""
    class_of = capabilities.query.storage_class
    if class_of is None or column.meaning.reads is not None:
        return condition
    by_kind: dict[str, list[Element]] = {}
    for value in values:
        for kind, element in _shown_as(value, column.encoding) if isinstance(value, str) else ():
            by_kind.setdefault(kind, []).append(element)
    if not by_kind:
        return condition
    bare = type_coerce(column.expression, types.NULLTYPE)
    # The storage class is tested as well, because a column of numbers reads '12.0' as 12.
    unfit = or_(*(and_(class_of(bare) == kind, bare.in_(elements)) for kind, elements in by_kind.items()))
    return and_(condition, not_(unfit)) if is_negated else or_(condition, unfit)


def _shown_as(value: str, encoding: str) -> Iterator[tuple[str, Element]]:
    """The cells that do not fit a column of this encoding and are shown as this text."""
    if encoding in _SPELLED_ENCODINGS and "-" in value[1:]:
        return  # only values that fit are shown like this
    if encoding not in ("text", "any"):
        yield "text", _constant(value)
    if encoding not in ("text", "any", "integer", "decimal"):
        yield from (("integer" if type(one) is int else "real", _constant(one)) for one in _numbers(value))
    with suppress(ValueError):
        data = b64decode(value, validate=True)
        if b64encode(data).decode() == value:
            yield "blob", _constant(data)
    if "\\x" in value:
        odd = _without_escapes(value)
        if odd.decode("utf-8", "backslashreplace") == value:
            yield "text", cast(_constant(odd), types.Text())


_SPELLED_ENCODINGS = frozenset({"date", "datetime", "uuid"})
_LONGEST_SHOWN_NUMBER = 25


def _numbers(value: str) -> Iterator[int | float]:
    for type_ in (int, float):
        with suppress(ValueError):
            if (
                len(value) <= _LONGEST_SHOWN_NUMBER
                and str(type_(value)) == value
                and abs(type_(value)) < 2**63
            ):
                yield type_(value)


def _without_escapes(value: str) -> bytes:
    """The stored bytes of a text that is not valid UTF-8, from its shown form."""
    parts = re.split(r"\\x([89a-f][0-9a-f])", value)
    return b"".join(
        bytes.fromhex(part) if index % 2 else part.encode("utf-8", "surrogatepass")
        for index, part in enumerate(parts)
    )


def _constant(value: Any) -> Element:
    return parameter(value, _STORED[type(value)])
