"""What any ResourceStore promises, asked of every store there is."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from dualsql.errors import BadParameterError, LimitExceededError, StorageError
from dualsql.resource import Resource
from dualsql.store import MemoryStore, ResourceChanges, ResourceStore, SQLResourceStore
from dualsql.store.tables import MAXIMUM_ROW_BYTES
from tests.store.samples import MOMENT, NOW, minutes, resource

EVERY_FIELD = resource(
    owner="ana",
    tenant="acme",
    sample=[{"unitid": 1, "tags": ["a", None]}, {"unitid": 2**63 - 1, "tags": []}],
    metadata={"z": 1, "a": {"nested": [1.5, None, True]}},
    access_count=7,
    last_accessed_at=minutes(1),
    lifetime=timedelta(days=400, microseconds=1),
)


class TestSaveAndGet:
    @pytest.mark.parametrize(
        "saved",
        [resource(), EVERY_FIELD, resource(expires_at=None, total_count=None, total_count_kind="none")],
    )
    async def test_what_was_saved_comes_back(self, store: ResourceStore, saved: Resource) -> None:
        assert await store.save(saved) == saved.id
        assert await store.get(saved.id) == saved

    async def test_the_keys_of_a_row_keep_their_order(self, store: ResourceStore) -> None:
        await store.save(EVERY_FIELD)
        found = await store.get(EVERY_FIELD.id)
        assert found is not None and list(found.metadata) == ["z", "a"]
        assert [list(row) for row in found.sample or ()] == [["unitid", "tags"]] * 2

    async def test_an_unknown_id_is_none(self, store: ResourceStore) -> None:
        assert await store.get("nobody") is None

    async def test_how_many_stand_is_one_question(self, store: ResourceStore) -> None:
        saved = [resource(expires_at=at) for at in (minutes(-1), minutes(5), None)]
        saved.append(resource(status="pending", pending_until=minutes(1)))
        for item in saved:
            await store.save(item)
        asked = [*(item.id for item in saved), "nobody", "no\x00body", "x" * 1_000]
        assert await store.standings(asked) == {item.id: (item.status, item.expires_at) for item in saved}
        assert await store.standings([]) == {}

    async def test_an_expired_resource_is_still_there(self, store: ResourceStore) -> None:
        saved = resource(expires_at=minutes(-1))
        await store.save(saved)
        assert await store.get(saved.id) == saved

    async def test_an_id_is_taken_once(self, store: ResourceStore) -> None:
        first = resource()
        await store.save(first)
        with pytest.raises(StorageError, match="already stored"):
            await store.save(resource(id=first.id, name="another"))
        assert await store.get(first.id) == first

    async def test_instants_come_back_in_utc(self, store: ResourceStore) -> None:
        tokyo = timezone(timedelta(hours=9))
        saved = resource(created_at=NOW.astimezone(tokyo), expires_at=minutes(5).astimezone(tokyo))
        await store.save(saved)
        found = await store.get(saved.id)
        assert found is not None and found.created_at.tzinfo is UTC
        assert found == saved

    @pytest.mark.parametrize("field", ["created_at", "expires_at", "last_accessed_at"])
    async def test_an_instant_without_a_zone_is_refused(self, store: ResourceStore, field: str) -> None:
        with pytest.raises(ValueError, match="zone"):
            await store.save(resource(**{field: NOW.replace(tzinfo=None)}))

    async def test_nothing_mutable_is_shared_with_callers(self, store: ResourceStore) -> None:
        given: dict[str, Any] = {"list": [1]}
        saved = resource(metadata=given)
        await store.save(saved)
        given["list"].append("from the one who saved")
        found = await store.get(saved.id)
        assert found is not None and found.metadata == {"list": [1]}
        found.metadata["list"].append("from the one who read")
        again = await store.get(saved.id)
        assert again is not None and again.metadata == {"list": [1]}


class TestUpdate:
    async def test_nothing_is_changed_by_no_changes(self, store: ResourceStore) -> None:
        saved = resource()
        await store.save(saved)
        assert await store.update(saved.id, ResourceChanges())
        assert await store.get(saved.id) == saved

    @pytest.mark.parametrize(
        "changes", [ResourceChanges(accesses=1), ResourceChanges(pin=True, now=NOW), ResourceChanges()]
    )
    async def test_an_unknown_id_is_not_updated(self, store: ResourceStore, changes: ResourceChanges) -> None:
        assert not await store.update("nobody", changes)

    async def test_accesses_add_up_and_the_latest_stays(self, store: ResourceStore) -> None:
        saved = resource(access_count=5)
        await store.save(saved)
        for accesses, accessed_at in [(1, minutes(2)), (3, minutes(1)), (2, None)]:
            await store.update(saved.id, ResourceChanges(accesses=accesses, accessed_at=accessed_at))
        found = await store.get(saved.id)
        assert found is not None and (found.access_count, found.last_accessed_at) == (11, minutes(2))

    @pytest.mark.quick(4)
    @pytest.mark.parametrize(
        ("expires_at", "extend_to", "expected"),
        [
            (minutes(15), minutes(20), minutes(20)),
            (minutes(15), minutes(10), minutes(15)),  # never shortened
            (NOW + MOMENT, minutes(20), minutes(20)),  # the last moment of its life
            (NOW, minutes(20), NOW),  # expired this very moment
            (minutes(-1), minutes(20), minutes(-1)),
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
        saved = resource(expires_at=expires_at)
        await store.save(saved)
        assert await store.update(saved.id, ResourceChanges(accesses=1, extend_to=extend_to, now=NOW))
        found = await store.get(saved.id)
        assert found is not None and (found.expires_at, found.access_count) == (expected, 1)

    @pytest.mark.parametrize(
        ("expires_at", "pinned"),
        [(minutes(15), True), (None, True), (NOW + MOMENT, True), (NOW, False), (NOW - MOMENT, False)],
    )
    async def test_only_a_living_resource_is_pinned(
        self, store: ResourceStore, expires_at: datetime | None, pinned: bool
    ) -> None:
        saved = resource(expires_at=expires_at)
        await store.save(saved)
        assert await store.update(saved.id, ResourceChanges(pin=True, accesses=1, now=NOW)) is pinned
        found = await store.get(saved.id)
        assert found is not None and found.expires_at == (None if pinned else expires_at)
        assert found.access_count == (1 if pinned else 0)

    @pytest.mark.parametrize("expires_at", [minutes(15), None, NOW - MOMENT])
    async def test_only_a_pinned_resource_is_unpinned(
        self, store: ResourceStore, expires_at: datetime | None
    ) -> None:
        saved = resource(expires_at=expires_at)
        await store.save(saved)
        assert await store.update(saved.id, ResourceChanges(unpin_to=minutes(30)))
        found = await store.get(saved.id)
        assert found is not None and found.expires_at == (expires_at or minutes(30))

    async def test_a_pin_outweighs_an_extension(self, store: ResourceStore) -> None:
        saved = resource()
        await store.save(saved)
        await store.update(saved.id, ResourceChanges(pin=True, extend_to=minutes(60), now=NOW))
        found = await store.get(saved.id)
        assert found is not None and found.is_pinned

    async def test_instants_of_any_zone_are_compared_as_instants(self, store: ResourceStore) -> None:
        honolulu = timezone(timedelta(hours=-10))
        saved = resource(expires_at=minutes(1))
        await store.save(saved)
        assert await store.update(
            saved.id,
            ResourceChanges(
                accessed_at=NOW.astimezone(honolulu),
                extend_to=minutes(2).astimezone(honolulu),
                now=NOW.astimezone(honolulu),
            ),
        )
        assert await store.find_expired(before=minutes(2).astimezone(honolulu)) == [saved.id]
        assert await store.find_expired(before=(minutes(2) - MOMENT).astimezone(honolulu)) == []

    @pytest.mark.parametrize("changes", [{"pin": True}, {"extend_to": NOW}])
    def test_expiry_needs_an_instant_to_decide_by(self, changes: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="now"):
            ResourceChanges(**changes)


class TestDelete:
    async def test_it_says_how_many_were_there(self, store: ResourceStore) -> None:
        kept, first, second = resource(), resource(), resource(expires_at=None)
        for saved in (kept, first, second):
            await store.save(saved)
        assert await store.delete(first.id, second.id, first.id, "nobody") == 2
        assert await store.delete(first.id) == 0
        assert await store.delete() == 0
        assert await store.get(kept.id) == kept

    @pytest.mark.parametrize(
        ("expires_at", "deleted"), [(NOW - MOMENT, 1), (NOW, 1), (NOW + MOMENT, 0), (None, 0)]
    )
    async def test_the_condition_holds_to_the_moment(
        self, store: ResourceStore, expires_at: datetime | None, deleted: int
    ) -> None:
        saved = resource(expires_at=expires_at)
        await store.save(saved)
        assert await store.delete(saved.id, expired_before=NOW) == deleted
        assert (await store.get(saved.id) is None) == bool(deleted)

    async def test_more_ids_than_a_statement_can_bind(self, store: ResourceStore) -> None:
        saved = resource()
        await store.save(saved)
        assert await store.delete(*(f"id-{number}" for number in range(70_000)), saved.id) == 1


class TestFindExpired:
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
        assert await store.find_expired(before=NOW) == ["first", "a", "b", "now"]
        assert await store.find_expired(before=NOW, limit=2) == ["first", "a"]
        assert await store.find_expired(before=NOW, limit=0) == []
        assert await store.find_expired(before=NOW, limit=-1) == []


class TestHostileValues:
    @pytest.mark.parametrize(
        "identifier", ["", "\x00", "a\x00b", "\ud800", "é", "a b", "x" * 65, "' OR 1=1 --", "%00"]
    )
    async def test_an_impossible_id_is_unknown(self, store: ResourceStore, identifier: str) -> None:
        assert await store.get(identifier) is None
        assert await store.update(identifier, ResourceChanges(pin=True, now=NOW)) is False
        assert await store.delete(identifier) == 0
        with pytest.raises(BadParameterError):
            await store.save(resource(id=identifier))

    @pytest.mark.parametrize(
        "text",
        ["", "'; DROP TABLE dualsql_resources; --", '"%s" :name ?', "𝒰𝓃𝒾 ‮ \u2028 \ufffe 日本", "\n\t\x7f"],
    )
    async def test_any_text_comes_back_as_it_was(self, store: ResourceStore, text: str) -> None:
        saved = resource(
            name=text, source=text, owner=text, tenant=text, metadata={text: text, "nul": "\x00"}
        )
        await store.save(saved)
        assert await store.get(saved.id) == saved

    @pytest.mark.parametrize("text", ["a\x00b", "\ud800", "ok \udfff"])
    @pytest.mark.parametrize("field", ["name", "source", "owner", "tenant"])
    async def test_text_that_no_database_holds_is_refused(
        self, store: ResourceStore, field: str, text: str
    ) -> None:
        with pytest.raises(BadParameterError, match=field):
            await store.save(resource(**{field: text}))

    @pytest.mark.parametrize(
        "metadata", [{"a": object()}, {1: "a"}, {"a": {2}}, {"a": "\ud800"}, {"a": 2**64}, {"a": b""}]
    )
    async def test_metadata_that_is_not_json_is_refused(
        self, store: ResourceStore, metadata: dict[Any, Any]
    ) -> None:
        with pytest.raises(BadParameterError, match="metadata"):
            await store.save(resource(metadata=metadata))

    async def test_metadata_without_bottom_is_refused(self, store: ResourceStore) -> None:
        endless: dict[str, Any] = {}
        endless["again"] = endless
        with pytest.raises(BadParameterError, match="metadata"):
            await store.save(resource(metadata=endless))

    async def test_large_metadata_comes_back_and_too_large_is_refused(self, store: ResourceStore) -> None:
        large = resource(metadata={"text": "x" * (MAXIMUM_ROW_BYTES // 4)})
        await store.save(large)
        assert await store.get(large.id) == large
        with pytest.raises(LimitExceededError):
            await store.save(resource(metadata={"text": "x" * MAXIMUM_ROW_BYTES}))


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(3))
async def test_the_sql_stores_do_what_the_memory_store_does(sql_store: SQLResourceStore, seed: int) -> None:
    """Two hundred random steps, the same answer to each."""
    choose, memory = random.Random(seed), MemoryStore()
    ids = [f"id-{number}" for number in range(6)]
    instants = [None, *(minutes(number) for number in range(-3, 4))]
    for _ in range(200):
        step = _random_step(choose, ids, instants)
        assert await _outcome(sql_store, *step) == await _outcome(memory, *step), step
    for identifier in ids:
        assert await sql_store.get(identifier) == await memory.get(identifier)


def _random_step(
    choose: random.Random, ids: list[str], instants: list[datetime | None]
) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    identifier, instant, now = choose.choice(ids), choose.choice(instants), choose.choice(instants[1:])
    changes = ResourceChanges(
        accesses=choose.randrange(3),
        accessed_at=choose.choice(instants),
        extend_to=choose.choice(instants),
        pin=choose.random() < 0.2,
        now=now,
    )
    steps: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("save", (resource(id=identifier, expires_at=instant),), {}),
        ("get", (identifier,), {}),
        ("update", (identifier, changes), {}),
        ("update", (identifier, changes), {}),
        ("delete", tuple(choose.sample(ids, 2)), {"expired_before": now}),
        ("delete", (identifier,), {}),
        ("find_expired", (), {"before": now, "limit": choose.randrange(4)}),
    ]
    return choose.choice(steps)


async def _outcome(store: ResourceStore, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return await getattr(store, method)(*args, **options)
    except StorageError as error:
        return str(error)
