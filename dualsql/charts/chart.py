"""The specification of a chart, and the query over the result that returns one row for each mark.

The query of a histogram selects one column. When the histogram is drawn, the values that the reader may see are counted
in bins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, NoReturn, cast, get_args

from dualsql.charts.axes import WIDTH
from dualsql.errors import BadParameterError, DualResponseError, refuse_unknown
from dualsql.query import StructuredQuery
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.model import BUCKETS, AggregateColumn, Group, QuerySort, answer_names, exact_name
from dualsql_client.wire_requests import Bucket

Mark = Literal["bar", "line", "point", "histogram", "heatmap"]
Scale = Literal["linear", "log"]
Sort = Literal["x", "-x", "y", "-y"]


class MarkKind(NamedTuple):
    """A mark as pages offer it: its name, and the parameters of `GET /{id}/chart` that they offer beside `x`."""

    words: str
    uses: Sequence[str]


MARKS: Mapping[Mark, MarkKind] = {
    "bar": MarkKind("Bars", ("bucket", "aggregate", "y", "color", "sort")),
    "line": MarkKind("Line", ("bucket", "aggregate", "y", "color")),
    "point": MarkKind("Points", ("y", "color")),
    "histogram": MarkKind("Histogram", ("scale",)),
    "heatmap": MarkKind("Heat map", ("bucket", "aggregate", "y", "y_bucket", "color")),
}

METADATA_KEY = "chart"
"""The key of a resource's metadata that holds the specification of a chart."""

_LONGEST_NAME = 256
_LONGEST_TITLE = 200
_EXAMPLE = '{"mark": "bar", "x": "state", "y": {"aggregate": "avg", "field": "debt"}, "sort": "-y"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart of a result.

    Attributes:
        x, y, color: names of the result's columns; y and color may be None.
        bucket, y_bucket: the units to which dates of x and, in a heat map, of y are truncated.
        aggregate: of y, in a heat map of color, or "count" of rows; None for points of x and y themselves.
        scale: of the bins of a histogram.
        width: of the plot, in pixels.
    """

    mark: Mark
    x: str
    y: str | None = None
    aggregate: str | None = None
    bucket: Bucket | None = None
    y_bucket: Bucket | None = None
    scale: Scale = "linear"
    color: str | None = None
    sort: Sort | None = None
    title: str | None = None
    width: int = WIDTH

    @property
    def measure_in_words(self) -> str:
        """The quantity that y, or the color of a heat map, shows, in words."""
        column = self.color if self.mark == "heatmap" else self.y
        if self.aggregate is None:
            return str(column)
        if column is None:
            return "number of rows"
        return f"{AGGREGATES[self.aggregate].words} {column}"

    @property
    def title_words(self) -> str:
        """The title of a chart to which its author gave none."""
        over = _per(self.x, self.bucket)
        if self.mark == "histogram":
            return f"Distribution of {self.x}"
        if self.mark == "heatmap":
            over += f" and {_per(str(self.y), self.y_bucket)}"
        elif self.color is not None:
            over += f" and {self.color}"
        # Not capitalize(), which makes small letters of the others.
        return f"{self.measure_in_words[:1].upper()}{self.measure_in_words[1:]} by {over}"

    @property
    def words(self) -> str:
        """The kind of chart, and what it shows, as alternative text of the picture."""
        name = (
            "heat map"
            if self.mark == "heatmap"
            else self.mark
            if self.mark == "histogram"
            else f"{self.mark} chart"
        )
        return f"{self.title_words} ({name})"


def _per(column: str, bucket: Bucket | None) -> str:
    return f"{bucket} of {column}" if bucket else column


def read_chart(values: Any) -> Chart:
    """Read a chart from a JSON object; see docs/charts.md.

    Raises:
        BadParameterError: the object does not describe a chart, or dualsql cannot draw it.
    """
    if not isinstance(values, Mapping):
        _refuse("chart must be a JSON object.")
    refuse_unknown(values, ("mark", "x", "y", "color", "sort", "title"), "key")
    mark = cast("Mark", _word(values, "mark", tuple(MARKS)))
    x, bucket, scale = _axis(
        values.get("x"), "x", ("bucket", "scale") if mark == "histogram" else ("bucket",)
    )
    sort = None if values.get("sort") is None else cast("Sort", _word(values, "sort", get_args(Sort)))
    chart = Chart(mark=mark, x=x, bucket=bucket, scale=scale, sort=sort, title=_title(values))
    y, color = values.get("y"), values.get("color")
    if mark == "histogram":
        if bucket or color is not None or sort or y is not None:
            _refuse("A histogram takes only x and title: it counts rows.")
        return replace(chart, aggregate="count")
    if mark == "heatmap":
        if sort is not None:
            _refuse("A heatmap takes no sort: both of its axes are in the order of their values.")
        y_column, y_bucket, _ = _axis(y, "y", ("bucket",))
        measured_column, aggregate = _measure(color, "color")
        return replace(chart, y=y_column, y_bucket=y_bucket, color=measured_column, aggregate=aggregate)
    chart = replace(chart, color=None if color is None else _name(color, "color"))
    if mark == "point" and isinstance(y, str):
        return replace(chart, y=_name(y, "y"))
    measured_column, aggregate = _measure(y, "y")
    return replace(chart, y=measured_column, aggregate=aggregate)


def chart_of(metadata: Mapping[str, Any]) -> Chart | None:
    """The chart in a resource's metadata; None if there is none. Metadata are not signed, so they are checked again."""
    try:
        return read_chart(metadata[METADATA_KEY]) if METADATA_KEY in metadata else None
    except DualResponseError:
        return None


