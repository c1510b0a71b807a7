"""Accesses are counted once, whatever happens while they are written."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from dualsql.errors import StorageError
from dualsql.resource import Resource
from dualsql.store import MemoryStore, SQLResourceStore
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import Access
from dualsql.testing.stores import NOW, resource


class FailingStore(MemoryStore):
    """A store that takes no accesses while it is down, and never those of `refused`."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.is_down = False
        self.refused = frozenset(refused)
        self.asked: list[int] = []

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        self.asked.append(len(accesses))
        if self.is_down or self.refused & accesses.keys():
            raise StorageError("The resource store failed.")
        await super().add_accesses(accesses)


async def _saved(store: MemoryStore | SQLResourceStore, number: int) -> list[Resource]:
    resources = [resource() for _ in range(number)]
    for one in resources:
        await store.save(one)
    return resources


async def _counts(store: MemoryStore, made: Sequence[Resource]) -> list[int]:
    resources = [await store.get(one.id) for one in made]
    return [one.access_count for one in resources if one is not None]


@pytest.mark.quick(4)
@pytest.mark.parametrize("steps", range(0, 40, 4))
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
    stored = await sql_store.get(saved.id)
    assert stored is not None and stored.access_count == 1


async def test_logs_that_flush_at_once_add_up(sql_store: SQLResourceStore) -> None:
    """Several processes write batches of the same resources, each in an order of its own."""
    resources = await _saved(sql_store, 30)
    logs = [AccessLog(sql_store) for _ in range(4)]
    for turn in range(1, 6):
        for number, log in enumerate(logs):
            for one in resources[number:] + resources[:number]:
                log.note(one.id, NOW + turn * timedelta(seconds=1))
        await asyncio.gather(*(log.flush() for log in logs))
    for one in resources:
        resource = await sql_store.get(one.id)
        assert resource is not None
        assert (resource.access_count, resource.last_accessed_at) == (20, NOW + timedelta(seconds=5))


class WaitingStore(MemoryStore):
    """A store that begins to write accesses, and ends when it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        self.begun.set()
        await self.may_end.wait()
        await super().add_accesses(accesses)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_accesses_are_seen_while_they_are_written(*, is_cancelled: bool) -> None:
    store = WaitingStore()
    (saved,) = await _saved(store, 1)
    log = AccessLog(store)
    log.note(saved.id, NOW)
    log.note(saved.id, NOW)
    flush = asyncio.create_task(log.flush())
    await store.begun.wait()
    assert (log.unwritten(saved.id), log.total()) == ((2, NOW), 2)
    log.note(saved.id, NOW + timedelta(seconds=1))
    assert (log.unwritten(saved.id), log.total()) == ((3, NOW + timedelta(seconds=1)), 3)
    if is_cancelled:
        flush.cancel()
    store.may_end.set()
    await asyncio.gather(flush, return_exceptions=True)
    assert (log.unwritten(saved.id)[0], log.total()) == (1, 1)
    assert await _counts(store, [saved]) == [2]


async def test_a_batch_may_name_what_is_gone_or_never_was(sql_store: SQLResourceStore) -> None:
    saved = resource()
    await sql_store.save(saved)
    log = AccessLog(sql_store)
    for name in (saved.id, "never-was", "no\x00id", "x" * 65):
        log.note(name, NOW)
    await log.flush()
    stored = await sql_store.get(saved.id)
    assert stored is not None and stored.access_count == 1
    assert log.total() == 0


async def test_more_than_one_statement_can_take_is_written_in_several() -> None:
    store = FailingStore()
    resources = await _saved(store, 450)
    log = AccessLog(store)
    for one in resources:
        log.note(one.id, NOW)
    await log.flush()
    assert store.asked == [200, 200, 50]
    assert set(await _counts(store, resources)) == {1}


async def test_what_a_store_refuses_for_ever_keeps_no_other_waiting() -> None:
    store = FailingStore()
    resources = await _saved(store, 300)
    store.refused = frozenset(resources[number].id for number in (0, 1, 2, 150, 299))
    log = AccessLog(store)
    for turn in range(5):
        for one in resources:
            log.note(one.id, NOW)
        with pytest.raises(StorageError):
            await log.flush()
        assert len(store.asked) < 400 * (turn + 1)
    counts = Counter(await _counts(store, resources))
    assert counts == {5: 295, 0: 5}
    assert log.total() == 25, "what was refused is still known"
    store.asked.clear()
    for one in resources:
        log.note(one.id, NOW)
    with pytest.raises(StorageError):
        await log.flush()
    assert store.asked[:2] == [200, 95], "the others are written in batches again"


async def test_an_outage_is_noticed_after_three_failures_and_loses_nothing() -> None:
    store = FailingStore()
    resources = await _saved(store, 300)
    log = AccessLog(store)
    store.is_down = True
    for _ in range(10):
        for one in resources:
            log.note(one.id, NOW)
        with pytest.raises(StorageError):
            await log.flush()
    assert len(store.asked) == 30
    store.is_down = False
    await log.flush()
    assert set(await _counts(store, resources)) == {10}


async def test_what_waits_is_bounded_and_the_latest_used_stay(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore()
    resources = await _saved(store, 30)
    log = AccessLog(store, maximum=10)
    store.is_down = True
    for _ in range(2):
        for one in resources:
            log.note(one.id, NOW)
            log.note(resources[0].id, NOW)
        with pytest.raises(StorageError):
            await log.flush()
    assert log.total() == 62 + 9, "one that is used all the time, and nine others"
    store.is_down = False
    await log.flush()
    assert await _counts(store, resources) == [62] + [0] * 20 + [1] * 9
    assert [(one.levelno, one.args) for one in caplog.records] == [(logging.WARNING, (2 * 29 - 9,))]
    await log.flush()
    assert len(caplog.records) == 1, "it is said once"
