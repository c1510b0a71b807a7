"""HEAD: refused where GET is, with the same status, and no query for headers alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import OpenAPI
from tests.http.application import ALL, Application, fill, running
from tests.results.pending.conftest import FOREVER, MOMENT

ACCEPTED = ("text/html", "application/json", "application/vnd.vegalite+json", "image/png")
BAD = ("", "no such", "9" * 20)
"""Each is wrong for most parameters."""


@pytest.fixture
def engine(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> AsyncEngine:
    """An engine on an empty database."""
    return make_engine(sqlite_url)


@pytest.fixture
async def everything(engine: AsyncEngine) -> AsyncIterator[Application]:
    """A server with every route that there is."""
    await fill(engine)
    async with running(engine, pages=True, signed_links=True, secrets=["s" * 40]) as application:
        yield application


async def ids_of(application: Application) -> list[str]:
    """A result, a chart, one that is pending, and none."""
    server = application.server
    response = await server.create_response(ALL, name="All")
    chart = await server.charts.create(response, {"mark": "bar", "x": "state", "y": {"aggregate": "count"}})
    pending = await server.create_response(FOREVER, name="Slow", wait=MOMENT)
    return [response.resource_id, chart.resource_id, pending.resource_id, "A" * 27]


def paths_of(application: Application, ids: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each path that has HEAD, with each of the ids, and what HEAD is said to take."""
    for path, operations in application.server.features.get(OpenAPI).document()["paths"].items():
        if "head" in operations:
            for resource_id in ids if "{id}" in path else ids[:1]:
                yield f"/resources{path.format(id=resource_id)}", operations["head"]


def queries_of(operation: dict[str, Any]) -> Iterator[dict[str, str]]:
    """None, one that is unknown, and each that is described, with values that are wrong."""
    yield from ({}, {"no such": "1"})
    for parameter in operation.get("parameters", ()):
        if parameter.get("in") == "query":
            yield from ({parameter["name"]: value} for value in BAD)


@pytest.mark.long
@pytest.mark.parametrize("accept", ACCEPTED)
async def test_head_is_refused_where_get_is(everything: Application, accept: str) -> None:
    http, headers = everything.http, {"Accept": accept}
    others, refused = [], set()
    for path, operation in paths_of(everything, await ids_of(everything)):
        for query in queries_of(operation):
            get = await http.get(path, params=query, headers=headers)
            head = await http.head(path, params=query, headers=headers)
            if head.status_code != get.status_code or head.content:
                others.append((path, query, get.status_code, head.status_code))
            if get.status_code >= 400:
                refused.add(path.rpartition("/")[2])
    assert not others
    assert {"rows", "profile", "chart", "view"} <= refused


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("of_chart", "asked"),
    [
        (False, "?count=exact"),
        (False, "/rows?format=csv"),
        (False, "/profile?kind=full"),
        (False, "/view?sort=-id&limit=2"),
        (False, "/view/profile?kind=full"),
        (True, "/chart?format=vegalite"),
        (True, "/chart?format=png"),
    ],
)
async def test_head_runs_no_query(
    everything: Application, engine: AsyncEngine, of_chart: bool, asked: str
) -> None:
    address = f"/resources/{(await ids_of(everything))[of_chart]}{asked}"
    run: list[str] = []

    def note(*arguments: Any) -> None:
        run.append(arguments[2])

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        assert (await everything.http.head(address)).status_code == 200
        assert run == []
        assert (await everything.http.get(address)).status_code == 200
        assert run
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
