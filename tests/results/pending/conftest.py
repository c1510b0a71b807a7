"""Databases whose queries take as long as a test likes, and what runs in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.http import application
from tests.http.application import Application, fill
from tests.waiting import until

MOMENT = timedelta(milliseconds=50)

SECRETS = ["the secret of a server whose queries take their time"]

_counted = select(literal(1).label("n")).cte("counted", recursive=True)
_forever = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count().label("n")).select_from(_forever.union_all(select(_forever.c.n)))
"""A query that works until it is stopped."""


def counting(rows: int) -> Any:
    """A query that counts up to a number, which takes a third of a second for a million."""
    numbers = _counted.union_all(select(_counted.c.n + 1).where(_counted.c.n < rows))
    return select(func.max(numbers.c.n).label("n"))


UNHURRIED = timedelta(seconds=30)
"""A count_budget for tests whose machine may be busy."""


def running(database: str, **options: Any) -> AbstractAsyncContextManager[Application]:
    """A server on `database`, mounted in an application, whose counts are exact however busy the machine is."""
    return application.running(database, **{"count_budget": UNHURRIED, **options})


@dataclass(frozen=True)
class Slow:
    """A PostgreSQL database whose table can be shut."""

    url: str
    engine: AsyncEngine

    @asynccontextmanager
    async def shut(self) -> AsyncIterator[None]:
        """For the length of the block, every query of the table waits in the database."""
        async with self.engine.connect() as connection:
            await connection.execute(text("LOCK TABLE institutions IN ACCESS EXCLUSIVE MODE"))
            yield

    async def running(self) -> int:
        """How many queries run there now, but for our own."""
        counted = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        async with self.engine.connect() as connection:
            number: int = (await connection.execute(counted)).scalar_one()
            return number

    async def until(self, number: int) -> None:
        """Wait until so many run."""
        await until(self.running, lambda actual: actual == number)


@pytest.fixture
async def slow(postgresql_url: str, make_engine: Callable[[str], AsyncEngine]) -> Slow:
    """Sixty institutions."""
    engine = make_engine(postgresql_url)
    await fill(engine)
    return Slow(postgresql_url, engine)


async def metadata_once(http: httpx.AsyncClient, path: str, *statuses: str) -> dict[str, Any]:
    """What GET says, as soon as it says one of these."""
    answer = await until(lambda: http.get(path), lambda answer: answer.json().get("status") != "pending")
    metadata: dict[str, Any] = answer.json()
    assert metadata.get("status") in statuses, metadata
    return metadata
