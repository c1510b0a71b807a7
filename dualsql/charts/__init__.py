"""A picture of a stored result; the rule: our own closed words go in, data and a fixed frame come out, nothing is run.

specification  what a chart may be asked to be, and the reading of it
questions      a chart to a question about the result
vegalite       a chart and the rows that answer it as Vega-Lite
rendering      Vega-Lite to PNG or SVG, by vl-convert

READ IN THIS ORDER.
"""

from dualsql.charts.questions import columns_of, question_of
from dualsql.charts.rendering import Picture, picture
from dualsql.charts.specification import Chart, chart_of, read_chart
from dualsql.charts.vegalite import MEDIA_TYPE, MOST_MARKS, VegaLite, drawn

__all__ = [
    "MEDIA_TYPE",
    "MOST_MARKS",
    "Chart",
    "Picture",
    "VegaLite",
    "chart_of",
    "columns_of",
    "drawn",
    "picture",
    "question_of",
    "read_chart",
]
