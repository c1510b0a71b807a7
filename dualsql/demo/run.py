"""Run the demo, server and host in one process; the rule: whatever ends it, the port is free afterwards."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass

import uvicorn
from rich.console import Console
from starlette.applications import Starlette

from dualsql.demo.app import build_app
from dualsql.demo.database import build, default_folder, keep_secret, sqlite_url
from dualsql.demo.host import act
from dualsql.demo.schema import Base
from dualsql.errors import ConfigurationError
from dualsql.server import DualResponseServer
from dualsql.settings import ALL_ACTIONS
from dualsql.store import SQLResourceStore

DEFAULT_PORT = 8765


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line can choose. Port 0 takes any that is free."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    database: str | None = None
    serve: bool = False


async def run(options: Options, console: Console) -> None:
    """Build the database, serve it, and act as a host, or with `serve` leave it running until cancelled.

    Raises:
        ConfigurationError: the port is taken, or the database cannot be used.
        StorageError: the database failed or is out of reach.
    """
    _heed_sigterm()
    with listen(options.host, options.port) as listener:
        origin = origin_of(listener)
        app = await _make_app(origin, options, console)
        async with _serving(app, listener) as server:
            if options.serve:
                console.print(_addresses(origin), soft_wrap=True, highlight=False)
                # Not `await server`: Ctrl-C cancels what is awaited here, and the server must end in order.
                await asyncio.wait({server})
            else:
                await act(origin, console)


def _heed_sigterm() -> None:
    """What a supervisor sends ends the demo as Ctrl-C does, which asyncio.run sees to itself."""
    task = asyncio.current_task()
    if task is not None:
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _make_app(origin: str, options: Options, console: Console) -> Starlette:
    folder = default_folder()
    database = options.database or sqlite_url(folder)
    with console.status("Building the database: 106,145 programs at 6,127 institutions ..."):
        await build(database)
    secret = keep_secret(folder)
    dual = DualResponseServer(
        database,
        base_url=f"{origin}/resources",
        tables=Base,
        store=SQLResourceStore(database),
        secrets=[secret],
        default_sample_size=10,
        anonymous_actions=ALL_ACTIONS,  # nobody signs in to a demo, and it shows how to pin
    )
    return build_app(dual)


class _Server(uvicorn.Server):
    """Says when it serves, and leaves Ctrl-C to asyncio.run, which cancels whoever waits here."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@asynccontextmanager
async def _serving(app: Starlette, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """The server's task, once it serves; stopped in order at the end of the block, however that comes."""
    config = uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=5)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await server.ready.wait()
        yield task
    finally:
        server.should_exit = True
        await task


def _addresses(origin: str) -> str:
    return (
        f"MCP endpoint    {origin}/mcp\n"
        f"REST resources  {origin}/resources/<id>\n\n"
        "For a host's configuration:\n"
        f'  {{"mcpServers": {{"college-scorecard": {{"type": "http", "url": "{origin}/mcp"}}}}}}\n\n'
        "Ctrl-C stops it."
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on IPv4 or IPv6, taken before any work is done.

    Raises:
        ConfigurationError: the port is taken, or the address is not one of this machine's.
    """
    try:
        # With its protocol: asyncio would else not know it for TCP and leave Nagle's 40 ms on.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
            on_failure.pop_all()
            return listener
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(
                f"Port {port} is in use.", hint="Stop what runs there, or choose another with --port."
            ) from error
        raise ConfigurationError(
            f"Cannot listen on {host}, port {port}.", hint="Try --host 127.0.0.1 and a port above 1023."
        ) from error


def origin_of(listener: socket.socket) -> str:
    """Where this machine reaches the listener; the wildcard addresses are no place to go to."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 it is taken away here
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
