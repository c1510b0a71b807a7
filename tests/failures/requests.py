"""What applications and tools do with a server, over real HTTP, while its store may be away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from dualsql.features import DualResponseServer
from dualsql.http.problems import Problems, make_private
from dualsql.settings import ALL_ACTIONS
from dualsql.store import SQLResourceStore
from tests.http.application import ALL, problem_of
from tests.http.live.serving import LiveServer, listening
from tests.waiting import PATIENCE

SECRETS = ["the secret of a server whose store comes and goes"]
LEAKS = ("sql", "asyncpg", "postgres", "/tmp", "disk", "locked", "Traceback")


class ToolServer(DualResponseServer):
    """A server whose tool can be called over HTTP: POST /tool creates a resource and answers its id."""

    def router(self) -> ASGIApp:
        """The REST resources, and the tool."""

        async def call(_request: Request) -> Response:
            response = await self.create_response(ALL, name="Institutions", count="none")
            return JSONResponse({"id": response.resource_id}, 201)

        routes = [
            Route("/tool", call, methods=["POST"], middleware=[Middleware(Problems)]),
            Mount("/", super().router()),
        ]
        return Problems(Starlette(routes=routes), [make_private])


@asynccontextmanager
async def serving(
    data: str, store: str, *, timeout: float = 10, statement: Any = ALL
) -> AsyncIterator[LiveServer]:
    """A server under uvicorn whose store gives up after `timeout` seconds."""
    kept = SQLResourceStore(store, timeout=timedelta(seconds=timeout))
    async with listening(
        data,
        kind=ToolServer,
        statement=statement,
        store=kept,
        secrets=SECRETS,
        anonymous_actions=ALL_ACTIONS,
    ) as live:
        yield live


async def create(live: LiveServer) -> str:
    """A new resource; its path."""
    answer = await live.http.post("/resources/tool")
    assert answer.status_code == 201, answer.text
    return f"/resources/{answer.json()['id']}"


async def all_requests(live: LiveServer, path: str) -> dict[str, httpx.Response]:
    """Every request once, the last of which deletes the resource."""
    return {
        "create": await live.http.post("/resources/tool"),
        "read": await live.http.get(path, params={"limit": 1}),
        "describe": await live.http.get(path),
        "pin": await live.http.put(path),
        "delete": await live.http.delete(path),
    }


async def assert_all_work(live: LiveServer) -> None:
    """Each request does what it should."""
    done = await all_requests(live, await create(live))
    assert all(answer.is_success for answer in done.values()), {k: v.text for k, v in done.items()}


async def assert_all_are_unavailable(live: LiveServer, path: str) -> None:
    """Each request is answered in time that the store is away, and when to come again."""
    async with asyncio.timeout(PATIENCE):
        done = await all_requests(live, path)
    for answer in done.values():
        assert_unavailable(answer)


def assert_unavailable(answer: httpx.Response) -> dict[str, Any]:
    """The problem of a store that is away; nothing of the reason is in it."""
    problem = problem_of(answer, 503)
    assert (problem["error"], problem["code"]) == ("unavailable", "STORAGE_ERROR")
    assert answer.headers["retry-after"].isdecimal()
    shown = answer.text.replace("dualsql migrate", "")
    assert not [leak for leak in LEAKS if leak in shown], answer.text
    return problem


async def wait_until_it_works(live: LiveServer, path: str) -> None:
    """Ask again and again; all but an answer of a store that is away is wrong until then."""
    async with asyncio.timeout(PATIENCE):
        while (answer := await live.http.get(path)).status_code != 200:
            assert_unavailable(answer)
