"""The operators of conditions and the buckets of dates: one row each, with its words and its SQL.

To add an operator, add a row here, its name in `dualsql_client.wire_requests.Operator` and a method of
`dualsql_client.query.Compared`. To add a bucket, add a row here, its name in `dualsql_client.wire_requests.Bucket`, and
its SQL in `QueryDialect.bucket_start` of each database.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import BindParameter, ColumnElement, and_, not_, or_, types

from dualsql.columns.own_types import SQLType
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
