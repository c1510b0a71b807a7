"""What a store keeps for each principal, and how signed links live in it; asked of every store there is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from dualsql.resource import Principal, Resource, new_resource_id
from dualsql.store import ResourceStore
from dualsql.store.housekeeping import sweep
from dualsql.store.protocol import LinkRecord, ListingPosition, Requester, Usage
from dualsql.store.tables import size_of
from tests.store.samples import MOMENT, NOW, minutes, resource

ANA = Principal(id="ana", tenant="acme")

STRANGERS = [
    Principal(id="ana"),
    Principal(id="ana", tenant="Acme"),
    Principal(id="ana", tenant="acme "),
    Principal(id="Ana", tenant="acme"),
    Principal(id="ana\u0301", tenant="acme"),
    Principal(id="\u0430na", tenant="acme"),  # the first letter is Cyrillic
    Principal(id="acme", tenant="ana"),
    Principal(id="an%", tenant="acme"),
]


def of(principal: Principal | None, **changes: object) -> Resource:
    """A resource bound to `principal`."""
    bound = {"owner": principal.id, "tenant": principal.tenant} if principal else {}
    return resource(**{**bound, **changes})


async def _saved(store: ResourceStore, *resources: Resource) -> list[str]:
    return [await store.save(each) for each in resources]


class TestViewer:
    """A row that is not for the one who looks never leaves the store."""

    @pytest.mark.quick(4)
    @pytest.mark.parametrize("looking", [None, ANA, *STRANGERS])
    @pytest.mark.parametrize("owner", [ANA, Principal(id="ana"), Principal(id="acme", tenant="ana")])
    async def test_sees_its_own_only(
        self, store: ResourceStore, owner: Principal, looking: Principal | None
    ) -> None:
        [saved] = await _saved(store, of(owner))
        found = await store.get(saved, Requester(principal=looking, since=NOW))
        assert (found is not None) is (looking == owner)

    @pytest.mark.parametrize("looking", [None, ANA])
    async def test_sees_what_nobody_owns(self, store: ResourceStore, looking: Principal | None) -> None:
        [saved] = await _saved(store, of(None))
        assert await store.get(saved, Requester(principal=looking, since=NOW)) is not None

    async def test_sees_nothing_that_is_long_over(self, store: ResourceStore) -> None:
        [saved, pinned] = await _saved(store, of(ANA, expires_at=NOW), of(ANA, expires_at=None))
        for since, there in ((NOW - MOMENT, True), (NOW, True), (NOW + MOMENT, False)):
            viewer = Requester(principal=ANA, since=since)
            assert (await store.get(saved, viewer) is not None) is there
            assert await store.get(pinned, viewer) is not None
        assert await store.get(saved) is not None


class TestFind:
    async def test_only_the_principal_s_own(self, store: ResourceStore) -> None:
        [mine] = await _saved(store, of(ANA))
        await _saved(store, of(None), *map(of, STRANGERS))
        assert [found.id for found in await store.find(ANA, now=NOW, limit=100)] == [mine]
        for stranger in STRANGERS:
            [theirs] = await store.find(stranger, now=NOW, limit=100)
            assert (theirs.owner, theirs.tenant) == (stranger.id, stranger.tenant)

    async def test_the_newest_come_first_and_the_dead_not_at_all(self, store: ResourceStore) -> None:
        old, new, pinned = await _saved(
            store,
            of(ANA, created_at=minutes(-5)),
            of(ANA, created_at=minutes(-1)),
            of(ANA, created_at=minutes(-3), expires_at=None),
        )
        await _saved(store, of(ANA, expires_at=NOW), of(ANA, expires_at=minutes(-1)))
        assert [found.id for found in await store.find(ANA, now=NOW, limit=9)] == [new, pinned, old]

    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    async def test_pages_joined_are_the_whole_also_among_twins(self, store: ResourceStore, size: int) -> None:
        await _saved(store, *(of(ANA, created_at=NOW - MOMENT * (number // 3)) for number in range(7)))
        whole = [found.id for found in await store.find(ANA, now=NOW, limit=100)]
        joined: list[str] = []
        after: ListingPosition | None = None
        while page := await store.find(ANA, now=NOW, limit=size, after=after):
            joined += [found.id for found in page]
            after = ListingPosition(page[-1].created_at, page[-1].id)
        assert joined == whole and len(set(joined)) == 7

    async def test_what_is_made_meanwhile_moves_no_page(self, store: ResourceStore) -> None:
        await _saved(store, *(of(ANA, created_at=minutes(-number)) for number in range(1, 5)))
        first = await store.find(ANA, now=NOW, limit=2)
        await _saved(store, of(ANA, created_at=NOW))
        second = await store.find(
            ANA, now=NOW, limit=2, after=ListingPosition(first[-1].created_at, first[-1].id)
        )
        assert [found.created_at for found in [*first, *second]] == [minutes(-n) for n in range(1, 5)]


class TestUsage:
    async def test_nothing_is_nothing(self, store: ResourceStore) -> None:
        assert await store.usage(ANA, now=NOW) == Usage(0, 0, 0, 0)

    async def test_what_lives_is_counted_and_weighed(self, store: ResourceStore) -> None:
        light, heavy = of(ANA), of(ANA, expires_at=None, metadata={"note": "x" * 10_000})
        await _saved(store, light, heavy, of(ANA, expires_at=NOW), of(None), *map(of, STRANGERS))
        assert await store.usage(ANA, now=NOW) == Usage(2, size_of(light) + size_of(heavy), 1, size_of(heavy))
        assert size_of(heavy) > 10_000

    async def test_the_oldest_unpinned_are_told_with_their_size(self, store: ResourceStore) -> None:
        new, old = of(ANA, created_at=minutes(-1)), of(ANA, created_at=minutes(-2), metadata={"a": "b"})
        await _saved(store, new, old, of(ANA, expires_at=None), *map(of, STRANGERS))
        both = [(old.id, size_of(old)), (new.id, size_of(new))]
        assert list(await store.find_unpinned(ANA, now=NOW, limit=9)) == both
        assert list(await store.find_unpinned(ANA, now=NOW, limit=1)) == both[:1]


def _link(resource_id: str = "r", lifetime: timedelta = timedelta(minutes=5)) -> LinkRecord:
    return LinkRecord(id=new_resource_id(), resource_id=resource_id, expires_at=NOW + lifetime)


class TestLinks:
    async def test_a_link_lives_until_it_is_ended(self, store: ResourceStore) -> None:
        link = _link()
        assert not await store.has_link(link)
        await store.save_link(link)
        assert await store.has_link(link) and await store.has_link(link)
        assert await store.delete_links(link_id=link.id) == 1
        assert not await store.has_link(link)
        assert await store.delete_links(link_id=link.id) == 0

    async def test_a_link_is_for_one_resource(self, store: ResourceStore) -> None:
        link = _link("this")
        await store.save_link(link)
        other = LinkRecord(id=link.id, resource_id="that", expires_at=link.expires_at)
        assert not await store.has_link(other, take=True)
        assert await store.has_link(link)

    async def test_of_many_who_take_one_gets(self, store: ResourceStore) -> None:
        link = _link()
        await store.save_link(link)
        taken = await asyncio.gather(*(store.has_link(link, take=True) for _ in range(32)))
        assert taken.count(True) == 1
        assert not await store.has_link(link)

    async def test_all_of_a_resource_end_together(self, store: ResourceStore) -> None:
        mine, too, other = _link("a"), _link("a"), _link("b")
        for link in (mine, too, other):
            await store.save_link(link)
        assert await store.delete_links(resource_id="a") == 2
        assert [await store.has_link(link) for link in (mine, too, other)] == [False, False, True]

    async def test_no_condition_ends_no_link(self, store: ResourceStore) -> None:
        await store.save_link(_link())
        assert await store.delete_links() == 0

    async def test_the_sweeper_takes_those_that_are_over(self, store: ResourceStore) -> None:
        over, alive = _link(lifetime=timedelta(0)), _link(lifetime=MOMENT)
        await store.save_link(over)
        await store.save_link(alive)
        await sweep(store, before=NOW)
        assert (await store.has_link(over), await store.has_link(alive)) == (False, True)
