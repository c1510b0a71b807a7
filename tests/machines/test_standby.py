"""A primary that ends, and a standby that takes over, without a restart of dualsql: for the data and for the store."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import text

from dualsql.store import upgrade
from dualsql_client import DualResponseClient, Progress
from tests.client.hosting import structured
from tests.drills.test_databases import serving_both
from tests.engines import opened
from tests.failures.cluster import Cluster, cluster
from tests.failures.requests import assert_all_work, create, serving
from tests.failures.test_client import IDS, MANY, ids_of
from tests.http.application import ROWS, fill
from tests.http.live.serving import LiveServer
from tests.relay import Relay, relaying
from tests.schools import fill as fill_schools
from tests.waiting import PATIENCE, until

pytestmark = [
    pytest.mark.long,
    # Sockets of a server that was killed are not closed in order.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SMALL = ("shared_buffers=8MB", "max_connections=100")
# What the primary has removed goes at once, whoever reads it.
NO_PATIENCE = ("max_standby_streaming_delay=0", "hot_standby_feedback=off")


class Pair:
    """A primary and its standby, with the tables of dualsql and sixty institutions."""

    def __init__(self, primary: Cluster, standby: Cluster) -> None:
        self.primary, self.standby = primary, standby

    @property
    def url(self) -> str:
        """Both hosts, the primary first."""
        return self.url_of(self.primary.socket_folder, "5432")

    def url_of(self, first: str, port: str, driver: str = "asyncpg") -> str:
        """A host, and then the standby."""
        hosts = f"host={first},{self.standby.socket_folder}&port={port},5432"
        return f"postgresql+{driver}://postgres@/postgres?{hosts}"

    def kill(self) -> None:
        """The primary ends without a word."""
        self.primary.stop(signal.SIGKILL)

    async def followed(self) -> None:
        """The standby has all that the primary has."""
        position = "SELECT pg_current_wal_flush_lsn()"
        async with opened(self.primary.url("postgres")) as engine, engine.connect() as connection:
            wanted = await connection.scalar(text(position))
        replayed = text(f"SELECT pg_last_wal_replay_lsn() >= '{_log_position(wanted)}'")
        async with opened(self.standby.url("postgres")) as engine, engine.connect() as connection:
            await until(lambda: connection.scalar(replayed))


def _log_position(value: int) -> str:
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """Of a test's own: there is no way back from a promotion."""
    with cluster(*SMALL) as primary:
        await asyncio.to_thread(upgrade, primary.url("postgres"))
        async with opened(primary.url("postgres")) as engine:
            await fill(engine)
            await fill_schools(engine)
        with cluster(*SMALL, *NO_PATIENCE, standby_of=primary) as standby:
            made = Pair(primary, standby)
            await made.followed()
            yield made


async def test_a_promoted_standby_takes_over(pair: Pair) -> None:
    async with serving(pair.url, pair.url) as live:
        path = await create(live)
        await assert_all_work(live)
        await pair.followed()
        pair.kill()
        # Before anybody is promoted, what is stored is read from the standby.
        await _until_read(live, path)
        refused = await live.http.post("/resources/tool")
        assert (refused.status_code, refused.json()["code"]) == (503, "STORAGE_ERROR")
        pair.standby.execute("SELECT pg_promote()")
        await until(lambda: live.http.post("/resources/tool"), lambda answer: answer.status_code == 201)
        await assert_all_work(live)


async def test_a_primary_that_comes_back_is_found(pair: Pair) -> None:
    """Nobody was promoted: connections of the store to the standby are given up once they refuse to write."""
    async with serving(pair.url, pair.url) as live:
        path = await create(live)
        await pair.followed()
        pair.kill()
        await _until_read(live, path)
        pair.primary.start(*SMALL)
        await until(lambda: live.http.post("/resources/tool"), lambda answer: answer.status_code == 201)
        await assert_all_work(live)


async def _until_read(live: LiveServer, path: str) -> None:
    """Wait until all rows of a result are read."""

    async def ask() -> Any:
        answer = await live.http.get(path, params={"limit": 100})
        assert answer.status_code in (200, 503), answer.text
        return answer

    answer = await until(ask, lambda actual: actual.status_code == 200)
    assert len(answer.json()["data"]) == len(ROWS)


async def test_a_primary_that_falls_silent_is_passed_over(pair: Pair) -> None:
    """Its machine is gone: nobody refuses a connection, and nobody answers."""
    async with (
        relaying(Relay(pair.primary.socket)) as relay,
        serving_both(pair.url_of("127.0.0.1", str(relay.port))) as live,
    ):
        path = await create(live)
        await pair.followed()
        relay.fall_silent()
        await _until_read(live, path)
        pair.standby.execute("SELECT pg_promote()")
        await until(lambda: live.http.post("/resources/tool"), lambda answer: answer.status_code == 201)
        await assert_all_work(live)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_primary_whose_machine_is_gone_is_passed_over(pair: Pair, driver: str) -> None:
    """Nothing is acknowledged any more, so that connections end, and the standby is asked instead."""
    async with (
        relaying(Relay(pair.primary.socket)) as relay,
        serving_both(pair.url_of("127.0.0.1", str(relay.port), driver)) as live,
    ):
        await create(live)
        await pair.followed()
        pair.standby.execute("SELECT pg_promote()")
        relay.vanish()
        await until(lambda: live.http.post("/resources/tool"), lambda answer: answer.status_code == 201)
        await assert_all_work(live)


async def test_a_promoted_standby_takes_over_by_psycopg(pair: Pair) -> None:
    url = pair.url_of(pair.primary.socket_folder, "5432", "psycopg")
    async with serving(url, url) as live:
        await assert_all_work(live)
        path = await create(live)
        await pair.followed()
        pair.kill()
        pair.standby.execute("SELECT pg_promote()")
        await _until_read(live, path)
        await assert_all_work(live)


async def test_a_stream_goes_on_at_the_standby(pair: Pair) -> None:
    """The primary is killed amid a stream, and each row comes once."""
    killed_at: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.rows and not killed_at:
            killed_at.append(progress.rows)
            pair.kill()

    async with _streaming(pair, pair.url) as parsed, asyncio.timeout(3 * PATIENCE):
        await pair.followed()
        rows = [ids_of(row) async for batch in parsed.fetch_stream(progress=kill) for row in batch]
    assert killed_at[0] < len(IDS) / 4
    assert rows == IDS


async def test_a_stream_goes_on_after_a_conflict_with_recovery(pair: Pair) -> None:
    """The standby ends the statement, because the primary has removed rows of some table that it might still read."""
    conflicts: list[int] = []

    def vacuum(progress: Progress) -> None:
        if progress.rows and not conflicts:
            conflicts.append(progress.rows)
            pair.primary.execute("DELETE FROM programs")
            pair.primary.execute("VACUUM programs")

    data = pair.standby.url("postgres")
    async with _streaming(pair, data) as parsed, asyncio.timeout(3 * PATIENCE):
        rows = [ids_of(row) async for batch in parsed.fetch_stream(progress=vacuum) for row in batch]
    assert rows == IDS
    assert "conflict with recovery" in pair.standby.log


@asynccontextmanager
async def _streaming(pair: Pair, data: str) -> AsyncIterator[Any]:
    """A result of many rows in `data`, stored at the pair."""
    async with (
        serving(data, pair.url, statement=MANY) as live,
        DualResponseClient(f"http://127.0.0.1:{live.port}/resources") as client,
    ):
        yield client.parse(structured(uri=f"resource://{live.path.rpartition('/')[2]}"), strict=True)
