"""Slow queries whose rows are kept: stopped and run once more, then never again. Those that end leave nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from dualsql import (
    BadParameterError,
    ConfigurationError,
    DualResponse,
    Kept,
    LocalResultStorage,
    MemoryStore,
    Resource,
    Shared,
)
from dualsql.errors import DatabaseBusyError
from dualsql.formats.writer import Chunk
from dualsql.kept import runs
from tests.http.application import ALL, INSTITUTIONS, Application
from tests.results.pending.conftest import FOREVER, MOMENT, SECRETS, Slow, metadata_once, running
from tests.waiting import until

COUNT = 60


def keeping(slow: Slow, folder: Path, **options: Any) -> AbstractAsyncContextManager[Application]:
    """A server that keeps what takes longer than a moment."""
    return running(slow.url, **{"storage": LocalResultStorage(folder), "keep_after": MOMENT, **options})


def files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != "storage-id"]


async def until_nothing_is_left(folder: Path) -> None:
    await until(lambda: asyncio.to_thread(files, folder), lambda actual: actual == [])


async def statements(slow: Slow) -> list[str]:
    """The statements that run in the database, but for our own."""
    statement = text(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    async with slow.engine.connect() as connection:
        return list((await connection.execute(statement)).scalars())


async def until_it_is_kept(slow: Slow) -> None:
    """Wait until the statement that runs reads all rows: it has no LIMIT but ALL."""

    def is_whole(found: list[str]) -> bool:
        return len(found) == 1 and "institutions" in found[0] and "LIMIT $" not in found[0]

    await until(lambda: statements(slow), is_whole)


async def said(app: Application, response: DualResponse) -> dict[str, Any]:
    body: dict[str, Any] = (await app.http.get(f"/resources/{response.resource_id}")).json()
    return body


async def rows_of(app: Application, response: DualResponse) -> int:
    page = (await app.http.get(f"/resources/{response.resource_id}", params={"limit": 1_000})).json()
    return len(page["data"])


async def test_a_quick_query_is_not_kept(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path, keep_after=timedelta(seconds=60)) as app:
        options: Any
        for options in ({}, {"wait": timedelta(seconds=60)}):
            response = await app.server.create_response(ALL, name="All", **options)
            assert (response.total_count, "kept" in await said(app, response)) == (COUNT, False)
        assert files(tmp_path) == []


async def test_a_slow_query_is_stopped_and_run_once_more_as_a_kept_one(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path) as app:
        await app.server.start()
        async with slow.shut():
            making = asyncio.ensure_future(app.server.create_response(ALL, name="All", sample_size=5))
            await until_it_is_kept(slow)
        response = await making
        assert (len(response.sample), response.total_count, response.total_count_kind) == (5, COUNT, "exact")
        assert (await said(app, response))["kept"]["rows"] == COUNT
        async with slow.shut():  # whoever asked the database would wait
            assert await rows_of(app, response) == COUNT
            assert await statements(slow) == []


@pytest.mark.parametrize("wait", [timedelta(), MOMENT])
async def test_a_pending_query_is_kept_and_its_pages_do_not_run_it_again(
    wait: timedelta, slow: Slow, tmp_path: Path
) -> None:
    async with keeping(slow, tmp_path, keep_after=timedelta(seconds=60)) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=wait)
            assert response.status == "pending"
            await until_it_is_kept(slow)
        metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        assert (metadata["kept"]["rows"], metadata["total_count"]) == (COUNT, COUNT)
        async with slow.shut():
            assert await rows_of(app, response) == COUNT
            again = await app.server.create_response(ALL, name="All", wait=wait)
            assert (again.resource_id, len(again.sample)) == (response.resource_id, COUNT)
            assert await statements(slow) == []


async def test_rows_that_may_not_be_kept_are_read_by_the_query_that_runs(slow: Slow, tmp_path: Path) -> None:
    hooks: list[Any] = [Shared(INSTITUTIONS), lambda statement, context: statement]
    async with keeping(slow, tmp_path, hooks=hooks) as app:
        await app.server.start()
        async with slow.shut():
            making = asyncio.ensure_future(app.server.create_response(ALL, name="All", count="none"))
            await slow.until(1)
            (first,) = await statements(slow)
            assert await asyncio.wait({making}, timeout=3 * MOMENT.total_seconds()) == (set(), {making})
            assert await statements(slow) == [first]
        response = await making
        assert (await said(app, response))["kept"] == {
            "kept": False,
            "reason": "The rows are narrowed by functions.",
        }
        assert files(tmp_path) == []


async def test_what_cannot_be_kept_is_served_from_the_database(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path, keep_rows=COUNT - 1) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=timedelta())
        metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        assert metadata["kept"]["reason"] == f"There are more than {COUNT - 1} rows."
        assert (await rows_of(app, response), files(tmp_path)) == (COUNT, [])


async def test_a_run_that_fails_is_tried_as_one_that_is_not_kept(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any) -> Any:
        raise DatabaseBusyError("All connections are in use.")

    monkeypatch.setattr(runs, "keep", refused)
    async with keeping(slow, tmp_path) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=timedelta())
        metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        assert metadata["kept"]["reason"] == "The rows could not all be read."
        with pytest.raises(DatabaseBusyError):
            await app.server.create_response(ALL, name="All", keep=True)


# Ends --------------------------------------------------------------------------------------------------------


async def test_a_caller_who_leaves_stops_it(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path) as app:
        await app.server.start()
        async with slow.shut():
            options: Any
            for options in ({}, {"wait": timedelta(seconds=60)}):
                making = asyncio.ensure_future(app.server.create_response(ALL, name="All", **options))
                await until_it_is_kept(slow)
                making.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await making
                await slow.until(0)
        await until_nothing_is_left(tmp_path)


async def test_a_query_that_fails_leaves_no_file(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path) as app:
        await app.server.start()
        async with slow.shut():
            dividing = select(INSTITUTIONS.c.id / (INSTITUTIONS.c.id - 7))
            response = await app.server.create_response(dividing, name="Fails", wait=timedelta())
        metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "failed")
        assert metadata["error"]["code"] == "QUERY_EXECUTION_FAILED"
        assert files(tmp_path) == []


async def test_a_deleted_one_leaves_no_file(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=timedelta())
            await until_it_is_kept(slow)
            assert files(tmp_path) != []
            await app.server.delete_resource(response.resource_id, None)
            await slow.until(0)
            await until_nothing_is_left(tmp_path)


async def test_a_shutdown_ends_it_and_a_drain_lets_it_end(slow: Slow, tmp_path: Path) -> None:
    store = MemoryStore()
    async with keeping(slow, tmp_path, store=store, secrets=SECRETS) as app:
        response = await app.server.create_response(FOREVER, name="Forever", wait=timedelta())
        await slow.until(1)
    resource = await store.get(response.resource_id)
    await slow.until(0)
    assert (resource, files(tmp_path)) == (None, [])
    async with keeping(slow, tmp_path, secrets=SECRETS) as app:
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=timedelta())
            await until_it_is_kept(slow)
            draining = asyncio.ensure_future(app.server.drain(timedelta(seconds=60)))
        await draining
        assert (await said(app, response))["kept"]["rows"] == COUNT


class TakenOver(MemoryStore):
    """A store in which another process ends every pending resource before the one that runs its query."""

    async def settle(self, resource: Resource) -> bool:
        await self.delete(resource.id)
        return await super().settle(resource)


async def test_a_resource_that_another_process_has_ended_leaves_no_file(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path, store=TakenOver(), secrets=SECRETS) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=timedelta())
        await app.server.drain(timedelta(seconds=60))
        assert (await app.server.get_resource(response.resource_id), files(tmp_path)) == (None, [])


# Time --------------------------------------------------------------------------------------------------------


async def given(seconds: Iterator[float], now: list[float]) -> AsyncGenerator[Chunk, None]:
    for now[0] in seconds:
        yield Chunk(b"", 1)


# Options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", ["sometimes", "", 1, 0, [], b"slow"])
async def test_an_option_that_is_none(keep: Any, slow: Slow, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="keep must be"):
        Kept(keep=keep)
    async with keeping(slow, tmp_path) as app:
        with pytest.raises(BadParameterError, match="keep must be"):
            await app.server.create_response(ALL, name="All", keep=keep)


@pytest.mark.long
async def test_the_setting_holds_where_the_tool_does_not_say(slow: Slow, tmp_path: Path) -> None:
    patient = timedelta(seconds=60)
    for setting, asked, kept in [
        (True, {}, True),
        (True, {"keep": False}, False),
        (True, {"keep": "slow"}, False),
        (False, {}, False),
        (False, {"keep": True}, True),
        ("slow", {"keep": True}, True),
        ("slow", {"keep": False, "wait": timedelta()}, False),
        (False, {"wait": timedelta()}, False),
        (False, {"keep": "slow", "wait": timedelta()}, True),
    ]:
        options: Any = asked
        async with keeping(slow, tmp_path, keep=setting, keep_after=patient) as app:
            response = await app.server.create_response(ALL, name="All", **options)
            metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
            assert ("kept" in metadata) is kept, (setting, asked)


async def test_without_a_storage_nothing_is_kept_by_default(slow: Slow, tmp_path: Path) -> None:
    async with keeping(slow, tmp_path, storage=None) as app:
        response = await app.server.create_response(ALL, name="All", wait=timedelta())
        assert "kept" not in await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        with pytest.raises(ConfigurationError, match="storage"):
            await app.server.create_response(ALL, name="All", keep="slow")
    with pytest.raises(ConfigurationError, match="storage"):
        async with keeping(slow, tmp_path, storage=None, keep=True):
            pass
