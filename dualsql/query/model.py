"""Queries over a stored result as data, and their description in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar

from dualsql.errors import Asked, shown
from dualsql.query.comparisons import OPERATORS
from dualsql_client.wire_requests import Bucket, Operator

DIGEST_LENGTH = 32


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a value, or with a tuple of values if the operator takes several."""

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of the conditions hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the conditions holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """The condition does not hold."""

    part: Condition


Condition = Comparison | AllOf | AnyOf | Negation


@dataclass(frozen=True, slots=True)
class Group:
    """A column to group rows by. Dates can be truncated to a bucket."""

    name: str
    column: str
    bucket: Bucket | None = None


@dataclass(frozen=True, slots=True)
class AggregateColumn:
    """An aggregate of a group of rows.

    Attributes:
        column: None for the number of rows.
        fraction: from 0 to 1, for functions with a fraction.
    """

    name: str
    function: str
    column: str | None = None
    fraction: float | None = None


MAXIMUM_ALIAS = 63
"""Bytes of a name that a query gives. PostgreSQL truncates longer names, so two could collide. MariaDB refuses them."""


def group_name(column: str, bucket: Bucket | None) -> str:
    """The name of a group without one of its own: that of its column, which may be long, or placed_month."""
    return column if bucket is None else _shorten(f"{column}_{bucket}")


def aggregate_name(function: str, column: str | None, fraction: float | None) -> str:
    """The name of an aggregate without one of its own: count, sum_price, p90_price."""
    if column is None:
        return function
    return _shorten(f"{function}_{column}" if fraction is None else f"p{fraction * 100:g}_{column}")


