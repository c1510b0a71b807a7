"""Servers of the reference design: a result names only a URL, and pages are read by GET with skip and limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dualsql_client import DualResponseClient, FetchError, FetchResult, ResourceNotFoundError, where
from tests.client.conftest import Open
from tests.client.hosting import RESOURCE_ID, Host

ROWS = [{"id": n, "name": f"School {n}"} for n in range(7)]


class Reference:
    """Pages by GET alone, without columns. Where a request has no limit the whole result is sent from its start."""

    def __init__(self, refusal: Response | None = None, named: str = "skip") -> None:
        self.refusal = refusal or Response("Method Not Allowed", 405)
        self.named = named
        self.requests: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append((request.method, dict(request.query_params)))
        if request.method != "GET" or request.url.path.endswith(("/rows", "/profile")):
            return self.refusal
        if request.path_params["id"] != RESOURCE_ID:
            return JSONResponse({"error": "Resource not found"}, 404)
        start, limit = int(request.query_params.get(self.named, 0)), request.query_params.get("limit")
        rows = ROWS if limit is None else ROWS[start : start + int(limit)]
        return JSONResponse(
            {
                "data": rows,
                "total_count": len(ROWS),
                "returned_count": len(rows),
                self.named: start,
                "has_next": limit and start + len(rows) < len(ROWS),
                "has_prev": start > 0,
            }
        )


def answered(url: str | None, **more: Any) -> dict[str, Any]:
    """What a tool of that design returns."""
    return {
        "results": ROWS[:2],
        "resource": {"url": url, "name": "Query Results", "mimeType": "application/json"},
        "metadata": {"total_count": 7, "sample_count": 2, "executed_at": "2026-11-21T10:00:00Z"},
        **more,
    }


@pytest.mark.parametrize(
    "refusal",
    [
        Response("Method Not Allowed", 405),
        JSONResponse({"error": "no"}, 405),
        HTMLResponse("<pre>Cannot POST</pre>", 404),
        Response(status_code=501),
    ],
    ids=["405", "405 in JSON", "404 of Express", "501"],
)
async def test_every_row_is_fetched_by_get(host: Host, open_at: Open, refusal: Response) -> None:
    server = Reference(refusal)
    parsed = open_at(host.serve(server))
    assert await parsed.fetch_all(batch_size=3) == ROWS
    asked = [query for method, query in server.requests if method == "GET"]
    assert asked == [{"skip": str(n), "limit": "3"} for n in (0, 3, 6)]
    server.requests.clear()
    assert [batch async for batch in parsed.fetch_stream(batch_size=5)] == [ROWS[:5], ROWS[5:]]
    assert {method for method, _ in server.requests} == {"GET"}


async def test_a_page_by_get(host: Host, open_at: Open) -> None:
    page = await open_at(host.serve(Reference())).fetch(offset=5)
    assert isinstance(page, FetchResult)
    assert (page.data, page.offset, page.total_count) == (ROWS[5:], 5, 7)
    assert (page.has_next, page.has_previous, page.next_offset) == (False, True, None)


async def test_what_pages_by_get_cannot_do_is_an_error(host: Host, open_at: Open) -> None:
    parsed = open_at(host.serve(Reference()))
    for question in ({"sort": {"field": "id"}}, {"cursor": "abc"}):
        with pytest.raises(FetchError, match="takes no POST"):
            await parsed.fetch(**question)
    assert (await parsed.fetch(limit=1)).data == ROWS[:1]


LACKING: dict[str, Any] = {
    "save": lambda parsed, folder: parsed.save(folder / "rows.csv"),
    "to_arrow": lambda parsed, _: parsed.to_arrow(),
    "query": lambda parsed, _: parsed.query(aggregates=["count"]),
    "sql": lambda parsed, _: parsed.sql("SELECT 1"),
    "profile": lambda parsed, _: parsed.profile(),
    "pin": lambda parsed, _: parsed.pin(),
    "delete": lambda parsed, _: parsed.delete(),
    "refine": lambda parsed, _: parsed.refine(limit=1),
}


@pytest.mark.parametrize("asked", LACKING.values(), ids=LACKING)
async def test_what_it_lacks_is_said(host: Host, open_at: Open, tmp_path: Path, asked: Any) -> None:
    parsed = open_at(host.serve(Reference(HTMLResponse("<pre>Cannot POST</pre>", 404))))
    with pytest.raises(FetchError, match="pages by GET and nothing else") as error:
        await asked(parsed, tmp_path)
    assert "fetch_all" in error.value.hint
    assert not (tmp_path / "rows.csv").exists()
    assert await parsed.fetch_all() == ROWS


async def test_a_server_that_ignores_where_to_begin_repeats_no_row(host: Host, open_at: Open) -> None:
    async def first_rows(request: Request) -> Response:
        page = {"data": ROWS[:3], "has_next": True, "total_count": 7}
        return JSONResponse(page) if request.method == "GET" else Response(status_code=405)

    parsed = open_at(host.serve(first_rows))
    with pytest.raises(FetchError, match="which rows"):
        await parsed.fetch_all(batch_size=3)
    opened_result = open_at(host.serve(Reference(named="from")))
    with pytest.raises(FetchError, match="which rows"):
        await opened_result.fetch_all(batch_size=3)


@pytest.mark.parametrize(
    ("has_next", "fault"), [({}, "it has no 'has_next'"), ({"has_next": 1}, "its 'has_next' is no boolean")]
)
async def test_what_a_page_lacks_is_named(
    host: Host, open_at: Open, has_next: dict[str, int], fault: str
) -> None:
    async def answer(request: Request) -> Response:
        return JSONResponse({"data": ROWS, "skip": 0, **has_next})

    with pytest.raises(FetchError, match=fault):
        await open_at(host.serve(answer)).fetch()


async def test_a_server_that_does_not_say_the_order_may_have_ignored_what_was_asked(
    host: Host, open_at: Open
) -> None:
    bodies: list[Any] = []

    async def first_key_only(request: Request) -> Response:
        bodies.append(await request.json())
        return JSONResponse({"data": ROWS, "offset": 0, "has_next": False})

    parsed = open_at(host.serve(first_key_only))
    for one_key in ("-id", ["-id"], {"field": "id", "order": "desc"}, [{"field": "id", "order": "desc"}]):
        assert (await parsed.fetch(sort=one_key)).order is None  # type: ignore[arg-type]
        assert bodies.pop()["sort"] == {"field": "id", "order": "desc"}
    for answer, named in (
        (parsed.fetch(sort="id,-name"), "several sort keys"),
        (parsed.fetch(cursor="abc"), "a cursor"),
        (parsed.query(filters=where("id").eq(1)), "filters"),
        (parsed.query(columns=["id"]), "columns"),
        (parsed.query_all(aggregates=["count"]), "aggregates"),
        (parsed.sql("SELECT 1"), "the SQL text"),
    ):
        with pytest.raises(FetchError, match=f"does not confirm {named}:"):
            await answer


class PagesByPost(Reference):
    """Metadata by GET, pages by POST and nothing else: the seeds' server without pins."""

    async def __call__(self, request: Request) -> Response:
        if request.url.path.endswith(f"/{RESOURCE_ID}") and request.method == "GET":
            return JSONResponse({"status": "ready", "total_count": 7, "columns": []})
        if request.url.path.endswith(f"/{RESOURCE_ID}") and request.method == "POST":
            start, limit = (await request.json())["offset"], (await request.json()).get("limit", 100)
            rows = ROWS[start : start + limit]
            return JSONResponse({"data": rows, "offset": start, "has_next": start + len(rows) < len(ROWS)})
        return self.refusal


