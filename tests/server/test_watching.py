"""What is told of resources that somebody follows, and what it costs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dualsql import LimitExceededError, StorageError
from dualsql.changes import ChangeNotifier, ChangeSettings
from dualsql.resource import Clock, Resource, new_resource_id
from dualsql.store import MemoryStore, ResourceChanges
from dualsql.store.protocol import ResourceState

HOUR = timedelta(hours=1)
SOON = timedelta(milliseconds=100)


class CountingStore(MemoryStore):
    """A real store that counts looks, and fails if it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: asyncio.Queue[int] = asyncio.Queue()
        self.is_down = False

    async def standings(self, resource_ids: Collection[str]) -> Mapping[str, ResourceState]:
        self.looks.put_nowait(len(resource_ids))
        if self.is_down:
            raise StorageError("The store is away.")
        return await super().standings(resource_ids)


def resource(lifetime: timedelta = HOUR) -> Resource:
    now = datetime.now(UTC)
    return Resource(
        id=new_resource_id(),
        name="r",
        source="default",
        document=b"x",
        signature=b"s",
        columns=[],
        total_count=1,
        total_count_kind="exact",
        created_at=now,
        expires_at=now + lifetime,
        lifetime=lifetime,
    )


class Told:
    """A listener, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self) -> None:
        self.events.put_nowait("changed")

    async def heard(self) -> None:
        await asyncio.wait_for(self.events.get(), 20)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
async def watch(store: CountingStore) -> AsyncIterator[ChangeNotifier]:
    watch = ChangeNotifier(store, Clock(store), ChangeSettings(watch_interval=SOON, maximum_watched=3))
    yield watch
    await watch.close()


async def test_pinned_by_another_and_then_deleted(store: CountingStore, watch: ChangeNotifier) -> None:
    subject, subscriber = resource(), Told()
    await store.save(subject)
    watch.subscribe(subject, subscriber)
    await store.update(subject.id, ResourceChanges(pin=True, now=datetime.now(UTC)))
    await subscriber.heard()
    await looked(store, 5)
    assert subscriber.events.empty(), "a change is told once"
    await store.delete(subject.id)
    await subscriber.heard()
    assert subscriber.events.empty()


async def test_what_is_done_here_is_told_without_waiting(store: CountingStore) -> None:
    watch, subject, subscriber = (
        ChangeNotifier(store, Clock(store), ChangeSettings(watch_interval=HOUR, maximum_watched=3)),
        resource(),
        Told(),
    )
    await store.save(subject)
    watch.subscribe(subject, subscriber)
    await store.delete(subject.id)
    watch.changed("")
    await subscriber.heard()
    await watch.close()


async def test_an_expiry_is_told_when_it_comes(store: CountingStore) -> None:
    watch, subject, subscriber = (
        ChangeNotifier(store, Clock(store), ChangeSettings(watch_interval=HOUR, maximum_watched=3)),
        resource(SOON),
        Told(),
    )
    await store.save(subject)
    watch.subscribe(subject, subscriber)
    await subscriber.heard()
    await watch.close()


async def test_a_change_between_reading_and_following_is_told(store: CountingStore) -> None:
    watch, subject, subscriber = (
        ChangeNotifier(store, Clock(store), ChangeSettings(watch_interval=HOUR, maximum_watched=3)),
        resource(),
        Told(),
    )
    await store.save(subject)
    await store.update(subject.id, ResourceChanges(pin=True, now=datetime.now(UTC)))
    watch.subscribe(subject, subscriber)
    await subscriber.heard()
    await watch.close()


async def test_a_slow_query_that_is_done_is_told(store: CountingStore, watch: ChangeNotifier) -> None:
    later = datetime.now(UTC) + HOUR
    subject, subscriber = replace(resource(), status="pending", pending_until=later), Told()
    await store.save(subject)
    watch.subscribe(subject, subscriber)
    await store.settle(replace(subject, status="ready", pending_until=None))
    await subscriber.heard()


async def test_a_longer_life_is_no_change(store: CountingStore, watch: ChangeNotifier) -> None:
    subject, subscriber = resource(), Told()
    await store.save(subject)
    watch.subscribe(subject, subscriber)
    now = datetime.now(UTC)
    await store.update(subject.id, ResourceChanges(extend_to=now + 5 * HOUR, now=now))
    await looked(store, 3)
    assert subscriber.events.empty()


async def looked(store: CountingStore, times: int) -> list[int]:
    """How many resources the next looks into the store were for."""
    return [await asyncio.wait_for(store.looks.get(), 20) for _ in range(times)]


async def test_one_read_for_all_and_none_for_nobody(store: CountingStore, watch: ChangeNotifier) -> None:
    unsubscribe = []
    for _ in range(3):
        subject = resource()
        await store.save(subject)
        unsubscribe.append(watch.subscribe(subject, Told()))
    assert (await looked(store, 4))[1:] == [3, 3, 3]
    for end in unsubscribe:
        end()
        end()
    task = watch._task
    assert task is not None
    await asyncio.wait_for(task, 20)
    assert not watch._listeners
    assert not watch._states


async def test_two_listeners_are_told_and_one_that_ended_is_not(
    store: CountingStore, watch: ChangeNotifier
) -> None:
    subject, one, two, gone = resource(), Told(), Told(), Told()
    await store.save(subject)
    for subscriber in (one, two):
        watch.subscribe(subject, subscriber)
    watch.subscribe(subject, gone)()
    await store.delete(subject.id)
    await one.heard()
    await two.heard()
    assert gone.events.empty()


async def test_a_listener_that_fails_or_hangs_keeps_none_from_being_told(
    store: CountingStore, watch: ChangeNotifier
) -> None:
    subject, subscriber = resource(), Told()
    await store.save(subject)

    async def fails() -> None:
        raise ConnectionError("gone")

    async def hangs() -> None:
        await asyncio.Event().wait()

    for listener in (fails, hangs, subscriber):
        watch.subscribe(subject, listener)
    await store.update(subject.id, ResourceChanges(pin=True, now=datetime.now(UTC)))
    await subscriber.heard()
    await store.delete(subject.id)
    await subscriber.heard()


async def test_there_is_an_end_to_what_is_followed(store: CountingStore, watch: ChangeNotifier) -> None:
    followed = [resource() for _ in range(3)]
    for found in followed:
        await store.save(found)
        watch.subscribe(found, Told())
    watch.subscribe(followed[0], Told())
    with pytest.raises(LimitExceededError):
        watch.subscribe(resource(), Told())


async def test_a_store_that_is_away_is_asked_again(
    store: CountingStore, watch: ChangeNotifier, caplog: pytest.LogCaptureFixture
) -> None:
    subject, subscriber = resource(), Told()
    await store.save(subject)
    store.is_down = True
    with caplog.at_level(logging.WARNING):
        watch.subscribe(subject, subscriber)
        await looked(store, 2)
    assert "Watching resources" in caplog.text
    await store.delete(subject.id)
    store.is_down = False
    await subscriber.heard()