def _shorten(name: str) -> str:
    return name.encode(errors="replace")[:MAXIMUM_ALIAS].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class QuerySort:
    """A column of the answer to sort by. NULLs come last in both directions."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredQuery:
    """A query in parts. The empty query returns the result itself.

    Attributes:
        columns: the columns of the answer, in order; None for all. A grouped answer has its groups and aggregates.
        condition: on the rows of the result.
        having: on the groups, by the columns of the answer.
        limit, offset: the rows of the answer that are kept.
    """

    asked: ClassVar[Asked] = "question"

    columns: tuple[str, ...] | None = None
    condition: Condition | None = None
    groups: tuple[Group, ...] = ()
    aggregates: tuple[AggregateColumn, ...] = ()
    having: Condition | None = None
    order: tuple[QuerySort, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def is_grouped(self) -> bool:
        """Whether the answer has groups or aggregates instead of rows of the result."""
        return bool(self.groups or self.aggregates)

    @property
    def digest(self) -> str:
        """A hash that is equal for equal queries, in every process."""
        # Not hash(), which differs from process to process (PYTHONHASHSEED).
        return sha256(repr(self).encode()).hexdigest()[:DIGEST_LENGTH]


@dataclass(frozen=True, slots=True)
class SQLQuery:
    """A query in SQL: one SELECT over the relation `data`.

    Attributes:
        reads_tables: other names are tables, where the caller may read them in SQL texts. Who asks decides it, and not
            the JSON of a query, because a link to an anonymous result must not lead to the tables.
        needs_result: a text that reads tables only is refused: a model's question is about the result that it names.
        parameters: name and value of each `:name` in the text.
        columns: the requested columns of the answer, in order; None for all.
        limit, offset: the rows of the answer that are kept.
    """

    asked: ClassVar[Asked] = "text"

    sql: str
    parameters: tuple[tuple[str, Any], ...] = ()
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    offset: int = 0
    reads_tables: bool = field(default=False, repr=False)
    needs_result: bool = field(default=False, repr=False)

    @property
    def digest(self) -> str:
        """A hash that is equal for equal texts and values, in every process."""
        return sha256(repr(self).encode()).hexdigest()[:DIGEST_LENGTH]


ResultQuery = StructuredQuery | SQLQuery
"""Any query over a result."""


def with_names_of(query: ResultQuery, columns: Sequence[str]) -> ResultQuery:
    """The query with the names of the result's columns where it writes them in another case.

    A name that several columns have so is left as it is, which is an error later. Texts are read so in any case.
    """
    if isinstance(query, SQLQuery):
        return query
    groups = tuple(_with_group_name(group, columns) for group in query.groups)
    measures = tuple(_with_measure_name(measure, columns) for measure in query.aggregates)
    renamed = replace(
        query, groups=groups, aggregates=measures, condition=_with_condition_names(query.condition, columns)
    )
    if len(set(names_of(renamed))) < len(names_of(renamed)):
        return query
    answer = names_of(renamed) if renamed.is_grouped else columns
    shown = None if query.columns is None else tuple(exact_name(name, answer) for name in query.columns)
    return replace(
        renamed,
        columns=query.columns if shown is None or len(set(shown)) < len(shown) else shown,
        having=_with_condition_names(query.having, answer),
        order=tuple(replace(key, column=exact_name(key.column, answer)) for key in query.order),
    )


def exact_name(name: str, columns: Sequence[str]) -> str:
    """The name of the one column that differs from `name` in case only; `name` itself, if none or several do."""
    if name in columns:
        return name
    matches = [column for column in columns if column.lower() == name.lower()]
    return matches[0] if len(matches) == 1 else name


def _with_group_name(group: Group, columns: Sequence[str]) -> Group:
    column = exact_name(group.column, columns)
    is_default = group.name == group_name(group.column, group.bucket)
    return replace(group, column=column, name=group_name(column, group.bucket) if is_default else group.name)


def _with_measure_name(measure: AggregateColumn, columns: Sequence[str]) -> AggregateColumn:
    function, fraction = measure.function, measure.fraction
    column = None if measure.column is None else exact_name(measure.column, columns)
    is_default = measure.name == aggregate_name(function, measure.column, fraction)
    name = aggregate_name(function, column, fraction) if is_default else measure.name
    return replace(measure, column=column, name=name)


def _with_condition_names(condition: Condition | None, columns: Sequence[str]) -> Any:
    match condition:
        case AllOf(parts):
            return AllOf(tuple(_with_condition_names(part, columns) for part in parts))
        case AnyOf(parts):
            return AnyOf(tuple(_with_condition_names(part, columns) for part in parts))
        case Negation(part):
            return Negation(_with_condition_names(part, columns))
        case Comparison():
            return replace(condition, column=exact_name(condition.column, columns))
        case None:
            return None


def names_of(question: StructuredQuery) -> Sequence[str]:
    """The columns of a grouped answer, in order."""
    return [*(group.name for group in question.groups), *(measure.name for measure in question.aggregates)]


_LONGEST = 500
_LONGEST_VALUE = 40
_MOST_VALUES = 5


def in_words(query: ResultQuery) -> str:
    """A description of the query: "where state is 'NJ'; count for each state; the first 10"."""
    text = "; ".join(_parts_of_text(query) if isinstance(query, SQLQuery) else _parts(query))
    line = " ".join(text.split()) or "all of it"
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _parts_of_text(text: SQLQuery) -> Iterator[str]:
    yield f"SQL: {text.sql}"
    yield from _parts(StructuredQuery(columns=text.columns, limit=text.limit, offset=text.offset))


def _parts(question: StructuredQuery) -> Iterator[str]:
    if question.condition is not None:
        yield f"where {_condition(question.condition)}"
    if question.is_grouped:
        figures = ", ".join(map(_aggregate, question.aggregates)) or "the values"
        groups = ", ".join(map(_group, question.groups))
        yield f"{figures} for each {groups}" if groups else figures
    if question.having is not None:
        yield f"of these where {_condition(question.having)}"
    if question.columns is not None:
        yield f"columns {', '.join(question.columns)}"
    if question.order:
        yield f"by {', '.join(map(_key, question.order))}"
    if question.offset:
        yield f"after the first {question.offset}"
    if question.limit is not None:
        yield f"at most {question.limit}"


def _condition(condition: Condition) -> str:
    match condition:
        case AllOf(parts):
            return " and ".join(map(_inner, parts))
        case AnyOf(parts):
            return " or ".join(map(_inner, parts))
        case Negation(part):
            return f"not {_inner(part)}"
        case Comparison():
            return _comparison(condition)


def _inner(condition: Condition) -> str:
    text = _condition(condition)
    return f"({text})" if isinstance(condition, AllOf | AnyOf) and len(condition.parts) > 1 else text


def _comparison(comparison: Comparison) -> str:
    operator = OPERATORS[comparison.operator]
    if operator.takes == "flag":
        return f"{comparison.column} {operator.words if comparison.value else operator.opposite}"
    values = comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)
    texts = [_value(value) for value in values[:_MOST_VALUES]]
    if len(values) > _MOST_VALUES:
        texts.append(f"{len(values) - _MOST_VALUES} more")
    joint = " and " if operator.takes == "two" else ", "
    return f"{comparison.column} {operator.words} {joint.join(texts)}"


def _value(value: Any) -> str:
    text = shown(value, _LONGEST_VALUE + 1)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _group(group: Group) -> str:
    return group.column if group.bucket is None else f"{group.bucket} of {group.column}"


def _aggregate(measure: AggregateColumn) -> str:
    if measure.column is None:
        return "count"
    fraction = "" if measure.fraction is None else f" {measure.fraction:g}"
    return f"{measure.function.replace('_', ' ')}{fraction} of {measure.column}"


def _key(key: QuerySort) -> str:
    return f"{key.column} descending" if key.is_descending else key.column
