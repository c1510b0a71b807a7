"""Drivers besides those a URL gets: an application may give an engine of any of these."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import DualResponseServer, QueryTimeoutError
from dualsql.execute.session import read_only
from tests.execute.conftest import fill_synchronously
from tests.execute.kinds import SLOW
from tests.execute.test_time import assert_idle
from tests.execute.test_writing import WRITES
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL

pytestmark = pytest.mark.long


@pytest.fixture(params=["psycopg", "psycopg in threads", "pymysql in threads"])
async def engine(request: pytest.FixtureRequest) -> Any:
    """An engine of the application's on the filled database."""
    driver, _, way = request.param.partition(" ")
    url: str = request.getfixturevalue("postgresql_url" if driver == "psycopg" else "mariadb_url")
    url = url.replace("asyncpg", driver).replace("asyncmy", driver)
    if way:
        return create_engine(fill_synchronously(url))
    found = create_async_engine(url)
    await fill(found)
    return found


async def test_it_is_read_only_bounded_and_stopped(engine: Any) -> None:
    async with DualResponseServer(
        engine, base_url=BASE_URL, tables=Base, query_timeout=timedelta(milliseconds=500)
    ) as server:
        assert (await server.create_response(select(School), name="x")).total_count == len(SCHOOLS)
        for write in WRITES:
            async with read_only(server._sources["default"], None) as connection:
                with pytest.raises(Exception, match=r"(?i)read.?only"):
                    await connection.exec_driver_sql(write)
        with pytest.raises(QueryTimeoutError):
            await server.create_response(SLOW, name="slow")
        waiting = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
        await asyncio.wait({waiting}, timeout=0.1)
        waiting.cancel()
        await asyncio.wait({waiting})
        await assert_idle(engine, server)
    if isinstance(engine, Engine):
        engine.dispose()
    else:
        await engine.dispose()
