"""A caller that is cancelled again and again leaves nothing behind: no query, no busy connection, no read-only one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count
from typing import Any

import anyio
import pytest
from sqlalchemy import event, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import DatabaseBusyError, DualResponseServer
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL, MakeServer
from tests.server.test_safety import FOREVER
from tests.servers import create_server


@pytest.mark.quick(1, "sqlite")
async def test_a_cancel_scope_cuts_no_clean_up_short(make_server: MakeServer, schools: AsyncEngine) -> None:
    server = make_server()
    await server.start()
    for _ in range(5):
        with anyio.move_on_after(0.05) as scope:
            await server.create_response(FOREVER, name="forever")
        assert scope.cancelled_caught
    response = await server.create_response(select(School), name="x")
    assert response.total_count == len(SCHOOLS)
    await server.shutdown()
    assert schools.pool.checkedout() == 0  # type: ignore[attr-defined]
    async with schools.begin() as connection:
        await connection.execute(update(School).values(name="still writable"))


async def test_a_database_in_memory_survives(anyio_backend: str) -> None:
    """Its only connection stays open, whichever of a session's statements the cancelled caller waits for."""
    engine = create_async_engine("sqlite+aiosqlite://")
    await fill(engine)
    async with DualResponseServer(engine, base_url=BASE_URL, tables=Base) as server:
        await server.start()
        for number in count():
            cancelled_at = await _cancelled_at_statement(number, engine, server)
            response = await server.create_response(select(School), name="x")
            assert response.total_count == len(SCHOOLS), cancelled_at
            if "forever" in cancelled_at:
                assert number, "the session was being set up in at least one case"
                break
    await engine.dispose()


async def _cancelled_at_statement(number: int, engine: AsyncEngine, server: DualResponseServer) -> str:
    """The statement at which a caller was cancelled: the session's `number`-th."""
    statements: list[str] = []
    loop = asyncio.get_running_loop()
    asking = loop.create_task(server.create_response(FOREVER, name="forever"))

    def noted(*executed: Any) -> None:
        statements.append(executed[2])
        if len(statements) == number + 1:
            loop.call_soon(asking.cancel)

    event.listen(engine.sync_engine, "before_cursor_execute", noted)
    with pytest.raises(asyncio.CancelledError):
        await asking
    event.remove(engine.sync_engine, "before_cursor_execute", noted)
    return statements[number]


async def test_a_pool_without_a_free_connection_is_not_a_slow_query(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url, pool_size=1, max_overflow=0)
    await fill(engine)
    async with create_server(
        engine, base_url=BASE_URL, tables=Base, queue_timeout=timedelta(milliseconds=100)
    ) as server:
        async with engine.connect() as held:
            await held.execute(text("SELECT 1"))
            with pytest.raises(DatabaseBusyError):
                await server.create_response(select(School), name="x")
        assert (await server.create_response(select(School), name="x")).total_count == len(SCHOOLS)
    await engine.dispose()
