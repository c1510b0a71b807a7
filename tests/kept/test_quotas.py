"""The bytes of one principal's kept rows, and of all, are bounded; what is beyond is served from the database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from dualsql import DualResponse, Principal, SQLResourceStore
from dualsql.kept.service import ResultKeeper
from dualsql.store import upgrade
from tests.kept.test_results import ANN, BOB, ROWS, KeptServer, kept_server
from tests.quick import case_of
from tests.telemetry.exporting import exporting

CYD = Principal(id="ann", tenant="another")
OWNERS = (ANN, BOB, CYD, None)


async def size_of_one(folder: Path) -> int:
    async with kept_server(folder) as kept:
        response = await kept.make(ANN)
        size = int((await kept.said(response, ANN))["bytes"])
        assert await kept.dual.delete_resource(response.resource_id, ANN)
    return size


async def reasons(kept: KeptServer, responses: list[DualResponse], owner: Principal | None) -> list[str]:
    """Why the rows of results are not kept; empty for those that are. All are complete."""
    found = []
    for one in responses:
        assert len(await kept.lines(one, owner)) == ROWS
        found.append((await kept.said(one, owner)).get("reason", ""))
    return found


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("stored", [case_of("memory", is_long=True), "sqlite"])
async def test_one_principal_fills_its_own_quota_only(stored: str, tmp_path: Path) -> None:
    size = await size_of_one(tmp_path)
    options = {}
    if stored == "sqlite":
        url = f"sqlite:///{tmp_path / 'store.db'}"
        await asyncio.to_thread(upgrade, url)
        options = {"store": SQLResourceStore(url), "secrets": ["s" * 40]}
    async with kept_server(tmp_path, keep_quota=2 * size + 10, **options) as kept:
        full = f"All kept rows of one principal would be more than {2 * size + 10:,} bytes."
        responses = [await kept.make(ANN) for _ in range(4)]
        assert await reasons(kept, responses, ANN) == ["", "", full, full]
        assert len(kept.files()) == 2
        for owner in (BOB, CYD, None):
            assert await reasons(kept, [await kept.make(owner)], owner) == [""]
        # Callers without a principal share one quota.
        assert await reasons(kept, [await kept.make() for _ in range(2)], None) == [
            "", f"All kept rows of callers without a principal would be more than {2 * size + 10:,} bytes.",
        ]  # fmt: skip
        # What is deleted makes room; also for another server, which counts the rows of the store.
        assert await kept.dual.delete_resource(responses[0].resource_id, ANN)
        assert await reasons(kept, [await kept.make(ANN) for _ in range(2)], ANN) == ["", full]
    if stored == "sqlite":
        async with kept_server(tmp_path, keep_quota=2 * size + 10, **options) as kept:
            assert await reasons(kept, [await kept.make(ANN)], ANN) == [full]
            assert await reasons(kept, [await kept.make(BOB)], BOB) == [""]
            assert "without a principal" in (await reasons(kept, [await kept.make()], None))[0]


async def test_a_metric_says_how_many_bytes_are_kept(tmp_path: Path) -> None:
    with exporting() as exports:
        async with kept_server(tmp_path) as kept:
            response = await kept.make(ANN)
            size = int((await kept.said(response, ANN))["bytes"])
            await kept.dual.maintenance.sweep()
            assert exports.value("dualsql.kept.bytes") == size
            assert await kept.dual.delete_resource(response.resource_id, ANN)
            await kept.dual.maintenance.sweep()
            assert exports.value("dualsql.kept.bytes") == 0


@pytest.mark.long
async def test_many_at_once_do_not_exceed_quota_and_total(tmp_path: Path) -> None:
    size = await size_of_one(tmp_path)
    quota, total = 2 * size + 10, 5 * size + 10
    async with kept_server(
        tmp_path, keep_quota=quota, keep_total=total, queue_timeout=timedelta(minutes=1)
    ) as kept:
        responses = await asyncio.gather(*(kept.make(owner) for _ in range(6) for owner in OWNERS))
        files = kept.files()
        assert sum(path.stat().st_size for path in files) <= total
        said = {
            owner: await reasons(kept, responses[n :: len(OWNERS)], owner) for n, owner in enumerate(OWNERS)
        }
        assert sum(one.count("") for one in said.values()) == len(files) >= 1
        assert all(said[owner].count("") <= 2 for owner in OWNERS)
        # Nothing is left behind of those that found no room.
        assert all("@" in path.name for path in files)
        assert len(kept.dual.features.get(ResultKeeper)._files) == len(files)
        for owner, one in zip(OWNERS * 6, responses, strict=True):
            await kept.dual.delete_resource(one.resource_id, owner)
        assert kept.files() == []
        assert await reasons(kept, [await kept.make(ANN)], ANN) == [""]
        assert len(kept.dual.features.get(ResultKeeper)._files) == 1


async def test_a_full_quota_is_told_and_a_refresh_needs_no_more(tmp_path: Path) -> None:
    size = await size_of_one(tmp_path)
    async with kept_server(tmp_path, keep_quota=size) as kept:
        first, second = await kept.make(ANN), await kept.make(ANN)
        assert (await reasons(kept, [first, second], ANN))[0] == ""
        assert second.sample == first.sample and second.total_count == ROWS
        said = await kept.said(second, ANN)
        assert said["kept"] is False and "one principal" in said["reason"]
        # New rows take the place of the old ones, also in the quota.
        assert "error" not in (await kept.dual.kept.refresh(first.resource_id, ANN))["kept"]
        assert await reasons(kept, [first], ANN) == [""] and len(kept.files()) == 1
