"""What a caller does not see decides no byte of an answer: hidden tables, rows of other tenants, results of others."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from dualsql.formats.table import FORMATS
from tests import engines
from tests.query.readings import ALL, READINGS
from tests.twins.asking import CHARTS, OWN, Asking
from tests.twins.twins import ADA, BEN, EVE, GROUPED, HEADERS, Asked, Twin, twin_at

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
]
REQUESTS = int(os.environ.get("DUALSQL_TWINS_REQUESTS", "2000"))
SEED = int(os.environ.get("DUALSQL_TWINS_SEED", "34"))


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The URLs of two empty databases."""
    if request.param == "sqlite":
        yield [engines.sqlite_url_in(tmp_path) for _ in range(2)]
        return
    server: engines.PostgreSQL = request.getfixturevalue("postgresql_server")
    with ExitStack() as stack:
        yield [stack.enter_context(server.database()) for _ in range(2)]


async def own_results(twin: Twin) -> None:
    """What the caller has on either twin."""
    statements: list[Any] = [
        ALL,
        GROUPED,
        ALL.where(READINGS.c.small > 0),
        ALL.with_only_columns(READINGS.c.secret),
    ]
    for statement in statements:
        response = await twin.server.create_response(statement, name="Readings", principal=ADA)
        twin.own.append(response.resource_id)
    parent = f"resource://{twin.own[0]}"
    text = "SELECT word, count(*) AS n FROM data GROUP BY word ORDER BY word"
    answer = await twin.http.post(f"/resources/{twin.own[0]}/refine", json={"sql": text}, headers=HEADERS)
    assert answer.status_code == 201, answer.text
    twin.own.append(answer.json()["resource"]["uri"].rpartition("/")[2])
    chart = await twin.server.charts.create(parent, CHARTS[0], principal=ADA)
    twin.own.append(chart.resource_id)
    assert len(twin.own) == OWN


async def others_go_on(twin: Twin, number: int) -> None:
    """What others do meanwhile."""
    who = (BEN, EVE)[number % 2]
    headers = {"X-User": who.id, "X-Tenant": who.tenant or ""}
    response = await twin.server.create_response((ALL, GROUPED)[number % 2], name="Another", principal=who)
    path = f"/resources/{response.resource_id}"
    for method, below, body in (
        ("GET", "?limit=2", None),
        ("GET", "/profile", None),
        ("POST", "/query", {"aggregates": ["count"]}),
        ("POST", "/refine", {"limit": 3}),
        ("DELETE", "", None),
    ):
        answer = await twin.http.request(method, path + below, json=body, headers=headers)
        assert answer.is_success, answer.text


def difference(asked: Asked, answers: list[bytes]) -> str:
    """A request, and where the answers to it differ first."""
    place = next((n for n, pair in enumerate(zip(*answers, strict=False)) if pair[0] != pair[1]), -1)
    around = [f"{place} of {len(answer)}: {answer[max(0, place - 24) : place + 24]!r}" for answer in answers]
    one, two = ([str(part)[:400] for part in re.split(rb"(?<=[,>\n])", answer)] for answer in answers)
    lines = difflib.unified_diff(one, two, n=0, lineterm="")
    return "\n".join([str(asked), *around, *islice(lines, 30)])


@pytest.mark.parametrize("is_kept", [False, True], ids=["live", "kept"])
async def test_twins_answer_alike(urls: list[str], tmp_path: Path, is_kept: bool) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    asked_of, differing = Counter[str](), []
    async with (
        twin_at(urls[0], folders[0], is_second=False, is_kept=is_kept) as first,
        twin_at(urls[1], folders[1], is_second=True, is_kept=is_kept) as second,
    ):
        for twin in (first, second):
            await own_results(twin)
        for number, asked in enumerate(islice(Asking(SEED), REQUESTS)):
            if number % 100 == 50:
                await others_go_on(second, number // 100)
            (response, one), (_, two) = [await twin.ask(asked) for twin in (first, second)]
            if one != two:
                differing.append(difference(asked, [one, two]))
            asked_of.update(kinds_of(asked, response))
        description = (await first.http.get("/resources/openapi.json", headers=HEADERS)).json()
        tools = await tools_of(first)
    assert not differing, f"{len(differing)} differ\n" + "\n\n".join(differing[:8])
    if REQUESTS >= 2000:
        assert promised(description, tools) - set(asked_of) == set()
    print(len(asked_of), asked_of)


def kinds_of(asked: Asked, response: Any) -> Iterator[str]:
    """What a request was of: its route, and where it succeeded its format or its tool."""
    path = asked.path.partition("?")[0]
    route = re.sub(r"\{\w+\}", "{id}", path)
    yield f"{asked.method} {route}"
    if not response.is_success:
        return
    media_type = response.headers.get("content-type", "").partition(";")[0]
    yield from (f"format {each.name}" for each in FORMATS.values() if each.media_type == media_type)
    if path == "/mcp" and asked.method == "POST":
        message = json.loads(asked.body)
        yield message["method"]
        if '"isError":false' in response.text:
            yield f"tool {message['params'].get('name')}"


async def tools_of(twin: Twin) -> list[str]:
    """The names of the tools."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {
        **HEADERS,
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    answer = (await twin.http.post("/mcp", json=message, headers=headers)).text
    return [tool["name"] for tool in json.loads(answer[answer.index("{") :])["result"]["tools"]]


def promised(description: dict[str, Any], tools: list[str]) -> set[str]:
    """Each method of each route, each format and each tool."""
    methods = {"get", "head", "post", "put", "delete", "options"}
    routes = {
        f"{method.upper()} /resources{path}"
        for path, item in description["paths"].items()
        for method in methods & item.keys()
    }
    return {*routes, *(f"format {name}" for name in FORMATS), *(f"tool {name}" for name in tools)}
