"""Refinements and charts of a kept result are of its rows, with the rights of their own statements."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from dualsql import DualResponse, Principal, ResourceNotFoundError
from tests.kept.test_results import ANN, BOB, ROWS, KeptServer, change, hooks_of, kept, kept_server, sales

__all__ = ["kept"]

REFINEMENTS: list[dict[str, Any]] = [
    {"filters": [{"column": "paid", "op": "gt", "value": "120.50"}], "order_by": ["-price"]},
    {"group_by": ["state"], "aggregates": ["count", {"function": "sum", "column": "price"}]},
    {"columns": ["id", "paid"], "limit": 30},
    {"sql": "SELECT state, max(price) AS most FROM data GROUP BY state ORDER BY state"},
]
CHART = {"mark": "bar", "x": "state", "y": {"aggregate": "sum", "field": "price"}}


async def refined(
    kept: KeptServer, parent: DualResponse, asked: Any, principal: Principal | None = None
) -> DualResponse:
    return await kept.dual.create_response(
        name="refined", parent=parent.resource_uri, refinement=asked, principal=principal
    )


async def drawn(kept: KeptServer, chart: DualResponse) -> Any:
    resource = await kept.dual.unchecked.get(chart.resource_id)
    assert resource is not None
    return (await kept.dual.charts.draw_unchecked(resource))["data"]["values"]


async def test_refinements_and_charts_are_of_the_rows_of_the_run(kept: KeptServer) -> None:
    live, response = await kept.make(keep=False), await kept.make()
    wanted = [await kept.lines(await refined(kept, live, asked)) for asked in REFINEMENTS]
    bars = await drawn(kept, await kept.dual.charts.create(live, CHART))
    change(kept.data)
    said = await kept.said(response)
    for asked, lines in zip(REFINEMENTS, wanted, strict=True):
        made_of_it = await refined(kept, response, asked)
        assert await kept.lines(made_of_it) == lines and made_of_it.total_count == len(lines)
        description = await kept.said(made_of_it)
        assert (
            description["kept"] is True
            and description["as_of"] == said["as_of"]
            and description["rows"] == len(lines)
        )
        assert await kept.lines(await refined(kept, live, asked)) != lines
    again = await refined(kept, await refined(kept, response, REFINEMENTS[0]), {"aggregates": ["count"]})
    assert [json.loads(line) for line in await kept.lines(again)] == [{"count": len(wanted[0])}]
    chart = await kept.dual.charts.create(response, CHART)
    assert await drawn(kept, chart) == bars and (await kept.said(chart))["kept"]
    # A refinement has a file of its own, and outlives its parent.
    await kept.dual.delete_resource(response.resource_id, None)
    assert [json.loads(line) for line in await kept.lines(again)] == [{"count": len(wanted[0])}]


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("rule", "changed"), [("tenant", {"tenant": "b"}), ("rows", {"least": 30}), ("mask", {"masked": True})]
)
async def test_a_refinement_is_read_under_the_rules_of_now(
    rule: str, changed: dict[str, Any], tmp_path: Path
) -> None:
    state: dict[str, Any] = {}
    async with kept_server(tmp_path, hooks=hooks_of(rule, state)) as kept:
        parent = await kept.make(ANN)
        response = await refined(kept, parent, REFINEMENTS[0], ANN)
        assert (await kept.said(response, ANN))["kept"]
        before = await kept.lines(response, ANN)
        state.update(changed)
        live = await kept.make(ANN, keep=False)
        wanted = await kept.lines(await refined(kept, live, REFINEMENTS[0], ANN), ANN)
        # One that was made before the change, and one that is made after it.
        for one in (response, await refined(kept, parent, REFINEMENTS[0], ANN)):
            assert await kept.lines(one, ANN) == wanted != before
        with pytest.raises(ResourceNotFoundError):
            await kept.lines(response, BOB)
        with pytest.raises(ResourceNotFoundError):
            await refined(kept, parent, REFINEMENTS[0], BOB)


async def test_what_cannot_be_kept_is_read_from_the_database_and_says_so(tmp_path: Path) -> None:
    async with kept_server(tmp_path, keep_rows=240) as kept:
        parent = await kept.make(select=select(sales).where(sales.c.id < 240))
        small = await refined(kept, parent, {"columns": ["id"]})
        assert (await kept.said(small))["kept"]
        files = await asyncio.to_thread(kept.files)
        unkept = await kept.make()
        assert "more than 240 rows" in (await kept.said(unkept))["reason"]
        # Its parent is not kept, so neither is it.
        assert await kept.said(await refined(kept, unkept, REFINEMENTS[0])) is None
        assert await asyncio.to_thread(kept.files) == files
    async with kept_server(tmp_path) as kept:
        parent = await kept.make()
        other = await refined(
            kept,
            parent,
            {"sql": "SELECT id, printf('%c', iif(price > 3, 'a', 'b')) AS k FROM data ORDER BY id"},
        )
        assert (await kept.said(other))["reason"] == "The kept rows cannot be asked in this way."
        assert [json.loads(line)["k"] for line in await kept.lines(other)] == ["b"] * 22 + ["a"] * (ROWS - 22)
        chosen = await kept.dual.create_response(
            name="live", parent=parent.resource_uri, refinement=REFINEMENTS[0], keep=False
        )
        change(kept.data)
        assert await kept.said(chosen) is None and len(await kept.lines(chosen)) == 0


async def test_a_column_with_the_name_of_all_columns_is_counted_as_a_column(kept: KeptServer) -> None:
    statement = select(sales.c.id, func.nullif(sales.c.id % 3, 0).label("*"))
    question = {"sql": 'SELECT count("*") AS values, count(*) AS rows FROM data'}
    for keep in (False, True):
        answer = await refined(kept, await kept.make(select=statement, keep=keep), question)
        [line] = map(json.loads, await kept.lines(answer))
        assert line["rows"] == ROWS and 0 < line["values"] < ROWS, keep
