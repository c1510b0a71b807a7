"""64 creators, readers and sweepers in four processes on one database (issue 3, point 5)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from dualsql.store import SQLResourceStore
from tests.store.samples import resource

ROOT = Path(__file__).parents[2]
PROCESSES, TASKS = 4, 16


@pytest.mark.long
@pytest.mark.parametrize("seconds", [60])
async def test_nothing_is_lost_under_load(store_url: str, sql_store: SQLResourceStore, seconds: int) -> None:
    reports = await asyncio.gather(*(_report(store_url, seconds, seed) for seed in range(PROCESSES)))
    living = [identifier for report in reports for identifier in report["living"]]
    accesses = sum((Counter(report["accesses"]) for report in reports), Counter[str]())
    assert [report["wrong"] for report in reports] == [[]] * PROCESSES
    assert living and accesses and all(report["swept"] for report in reports)

    for identifier in living:
        found = await sql_store.get(identifier)
        assert found is not None and found.access_count == accesses[identifier]

    swept = sum(report["swept"] for report in reports)
    expired = await sql_store.find_expired(before=datetime.now(UTC), limit=10**6)
    assert swept + len(expired) + len(living) == sum(report["created"] for report in reports)


@pytest.mark.long
async def test_a_killed_process_leaves_whole_resources(store_url: str, sql_store: SQLResourceStore) -> None:
    process = await _start(store_url, seconds=60, seed=0)
    ids: list[str] = []
    while len(ids) < 200:
        ids = list(await sql_store.find_expired(before=datetime.max.replace(tzinfo=UTC), limit=10**6))
    process.kill()
    await process.communicate()
    for identifier in await sql_store.find_expired(before=datetime.max.replace(tzinfo=UTC), limit=10**6):
        assert await sql_store.get(identifier) is not None
    await sql_store.save(resource())


async def _report(url: str, seconds: int, seed: int) -> dict[str, Any]:
    """What one process did; what went wrong in it, if it failed."""
    process = await _start(url, seconds, seed)
    output, errors = await process.communicate()
    report: dict[str, Any] = {
        "living": [],
        "accesses": {},
        "created": 0,
        "swept": 0,
        "wrong": [errors.decode()],
    }
    return report if process.returncode else json.loads(output)


async def _start(url: str, seconds: int, seed: int) -> asyncio.subprocess.Process:
    arguments = ["-m", "tests.store.load", url, str(seconds), str(TASKS), str(seed)]
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, stdout=PIPE, stderr=PIPE
    )
