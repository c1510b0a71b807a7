"""Who may do what: bearers of links, strangers, latecomers; and that ids cannot be found by probing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dualsql.resource import Principal, Resource, new_resource_id
from dualsql.settings import Action
from dualsql.store import MemoryStore, Requester
from tests.http.application import Application, by_header, headers_of, problem_of, running

MOMENT = timedelta(microseconds=1)
ANN = Principal(id="ann", tenant="north")


async def every_verb(http: httpx.AsyncClient, path: str, **options: Any) -> list[httpx.Response]:
    return [
        await http.get(path, **options),
        await http.get(f"{path}?limit=1", **options),
        await http.post(path, json={"limit": 1}, **options),
        await http.put(path, **options),
        await http.delete(path, **options),
    ]


async def test_an_unknown_resource_is_not_found(application: Application) -> None:
    for response in await every_verb(application.http, f"/resources/{new_resource_id()}"):
        problem = problem_of(response, 404)
        assert (problem["error"], problem["code"]) == ("not_found", "RESOURCE_NOT_FOUND")


class CountingStore(MemoryStore):
    """A memory store that knows what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        self.asked.append(resource_id)
        return await super().get(resource_id, viewer)


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "resource_id",
    [
        "a",
        "a" * 10_000,
        "../../etc/passwd%00",
        "%",
        "ünïcode",
        "\x00",
        "' OR 1=1 --",
        "*",
        "{}",
        " ",
        "\ufffd",
    ],
)
async def test_every_id_that_is_not_there_gets_the_same_answer_at_the_same_cost(
    institutions_url: str, resource_id: str
) -> None:
    store = CountingStore()
    async with running(institutions_url, store=store) as application:
        expected = await every_verb(application.http, f"/resources/{new_resource_id()}")
        unknown, store.asked = len(store.asked), []
        answers = await every_verb(
            application.http, f"/resources/{quote(resource_id.replace('/', ''), safe='')}"
        )
        assert [answer.content for answer in answers] == [answer.content for answer in expected]
        assert list(map(headers_of, answers)) == list(map(headers_of, expected))
        assert len(store.asked) == unknown == 5
        assert all(len(asked) <= 64 for asked in store.asked)


async def test_a_shortened_or_lengthened_id_opens_nothing(application: Application) -> None:
    path = await application.create()
    for other in (
        path[:-1],
        f"{path}A",
        f"{path}%0A",
        f"{path}%00",
        f"{path}/",
        f"{path}%2F",
        path.swapcase(),
    ):
        assert (await application.http.get(other)).status_code == 404


async def test_an_expired_resource_is_gone(institutions_url: str) -> None:
    async with running(institutions_url) as application:
        for response in await every_verb(application.http, await application.create(expiration=MOMENT)):
            problem = problem_of(response, 410)
            assert (problem["error"], problem["code"]) == ("expired", "RESOURCE_EXPIRED")


async def test_after_the_retention_an_expired_resource_was_never_there(institutions_url: str) -> None:
    async with running(institutions_url, gone_retention=timedelta(0)) as application:
        for response in await every_verb(application.http, await application.create(expiration=MOMENT)):
            assert problem_of(response, 404) == (await application.http.get("/resources/unknown")).json()


async def test_an_unpinned_resource_does_not_outlive_the_cap(institutions_url: str) -> None:
    async with running(
        institutions_url, maximum_lifetime=MOMENT, default_expiration=MOMENT, sliding_expiration=True
    ) as application:
        path = await application.create()
        problem_of(await application.http.get(path), 410)
        problem_of(await application.http.put(path), 410)


async def test_a_resource_answers_its_owner_and_no_one_else(institutions_url: str) -> None:
    async with running(institutions_url, authenticate=by_header) as application:
        path = await application.create(principal=ANN)
        unknown = (await application.http.get("/resources/unknown")).json()
        for headers in (
            {},
            {"X-User": "bob", "X-Tenant": "north"},
            {"X-User": "ann"},
            {"X-User": "ann", "X-Tenant": "south"},
            {"X-User": "north", "X-Tenant": "ann"},
        ):
            for response in await every_verb(application.http, path, headers=headers):
                assert problem_of(response, 404) == unknown
        statuses = [
            response.status_code
            for response in await every_verb(
                application.http, path, headers={"X-User": "ann", "X-Tenant": "north"}
            )
        ]
        assert statuses == [200, 200, 200, 200, 204]


async def test_expired_is_said_only_to_a_caller_who_might_have_read_it(institutions_url: str) -> None:
    async with running(institutions_url, authenticate=by_header) as application:
        path = await application.create(principal=ANN, expiration=MOMENT)
        problem_of(await application.http.get(path, headers={"X-User": "ann", "X-Tenant": "north"}), 410)
        problem_of(await application.http.get(path, headers={"X-User": "bob", "X-Tenant": "north"}), 404)
        problem_of(await application.http.get(path), 404)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("actions", "statuses"),
    [
        ({"read", "pin", "delete"}, [200, 200, 200, 200, 204]),
        ({"read"}, [200, 200, 200, 403, 403]),
        ({"read", "pin"}, [200, 200, 200, 200, 403]),
        ({"read", "delete"}, [200, 200, 200, 403, 204]),
        (set(), [404, 404, 404, 404, 404]),
    ],
)
async def test_what_the_bearer_of_a_link_may_do_is_a_setting(
    institutions_url: str, actions: set[Action], statuses: list[int]
) -> None:
    async with running(institutions_url, anonymous_actions=frozenset(actions)) as application:
        answers = await every_verb(application.http, await application.create())
        assert [answer.status_code for answer in answers] == statuses
        assert all(
            problem_of(answer, 403)["error"] == "forbidden" for answer in answers if answer.status_code == 403
        )


async def test_an_authenticator_s_refusal_is_passed_on(institutions_url: str) -> None:
    async def refuse(request: Request) -> Principal | None:
        raise HTTPException(401, "Sign in.", headers={"WWW-Authenticate": "Bearer"})

    async with running(institutions_url, authenticate=refuse) as application:
        path = await application.create()
        for response in await every_verb(application.http, path):
            assert problem_of(response, 401)["message"] == "Sign in."
            assert response.headers["www-authenticate"] == "Bearer"


async def test_a_broken_authenticator_opens_nothing_and_tells_nothing(institutions_url: str) -> None:
    async def fail(request: Request) -> Principal | None:
        raise ConnectionError("ldap://admin:hunter2@directory")

    async with running(institutions_url, authenticate=fail) as application:
        path = await application.create()
        for response in await every_verb(application.http, path):
            assert "hunter2" not in response.text
            assert problem_of(response, 500)["error"] == "internal_error"
