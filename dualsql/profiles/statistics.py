"""The statements of a profile, and the reading of their rows: summary, frequent values, histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Double,
    FromClause,
    Numeric,
    case,
    func,
    literal,
    literal_column,
    null,
    select,
    types,
    union_all,
)

from dualsql.columns.own_types import SQLType
from dualsql.freeze.document import AnySelect
from dualsql.profiles.columns import ProfiledColumn, ProfiledRows

BINS = 10


def edges(lowest: Any, highest: Any, bins: int = BINS) -> Sequence[Any] | None:
    """The lower edge of each bin and the upper edge of the last; None for values that cannot be divided.

    A bin holds the values from its lower edge to below its upper edge; the last one holds the highest value, too.
    """
    if type(lowest) is not type(highest) or isinstance(lowest, bool):
        return None
    if isinstance(lowest, int):
        return _whole(lowest, highest, bins)
    if isinstance(lowest, float | Decimal):
        return _even(lowest, highest, bins) if math.isfinite(lowest) and math.isfinite(highest) else None
    if isinstance(lowest, datetime):
        # asyncpg returns the infinities of a column with time zones as instants without one.
        is_alike = (lowest.tzinfo is None) is (highest.tzinfo is None)
        return _even(lowest, highest, bins) if is_alike else None
    if isinstance(lowest, date):
        return [date.fromordinal(day) for day in _whole(lowest.toordinal(), highest.toordinal(), bins)]
    return None


def _whole(lowest: int, highest: int, bins: int) -> list[int]:
    """Edges of whole numbers, which may be fewer than bins."""
    count = highest - lowest + 1
    bins = min(bins, count)
    return [*(lowest + count * number // bins for number in range(bins)), highest]


def _even(lowest: Any, highest: Any, bins: int) -> list[Any]:
    if lowest == highest:
        return [lowest, highest]
    # Each edge is computed separately, because the range may exceed the largest float.
    bounds = {_between(lowest, highest, number, bins) for number in range(1, bins)}
    return [lowest, *sorted(edge for edge in bounds if lowest < edge < highest), highest]


def _between(lowest: Any, highest: Any, number: int, bins: int) -> Any:
    if isinstance(lowest, datetime):
        step = (highest - lowest) * number / bins
        return (
            lowest + timedelta(seconds=int(step.total_seconds()))
            if step > timedelta(minutes=1)
            else lowest + step
        )
    return lowest - lowest / bins * number + highest / bins * number


MOST_CHARACTERS = 101
"""Characters of a text that are read from the database: one more than are shown."""


class ColumnSummary(NamedTuple):
    """The number of rows, and statistics by the name of the column."""

    rows: int
    statistics: dict[str, dict[str, Any]]


def summary_statement(data: ProfiledRows) -> AnySelect:
    """The statement for all columns. It returns one row for `read_summary`."""
    outputs = [
        expression.label(f"f{number}_{name}")
        for number, profiled in enumerate(data.profiled)
        for name, expression in _expressions(profiled, data)
    ]
    return data.statement_of(func.count().label("rows"), *outputs)


def read_summary(data: ProfiledRows, row: Sequence[Any]) -> ColumnSummary:
    """The statistics in the one row of `summary_statement`."""
    values = iter(row)
    rows = int(next(values))
    statistics: dict[str, dict[str, Any]] = {}
    for profiled in data.profiled:
        # The values have the order of the statement's columns.
        summary = {name: next(values) for name, _ in _expressions(profiled, data)}
        if summary:
            summary["nulls"] = rows - int(summary.pop("known"))
            if "about" in summary:
                summary |= {"distinct": int(summary.pop("about")), "distinct_kind": "approximate"}
        statistics[profiled.name] = summary
    return ColumnSummary(rows, statistics)


def _expressions(profiled: ProfiledColumn, data: ProfiledRows) -> Iterator[tuple[str, ColumnElement[Any]]]:
    if profiled.is_masked:
        return
    value, capabilities = profiled.value, data.capabilities
    yield "known", func.count(value)
    if profiled.has_range:
        yield "minimum", value_or_beginning(data, profiled, func.min(value))
        yield "maximum", value_or_beginning(data, profiled, func.max(value))
    if profiled.is_text:
        yield "longest", func.max(capabilities.query.text_length(value))
    if profiled.is_grouped and capabilities.query.approximate_distinct:
        yield "about", getattr(func, capabilities.query.approximate_distinct)(value)


def value_or_beginning(
    data: ProfiledRows, profiled: ProfiledColumn, value: ColumnElement[Any]
) -> ColumnElement[Any]:
    """The value, or the beginning of a text: a cell may hold megabytes."""
    return data.capabilities.query.beginning(value, MOST_CHARACTERS) if profiled.is_text else value


FREQUENT = 5
_LARGEST_BIGINT = 2**63 - 1


def values(data: ProfiledRows, profiled: ProfiledColumn, summary: Mapping[str, Any]) -> AnySelect | None:
    """The statement for one column, whose rows `read_values` reads; None if its values cannot be grouped.

    WITH counted AS (SELECT value, count(*) AS times FROM rows GROUP BY value), it selects the most frequent values with
    the number of distinct ones, UNION ALL the bins.

    Args:
        summary: the statistics of the column from `read_summary`; its range is divided into bins.
    """
    if profiled.is_masked or not profiled.is_grouped:
        return None
    counts = _count_values(data, profiled)
    frequent = _most_frequent(data, counts, profiled)
    bounds = _edges(summary) if profiled.has_bins else None
    if bounds is None:
        return data.around(frequent)
    return data.around(union_all(select(*frequent.subquery("frequent").c), _count_bins(counts, bounds)))


def read_values(
    profiled: ProfiledColumn, summary: Mapping[str, Any], rows: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """The statistics in the rows of `values`."""
    top = sorted((row for row in rows if row[0] == 0), key=lambda row: -int(row[2]))
    distinct = int(top[0][3]) if top else 0
    # If all values are equally frequent, the five most frequent ones are arbitrary.
    telling = [row for row in top if int(row[2]) > 1 or distinct <= FREQUENT]
    # MariaDB makes a DECIMAL of an unsigned number beside the NULL of the other half of the UNION.
    is_whole = profiled.column.encoding == "integer"
    statistics: dict[str, Any] = {
        "distinct": distinct,
        "distinct_kind": "exact",
        "most_frequent": [
            {"value": int(value) if is_whole and isinstance(value, Decimal) else value, "count": int(times)}
            for _, value, times, _ in telling
        ],
    }
    if profiled.has_bins:
        statistics["histogram"] = histogram(summary, rows)
    return statistics


def histogram(summary: Mapping[str, Any], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The bins of a column's range, including empty ones, from rows of `values`."""
    bounds = _edges(summary)
    counts = {int(row[0]): int(row[2]) for row in rows if row[0] != 0}
    return [] if bounds is None else binned_range(bounds, counts)


