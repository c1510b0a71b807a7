"""Tasks that do nothing but read one result, without HTTP, let the other tasks of the event loop run."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, select

from dualsql import DualResponseServer, ResultCache
from dualsql.resource import Resource
from dualsql.store import MemoryStore, SQLResourceStore
from tests.servers import create_server

NUMBERS = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
LONGEST = 10.0
SECRETS = ["a secret of these tests, which no one else has"]

Deed = Callable[[DualResponseServer, Resource], Awaitable[object]]

DEEDS: dict[str, Deed] = {
    "open": lambda dual, found: dual.open_resource(found.id, None, "read"),
    "page": lambda dual, found: dual.unchecked.read_page(found, None),
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)
@pytest.mark.parametrize(
    "options", [{}, {"result_cache": ResultCache(ttl=timedelta(hours=1))}], ids=["", "cache"]
)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_the_other_tasks_run(
    tmp_path: Path, sqlite_store_url: str, store: str, options: dict[str, Any], deed: Deed
) -> None:
    with closing(sqlite3.connect(tmp_path / "numbers.sqlite")) as connection:
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO numbers VALUES (1)")
        connection.commit()
    async with create_server(
        f"sqlite:///{tmp_path / 'numbers.sqlite'}",
        base_url="http://127.0.0.1/resources",
        tables=NUMBERS.metadata,
        store=MemoryStore() if store == "memory" else SQLResourceStore(sqlite_store_url),
        secrets=SECRETS,
        **options,
    ) as dual:
        response = await dual.create_response(select(NUMBERS), name="numbers")
        resource = await dual.open_resource(response.resource_id, None, "read")
        await deed(dual, resource)  # a thread learns which statements are quick
        others_have_run = asyncio.Event()
        asyncio.get_running_loop().call_soon(others_have_run.set)
        ends_at = time.monotonic() + LONGEST
        while not others_have_run.is_set() and time.monotonic() < ends_at:
            await deed(dual, resource)
        assert others_have_run.is_set()
