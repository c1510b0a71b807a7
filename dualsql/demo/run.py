"""`dualsql demo`: server and host in one process."""

from __future__ import annotations

from rich.console import Console
from starlette.applications import Starlette

from dualsql.demo.app import build_app
from dualsql.demo.database import Base, build, default_folder, keep_secret, sqlite_url
from dualsql.demo.host import act
from dualsql.feature_list import default_features
from dualsql.features import DualResponseServer
from dualsql.serve.listening import running
from dualsql.serve.sockets import listen, origin_of_listener, stop_on_signals
from dualsql.settings import ALL_ACTIONS, Settings
from dualsql.store import SQLResourceStore
from dualsql.web.feature import Pages


async def run(
    console: Console, *, host: str, port: int, database: str | None = None, keeps_serving: bool = False
) -> None:
    """Build the database and serve it, then act as a host.

    Args:
        port: 0 takes any that is free.
        database: the URL of a database; by default a SQLite file in the user's cache.
        keeps_serving: do not act as a host, and serve until cancelled.

    Raises:
        ConfigurationError: the port is in use, or the database cannot be used.
        StorageError: the database failed or is out of reach.
    """
    stop_on_signals()
    with listen(host, port) as listener:
        origin = origin_of_listener(listener)
        app = await _make_app(origin, database or sqlite_url(default_folder()), console)
        async with app.router.lifespan_context(app), running(app, listener) as server:
            if keeps_serving:
                console.print(_addresses(origin), soft_wrap=True, highlight=False)
                await server.ended()
            else:
                await act(origin, console)


async def _make_app(origin: str, database: str, console: Console) -> Starlette:
    with console.status("Building the database: 106,145 programs at 6,127 institutions ..."):
        await build(database)
    dual = DualResponseServer(
        database,
        base_url=f"{origin}/resources",
        tables=Base,
        store=SQLResourceStore(database),
        secrets=[keep_secret(default_folder())],
        features=default_features(Pages(pages_show_sql=True, pages_show_values=True)),
        # The demo has no login, and it pins a result.
        settings=Settings(default_sample_size=10, anonymous_actions=ALL_ACTIONS),
    )
    return build_app(dual)


def _addresses(origin: str) -> str:
    return (
        f"MCP endpoint    {origin}/mcp\n"
        f"REST resources  {origin}/resources/<id>\n"
        f"For a browser   {origin}/\n\n"
        "For a host's configuration:\n"
        f'  {{"mcpServers": {{"college-scorecard": {{"type": "http", "url": "{origin}/mcp"}}}}}}\n\n'
        "Press Ctrl-C to stop."
    )
