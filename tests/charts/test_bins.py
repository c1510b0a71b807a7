"""Bins hold each value once or the chart counts it, at steps that people count in; a long tail hides nothing."""

from __future__ import annotations

import datetime as dt
import math
import random
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import pytest
from sqlalchemy import Double, String, cast, literal, null, select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.charts import bins
from tests.charts.test_charts import ALL, application, drawn_of
from tests.charts.test_marks import left_out, shapes
from tests.http.application import Application
from tests.profiles.things import ROWS, things

__all__ = ["application"]

pytestmark = pytest.mark.quick(20, "sqlite")

RANDOM = random.Random(37)
NORMAL = [RANDOM.gauss(100, 15) for _ in range(2_000)]
TAILED = [RANDOM.lognormvariate(2, 2) for _ in range(5_000)]
DAY = dt.date(2026, 2, 27)
NOON = dt.datetime(2026, 2, 27, 12)  # noqa: DTZ001 - databases have such instants

DATA: dict[str, Sequence[Any]] = {
    "normal": NORMAL,
    "tailed": TAILED,
    "whole": [round(value) for value in NORMAL],
    "whole and tailed": [round(value) for value in TAILED],
    "decimals": [Decimal(f"{value:.2f}") for value in NORMAL],
    "constant": [7.25] * 100,
    "constant whole": [1955] * 3,
    "zero": [0.0],
    "constant decimal": [Decimal("-0.01")],
    "two": [1, 2],
    "many and one": [5] * 1_000 + [10**9],
    "huge": [-1.7e308, 1.7e308, 0.0],
    "tiny": [5e-324, 1e-300],
    "beside each other": [1.0, math.nextafter(1.0, 2)],
    "beyond doubles": [2**63, 2**64 + 1, 10**40],
    "years": list(range(1900, 2020)),
    "days": [DAY + dt.timedelta(days=round(value)) for value in NORMAL],
    "one day": [DAY],
    "ends of the calendar": [dt.date.min, DAY, dt.date.max],
    "instants": [NOON + dt.timedelta(seconds=value) for value in NORMAL],
    "one instant": [NOON],
    "zoned": [NOON.replace(tzinfo=dt.UTC) + dt.timedelta(hours=value) for value in NORMAL],
    "tailed instants": [NOON + dt.timedelta(minutes=min(value, 10**6)) for value in TAILED],
    "ends of time": [dt.datetime.min, NOON, dt.datetime.max],  # noqa: DTZ901
}


