"""A chart as a question about its result; the rule: the answer has as many rows as the picture has marks.

A histogram alone asks for the values of one column: they are counted in bins when it is drawn, from the lowest to the
highest that its reader may see.
"""

from __future__ import annotations

from collections.abc import Sequence

from dualsql.asking import Question
from dualsql.asking.question import Group, Measure, OrderKey, names_of
from dualsql.charts.specification import Chart

X, Y, COLOR, TIMES = "x", "y", "color", "times"
"""The columns of the answer, whatever those of the result are called; a histogram's keeps its name."""


def question_of(chart: Chart) -> Question:
    """The question whose answer is drawn."""
    if chart.mark == "histogram":
        return Question(columns=(chart.x,))
    groups = [Group(X, chart.x, chart.bucket)]
    measures = [Measure(TIMES, "count")]
    if chart.aggregate is None:
        groups.append(Group(Y, str(chart.y)))
    else:
        measures = [Measure(Y, chart.aggregate, chart.y)]
    if chart.color is not None:
        groups.append(Group(COLOR, chart.color))
    return Question(groups=tuple(groups), measures=tuple(measures), order=_order(chart))


def columns_of(chart: Chart) -> Sequence[str]:
    """The columns of the answer, in order."""
    question = question_of(chart)
    return names_of(question) if question.columns is None else question.columns


def _order(chart: Chart) -> tuple[OrderKey, ...]:
    if chart.sort is None:
        # Of points, those that stand for the most rows: where there are too many, these are drawn.
        return (OrderKey(TIMES, is_descending=True),) if chart.aggregate is None else ()
    return (OrderKey(chart.sort.removeprefix("-"), is_descending=chart.sort.startswith("-")),)
