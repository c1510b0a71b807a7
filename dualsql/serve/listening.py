"""uvicorn on a listening socket. The port is released when the server ends, also after an error."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from dualsql.errors import ServerUnavailableError
from dualsql.http.problems import PRIVATE_HEADERS, problem_answer
from dualsql.request_log import has_begun


def leave_on_signal(running: Running) -> None:
    """On SIGUSR1, leave the listening socket to the other processes that have it, and cancel the current task."""
    task = asyncio.current_task()

    def leave() -> None:
        running.leave()
        if task is not None:
            task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, leave)


class _Server(uvicorn.Server):
    """Sets `ready` when it serves. It handles no signals: see `stop_on_signals`."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class _HeadWithBody:
    """A transport that sends the head of an answer with its body, or alone in the next turn of the event loop.

    uvicorn writes both, and uvloop sends each write at once. One write less saves 20 us of the 270 of a page.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._call_soon = transport, asyncio.get_running_loop().call_soon
        self._head, self.is_closing = b"", transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data, behind the head if that waits."""
        if self._head or not data.startswith(b"HTTP/1.1 "):
            head, self._head = self._head, b""
            # Not writelines: asyncio's (3.12) goes on with the number of a lost socket, which another connection gets.
            self._transport.write(head + data)
        else:
            self._head = data
            self._call_soon(self._send_head)

    def close(self) -> None:
        """Close the connection once all is sent."""
        self._send_head()
        self._transport.close()

    def _send_head(self) -> None:
        if self._head and not self.is_closing():
            self.write(b"")


class _Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.transport = _HeadWithBody(transport)


class Starting:
    """An application for the time before there is a server: it answers 503 to every request.

    Args:
        reason: says what the server waits for.
    """

    def __init__(self, reason: Callable[[], str]) -> None:
        self._reason = reason

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _unavailable(self._reason())(scope, receive, send)


class _Stopped:
    """Answers 503 to the requests that uvicorn cancels because they take longer than GRACE_SECONDS."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError as stop:
            if scope["type"] != "http" or has_begun(scope):
                raise
            try:
                await _unavailable("The server is stopping.")(scope, receive, send)
            except RuntimeError:  # of uvicorn: an answer that is not logged has begun
                raise stop from None


def _unavailable(reason: str) -> ASGIApp:
    answer = problem_answer(ServerUnavailableError(reason))
    answer.headers.update(PRIVATE_HEADERS)
    return answer


class StandIn:
    """An application that answers until another one has started, and is then replaced by it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def replace(self, app: ASGIApp) -> None:
        """Let `app` answer from now on."""
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._app(scope, receive, send)


class Running:
    """An application that is served."""

    def __init__(self, server: _Server, task: asyncio.Task[None]) -> None:
        self._server = server
        self._task = task

    async def ended(self) -> None:
        """Wait until it was stopped from elsewhere. Cancelling the wait does not stop it."""
        await asyncio.wait({self._task})

    def leave(self) -> None:
        """Take no more connections, close those without a request, and each other one after its answer."""
        for server in self._server.servers:
            server.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()

    async def stop(self) -> None:
        """Take no more connections, let requests end for GRACE_SECONDS, and shut down."""
        self._server.should_exit = True
        await self._task


# `docker stop` kills after 10 seconds, Kubernetes after 30: streams are to end with an error of ours before.
GRACE_SECONDS = 5

KEEP_ALIVE_SECONDS = 75
"""How long a connection without a request stays open: longer than the proxies of examples/operations keep theirs.

Otherwise a proxy sends a request on a connection that is being closed, and answers 502 to what it may not send twice.
"""


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """In the block, Python looks for cycles whenever 10,000 more objects were made than freed, not 700.

    A page makes hundreds of objects, which live for a millisecond and are in no cycle. To look at them takes a tenth of
    its time.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 10_000) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@asynccontextmanager
async def running(
    app: ASGIApp,
    listener: socket.socket,
    *,
    trusted_proxies: Sequence[str] = (),
) -> AsyncIterator[Running]:
    """Serve `app` during the block; after it the server is shut down, if it still runs.

    The caller runs the lifespan of `app`: uvicorn writes a traceback where one is cancelled.

    Args:
        trusted_proxies: peers whose X-Forwarded-For and X-Forwarded-Proto are trusted; see `proxies_in`.
    """
    # There is no access log: a URL contains the id of a resource, with which an anonymous caller could read it.
    # uvicorn's handlers would write its records, whose tracebacks may have texts of callers, in a form of their own.
    config = uvicorn.Config(
        _Stopped(app),
        http=_Protocol,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,  # uvicorn looks for forbidden characters in each header
        lifespan="off",
        interface="asgi3",  # uvicorn takes what returns a coroutine, such as HostCheck, for ASGI 2
        # By default, uvicorn trusts each program of this machine, and the peers in a variable of the environment.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    served = Running(server, task)
    with _collecting_rarely():
        try:
            await server.ready.wait()
            yield served
        finally:
            await served.stop()
