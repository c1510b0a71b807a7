"""Every route refuses a query parameter or a member of its body that it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.application import Application, problem_of

QUERIES = [
    ("GET", "", "ofset=1"),
    ("GET", "", "count=exact&ofset=1"),
    ("HEAD", "", "ofset=1"),
    ("POST", "", "limit=1"),
    ("PUT", "", "forever=1"),
    ("DELETE", "", "force=1"),
    ("PUT", "/pin", "forever=1"),
    ("DELETE", "/pin", "forever=1"),
    ("GET", "/rows", "formt=csv"),
    ("HEAD", "/rows", "formt=csv"),
    ("POST", "/rows", "format=csv"),
    ("GET", "/profile", "kid=full"),
    ("GET", "/chart", "formt=png"),
    ("POST", "/query", "limit=1"),
    ("POST", "/sql", "limit=1"),
    ("POST", "/refine", "limit=1"),
]


@pytest.mark.quick(4)
@pytest.mark.parametrize(("method", "below", "query"), QUERIES)
@pytest.mark.parametrize("accept", ["application/json", "application/vnd.vegalite+json"])
async def test_an_unknown_query_parameter_is_refused(
    application: Application, method: str, below: str, query: str, accept: str
) -> None:
    path = await application.create()
    response = await application.http.request(
        method, f"{path}{below}?{query}", headers={"Accept": accept}, json={} if method == "POST" else None
    )
    assert response.status_code == 400, response.text
    if method != "HEAD":
        assert problem_of(response, 400)["message"].startswith("Unknown query parameter")
    assert (await application.http.get(path)).json()["status"] == "ready"


async def test_the_listing_refuses_one_too(application: Application) -> None:
    problem = problem_of(await application.http.get("/resources/?limt=3"), 400)
    assert problem["hint"] == "Did you mean 'limit'?"


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("below", "body", "near"),
    [
        ("", {"ofset": 1}, "offset"),
        ("", {"sort": {"feild": "id"}}, "field"),
        ("/rows", {"colums": ["id"]}, "columns"),
        ("/query", {"filtres": []}, "filters"),
        ("/query", {"filters": [{"colum": "id", "value": 1}]}, "column"),
        ("/query", {"limt": 5}, "limit"),
        ("/sql", {"sql": "SELECT id FROM data", "ofset": 15}, "offset"),
        ("/sql", {"sql": "SELECT id FROM data", "paramters": {}}, "parameters"),
        ("/refine", {"nam": "x", "limit": 5}, "name"),
        ("/refine", {"limt": 5}, "limit"),
    ],
)
async def test_an_unknown_member_of_a_body_is_refused_with_the_nearest_known(
    application: Application, below: str, body: dict[str, object], near: str
) -> None:
    path = await application.create()
    problem = problem_of(await application.http.post(path + below, json=body), 400)
    assert problem["message"].startswith("Unknown ")
    assert problem["hint"] == f"Did you mean '{near}'?"


@pytest.mark.quick(5)
@pytest.mark.parametrize("given", [{}, [], {"a": [1]}, 1, True])
@pytest.mark.parametrize(
    "body",
    [
        lambda given: {"filters": [{"column": "id", "op": given, "value": 1}]},
        lambda given: {"group_by": [{"column": "founded", "bucket": given}]},
        lambda given: {"aggregates": [{"function": given, "column": "id"}]},
        lambda given: {"order_by": [{"column": "id", "order": given}]},
    ],
    ids=["op", "bucket", "function", "order"],
)
async def test_a_word_that_is_no_text_is_refused(application: Application, body: Any, given: Any) -> None:
    path = await application.create()
    problem = problem_of(await application.http.post(f"{path}/query", json=body(given)), 400)
    assert problem["code"] == "BAD_PARAMETER"
    assert " is one of: " in problem["message"]


@pytest.mark.parametrize(
    ("below", "parameters", "place"),
    [
        ("", {"limit": 1, "format": "csv"}, "format is for rows."),
        ("", {"columns": "id"}, "columns is for rows."),
        ("/rows", {"offset": 5}, "offset is for pages."),
        ("/rows", {"cell_limit": 5}, "cell_limit is for pages."),
    ],
)
async def test_a_parameter_of_the_other_route_is_named_as_one(
    application: Application, below: str, parameters: dict[str, Any], place: str
) -> None:
    """Not with the nearest name of this route: format is not near sort."""
    path = await application.create()
    get = await application.http.get(f"{path}{below}", params=parameters)
    post = await application.http.post(f"{path}{below}", json=parameters)
    for answer in (get, post):
        assert problem_of(answer, 400)["message"] == place
