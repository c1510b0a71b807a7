"""A chart of a stored result, as Vega-Lite or as a picture."""

from dualsql.charts.axes import VegaLite
from dualsql.charts.chart import Chart, chart_of, chart_query, columns_of, read_chart
from dualsql.charts.render import MEDIA_TYPE, draw, picture
from dualsql.charts.rows import MOST_MARKS

__all__ = [
    "MEDIA_TYPE",
    "MOST_MARKS",
    "Chart",
    "VegaLite",
    "chart_of",
    "chart_query",
    "columns_of",
    "draw",
    "picture",
    "read_chart",
]
