"""Who asks in these tests, and the servers they ask. Every request goes through the real routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from dualsql.identity import AuditEvent, static_tokens
from dualsql.resource import Principal
from tests.http.application import Application, headers_of, running

ANA = Principal(id="ana", tenant="acme")
BOB = Principal(id="bob", tenant="acme")
EVE = Principal(id="ana", tenant="evil")
TOKENS = {"token-of-ana": ANA, "token-of-bob": BOB, "token-of-eve": EVE}

AS_ANA = {"Authorization": "Bearer token-of-ana"}
AS_BOB = {"Authorization": "Bearer token-of-bob"}
AS_EVE = {"Authorization": "Bearer token-of-eve"}
STRANGERS: list[dict[str, str]] = [{}, AS_BOB, AS_EVE]


class Trail(list[AuditEvent]):
    """An audit sink that remembers."""

    def __call__(self, event: AuditEvent) -> None:
        self.append(event)

    @property
    def actions(self) -> list[str]:
        return [event.action for event in self]


@asynccontextmanager
async def people(url: str, **options: Any) -> AsyncIterator[Application]:
    """A server that knows Ana, Bob and Eve."""
    async with running(url, **{"authenticate": static_tokens(TOKENS), **options}) as application:
        yield application


@asynccontextmanager
async def several(number: int, url: str, **options: Any) -> AsyncIterator[list[Application]]:
    """Such servers, as processes that share what their options give them."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                people(
                    url, **{name: value() if name == "store" else value for name, value in options.items()}
                )
            )
            for _ in range(number)
        ]


async def every_verb(http: httpx.AsyncClient, path: str, **options: Any) -> list[httpx.Response]:
    """What each verb answers, the deadly one last."""
    return [
        await http.get(path, **options),
        await http.get(f"{path}?limit=1", **options),
        await http.post(path, json={"limit": 1}, **options),
        await http.put(path, **options),
        await http.delete(path, **options),
    ]


def same(answers: list[httpx.Response], expected: list[httpx.Response]) -> bool:
    """Whether nobody could tell them apart."""
    return [(a.status_code, a.content, headers_of(a)) for a in answers] == [
        (e.status_code, e.content, headers_of(e)) for e in expected
    ]
