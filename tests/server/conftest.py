"""A server over the school database, one for every engine, and the statements it sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from tests.schools import Base, fill
from tests.servers import create_server

BASE_URL = "http://127.0.0.1:8000/resources"
UNHURRIED = timedelta(seconds=30)
"""A count_budget for tests whose machine may be busy."""
MakeServer = Callable[..., DualResponseServer]


@pytest.fixture
async def schools(engine: AsyncEngine) -> AsyncEngine:
    """The engine, filled."""
    await fill(engine)
    return engine


@pytest.fixture
async def make_server(schools: AsyncEngine) -> AsyncIterator[MakeServer]:
    """A function from options to a server; all it made are shut down when the test ends."""
    servers: list[DualResponseServer] = []

    def make(**options: Any) -> DualResponseServer:
        settings: dict[str, Any] = {
            "base_url": BASE_URL,
            "tables": Base,
            "count_budget": UNHURRIED,
            **options,
        }
        servers.append(create_server(settings.pop("databases", schools), **settings))
        return servers[-1]

    yield make
    for server in servers:
        await server.shutdown()


@pytest.fixture
def dual(make_server: MakeServer) -> DualResponseServer:
    return make_server()


@contextmanager
def statements_of(engine: AsyncEngine) -> Iterator[list[str]]:
    """The SQL sent to the database inside the block, settings of the session left out."""
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        if not arguments[2].startswith(("PRAGMA", "SELECT set_config", "SET LOCAL")):
            statements.append(arguments[2])

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
