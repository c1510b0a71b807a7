"""A hot standby serves the reads while resources are kept on the primary; real servers, one following the other."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from asyncpg import PostgresError  # type: ignore[import-untyped]
from sqlalchemy import make_url, select, text
from sqlalchemy.exc import DBAPIError

from dualsql import DatabaseBusyError, DualResponseServer, PageRequest, SQLResourceStore
from dualsql.http.problems import problem_response
from dualsql.store import upgrade
from tests import engines
from tests.databases.kinds import SLOW
from tests.schools import SCHOOLS, Base, School, fill
from tests.server.conftest import BASE_URL
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.long

# What the primary has removed goes at once, whoever reads it.
NO_PATIENCE = ("max_standby_streaming_delay=0", "hot_standby_feedback=off", "jit=off")


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[engines.PostgreSQL, engines.PostgreSQL]]:
    """A primary, and a standby that follows it."""
    programs = engines.find_programs()
    if programs is None or not (programs / "pg_basebackup").exists():
        pytest.skip("a hot standby needs pg_basebackup, of the system's PostgreSQL")
    with _folder() as first, _folder() as second, engines._system(programs, first) as primary:
        copy = f"-h {first} -U postgres -D {second}/data --write-recovery-conf --checkpoint=fast".split()
        identity = engines.unprivileged_user()
        subprocess.run([programs / "pg_basebackup", *copy], check=True, cwd=second, **identity)
        with engines.started(programs, second, *NO_PATIENCE) as standby:
            yield primary, standby


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dualsql-pg-"))
    identity = engines.unprivileged_user()
    if identity:
        os.chown(folder, identity["user"], identity["group"])
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Replicated:
    """One database, filled, on both servers."""

    def __init__(self, primary: engines.PostgreSQL, standby: engines.PostgreSQL, database: str) -> None:
        self._primary, self._database = primary, database
        self.standby = standby
        self.url, self.replica_url = primary.url(database), standby.url(database)

    def on_primary(self, *statements: str) -> None:
        """Run statements on the primary, each by itself."""
        for statement in statements:
            self._primary.execute(statement, self._database)


@pytest.fixture
async def replicated(pair: tuple[engines.PostgreSQL, engines.PostgreSQL]) -> AsyncIterator[Replicated]:
    primary, standby = pair
    with primary.database() as url:
        async with engines.opened(url) as engine:
            await fill(engine)
        await asyncio.to_thread(upgrade, url)
        replication = Replicated(primary, standby, str(make_url(url).database))
        await _followed(replication.replica_url)
        yield replication


async def _followed(replica_url: str) -> None:
    """Wait until the standby has what the primary has."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with engines.opened(replica_url) as engine, engine.connect() as connection:
                    if await connection.scalar(text("SELECT to_regclass('dualsql_links') IS NOT NULL")):
                        return
            except (DBAPIError, PostgresError):  # the database is not there yet
                await asyncio.sleep(0)


@asynccontextmanager
async def serving(replicated: Replicated) -> AsyncIterator[DualResponseServer]:
    """Reads from the standby, keeps on the primary."""
    store = SQLResourceStore(replicated.url)
    async with DualResponseServer(
        {"default": replicated.replica_url},
        base_url=BASE_URL,
        tables=Base,
        store=store,
        secrets=["a secret that is long enough for it"],
    ) as server:
        yield server


async def test_reads_come_from_the_standby_and_resources_live_on_the_primary(replicated: Replicated) -> None:
    async with serving(replicated) as server:
        response = await server.create_response(select(School), name="x")
        resource = await server.open_resource(response.resource_id, None, "read")
        page = await server.unchecked.read_page(resource, None, PageRequest(limit=1000))
        assert len(page.rows) == response.total_count == len(SCHOOLS)
    async with engines.opened(replicated.url) as primary, primary.connect() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM dualsql_resources")) == 1


async def test_the_standby_itself_refuses_to_write(replicated: Replicated) -> None:
    async with engines.opened(replicated.replica_url) as standby, standby.connect() as connection:
        with pytest.raises(DBAPIError) as raised:
            await connection.execute(text("DELETE FROM visits"))
    assert raised.value.orig.sqlstate == "25006"  # type: ignore[union-attr]


async def test_a_row_that_goes_while_it_is_read_makes_the_query_one_to_repeat(replicated: Replicated) -> None:
    async with serving(replicated) as server:
        error = await _interrupted(
            server,
            lambda: replicated.on_primary("DELETE FROM programs", "DELETE FROM schools", "VACUUM schools"),
        )
        # On a busy machine PostgreSQL ends the session: when its first request to stop the query came too early.
        assert error.message in (
            "A lock or a conflict in the database stopped the query.",
            "The database closed the connection.",
        )
        assert await until(lambda: _total(server), lambda total: total is not None) == 0


async def test_a_lock_of_the_primary_makes_the_query_one_to_repeat(replicated: Replicated) -> None:
    async with serving(replicated) as server:
        await _interrupted(
            server, lambda: replicated.on_primary("ALTER TABLE schools ALTER name TYPE varchar(99)")
        )


async def test_a_connection_that_the_standby_broke_off(replicated: Replicated) -> None:
    def terminate() -> None:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT sum(slow%'"
        replicated.standby.execute(ended)

    async with serving(replicated) as server:
        await _interrupted(server, terminate)
        assert (await server.create_response(select(School), name="x")).total_count == len(SCHOOLS)


async def _total(server: DualResponseServer) -> int | None:
    """How many schools there are; None while the standby still does what the primary did."""
    with suppress(DatabaseBusyError):
        return (await server.create_response(select(School), name="x")).total_count
    return None


async def _interrupted(server: DualResponseServer, disturb: Any) -> DatabaseBusyError:
    """What a query is told that was running on the standby when the primary did something."""
    waiting = asyncio.ensure_future(server.create_response(SLOW, name="slow"))
    engine = server.parts.sources["default"].engine
    running = text(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT sum(slow%'"
    )
    async with engine.connect() as connection, asyncio.timeout(PATIENCE):
        while not await connection.scalar(running):
            await connection.rollback()
    await asyncio.to_thread(disturb)
    with pytest.raises(DatabaseBusyError) as raised:
        await asyncio.wait_for(waiting, 25)
    answer = problem_response(raised.value)
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    return raised.value
