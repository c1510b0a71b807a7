"""A question about a stored result, as data; the rule: it names columns and holds values, and no text is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, get_args

from dualsql.errors import Asked
from dualsql_client.questions import Bucket, Function, Operator

OPERATORS: tuple[Operator, ...] = get_args(Operator)
BUCKETS: tuple[Bucket, ...] = get_args(Bucket)
FUNCTIONS: tuple[Function, ...] = get_args(Function)

DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Comparison:
    """One column against a value; several, as a tuple, for "in" and "between"."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of the conditions."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of them."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """Its opposite."""

    part: Condition


Condition = Comparison | AllOf | AnyOf | Negation


@dataclass(frozen=True, slots=True)
class Group:
    """A column that rows are grouped by, a date perhaps cut to a bucket."""

    name: str
    column: str
    bucket: Bucket | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a group of rows.

    Attributes:
        column: None for the number of rows.
        fraction: of a percentile, from 0 to 1.
    """

    name: str
    function: Function
    column: str | None = None
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column of the answer; rows without a value come last in both directions."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a result; the empty question is answered by the result itself.

    Attributes:
        columns: those wanted, in order; None for all. Of rows only: groups have the columns they are asked for.
        condition: which rows.
        having: which groups, by the columns of the answer.
        limit, offset: the answer is these rows of it, and no others.
    """

    asked: ClassVar[Asked] = "question"

    columns: tuple[str, ...] | None = None
    condition: Condition | None = None
    groups: tuple[Group, ...] = ()
    measures: tuple[Measure, ...] = ()
    having: Condition | None = None
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def is_grouped(self) -> bool:
        """Whether it is answered by figures of groups, and not by rows."""
        return bool(self.groups or self.measures)

    @property
    def digest(self) -> str:
        """Equal for equal questions, in every process."""
        return sha256(repr(self).encode()).hexdigest()[:DIGEST_LENGTH]


@dataclass(frozen=True, slots=True)
class TextQuestion:
    """The same in SQL: one SELECT over the relation `data`.

    Attributes:
        parameters: name and value of each `:name` in the text.
        columns: of the answer, those wanted, in order; None for all.
        limit, offset: the answer is these rows of it, and no others.
    """

    asked: ClassVar[Asked] = "text"

    sql: str
    parameters: tuple[tuple[str, Any], ...] = ()
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    offset: int = 0

    @property
    def digest(self) -> str:
        """Equal for equal texts, in every process."""
        return sha256(repr(self).encode()).hexdigest()[:DIGEST_LENGTH]


Inquiry = Question | TextQuestion
"""Whatever can be asked."""


def names_of(question: Question) -> Sequence[str]:
    """The columns of a grouped answer, in order."""
    return [*(group.name for group in question.groups), *(measure.name for measure in question.measures)]
