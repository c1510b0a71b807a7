"""Many callers at once, over several connections and in several processes' worth of stores."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from dualsql.store import ResourceChanges, SQLResourceStore
from dualsql.testing.stores import MOMENT, NOW, minutes, resource


@pytest.fixture
async def stores(store_url: str, anyio_backend: str) -> AsyncIterator[list[SQLResourceStore]]:
    """Three stores with a pool each on one database: to the database, three processes."""
    stores_of_test = [SQLResourceStore(store_url) for _ in range(3)]
    yield stores_of_test
    for store in stores_of_test:
        await store.close()


@pytest.mark.quick(1, "postgresql")
async def test_no_access_is_lost(stores: list[SQLResourceStore]) -> None:
    saved = resource()
    await stores[0].save(saved)
    await asyncio.gather(
        *(
            stores[number % 3].update(
                saved.id, ResourceChanges(accesses=1, accessed_at=NOW + number * MOMENT)
            )
            for number in random.Random(1).sample(range(200), 200)
        )
    )
    stored = await stores[1].get(saved.id)
    assert stored is not None and (stored.access_count, stored.last_accessed_at) == (200, NOW + 199 * MOMENT)


async def test_one_id_is_saved_by_one_caller(stores: list[SQLResourceStore]) -> None:
    saved = resource()
    outcomes = await asyncio.gather(
        *(stores[number % 3].save(saved) for number in range(12)), return_exceptions=True
    )
    assert outcomes.count(saved.id) == 1


@pytest.mark.quick(1, "postgresql")
async def test_extensions_and_counts_do_not_undo_each_other(stores: list[SQLResourceStore]) -> None:
    saved = resource()
    await stores[0].save(saved)
    changes = [ResourceChanges(accesses=1, extend_to=minutes(number), now=NOW) for number in range(60)]
    random.Random(2).shuffle(changes)
    await asyncio.gather(
        *(stores[number % 3].update(saved.id, change) for number, change in enumerate(changes))
    )
    stored = await stores[0].get(saved.id)
    assert stored is not None and (stored.expires_at, stored.access_count) == (minutes(59), 60)


@pytest.mark.quick(1, "postgresql")
async def test_parallel_sweepers_delete_each_expired_resource_once(stores: list[SQLResourceStore]) -> None:
    expired = [resource(expires_at=minutes(-1 - number % 7)) for number in range(90)]
    living = [resource(), resource(expires_at=None), resource(expires_at=NOW + MOMENT)]
    await asyncio.gather(*(stores[0].save(saved) for saved in expired + living))
    assert sum(await asyncio.gather(*(_sweep(stores[number % 3]) for number in range(9)))) == len(expired)
    for saved in living:
        assert await stores[0].get(saved.id) == saved


@pytest.mark.quick(1, "postgresql")
async def test_a_pin_and_a_sweep_agree_on_who_was_first(stores: list[SQLResourceStore]) -> None:
    """A pin that was accepted keeps its resource; a resource that was swept refuses its pin."""
    # Each lives at the instant of the pin and is over at the instant of the sweep: either may win.
    saved = [resource(expires_at=NOW) for _ in range(60)]
    await asyncio.gather(*(stores[0].save(each) for each in saved))
    ids = [each.id for each in saved]
    pin = ResourceChanges(pin=True, now=NOW - MOMENT)
    pins = asyncio.gather(*(stores[number % 2].update(each, pin) for number, each in enumerate(ids)))
    sweeps = asyncio.gather(*(stores[2].delete(*ids, expired_before=NOW) for _ in range(4)))
    pinned, deleted = await pins, sum(await sweeps)
    assert pinned.count(True) + deleted == len(saved)
    for identifier, kept in zip(ids, pinned, strict=True):
        assert (await stores[0].get(identifier) is not None) == kept


@pytest.mark.quick(1, "postgresql")
async def test_deletions_of_the_same_ids_in_any_order_do_not_lock_each_other_out(
    stores: list[SQLResourceStore],
) -> None:
    saved = [resource() for _ in range(200)]
    await asyncio.gather(*(stores[0].save(each) for each in saved))
    ids = [each.id for each in saved]
    deletions = [stores[number % 3].delete(*random.Random(number).sample(ids, 200)) for number in range(12)]
    assert sum(await asyncio.gather(*deletions)) == 200


async def _sweep(store: SQLResourceStore) -> int:
    total = 0
    while batch := await store.find_expired(before=NOW, limit=10):
        total += await store.delete(*batch, expired_before=NOW)
    return total
