"""The rows that a chart draws: all marks of its question, or a part that is said on the chart.

points         a random sample of the marks, whatever order is asked for
bars           the largest categories, and one bar for all others where their values add up
anything else  the first marks in the chart's order, of which the chart and the model's answer say that they are not all
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, FromClause, case, func, literal_column, select, types

from dualsql import plan
from dualsql.charts.chart import COLOR, TIMES, Chart, X, Y
from dualsql.columns.result import with_criteria_of
from dualsql.formats import cells, json
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import Key
from dualsql.plan.sampling import scattered
from dualsql.query.aggregates import AGGREGATES
from dualsql.response import DualResponse
from dualsql.results.view import View
from dualsql_client.wire import Column, Row

MOST_MARKS = 1_000
MOST_BARS = 40
"""Categories whose names can be read below a chart."""

MOST_COLORS = 9
"""Of a bar that is cut: with the others they are the ten colors of Vega's scheme."""

_MOST: Mapping[str, int] = {X: MOST_BARS, COLOR: MOST_COLORS}
_CALLED: Mapping[str, str] = {X: "categories", COLOR: "colors"}
# The same points whenever the chart is drawn (decision 19).
_SEED = 1


@dataclass(frozen=True, slots=True)
class Marks:
    """The rows that are drawn.

    Attributes:
        notes: what is left out, for the chart's subtitle.
    """

    rows: list[Row]
    notes: Sequence[str] = ()


async def marks_of(chart: Chart, view: View) -> Marks:
    """The marks of a bar, line or point chart, computed from all rows of the result."""
    # With one mark more, there are more than these.
    select = plan.page(view.ordered(), offset=0, limit=MOST_MARKS + 1)
    records = await view.answer(select)
    rows = _records(view, view.columns, records[:MOST_MARKS])
    is_cut = len(records) > MOST_MARKS
    if chart.mark == "bar" and _has_bars([column.describe() for column in view.columns]):
        is_crowded = len({json.dumps(row[X]) for row in rows}) > MOST_BARS
        return await _largest(chart, view) if is_cut or is_crowded else Marks(rows)
    if not is_cut:
        return Marks(rows)
    ((total,),) = await view.answer(view.derived.counting())
    if chart.mark == "point":
        return await _sample_points(view, total)
    return Marks(rows, (f"Not all: only the first {MOST_MARKS:,} of {total:,} marks",))


def limits_of(chart: Chart, response: DualResponse) -> str:
    """Which of the marks are drawn, for the model."""
    total = response.total_count or 0
    if chart.mark == "bar" and total > MOST_BARS and _has_bars(response.columns):
        largest = "smallest" if chart.sort == "y" else "largest"
        return f"beyond {MOST_BARS} categories, only the {largest} are drawn by name."
    if total <= MOST_MARKS or chart.mark == "histogram":
        return f"at most {MOST_MARKS:,} marks are drawn."
    of = f"{MOST_MARKS:,} of {total:,}" if response.total_count_kind == "exact" else f"{MOST_MARKS:,} of more"
    if chart.mark == "point":
        return f"a random sample is drawn, {of} points."
    return f"not all are drawn, only the first {of} marks: take a larger bucket to show them all."


def _records(view: View, columns: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Row]:
    plain: list[Row] = json.loads(json.dumps(cells.RecordMaker(columns, view.dialect).records(rows)))
    return plain


async def _sample_points(view: View, total: int) -> Marks:
    sample = scattered(view.ordered(), MOST_MARKS, _SEED)
    rows = _records(view, view.columns, await view.answer(sample))
    rows.sort(key=lambda row: -row.get(TIMES, 0))  # small points are drawn last, and are not covered
    return Marks(rows, (f"A random sample: {len(rows):,} of {total:,} points",))


def _has_bars(columns: Sequence[Column]) -> bool:
    """Whether each bar stands for a category, and has a height: dates lie on an axis of time."""
    kinds = {column["name"]: column["type"] for column in columns}
    return kinds[X] != "date" and kinds[Y] == "number"


async def _largest(chart: Chart, view: View) -> Marks:
    """The largest categories and colors, or the smallest if these are to come first."""
    names = [column.name for column in view.columns if column.name in _MOST]
    largest = await view.answer(_largest_bars(chart, view, names))
    width = len(names)
    records = _records(view, view.columns[:width], [row[:width] for row in largest])
    totals = [max((int(row[at - width]) for row in largest), default=0) for at in range(width)]
    rows: list[Row] = []
    for record, row in zip(records, largest, strict=True):
        # The last places follow the places in a row, and are not read here.
        positions = zip(names, row[width + 1 :], totals, strict=False)
        rest = {
            name: _others(total - _MOST[name], {other[name] for other in records})
            for name, position, total in positions
            if position > _MOST[name]
        }
        if not rest or _combine(chart) is not None:
            rows.append(record | rest | {Y: _number(row[width])})
    note = _note(chart, dict(zip(names, totals, strict=True)))
    return _without_giant(chart, rows, note, has_others=_MOST[X] < totals[names.index(X)])


