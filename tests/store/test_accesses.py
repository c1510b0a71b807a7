"""Accesses are counted once, whatever happens while they are written."""

from __future__ import annotations

import asyncio

import pytest

from dualsql.store import SQLResourceStore
from dualsql.store.accesses import AccessLog
from tests.store.samples import NOW, resource


@pytest.mark.parametrize("steps", range(0, 40, 2))
async def test_a_flush_that_is_cancelled_counts_nothing_twice(
    sql_store: SQLResourceStore, steps: int
) -> None:
    saved = resource()
    await sql_store.save(saved)
    log = AccessLog(sql_store)
    log.note(saved.id, NOW)
    flush = asyncio.create_task(log.flush())
    for _ in range(steps):
        await asyncio.sleep(0)
    flush.cancel()
    await asyncio.gather(flush, return_exceptions=True)
    await log.flush()
    found = await sql_store.get(saved.id)
    assert found is not None and found.access_count == 1
