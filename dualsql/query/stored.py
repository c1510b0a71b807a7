"""Conditions on cells whose stored form differs from the shown one, for databases that allow that.

SQLite stores 2 in a BOOLEAN column, and dualsql shows true. A UUID may have dashes in one row and none in the next. A
column of numbers may contain a text, which is shown as `dualsql.formats.cells.Unfit`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, case, cast, func, not_, or_, type_coerce, types

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import ResultColumn
from dualsql.query.comparisons import Element, typed_parameter

_STORED: dict[type[Any], SQLType] = {
    int: types.BigInteger(),
    float: types.Double(),
    str: types.String(),
    bytes: types.LargeBinary(),
}


def is_loose_truth(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the column shows booleans but may store other values."""
    is_truth = isinstance(column.stored, types.Boolean) and not column.meaning.is_made
    return is_truth and bool(capabilities.query.shown_as_false)


def is_spelled_uuid(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the column stores UUIDs as texts, which have several spellings."""
    is_uuid = isinstance(column.stored, types.Uuid) and not column.meaning.is_made
    return is_uuid and capabilities.query.storage_class is not None


def is_spelled_time(column: ResultColumn, capabilities: Capabilities) -> bool:
    """Whether the column stores times of day as texts, with or without seconds and fractions."""
    is_time = isinstance(column.stored, types.Time) and not column.meaning.is_made
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
    same = _digits(element).in_([typed_parameter(one.hex, types.String()) for one in uuids])
    if is_negated:
        return not_(same)
    if len(uuids) > _MOST_RANGES:
        return same
    raw = _raw(element)
    begins = (
        raw.between(typed_parameter(one, types.String()), typed_parameter(one + "~", types.String()))
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
    missing = func.substr(typed_parameter(_WHOLE, types.String()), func.length(raw) + 1, type_=types.String())
    is_time = and_(raw.like("__:__%"), func.time(raw).is_not(None))
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
    if class_of is None or column.meaning.is_made:
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
    if encoding in _SPELLED and "-" in value[1:]:
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


_SPELLED = frozenset({"date", "datetime", "uuid"})
_LONGEST_NUMBER = 25


def _numbers(value: str) -> Iterator[int | float]:
    for type_ in (int, float):
        with suppress(ValueError):
            if len(value) <= _LONGEST_NUMBER and str(type_(value)) == value and abs(type_(value)) < 2**63:
                yield type_(value)


def _without_escapes(value: str) -> bytes:
    """The stored bytes of a text that is not valid UTF-8, from its shown form."""
    parts = re.split(r"\\x([89a-f][0-9a-f])", value)
    return b"".join(
        bytes.fromhex(part) if index % 2 else part.encode("utf-8", "surrogatepass")
        for index, part in enumerate(parts)
    )


def _constant(value: Any) -> Element:
    return typed_parameter(value, _STORED[type(value)])
