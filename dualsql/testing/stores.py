"""The promises of any ResourceStore, as tests. Instants are counted from NOW."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from dualsql.errors import BadParameterError, DualResponseError, StorageError
from dualsql.resource import INTERRUPTED, KeptRows, Principal, Resource, Total, new_resource_id
from dualsql.store import MemoryStore
from dualsql.store.protocol import (
    Access,
    KeptChange,
    LinkRecord,
    Requester,
    ResourceChanges,
    ResourceStore,
    Usage,
)

if TYPE_CHECKING:
    pass

NOW = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
"""The shortest time that a store keeps apart."""


def minutes(number: float) -> datetime:
    """The instant so many minutes after NOW."""
    return NOW + timedelta(minutes=number)


def resource(**changes: Any) -> Resource:
    """A resource of NOW that expires in 15 minutes, except for `changes`."""
    fields: dict[str, Any] = {
        "id": new_resource_id(),
        "name": "Institution Search Results",
        "source": "default",
        "document": b"\x00\xffdocument",
        "signature": bytes(range(32)),
        "columns": [
            {"name": "unitid", "type": "number", "encoding": "integer"},
            {"name": "tags", "type": "string", "encoding": "array", "items": "text"},
        ],
        "total_count": 847,
        "total_count_kind": "exact",
        "created_at": NOW,
        "expires_at": minutes(15),
        "lifetime": timedelta(minutes=15),
    }
    return Resource(**(fields | changes))


def pending(**changes: Any) -> Resource:
    """A resource whose query still runs, and is known to until a minute after NOW."""
    unknown = {"total_count": None, "total_count_kind": "none"}
    return resource(status="pending", pending_until=minutes(1), **unknown, **changes)


def ready(former: Resource) -> Resource:
    """The same, once its query has run."""
    return replace(
        former,
        status="ready",
        pending_until=None,
        total_count=3,
        total_count_kind="exact",
        sample=[{"unitid": 1, "tags": []}],
        expires_at=minutes(20),
    )


EVERY_FIELD = resource(
    owner="ana",
    tenant="acme",
    sample=[{"unitid": 1, "tags": ["a", None]}, {"unitid": 2**63 - 1, "tags": []}],
    metadata={"z": 1, "a": {"nested": [1.5, None, True]}},
    access_count=7,
    last_accessed_at=minutes(1),
    lifetime=timedelta(days=400, microseconds=1),
)

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


def link(resource_id: str = "r", lifetime: timedelta = timedelta(minutes=5)) -> LinkRecord:
    """The record of a new link."""
    return LinkRecord(id=new_resource_id(), resource_id=resource_id, expires_at=NOW + lifetime)


async def save_all(store: ResourceStore, *resources: Resource) -> list[str]:
    """The ids of the resources, which are stored now."""
    return [await store.save(each) for each in resources]


class ResourceStoreTests:
    """Tests of a ResourceStore. A subclass has the fixture `new_store`, which gives a new, empty store.

    class TestMyStore(ResourceStoreTests):
        @pytest.fixture
        def new_store(self, tmp_path: Path) -> MyStore:
            return MyStore(tmp_path / "store")

    The tests open the store and close it. They run on asyncio, with anyio's plugin for pytest.
    """

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def store(self, new_store: ResourceStore, anyio_backend: str) -> AsyncIterator[ResourceStore]:
        """The store that a test uses."""
        await new_store.open()
        yield new_store
        await new_store.close()

    # Saving and getting

    @pytest.mark.parametrize(
        "original",
        [
            resource(),
            EVERY_FIELD,
            pending(),
            resource(expires_at=None, total_count=None, total_count_kind="none"),
        ],
        ids=["plain", "every field", "pending", "pinned"],
    )
    async def test_what_was_saved_comes_back(self, store: ResourceStore, original: Resource) -> None:
        assert await store.save(original) == original.id
        assert await store.get(original.id) == original

    async def test_the_keys_of_a_row_keep_their_order(self, store: ResourceStore) -> None:
        await store.save(EVERY_FIELD)
        row = await store.get(EVERY_FIELD.id)
        assert row is not None and list(row.metadata) == ["z", "a"]
        assert [list(row) for row in row.sample or ()] == [["unitid", "tags"]] * 2

    async def test_an_unknown_id_is_none(self, store: ResourceStore) -> None:
        assert await store.get("nobody") is None

    async def test_ids_differ_by_the_case_of_a_letter(self, store: ResourceStore) -> None:
        small, large = await save_all(store, resource(id="abc"), resource(id="ABC"))
        assert await store.delete(small) == 1
        assert await store.get(small) is None
        assert await store.get(large) is not None

    async def test_the_states_of_many_are_one_question(self, store: ResourceStore) -> None:
        resources = [resource(expires_at=at) for at in (minutes(-1), minutes(5), None)]
        resources.append(pending())
        ids = [*await save_all(store, *resources), "nobody", "no\x00body", "x" * 1_000]
        assert await store.standings(ids) == {each.id: (each.status, each.expires_at) for each in resources}
        assert await store.standings([]) == {}

    async def test_an_expired_resource_is_still_there(self, store: ResourceStore) -> None:
        original = resource(expires_at=minutes(-1))
        await store.save(original)
        assert await store.get(original.id) == original

    async def test_an_id_is_taken_once(self, store: ResourceStore) -> None:
        first = resource()
        await store.save(first)
        with pytest.raises(StorageError):
            await store.save(resource(id=first.id, name="another"))
        assert await store.get(first.id) == first

    async def test_instants_come_back_in_utc(self, store: ResourceStore) -> None:
        tokyo = timezone(timedelta(hours=9))
        original = resource(created_at=NOW.astimezone(tokyo), expires_at=minutes(5).astimezone(tokyo))
        await store.save(original)
        row = await store.get(original.id)
        assert row is not None and row.created_at.tzinfo is UTC
        assert row == original

    @pytest.mark.parametrize("field", ["created_at", "expires_at", "last_accessed_at"])
    async def test_an_instant_without_a_zone_is_refused(self, store: ResourceStore, field: str) -> None:
        with pytest.raises(ValueError, match="zone"):
            await store.save(resource(**{field: NOW.replace(tzinfo=None)}))

    async def test_nothing_mutable_is_shared_with_callers(self, store: ResourceStore) -> None:
        metadata: dict[str, Any] = {"list": [1]}
        original = resource(metadata=metadata)
        await store.save(original)
        metadata["list"].append("from the one who saved")
        row = await store.get(original.id)
        assert row is not None and row.metadata == {"list": [1]}
        row.metadata["list"].append("from the one who read")
        again = await store.get(original.id)
        assert again is not None and again.metadata == {"list": [1]}

    async def test_a_store_that_was_closed_can_be_opened_again(self, store: ResourceStore) -> None:
        await store.close()
        await store.open()
        [again] = await save_all(store, resource())
        assert await store.get(again) is not None

    # Updating

    async def test_nothing_is_changed_by_no_changes(self, store: ResourceStore) -> None:
        original = resource()
        await store.save(original)
        assert await store.update(original.id, ResourceChanges())
        assert await store.get(original.id) == original

    @pytest.mark.parametrize(
        "changes",
        [ResourceChanges(accesses=1), ResourceChanges(pin=True, now=NOW), ResourceChanges()],
        ids=["accesses", "pin", "none"],
    )
    async def test_an_unknown_id_is_not_updated(self, store: ResourceStore, changes: ResourceChanges) -> None:
        assert not await store.update("nobody", changes)

    async def test_accesses_add_up_and_the_latest_stays(self, store: ResourceStore) -> None:
        original = resource(access_count=5)
        await store.save(original)
        for accesses, accessed_at in [(1, minutes(2)), (3, minutes(1)), (2, None)]:
            await store.update(original.id, ResourceChanges(accesses=accesses, accessed_at=accessed_at))
        await store.add_accesses({original.id: Access(4, minutes(3)), "nobody": Access(1, NOW)})
        row = await store.get(original.id)
        assert row is not None and (row.access_count, row.last_accessed_at) == (15, minutes(3))

    async def test_no_concurrent_update_is_lost(self, store: ResourceStore) -> None:
        original = resource()
        await store.save(original)
        one = ResourceChanges(accesses=1, accessed_at=NOW)
        pin = store.update(original.id, ResourceChanges(pin=True, now=NOW))
        assert all(await asyncio.gather(*(store.update(original.id, one) for _ in range(16)), pin))
        row = await store.get(original.id)
        assert row is not None and (row.access_count, row.is_pinned) == (16, True)

    @pytest.mark.parametrize(
        ("expires_at", "extend_to", "expected"),
        [
            (minutes(15), minutes(20), minutes(20)),
            (minutes(15), minutes(10), minutes(15)),  # never shortened
            (NOW + MOMENT, minutes(20), minutes(20)),  # the last moment of its life
            (NOW, minutes(20), NOW),  # expired this very moment
            (None, minutes(20), None),  # pinned
        ],
    )
    async def test_only_a_living_resource_is_extended(
        self,
        store: ResourceStore,
        expires_at: datetime | None,
        extend_to: datetime,
        expected: datetime | None,
    ) -> None:
        original = resource(expires_at=expires_at)
        await store.save(original)
        assert await store.update(original.id, ResourceChanges(accesses=1, extend_to=extend_to, now=NOW))
        row = await store.get(original.id)
        assert row is not None and (row.expires_at, row.access_count) == (expected, 1)

    @pytest.mark.parametrize(
        ("expires_at", "pinned"), [(None, True), (NOW + MOMENT, True), (NOW, False), (NOW - MOMENT, False)]
    )
    async def test_only_a_living_resource_is_pinned(
        self, store: ResourceStore, expires_at: datetime | None, pinned: bool
    ) -> None:
        original = resource(expires_at=expires_at)
        await store.save(original)
        assert await store.update(original.id, ResourceChanges(pin=True, accesses=1, now=NOW)) is pinned
        row = await store.get(original.id)
        assert row is not None and row.expires_at == (None if pinned else expires_at)
        assert row.access_count == (1 if pinned else 0)

    @pytest.mark.parametrize("expires_at", [minutes(15), None, NOW - MOMENT])
    async def test_only_a_pinned_resource_is_unpinned(
        self, store: ResourceStore, expires_at: datetime | None
    ) -> None:
        original = resource(expires_at=expires_at)
        await store.save(original)
        assert await store.update(original.id, ResourceChanges(unpin_to=minutes(30)))
        row = await store.get(original.id)
        assert row is not None and row.expires_at == (expires_at or minutes(30))

    async def test_a_pin_outweighs_an_extension(self, store: ResourceStore) -> None:
        original = resource()
        await store.save(original)
        await store.update(original.id, ResourceChanges(pin=True, extend_to=minutes(60), now=NOW))
        row = await store.get(original.id)
        assert row is not None and row.is_pinned

    async def test_instants_of_any_zone_are_compared_as_instants(self, store: ResourceStore) -> None:
        honolulu = timezone(timedelta(hours=-10))
        original = resource(expires_at=minutes(1))
        await store.save(original)
        changes = ResourceChanges(
            accessed_at=NOW.astimezone(honolulu),
            extend_to=minutes(2).astimezone(honolulu),
            now=NOW.astimezone(honolulu),
        )
        assert await store.update(original.id, changes)
        assert await store.find_expired(before=minutes(2).astimezone(honolulu)) == [original.id]
        assert await store.find_expired(before=(minutes(2) - MOMENT).astimezone(honolulu)) == []

    async def test_a_record_of_kept_rows_is_replaced_only_where_it_is_the_one_that_was_read(
        self, store: ResourceStore
    ) -> None:
        original = resource()
        await save_all(store, original)
        first, second = (
            KeptRows(storage="s", file="a", rows=3),
            KeptRows(storage="s", file="b", cells=["text"]),
        )
        for before, after, is_changed in [
            (second, first, False),
            (None, first, True),
            (None, second, False),
            (second, second, False),
            (first, second, True),
            (first, None, False),
        ]:
            before_update = await store.get(original.id)
            changes = ResourceChanges(kept=KeptChange(before, after), total=Total(7, "exact"))
            assert await store.update(original.id, changes) is is_changed
            row = await store.get(original.id)
            assert row == (replace(original, kept=after, total_count=7) if is_changed else before_update)
        row = await store.get(original.id)
        assert row is not None
        racing = [KeptRows(file=f"{number}") for number in range(8)]
        answers = await asyncio.gather(
            *(store.update(original.id, ResourceChanges(kept=KeptChange(row.kept, kept))) for kept in racing)
        )
        assert answers.count(True) == 1
        row = await store.get(original.id)
        assert row is not None
        assert row.kept == racing[answers.index(True)]

    # Deleting

    async def test_deleting_says_how_many_were_there(self, store: ResourceStore) -> None:
        remaining, first, second = resource(), resource(), resource(expires_at=None)
        await save_all(store, remaining, first, second)
        assert await store.delete(first.id, second.id, first.id, "nobody") == 2
        assert await store.delete(first.id) == 0
        assert await store.delete() == 0
        assert await store.get(remaining.id) == remaining

    @pytest.mark.parametrize(
        ("expires_at", "deleted"), [(NOW - MOMENT, 1), (NOW, 1), (NOW + MOMENT, 0), (None, 0)]
    )
    async def test_the_condition_of_deleting_holds_to_the_moment(
        self, store: ResourceStore, expires_at: datetime | None, deleted: int
    ) -> None:
        original = resource(expires_at=expires_at)
        await store.save(original)
        assert await store.delete(original.id, expired_before=NOW) == deleted
        assert (await store.get(original.id) is None) == bool(deleted)

    async def test_each_is_deleted_once(self, store: ResourceStore) -> None:
        ids = await save_all(store, *(resource() for _ in range(8)))
        deleted = await asyncio.gather(*(store.delete(*ids) for _ in range(4)))
        assert sum(deleted) == 8

    async def test_the_longest_expired_come_first(self, store: ResourceStore) -> None:
        for identifier, expires_at in {
            "b": minutes(-2),
            "pinned": None,
            "now": NOW,
            "a": minutes(-2),
            "alive": NOW + MOMENT,
            "first": minutes(-3),
        }.items():
            await store.save(resource(id=identifier, expires_at=expires_at))
        assert list(await store.find_expired(before=NOW)) == ["first", "a", "b", "now"]
        assert list(await store.find_expired(before=NOW, limit=2)) == ["first", "a"]
        assert list(await store.find_expired(before=NOW, limit=0)) == []
        assert list(await store.find_expired(before=NOW, limit=-1)) == []

    # Hostile values

    @pytest.mark.parametrize(
        "identifier",
        ["", "\x00", "a\x00b", "\ud800", "é", "a b", "x" * 65, "' OR 1=1 --", "%00", "../x", "*"],
        ids=ascii,
    )
    async def test_an_impossible_id_is_unknown(self, store: ResourceStore, identifier: str) -> None:
        [other] = await save_all(store, resource())
        assert await store.get(identifier) is None
        assert await store.update(identifier, ResourceChanges(pin=True, now=NOW)) is False
        assert await store.delete(identifier) == 0
        assert await store.get(other) is not None
        with pytest.raises(BadParameterError):
            await store.save(resource(id=identifier))

    @pytest.mark.parametrize("identifier", [".", "..", "~", "-", "a.b~c-d_e", "x" * 64])
    async def test_any_possible_id_is_kept(self, store: ResourceStore, identifier: str) -> None:
        original = resource(id=identifier)
        await store.save(original)
        assert await store.get(identifier) == original
        assert await store.delete(identifier) == 1

    @pytest.mark.parametrize(
        "text",
        ["", "'; DROP TABLE dualsql_resources; --", '"%s" :name ?', "𝒰𝓃𝒾 ‮ \u2028 \ufffe 日本", "\n\t\x7f"],
        ids=ascii,
    )
    async def test_any_text_comes_back_as_it_was(self, store: ResourceStore, text: str) -> None:
        original = resource(
            name=text, source=text, owner=text, tenant=text, metadata={text: text, "nul": "\x00"}
        )
        await store.save(original)
        assert await store.get(original.id) == original

    @pytest.mark.parametrize("text", ["a\x00b", "\ud800", "ok \udfff"], ids=ascii)
    @pytest.mark.parametrize("field", ["name", "source", "owner", "tenant"])
    async def test_a_text_that_cannot_be_kept_is_refused(
        self, store: ResourceStore, field: str, text: str
    ) -> None:
        await self._is_stored_or_refused(store, resource(**{field: text}))

    @pytest.mark.parametrize(
        "metadata",
        [{"a": object()}, {1: "a"}, {"a": {2}}, {"a": "\ud800"}, {"a": 2**64}, {"a": b""}],
        ids=["object", "key", "set", "surrogate", "65 bits", "bytes"],
    )
    async def test_metadata_that_cannot_be_kept_is_refused(
        self, store: ResourceStore, metadata: dict[Any, Any]
    ) -> None:
        await self._is_stored_or_refused(store, resource(metadata=metadata))

    async def _is_stored_or_refused(self, store: ResourceStore, original: Resource) -> None:
        try:
            await store.save(original)
        except BadParameterError:
            assert await store.get(original.id) is None
        else:
            assert await store.get(original.id) == original

    async def test_metadata_without_end_is_refused(self, store: ResourceStore) -> None:
        endless: dict[str, Any] = {}
        endless["again"] = endless
        with pytest.raises(BadParameterError, match="metadata"):
            await store.save(resource(metadata=endless))

    async def test_a_megabyte_of_metadata_comes_back(self, store: ResourceStore) -> None:
        large = resource(metadata={"text": "x" * 1_000_000})
        await store.save(large)
        assert await store.get(large.id) == large

    # Principals

    @pytest.mark.parametrize("owner", [ANA, Principal(id="ana")], ids=str)
    async def test_a_viewer_finds_its_own_and_what_nobody_owns(
        self, store: ResourceStore, owner: Principal
    ) -> None:
        bound, free = await save_all(store, of(owner), of(None))
        for viewer in (None, ANA, *STRANGERS):
            asking = Requester(principal=viewer, since=NOW)
            assert (await store.get(bound, asking) is not None) is (viewer == owner), viewer
            assert await store.get(free, asking) is not None

    async def test_a_viewer_finds_nothing_that_expired_long_ago(self, store: ResourceStore) -> None:
        over, pinned = await save_all(store, of(ANA, expires_at=NOW), of(ANA, expires_at=None))
        for since, is_there in ((NOW - MOMENT, True), (NOW, True), (NOW + MOMENT, False)):
            viewer = Requester(principal=ANA, since=since)
            assert (await store.get(over, viewer) is not None) is is_there
            assert await store.get(pinned, viewer) is not None
        assert await store.get(over) is not None

    async def test_a_listing_has_the_principal_s_own_alone(self, store: ResourceStore) -> None:
        [mine] = await save_all(store, of(ANA))
        await save_all(store, of(None), *map(of, STRANGERS))
        assert [row.id for row in (await store.find(ANA, now=NOW, limit=100)).resources] == [mine]
        for stranger in STRANGERS:
            [theirs] = (await store.find(stranger, now=NOW, limit=100)).resources
            assert (theirs.owner, theirs.tenant) == (stranger.id, stranger.tenant)

    async def test_a_listing_begins_with_the_newest_and_leaves_out_the_expired(
        self, store: ResourceStore
    ) -> None:
        old, new, pinned = await save_all(
            store,
            of(ANA, created_at=minutes(-5)),
            of(ANA, created_at=minutes(-1)),
            of(ANA, created_at=minutes(-3), expires_at=None),
        )
        await save_all(store, of(ANA, expires_at=NOW), of(ANA, expires_at=minutes(-1)))
        assert [row.id for row in (await store.find(ANA, now=NOW, limit=9)).resources] == [
            new,
            pinned,
            old,
        ]

    @pytest.mark.parametrize("size", [1, 3, 7])
    async def test_parts_of_a_listing_join_to_the_whole(self, store: ResourceStore, size: int) -> None:
        await save_all(store, *(of(ANA, created_at=NOW - MOMENT * (number // 3)) for number in range(7)))
        whole = [row.id for row in (await store.find(ANA, now=NOW, limit=100)).resources]
        ids: list[str] = []
        part = await store.find(ANA, now=NOW, limit=size)
        while True:
            assert len(part.resources) <= size
            ids += [row.id for row in part.resources]
            if part.next is None:
                break
            part = await store.find(ANA, now=NOW, limit=size, after=part.next)
        assert ids == whole and len(set(ids)) == 7

    async def test_usage_counts_what_lives_and_its_bytes(self, store: ResourceStore) -> None:
        assert await store.usage(ANA, now=NOW) == Usage(0, 0, 0, 0)
        light, heavy = of(ANA), of(ANA, expires_at=None, metadata={"note": "x" * 10_000})
        await save_all(store, light, heavy, of(ANA, expires_at=NOW), of(None), *map(of, STRANGERS))
        usage = await store.usage(ANA, now=NOW)
        assert (usage.count, usage.pinned_count) == (2, 1)
        assert usage.pinned_size > 10_000 and usage.size > usage.pinned_size

    async def test_the_oldest_unpinned_come_first_with_their_size(self, store: ResourceStore) -> None:
        new, old = of(ANA, created_at=minutes(-1)), of(ANA, created_at=minutes(-2), metadata={"a": "b"})
        await save_all(store, new, old, of(ANA, expires_at=None), *map(of, STRANGERS))
        rows = list(await store.find_unpinned(ANA, now=NOW, limit=9))
        assert [resource_id for resource_id, _ in rows] == [old.id, new.id]
        usage = await store.usage(ANA, now=NOW)
        assert sum(size for _, size in rows) == usage.size - usage.pinned_size
        assert list(await store.find_unpinned(ANA, now=NOW, limit=1)) == rows[:1]

    async def test_pins_of_a_caller_are_counted_while_they_last(self, store: ResourceStore) -> None:
        light, heavy, other = of(None), of(None, metadata={"note": "x" * 10_000}), of(None)
        await save_all(store, light, heavy, other, of(None, expires_at=None))
        assert await store.pins("caller") == Usage(0, 0, 0, 0)
        for resource_id, by in ((light.id, "caller"), (heavy.id, "caller"), (other.id, "another")):
            assert await store.update(resource_id, ResourceChanges(pin=True, pinned_by=by, now=NOW))
        # Of a pinned resource, nothing changes: not whose pin it is.
        await store.update(heavy.id, ResourceChanges(pin=True, pinned_by="another", now=NOW))
        await store.update(other.id, ResourceChanges(pin=True, now=NOW))
        usage, others = await store.pins("caller"), await store.pins("another")
        assert (usage.count, usage.pinned_count, others.count) == (2, 2, 1)
        assert usage.size == usage.pinned_size > 10_000 > others.size
        await store.update(heavy.id, ResourceChanges(unpin_to=minutes(1)))
        await store.update(heavy.id, ResourceChanges(pin=True, now=NOW))
        assert (await store.pins("caller")).count == 1
        await store.delete(light.id)
        assert await store.pins("caller") == Usage(0, 0, 0, 0)

    # Signed links

    async def test_a_link_lives_until_it_is_ended(self, store: ResourceStore) -> None:
        record = link()
        assert not await store.has_link(record)
        await store.save_link(record)
        assert await store.has_link(record) and await store.has_link(record)
        assert await store.delete_links(link_id=record.id) == 1
        assert not await store.has_link(record)
        assert await store.delete_links(link_id=record.id) == 0

    async def test_a_link_is_for_one_resource(self, store: ResourceStore) -> None:
        record = link("this")
        await store.save_link(record)
        other = LinkRecord(id=record.id, resource_id="that", expires_at=record.expires_at)
        assert not await store.has_link(other, take=True)
        assert await store.has_link(record)

    async def test_only_one_of_many_takes_a_link(self, store: ResourceStore) -> None:
        record = link()
        await store.save_link(record)
        outcomes = await asyncio.gather(*(store.has_link(record, take=True) for _ in range(32)))
        assert outcomes.count(True) == 1
        assert not await store.has_link(record)

    async def test_all_links_of_a_resource_end_together(self, store: ResourceStore) -> None:
        mine, too, other = link("a"), link("a"), link("b")
        for each in (mine, too, other):
            await store.save_link(each)
        assert await store.delete_links() == 0
        assert await store.delete_links(resource_id="a") == 2
        assert [await store.has_link(each) for each in (mine, too, other)] == [False, False, True]

    async def test_expired_links_are_deleted(self, store: ResourceStore) -> None:
        over, alive = link(lifetime=timedelta(0)), link(lifetime=MOMENT)
        await store.save_link(over)
        await store.save_link(alive)
        assert await store.delete_links(expired_before=NOW) == 1
        assert (await store.has_link(over), await store.has_link(alive)) == (False, True)

    # Pending resources

    async def test_a_pending_resource_is_settled_once(self, store: ResourceStore) -> None:
        original = pending()
        await store.save(original)
        failure = replace(ready(original), status="failed", failure=INTERRUPTED, sample=None)
        ends = [store.settle(ready(original)), store.settle(failure)]
        assert sorted(await asyncio.gather(*ends)) == [False, True]
        assert await store.get(original.id) in (ready(original), failure)
        assert not await store.settle(pending())  # it was never stored

    async def test_a_pin_and_accesses_outlast_the_end_of_the_query(self, store: ResourceStore) -> None:
        original = pending()
        await store.save(original)
        await store.update(original.id, ResourceChanges(pin=True, now=NOW, accesses=2, accessed_at=NOW))
        await store.settle(ready(original))
        settled = replace(ready(original), expires_at=None, access_count=2, last_accessed_at=NOW)
        assert await store.get(original.id) == settled

    async def test_only_pending_resources_are_prolonged(self, store: ResourceStore) -> None:
        waiting, over = pending(), resource()
        await save_all(store, waiting, over)
        assert list(await store.prolong([waiting.id, over.id, "unknown"], until=minutes(2))) == [waiting.id]
        assert await store.get(waiting.id) == replace(waiting, pending_until=minutes(2))
        assert await store.get(over.id) == over

    async def test_overdue_resources_fail(self, store: ResourceStore) -> None:
        late, alive, over = pending(), replace(pending(), pending_until=minutes(2)), resource()
        await save_all(store, late, alive, over)
        assert await store.fail_overdue(INTERRUPTED, now=minutes(1) - MOMENT) == 0
        assert await store.fail_overdue(INTERRUPTED, now=minutes(1)) == 1
        failure = replace(late, status="failed", failure=INTERRUPTED, pending_until=None)
        assert await store.get(late.id) == failure
        assert await store.get(alive.id) == alive
        assert await store.get(over.id) == over
        assert not await store.settle(ready(late))

    async def test_the_sample_of_a_settled_resource_counts(self, store: ResourceStore) -> None:
        original = pending(owner="ann")
        await store.save(original)
        before = await store.usage(Principal(id="ann"), now=NOW)
        await store.settle(replace(ready(original), sample=[{"unitid": 1, "tags": ["x" * 1000]}]))
        after = await store.usage(Principal(id="ann"), now=NOW)
        assert after.size - before.size > 1_000

    # All together

    @pytest.mark.parametrize("seed", [0, 1])
    async def test_random_steps_have_the_answers_of_a_memory_store(
        self, store: ResourceStore, seed: int
    ) -> None:
        choose, memory = random.Random(seed), MemoryStore()  # noqa: S311 - a test repeats its numbers
        ids = [f"id-{number}" for number in range(6)]
        instants = [None, *(minutes(number) for number in range(-3, 4))]
        for _ in range(200):
            step = _random_step(choose, ids, instants)
            assert await _outcome(store, *step) == await _outcome(memory, *step), step
        for identifier in ids:
            assert await store.get(identifier) == await memory.get(identifier)


def _random_step(
    choose: random.Random, ids: list[str], instants: list[datetime | None]
) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    identifier, instant, now = choose.choice(ids), choose.choice(instants), choose.choice(instants[1:])
    changes = ResourceChanges(
        accesses=choose.randrange(3),
        accessed_at=choose.choice(instants),
        extend_to=choose.choice(instants),
        pin=choose.random() < 0.2,
        pinned_by=choose.choice([None, "caller"]),
        now=now,
    )
    steps: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("save", (resource(id=identifier, expires_at=instant),), {}),
        ("get", (identifier,), {}),
        ("update", (identifier, changes), {}),
        ("update", (identifier, changes), {}),
        ("delete", tuple(choose.sample(ids, 2)), {"expired_before": now}),
        ("delete", (identifier,), {}),
        ("pins", ("caller",), {}),
        ("find_expired", (), {"before": now, "limit": choose.randrange(4)}),
    ]
    return choose.choice(steps)


async def _outcome(store: ResourceStore, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The answer, or the class of the error."""
    try:
        answer = await getattr(store, method)(*args, **options)
    except DualResponseError as error:
        return type(error)
    return list(answer) if method == "find_expired" else answer
