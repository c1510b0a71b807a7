"""Listening sockets, and uvicorn on them. The port is released when the server ends, also after an error."""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from ipaddress import ip_address, ip_network

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from dualsql.errors import ConfigurationError, ServerUnavailableError
from dualsql.http.problems import PRIVATE_HEADERS, problem_answer
from dualsql.request_log import has_begun


def stop_on_signals() -> None:
    """Cancel the current task on each SIGTERM, which supervisors send, and on each Ctrl-C.

    asyncio.run cancels it on the first Ctrl-C only: a second one ends the loop in the middle of whatever runs.
    """
    task = asyncio.current_task()
    if task is not None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # A shell lets its background jobs ignore Ctrl-C.
            if signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(NotImplementedError):  # Windows
                    asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def on_sighup(reload: Callable[[], None]) -> None:
    """Call `reload` on SIGHUP, which ends the process otherwise."""
    with suppress(NotImplementedError, AttributeError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


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


def proxies_in(text: str) -> tuple[str, ...]:
    """Addresses and networks, separated by commas.

    Raises:
        ConfigurationError: a part is not an address or a network, or it is the network of all addresses.
    """
    proxies = tuple(part.strip() for part in text.split(",") if part.strip())
    for proxy in proxies:
        try:
            network = ip_network(proxy)
        except ValueError as error:
            raise ConfigurationError(
                f"--trusted-proxies: {proxy[:200]!r} is not an address or a network.",
                hint="Give addresses of proxies, separated by commas: 127.0.0.1,10.0.0.0/8",
            ) from error
        if not network.prefixlen:
            raise ConfigurationError(
                f"--trusted-proxies: {proxy!r} is every address, and any caller could say that it is another one.",
                hint="Give the addresses of your proxies.",
            )
    return proxies


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
        log_config=None,
        log_level="warning",
        access_log=False,
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


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on IPv4 or IPv6.

    Raises:
        ConfigurationError: the port is taken, or the address is not one of this machine's.
    """
    try:
        # With the protocol, because asyncio disables Nagle's algorithm (40 ms) only on sockets with IPPROTO_TCP.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            # Otherwise a restart fails while connections of the last process are in TIME_WAIT.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            on_failure.pop_all()
            return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"Port {port} is in use.",
                hint="Stop the program that uses it, or choose another port with --port.",
            ) from error
        raise ConfigurationError(
            f"Cannot listen on {host}, port {port}.", hint="Use --host 127.0.0.1 and a port above 1023."
        ) from error


def origin_of_listener(listener: socket.socket) -> str:
    """The origin at which this machine reaches the listener; loopback for the wildcard addresses."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 it is replaced here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine reaches the listener."""
    return ip_address(str(listener.getsockname()[0])).is_loopback


def is_wildcard(listener: socket.socket) -> bool:
    """Whether it listens on every address of the machine."""
    return ip_address(str(listener.getsockname()[0])).is_unspecified
