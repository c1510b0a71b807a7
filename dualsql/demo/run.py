"""Run the demo, server and host in one process. Whatever ends it, the port is free afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from rich.console import Console
from starlette.applications import Starlette

from dualsql.demo.app import build_app
from dualsql.demo.database import Base, build, default_folder, keep_secret, sqlite_url
from dualsql.demo.host import act
from dualsql.serve.listening import heed_sigterm, listen, origin_of, running
from dualsql.server import DualResponseServer
from dualsql.settings import ALL_ACTIONS
from dualsql.store import SQLResourceStore

DEFAULT_PORT = 8765


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the command line can choose. Port 0 takes any that is free."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    database: str | None = None
    serve: bool = False


async def run(options: DemoOptions, console: Console) -> None:
    """Build the database, serve it, and act as a host, or with `serve` leave it running until cancelled.

    Raises:
        ConfigurationError: the port is taken, or the database cannot be used.
        StorageError: the database failed or is out of reach.
    """
    heed_sigterm()
    with listen(options.host, options.port) as listener:
        origin = origin_of(listener)
        app = await _make_app(origin, options, console)
        async with running(app, listener) as server:
            if options.serve:
                console.print(_addresses(origin), soft_wrap=True, highlight=False)
                # Not `await server`: Ctrl-C cancels what is awaited here, and the server must end in order.
                await asyncio.wait({server})
            else:
                await act(origin, console)


async def _make_app(origin: str, options: DemoOptions, console: Console) -> Starlette:
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


def _addresses(origin: str) -> str:
    return (
        f"MCP endpoint    {origin}/mcp\n"
        f"REST resources  {origin}/resources/<id>\n\n"
        "For a host's configuration:\n"
        f'  {{"mcpServers": {{"college-scorecard": {{"type": "http", "url": "{origin}/mcp"}}}}}}\n\n'
        "Ctrl-C stops it."
    )