async def test_a_server_with_more_than_pages_by_get_is_not_said_to_have_nothing_else(
    host: Host, open_at: Open, tmp_path: Path
) -> None:
    parsed = open_at(host.serve(PagesByPost(HTMLResponse("<pre>Cannot POST</pre>", 404))))
    for asked in LACKING.values():
        with pytest.raises(FetchError, match="has pages of the result, and refuses") as error:
            await asked(parsed, tmp_path)
        assert "fetch_all" in error.value.hint
    assert (await parsed.get_metadata()).status == "ready"
    assert await parsed.fetch_all(batch_size=3) == ROWS


async def test_rows_in_place_of_metadata_are_no_metadata(host: Host, open_at: Open) -> None:
    with pytest.raises(FetchError, match="sends rows where metadata") as error:
        await open_at(host.serve(Reference())).get_metadata()
    assert "fetch_all" in error.value.hint


async def test_columns_that_pages_lack_are_errors(host: Host, open_at: Open) -> None:
    parsed = open_at(host.serve(Reference()))
    assert await parsed.fetch_all(columns=["name"], limit=1) == [{"name": "School 0"}]
    with pytest.raises(FetchError, match="no column 'price'") as error:
        await parsed.fetch_all(columns=["id", "price"])
    assert "id, name" in error.value.hint
    with pytest.raises(FetchError, match="no text_columns"):
        await parsed.fetch_all(text_columns=["id"])


