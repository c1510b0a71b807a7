"""One event loop for all servers under test, in a thread of its own: tests and fixtures may each have another one.

What belongs to a loop is made, used and closed in this one: the server, its session of MCP, the lifespan of an
application.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

T = TypeVar("T")


class SharedContexts:
    """Context managers that several callers hold at once: the first one enters, the last one leaves."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entered: dict[object, tuple[list[object], ExitStack, Any]] = {}

    @contextmanager
    def value_of(self, key: object, opened: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
        """The value of the context manager with this key, which `opened` makes for the first caller."""
        holder = object()
        with self._lock:
            if key not in self._entered:
                stack = ExitStack()
                self._entered[key] = ([], stack, stack.enter_context(opened()))
            holders, stack, value = self._entered[key]
            holders.append(holder)
        try:
            yield value
        finally:
            with self._lock:
                holders.remove(holder)
                if not holders:
                    del self._entered[key]
                    stack.close()


SHARED = SharedContexts()


def loop_of_servers() -> AbstractContextManager[BlockingPortal]:
    """The loop, which ends with its last caller."""
    return SHARED.value_of("loop", partial(start_blocking_portal, "asyncio", name="dualsql-testing"))


async def run_in(portal: BlockingPortal, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Run `work` in the loop of the portal, and await its result in any other."""
    return await asyncio.wrap_future(portal.start_task_soon(work, *arguments))


class RelayedTransport(httpx.AsyncBaseTransport):
    """Sends the requests of any loop in that of the portal."""

    def __init__(self, portal: BlockingPortal, transport: httpx.AsyncBaseTransport) -> None:
        self._portal = portal
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`. The whole answer is read first, as `httpx.ASGITransport` does."""
        content = await request.aread()
        copy_of_request = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=content,
            extensions=request.extensions,
        )
        return await run_in(self._portal, self._send, copy_of_request)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        body = b"".join([part async for part in response.stream])
        return httpx.Response(response.status_code, headers=response.headers, stream=httpx.ByteStream(body))


class RelayedClient:
    """A client in the loop of the portal; its coroutine functions are awaited in any loop.

    Args:
        prepare: called before each call, in its context.
    """

    def __init__(self, portal: BlockingPortal, client: Any, prepare: Callable[[], object]) -> None:
        self._portal = portal
        self._client = client
        self._prepare = prepare

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        return partial(self._call, value) if iscoroutinefunction(value) else value

    async def _call(
        self, work: Callable[..., Coroutine[Any, Any, Any]], /, *arguments: Any, **options: Any
    ) -> Any:
        async def prepared() -> Any:
            self._prepare()
            return await work(*arguments, **options)

        return await run_in(self._portal, prepared)