def binned_range(bounds: Sequence[Any], counts: Mapping[int, int]) -> list[dict[str, Any]]:
    """The bins between edges from `edges`, and how many values each has by its number from 1."""
    return [
        {"low": low, "high": high, "count": counts.get(number, 0)}
        for number, (low, high) in enumerate(pairwise(bounds), start=1)
    ]


def counted_values(
    data: ProfiledRows, profiled: ProfiledColumn, *, is_positive: bool = False, is_finite: bool = False
) -> CTE:
    """The values of one column (`value`), and how many rows have each (`times`).

    Args:
        is_positive: only numbers above 0.
        is_finite: only numbers that a double holds: neither NaN nor an infinity.
    """
    counts = _count_values(data, profiled)
    value = counts.c.value
    conditions = [value > literal_column("0")] if is_positive else []
    if is_finite:
        # Databases that have NaN sort it behind all other numbers.
        kind: Any = Numeric() if isinstance(value.type, Numeric) and value.type.asdecimal else Double()
        most = Decimal(10) ** 308 if isinstance(kind, Numeric) and kind.asdecimal else 1e308
        conditions += [value >= literal(-most, kind), value <= literal(most, kind)]
    return select(value, counts.c.times).where(*conditions).cte("chosen_values") if conditions else counts


def spread_statement(data: ProfiledRows, counts: CTE, percents: Sequence[int]) -> AnySelect:
    """The statement of the number of values, the lowest, the highest, and those below which so many of 100 are."""
    value, times = counts.c.value, counts.c.times
    upto = func.sum(times, type_=BigInteger()).over(order_by=value).label("upto")
    total = func.sum(times, type_=BigInteger()).over().label("total")
    running = select(value, upto, total).select_from(counts).subquery("running")
    ends = (
        func.min(
            case(
                (
                    running.c.upto * literal_column("100") >= running.c.total * literal_column(str(percent)),
                    running.c.value,
                )
            )
        )
        for percent in percents
    )
    outputs = [func.max(running.c.total), func.min(running.c.value), func.max(running.c.value), *ends]
    return data.around(select(*(output.label(f"s{number}") for number, output in enumerate(outputs))))


