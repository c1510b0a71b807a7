"""A principal's own resources, over REST and with the client."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.resource import Principal, Resource
from dualsql.settings import Action
from dualsql.store import SQLResourceStore
from dualsql_client import DualResponseClient, FetchError, ResourceNotFoundError
from dualsql_client.wire import ListedResource, ResourceListing
from tests.http.application import BASE_URL, Application, assert_private, problem_of, running
from tests.identity.conftest import SECRETS
from tests.identity.people import ANA, AS_ANA, AS_BOB, AS_EVE, BOB, people

HERE = "/resources/"


async def _names(application: Application, headers: dict[str, str], query: str = "") -> list[str]:
    answer = await application.http.get(HERE + query, headers=headers)
    assert answer.status_code == 200, answer.text
    return [f"/resources/{entry['url'].rpartition('/')[2]}" for entry in answer.json()["resources"]]


async def test_each_sees_its_own_newest_first(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        first = await application.create(principal=ANA)
        await application.create(principal=BOB)
        await application.create()
        second = await application.create(principal=ANA)
        assert await _names(application, AS_ANA) == [second, first]
        assert len(await _names(application, AS_BOB)) == 1
        assert await _names(application, AS_EVE) == []


async def test_an_entry_is_the_metadata_and_where_it_is(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        path = await application.create(principal=ANA, metadata={"asked": "everything"})
        answer = await application.http.get(HERE, headers=AS_ANA)
        assert_private(answer)
        listing = answer.json()
        assert listing.keys() == ResourceListing.__annotations__.keys() - {"unreadable"}
        [entry] = listing["resources"]
        assert entry.keys() == ListedResource.__annotations__.keys() - {"error", "kept"} | {"url"}
        described = (await application.http.get(path, headers=AS_ANA)).json()
        assert entry == {**described, "url": BASE_URL.removesuffix("/resources") + path}
        assert listing["next_cursor"] is None


async def test_pages_joined_are_the_whole(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        for _ in range(5):
            await application.create(principal=ANA)
        whole = await _names(application, AS_ANA)
        joined: list[str] = []
        query = "?limit=2"
        while query:
            answer = (await application.http.get(HERE + query, headers=AS_ANA)).json()
            joined += [f"/resources/{entry['url'].rpartition('/')[2]}" for entry in answer["resources"]]
            cursor = answer["next_cursor"]
            query = f"?limit=2&cursor={cursor}" if cursor else ""
        assert joined == whole and len(joined) == 5


async def test_a_cursor_of_somebody_else_opens_nothing(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        for _ in range(3):
            await application.create(principal=ANA)
        cursor = (await application.http.get(f"{HERE}?limit=1", headers=AS_ANA)).json()["next_cursor"]
        assert await _names(application, AS_EVE, f"?cursor={cursor}") == []


def _cursor(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "offset=1",
        "cursor=",
        "cursor=x",
        "cursor=%F0%9F%92%A9",
        "cursor=" + "A" * 2_000,
        f"cursor={_cursor('2026-11-21T00:00:00 id')}",
        f"cursor={_cursor('2026-11-21T00:00:00+00:00 ' + chr(0))}",
        f"cursor={_cursor('2026-11-21T00:00:00+00:00 ' + 'a' * 65)}",
        f"cursor={_cursor('0001-01-01T00:00:00+14:00 id')}",
        f"cursor={'.' * 500}{_cursor('2026-11-21T00:00:00+00:00 id')}",  # base64 skips what is none
        "cursor=a&cursor=b",
    ],
)
async def test_what_is_out_of_bounds_is_a_bad_request(institutions_url: str, query: str) -> None:
    async with people(institutions_url) as application:
        problem_of(await application.http.get(f"{HERE}?{query}", headers=AS_ANA), 400)


async def test_a_caller_nobody_knows_is_asked_who_it_is(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        await application.create()
        answer = await application.http.get(HERE)
        assert problem_of(answer, 401)["code"] == "UNAUTHENTICATED"
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_where_nobody_can_be_known_there_is_no_listing(institutions_url: str) -> None:
    async with running(institutions_url) as application:
        await application.create()
        problem = problem_of(await application.http.get(HERE), 404)
        assert "does not know its callers" in problem["message"] and "link" in problem["hint"]


async def test_authorize_hides_what_may_not_be_read(institutions_url: str) -> None:
    hidden: set[str] = set()

    async def visible(principal: Principal | None, resource: Resource, action: Action) -> bool:
        return resource.id not in hidden

    async with people(institutions_url, authorize=visible) as application:
        shown, other = await application.create(principal=ANA), await application.create(principal=ANA)
        hidden.add(other.rpartition("/")[2])
        assert await _names(application, AS_ANA) == [shown]


async def test_a_row_given_to_somebody_else_in_the_table_is_not_shown(
    institutions_url: str,
    store_url: str,
    make_store: Callable[[], SQLResourceStore],
    make_engine: Callable[[str], AsyncEngine],
) -> None:
    async with people(institutions_url, store=make_store(), secrets=SECRETS) as application:
        mine = await application.create(principal=ANA)
        await application.create(principal=BOB)
        async with make_engine(store_url).begin() as connection:
            await connection.execute(text("UPDATE dualsql_resources SET owner = 'ana' WHERE owner = 'bob'"))
        assert await _names(application, AS_ANA) == [mine]


class TestClient:
    async def test_it_walks_all_pages(self, institutions_url: str) -> None:
        async with people(institutions_url) as application:
            for number in range(5):
                await application.create(principal=ANA, expiration=timedelta(minutes=number + 1))
            async with DualResponseClient(BASE_URL, http=application.http, headers=AS_ANA) as client:
                resources = [each async for each in client.list_resources(page_size=2)]
                assert [
                    f"/resources/{each.resource_uri.rpartition('/')[2]}" for each in resources
                ] == await _names(application, AS_ANA)
                assert len(await resources[0].fetch_all()) == resources[0].total_count == 60
                assert resources[0].name == "Institutions" and resources[0].sample == []
                assert resources[0].expires_at is not None

    async def test_a_stranger_is_refused(self, institutions_url: str) -> None:
        async with (
            people(institutions_url) as application,
            DualResponseClient(BASE_URL, http=application.http) as client,
        ):
            with pytest.raises(FetchError) as error:
                [each async for each in client.list_resources()]
            assert error.value.status == 401

    async def test_where_there_is_no_listing(self, institutions_url: str) -> None:
        async with (
            running(institutions_url) as application,
            DualResponseClient(BASE_URL, http=application.http) as client,
        ):
            with pytest.raises(ResourceNotFoundError):
                [each async for each in client.list_resources()]


async def test_the_server_s_own_code_lists_too(institutions_url: str) -> None:
    async with people(institutions_url) as application:
        path = await application.create(principal=ANA)
        listing: Any = await application.server.list_resources(ANA, limit=1)
        assert [f"/resources/{each.id}" for each in listing.resources] == [path]
        assert listing.next_cursor is None
