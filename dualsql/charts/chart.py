"""The specification of a chart, and the query over the result that returns one row for each mark.

The query of a histogram selects one column. When the histogram is drawn, the values are counted in bins from the lowest
to the highest value that the reader may see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast, get_args

from dualsql.errors import BadParameterError, DualResponseError, refuse_unknown
from dualsql.query import StructuredQuery
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.comparisons import BUCKETS
from dualsql.query.model import AggregateColumn, Group, QuerySort, names_of
from dualsql_client.wire import Bucket

Mark = Literal["bar", "line", "point", "histogram"]
Sort = Literal["x", "-x", "y", "-y"]

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
        bucket: the unit to which dates of x are truncated.
        aggregate: of y, or "count" of rows; None for points of x and y themselves.
    """

    mark: Mark
    x: str
    y: str | None = None
    aggregate: str | None = None
    bucket: Bucket | None = None
    color: str | None = None
    sort: Sort | None = None
    title: str | None = None

    @property
    def measured(self) -> str:
        """What y shows, in words."""
        if self.aggregate is None:
            return str(self.y)
        return "count" if self.y is None else f"{self.aggregate} of {self.y}"

    @property
    def words(self) -> str:
        """What the chart shows, in words."""
        by = f" by {self.bucket}" if self.bucket else ""
        if self.mark == "histogram":
            return f"Histogram of {self.x}"
        parts = f", one for each {self.color}" if self.color else ""
        return f"{self.mark.capitalize()} chart of {self.measured} over {self.x}{by}{parts}"


def read_chart(values: Any) -> Chart:
    """Read a chart from a JSON object; see docs/charts.md.

    Raises:
        BadParameterError: the object does not describe a chart, or dualsql cannot draw it.
    """
    if not isinstance(values, Mapping):
        _refuse("chart must be a JSON object.")
    refuse_unknown(values, ("mark", "x", "y", "color", "sort", "title"), "key")
    mark = cast("Mark", _word(values, "mark", get_args(Mark)))
    x, bucket = _x(values.get("x"))
    y, aggregate = _y(values.get("y"), mark)
    sort = None if values.get("sort") is None else cast("Sort", _word(values, "sort", get_args(Sort)))
    color = None if values.get("color") is None else _name(values["color"], "color")
    if mark == "histogram" and (bucket or color or sort):
        _refuse("A histogram takes only x and title.")
    return Chart(
        mark=mark, x=x, y=y, aggregate=aggregate, bucket=bucket, color=color, sort=sort, title=_title(values)
    )


def chart_of(metadata: Mapping[str, Any]) -> Chart | None:
    """The chart in a resource's metadata; None if there is none. Metadata are not signed, so they are checked again."""
    try:
        return read_chart(metadata[METADATA_KEY]) if METADATA_KEY in metadata else None
    except DualResponseError:
        return None


def _x(value: Any) -> tuple[str, Bucket | None]:
    if not isinstance(value, Mapping):
        return _name(value, "x"), None
    refuse_unknown(value, ("field", "bucket"), "key of x")
    bucket = None if value.get("bucket") is None else cast("Bucket", _word(value, "bucket", tuple(BUCKETS)))
    return _name(value.get("field"), "x"), bucket


def _y(value: Any, mark: Mark) -> tuple[str | None, str | None]:
    if mark == "histogram":
        if value is not None:
            _refuse("A histogram takes no y: it counts rows.")
        return None, "count"
    if value is None:
        _refuse("y is required for bar, line and point charts.")
    if not isinstance(value, Mapping):
        if mark != "point":
            _refuse("y of a bar or line chart must have an aggregate.")
        return _name(value, "y"), None
    refuse_unknown(value, ("field", "aggregate"), "key of y")
    # A chart's y has no key for the fraction of a percentile.
    names = [name for name, aggregate_function in AGGREGATES.items() if not aggregate_function.takes_fraction]
    aggregate = _word(value, "aggregate", names)
    if value.get("field") is None:
        if AGGREGATES[aggregate].of is not None:
            _refuse(f"y with the aggregate {aggregate} requires a field.")
        return None, aggregate
    return _name(value["field"], "y"), aggregate


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
    return names_of(question) if question.columns is None else question.columns


def _order(chart: Chart) -> tuple[QuerySort, ...]:
    if chart.sort is None:
        # Large points are drawn first, and cover no small ones.
        return (QuerySort(TIMES, is_descending=True),) if chart.aggregate is None else ()
    return (QuerySort(chart.sort.removeprefix("-"), is_descending=chart.sort.startswith("-")),)
