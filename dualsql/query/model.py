"""Queries over a stored result as data, their description in words, and the operators and buckets that they may have.

To add an operator, add a row to `OPERATORS`, its name in `dualsql_client.wire_requests.Operator` and a method of
`dualsql_client.query.Compared`. To add a bucket, add a row to `BUCKETS`, its name in
`dualsql_client.wire_requests.Bucket`, and its SQL in `QueryDialect.bucket_start` of each database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Literal

from sqlalchemy import ColumnElement, and_, not_, or_, types

from dualsql.columns.own_types import Element
from dualsql.databases.expressions import parameter
from dualsql.errors import Asked, shown
from dualsql.query_dialects import QueryDialect
from dualsql_client.wire_requests import Bucket, Operator

OperatorKind = Literal["equality", "order", "text", "null"]
Compare = Callable[[Any, Sequence[Any]], ColumnElement[bool]]
Find = Callable[[QueryDialect, Element, str], ColumnElement[bool]]

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


@dataclass(frozen=True, kw_only=True)
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

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for equal queries, in every process."""
        # Not hash(), which differs from process to process (PYTHONHASHSEED).
        return sha256(repr(self).encode()).hexdigest()[:DIGEST_LENGTH]


@dataclass(frozen=True)
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

    @cached_property
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
    if len(set(answer_names(renamed))) < len(answer_names(renamed)):
        return query
    answer = answer_names(renamed) if renamed.is_grouped else columns
    requested = _one_by_one(query.columns, answer)
    shown = None if requested is None else tuple(exact_name(name, answer) for name in requested)
    return replace(
        renamed,
        columns=requested if shown is None or len(set(shown)) < len(shown) else shown,
        having=_with_condition_names(query.having, answer),
        order=tuple(replace(key, column=exact_name(key.column, answer)) for key in query.order),
    )


def _one_by_one(names: tuple[str, ...] | None, columns: Sequence[str]) -> tuple[str, ...] | None:
    """The names in a text such as "id, remark", which models write as SQL does; one column may be called so."""
    if names is None or len(names) != 1 or exact_name(names[0], columns) in columns:
        return names
    parts = tuple(part.strip() for part in names[0].split(","))
    return parts if all(exact_name(part, columns) in columns for part in parts) else names


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


def answer_names(question: StructuredQuery) -> Sequence[str]:
    """The columns of a grouped answer, in order."""
    return [*(group.name for group in question.groups), *(measure.name for measure in question.aggregates)]


_LONGEST = 500
_LONGEST_VALUE = 40
_MOST_VALUES = 5


#
# Operators and buckets.


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionOperator:
    """An operator of conditions.

    Attributes:
        words: the words between a column and its values, in a sentence.
        kind: what the column's type has to support: equality, an order, or texts. "null" needs nothing.
        takes: one value, several, two (the lower one first), or a flag, which is True by default.
        compare: the SQL of an operator of equality or order, from the column and the values.
        find: the SQL of an operator on texts, from the column and a part of its text.
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


def equal(dialect: QueryDialect, text: Element, value: Element) -> Element:
    """Equal by code point, for every collation: 'a' is neither 'A' nor 'a '. Indexes can be used."""
    exact = dialect.exact(text)
    # Written twice: by the column, which can use an index, and exactly (decision 14).
    return exact == value if dialect.finds_equal_by_index else and_(text == value, exact == value)


def text_is_one_of(dialect: QueryDialect, text: Element, values: Any) -> Element:
    """Equal to one of several values, by code point."""
    exact = dialect.exact(text)
    return exact.in_(values) if dialect.finds_equal_by_index else and_(text.in_(values), exact.in_(values))


def exactly(
    operator: ConditionOperator, dialect: QueryDialect, text: Element, values: Sequence[Element]
) -> Element:
    """An operator of equality, by code point."""
    same = (
        text_is_one_of(dialect, text, values)
        if operator.takes == "several"
        else equal(dialect, text, values[0])
    )
    return not_(same) if operator.is_negated else same


def _contains(dialect: QueryDialect, text: Element, part: str) -> ColumnElement[bool]:
    # LIKE is not used: its wildcards need escapes, and it ignores case on some databases.
    return dialect.position(text, parameter(part, types.String())) > 0


def _contains_any_case(dialect: QueryDialect, text: Element, part: str) -> ColumnElement[bool]:
    lowered = dialect.lowered(parameter(part, types.String()))
    # The text as it is, too: a database whose lower() depends on the place in a word may write a part in another way.
    return or_(dialect.position(dialect.lowered(text), lowered) > 0, _contains(dialect, text, part))


def _starts_with(dialect: QueryDialect, text: Element, part: str) -> ColumnElement[bool]:
    # No LIKE, for the reasons given in _contains().
    return dialect.exact(dialect.beginning(text, len(part))) == parameter(part, types.String())


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
            signs=("<", "less_than", "before"),
            compare=lambda column, values: column < values[0],
        ),
        ConditionOperator(
            name="le",
            words="is at most",
            of_times="is at the latest",
            kind="order",
            signs=("<=", "lte", "less_than_or_equal"),
            compare=lambda column, values: column <= values[0],
        ),
        ConditionOperator(
            name="gt",
            words="is above",
            of_times="is after",
            kind="order",
            signs=(">", "greater_than", "after"),
            compare=lambda column, values: column > values[0],
        ),
        ConditionOperator(
            name="ge",
            words="is at least",
            of_times="is at the earliest",
            kind="order",
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
# In words.


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