def count_bins(data: ProfiledRows, counts: CTE, bounds: Sequence[Any]) -> AnySelect:
    """The statement of the number of rows between each two edges, for `read_bins`. The first and the last bin have no
    end."""
    return data.around(_count_bins(counts, bounds))


def read_bins(rows: Sequence[Sequence[Any]], bins: int) -> list[int]:
    """The number of rows in each bin."""
    counts = {int(row[0]): int(row[2]) for row in rows}
    return [counts.get(number, 0) for number in range(1, bins + 1)]


def _count_bins(counts: FromClause, bounds: Sequence[Any]) -> AnySelect:
    """The number of rows in each bin, from values and how often they occur (`times`)."""
    value, times = counts.c.value, counts.c.times
    inner = bounds[1:-1]
    number = (
        case(
            *((value < _edge_literal(edge, value.type), index) for index, edge in enumerate(inner, start=1)),
            else_=len(inner) + 1,
        )
        if inner
        else literal_column("1")
    )
    bins = select(number.label("bin"), times).select_from(counts).subquery("bins")
    total = func.sum(bins.c.times, type_=BigInteger()).label("times")
    # The columns of the other half of the UNION, the most frequent values.
    return select(bins.c.bin, null().label("value"), total, literal_column("0").label("distinct")).group_by(
        bins.c.bin
    )


def _edges(summary: Mapping[str, Any]) -> Sequence[Any] | None:
    return edges(summary.get("minimum"), summary.get("maximum"))


def _count_values(data: ProfiledRows, profiled: ProfiledColumn) -> CTE:
    value = profiled.value
    # A collation may treat 'a' and 'A' as equal. Here they are counted as two texts.
    is_text = profiled.is_text or isinstance(profiled.column.meaning.stored, types.String)
    key = data.capabilities.distinguishing(value)[0] if is_text else value
    shows_itself = type(key.type) is type(value.type) or not is_text
    outputs = ((key if shows_itself else func.min(value)).label("value"), func.count().label("times"))
    return data.statement_of(*outputs).where(value.is_not(None)).group_by(key).cte("counted_values")


def _most_frequent(data: ProfiledRows, counts: CTE, profiled: ProfiledColumn) -> AnySelect:
    value, times = counts.c.value, counts.c.times
    distinct = select(func.count()).select_from(counts).scalar_subquery()
    top = select(
        literal_column("0").label("bin"),
        value_or_beginning(data, profiled, value).label("value"),
        times,
        distinct.label("distinct"),
    )
    return top.order_by(times.desc(), value).limit(FREQUENT)


def _edge_literal(edge: Any, type_: SQLType) -> ColumnElement[Any]:
    """An edge as a literal of a type that holds it: a sum of integers may not fit the column's type."""
    if isinstance(edge, date):
        return literal(edge, type_)
    if isinstance(edge, int) and abs(edge) <= _LARGEST_BIGINT:
        return literal(edge, BigInteger())
    return literal(edge, Double() if isinstance(edge, float) else Numeric())
