"""A query that takes longer than its caller waits: pending, then ready or failed, and nothing in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import BadParameterError, Principal
from dualsql.errors import (
    QueryTimeoutError,
    ResourceFailedError,
    ResourcePendingError,
    TooManyQueriesError,
)
from dualsql.pending.feature import Pending
from dualsql.results.audit import AuditEvent
from dualsql.settings import ALL_ACTIONS
from tests.http.application import ALL, INSTITUTIONS, ROWS, by_header, fill, problem_of
from tests.results.pending.conftest import FOREVER, MOMENT, Slow, counting, metadata_once, running
from tests.waiting import PATIENCE, until


async def test_a_quick_query_is_answered_as_ever(
    sqlite_url: str, make_engine: Callable[..., AsyncEngine]
) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url) as app:
        waited = await app.server.create_response(ALL, name="All", wait=timedelta(seconds=30))
        plain = await app.server.create_response(ALL, name="All")
        assert (waited.status, waited.sample, waited.total_count) == (
            "ready",
            plain.sample,
            plain.total_count,
        )
        assert waited.resource_id != plain.resource_id
        metadata = (await app.http.get(f"/resources/{waited.resource_id}")).json()
        assert (metadata["status"], metadata["total_count"]) == ("ready", 60)
        assert "error" not in metadata


async def test_pending_then_ready(slow: Slow) -> None:
    async with running(slow.url) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=MOMENT)
            path = f"/resources/{response.resource_id}"
            assert (response.status, list(response.sample), response.total_count) == ("pending", [], None)
            assert [column["name"] for column in response.columns] == list(INSTITUTIONS.c.keys())

            answer = await app.http.get(path)
            assert (answer.json()["status"], answer.json()["total_count"]) == ("pending", None)
            assert answer.headers["retry-after"].isdecimal()
            for refused in (
                await app.http.get(path, params={"limit": 5}),
                await app.http.post(path, json={}),
                await app.http.get(f"{path}/rows"),
                await app.http.get(path, params={"count": "exact"}),
            ):
                assert problem_of(refused, 409)["code"] == "RESOURCE_PENDING"
                assert refused.headers["retry-after"].isdecimal()
        metadata = await metadata_once(app.http, path, "ready")
        assert (metadata["total_count"], metadata["total_count_kind"]) == (60, "exact")
        page = (await app.http.get(path, params={"limit": 60})).json()
        assert [row["id"] for row in page["data"]] == [row["id"] for row in ROWS]


async def test_its_lifetime_begins_when_it_is_ready(slow: Slow) -> None:
    async with running(slow.url, default_expiration=timedelta(minutes=15)) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=MOMENT)
            pending = await app.server.unchecked.get(response.resource_id)
        await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        ready = await app.server.unchecked.get(response.resource_id)
        assert pending and ready and pending.expires_at and ready.expires_at
        # No sweeper takes it while it may still run.
        assert pending.expires_at - pending.created_at == timedelta(minutes=25)
        lived = ready.expires_at - ready.created_at
        assert timedelta(minutes=15) < lived < timedelta(minutes=16)


async def test_pinned_while_pending_stays_pinned(slow: Slow) -> None:
    async with running(slow.url, anonymous_actions=ALL_ACTIONS) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=MOMENT)
            path = f"/resources/{response.resource_id}"
            assert (await app.http.put(path)).status_code == 200
            assert (await app.http.get(path)).json()["status"] == "pending"
        metadata = await metadata_once(app.http, path, "pinned")
        assert (metadata["expires_at"], metadata["total_count"]) == (None, 60)


async def test_who_asks_the_same_again_meets_the_query_that_runs(slow: Slow) -> None:
    events: list[AuditEvent] = []
    async with running(slow.url, audit=events.append) as app:
        await app.server.start()
        parameters: dict[str, Any] = {"name": "All", "wait": MOMENT, "metadata": {"a": 1}}
        async with slow.shut():
            first = await app.server.create_response(ALL, **parameters)
            again = await app.server.create_response(ALL, **parameters)
            assert (again.resource_id, again.status) == (first.resource_id, "pending")
            assert await slow.running() == 1
            other = await app.server.create_response(ALL, **parameters | {"name": "Others"})
            assert other.resource_id != first.resource_id
        await metadata_once(app.http, f"/resources/{first.resource_id}", "ready")
        shown = await app.server.create_response(ALL, **parameters)
        assert (shown.resource_id, shown.status, len(shown.sample)) == (first.resource_id, "ready", 60)
        # It is handed over once; after that, the same question is a new one.
        fresh = await app.server.create_response(ALL, **parameters)
        assert fresh.resource_id != first.resource_id
        handed = [
            event.rows
            for event in events
            if event.resource_id == first.resource_id and event.action == "read"
        ]
        assert handed == [60]


async def test_nobody_meets_the_query_of_somebody_else(slow: Slow) -> None:
    async with running(slow.url, authenticate=by_header) as app:
        await app.server.start()
        async with slow.shut():
            ids = {
                (
                    await app.server.create_response(ALL, name="All", wait=MOMENT, principal=principal)
                ).resource_id
                for principal in (
                    None,
                    Principal(id="ann"),
                    Principal(id="ann", tenant="a"),
                    Principal(id="bob"),
                )
            }
            assert len(ids) == 4
            for resource_id in ids:
                answer = await app.http.get(f"/resources/{resource_id}", headers={"x-user": "eve"})
                assert answer.status_code in (200, 404)
            actual = [await app.http.get(f"/resources/{each}", headers={"x-user": "bob"}) for each in ids]
            assert sorted(answer.status_code for answer in actual) == [200, 200, 404, 404]


async def test_pending_then_failed(sqlite_url: str, make_engine: Callable[..., AsyncEngine]) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url, pending_timeout=timedelta(milliseconds=300)) as app:
        response = await app.server.create_response(FOREVER, name="Forever", wait=MOMENT)
        assert response.status == "pending"
        path = f"/resources/{response.resource_id}"
        metadata = await metadata_once(app.http, path, "failed")
        assert metadata["error"]["code"] == "QUERY_TIMEOUT"
        assert "0.3 seconds" in metadata["error"]["message"]
        assert metadata["expires_at"] is not None
        refused = await app.http.get(path, params={"limit": 5})
        problem = problem_of(refused, 409)
        assert (problem["error"], problem["code"]) == ("failed", "RESOURCE_FAILED")
        assert problem["details"]["error"] == metadata["error"]
        assert "retry-after" not in refused.headers
        with pytest.raises(QueryTimeoutError):
            await app.server.create_response(FOREVER, name="Forever", wait=MOMENT)


async def test_a_database_s_words_are_not_in_what_is_kept(slow: Slow) -> None:
    async with running(slow.url) as app:
        await app.server.start()
        async with slow.shut():
            dividing = select(INSTITUTIONS.c.id / (INSTITUTIONS.c.id - 7))
            response = await app.server.create_response(dividing, name="Fails", wait=MOMENT)
        metadata = await metadata_once(app.http, f"/resources/{response.resource_id}", "failed")
        assert metadata["error"]["code"] == "QUERY_EXECUTION_FAILED"
        assert "division by zero" not in str(metadata)


async def test_waiting_no_time_at_all(sqlite_url: str, make_engine: Callable[..., AsyncEngine]) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url) as app:
        response = await app.server.create_response(counting(300_000), name="Count", wait=timedelta())
        assert response.status == "pending"
        await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        page = (await app.http.get(f"/resources/{response.resource_id}", params={"limit": 1})).json()
        assert page["data"] == [{"n": 300_000}]


async def test_a_deleted_one_is_stopped_in_the_database(slow: Slow) -> None:
    async with running(slow.url) as app:
        response = await app.server.create_response(FOREVER, name="Forever", wait=MOMENT)
        await slow.until(1)
        assert (await app.http.delete(f"/resources/{response.resource_id}")).status_code == 204
        await slow.until(0)
        assert (await app.http.get(f"/resources/{response.resource_id}")).status_code == 404


@pytest.mark.quick(1, "sqlite")
async def test_deleted_by_another_process_it_is_stopped_too(slow: Slow, store_url: str) -> None:
    from dualsql.store import SQLResourceStore
    from tests.results.pending.conftest import SECRETS

    options: dict[str, Any] = {"secrets": SECRETS, "pending_lease": timedelta(seconds=1)}
    async with (
        running(slow.url, store=SQLResourceStore(store_url), **options) as one,
        running(slow.url, store=SQLResourceStore(store_url), **options) as two,
    ):
        response = await one.server.create_response(FOREVER, name="Forever", wait=MOMENT)
        path = f"/resources/{response.resource_id}"
        assert (await two.http.get(path)).json()["status"] == "pending"
        assert problem_of(await two.http.post(path, json={}), 409)["code"] == "RESOURCE_PENDING"
        assert (await two.http.delete(path)).status_code == 204
        await slow.until(0)
        assert (await one.http.get(path)).status_code == 404


async def test_a_caller_who_goes_away_before_it_was_told_leaves_nothing(slow: Slow) -> None:
    async with running(slow.url) as app:
        asking = asyncio.ensure_future(
            app.server.create_response(FOREVER, name="Forever", wait=timedelta(seconds=60))
        )
        await slow.until(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await slow.until(0)
        assert await app.server.store.find_expired(before=app_end()) == []


def app_end() -> Any:
    """An instant by which every resource that is not pinned has expired."""
    from datetime import UTC, datetime

    return datetime.now(UTC) + timedelta(days=365)


async def test_one_of_two_callers_who_goes_away_leaves_the_other_its_query(slow: Slow) -> None:
    async with running(slow.url) as app:
        await app.server.start()
        async with slow.shut():
            both = [
                asyncio.ensure_future(app.server.create_response(ALL, name="All", wait=timedelta(seconds=60)))
                for _ in range(2)
            ]
            await slow.until(1)
            both[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await both[0]
        assert (await both[1]).total_count == 60


async def test_no_more_than_the_settings_allow(slow: Slow) -> None:
    async with running(slow.url, maximum_pending=2, maximum_concurrent_queries=1) as app:
        await app.server.start()
        async with slow.shut():
            for name in ("one", "two"):
                assert (await app.server.create_response(ALL, name=name, wait=MOMENT)).status == "pending"
            with pytest.raises(TooManyQueriesError):
                await app.server.create_response(ALL, name="three", wait=MOMENT)
            # Who asks for one of them again begins none.
            assert (await app.server.create_response(ALL, name="two", wait=MOMENT)).status == "pending"
            # Pages have places of their own.
            quick = await app.server.create_response(counting(3), name="quick")
            assert quick.total_count == 1


async def test_shutting_down_ends_what_runs(slow: Slow, store_url: str) -> None:
    from dualsql.store import SQLResourceStore
    from tests.results.pending.conftest import SECRETS

    options: dict[str, Any] = {"secrets": SECRETS}
    async with running(slow.url, store=SQLResourceStore(store_url), **options) as app:
        response = await app.server.create_response(FOREVER, name="Forever", wait=MOMENT)
        await slow.until(1)
    await slow.until(0)
    async with running(slow.url, store=SQLResourceStore(store_url), **options) as app:
        metadata = (await app.http.get(f"/resources/{response.resource_id}")).json()
        assert (metadata["status"], metadata["error"]["code"]) == ("failed", "QUERY_INTERRUPTED")


@pytest.mark.parametrize("wait", [timedelta(seconds=-1), 5, "PT5S"])
async def test_a_wait_that_is_none(
    sqlite_url: str, make_engine: Callable[..., AsyncEngine], wait: Any
) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url) as app:
        with pytest.raises(BadParameterError):
            await app.server.create_response(ALL, name="All", wait=wait)


async def test_reading_without_http_says_the_same(slow: Slow) -> None:
    async with running(slow.url, pending_timeout=timedelta(milliseconds=300)) as app:
        response = await app.server.create_response(FOREVER, name="Forever", wait=MOMENT)
        resource = await app.server.open_resource(response.resource_id, None, "read")
        with pytest.raises(ResourcePendingError):
            await app.server.unchecked.read_page(resource, None)
        await metadata_once(app.http, f"/resources/{response.resource_id}", "failed")
        resource = await app.server.open_resource(response.resource_id, None, "read")
        with pytest.raises(ResourceFailedError):
            await app.server.unchecked.read_page(resource, None)


async def test_it_ends_on_every_engine(source_url: str, make_engine: Callable[..., AsyncEngine]) -> None:
    await fill(make_engine(source_url))
    parts = [INSTITUTIONS.alias(f"part{number}") for number in range(7)]
    joined = [one.c.id < other.c.id + 1_000 for one, other in pairwise(parts)]  # always
    endless = select(func.count().label("n")).select_from(*parts).where(*joined)
    async with running(source_url) as app:
        response = await app.server.create_response(endless, name="Endless", wait=MOMENT)
        quick = await app.server.create_response(ALL, name="Quick", wait=timedelta(seconds=30))
        assert (response.status, quick.status) == ("pending", "ready")
        path = f"/resources/{response.resource_id}"
        assert (await app.http.get(path)).json()["status"] == "pending"
        assert (await app.http.delete(path)).status_code == 204
    # The server has waited for it to end: nothing reads the table any more, which could not be dropped otherwise.
    async with asyncio.timeout(PATIENCE), make_engine(source_url).begin() as connection:
        await connection.run_sync(INSTITUTIONS.drop)


async def test_what_was_seen_for_one_is_shown_to_nobody_else(slow: Slow) -> None:
    async with running(slow.url, authenticate=by_header) as app:
        await app.server.start()
        async with slow.shut():
            response = await app.server.create_response(ALL, name="All", wait=MOMENT, sample_size=3)
        await metadata_once(app.http, f"/resources/{response.resource_id}", "ready")
        resource = await app.server.open_resource(response.resource_id, None, "read")
        # Read anew, and not what the query showed to whoever asked for it.
        theirs = await app.server.features.get(Pending).show_again(resource, Principal(id="bob"))
        ours = await app.server.features.get(Pending).show_again(resource, None)
        assert (len(theirs.sample), len(ours.sample)) == (60, 3)


async def test_a_failure_is_told_as_long_as_its_resource_lives(
    sqlite_url: str, make_engine: Callable[..., AsyncEngine]
) -> None:
    await fill(make_engine(sqlite_url))
    async with running(sqlite_url, pending_timeout=timedelta(milliseconds=200)) as app:
        parameters: dict[str, Any] = {"name": "Forever", "wait": MOMENT, "expiration": timedelta()}
        first = await app.server.create_response(FOREVER, **parameters)
        await until(
            lambda: app.server.store.get(first.resource_id), lambda kept: kept and kept.status == "failed"
        )
        again = await app.server.create_response(FOREVER, **parameters)
        assert (again.status, again.resource_id == first.resource_id) == ("pending", False)
