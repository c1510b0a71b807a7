"""Run the demo, server and host in one process; the rule: whatever ends it, the port is free afterwards."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import uvicorn
from rich.console import Console
from starlette.applications import Starlette

from dualsql.demo.app import build_app
from dualsql.demo.database import build, default_folder, keep_secret, sqlite_url
from dualsql.demo.host import act
from dualsql.demo.schema import Base
from dualsql.errors import ConfigurationError
from dualsql.server import DualResponseServer
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
    """Build the database, serve it, and act as a host, or with `serve` leave it running.

    Raises:
        ConfigurationError: the port is taken, or the database cannot be used.
    """
    with listen(options.host, options.port) as listener:
        origin = f"http://{options.host}:{listener.getsockname()[1]}"
        app = await _make_app(origin, options, console)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
        if options.serve:
            console.print(_addresses(origin), soft_wrap=True)
            await server.serve(sockets=[listener])
        else:
            await _act_beside(server, listener, act(origin, console))


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
    )
    return build_app(dual)


async def _act_beside(
    server: uvicorn.Server, listener: socket.socket, acting: Coroutine[Any, Any, None]
) -> None:
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    played = asyncio.ensure_future(acting)
    # Whichever ends first ends the other: the play is over, or Ctrl-C stopped the server.
    await asyncio.wait({serving, played}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    played.cancel()
    _, outcome = await asyncio.gather(serving, played, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome


def _addresses(origin: str) -> str:
    return (
        f"MCP endpoint    {origin}/mcp\n"
        f"REST resources  {origin}/resources/<id>\n\n"
        "For a host's configuration:\n"
        f'  {{"mcpServers": {{"college-scorecard": {{"type": "http", "url": "{origin}/mcp"}}}}}}\n\n'
        "Ctrl-C stops it."
    )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket: whoever connects before the server is up waits in its queue."""
    # Without its protocol asyncio would not know it for TCP and leave Nagle's 40 ms on.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise ConfigurationError(f"Cannot listen on {host}.", hint="Try --host 127.0.0.1.") from error
        raise ConfigurationError(
            f"Port {port} is in use.", hint="Stop what runs there, or choose another with --port."
        ) from error
    return listener
