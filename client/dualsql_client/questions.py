"""Questions about a result as a program writes them; the rule: plain JSON is sent, and values keep their digits.

where("state").one_of(["NJ", "NY"]) & ~where("founded").lt(date(1900, 1, 1))
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, NotRequired
from uuid import UUID

from typing_extensions import TypedDict

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "between", "contains", "starts_with", "is_null"]
"""How a column is compared. A row without a value meets none of these but `is_null`, nor their `not`, as in SQL."""

Bucket = Literal["year", "quarter", "month", "week", "day", "hour"]
"""What a date is cut to; a week begins on Monday."""

Function = Literal["count", "count_distinct", "sum", "avg", "min", "max", "median", "percentile"]

Value = str | int | float | bool | Decimal | date | datetime | time | timedelta | UUID | bytes
"""What a column is compared with."""

Group = TypedDict("Group", {"column": str, "bucket": NotRequired[Bucket], "as": NotRequired[str]})
"""A column that rows are grouped by; dates may be cut to a bucket."""

Aggregate = TypedDict(
    "Aggregate",
    {
        "function": Function,
        "column": NotRequired[str],
        "fraction": NotRequired[float],
        "as": NotRequired[str],
    },
)
"""A figure of each group; `fraction` is a percentile's."""


class OrderKey(TypedDict):
    """One key of an order; rows without a value come last both ways."""

    column: str
    order: NotRequired[Literal["asc", "desc"]]


class Condition:
    """Which rows; conditions are joined by `&` and `|`, and turned round by `~`."""

    __slots__ = ("_said",)

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = dict(said)

    def __and__(self, other: Condition) -> Condition:
        return Condition({"and": [self._said, other._said]})

    def __or__(self, other: Condition) -> Condition:
        return Condition({"or": [self._said, other._said]})

    def __invert__(self) -> Condition:
        return Condition({"not": self._said})

    def __repr__(self) -> str:
        return f"Condition({self._said!r})"

    def to_json(self) -> dict[str, Any]:
        """The condition as it is sent."""
        return self._said


class Compared:
    """A column that is about to be compared; see `where`."""

    __slots__ = ("_column",)

    def __init__(self, column: str) -> None:
        self._column = column

    def eq(self, value: Value) -> Condition:
        """Equal; texts letter by letter."""
        return self._said("eq", value)

    def ne(self, value: Value) -> Condition:
        """Another value; rows without one are not among them."""
        return self._said("ne", value)

    def lt(self, value: Value) -> Condition:
        """Below."""
        return self._said("lt", value)

    def le(self, value: Value) -> Condition:
        """Below, or equal."""
        return self._said("le", value)

    def gt(self, value: Value) -> Condition:
        """Above."""
        return self._said("gt", value)

    def ge(self, value: Value) -> Condition:
        """Above, or equal."""
        return self._said("ge", value)

    def one_of(self, values: Iterable[Value]) -> Condition:
        """Equal to one of them."""
        return self._said("in", list(values))

    def between(self, least: Value, most: Value) -> Condition:
        """From `least` to `most`, both included."""
        return self._said("between", [least, most])

    def contains(self, part: str) -> Condition:
        """A text that holds `part`, letter by letter."""
        return self._said("contains", part)

    def starts_with(self, beginning: str) -> Condition:
        """A text that begins so."""
        return self._said("starts_with", beginning)

    def is_null(self) -> Condition:
        """Without a value."""
        return self._said("is_null", True)  # noqa: FBT003 - it is what is sent

    def _said(self, operator: Operator, value: Any) -> Condition:
        return Condition({"column": self._column, "op": operator, "value": plain_value(value)})


def where(column: str) -> Compared:
    """A column, to be compared: `where("state").eq("NJ")`."""
    return Compared(column)


class Question(TypedDict, total=False):
    """What is asked of a result; see docs/asking.md.

    Keys:
        columns: names of the columns wanted; of rows only.
        filters: which rows: one condition, or several that all hold, of `where` or as JSON.
        group_by: columns, or dates cut to a bucket.
        aggregates: figures of each group; of all rows, without groups.
        having: which groups, by columns of the answer.
        order_by: columns of the answer.
    """

    columns: Sequence[str]
    filters: Condition | Sequence[Condition | Mapping[str, Any]]
    group_by: Sequence[str | Group]
    aggregates: Sequence[Function | Aggregate]
    having: Condition | Sequence[Condition | Mapping[str, Any]]
    order_by: Sequence[str | OrderKey]


def plain_question(question: Question) -> dict[str, Any]:
    """The question as it is sent."""
    said: dict[str, Any] = {}
    for key, value in question.items():
        if isinstance(value, Condition):
            said[key] = [value.to_json()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            said[key] = [part.to_json() if isinstance(part, Condition) else part for part in value]
        elif value is not None:
            # A filter that is left out would be another question: the server says what is wrong with it.
            said[key] = value
    return said


def plain_value(value: Any) -> Any:
    """A value as results show it."""
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    return str(value) if isinstance(value, Decimal | UUID) else value


def _duration(length: timedelta) -> str:
    size = abs(length)
    sign = "-" if length < timedelta() else ""
    return f"{sign}P{size.days}DT{size.seconds}.{size.microseconds:06d}S"
