"""Pages that take too long, over HTTP: `Prefer: respond-async` keeps the rows, and gives nobody further rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, true
from starlette.requests import Request

from dualsql import DualResponse, OpenAPI, Principal
from dualsql_client import DualResponseClient, ResourceFailedError
from tests.client.hosting import listening_socket, origin_of, serving
from tests.kept.test_refresh import by_header, mounted
from tests.kept.test_results import ANN, ROWS, KeptServer, kept_server, sales
from tests.waiting import until

_a, _b, _c = (sales.alias(name) for name in "abc")
_EACH = (
    select(func.count())
    .select_from(_a.join(_b, true()).join(_c, _c.c.id < 8))
    .where(_a.c.id + _b.c.id != sales.c.id)
    .scalar_subquery()
)
SLOW_TO_SORT: dict[str, Any] = {
    "select": select(sales.c.id, _EACH.label("n")).order_by(sales.c.id),
    "sample_size": 1,
    "count": "none",
    "keep": False,
}
"""Its first rows come at once; an order by `n` needs all of them, which takes some seconds."""
IN_ORDER: dict[str, Any] = {"limit": 5, "sort": [{"field": "n", "order": "desc"}]}
LATE = {"prefer": "respond-async"}
AT_ONCE = {"prefer": "respond-async, wait=0"}


class Hasty:
    """A server whose pages have a second, and a caller of it over HTTP: Ann, unless a header says another."""

    def __init__(self, kept: KeptServer, http: httpx.AsyncClient) -> None:
        self.kept = kept
        self.http = http

    async def make(self) -> DualResponse:
        return await self.kept.make(ANN, **SLOW_TO_SORT)

    async def page(self, response: DualResponse, headers: Any, body: Any = IN_ORDER) -> httpx.Response:
        return await self.http.post(response.resource_id, json=body, headers=headers)

    async def is_running(self, response: DualResponse) -> bool:
        return "rows_so_far" in (await self.kept.said(response, ANN) or {})


@asynccontextmanager
async def hasty_server(folder: Path, **options: Any) -> AsyncIterator[Hasty]:
    options = {"authenticate": by_header, "query_timeout": timedelta(seconds=1), **options}
    with listening_socket() as bound:
        # Its own pages are those of another port than that of its base URL.
        options["cors_origins"] = [origin_of(bound), "https://app.example"]
        async with kept_server(folder, **options) as kept, serving(mounted(kept.dual), bound):
            base_url = f"{origin_of(bound)}/resources/"
            async with httpx.AsyncClient(
                base_url=base_url, headers={"x-user": "ann"}, timeout=60, trust_env=False
            ) as http:
                yield Hasty(kept, http)


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncIterator[Hasty]:
    async with hasty_server(tmp_path) as found:
        yield found


@pytest.mark.long
async def test_a_page_that_is_late_keeps_the_rows_where_the_caller_may_wait(hasty: Hasty) -> None:
    response = await hasty.make()
    for headers in ({}, {"prefer": "respond-async-not"}, {"prefer": "respond-async=1"}, {"prefer": "wait=0"}):
        answer = await hasty.page(response, headers)
        assert (answer.status_code, answer.json()["code"]) == (504, "QUERY_TIMEOUT")
    assert (await hasty.page(response, LATE, {"limit": 5})).status_code == 200
    assert "kept" not in (await hasty.http.get(response.resource_id)).json() and not hasty.kept.files()
    answer = await hasty.page(response, {**LATE, "origin": "https://app.example"})
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "respond-async")
    assert (answer.json()["kept"]["rows_so_far"], answer.json()["status"]) == (0, "ready")
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-expose-headers"] == "*"
    assert (answer.headers["cache-control"], answer.headers["retry-after"]) == ("no-store", "2")
    again = await hasty.http.post(
        f"{response.resource_id}/query", json={"order_by": [{"column": "n"}], "limit": 1}, headers=LATE
    )
    assert again.status_code == 202  # one run for all
    dual = await hasty.page(response, {**LATE, "x-response-format": "json"})
    assert (dual.status_code, dual.json()["data"]["name"]) == (202, "sales")
    await hasty.kept.dual.drain(timedelta(seconds=60))
    assert len(hasty.kept.files()) == 1
    page = await hasty.page(response, LATE)
    assert (page.status_code, len(page.json()["data"])) == (200, 5)


@pytest.mark.long
async def test_a_preference_opens_nothing(hasty: Hasty) -> None:
    response = await hasty.make()
    path = response.resource_id
    for user in ("bob", ""):
        for prefer in (LATE, AT_ONCE):
            answer = await hasty.page(response, {**prefer, "x-user": user})
            assert (answer.status_code, answer.json()["code"]) == (404, "RESOURCE_NOT_FOUND")
    for body in (b"", b"{", b"null", b"[]", b'{"sort": 7}', b'{"limit": -1}', b'{"unknown": 1}', b"\xff"):
        answer = await hasty.http.post(
            path, content=body, headers={**LATE, "content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "BAD_PARAMETER"), body
    assert (await hasty.http.post(path, data={"limit": "5"}, headers=LATE)).status_code == 415
    head = await hasty.http.head(path, params={"sort": "-n"}, headers=LATE)
    assert (head.status_code, "preference-applied" in head.headers) == (504, False)
    for method, below in (("PUT", ""), ("DELETE", "/pin"), ("OPTIONS", ""), ("PATCH", "")):
        answer = await hasty.http.request(method, path + below, headers=AT_ONCE)
        assert answer.status_code in {200, 204, 405}, method
    for other in ("", "openapi.json", "unknown"):
        assert (await hasty.http.get(other, headers=AT_ONCE)).status_code in {200, 404}
    assert not await hasty.is_running(response) and not hasty.kept.files()


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "is_at_once"),
    [
        (["respond-async", "wait=0", "wait=500"], True),
        (["wait=500", "respond-async", "wait=0"], False),
        (['RESPOND-ASYNC ; x="y"', 'wait = "0"; x=y'], True),
        (["respond-async, wait=-1"], False),
        (["respond-async, wait=99999999999999999999"], False),
        (["respond-async, wait=1e3,,"], False),
        (["respond-async, wait=\xb2"], False),
    ],
)
async def test_the_first_wait_counts_and_one_that_is_none_is_as_if_left_out(
    hasty: Hasty, values: Sequence[str], is_at_once: bool
) -> None:
    response = await hasty.make()
    started = asyncio.get_running_loop().time()
    answer = await hasty.page(response, [("prefer", value.encode("latin-1")) for value in values])
    seconds = asyncio.get_running_loop().time() - started
    assert answer.status_code == 202
    assert (seconds < 1) == is_at_once  # the second that pages have


@pytest.mark.long
async def test_the_callers_own_time_is_kept(tmp_path: Path) -> None:
    async with hasty_server(tmp_path, query_timeout=timedelta(seconds=30)) as hasty:
        response = await hasty.make()
        for wait in ("wait=1", 'wait="1"; x=y', "WAIT=1"):
            answer = await hasty.page(response, {"prefer": f"respond-async, {wait}"})
            assert answer.status_code == 202, wait
        # A stream waits for its first row only.
        stream = await hasty.http.get(
            f"{response.resource_id}/rows", params={"sort": "-n"}, headers={"prefer": "respond-async, wait=1"}
        )
        assert stream.status_code == 202
        await hasty.kept.dual.drain(timedelta(seconds=60))
        assert len((await hasty.kept.page(response, ANN, **IN_ORDER)).rows) == 5


@pytest.mark.long
async def test_a_stream_that_has_begun_is_not_ended(hasty: Hasty) -> None:
    rows = select(_a.c.id, _b.c.id.label("b"), _c.c.id.label("c")).where(_c.c.id < 8)
    in_order = rows.select_from(_a.join(_b, true()).join(_c, true())).order_by("id", "b", "c")
    response = await hasty.kept.make(ANN, **{**SLOW_TO_SORT, "select": in_order})
    preference = {"prefer": "respond-async, wait=1"}
    async with hasty.http.stream(
        "GET", f"{response.resource_id}/rows?format=ndjson", headers=preference
    ) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        await asyncio.sleep(2)  # the time of the caller passes while the rows wait for him
        number = sum([1 async for _ in lines])
    assert (stream.status_code, number) == (200, 8 * ROWS * ROWS)
    assert not await hasty.is_running(response)


@pytest.mark.long
async def test_many_at_once_and_those_who_leave(hasty: Hasty, caplog: pytest.LogCaptureFixture) -> None:
    responses = [await hasty.make() for _ in range(3)]
    answers = await asyncio.gather(*(hasty.page(responses[n % 3], LATE) for n in range(30)))
    assert {answer.status_code for answer in answers} <= {202, 504, 503}
    assert any(answer.status_code == 202 for answer in answers)
    left = await hasty.make()
    caplog.set_level("INFO", "dualsql.requests")
    with pytest.raises(httpx.ReadTimeout):
        await hasty.http.post(left.resource_id, json=IN_ORDER, headers=LATE, timeout=0.3)
    await until(lambda: asyncio.sleep(0, "CALLER_GONE" in caplog.text))
    assert not await hasty.is_running(left)


@pytest.mark.long
async def test_a_result_that_is_deleted_while_its_rows_are_read_is_gone(hasty: Hasty) -> None:
    response = await hasty.make()
    assert (await hasty.page(response, LATE)).status_code == 202
    assert (await hasty.http.delete(response.resource_id)).status_code == 204
    assert (await hasty.http.get(response.resource_id)).status_code == 404
    assert (await hasty.page(response, LATE)).status_code == 404
    await hasty.kept.dual.drain(timedelta(seconds=60))
    assert not hasty.kept.files()


@pytest.mark.long
async def test_a_page_is_as_late_as_before_where_the_caller_cannot_be_asked_again(tmp_path: Path) -> None:
    async def by_body(request: Request) -> Principal | None:
        await request.body()
        return ANN

    async with hasty_server(tmp_path, authenticate=by_body) as hasty:
        response = await hasty.make()
        answer = await hasty.http.get(response.resource_id, params={"sort": "-n", "limit": 5}, headers=LATE)
        assert (answer.status_code, answer.json()["code"]) == (504, "QUERY_TIMEOUT")


@pytest.mark.long
async def test_the_client_waits_for_the_rows_of_a_late_page(hasty: Hasty) -> None:
    response, other = await hasty.make(), await hasty.make()
    async with DualResponseClient(str(hasty.http.base_url), http=hasty.http) as client:
        parsed = await client.open(response.resource_id)
        pages = [page async for page in parsed.pages(sort="-n", limit=200)]
        assert sum(len(page.data) for page in pages) == ROWS
        counts = [row["n"] for page in pages for row in page.data]
        assert counts == sorted(counts, reverse=True)
        asked = await client.open(other.resource_id)
        answer = await asked.sql("SELECT max(n) AS most FROM data")
        assert answer.data == [{"most": counts[0]}]
    assert len(hasty.kept.files()) == 2


@pytest.mark.long
async def test_a_late_page_of_rows_that_cannot_be_kept_says_why(tmp_path: Path) -> None:
    async with (
        hasty_server(tmp_path, keep_rows=10) as hasty,
        DualResponseClient(str(hasty.http.base_url), http=hasty.http) as client,
    ):
        response = await hasty.make()
        with pytest.raises(ResourceFailedError, match="more than 10 rows"):
            await (await client.open(response.resource_id)).fetch(**IN_ORDER)


async def test_openapi_names_the_answer_and_the_header_where_rows_are_kept(tmp_path: Path) -> None:
    async with kept_server(tmp_path) as kept:
        paths = kept.dual.features.get(OpenAPI).document()["paths"]
    late = {
        (method, path)
        for path, item in paths.items()
        for method, operation in item.items()
        if method != "parameters" and "202" in operation["responses"]
    }
    assert {("get", "/{id}"), ("post", "/{id}"), ("post", "/{id}/query"), ("post", "/{id}/sql")} <= late
    assert not {("head", "/{id}"), ("put", "/{id}"), ("post", "/{id}/refresh"), ("get", "/")} & late
    for method, path in late:
        operation = paths[path][method]
        assert "Prefer" in {each["name"] for each in operation["parameters"]}
        accepted = operation["responses"]["202"]
        assert {"Preference-Applied", "Retry-After"} <= accepted["headers"].keys()
        forms = accepted["content"]["application/json"]["schema"]["anyOf"]
        assert {"$ref": "#/components/schemas/ResourceDescription"} in forms
    async with kept_server(tmp_path, keep=False) as unkept:
        assert "respond-async" not in str(unkept.dual.features.get(OpenAPI).document()["paths"])
