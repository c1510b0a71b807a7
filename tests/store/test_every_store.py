"""What any ResourceStore promises, asked of every store there is; and what ours promise beyond that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from dualsql.errors import LimitExceededError
from dualsql.store import MemoryStore, ResourceChanges, ResourceStore, SQLResourceStore
from dualsql.store.housekeeping import sweep
from dualsql.store.protocol import Usage
from dualsql.store.rows import MAXIMUM_ROW_BYTES, size_of
from dualsql.testing import ResourceStoreTests
from dualsql.testing.stores import ANA, MOMENT, NOW, link, of, resource, save_all


class TestMemoryStore(ResourceStoreTests):
    @pytest.fixture
    def new_store(self) -> MemoryStore:
        return MemoryStore()


@pytest.mark.quick(1)
class TestSQLResourceStore(ResourceStoreTests):
    @pytest.fixture
    def new_store(self, store_url: str) -> SQLResourceStore:
        return SQLResourceStore(store_url)


class Forgetful(MemoryStore):
    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        actual = await super().update(resource_id, ResourceChanges(now=changes.now, pin=changes.pin))
        return actual and not changes.pin


class Indiscreet(MemoryStore):
    async def get(self, resource_id: str, viewer: Any = None) -> Any:
        return await super().get(resource_id)


class Generous(MemoryStore):
    async def has_link(self, link: Any, *, take: bool = False) -> bool:
        return await super().has_link(link)


class Overeager(MemoryStore):
    async def delete(self, *resource_ids: str, expired_before: Any = None) -> int:
        return await super().delete(*resource_ids)


class Excessive(MemoryStore):
    async def find(self, principal: Any, *, now: Any, limit: int, after: Any = None) -> Any:
        return await super().find(principal, now=now, limit=limit + (after is not None), after=after)


class Hasty(MemoryStore):
    async def settle(self, resource: Any) -> bool:
        await super().settle(resource)
        return True


class Sharing(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, Any] = {}

    async def save(self, resource: Any) -> str:
        self.given[resource.id] = resource
        return await super().save(resource)

    async def get(self, resource_id: str, viewer: Any = None) -> Any:
        return self.given.get(resource_id)


@pytest.mark.parametrize(
    ("kind", "test", "case"),
    [
        (Forgetful, "test_accesses_add_up_and_the_latest_stays", {}),
        (Forgetful, "test_no_concurrent_update_is_lost", {}),
        (Indiscreet, "test_a_viewer_finds_its_own_and_what_nobody_owns", {"owner": ANA}),
        (Generous, "test_only_one_of_many_takes_a_link", {}),
        (Overeager, "test_the_condition_of_deleting_holds_to_the_moment", {"expires_at": None, "deleted": 0}),
        (Excessive, "test_parts_of_a_listing_join_to_the_whole", {"size": 3}),
        (Hasty, "test_a_pending_resource_is_settled_once", {}),
        (Sharing, "test_nothing_mutable_is_shared_with_callers", {}),
        (Sharing, "test_random_steps_have_the_answers_of_a_memory_store", {"seed": 0}),
    ],
)
async def test_the_tests_of_any_store_find_a_defect(
    kind: type[MemoryStore], test: str, case: dict[str, Any]
) -> None:
    run = getattr(ResourceStoreTests(), test)
    await run(MemoryStore(), **case)
    with pytest.raises(AssertionError):
        await run(kind(), **case)


class TestOurs:
    """What stores of others may do in another way."""

    @pytest.fixture(params=[MemoryStore, SQLResourceStore])
    async def store(self, request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[ResourceStore]:
        rows = (
            MemoryStore()
            if request.param is MemoryStore
            else SQLResourceStore(request.getfixturevalue("sqlite_store_url"))
        )
        yield rows
        await rows.close()

    async def test_too_large_a_row_is_refused(self, store: ResourceStore) -> None:
        large = resource(metadata={"text": "x" * (MAXIMUM_ROW_BYTES // 4)})
        await store.save(large)
        assert await store.get(large.id) == large
        with pytest.raises(LimitExceededError):
            await store.save(resource(metadata={"text": "x" * MAXIMUM_ROW_BYTES}))

    async def test_usage_is_the_size_of_the_row(self, store: ResourceStore) -> None:
        light, heavy = of(ANA), of(ANA, expires_at=None, metadata={"note": "x" * 10_000})
        await save_all(store, light, heavy)
        assert await store.usage(ANA, now=NOW) == Usage(2, size_of(light) + size_of(heavy), 1, size_of(heavy))

    async def test_the_sweeper_takes_links_that_are_over(self, store: ResourceStore) -> None:
        over, alive = link(lifetime=timedelta(0)), link(lifetime=MOMENT)
        await store.save_link(over)
        await store.save_link(alive)
        await sweep(store, before=NOW)
        assert (await store.has_link(over), await store.has_link(alive)) == (False, True)

    async def test_more_ids_than_a_statement_can_bind(self, store: ResourceStore) -> None:
        [known] = await save_all(store, resource())
        assert await store.delete(*(f"id-{number}" for number in range(70_000)), known) == 1


@pytest.mark.parametrize("changes", [{"pin": True}, {"extend_to": NOW}])
def test_expiry_needs_an_instant_to_decide_by(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="now"):
        ResourceChanges(**changes)
