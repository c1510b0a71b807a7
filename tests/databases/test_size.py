"""Does a row that weighs more than a server can hold end before it is held?"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from sqlalchemy import Integer, Select, func, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import LimitExceededError
from tests.schools import Base, fill
from tests.server.conftest import BASE_URL
from tests.servers import create_server

MEGABYTE = 1024 * 1024


def heavy(engine: AsyncEngine, megabytes: int) -> Select[tuple[str]]:
    """One value of so many megabytes."""
    if engine.dialect.name == "sqlite":
        spaces = func.printf("%*d", megabytes * 100, 1)
        return select(func.replace(spaces, " ", "x" * (MEGABYTE // 100)).label("value"))
    return select(func.repeat(literal("x"), literal(megabytes * MEGABYTE, Integer)).label("value"))


@pytest.mark.long
@pytest.mark.parametrize("is_own_engine", [True, False])
async def test_it_is_refused_and_was_never_held(
    database_url: str, make_engine: Callable[[str], AsyncEngine], is_own_engine: bool
) -> None:
    engine = make_engine(database_url)
    if engine.dialect.name == "sqlite" and not is_own_engine:
        return  # an application's connection keeps the limits that it has
    await fill(engine)
    async with create_server(
        database_url if is_own_engine else engine,
        base_url=BASE_URL,
        tables=Base,
        maximum_page_bytes=16 * MEGABYTE,
    ) as server:
        tracemalloc.start()
        try:
            for _ in range(2):
                with pytest.raises(LimitExceededError):
                    await server.create_response(heavy(engine, 200), name="Heavy")
                gc.collect()  # the tests collect rarely, and the error's traceback holds the answer's buffer
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 40 * MEGABYTE
        lighter = await server.create_response(heavy(engine, 4), name="Lighter")
        assert lighter.total_count == 1
