"""What a caller may not see changes no byte of an answer: not by rows, not by totals, not by errors."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dualsql import DualResponseError
from dualsql.sql.translate import _HANDLERS
from tests import engines
from tests.http.application import Application
from tests.query.readings import ALL, person
from tests.query.specifications import as_json, groups_asked, rows_asked
from tests.quick import case_of
from tests.tenancy.tenants.texts import MAKERS, Draw
from tests.tenancy.tenants.worlds import two_worlds

pytestmark = pytest.mark.quick(50, "sqlite")

Worlds = tuple[Application, Application]

ADA = person("south")
HEADERS = {"x-user": ADA.id, "x-tenant": "south"}
ENGINES = ("sqlite", "postgresql", "duckdb")

_VOLATILE = re.compile(rb'"(?:incident|next_cursor|previous_cursor|next|previous|executed_at|expires_at|created_at|'
                       rb'uri|url|id|last_accessed_at|data_access_id)":\s*"[^"]*"')  # fmt: skip
_COUNTED = re.compile(rb'"access_count":\d+')
_VOLATILE_HEADERS = {"date", "etag", "dualsql-resume", "content-length", "x-request-id"}


@pytest.fixture(scope="module", params=ENGINES)
async def worlds(
    anyio_backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Worlds]:
    """Two servers on two databases of one engine."""
    folder: Path = tmp_path_factory.mktemp("worlds")
    if request.param == "postgresql":
        server: engines.PostgreSQL = request.getfixturevalue("postgresql_server")
        with server.database() as first, server.database() as second:
            async with two_worlds(first, second) as made:
                yield made
        return
    urls = {"sqlite": "sqlite+aiosqlite:///{}", "duckdb": "duckdb:///{}"}[request.param]
    async with two_worlds(urls.format(folder / "first"), urls.format(folder / "second")) as made:
        yield made


def test_every_form_that_is_read_is_drawn() -> None:
    assert set(MAKERS) == set(_HANDLERS)


def told(answer: httpx.Response) -> tuple[int, Any, bytes]:
    """An answer without what is new each time."""
    headers = {name: value for name, value in answer.headers.items() if name not in _VOLATILE_HEADERS}
    return answer.status_code, headers, _COUNTED.sub(b"", _VOLATILE.sub(b"", answer.content))


async def answered(application: Application, sql: str) -> list[Any]:
    """All that a text brings its caller: the result of a tool, a page, another order, the rows, a profile."""
    dual = application.server
    try:
        query = dual.sql.resolve(sql, principal=ADA)
        response = await dual.create_response(query.select, name="Text", principal=ADA, sample_size=30)
    except DualResponseError as error:
        details = {name: value for name, value in error.details.items() if name != "incident"}
        return [error.code, error.message, error.hint, details]
    path, http = f"/resources/{response.resource_id}", application.http
    first = response.columns[0]["name"]
    return [
        response.sample,
        response.columns,
        response.total_count,
        response.total_count_kind,
        told(await http.get(path, params={"limit": 50, "sort": f"-{first}"}, headers=HEADERS)),
        told(await http.get(f"{path}/rows", params={"format": "csv"}, headers=HEADERS)),
        told(await http.get(path, params={"count": "estimated"}, headers=HEADERS)),
    ]


SEEDS = 8


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [*(case_of(seed, is_long=True, is_exhaustive=seed > 1) for seed in range(SEEDS)), SEEDS]
)
async def test_texts(worlds: Worlds, seed: int) -> None:
    dialect = worlds[0].server.parts.sources["default"].engine.dialect.name
    draw = Draw(seed, dialect)
    texts = [draw.text() for _ in range(15 if seed == SEEDS else 80)]
    # Each function in the places where a database might compute it for hidden rows.
    for name in draw.functions[seed::SEEDS] if seed < SEEDS else ():
        texts.append(f"SELECT id, {draw.call(1, name)} FROM readings r WHERE {draw.condition(1)}")
        texts.append(f"SELECT count(*) FROM readings r WHERE {draw.call(1, name)} IS NULL")
    answers, faults = 0, []
    for sql in texts:
        try:
            one, other = [await answered(application, sql) for application in worlds]
        except Exception as error:  # noqa: BLE001 - nothing but errors of ours may come out
            faults.append(f"{sql}\n  {error!r}")
            continue
        if one != other:
            parts = next(pair for pair in zip_longest(one, other) if pair[0] != pair[1])
            faults.append(f"{sql}\n  {parts[0]}\n  {parts[1]}")
        answers += not isinstance(one[0], str)
    assert not faults, "\n".join(fault[:900] for fault in faults)
    assert answers > len(texts) / 20, "most texts are refused: nothing is learned of the others"


_PATHS: dict[int, str] = {}


async def path_of(application: Application) -> str:
    """One result in each world."""
    if id(application) not in _PATHS:
        _PATHS[id(application)] = await application.create(ALL, principal=ADA)
    return _PATHS[id(application)]


async def asked(application: Application, spec: dict[str, Any]) -> tuple[int, Any, bytes]:
    """The answer to a question about it."""
    path = await path_of(application)
    return told(await application.http.post(f"{path}/query", content=orjson.dumps(as_json(spec)), headers={
        **HEADERS, "content-type": "application/json"}))  # fmt: skip


any_question = given(spec=st.one_of(rows_asked(), groups_asked()))
_ANY: Any = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


@settings(max_examples=25, **_ANY)
@any_question
async def test_questions(worlds: Worlds, spec: dict[str, Any]) -> None:
    one, other = [await asked(application, spec) for application in worlds]
    assert one == other


@pytest.mark.exhaustive
@settings(max_examples=700, **_ANY)
@any_question
async def test_many_questions(worlds: Worlds, spec: dict[str, Any]) -> None:
    one, other = [await asked(application, spec) for application in worlds]
    assert one == other


READS: list[tuple[str, dict[str, str]]] = [
    *(
        ("", {"sort": f"{sign}{name}", "limit": "20"})
        for sign in ("", "-")
        for name in ("text", "secret", "span", "id")
    ),
    *(("", {"count": count}) for count in ("exact", "estimated", "capped:10", "auto")),
    *(("/rows", {"format": name}) for name in ("ndjson", "csv", "json", "arrow", "parquet")),
    ("/rows", {"format": "csv", "columns": "secret,id", "sort": "-secret"}),
    ("/profile", {"kind": "sample"}),
    ("/profile", {"kind": "full"}),
    ("/profile", {"kind": "full", "columns": "secret"}),
    ("", {}),
    ("", {"offset": "30", "limit": "10"}),
    ("", {"sort": "nothing"}),
]


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize(("below", "query"), READS)
async def test_reads(worlds: Worlds, below: str, query: dict[str, str]) -> None:
    one, other = [
        told(
            await application.http.get(f"{await path_of(application)}{below}", params=query, headers=HEADERS)
        )
        for application in worlds
    ]
    assert one == other
    assert b'"complete":false' not in one[2], "time decided what is told"


PROFILES: list[dict[str, Any]] = [
    {"filters": [{"column": "secret", "op": "is_null"}]},
    {"filters": [{"column": "big", "op": "gt", "value": 0}], "order_by": ["-big"], "kind": "full"},
    {"group_by": ["word"], "aggregates": ["count", {"function": "max", "column": "secret"}], "kind": "full"},
]


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("question", PROFILES)
async def test_profiles_of_answers(worlds: Worlds, question: dict[str, Any]) -> None:
    one, other = [
        told(
            await application.http.post(
                f"{await path_of(application)}/profile", json=question, headers=HEADERS
            )
        )
        for application in worlds
    ]
    assert one == other
    assert b'"complete":false' not in one[2], "time decided what is told"


CHARTS: list[dict[str, Any]] = [
    {"mark": "histogram", "x": "price"},
    {"mark": "histogram", "x": "moment"},
    {"mark": "histogram", "x": {"field": "big", "scale": "log"}},
    {"mark": "heatmap", "x": "secret", "y": "word", "color": {"aggregate": "count"}},
    {"mark": "bar", "x": "secret", "y": {"aggregate": "count"}},
    {"mark": "bar", "x": "word", "y": {"aggregate": "sum", "column": "big"}},
    {"mark": "line", "x": "day", "y": "ratio"},
]


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize("specification", CHARTS)
async def test_charts(worlds: Worlds, specification: dict[str, Any]) -> None:
    found: list[Any] = []
    for application in worlds:
        path = await path_of(application)
        try:
            chart = await application.server.charts.create(
                path.rpartition("/")[2], specification, principal=ADA
            )
        except DualResponseError as error:
            found.append((error.code, error.message, error.details))
            continue
        answer = await application.http.get(f"/resources/{chart.resource_id}/chart", headers=HEADERS)
        found.append(told(answer))
    assert found[0] == found[1]
