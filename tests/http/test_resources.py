"""What each verb of a resource does: metadata, pin, delete, and the verbs there are."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from dualsql import Principal
from dualsql_client.wire import ResourceDescription
from tests.http.application import Application, assert_private, by_header, problem_of, running

ALLOWED = "GET, HEAD, OPTIONS, POST, PUT, DELETE"


async def test_get_answers_what_the_resource_is_and_no_rows(application: Application) -> None:
    path = await application.create(metadata={"asked": "everything"})
    response = await application.http.get(path)
    assert response.status_code == 200
    assert_private(response)
    described = response.json()
    # Annotations are strings here, so that TypedDict cannot tell which keys are not always there.
    assert described.keys() == ResourceDescription.__annotations__.keys() - {"error", "kept"}
    assert described["status"] == "ready"
    assert described["name"] == "Institutions"
    assert described["uri"] == f"resource://{path.rpartition('/')[2]}"
    assert described["total_count"] == 60
    assert [column["name"] for column in described["columns"]][:2] == ["id", "name"]
    assert described["metadata"] == {"asked": "everything"}
    lifetime = datetime.fromisoformat(described["expires_at"]) - datetime.fromisoformat(
        described["created_at"]
    )
    assert lifetime == timedelta(minutes=15)


async def test_reading_rows_is_counted(application: Application) -> None:
    path = await application.create()
    before = (await application.http.get(path)).json()
    assert (before["access_count"], before["last_accessed_at"]) == (0, None)
    await application.http.post(path, json={})
    await application.http.get(path, params={"limit": 1})
    after = (await application.http.get(path)).json()
    assert after["access_count"] == 2
    assert datetime.fromisoformat(after["last_accessed_at"]).tzinfo is not None


async def test_put_pins(institutions_url: str) -> None:
    async with running(institutions_url, authenticate=by_header) as application:
        path = await application.create(principal=Principal(id="ana"))
        application.http.headers["X-User"] = "ana"
        pinned = await application.http.put(path)
        assert (pinned.status_code, pinned.json()) == (200, {"status": "pinned", "expires_at": None})
        assert_private(pinned)
        described = (await application.http.get(path)).json()
        assert (described["status"], described["expires_at"]) == ("pinned", None)
        assert (await application.http.put(path)).status_code == 200


async def test_what_is_pinned_can_expire_again(institutions_url: str) -> None:
    async with running(institutions_url, authenticate=by_header) as application:
        path = await application.create(principal=Principal(id="ana"))
        application.http.headers["X-User"] = "ana"
        before = (await application.http.get(path)).json()["expires_at"]
        assert (await application.http.delete(f"{path}/pin")).json()["expires_at"] == before
        assert (await application.http.put(f"{path}/pin")).json() == {"status": "pinned", "expires_at": None}
        unpinned = await application.http.delete(f"{path}/pin")
        assert_private(unpinned)
        described = (await application.http.get(path)).json()
        assert unpinned.json() == {name: described[name] for name in ("status", "expires_at")}
        assert described["status"] == "ready" and described["expires_at"] >= before
        application.http.headers["X-User"] = "ben"
        problem_of(await application.http.delete(f"{path}/pin"), 404)
        problem_of(await application.http.get(f"{path}/pin"), 405)


async def test_what_nobody_owns_is_pinned_by_whoever_holds_its_link(application: Application) -> None:
    path = await application.create()
    assert (await application.http.put(path)).json() == {"status": "pinned", "expires_at": None}
    assert (await application.http.get(path)).json()["status"] == "pinned"


async def test_delete_ends_the_resource_for_every_verb(application: Application) -> None:
    path = await application.create()
    deleted = await application.http.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert_private(deleted)
    for method in ("GET", "PUT", "DELETE"):
        problem_of(await application.http.request(method, path), 404)
    problem_of(await application.http.post(path, json={}), 404)


@pytest.mark.parametrize("query", ["", "?limit=2"])
async def test_head_answers_as_get_does(application: Application, query: str) -> None:
    path = await application.create()
    head, get = await application.http.head(path + query), await application.http.get(path + query)
    assert head.status_code == get.status_code == 200
    assert head.headers["content-type"] == get.headers["content-type"] == "application/json"
    assert_private(head)
    assert (await application.http.head("/resources/unknown")).status_code == 404


async def test_options_names_the_verbs_and_says_nothing_of_the_resource(application: Application) -> None:
    for path in (await application.create(), "/resources/unknown"):
        response = await application.http.options(path)
        assert (response.status_code, response.headers["allow"], response.content) == (204, ALLOWED, b"")
        assert_private(response)


@pytest.mark.parametrize("method", ["PATCH", "TRACE", "CONNECT", "QUERY", "PROPFIND", "get"])
async def test_other_verbs_are_refused_with_those_there_are(application: Application, method: str) -> None:
    url = application.http.base_url.join(await application.create())
    # httpx writes methods in capitals; a hostile caller need not.
    request = application.http.build_request("GET", url)
    request.method = method
    response = await application.http.send(request)
    assert problem_of(response, 405)["code"] == "METHOD_NOT_ALLOWED"
    assert response.headers["allow"] == ALLOWED


@pytest.mark.quick(4)
@pytest.mark.parametrize("path", ["/resources/a/b", "/resources//", "/resources/a/"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
async def test_paths_that_are_no_resource_answer_like_unknown_ones(
    application: Application, path: str, method: str
) -> None:
    problem = problem_of(await application.http.request(method, path), 404)
    assert problem == (await application.http.get("/resources/unknown")).json()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_verbs_without_a_query_refuse_one(application: Application, method: str) -> None:
    path = await application.create()
    problem_of(await application.http.request(method, f"{path}?limit=1", json={}), 400)
    assert (await application.http.get(path)).json()["status"] == "ready"
