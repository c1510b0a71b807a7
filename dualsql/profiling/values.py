"""How the values of one column are spread; the rule: they are counted once, and all that is said comes from that.

WITH counted AS (SELECT value, count(*) AS times FROM rows GROUP BY value)
the most frequent of them, and how many there are     UNION ALL     their bins
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

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

from dualsql.columns import SQLType
from dualsql.profiling.bins import edges
from dualsql.profiling.data import Data
from dualsql.profiling.subjects import Subject
from dualsql.profiling.summary import shown
from dualsql.statement import AnySelect

FREQUENT = 5
_LARGEST_BIGINT = 2**63 - 1


def values(data: Data, subject: Subject, summary: Mapping[str, Any]) -> AnySelect | None:
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
    subject: Subject, summary: Mapping[str, Any], rows: Sequence[Sequence[Any]]
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


def bins_of(data: Data, subject: Subject, summary: Mapping[str, Any]) -> AnySelect | None:
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


def _counted(data: Data, subject: Subject) -> CTE:
    value = subject.value
    # What a database takes as equal, 'a' and 'A', is two texts to whoever reads them.
    is_text = subject.is_text or isinstance(subject.column.meaning.stored, types.String)
    key = data.capabilities.distinguishing(value)[0] if is_text else value
    shows_itself = type(key.type) is type(value.type) or not is_text
    outputs = ((key if shows_itself else func.min(value)).label("value"), func.count().label("times"))
    return data.asked(*outputs).where(value.is_not(None)).group_by(key).cte("counted_values")


def _most_frequent(counted: CTE, subject: Subject) -> AnySelect:
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