def with_exact_names(chart: Chart, columns: Sequence[str]) -> Chart:
    """The chart with the names of the result's columns where it writes them in another case."""
    x, y, color = (name and exact_name(name, columns) for name in (chart.x, chart.y, chart.color))
    return replace(chart, x=str(x), y=y, color=color)


def _axis(value: Any, key: str, options: Sequence[str]) -> tuple[str, Bucket | None, Scale]:
    """The column of an axis, with its bucket and its scale."""
    if not isinstance(value, Mapping):
        return _name(value, key), None, "linear"
    refuse_unknown(value, ("field", *options), f"key of {key}")
    bucket = None if value.get("bucket") is None else cast("Bucket", _word(value, "bucket", tuple(BUCKETS)))
    scale = cast("Scale", _word(value, "scale", get_args(Scale))) if value.get("scale") else "linear"
    return _name(value.get("field"), key), bucket, scale


def _measure(value: Any, key: str) -> tuple[str | None, str]:
    """The column of an aggregate, and its name."""
    if not isinstance(value, Mapping):
        _refuse(f"{key} must be an aggregate in this chart.")
    refuse_unknown(value, ("field", "aggregate"), f"key of {key}")
    aggregate = _word(value, "aggregate", charted_aggregates())
    if value.get("field") is None:
        if AGGREGATES[aggregate].of is not None:
            _refuse(f"{key} with the aggregate {aggregate} requires a field.")
        return None, aggregate
    return _name(value["field"], key), aggregate


def charted_aggregates() -> list[str]:
    """The aggregates of charts, which have no key for the fraction of a percentile."""
    return [name for name, function in AGGREGATES.items() if not function.takes_fraction]


def _word(values: Mapping[Any, Any], key: str, words: Sequence[str]) -> str:
    word = values.get(key)
    if not isinstance(word, str) or word not in words:
        _refuse(f"{key} must be one of {', '.join(words)}.")
    return word


def _name(value: Any, key: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        _refuse(f"{key} must be the name of a column of the result.")
    return value


def _title(values: Mapping[Any, Any]) -> str | None:
    title = values.get("title")
    if title is not None and not (isinstance(title, str) and 0 < len(title) <= _LONGEST_TITLE):
        _refuse(f"title must be a string of 1 to {_LONGEST_TITLE} characters.")
    return title


def _refuse(message: str) -> NoReturn:
    raise BadParameterError(message, hint=f"For example {_EXAMPLE}.", details={"name": "chart"})


X, Y, COLOR, TIMES = "x", "y", "color", "times"
"""Names of the columns of the query. The column of a histogram keeps its own name."""


def chart_query(chart: Chart) -> StructuredQuery:
    """The query over the result whose rows are drawn; see the module's docstring for histograms."""
    if chart.mark == "histogram":
        return StructuredQuery(columns=(chart.x,))
    groups = [Group(X, chart.x, chart.bucket)]
    aggregates = [AggregateColumn(TIMES, "count")]
    if chart.mark == "heatmap":
        groups.append(Group(Y, str(chart.y), chart.y_bucket))
        aggregates = [AggregateColumn(COLOR, str(chart.aggregate), chart.color)]
        return StructuredQuery(groups=tuple(groups), aggregates=tuple(aggregates))
    if chart.aggregate is None:
        groups.append(Group(Y, str(chart.y)))
    else:
        aggregates = [AggregateColumn(Y, chart.aggregate, chart.y)]
    if chart.color is not None:
        groups.append(Group(COLOR, chart.color))
    return StructuredQuery(groups=tuple(groups), aggregates=tuple(aggregates), order=_order(chart))


def columns_of(chart: Chart) -> Sequence[str]:
    """The columns of `chart_query`, in order."""
    question = chart_query(chart)
    return answer_names(question) if question.columns is None else question.columns


def _order(chart: Chart) -> tuple[QuerySort, ...]:
    if chart.sort is None:
        # Large points are drawn first, and cover no small ones.
        return (QuerySort(TIMES, is_descending=True),) if chart.aggregate is None else ()
    return (QuerySort(chart.sort.removeprefix("-"), is_descending=chart.sort.startswith("-")),)
