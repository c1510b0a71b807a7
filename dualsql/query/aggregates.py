"""Groups and their aggregates as SQL, with the table of aggregates. Sums of integers and decimals are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, literal, type_coerce, types

from dualsql.capabilities import Capabilities
from dualsql.columns.instants import is_instant, normalized_instant
from dualsql.columns.own_types import Element, SQLType
from dualsql.columns.result import ResultColumn
from dualsql.databases.expressions import parameter
from dualsql.errors import BadParameterError
from dualsql.kept.cells import Use
from dualsql.query.conditions import (
    Conditions,
    comparable,
    holds,
    in_one_form,
    is_plain_text,
    needs_exact,
    shows_singles,
)
from dualsql.query.model import BUCKETS, AggregateColumn, Group
from dualsql.query.percentiles import RankedValues
from dualsql.query_dialects import QueryDialect

_NUMBERS = frozenset({"integer", "float", "decimal"})
_DISTINCT = _NUMBERS | {"text", "boolean", "date", "time", "datetime", "interval", "uuid", "base64", "any"}
_ORDERED = _NUMBERS | {"text", "date", "time", "datetime"}

_GROUPED = frozenset({"integer", "float", "decimal", "text", "boolean", "date", "time", "uuid", "any"})


def group_key(group: Group, conditions: Conditions) -> Element:
    """The expression to group by.

    Raises:
        UnknownColumnError, BadParameterError: there is no such column, or rows cannot be grouped by it.
    """
    column = conditions.column(group.column)
    encoding = _encoding(column)
    if group.bucket is not None:
        return _bucket(group, column, conditions)
    if encoding == "datetime":
        raise BadParameterError(
            f"Nearly every instant of {column.name[:80]!r} would be a group of its own.",
            hint=f'Cut it: {{"column": "{column.name[:80]}", "bucket": "day"}}.',
            details={"column": column.name},
        )
    if encoding not in _GROUPED:
        raise BadParameterError(
            f"Rows cannot be grouped by {column.name[:80]!r}, which holds {encoding}.",
            hint="Group by a column of texts, numbers, dates or flags.",
            details={"column": column.name, "encoding": encoding},
        )
    if is_plain_text(column):
        return conditions.dialect.exact(column.expression)
    key = _shown_value(column, conditions.capabilities)
    return _distinct_value(column, key, conditions)


def _shown_value(column: ResultColumn, capabilities: Capabilities) -> Element:
    return comparable(column, capabilities) if shows_singles(column) else in_one_form(column, capabilities)


def _distinct_value(column: ResultColumn, element: Element, conditions: Conditions) -> Element:
    dialect, tells_apart = conditions.dialect, conditions.capabilities.query.tells_apart
    if tells_apart is not None and not tells_apart(column.shown):
        raise BadParameterError(
            f"{conditions.capabilities.name} cannot tell apart the values of {column.name[:80]!r}: their type has no "
            "equality.",
            hint="Take another column.",
            details={"column": column.name},
        )
    if not column.meaning.keeps_equality:
        raise BadParameterError(
            f"Rows cannot be told apart by {column.name[:80]!r}, which holds {holds(column)}.",
            hint="The same value may be stored in several ways. Take another column.",
            details={"column": column.name},
        )
    if not needs_exact(column, dialect):
        return element
    return type_coerce(dialect.exact(element), column.type)


def _bucket(group: Group, column: ResultColumn, conditions: Conditions) -> Element:
    assert group.bucket is not None
    if _encoding(column) not in {"date", "datetime"}:
        raise BadParameterError(
            f"The column {column.name[:80]!r} holds no dates, which a {group.bucket} could be taken of.",
            hint="Leave bucket out.",
            details={"column": column.name},
        )
    if not column.meaning.is_same:
        raise BadParameterError(
            f"No {group.bucket} can be taken of {column.name[:80]!r}, which holds {holds(column)}.",
            hint="Group by another column.",
            details={"column": column.name},
        )
    if BUCKETS[group.bucket].needs_time and not is_instant(column.expression):
        raise BadParameterError(
            f"The column {column.name[:80]!r} holds dates without {group.bucket}s.",
            hint='Take "day".',
            details={"column": column.name},
        )
    beginning = conditions.dialect.bucket_start(column.expression, group.bucket)
    if beginning is None:
        engine = conditions.capabilities.name
        raise BadParameterError(
            f"{engine} has no function for the {group.bucket} of a value of {column.name[:80]!r}.",
            hint="Filter by the column, or group by another one.",
            details={"column": column.name, "engine": engine},
        )
    return beginning


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """The parts of an aggregate's SQL.

    Attributes:
        values: the column, converted as the aggregate needs it.
        type: of the aggregate: its `result`, or the column's type.
        fraction: of a percentile; 0.5 for a median.
        ranks: the values with their ranks, if the database has no percentiles of its own.
    """

    values: Element
    column: ResultColumn
    type: SQLType
    fraction: float | None
    dialect: QueryDialect
    ranks: RankedValues | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """One aggregate of the groups of a result.

    Attributes:
        words: what a title says before the name of the column.
        of: encodings that the column may have; None for any, and if no column is needed.
        result: its type; None if it depends on the type of the column.
        values: converts the column for the aggregate.
        write: its SQL, for databases without an entry in `QueryDialect.aggregates`; None for the SQL function of the
            same name.
        use: what kept cells are used for by it.
        is_sound: whether aggregating stored values gives the same as aggregating shown values.
        is_ranked: whether it needs the order of the values.
        takes_fraction: whether a fraction from 0 to 1 has to be given. Charts have no such aggregates.
        fraction: the fraction, if it is fixed.
        combine: makes the aggregate of several groups of those of each; None if there is no such function, as for
            averages.
        signs: other accepted spellings of the name, in lower case with _ for spaces.
    """

    name: str
    words: str
    of: frozenset[str] | None
    result: SQLType | None = None
    values: Callable[[ResultColumn, Conditions], Element]
    write: Callable[[AggregateCall], Element] | None = None
    use: Use
    is_sound: Callable[[ResultColumn], bool]
    is_ranked: bool = False
    takes_fraction: bool = False
    fraction: float | None = None
    combine: Callable[..., Element] | None = None
    signs: tuple[str, ...] = ()


def ranked_values(measures: Iterable[AggregateColumn], conditions: Conditions) -> dict[str, Element]:
    """By name, the values of the columns that have to be ranked before they are aggregated, as doubles."""
    dialect = conditions.dialect
    values: dict[str, Element] = {}
    for measure in measures:
        aggregate = AGGREGATES[measure.function]
        if measure.column is None or not aggregate.is_ranked or not dialect.ranks_rows:
            continue
        column = conditions.column(measure.column)
        _require_kind(aggregate, column)
        # SQLite's columns hold values of any type: a text counts as its number, as in avg().
        values[measure.column] = aggregate.values(column, conditions) * literal(1.0, types.Double())
    return values


def write_aggregate(
    measure: AggregateColumn, conditions: Conditions, ranks: Mapping[str, RankedValues]
) -> Element:
    """The aggregate of a group.

    Args:
        ranks: the columns of `ranked_values` with their ranks.

    Raises:
        UnknownColumnError, BadParameterError: there is no such column, its type does not support the aggregate, or the
            database has no such aggregate.
    """
    aggregate = AGGREGATES[measure.function]
    if measure.column is None:
        return func.count(type_=aggregate.result)
    column = conditions.column(measure.column)
    _require_kind(aggregate, column)
    call = AggregateCall(
        values=aggregate.values(column, conditions),
        column=column,
        type=_type_of_values(column) if aggregate.result is None else aggregate.result,
        fraction=aggregate.fraction if measure.fraction is None else measure.fraction,
        dialect=conditions.dialect,
        ranks=ranks.get(measure.column) if aggregate.is_ranked else None,
    )
    if aggregate.name not in call.dialect.aggregates:
        expression: Element = (
            aggregate.write(call)
            if aggregate.write
            else getattr(func, aggregate.name)(call.values, type_=call.type)
        )
        return expression
    own = call.dialect.aggregates[aggregate.name]
    if own is None:
        engine = conditions.capabilities.name
        raise BadParameterError(
            f"{engine} has no {aggregate.name} of groups.",
            hint="Ask for min, avg and max.",
            details={"function": aggregate.name, "engine": engine},
        )
    return own(call.values, call.fraction)


def _type_of_values(column: ResultColumn) -> SQLType:
    # A document can hold an application's own type for its column only, and a text that it shows is as it is stored.
    type_: SQLType = column.expression.type
    return types.String() if isinstance(type_, types.TypeDecorator) and is_plain_text(column) else type_


def _require_kind(aggregate: AggregateFunction, column: ResultColumn) -> None:
    encoding = _encoding(column)
    if aggregate.of is None or (encoding in aggregate.of and aggregate.is_sound(column)):
        return
    raise BadParameterError(
        f"{aggregate.name} cannot be taken of the column {column.name[:80]!r}, which holds {holds(column)}.",
        hint=f"It is taken of: {', '.join(sorted(aggregate.of))}."
        if encoding not in aggregate.of
        else "Take another column.",
        details={"column": column.name, "encoding": encoding, "function": aggregate.name},
    )


def _encoding(column: ResultColumn) -> str:
    description = column.describe()
    # The average of a computed column has no declared type.
    is_number = description["encoding"] == "any" and description["type"] == "number"
    return "float" if is_number else description["encoding"]


def _as_stored(column: ResultColumn, _conditions: Conditions) -> Element:
    return column.expression


def _in_one_spelling(column: ResultColumn, conditions: Conditions) -> Element:
    element = column.expression
    is_spelled = conditions.capabilities.spells_instants and is_instant(element)
    return normalized_instant(element) if is_spelled else element


def _distinguished(column: ResultColumn, conditions: Conditions) -> Element:
    if is_plain_text(column):
        return conditions.dialect.exact(column.expression)
    is_spelled = is_instant(column.expression)
    element = (
        _in_one_spelling(column, conditions) if is_spelled else _shown_value(column, conditions.capabilities)
    )
    return _distinct_value(column, element, conditions)


def _in_order(column: ResultColumn, conditions: Conditions) -> Element:
    element = _in_one_spelling(column, conditions)
    return conditions.dialect.ordered(element) if is_plain_text(column) else element


def _doubles(column: ResultColumn, conditions: Conditions) -> Element:
    return conditions.dialect.double(column.expression)


def _summed(call: AggregateCall) -> Element:
    encoding, plain = _encoding(call.column), call.column.shown
    if encoding == "integer":
        of_32, of_64 = call.dialect.sum_of_integers
        return (of_64 if isinstance(plain, types.BigInteger) else of_32)(call.values)
    if encoding == "decimal":
        # A sum keeps the scale of its numbers, and may have more digits before the point.
        exact = types.Numeric(None, getattr(plain, "scale", None))
        return type_coerce(call.dialect.sum_of_decimals(func.sum(call.values, type_=exact)), exact)
    # PostgreSQL sums reals as a real, of 6 digits.
    return call.dialect.sum_of_doubles(call.dialect.double(call.values))


def _percentile(call: AggregateCall) -> Element:
    if call.ranks is not None:
        assert call.fraction is not None  # a percentile without one is refused when it is read
        return call.ranks.at(call.fraction)
    fraction = call.dialect.double(parameter(call.fraction, types.Double()))
    percentile = func.percentile_cont(fraction).within_group(call.values)
    # Without an explicit type, SQLAlchemy would give it the type of the fraction.
    percentile.type = call.type
    return percentile


def _extreme(name: str, words: str, combine: Callable[..., Element], *signs: str) -> AggregateFunction:
    """The lowest or the highest value of a group, in the order by which rows are sorted."""
    return AggregateFunction(
        name=name,
        words=words,
        signs=signs,
        of=_ORDERED,
        values=_in_order,
        use="compared",
        is_sound=_keeps_order,
        combine=combine,
    )


def _percentile_function(name: str, *signs: str, **fraction: Any) -> AggregateFunction:
    """The value at a fraction of the sorted numbers of a group, such as the median."""
    return AggregateFunction(
        name=name,
        words=name,
        signs=signs,
        of=_NUMBERS,
        result=types.Double(),
        values=_doubles,
        write=_percentile,
        use="computed",
        is_ranked=True,
        is_sound=_is_same,
        **fraction,
    )


def _always(_column: ResultColumn) -> bool:
    return True


def _is_same(column: ResultColumn) -> bool:
    return column.meaning.is_same


def _keeps_order(column: ResultColumn) -> bool:
    is_odd_text = column.encoding == "text" and not is_plain_text(column)
    return column.meaning.keeps_order and (column.meaning.reads is not None or not is_odd_text)


_DOUBLE: SQLType = types.Double()
_WHOLE: SQLType = types.BigInteger()

AGGREGATES: dict[str, AggregateFunction] = {
    aggregate_function.name: aggregate_function
    for aggregate_function in (
        AggregateFunction(
            name="count",
            words="number of",
            signs=("count_rows", "row_count", "size", "n"),
            of=None,
            result=_WHOLE,
            values=_as_stored,
            use="nulls",
            is_sound=_always,
            combine=func.sum,
        ),
        AggregateFunction(
            name="count_distinct",
            words="number of distinct",
            signs=("distinct_count", "countdistinct", "nunique", "n_unique", "unique_count"),
            of=_DISTINCT,
            result=_WHOLE,
            values=_distinguished,
            use="compared",
            write=lambda call: func.count(call.values.distinct(), type_=call.type),
            is_sound=_always,  # `_distinct_value` refuses columns for which it is not
        ),
        AggregateFunction(
            name="sum",
            words="total",
            signs=("total",),
            of=_NUMBERS,
            values=_as_stored,
            write=_summed,
            use="computed",
            is_sound=_is_same,
            combine=func.sum,
        ),
        AggregateFunction(
            name="avg",
            words="average",
            signs=("average", "mean"),
            of=_NUMBERS,
            result=_DOUBLE,
            values=_doubles,  # MariaDB rounds the average of whole numbers to four decimals
            use="computed",
            is_sound=_is_same,
        ),
        _extreme("min", "lowest", func.min, "minimum", "least", "lowest"),
        _extreme("max", "highest", func.max, "maximum", "greatest", "highest"),
        _percentile_function("median", fraction=0.5),
        _percentile_function("percentile", "quantile", "percentile_cont", takes_fraction=True),
    )
}
"""By name. To add an aggregate, add a row here, and an entry in `QueryDialect.aggregates` of each database that spells
it differently or lacks it."""
