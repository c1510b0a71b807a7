"""All rows are fetched once, whatever the server changes between two pages."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dualsql_client import (
    FetchError,
    FetchResult,
    ParseError,
    Progress,
    ResourceMetadata,
    ResourceNotFoundError,
)
from dualsql_client.wire import Column
from tests.client.conftest import Open
from tests.client.hosting import Contract, Host

COLUMNS = [
    Column(name="id", type="number", encoding="integer"),
    Column(name="tuition", type="number", encoding="decimal"),
    Column(name="founded", type="date", encoding="date"),
]
ROWS = [{"id": 2**60 + n, "tuition": f"{n}.10", "founded": "1900-01-01"} for n in range(7)]


def contract(**options: Any) -> Contract:
    return Contract([dict(row) for row in ROWS], COLUMNS, **options)


async def test_a_page(host: Host, open_at: Open) -> None:
    server = contract()
    base_url = host.serve(server)
    page = await open_at(base_url).fetch(offset=2, limit=3, sort={"field": "id", "order": "desc"})
    assert server.requests == [("POST", {"offset": 2, "limit": 3, "sort": {"field": "id", "order": "desc"}})]
    assert page == FetchResult(
        data=[ROWS[4], ROWS[3], ROWS[2]],
        total_count=7,
        total_count_kind="exact",
        returned_count=3,
        offset=2,
        has_next=True,
        has_previous=True,
        next_offset=5,
        columns=COLUMNS,
        order=None,
        cached=False,
        next_cursor=None,
        previous_cursor=None,
    )


async def test_what_is_not_asked_for_is_left_to_the_server(host: Host, open_at: Open) -> None:
    server = contract()
    base_url = host.serve(server)
    await open_at(base_url).fetch()
    await open_at(base_url).fetch(sort=[{"field": "id"}])
    assert [body for _, body in server.requests] == [{"offset": 0}, {"offset": 0, "sort": {"field": "id"}}]


async def test_typed_values(host: Host, open_at: Open) -> None:
    base_url = host.serve(contract())
    [row] = (await open_at(base_url).fetch(offset=6, typed=True)).data
    assert row == {"id": 2**60 + 6, "tuition": Decimal("6.10"), "founded": date(1900, 1, 1)}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 6, 7, 8, 500])
async def test_pages_joined_are_the_result(host: Host, open_at: Open, batch_size: int) -> None:
    server = contract()
    base_url = host.serve(server)
    assert await open_at(base_url).fetch_all(batch_size=batch_size) == ROWS
    batches = [batch async for batch in open_at(base_url).fetch_stream(batch_size=batch_size)]
    assert [row for batch in batches for row in batch] == ROWS
    assert len(server.pages) == 2 * -(-len(ROWS) // batch_size)


async def test_a_server_may_send_smaller_pages_than_asked_for(host: Host, open_at: Open) -> None:
    base_url = host.serve(contract(largest_page=2))
    assert await open_at(base_url).fetch_all(batch_size=500) == ROWS


async def test_progress_is_told_to_functions_and_coroutines(host: Host, open_at: Open) -> None:
    calls: list[tuple[int, int | None]] = []

    async def tell(progress: Progress) -> None:
        calls.append((progress.rows, progress.total))

    base_url = host.serve(contract())
    await open_at(base_url).fetch_all(
        batch_size=4, progress=lambda progress: calls.append((progress.rows, progress.total))
    )
    await open_at(base_url).fetch_all(batch_size=4, progress=tell)
    assert calls == [(4, 7), (7, 7)] * 2


async def test_rows_deleted_between_pages_end_it(host: Host, open_at: Open) -> None:
    server = contract()
    base_url = host.serve(server)
    stream = open_at(base_url).fetch_stream(batch_size=3)
    assert await anext(stream) == ROWS[:3]
    server.rows.clear()
    assert [batch async for batch in stream] == []
    assert len(server.pages) == 2


async def test_a_resource_deleted_between_pages_is_an_error(host: Host, open_at: Open) -> None:
    server = contract()
    base_url = host.serve(server)
    stream = open_at(base_url).fetch_stream(batch_size=3)
    await anext(stream)
    server.deleted = True
    with pytest.raises(ResourceNotFoundError):
        await anext(stream)


async def test_an_empty_result(host: Host, open_at: Open) -> None:
    base_url = host.serve(Contract([]))
    assert await open_at(base_url).fetch_all() == []
    assert [batch async for batch in open_at(base_url).fetch_stream()] == []


async def test_metadata_pin_and_delete(host: Host, open_at: Open) -> None:
    server = contract()
    base_url = host.serve(server)
    parsed = open_at(base_url)
    assert await parsed.get_metadata() == ResourceMetadata(
        status="ready",
        name="Institutions",
        uri=parsed.resource_uri,
        total_count=7,
        total_count_kind="exact",
        columns=COLUMNS,
        created_at=datetime(2026, 11, 21, 10, tzinfo=UTC),
        expires_at=datetime(2999, 1, 1, tzinfo=UTC),
        access_count=3,
        last_accessed_at=None,
        metadata={"state": "NJ"},
    )
    assert await parsed.pin() is True
    assert parsed.expires_at is None
    assert await parsed.delete() is True
    assert await parsed.delete() is False
    with pytest.raises(ResourceNotFoundError):
        await parsed.pin()
    assert [method for method, _ in server.requests] == ["GET", "PUT", "DELETE", "DELETE", "PUT"]


async def test_expiry_follows_the_server(host: Host, open_at: Open) -> None:
    server = contract()
    base_url = host.serve(server)
    parsed = open_at(base_url)
    parsed.expires_at = datetime(2000, 1, 1, tzinfo=UTC)
    assert parsed.is_expired()
    await parsed.fetch()
    assert parsed.expires_at == datetime(2999, 1, 1, tzinfo=UTC)
    assert not parsed.is_expired()
    await parsed.pin()
    assert not parsed.is_expired()


def always(body: Any) -> Any:
    async def answer(request: Request) -> Response:
        if request.url.path.endswith("/rows"):
            return Response("Not Found", 404)  # a server that is older than streams
        return JSONResponse(body)

    return answer


MINIMAL = {"data": [{"id": 1}], "has_next": False}


async def test_the_least_a_page_can_be(host: Host, open_at: Open) -> None:
    base_url = host.serve(always(MINIMAL))
    parsed = open_at(base_url)
    page = await parsed.fetch(offset=4, typed=True)
    assert (page.offset, page.has_previous, page.next_offset, page.total_count) == (4, True, None, None)
    assert page.columns == parsed.columns
    assert parsed.expires_at == datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "changes",
    [
        {"data": None},
        {"data": [1]},
        {"data": {"id": 1}},
        {"has_next": None},
        {"has_next": 1},
        {"total_count": "3"},
        {"total_count": True},
        {"columns": [{}]},
        {"offset": 1},
        {"returned_count": 2},
        {"has_next": True, "next_offset": 0},
        {"has_next": True, "next_offset": 2},
        {"has_next": True, "next_offset": None},
        {"has_next": True, "next_offset": "1"},
    ],
    ids=repr,
)
async def test_a_page_that_could_lose_or_repeat_rows_is_refused(
    host: Host, open_at: Open, changes: dict[str, Any]
) -> None:
    base_url = host.serve(always({**MINIMAL, **changes}))
    with pytest.raises(FetchError) as error:
        await open_at(base_url).fetch_all()
    assert (error.value.code, error.value.status) == ("FETCH_ERROR", 200)


@pytest.mark.parametrize("body", [None, [], 5, "x"])
async def test_an_answer_that_is_no_object_is_refused(host: Host, open_at: Open, body: Any) -> None:
    base_url = host.serve(always(body))
    for call in (open_at(base_url).fetch, open_at(base_url).get_metadata):
        with pytest.raises(FetchError):
            await call()


async def test_an_endless_server_of_nothing_is_left(host: Host, open_at: Open) -> None:
    base_url = host.serve(always({"data": [], "has_next": True, "next_offset": 0}))
    assert await open_at(base_url).fetch_all() == []
    page = await open_at(base_url).fetch()
    assert (page.has_next, page.next_offset) == (False, None)


async def test_a_typed_value_that_is_wrong(host: Host, open_at: Open) -> None:
    body = {**MINIMAL, "columns": [{"name": "id", "type": "string", "encoding": "uuid"}]}
    base_url = host.serve(always(body))
    assert (await open_at(base_url).fetch()).data == [{"id": 1}]
    with pytest.raises(ParseError):
        await open_at(base_url).fetch(typed=True)