@pytest.mark.parametrize(
    ("code", "methods"),
    [("RESOURCE_NOT_FOUND", ["POST"]), (None, ["POST", "GET"]), ("no code", ["POST", "GET"])],
)
async def test_a_missing_resource_is_asked_for_by_get_unless_a_code_says_so(
    host: Host, open_at: Open, code: str | None, methods: list[str]
) -> None:
    """Without a code, the same words may be those of a server that has no such route."""
    requests = []

    async def unknown(request: Request) -> Response:
        requests.append(request.method)
        body = {"error": "not_found", "message": "Resource not found or expired", "code": code}
        return JSONResponse(body, 404)

    with pytest.raises(ResourceNotFoundError):
        await open_at(host.serve(unknown)).fetch()
    assert requests == methods


async def test_a_server_that_takes_neither_is_told_as_it_answered_first(host: Host, open_at: Open) -> None:
    async def nothing(request: Request) -> Response:
        return Response(status_code=501 if request.method == "POST" else 405)

    with pytest.raises(FetchError) as error:
        await open_at(host.serve(nothing)).fetch()
    assert error.value.status == 501


async def test_a_url_at_a_configured_address_is_enough(host: Host, http: Any) -> None:
    one, two = Reference(), Reference()
    first, second = host.serve(one), host.serve(two, origin=1)
    client = DualResponseClient(first, http=http, origins=[second])
    for result in (
        answered(f"{second}/{RESOURCE_ID}"),
        {"resource": {"url": f"{second}/{RESOURCE_ID}"}},
        answered(f"{second}/{RESOURCE_ID}", metadata={"total_count": "many"}),
    ):
        for parsed in (
            client.parse({"content": [], "structuredContent": result}),
            client.parse_structured(result),
        ):
            assert parsed is not None
            assert parsed.resource_url == f"{second}/{RESOURCE_ID}"
            assert parsed.resource_uri == f"resource://{RESOURCE_ID}"
            assert await parsed.fetch_all() == ROWS
    parsed = client.parse(answered(f"{second}/{RESOURCE_ID}"), strict=True)
    assert (parsed.sample, parsed.total_count, parsed.name) == (ROWS[:2], 7, "Query Results")
    assert one.requests == []


async def test_the_same_id_at_two_addresses_is_two_results(host: Host, http: Any) -> None:
    first, second = host.serve(Reference()), host.serve(Reference(), origin=1)
    client = DualResponseClient(http=http, origins=[first, second])
    urls = [f"{first}/7", f"{second}/7"]
    assert [parsed.resource_url for parsed in client.find([answered(url) for url in urls])] == urls

    async def events() -> Any:
        for url in urls:
            yield answered(url)

    assert [parsed.resource_url async for parsed in client.find_in(events())] == urls


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/resources/abc",
        "https://api.example.com/resources/abc?x=1",
        "https://api.example.com/resources/",
        "https://api.example.com/other/abc",
        "https://api.example.com/resources/../abc",
        "//api.example.com/resources/abc",
        None,
        7,
    ],
    ids=str,
)
def test_another_url_is_no_evidence(url: Any) -> None:
    client = DualResponseClient("https://api.example.com/resources")
    assert client.parse(answered(url)) is None
    assert client.parse_structured(answered(url)) is None
    assert DualResponseClient().parse(answered("https://api.example.com/resources/abc")) is None
