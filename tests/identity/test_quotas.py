"""How much one principal may keep, also when several processes create at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql.errors import ConfigurationError, LimitExceededError
from dualsql.resource import Principal
from dualsql.results.quotas import ANY_EXPIRY
from dualsql.settings import Settings
from dualsql.store import SQLResourceStore
from dualsql.store.rows import size_of
from tests.http.application import Application, problem_of
from tests.identity.conftest import SECRETS
from tests.identity.people import ANA, AS_ANA, BOB, EVE, people, several


async def _alive(application: Application, *paths: str) -> list[bool]:
    return [await application.server.unchecked.get(path.rpartition("/")[2]) is not None for path in paths]


async def test_the_oldest_unpinned_makes_room(institutions_url: str) -> None:
    async with people(institutions_url, quota_resources=3) as application:
        pinned, old, new = [await application.create(principal=ANA) for _ in range(3)]
        assert (await application.http.put(pinned, headers=AS_ANA)).status_code == 200
        newest = await application.create(principal=ANA)
        assert await _alive(application, pinned, old, new, newest) == [True, False, True, True]
        problem_of(await application.http.get(old, headers=AS_ANA), 404)


async def test_nobody_else_s_make_room(institutions_url: str) -> None:
    async with people(institutions_url, quota_resources=1) as application:
        others = [
            await application.create(principal=other) for other in (BOB, EVE, Principal(id="ana"), None, None)
        ]
        first, second = [await application.create(principal=ANA) for _ in range(2)]
        assert await _alive(application, *others) == [True] * 5
        assert await _alive(application, first, second) == [False, True]


async def test_when_what_is_pinned_fills_the_quota_nothing_is_lost_and_nothing_is_added(
    institutions_url: str,
) -> None:
    async with people(institutions_url, quota_resources=2) as application:
        paths = [await application.create(principal=ANA) for _ in range(2)]
        for path in paths:
            await application.http.put(path, headers=AS_ANA)
        with pytest.raises(LimitExceededError) as error:
            await application.create(principal=ANA)
        assert "pinned" in error.value.hint
        assert error.value.details["quota_resources"] == 2
        assert await _alive(application, *paths) == [True, True]
        await application.http.delete(paths[0], headers=AS_ANA)
        assert await application.create(principal=ANA)


async def test_bytes_count_with_their_metadata(institutions_url: str) -> None:
    note = {"note": "x" * 10_000}
    async with people(institutions_url, quota_bytes=25_000) as application:
        paths = [await application.create(principal=ANA, metadata=note) for _ in range(3)]
        assert await _alive(application, *paths) == [False, True, True]
        with pytest.raises(LimitExceededError):
            await application.create(principal=ANA, metadata={"note": "x" * 30_000})
        assert await _alive(application, *paths) == [False, True, True]


async def test_the_sample_at_rest_counts(institutions_url: str) -> None:
    sizes = []
    for keeps in (False, True):
        async with people(institutions_url, keep_sample=keeps) as application:
            path = await application.create(principal=ANA)
            resource = await application.server.unchecked.get(path.rpartition("/")[2])
            assert resource is not None
            sizes.append(size_of(resource))
    assert sizes[1] - sizes[0] > 1_000


async def test_without_quotas_there_is_no_end(institutions_url: str) -> None:
    async with people(institutions_url, quota_resources=None, quota_bytes=None) as application:
        paths = [await application.create(principal=ANA) for _ in range(5)]
        assert all(await _alive(application, *paths))


@asynccontextmanager
async def calling_from(application: Application, *addresses: str | None) -> AsyncIterator[list[Any]]:
    """A client at each address; None for a socket without one."""
    app = Starlette(routes=[Mount("/resources", application.server.router())])
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                httpx.AsyncClient(
                    transport=httpx.ASGITransport(_without_client(app), client=("", 0))
                    if address is None
                    else httpx.ASGITransport(app, client=(address, 1)),
                    base_url="http://127.0.0.1:8000",
                )
            )
            for address in addresses
        ]


def _without_client(app: ASGIApp) -> ASGIApp:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "client": None}, receive, send)

    return call


async def test_pins_of_what_nobody_owns_count_against_their_address(institutions_url: str) -> None:
    async with (
        people(institutions_url, quota_resources=2) as application,
        calling_from(application, "203.0.113.7", "203.0.113.8", "2001:db8::1", "2001:db8::2") as callers,
    ):
        one, other, six, six_again = callers
        first, second, third = [await application.create() for _ in range(3)]
        for path in (first, second, first):  # what is pinned already counts once
            assert (await one.put(path)).status_code == 200
        refused = problem_of(await one.put(third), 413)
        assert refused["code"] == "LIMIT_EXCEEDED" and "npin or delete" in refused["hint"]
        assert (await other.put(third)).status_code == 200
        assert (await other.put(first)).status_code == 200  # whose pin it is stays
        assert (await one.delete(f"{first}/pin")).status_code == 200
        assert (await one.put(first)).status_code == 200
        more = [await application.create() for _ in range(4)]
        # A host of IPv6 may choose any address of its network.
        statuses = [
            (await caller.put(path)).status_code
            for caller, path in zip((six, six_again) * 2, more, strict=True)
        ]
        assert statuses == [200, 200, 413, 413]
        assert (await one.put(more[2], headers=AS_ANA)).status_code == 200  # a known caller's own count


async def test_pins_without_an_address_count_against_the_link(institutions_url: str) -> None:
    async with (
        people(institutions_url, quota_resources=1) as application,
        calling_from(application, None) as [nowhere],
    ):
        path = await application.create()
        refined = []
        for limit in (1, 2):
            answer = await nowhere.post(f"{path}/refine", json={"limit": limit})
            refined.append("/resources/" + answer.json()["resource"]["uri"].rpartition("/")[2])
        assert [(await nowhere.put(each)).status_code for each in (*refined, path)] == [200, 413, 413]
        assert (await nowhere.put(await application.create())).status_code == 200


async def test_the_bytes_of_pins_count(institutions_url: str) -> None:
    note = {"note": "x" * 10_000}
    async with people(institutions_url, quota_bytes=25_000) as application:
        paths = [await application.create(metadata=note) for _ in range(3)]
        assert [(await application.http.put(each)).status_code for each in paths] == [200, 200, 413]


async def test_the_store_does_not_learn_an_address(institutions_url: str) -> None:
    async with people(institutions_url) as application, calling_from(application, "203.0.113.7") as [one]:
        path = await application.create()
        await one.put(path)
        resource = await application.server.unchecked.get(path.rpartition("/")[2])
        assert resource is not None and resource.pinned_by is not None
        assert re.fullmatch("[0-9a-f]{64}", resource.pinned_by)


@pytest.mark.parametrize("option", [{"quota_resources": 0}, {"quota_bytes": -1}, {"quota_resources": "9"}])
def test_a_quota_of_nothing_is_a_mistake(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Settings(**option)


@pytest.mark.quick(1, "sqlite")
async def test_creators_in_several_processes(
    institutions_url: str, make_store: Callable[[], SQLResourceStore]
) -> None:
    """While four create at once the quota can be exceeded by three; the next creation puts it right."""
    async with several(4, institutions_url, store=make_store, secrets=SECRETS, quota_resources=5) as servers:
        pinned = await servers[0].create(principal=ANA)
        await servers[0].http.put(pinned, headers=AS_ANA)
        bystander = await servers[0].create(principal=BOB)
        for _ in range(4):
            await asyncio.gather(*(server.create(principal=ANA) for server in servers))
            listing = await servers[0].server.list_resources(ANA)
            assert len(listing.resources) <= 5 + 3
        last = await servers[0].create(principal=ANA)
        left = {f"/resources/{each.id}" for each in (await servers[1].server.list_resources(ANA)).resources}
        assert len(left) == 5 and {pinned, last} <= left
        assert await _alive(servers[2], bystander) == [True]


async def test_a_quota_that_was_lowered_is_met_at_the_next_creation(
    institutions_url: str, make_store: Callable[[], SQLResourceStore]
) -> None:
    async with several(1, institutions_url, store=make_store, secrets=SECRETS) as [generous]:
        paths = [await generous.create(principal=ANA) for _ in range(12)]
    async with several(1, institutions_url, store=make_store, secrets=SECRETS, quota_resources=2) as [strict]:
        await strict.create(principal=ANA)
        assert await _alive(strict, *paths) == [False] * 11 + [True]


async def test_what_was_pinned_since_it_was_counted_is_not_evicted(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        pinned, other = [await application.create(principal=ANA) for _ in range(2)]
        assert (await application.http.put(pinned, headers=AS_ANA)).status_code == 200
        ids = [path.rpartition("/")[2] for path in (pinned, other)]
        assert await application.server.store.delete(*ids, expired_before=ANY_EXPIRY) == 1
        assert await _alive(application, pinned, other) == [True, False]
