"""One process of the load test: creators, readers and sweepers on one store; prints what it knows as JSON.

Run as `python -m tests.store.load URL SECONDS TASKS SEED`. The rule: it reports what the store confirmed.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dualsql.store import ResourceChanges, SQLResourceStore
from tests.store.samples import resource

SHORT = timedelta(milliseconds=200)
"""A lifetime that ends while the test runs."""

LONG = timedelta(hours=1)


@dataclass
class Report:
    """What one process did: ids that must be there at the end, accesses by id, ids deleted when expired."""

    living: list[str] = field(default_factory=list)
    accesses: Counter[str] = field(default_factory=Counter)
    created: int = 0
    swept: int = 0
    wrong: list[str] = field(default_factory=list)


class Load:
    """Tasks that share a store and a report until the deadline."""

    def __init__(self, store: SQLResourceStore, seconds: float, seed: int) -> None:
        self.store = store
        self.report = Report()
        self.choose = random.Random(seed)
        self.deadline = time.monotonic() + seconds

    async def run(self, tasks: int) -> Report:
        jobs = (self._create, self._read, self._create, self._sweep)
        await asyncio.gather(*(self._repeat(jobs[number % len(jobs)]) for number in range(tasks)))
        return self.report

    async def _repeat(self, job: object) -> None:
        assert callable(job)
        while time.monotonic() < self.deadline:
            await job()

    async def _create(self) -> None:
        """Three kinds: one that lives, one that is pinned before it expires, one that expires."""
        now, kind = datetime.now(UTC), self.choose.randrange(3)
        made = resource(created_at=now, expires_at=now + (LONG if kind == 0 else SHORT))
        await self.store.save(made)
        self.report.created += 1
        if kind == 0 or (kind == 1 and await self.store.update(made.id, ResourceChanges(pin=True, now=now))):
            self.report.living.append(made.id)

    async def _read(self) -> None:
        while not self.report.living:
            await self._create()
        identifier = self.choose.choice(self.report.living)
        if await self.store.get(identifier) is None:
            self.report.wrong.append(f"{identifier} is gone")
        now = datetime.now(UTC)
        if await self.store.update(identifier, ResourceChanges(accesses=1, accessed_at=now)):
            self.report.accesses[identifier] += 1

    async def _sweep(self) -> None:
        now = datetime.now(UTC)
        ids = await self.store.find_expired(before=now, limit=50)
        deleted = await self.store.delete(*ids, expired_before=now)
        self.report.swept += deleted  # not `+= await`, which would read the sum before it waits


async def main(url: str, seconds: float, tasks: int, seed: int) -> None:
    store = SQLResourceStore(url)
    report = await Load(store, seconds, seed).run(tasks)
    await store.close()
    json.dump(vars(report), sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
