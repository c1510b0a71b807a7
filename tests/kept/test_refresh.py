"""Refreshing a kept result: the rows of one run give way to those of another, as a whole."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, true

from dualsql import (
    BadCursorError,
    DualResponseServer,
    ForbiddenError,
    LimitExceededError,
    LocalResultStorage,
    PageRequest,
    Principal,
    QueryInterruptedError,
    QueryTimeoutError,
    Resource,
    ResourceNotFoundError,
    Resumption,
    StorageError,
    StreamRequest,
    TamperedError,
)
from dualsql.errors import BadParameterError, DualResponseError, TooManyQueriesError
from dualsql.kept.refresh import Refreshes
from dualsql.kept.service import ResultKeeper
from dualsql.openapi.feature import OpenAPI
from dualsql.pending.progress import RunRecords
from dualsql.resource import KeptRows
from dualsql.results.kept_rows import RunProgress
from dualsql_client import DualResponseClient, FetchError
from dualsql_client.progress import Progress
from dualsql_client.wire import row_digest
from tests.kept.test_results import ANN, BOB, ROWS, KeptServer, altered, change, kept_server, sales, stored
from tests.waiting import until

LEFT = 21
"""Rows after `change`."""


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[KeptServer]:
    async with kept_server(tmp_path) as server:
        yield server


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """For the length of the block, nobody reads the database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