_GIANT = 10
"""How many times as high as the highest bar that of all others may be: beside a higher one, no bar could be read."""

_ADDED = frozenset({"count", "sum"})


def _without_giant(chart: Chart, rows: list[Row], note: str, *, has_others: bool) -> Marks:
    """The marks; a bar of all others that is too high is said in the note alone."""
    if not has_others or chart.aggregate not in _ADDED:
        return Marks(rows, (note,))
    heights: defaultdict[Any, float] = defaultdict(float)
    for row in rows:
        heights[row[X]] += row[Y] or 0
    others = rows[-1][X]
    height = heights.pop(others)
    if abs(height) <= _GIANT * max(map(abs, heights.values()), default=0):
        return Marks(rows, (note,))
    rows = [row for row in rows if row[X] != others]
    return Marks(
        rows, (f"{note.removesuffix(_TOGETHER)}, without the others, which are {height:,.10g} together",)
    )


_TOGETHER = ", the others together"


def _note(chart: Chart, totals: Mapping[str, int]) -> str:
    largest = "smallest" if chart.sort == "y" else "largest"
    parts = [
        f"the {most} {largest if name == X else 'largest'} of {totals[name]:,} {_CALLED[name]}"
        for name, most in _MOST.items()
        if totals.get(name, 0) > most
    ]
    rest = _TOGETHER if _combine(chart) is not None else ", without the others"
    words = f"{' and '.join(parts)}{rest}"
    return words[0].upper() + words[1:]


def _combine(chart: Chart) -> Any:
    return AGGREGATES[chart.aggregate].combine if chart.aggregate else None


def _others(number: int, labels: Collection[Any]) -> str:
    label = f"{number:,} others"
    while label in labels:
        label = f"({label})"
    return label


def _number(value: Any) -> Any:
    # Beyond 2**53, a double may stand for another whole number.
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _largest_bars(chart: Chart, view: View, names: Sequence[str]) -> AnySelect:
    """The statement of the bars: x and color, their value, the place of each by size, and the last place of all.

    What is beyond the most that is shown has no name, and the place after them.
    """
    marks = _rank_marks(chart, view, names)
    labels, positions, lasts = [], [], []
    for name in names:
        position = marks.c[f"place_{name}"]
        most: ColumnElement[int] = literal_column(str(_MOST[name]), types.Integer)
        labels.append(case((position <= most, marks.c[name])).label(name))
        positions.append(case((position <= most, position), else_=most + 1).label(f"place_{name}"))
        lasts.append(position.label(f"last_{name}"))
    bars = select(*labels, *positions, *lasts, marks.c[Y]).subquery("bars")
    columns = [bars.c[column.name] for column in labels]
    ranks = [bars.c[column.name] for column in positions]
    combine = _combine(chart) or func.sum
    value = combine(bars.c[Y], type_=types.Double()).label(Y)
    ends = [func.max(bars.c[column.name]).label(column.name) for column in lasts]
    statement = select(*columns, value, *ranks, *ends).group_by(*columns, *ranks)
    return with_criteria_of(view.shape.select, statement.order_by(*_order(chart, view, bars), *ranks))


def _rank_marks(chart: Chart, view: View, names: Sequence[str]) -> FromClause:
    """The marks, with the place of their category and of their color by size, from 1."""
    marks, dialect = plan.all_rows(view.ordered()).subquery("marks"), view.source.capabilities.query
    # A collation may take 'a' and 'A' for equal; they are two bars.
    keys = [
        (
            dialect.exact(marks.c[name]) if isinstance(marks.c[name].type, types.String) else marks.c[name]
        ).label(name)
        for name in names
    ]
    sizes = select(*keys, dialect.double(marks.c[Y]).label(Y)).subquery("sizes")
    totals = [func.sum(sizes.c[Y]).over(partition_by=sizes.c[name]).label(f"total_{name}") for name in names]
    totalled = select(*sizes.c, *totals).subquery("totalled")
    ranks = [
        func.dense_rank()
        .over(
            order_by=[
                *_by(view, totalled.c[f"total_{name}"], is_descending=name != X or chart.sort != "y"),
                *_by(view, totalled.c[name]),
            ]
        )
        .label(f"place_{name}")
        for name in names
    ]
    return select(*totalled.c, *ranks).subquery("ranked")


def _order(chart: Chart, view: View, bars: FromClause) -> list[Any]:
    """By x where no order by size is asked for; the others are last."""
    if chart.sort in ("y", "-y"):
        return []
    is_other = case((bars.c[f"place_{X}"] > literal_column(str(MOST_BARS)), 1), else_=0)
    return [is_other, *_by(view, bars.c[X], is_descending=chart.sort == "-x")]


def _by(view: View, column: ColumnElement[Any], *, is_descending: bool = False) -> list[Any]:
    capabilities = view.source.capabilities
    key = Key(expression=capabilities.sortable(column), is_descending=is_descending, is_nulls_last=True)
    return key.clauses(capabilities)