def spread_of(values: Sequence[Any]) -> bins.Spread:
    """As the database computes it."""
    ordered = sorted(values)
    at = [ordered[-(-percent * len(ordered) // 100) - 1] for percent in (1, 5, 25, 75, 95, 99)]
    return bins.Spread(len(ordered), ordered[0], ordered[-1], at)


def counts_of(edges: Sequence[Any], values: Sequence[Any]) -> list[int]:
    """Before the first edge, in each bin, and from the last edge on."""
    counts = [0] * (len(edges) + 1)
    for value in values:
        counts[bisect_right(edges, value)] += 1
    return counts


@pytest.mark.parametrize("name", DATA)
def test_the_edges(name: str) -> None:
    values = DATA[name]
    edges = bins.edges_of(spread_of(values))
    assert edges is not None
    assert list(edges) == sorted(set(edges))
    assert {type(edge) for edge in edges} == {type(values[0])}
    assert 2 <= len(edges) <= bins.MOST_BINS * 1.5 + 3
    before, *inside, behind = counts_of(edges, values)
    assert before + behind <= max(1, len(values) / 10)
    if len(set(values)) > 20:
        assert max(inside) < len(values) / 2, "a few bins hide how the others are distributed"


def test_the_width_is_that_of_freedman_and_diaconis() -> None:
    low, _, high = statistics.quantiles(NORMAL, n=4)
    width = 2 * (high - low) / len(NORMAL) ** (1 / 3)
    edges = bins.edges_of(spread_of(NORMAL))
    assert edges is not None
    steps = {round(upper - lower, 6) for lower, upper in pairwise(edges)}
    assert len(steps) == 1 and width / 1.5 <= steps.pop() < width * 2


@pytest.mark.parametrize("values", [TAILED, DATA["whole"], [1, 10**40], [5e-324, 1.7e308], [3], [0.5]])
def test_the_edges_of_powers(values: Sequence[Any]) -> None:
    chosen = [value for value in values if value > 0]
    edges = bins.edges_of(spread_of(chosen), is_log=True)
    assert edges is not None and 2 <= len(edges) <= 2 * bins.MOST_BINS + 2
    assert edges[0] <= min(chosen)
    assert edges[-1] > max(chosen) or float(edges[-1]) > 1.79e308
    assert all(edge > 0 for edge in edges)


@pytest.mark.quick(6, "sqlite")
@pytest.mark.parametrize(
    ("name", "scale"),
    [
        *product(("small", "big", "ratio", "price", "constant", "absent"), (None, "log")),
        *product(("born", "seen"), (None,)),  # dates have no logarithms
    ],
)
async def test_each_row_is_in_a_bin_or_counted(
    application: Application, name: str, scale: str | None
) -> None:
    chart = await drawn_of(application, {"mark": "histogram", "x": {"field": name, "scale": scale}}, ALL)
    values = chart["data"]["values"]
    assert sum(value["count"] for value in values) + left_out(chart) == len(ROWS)
    assert len(shapes(chart, "rect mark")) == len(values)
    assert all(value["low"] < value["high"] for value in values)
    known = [row[name] for row in ROWS if row[name] is not None]
    if scale is None and name in ("small", "big", "ratio"):
        edges = [value["low"] for value in values] + [values[-1]["high"]]
        assert [value["count"] for value in values] == counts_of(edges, known)[1:-1]


async def test_a_constant_has_a_bar(application: Application) -> None:
    chart = await drawn_of(application, {"mark": "histogram", "x": "constant"}, ALL)
    assert chart["data"]["values"] == [{"low": 6.5, "high": 7.5, "count": len(ROWS)}]
    (bar,) = shapes(chart, "rect mark")
    assert "h0" not in bar.get("d", "h0")


async def test_a_long_tail_is_counted(application: Application) -> None:
    """Of 600 rows, 3 are a thousand times as far away as the others."""
    far = select((things.c.id * 100_000).label("n")).where(things.c.id <= 3)
    near = select((things.c.id % 50).label("n"))
    rows = union_all(near, far).subquery("rows").select()
    chart = await drawn_of(application, {"mark": "histogram", "x": "n"}, rows)
    assert len(chart["data"]["values"]) >= 10
    assert chart["title"]["subtitle"] == "Not drawn: 3 rows from 50 up to 300000"
    logarithmic = await drawn_of(
        application, {"mark": "histogram", "x": {"field": "n", "scale": "log"}}, rows
    )
    assert logarithmic["encoding"]["x"]["scale"] == {"type": "log"}
    assert logarithmic["title"]["subtitle"] == "Not drawn: 12 rows whose n is no finite number above 0"
    assert sum(value["count"] for value in logarithmic["data"]["values"]) == 591


NOT_FINITE = {"sqlite": ["1e999", "-1e999"], "postgresql": ["NaN", "Infinity", "-Infinity"]}
"""MariaDB has no such numbers."""


@pytest.mark.parametrize("url", NOT_FINITE, indirect=True)
async def test_what_is_no_number_is_counted(application: Application, engine: AsyncEngine) -> None:
    strange = NOT_FINITE[engine.dialect.name]
    numbers: list[Any] = [
        cast(literal(word, String()), Double()) for word in [*strange, "1.5", "2.5", "2.75"]
    ]
    rows = union_all(*(select(number.label("n")) for number in [*numbers, cast(null(), Double())]))
    chart = await drawn_of(application, {"mark": "histogram", "x": "n"}, rows.subquery("rows").select())
    assert sum(value["count"] for value in chart["data"]["values"]) == 3
    assert chart["title"]["subtitle"] == [
        "Not drawn: 1 row whose n is NULL",
        f"Not drawn: {len(strange)} rows whose n is no finite number",
    ]
