"""What is pending, in every store: it ends once, and only as long as somebody says that it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from dualsql.errors import TamperedError
from dualsql.resource import INTERRUPTED, Resource
from dualsql.store import ResourceStore, SQLResourceStore
from dualsql.store.protocol import ResourceChanges
from tests.store.samples import MOMENT, NOW, minutes, resource


def pending(**changes: Any) -> Resource:
    """A resource whose query is heard of until a minute after NOW."""
    return resource(
        status="pending", total_count=None, total_count_kind="none", pending_until=minutes(1), **changes
    )


def ready(kept: Resource) -> Resource:
    """The same, once its query has run."""
    return replace(
        kept,
        status="ready",
        pending_until=None,
        total_count=3,
        total_count_kind="exact",
        sample=[{"unitid": 1, "tags": []}],
        expires_at=minutes(20),
    )


async def test_what_is_pending_comes_back_as_it_was(store: ResourceStore) -> None:
    kept = pending()
    await store.save(kept)
    assert await store.get(kept.id) == kept


async def test_it_is_settled_once(store: ResourceStore) -> None:
    kept = pending()
    await store.save(kept)
    failed = replace(ready(kept), status="failed", failure=INTERRUPTED, sample=None)
    assert sorted(await asyncio.gather(store.settle(ready(kept)), store.settle(failed))) == [False, True]
    assert await store.get(kept.id) in (ready(kept), failed)
    assert not await store.settle(pending())  # there is none


async def test_what_was_pinned_meanwhile_stays_pinned(store: ResourceStore) -> None:
    kept = pending()
    await store.save(kept)
    await store.update(kept.id, ResourceChanges(pin=True, now=NOW, accesses=2, accessed_at=NOW))
    await store.settle(ready(kept))
    found = await store.get(kept.id)
    assert found == replace(ready(kept), expires_at=None, access_count=2, last_accessed_at=NOW)


async def test_only_what_is_pending_is_prolonged(store: ResourceStore) -> None:
    kept, over = pending(), resource()
    await store.save(kept)
    await store.save(over)
    alive = await store.prolong([kept.id, over.id, "unknown"], until=minutes(2))
    assert list(alive) == [kept.id]
    assert await store.get(kept.id) == replace(kept, pending_until=minutes(2))
    assert await store.get(over.id) == over


async def test_what_is_overdue_fails(store: ResourceStore) -> None:
    late, heard_of, over = pending(), replace(pending(), pending_until=minutes(2)), resource()
    for each in (late, heard_of, over):
        await store.save(each)
    assert await store.fail_overdue(INTERRUPTED, now=minutes(1) - MOMENT) == 0
    assert await store.fail_overdue(INTERRUPTED, now=minutes(1)) == 1
    assert await store.get(late.id) == replace(late, status="failed", failure=INTERRUPTED, pending_until=None)
    assert await store.get(heard_of.id) == heard_of
    assert await store.get(over.id) == over
    assert not await store.settle(ready(late))


async def test_the_sample_counts_as_what_it_weighs(store: ResourceStore) -> None:
    from dualsql.resource import Principal

    kept = pending(owner="ann")
    await store.save(kept)
    before = await store.usage(Principal(id="ann"), now=NOW)
    await store.settle(replace(ready(kept), sample=[{"unitid": 1, "tags": ["x" * 1000]}]))
    after = await store.usage(Principal(id="ann"), now=NOW)
    assert 1_000 < after.size - before.size < 1_100


def test_nobody_is_heard_of_any_more() -> None:
    kept = pending()
    assert kept.seen_at(minutes(1) - MOMENT) is kept
    assert (kept.seen_at(minutes(1)).status, kept.seen_at(minutes(1)).failure) == ("failed", INTERRUPTED)
    assert resource().seen_at(minutes(999)).status == "ready"


@pytest.mark.parametrize(
    "written",
    [
        {"status": "about to be"},
        {"failure": '"text"'},
        {"failure": '{"code": 1, "message": "m", "hint": "", "details": {}}'},
        {"failure": "{"},
    ],
    ids=str,
)
async def test_what_was_changed_behind_our_back(sql_store: SQLResourceStore, written: dict[str, Any]) -> None:
    from sqlalchemy import update

    from dualsql.store.tables import resources

    kept = pending()
    await sql_store.save(kept)
    await sql_store._change(update(resources).values(written))
    with pytest.raises(TamperedError):
        await sql_store.get(kept.id)


async def test_rows_of_an_older_release_are_ready(sql_store: SQLResourceStore) -> None:
    from sqlalchemy import update

    from dualsql.store.tables import resources

    kept = resource()
    await sql_store.save(kept)
    await sql_store._change(update(resources).values(status=None))
    assert await sql_store.get(kept.id) == kept
