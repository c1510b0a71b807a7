"""The memory store stays within its bounds, and says so when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from dualsql.errors import LimitExceededError
from dualsql.store import MemoryStore, ResourceChanges
from dualsql.testing.stores import MOMENT, NOW, minutes, resource


async def _filled(**expiries: datetime | None) -> MemoryStore:
    """A full store with these resources, made in this order."""
    store = MemoryStore(maximum=len(expiries))
    for identifier, expires_at in expiries.items():
        await store.save(resource(id=identifier, expires_at=expires_at))
    return store


async def _ids(store: MemoryStore, *candidates: str) -> list[str]:
    return [identifier for identifier in candidates if await store.get(identifier)]


async def test_the_expired_make_room_first() -> None:
    store = await _filled(oldest=minutes(5), expired=NOW, later=NOW + MOMENT)
    await store.save(resource(id="new"))
    assert await _ids(store, "oldest", "expired", "later", "new") == ["oldest", "later", "new"]


async def test_then_the_oldest_that_is_not_pinned() -> None:
    store = await _filled(pinned=None, oldest=minutes(90), newer=minutes(5))
    await store.save(resource(id="new"))
    assert await _ids(store, "pinned", "oldest", "newer", "new") == ["pinned", "newer", "new"]


async def test_a_resource_pinned_later_is_not_evicted() -> None:
    store = await _filled(oldest=minutes(5), newer=minutes(5))
    await store.update("oldest", ResourceChanges(pin=True, now=NOW))
    await store.save(resource(id="new"))
    assert await _ids(store, "oldest", "newer", "new") == ["oldest", "new"]


async def test_a_store_of_pinned_resources_refuses_the_next() -> None:
    store = await _filled(a=None, b=None)
    with pytest.raises(LimitExceededError) as error:
        await store.save(resource(id="new"))
    assert error.value.hint
    assert await _ids(store, "a", "b", "new") == ["a", "b"]
    await store.delete("a")
    await store.save(resource(id="new"))
    assert await _ids(store, "a", "b", "new") == ["b", "new"]


async def test_a_refused_resource_evicts_nothing() -> None:
    store = await _filled(a=minutes(5), b=minutes(5))
    with pytest.raises(Exception, match="already stored"):
        await store.save(resource(id="a"))
    with pytest.raises(Exception, match="metadata"):
        await store.save(resource(id="new", metadata={"a": object()}))
    assert await _ids(store, "a", "b") == ["a", "b"]


async def test_a_flood_stays_within_the_bound() -> None:
    store = MemoryStore(maximum=50)
    saved = [await store.save(resource(expires_at=minutes(number % 9))) for number in range(500)]
    assert len(await _ids(store, *saved)) <= 50
    assert await store.get(saved[-1]) is not None


def test_a_store_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        MemoryStore(maximum=0)


def lineage(parent: str) -> dict[str, object]:
    return {"lineage": {"parent": f"resource://{parent}", "depth": 1}}


async def test_nobody_evicts_another_s() -> None:
    """Of each kind of caller a flood, and a resource of each other kind: all of these stay."""
    first: dict[str, dict[str, Any]] = {
        "ana": {"owner": "ana"},
        "ana elsewhere": {"owner": "ana", "tenant": "other"},
        "bob": {"owner": "bob"},
        "a tool": {},
        "a link": {"metadata": lineage("shared")},
        "another link": {"metadata": lineage("other")},
    }
    for flooding, of_flood in first.items():
        store = MemoryStore(maximum=60)
        ids = {
            name: await store.save(resource(expires_at=minutes(5), **options))
            for name, options in first.items()
        }
        last = ""
        for _ in range(200):
            last = await store.save(resource(expires_at=minutes(5), **of_flood))
        others = [identifier for name, identifier in ids.items() if name != flooding]
        assert await _ids(store, *others, last) == [*others, last]
        # And there is room for who comes later.
        await store.save(resource(owner="new", expires_at=minutes(5)))


async def test_refinements_of_refinements_are_of_the_first_link() -> None:
    store = MemoryStore(maximum=100)
    owners = [await store.save(resource(owner="ana", expires_at=minutes(5))) for _ in range(20)]
    last = await store.save(resource(expires_at=minutes(5)))
    for _ in range(500):
        last = await store.save(resource(expires_at=minutes(5), metadata=lineage(last)))
    assert await _ids(store, *owners, last) == [*owners, last]


async def test_a_full_store_refuses_who_has_nothing_to_give() -> None:
    store = MemoryStore(maximum=4)
    for name in "abcd":
        await store.save(resource(owner=name, expires_at=minutes(5)))
    with pytest.raises(LimitExceededError, match="at most 4 resources"):
        await store.save(resource(owner="e"))


FLOODS: dict[str, Callable[[int], dict[str, Any]]] = {
    "one link": lambda _: {"metadata": lineage("shared")},
    "many links": lambda number: {"metadata": lineage(f"shared{number}")},
    "some links": lambda number: {"metadata": lineage(f"shared{number % 30}")},
    "tools": lambda _: {},
    "tools and links": lambda number: {"metadata": lineage(f"shared{number}")} if number % 2 else {},
}


@pytest.mark.parametrize("expires_at", [minutes(5), None], ids=["unpinned", "pinned"])
@pytest.mark.parametrize("flood", FLOODS)
async def test_an_anonymous_flood_refuses_no_principal(flood: str, expires_at: datetime | None) -> None:
    """Whoever floods without a name: the first results of principals succeed, and stay."""
    store = MemoryStore(maximum=200)
    early = await store.save(resource(owner="early", expires_at=minutes(5)))

    async def flooded() -> None:
        for number in range(500):
            with suppress(LimitExceededError):
                await store.save(resource(expires_at=expires_at, **FLOODS[flood](number)))

    await flooded()
    owners = [f"new{number}" for number in range(20)] * 2
    named = [await store.save(resource(owner=owner, expires_at=minutes(5))) for owner in owners]
    await flooded()
    assert await _ids(store, early, *named) == [early, *named]


async def test_one_principal_takes_no_other_s_first_place() -> None:
    """Also where links have taken what they may take."""
    store = MemoryStore(maximum=200)
    for number in range(500):
        with suppress(LimitExceededError):
            await store.save(resource(expires_at=minutes(5), metadata=lineage(f"shared{number}")))
    for _ in range(500):
        await store.save(resource(owner="greedy", expires_at=minutes(5)))
    await store.save(resource(owner="new", expires_at=minutes(5)))
    assert len(store._rows) <= 200
