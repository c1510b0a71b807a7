"""The operators of conditions and the buckets of dates, one row each, and their SQL on cells that are shown otherwise.

To add an operator, add a row here, its name in `dualsql_client.wire_requests.Operator` and a method of
`dualsql_client.query.Compared`. To add a bucket, add a row here, its name in `dualsql_client.wire_requests.Bucket`, and
its SQL in `QueryDialect.bucket_start` of each database.

Some databases allow that: SQLite stores 2 in a BOOLEAN column, and dualsql shows true. A UUID may have dashes in one
row and none in the next. A column of numbers may contain a text, which is shown as `dualsql.formats.cells.Unfit`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import BindParameter, ColumnElement, and_, case, cast, func, not_, or_, type_coerce, types

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import SQLType
from dualsql.columns.result import ResultColumn
from dualsql.query_dialects import QueryDialect
from dualsql_client.wire_requests import Bucket, Operator

Element = ColumnElement[Any]
OperatorKind = Literal["equality", "order", "text", "null"]
Compare = Callable[[Any, Sequence[Any]], ColumnElement[bool]]
Find = Callable[[QueryDialect, Element, str], ColumnElement[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionOperator:
    """An operator of conditions.

    Attributes:
        words: the words between a column and its values, in a sentence.
        kind: what the column's type has to support: equality, an order, or texts. "null" needs nothing.
        takes: one value, several, two (the lower one first), or a flag, which is True by default.
        compare: the SQL of an operator of equality or order, from the column and the values.
        find: the SQL of an operator on texts, from the column and a part of its text.
        ends: for orders on columns that are shown rounded: whether a value means the first or the last of the numbers
            that are shown as this value.
        is_negated: whether it is true where equality is false.
        signs: other accepted spellings of the name, in lower case with _ for spaces.
        opposites: accepted spellings of the name with the flag False. `opposite` has the words for it.
        negations: accepted spellings of the negated condition. Pages offer it if `negation` has the words for it.
        of_times: the words beside dates and times, if they are other ones.
    """

    name: Operator
    words: str
    kind: OperatorKind
    takes: Literal["one", "several", "two", "flag"] = "one"
    compare: Compare | None = None
    find: Find | None = None
    ends: tuple[Literal["first", "last"], ...] = ()
    is_negated: bool = False
    signs: tuple[str, ...] = ()
    opposites: tuple[str, ...] = ()
    opposite: str = ""
    negations: tuple[str, ...] = ()
    negation: str = ""
    of_times: str = ""


@dataclass(frozen=True, slots=True)
class DateBucket:
    """A unit of time to which dates are truncated.

    Attributes:
        months, hours: how long it lasts.
        characters: the beginning of an ISO 8601 date or instant that names it on pages.
        needs_time: whether it needs a time of day, which plain dates do not have.
    """

    name: Bucket
    months: int = 0
    hours: int = 0
    characters: int = 10
    needs_time: bool = False


BUCKETS: Mapping[Bucket, DateBucket] = {
    bucket.name: bucket
    for bucket in (
        DateBucket("year", months=12, characters=4),
        DateBucket("quarter", months=3, characters=7),
        DateBucket("month", months=1, characters=7),
        # From Monday (ISO 8601), on every database.
        DateBucket("week", hours=7 * 24),
        DateBucket("day", hours=24),
        DateBucket("hour", hours=1, characters=13, needs_time=True),
    )
}


def typed_parameter(value: Any, type_: SQLType) -> Element:
    """A value as a parameter."""
    return BindParameter(None, value, type_=type_, unique=True)


def equal(dialect: QueryDialect, text: Element, value: Element) -> Element:
    """Equal by code point, for every collation: 'a' is neither 'A' nor 'a '. Indexes can be used."""
    exact = dialect.exact(text)
    # Written twice: by the column, which can use an index, and exactly (decision 14).
    return exact == value if dialect.finds_equal_by_index else and_(text == value, exact == value)


def is_one_of(dialect: QueryDialect, text: Element, values: Any) -> Element:
    """Equal to one of several values, by code point."""
    exact = dialect.exact(text)
    return exact.in_(values) if dialect.finds_equal_by_index else and_(text.in_(values), exact.in_(values))


def exactly(
    operator: ConditionOperator, dialect: QueryDialect, text: Element, values: Sequence[Element]
) -> Element:
    """An operator of equality, by code point."""
    same = (
        is_one_of(dialect, text, values) if operator.takes == "several" else equal(dialect, text, values[0])
    )
    return not_(same) if operator.is_negated else same


def _contains(dialect: QueryDialect, text: Element, part: str) -> ColumnElement[bool]:
    # LIKE is not used: its wildcards need escapes, and it ignores case on some databases.
    return dialect.position(text, typed_parameter(part, types.String())) > 0


def _contains_any_case(dialect: QueryDialect, text: Element, part: str) -> ColumnElement[bool]:
    lowered = dialect.lowered(typed_parameter(part, types.String()))
    # The text as it is, too: a database whose lower() depends on the place in a word may write a part in another way.
    return or_(dialect.position(dialect.lowered(text), lowered) > 0, _contains(dialect, text, part))


def _starts_with(dialect: QueryDialect, text: Element, part: str) -> ColumnElement[bool]:
    # No LIKE, for the reasons given in _contains().
    return dialect.exact(dialect.beginning(text, len(part))) == typed_parameter(part, types.String())


OPERATORS: Mapping[Operator, ConditionOperator] = {
    condition_operator.name: condition_operator
    for condition_operator in (
        ConditionOperator(
            name="eq",
            words="is",
            kind="equality",
            signs=("=", "==", "equals", "equal", "is"),
            compare=lambda column, values: column == values[0],
        ),
        ConditionOperator(
            name="ne",
            words="is not",
            kind="equality",
            signs=("!=", "<>", "neq", "not_equals", "not_equal", "is_not"),
            is_negated=True,
            compare=lambda column, values: column != values[0],
        ),
        ConditionOperator(
            name="lt",
            words="is below",
            of_times="is before",
            kind="order",
            ends=("first",),
            signs=("<", "less_than", "before"),
            compare=lambda column, values: column < values[0],
        ),
        ConditionOperator(
            name="le",
            words="is at most",
            of_times="is at the latest",
            kind="order",
            ends=("last",),
            signs=("<=", "lte", "less_than_or_equal"),
            compare=lambda column, values: column <= values[0],
        ),
        ConditionOperator(
            name="gt",
            words="is above",
            of_times="is after",
            kind="order",
            ends=("last",),
            signs=(">", "greater_than", "after"),
            compare=lambda column, values: column > values[0],
        ),
        ConditionOperator(
            name="ge",
            words="is at least",
            of_times="is at the earliest",
            kind="order",
            ends=("first",),
            signs=(">=", "gte", "greater_than_or_equal"),
            compare=lambda column, values: column >= values[0],
        ),
        ConditionOperator(
            name="in",
            words="is one of",
            kind="equality",
            signs=("one_of", "any_of", "is_in"),
            negations=("not_in", "nin", "none_of", "is_not_in"),
            negation="is none of",
            takes="several",
            compare=lambda column, values: column.in_(values),
        ),
        ConditionOperator(
            name="between",
            words="is between",
            kind="order",
            negations=("not_between",),
            takes="two",
            ends=("first", "last"),
            compare=lambda column, values: and_(column >= values[0], column <= values[1]),
        ),
        ConditionOperator(
            name="contains",
            words="contains",
            kind="text",
            find=_contains,
            signs=("includes", "has"),
            negations=("not_contains", "does_not_contain"),
            negation="does not contain",
        ),
        ConditionOperator(
            name="contains_any_case",
            words="contains, in any case,",
            kind="text",
            find=_contains_any_case,
            signs=("icontains", "contains_ignore_case"),
            negations=("not_contains_any_case",),
        ),
        ConditionOperator(
            name="starts_with",
            words="starts with",
            kind="text",
            find=_starts_with,
            signs=("startswith", "begins_with", "prefix"),
            negations=("not_starts_with", "does_not_start_with"),
        ),
        ConditionOperator(
            name="is_null",
            words="has no value",
            kind="null",
            takes="flag",
            signs=("isnull", "null", "is_empty", "missing"),
            opposites=("not_null", "is_not_null", "notnull", "isnotnull", "exists"),
            opposite="has a value",
        ),
    )
}


NOT_HERE: Mapping[str, str] = {
    **dict.fromkeys(
        ("like", "ilike", "not_like", "glob", "matches", "regex", "regexp", "ends_with", "endswith"),
        "Use contains or starts_with, or write the condition in sql: SELECT * FROM data WHERE ...",
    ),
}
"""Unknown operators that models write, and what to write instead."""


def operators_of(*kinds: OperatorKind) -> frozenset[Operator]:
    """The operators of these kinds."""
    return frozenset(name for name, operator in OPERATORS.items() if operator.kind in kinds)


def condition_on(operator: Operator, column: Any, values: Sequence[Any]) -> ColumnElement[bool]:
    """The SQL of an operator of equality or order."""
    compare = OPERATORS[operator].compare
    assert compare is not None, "columns are asked what they can be asked"
    return compare(column, values)


#
# Cells whose stored form differs from the shown one.

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