async def test_the_rows_are_those_of_a_new_run(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    before, (old,) = await kept.said(response, ANN), kept.files()
    change(kept.data)
    said: Any = await kept.dual.kept.refresh(response.resource_id, ANN)
    assert (said["total_count"], said["total_count_kind"], said["kept"]["rows"]) == (LEFT, "exact", LEFT)
    assert said["kept"]["as_of"] >= before["as_of"]
    assert len(await kept.lines(response, ANN)) == LEFT
    (new,) = kept.files()
    assert new != old
    change(kept.data)
    with closing(sqlite3.connect(kept.data)) as connection, connection:
        connection.execute("DELETE FROM sales")
    assert len(await kept.lines(response, ANN)) == LEFT  # the database is not asked


@pytest.mark.long
async def test_an_order_that_takes_too_long_is_read_from_kept_rows_after_a_refresh(tmp_path: Path) -> None:
    a, b, c = (sales.alias(name) for name in "abc")
    pairs = a.join(b, true()).join(c, c.c.id < 8)
    each = select(func.count()).select_from(pairs).where(a.c.id + b.c.id != sales.c.id).scalar_subquery()
    async with kept_server(tmp_path, query_timeout=timedelta(seconds=1)) as kept:
        response = await kept.make(
            ANN,
            select=select(sales.c.id, each.label("n")).order_by(sales.c.id),
            sample_size=1,
            count="none",
            keep=False,
        )
        in_order = PageRequest(limit=5, sort=[{"field": "n", "order": "desc"}])
        with pytest.raises(QueryTimeoutError) as error:
            await kept.dual.read_page(response.resource_id, ANN, in_order)
        assert "/refresh" in error.value.hint
        await kept.dual.kept.refresh(response.resource_id, ANN)
        page = await kept.dual.read_page(response.resource_id, ANN, in_order)
        assert len(page.rows) == 5 and page.as_of is not None


async def test_a_result_that_was_read_from_the_database_is_kept_from_then_on(kept: KeptServer) -> None:
    response = await kept.make(ANN, keep=False)
    assert (await kept.dual.kept.refresh(response.resource_id, ANN))["kept"]["kept"]
    change(kept.data)
    assert len(await kept.lines(response, ANN)) == ROWS


async def test_cursors_and_streams_of_the_old_rows_are_refused(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    cursor = (await kept.page(response, ANN, limit=10)).next_cursor
    stream = await kept.dual.stream(response.resource_id, ANN, StreamRequest())
    lines = b"".join([chunk.data async for chunk in stream.chunks]).splitlines()
    assert stream.resume is not None
    change(kept.data)
    await kept.dual.kept.refresh(response.resource_id, ANN)
    with pytest.raises(BadCursorError):
        await kept.page(response, ANN, limit=10, cursor=cursor)
    with pytest.raises(DualResponseError):
        await kept.lines(
            response, ANN, resumption=Resumption(token=stream.resume, after=9, last=row_digest(lines[8]))
        )


async def test_a_stream_of_the_old_rows_goes_on_to_its_end(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    stream = await kept.dual.stream(response.resource_id, ANN, StreamRequest())
    chunks = [await anext(stream.chunks), await anext(stream.chunks)]
    change(kept.data)
    await kept.dual.kept.refresh(response.resource_id, ANN)
    assert len(kept.files()) == 1
    chunks += [chunk async for chunk in stream.chunks]
    assert (sum(chunk.rows for chunk in chunks), stream.ending.is_complete) == (ROWS, True)
    assert not any(b'"new"' in chunk.data for chunk in chunks)


async def test_a_reader_who_opened_the_result_before_gets_the_new_rows_as_a_whole(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    opened = await kept.dual.open_resource(response.resource_id, ANN, "read")
    change(kept.data)
    await kept.dual.kept.refresh(response.resource_id, ANN)
    page = await kept.dual.unchecked.read_page(opened, ANN, PageRequest(limit=1_000))
    assert {row["state"] for row in page.rows} == {"new"}
    assert (len(page.rows), page.total_count, page.total_count_kind) == (LEFT, LEFT, "exact")
    assert (
        await kept.page(response, ANN, limit=5, cursor=(await kept.page(response, ANN, limit=5)).next_cursor)
    ).rows


@pytest.mark.long
async def test_pages_beside_refreshes_are_each_of_one_run(kept: KeptServer) -> None:
    response = await kept.make(ANN)

    async def refreshed() -> None:
        for state in range(6):
            with closing(sqlite3.connect(kept.data)) as connection, connection:
                connection.execute("UPDATE sales SET state = ?", [f"run {state}"])
            await kept.dual.kept.refresh(response.resource_id, ANN)

    refreshing = asyncio.ensure_future(refreshed())
    seen: list[str] = []
    while not refreshing.done():
        page = await kept.page(response, ANN, limit=1_000)
        states = {row["state"] for row in page.rows}
        assert len(page.rows) == ROWS
        if states != {f"s{n}" for n in range(7)}:
            assert len(states) == 1
            seen += states
    await refreshing
    assert seen == sorted(seen)
    assert len(kept.files()) == 1


# Rights ------------------------------------------------------------------------------------------------------


async def test_only_who_owns_a_result_refreshes_it(kept: KeptServer) -> None:
    response, anybodys = await kept.make(ANN), await kept.make()
    for stranger in (BOB, Principal(id="ann", tenant="b"), None):
        with pytest.raises(ResourceNotFoundError):
            await kept.dual.kept.refresh(response.resource_id, stranger)
    for caller in (ANN, None):
        with pytest.raises(ForbiddenError, match="refresh"):
            await kept.dual.kept.refresh(anybodys.resource_id, caller)


async def test_authorize_may_refuse_it(tmp_path: Path) -> None:
    async def readers(principal: Principal | None, resource: Resource, action: str) -> bool:
        return action == "read"

    async with kept_server(tmp_path, authorize=readers) as kept:
        response = await kept.make(ANN)
        with pytest.raises(ForbiddenError, match="refresh"):
            await kept.dual.kept.refresh(response.resource_id, ANN)


# Failures ----------------------------------------------------------------------------------------------------


async def test_a_refresh_that_fails_leaves_the_old_rows(tmp_path: Path) -> None:
    async with kept_server(tmp_path, keep_rows=ROWS) as kept:
        response = await kept.make(ANN)
        with closing(sqlite3.connect(kept.data)) as connection, connection:
            connection.execute("INSERT INTO sales (tenant) SELECT 'a' FROM sales LIMIT 1")
        with pytest.raises(LimitExceededError, match="more than 250 rows"):
            await kept.dual.kept.refresh(response.resource_id, ANN)
        with closing(sqlite3.connect(kept.data)) as connection, connection:
            connection.execute("ALTER TABLE sales RENAME TO elsewhere")
        with pytest.raises(DualResponseError):
            await kept.dual.kept.refresh(response.resource_id, ANN)
        said = await kept.said(response, ANN)
        assert (said["kept"], said["rows"], said["error"]["code"]) == (True, ROWS, "QUERY_EXECUTION_FAILED")
        assert "elsewhere" not in str(said) and "no such table" not in str(said)
        assert (len(await kept.lines(response, ANN)), len(kept.files())) == (ROWS, 1)
        with closing(sqlite3.connect(kept.data)) as connection, connection:
            connection.execute("ALTER TABLE elsewhere RENAME TO sales")
            connection.execute("DELETE FROM sales WHERE id > 20")
        said = (await kept.dual.kept.refresh(response.resource_id, ANN))["kept"]
        assert (said["rows"], "error" in said) == (LEFT, False)


async def test_it_needs_a_storage(tmp_path: Path) -> None:
    async with kept_server(tmp_path, storage=None) as kept:
        response = await kept.make(ANN, keep=False)
        with pytest.raises(BadParameterError, match="keeps no results"):
            await kept.dual.kept.refresh(response.resource_id, ANN)


async def test_an_old_file_that_could_not_be_deleted_is_swept(
    kept: KeptServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = await kept.make(ANN)
    await kept.dual.maintenance.sweep()  # which notes that the row names the file
    (old,) = kept.files()

    async def fails(*_: Any) -> None:
        raise StorageError("The disk is gone.")

    with monkeypatch.context() as patched:
        patched.setattr(LocalResultStorage, "delete", fails)
        await kept.dual.kept.refresh(response.resource_id, ANN)
    assert len(kept.files()) == 2
    two_hours_ago = (datetime.now(UTC) - timedelta(hours=2)).timestamp()
    for path in kept.files():
        os.utime(path, (two_hours_ago, two_hours_ago))
    await kept.dual.maintenance.sweep()
    (left,) = kept.files()
    assert left != old
    assert (await kept.said(response, ANN))["kept"]


# While it runs -----------------------------------------------------------------------------------------------


async def test_while_it_runs_the_old_rows_are_read_and_nobody_begins_another(
    tmp_path: Path, sqlite_store_url: str
) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept, stored(tmp_path, sqlite_store_url) as other:
        response = await kept.make(ANN)
        change(kept.data)
        with locked(kept.data):
            description: Any = await kept.dual.kept.refresh(response.resource_id, ANN, wait=timedelta())
            assert (
                description["kept"]["kept"],
                description["kept"]["rows"],
                description["kept"]["rows_so_far"],
            ) == (
                True,
                ROWS,
                0,
            )
            assert len(await kept.lines(response, ANN)) == ROWS
            for server in (kept, other):
                description = await server.dual.kept.refresh(response.resource_id, ANN, wait=timedelta())
                assert description["kept"]["rows_so_far"] == 0
            assert (
                len(kept.dual.features.get(Refreshes)._running),
                len(other.dual.features.get(Refreshes)._running),
            ) == (1, 0)
        description = await kept.dual.kept.refresh(
            response.resource_id, ANN
        )  # which joins it, or begins the next
        assert (description["kept"]["rows"], "rows_so_far" in description["kept"]) == (LEFT, False)
        assert len(kept.files()) == 1


async def test_a_deleted_result_stops_it(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    with locked(kept.data):
        await kept.dual.kept.refresh(response.resource_id, ANN, wait=timedelta())
        task = kept.dual.features.get(Refreshes)._running[response.resource_id].task
        await kept.dual.delete_resource(response.resource_id, ANN)
    assert isinstance(await task, QueryInterruptedError)
    assert kept.files() == []


async def test_a_shutdown_stops_it_and_says_so(tmp_path: Path, sqlite_store_url: str) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept:
        response = await kept.make(ANN)
        with locked(kept.data):
            await kept.dual.kept.refresh(response.resource_id, ANN, wait=timedelta())
            closing_down = asyncio.ensure_future(kept.dual.shutdown())
            await until(
                lambda: asyncio.sleep(0, kept.dual.features.get(Refreshes)._running),
                lambda actual: not actual,
            )
        await closing_down
    async with stored(tmp_path, sqlite_store_url) as kept:
        said = await kept.said(response, ANN)
        assert (said["kept"], said["error"]["code"]) == (True, "QUERY_INTERRUPTED")
        assert len(kept.files()) == 1


async def test_a_drain_lets_it_end(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    change(kept.data)
    with locked(kept.data):
        await kept.dual.kept.refresh(response.resource_id, ANN, wait=timedelta())
        draining = asyncio.ensure_future(kept.dual.drain(timedelta(seconds=60)))
    await draining
    assert (await kept.said(response, ANN))["rows"] == LEFT


async def test_a_server_that_died_is_believed_until_its_lease_is_over(kept: KeptServer) -> None:
    response = await kept.make(ANN)
    resource = await kept.dual.open_resource(response.resource_id, ANN, "read")
    assert resource.kept is not None
    for until_, is_running in ((timedelta(seconds=30), True), (-timedelta(seconds=1), False)):
        until_then = (datetime.now(UTC) + until_).isoformat()
        dead = KeptRows(**{**resource.kept, "running": {"rows": 7, "until": until_then}})
        now = await kept.dual.features.get(ResultKeeper).of(response.resource_id)
        assert await RunRecords.of(kept.dual.parts).change(response.resource_id, now, dead)
        said = await kept.said(response, ANN)
        assert said["kept"]
        assert said.get("rows_so_far") == (7 if is_running else None)
        assert said.get("error", {}).get("code") == (None if is_running else "QUERY_INTERRUPTED")
    change(kept.data)
    assert (await kept.dual.kept.refresh(response.resource_id, ANN))["kept"]["rows"] == LEFT


async def test_of_two_that_end_at_once_one_has_replaced_the_rows(
    tmp_path: Path, sqlite_store_url: str
) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept:
        response = await kept.make(ANN)
        resource = await kept.dual.open_resource(response.resource_id, ANN, "read")
        actual = [
            await kept.dual.features.get(Refreshes)._rerun(resource, ANN, RunProgress()) for _ in range(2)
        ]
        changed = [
            await RunRecords.of(kept.dual.parts).change(resource.id, resource.kept, each) for each in actual
        ]
        assert changed == [True, False]
        now = await kept.dual.features.get(ResultKeeper).of(resource.id)
        assert now == actual[0]


async def test_no_more_run_than_the_settings_allow(tmp_path: Path) -> None:
    async with kept_server(tmp_path, maximum_pending=1) as kept:
        one, two = await kept.make(ANN), await kept.make(ANN)
        with locked(kept.data):
            await kept.dual.kept.refresh(one.resource_id, ANN, wait=timedelta())
            with pytest.raises(TooManyQueriesError):
                await kept.dual.kept.refresh(two.resource_id, ANN, wait=timedelta())
        await kept.dual.drain(timedelta(seconds=60))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "running",
    [{"rows": 1}, {"rows": "1", "until": "2999-01-01T00:00:00+00:00"}, {"rows": 1, "until": "soon"},
     {"rows": 1, "until": "2999-01-01T00:00:00"}, [], "x", 7],
)  # fmt: skip
async def test_a_changed_record_of_a_run_is_refused(
    running: Any, tmp_path: Path, sqlite_store_url: str
) -> None:
    async with stored(tmp_path, sqlite_store_url) as kept:
        response = await kept.make(ANN)
        await altered(sqlite_store_url, response.resource_id, lambda record: record.update(running=running))
        with pytest.raises(TamperedError):
            await kept.said(response, ANN)


# Over REST, and with the client ------------------------------------------------------------------------------


async def by_header(request: Any) -> Principal | None:
    name = request.headers.get("x-user")
    return Principal(id=name, tenant="a") if name else None


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[tuple[KeptServer, httpx.AsyncClient]]:
    async with kept_server(tmp_path, authenticate=by_header, keep_after=timedelta(milliseconds=50)) as kept:
        transport = httpx.ASGITransport(app=mounted(kept.dual))
        headers = {"x-user": "ann"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1/resources/", headers=headers
        ) as http:
            yield kept, http


def mounted(dual: DualResponseServer) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount("/resources", dual.router())])


async def test_over_rest(web: tuple[KeptServer, httpx.AsyncClient]) -> None:
    kept, http = web
    response = await kept.make(ANN)
    change(kept.data)
    path = f"{response.resource_id}/refresh"
    assert (await http.get(path)).status_code == 405
    assert (await http.post(path, params={"wait": 5})).status_code == 400
    for body in (b"{}", b'{"wait": 5}', b"x" * 2_000_000):
        refused = await http.post(path, content=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_PARAMETER")
        assert "without" in refused.json()["hint"]
    assert (await http.post(path, headers={"origin": "https://evil.example"})).status_code == 403
    assert (await http.post(path, headers={"x-user": "bob"})).status_code == 404
    assert (await http.post(path, headers={"x-user": ""})).status_code == 404
    assert (await kept.said(response, ANN))["rows"] == ROWS
    with locked(kept.data):
        answer = await http.post(path)
        assert (answer.status_code, answer.json()["kept"]["rows_so_far"]) == (200, 0)
        assert answer.headers["retry-after"].isdecimal()
    described = kept.dual.features.get(OpenAPI).document()["paths"]["/{id}/refresh"]["post"]["responses"][
        "200"
    ]
    assert "Retry-After" in described["headers"]
    await kept.dual.drain(timedelta(seconds=60))
    answer = await http.get(response.resource_id)
    assert (answer.json()["kept"]["rows"], answer.json()["total_count"]) == (LEFT, LEFT)


async def test_with_the_client(web: tuple[KeptServer, httpx.AsyncClient]) -> None:
    kept, http = web
    response = await kept.make(ANN)
    change(kept.data)
    reports: list[Progress] = []
    async with DualResponseClient("http://127.0.0.1/resources", http=http) as client:
        parsed = await client.open(response.resource_id)
        with locked(kept.data):
            refreshing = asyncio.ensure_future(parsed.refresh(progress=reports.append))
            await until(lambda: asyncio.sleep(0, reports))
        metadata = await refreshing
        assert metadata.kept is not None
        assert (metadata.kept["rows"], parsed.total_count, reports[0].rows) == (LEFT, LEFT, 0)
        assert len(await parsed.fetch_all()) == LEFT
        with closing(sqlite3.connect(kept.data)) as connection, connection:
            connection.execute("ALTER TABLE sales RENAME TO elsewhere")
        with pytest.raises(FetchError, match="database"):
            await parsed.refresh()
        assert len(await parsed.fetch_all()) == LEFT
