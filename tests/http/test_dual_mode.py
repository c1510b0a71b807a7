"""REST for callers who ask for a format: the dual-mode answer of specification S8; for all others nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from dualsql import Feature, FeatureRoutes, ResultCache, default_features
from dualsql.envelope import validate_dual_mode
from dualsql.server import ResultServer
from dualsql.settings import ALL_ACTIONS
from tests.http.application import ALL, Application, assert_private, fill, running

FORMAT, CONTEXT = "X-Response-Format", "X-Execution-Context"


@pytest.fixture
async def url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    await fill(make_engine(sqlite_url))
    return sqlite_url


async def answers_of(app: Application, path: str, headers: dict[str, str]) -> list[httpx.Response]:
    """What is said of a resource, a page in either way, and a refusal."""
    return [
        await app.http.get(path, headers=headers),
        await app.http.get(path, params={"limit": 2}, headers=headers),
        await app.http.post(path, json={"limit": 2}, headers=headers),
        await app.http.post(path, json={"limit": -1}, headers=headers),
    ]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "headers",
    [{}, {CONTEXT: "code"}, {CONTEXT: "chat"}, {FORMAT: "html"}, {FORMAT: "x" * 10_000}],
    ids=lambda headers: str(headers)[:40],
)
async def test_without_a_format_the_answer_is_as_ever(url: str, headers: dict[str, str]) -> None:
    async with running(url) as app:
        path = await app.create()
        said, *pages, refused = await answers_of(app, path, headers)
        assert said.json()["status"] == "ready"
        assert [len(page.json()["data"]) for page in pages] == [2, 2]
        assert refused.json()["code"] == "BAD_PARAMETER"
        for answer in (said, *pages, refused):
            assert FORMAT in answer.headers["vary"] and CONTEXT in answer.headers["vary"]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("headers", "is_for_code"),
    [
        ({FORMAT: "json"}, True),
        ({FORMAT: "markdown"}, False),
        ({FORMAT: "Markdown", CONTEXT: "chat"}, False),
        ({FORMAT: "markdown", CONTEXT: "code"}, True),
    ],
    ids=str,
)
async def test_with_one_it_is_in_the_dual_mode_shape(
    url: str, headers: dict[str, str], is_for_code: bool
) -> None:
    async with running(url) as app:
        path = await app.create()
        plain = await answers_of(app, path, {})
        asked = await answers_of(app, path, headers)
    for answer, other in zip(asked, plain, strict=True):
        assert answer.status_code == other.status_code
        assert_private(answer)
        assert FORMAT in answer.headers["vary"]
        assert "etag" not in answer.headers
        said: dict[str, Any] = answer.json()
        assert validate_dual_mode(said) == []
        assert ("display" in said) is not is_for_code
        assert said["metadata"]["executionTime"] > 0
    said, page, _, refused = (answer.json() for answer in asked)
    assert said["data"]["columns"] == plain[0].json()["columns"]
    assert page["data"] == plain[1].json()
    assert (page["metadata"]["operation"], page["metadata"]["cached"]) == ("page", False)
    assert refused["error"]["code"] == "BAD_PARAMETER"
    if not is_for_code:
        assert "|Institution 001|" in page["display"]["content"]
        assert refused["display"]["content"]


ASKED: list[tuple[str, str, Any, int, str]] = [
    ("PUT", "", None, 200, "pin"),
    ("PUT", "?x=1", None, 400, "pin"),
    ("PUT", "/pin", None, 200, "pin"),
    ("DELETE", "/pin", None, 200, "unpin"),
    ("POST", "/sql", {"sql": "SELECT count(*) AS n FROM data"}, 200, "sql"),
    ("POST", "/sql", {"sql": "SELECT nothing FROM data"}, 422, "sql"),
    ("POST", "/query", {"aggregates": ["count"]}, 200, "query"),
    ("POST", "/query", {"aggregate": ["count"]}, 400, "query"),
    ("POST", "/refine", {"limit": 2}, 201, "refine"),
    ("GET", "/profile", None, 200, "profile"),
    ("GET", "/profile?kind=none", None, 400, "profile"),
    ("GET", "/rows?columns=nothing", None, 422, "rows"),
    ("GET", "/chart", None, 400, "chart"),
    ("PATCH", "", None, 405, "read"),
    ("GET", "/sql", None, 405, "sql"),
    ("DELETE", "?x=1", None, 400, "delete"),
]


@pytest.mark.parametrize("form", ["json", "markdown"])
async def test_all_of_rest_answers_in_the_form_that_is_asked_for(url: str, form: str) -> None:
    async with running(url, anonymous_actions=ALL_ACTIONS) as app:
        path = await app.create()
        for method, below, body, status, operation in ASKED:
            plain = await app.http.request(method, f"{path}{below}", json=body)
            response = await app.http.request(method, f"{path}{below}", json=body, headers={FORMAT: form})
            assert (plain.status_code, response.status_code) == (status, status), below
            answer, said = response.json(), plain.json()
            assert validate_dual_mode(answer) == []
            assert (answer["success"], answer["metadata"]["operation"]) == (status < 400, operation)
            if status < 400:
                assert answer["data"].keys() == said.keys()
                assert answer["data"] == said or operation in {"unpin", "refine"}
            else:
                assert answer["error"]["code"] == said["code"]
            assert ("display" in answer) is (form == "markdown")
            assert FORMAT in plain.headers["vary"] and FORMAT in response.headers["vary"]
            for name in ("allow", "location"):
                assert (name in plain.headers) == (name in response.headers)
        listed = await app.http.get(path.rpartition("/")[0] + "/", headers={FORMAT: form})
        assert listed.json()["error"]["code"] in {"UNAUTHENTICATED", "RESOURCE_NOT_FOUND"}


async def test_a_stream_has_a_form_of_its_own(url: str) -> None:
    async with running(url) as app:
        path = await app.create()
        plain = await app.http.get(f"{path}/rows?format=csv")
        answer = await app.http.get(f"{path}/rows?format=csv", headers={FORMAT: "json"})
        assert plain.text == answer.text
        removed = await app.http.delete(path, headers={FORMAT: "json"})
        assert removed.status_code in {204, 403}


async def test_cached_is_what_a_result_cache_answered(url: str) -> None:
    async with running(url, result_cache=ResultCache()) as app:
        path = await app.create()
        values = [
            (await app.http.get(path, params={"limit": 2}, headers={FORMAT: "json"})).json()["metadata"][
                "cached"
            ]
            for _ in range(2)
        ]
    assert values == [False, True]


async def test_a_head_request_has_no_body(url: str) -> None:
    async with running(url) as app:
        answer = await app.http.head(await app.create(), headers={FORMAT: "markdown"})
        assert (answer.status_code, answer.content) == (200, b"")


async def test_a_large_page_is_answered_whole(url: str) -> None:
    async with running(url) as app:
        path = await app.create()
        page = (await app.http.get(path, params={"limit": 60}, headers={FORMAT: "markdown"})).json()
        assert len(page["data"]["data"]) == 60
        assert len(page["display"]["content"]) < 10_000


async def test_no_cell_becomes_markup(url: str) -> None:
    from sqlalchemy import literal, select

    from tests.http.application import INSTITUTIONS

    hostile = "![x](http://evil.example/?q=1) <script>alert(1)</script>"
    async with running(url) as app:
        path = await app.create(select(INSTITUTIONS.c.id, literal(hostile).label("name")))
        page = (await app.http.get(path, params={"limit": 2}, headers={FORMAT: "markdown"})).json()
    assert page["data"]["data"][0]["name"] == hostile
    assert "](http" not in page["display"]["content"]
    assert "<script>" not in page["display"]["content"]


async def test_our_own_client_reads_what_it_always_read(url: str) -> None:
    from dualsql_client import DualResponseClient
    from tests.http.application import BASE_URL

    async with running(url) as app:
        response = await app.server.create_response(ALL, name="All")
        client = DualResponseClient(BASE_URL, http=app.http, headers={FORMAT: "json", CONTEXT: "code"})
        parsed = client.parse(response.to_mcp_tool_result(), strict=True)
        assert len((await parsed.fetch(limit=5)).data) == 5
        assert (await parsed.get_metadata()).status == "ready"


class Plain(Feature):
    """Answers in forms of its own."""

    def routes(self, server: ResultServer) -> FeatureRoutes:
        """See `Feature`."""

        async def plain(request: Request) -> JSONResponse:
            return JSONResponse(*PLAIN[request.path_params["form"]])

        return FeatureRoutes(routes=[Route("/{resource_id}/plain/{form}", plain)])


PLAIN: dict[str, tuple[Any, int]] = {
    "error": ({"error": "no"}, 404),
    "list": ([1, 2], 200),
    "text": ("x", 200),
}


@pytest.mark.parametrize("form", PLAIN)
async def test_a_feature_answers_in_a_form_of_its_own(url: str, form: str) -> None:
    async with running(url, features=default_features(Plain())) as app:
        path = await app.create()
        answer = await app.http.get(f"{path}/plain/{form}", headers={FORMAT: "json"})
        assert (answer.json(), answer.status_code) == PLAIN[form]
