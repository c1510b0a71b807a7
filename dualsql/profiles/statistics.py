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
    String,
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
from dualsql.profiles.subjects import ProfiledColumn, ProfiledRows

BINS = 10


def edges(lowest: Any, highest: Any, bins: int = BINS) -> Sequence[Any] | None:
    """Where the bins begin and, last, where they end; None for values that cannot be divided."""
    if type(lowest) is not type(highest) or isinstance(lowest, bool):
        return None
    if isinstance(lowest, int):
        return _whole(lowest, highest, bins)
    if isinstance(lowest, float | Decimal):
        return _even(lowest, highest, bins) if math.isfinite(lowest) and math.isfinite(highest) else None
    if isinstance(lowest, datetime):
        # asyncpg gives the infinities of a column with zones as instants without one.
        is_alike = (lowest.tzinfo is None) is (highest.tzinfo is None)
        return _even(lowest, highest, bins) if is_alike else None
    if isinstance(lowest, date):
        return [date.fromordinal(day) for day in _whole(lowest.toordinal(), highest.toordinal(), bins)]
    return None


def _whole(lowest: int, highest: int, bins: int) -> list[int]:
    """Of whole numbers there may be fewer than bins."""
    count = highest - lowest + 1
    bins = min(bins, count)
    return [*(lowest + count * number // bins for number in range(bins)), highest]


def _even(lowest: Any, highest: Any, bins: int) -> list[Any]:
    if lowest == highest:
        return [lowest, highest]
    # One by one: a range may be larger than the largest float.
    found = {_between(lowest, highest, number, bins) for number in range(1, bins)}
    return [lowest, *sorted(edge for edge in found if lowest < edge < highest), highest]


def _between(lowest: Any, highest: Any, number: int, bins: int) -> Any:
    if isinstance(lowest, datetime):
        step = (highest - lowest) * number / bins
        return (
            lowest + timedelta(seconds=int(step.total_seconds()))
            if step > timedelta(minutes=1)
            else lowest + step
        )
    return lowest - lowest / bins * number + highest / bins * number


SHOWN = 101
"""Characters of a text that leave the database: one more than is shown."""


class ColumnSummary(NamedTuple):
    """How many rows there are, and figures by the name of the column."""

    rows: int
    figures: Mapping[str, dict[str, Any]]


def summary(data: ProfiledRows) -> AnySelect:
    """The statement: one row, read by `read_summary`."""
    outputs = [
        expression.label(f"f{number}_{figure}")
        for number, subject in enumerate(data.subjects)
        for figure, expression in _expressions(subject, data)
    ]
    return data.asked(func.count().label("rows"), *outputs)


def read_summary(data: ProfiledRows, row: Sequence[Any]) -> ColumnSummary:
    """The figures of the one row."""
    values = iter(row)
    rows = int(next(values))
    found: dict[str, dict[str, Any]] = {}
    for subject in data.subjects:
        # Values of a row come in the order in which they were asked for.
        read = {figure: next(values) for figure, _ in _expressions(subject, data)}
        if read:
            read["nulls"] = rows - int(read.pop("known"))
            if "about" in read:
                read |= {"distinct": int(read.pop("about")), "distinct_kind": "approximate"}
        found[subject.name] = read
    return ColumnSummary(rows, found)


def _expressions(subject: ProfiledColumn, data: ProfiledRows) -> Iterator[tuple[str, ColumnElement[Any]]]:
    if subject.is_masked:
        return
    value, capabilities = subject.value, data.capabilities
    yield "known", func.count(value)
    if subject.has_range:
        yield "minimum", shown(subject, func.min(value))
        yield "maximum", shown(subject, func.max(value))
    if subject.is_text:
        yield "longest", func.max(getattr(func, capabilities.text_length)(value))
    if subject.is_grouped and capabilities.approximate_distinct:
        yield "about", getattr(func, capabilities.approximate_distinct)(value)


def shown(subject: ProfiledColumn, value: ColumnElement[Any]) -> ColumnElement[Any]:
    """The value, or so much of a text as can be shown: a cell may hold megabytes."""
    return func.substr(value, 1, SHOWN, type_=String()) if subject.is_text else value


FREQUENT = 5
_LARGEST_BIGINT = 2**63 - 1


def values(data: ProfiledRows, subject: ProfiledColumn, summary: Mapping[str, Any]) -> AnySelect | None:
    """The statement, read by `read_values`; None for a column whose values cannot be counted.

    Args:
        summary: what `summary` told of the column; its range is divided.
    """
    if subject.is_masked or not subject.is_grouped:
        return None
    counted = _counted(data, subject)
    frequent = _most_frequent(counted, subject)
    found = _edges(summary) if subject.has_bins else None
    if found is None:
        return data.around(frequent)
    return data.around(union_all(select(*frequent.subquery("frequent").c), _binned(counted, found)))


def read_values(
    subject: ProfiledColumn, summary: Mapping[str, Any], rows: Sequence[Sequence[Any]]
) -> dict[str, Any]:
    """The figures that the rows of `values` tell."""
    top = sorted((row for row in rows if row[0] == 0), key=lambda row: -int(row[2]))
    distinct = int(top[0][3]) if top else 0
    # Where each is as frequent as any other, five of them would say nothing.
    telling = [row for row in top if int(row[2]) > 1 or distinct <= FREQUENT]
    found: dict[str, Any] = {
        "distinct": distinct,
        "distinct_kind": "exact",
        "most_frequent": [{"value": row[1], "count": int(row[2])} for row in telling],
    }
    if subject.has_bins:
        found["histogram"] = histogram(summary, rows)
    return found


def histogram(summary: Mapping[str, Any], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The bins of a column's range, empty ones too, of rows of `values` or `bins_of`."""
    found = _edges(summary)
    counts = {int(row[0]): int(row[2]) for row in rows if row[0] != 0}
    return [
        {"low": low, "high": high, "count": counts.get(number, 0)}
        for number, (low, high) in enumerate([] if found is None else pairwise(found), start=1)
    ]


def bins_of(data: ProfiledRows, subject: ProfiledColumn, summary: Mapping[str, Any]) -> AnySelect | None:
    """The bins of one column alone, read by `histogram`; None where there is nothing to divide."""
    found = _edges(summary)
    return None if found is None else data.around(_binned(_counted(data, subject), found))


def _binned(counted: FromClause, found: Sequence[Any]) -> AnySelect:
    """How many rows fall between each two of the edges, of values with their `times`."""
    value, times = counted.c.value, counted.c.times
    inner = found[1:-1]
    number = (
        case(
            *((value < _given(edge, value.type), place) for place, edge in enumerate(inner, start=1)),
            else_=len(inner) + 1,
        )
        if inner
        else literal_column("1")
    )
    bins = select(number.label("bin"), times).select_from(counted).subquery("bins")
    total = func.sum(bins.c.times, type_=BigInteger()).label("times")
    # In the columns of the most frequent values, beside which they stand.
    return select(bins.c.bin, null().label("value"), total, literal_column("0").label("distinct")).group_by(
        bins.c.bin
    )


def _edges(summary: Mapping[str, Any]) -> Sequence[Any] | None:
    return edges(summary.get("minimum"), summary.get("maximum"))


def _counted(data: ProfiledRows, subject: ProfiledColumn) -> CTE:
    value = subject.value
    # What a database takes as equal, 'a' and 'A', is two texts to whoever reads them.
    is_text = subject.is_text or isinstance(subject.column.meaning.stored, types.String)
    key = data.capabilities.distinguishing(value)[0] if is_text else value
    shows_itself = type(key.type) is type(value.type) or not is_text
    outputs = ((key if shows_itself else func.min(value)).label("value"), func.count().label("times"))
    return data.asked(*outputs).where(value.is_not(None)).group_by(key).cte("counted_values")


def _most_frequent(counted: CTE, subject: ProfiledColumn) -> AnySelect:
    value, times = counted.c.value, counted.c.times
    distinct = select(func.count()).select_from(counted).scalar_subquery()
    top = select(
        literal_column("0").label("bin"),
        shown(subject, value).label("value"),
        times,
        distinct.label("distinct"),
    )
    return top.order_by(times.desc(), value).limit(FREQUENT)


def _given(edge: Any, type_: SQLType) -> ColumnElement[Any]:
    """An edge as a value of a type that it surely has: a sum of integers may be larger than any of them."""
    if isinstance(edge, date):
        return literal(edge, type_)
    if isinstance(edge, int) and abs(edge) <= _LARGEST_BIGINT:
        return literal(edge, BigInteger())
    return literal(edge, Double() if isinstance(edge, float) else Numeric())
