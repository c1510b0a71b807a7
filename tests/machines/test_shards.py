"""Rows in three PostgreSQL servers: a coordinator, and two shards under its hash-partitioned table (postgres_fdw)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, func, insert, select, text
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DatabaseBusyError, DualResponseServer, PageRequest, Principal, TenantFilter
from dualsql.databases.driver import driver_statement
from dualsql.http.problems import problem_response
from dualsql.results.streams import StreamRequest
from dualsql_client import DualResponseClient, Progress
from tests.client.hosting import structured
from tests.engines import opened
from tests.failures.cluster import Cluster, cluster
from tests.http.application import INSTITUTIONS, METADATA, institution
from tests.http.live.serving import listening
from tests.servers import create_server
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.long

SMALL = ("shared_buffers=8MB", "max_connections=60")
STATES = ("AK", "CA", "IL", "NJ", "NY", "PA", "TX", "WY")
ROWS = [{**institution(number), "state": STATES[number % 8]} for number in range(1, 241)]

COLUMNS = """id integer, name varchar(40), state varchar(2), enrollment integer, budget bigint,
    tuition numeric(12, 2), founded date"""

COORDINATOR = """
CREATE EXTENSION postgres_fdw;
CREATE TABLE institutions ({columns}) PARTITION BY HASH (state);
CREATE TABLE notes (id integer, text varchar) PARTITION BY HASH (id);
{shards}
"""
SHARD = """
CREATE SERVER shard_{number} FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host '{host}', dbname 'postgres', async_capable 'true');
CREATE USER MAPPING FOR postgres SERVER shard_{number} OPTIONS (user 'postgres', password_required 'false');
CREATE FOREIGN TABLE institutions_{number} PARTITION OF institutions
    FOR VALUES WITH (MODULUS 2, REMAINDER {number}) SERVER shard_{number} OPTIONS (table_name 'part');
CREATE FOREIGN TABLE notes_{number} PARTITION OF notes
    FOR VALUES WITH (MODULUS 2, REMAINDER {number}) SERVER shard_{number} OPTIONS (table_name 'part_of_notes');
"""
NOTES = Table("notes", MetaData(), Column("id", Integer, primary_key=True), Column("text", String))
NUMBER = 8_000
FILL_NOTES = f"INSERT INTO notes SELECT n, repeat('x', 2000) FROM generate_series(1, {NUMBER}) n"
"""16 MB, of which each shard still has most when the first rows are read: it is asked for 100 at a time."""

PRIVATE = (
    "shard",
    "institutions_",
    "public",
    "/tmp",
    "fdw",
    "PGSQL",
    "8001",
    "connection to server",
    "remote",
)
"""Of what a coordinator says about its shards."""


@dataclass
class Sharded:
    """Rows in shards, and the same rows in one server."""

    coordinator: Cluster
    shards: list[Cluster]
    states: list[str]
    """One of each shard: states[n] is in shards[n]."""

    @property
    def url(self) -> str:
        return self.coordinator.url("postgres")

    @property
    def single_url(self) -> str:
        return self.coordinator.url("single")

    def asked(self) -> list[int]:
        """How many statements of rows each shard has been sent."""
        return [shard.log.count("FROM public.part") for shard in self.shards]


@pytest.fixture(scope="module")
def sharded() -> Iterator[Sharded]:
    log = "log_statement=all"
    with cluster(*SMALL) as coordinator, cluster(*SMALL, log) as first, cluster(*SMALL, log) as second:
        shards = [first, second]
        for shard in shards:
            shard.execute(f"CREATE TABLE part ({COLUMNS}, PRIMARY KEY (id, state))")
            shard.execute("CREATE TABLE part_of_notes (id integer PRIMARY KEY, text varchar)")
        lines = [SHARD.format(number=n, host=shard.socket_folder) for n, shard in enumerate(shards)]
        coordinator.execute(COORDINATOR.format(columns=COLUMNS, shards="".join(lines)))
        coordinator.execute("CREATE DATABASE single")
        states = asyncio.run(_fill(coordinator))
        yield Sharded(coordinator, shards, states)


async def _fill(coordinator: Cluster) -> list[str]:
    async with opened(coordinator.url("postgres")) as engine, engine.begin() as connection:
        await connection.execute(insert(INSTITUTIONS), ROWS)
        await connection.execute(text(FILL_NOTES))
        where = "SELECT min(state) FROM institutions_{}"
        states = [await connection.scalar(text(where.format(number))) for number in range(2)]
    async with opened(coordinator.url("single")) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(INSTITUTIONS), ROWS)
    return states


@asynccontextmanager
async def serving(url: str, **options: Any) -> AsyncIterator[tuple[DualResponseServer, httpx.AsyncClient]]:
    async with create_server(url, base_url="http://shop/resources", tables=METADATA, **options) as server:
        app = Starlette(routes=[Mount("/resources", server.router())])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as http:
            yield server, http


STATEMENTS: Mapping[str, Any] = {
    "ordered by its key": select(INSTITUTIONS).order_by(INSTITUTIONS.c.id),
    "ordered by a column with equals and NULL": select(INSTITUTIONS).order_by(INSTITUTIONS.c.enrollment),
    "of one shard": select(INSTITUTIONS).where(INSTITUTIONS.c.state == "NJ"),
    "grouped": select(
        INSTITUTIONS.c.state, func.count().label("n"), func.sum(INSTITUTIONS.c.budget).label("sum")
    ).group_by(INSTITUTIONS.c.state),
    "limited": select(INSTITUTIONS.c.id, INSTITUTIONS.c.name)
    .order_by(INSTITUTIONS.c.name.desc())
    .limit(33)
    .offset(5),
}


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
async def test_all_that_is_read_is_that_of_one_server(sharded: Sharded, statement: Any) -> None:
    assert await _everything(sharded.url, statement) == await _everything(sharded.single_url, statement)


async def _everything(url: str, statement: Any) -> dict[str, Any]:
    """Sample, total, pages by number and by cursor, a sorted page, streams, a question and a profile."""
    async with serving(url) as (server, http):
        response = await server.create_response(statement, name="x", count="exact")
        path = f"/resources/{response.resource_id}"
        actual: dict[str, Any] = {"sample": response.sample, "total": response.total_count}
        column = response.columns[min(2, len(response.columns) - 1)]["name"]
        actual["page"] = (await http.get(path, params={"limit": 20, "offset": 10})).json()["data"]
        actual["sorted"] = (await http.get(path, params={"limit": 1000, "sort": f"-{column}"})).json()["data"]
        actual["pages"] = await _walked(http, path)
        for form in ("ndjson", "csv"):
            actual[form] = _rows_of((await http.get(f"{path}/rows", params={"format": form})).text, form)
        question = {"group_by": [column], "aggregates": ["count"], "limit": 5, "order_by": [column]}
        actual["question"] = (await http.post(f"{path}/query", json=question)).json()["data"]
        return actual


async def _walked(http: httpx.AsyncClient, path: str) -> list[Any]:
    """All rows, 50 at a time, by cursors."""
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        params: dict[str, str | int] = {"limit": 50} if cursor is None else {"limit": 50, "cursor": cursor}
        page = (await http.get(path, params=params)).json()
        rows += page["data"]
        cursor = page["next_cursor"]
        if cursor is None:
            return rows


def _rows_of(body: str, form: str) -> list[Any]:
    lines = body.splitlines()
    # The last record of NDJSON has the time.
    return [orjson.loads(line) for line in lines[:-1]] if form == "ndjson" else lines


async def test_the_statement_of_a_tenant_reaches_one_shard(sharded: Sharded) -> None:
    rule = TenantFilter(column="state", value=lambda principal: principal.tenant)
    for shard, state in enumerate(sharded.states):
        caller = Principal(id="ana", tenant=state)
        before = sharded.asked()
        async with serving(sharded.url, hooks=[rule]) as (server, _):
            response = await server.create_response(select(INSTITUTIONS), name="x", principal=caller)
            resource = await server.open_resource(response.resource_id, caller, "read")
            page = await server.unchecked.read_page(resource, caller, PageRequest(limit=1000))
            stream = await server.unchecked.stream(resource, caller, StreamRequest(format="csv"))
            assert [chunk async for chunk in stream.chunks]
            mine = [row["id"] for row in ROWS if row["state"] == state]
            assert sorted(row["id"] for row in page.rows) == mine
            explained = await _explained(server, resource, caller)
        assert f"institutions_{shard}" in explained
        assert f"institutions_{1 - shard}" not in explained
        asked = [after - earlier for earlier, after in zip(before, sharded.asked(), strict=True)]
        assert asked[shard] >= 3
        assert asked[1 - shard] == 0


async def _explained(server: DualResponseServer, resource: Any, caller: Principal) -> str:
    """The plan of the resource's statement, as it is sent for this caller."""
    source = server.parts.sources["default"]
    rules = server.parts.policy.rules_for(caller)
    statement = source.thaw(resource.document)
    sent = driver_statement(
        rules.dialect(source.engine.dialect), statement, rules.values, source.compiled, (), drafts={}
    )
    assert sent is not None
    async with source.engine.connect() as connection:
        plan = await connection.exec_driver_sql(f"EXPLAIN (VERBOSE) {sent.sql}", tuple(sent.parameters))
        return "\n".join(plan.scalars())


async def test_a_shard_that_is_down_is_told_while_others_still_page(sharded: Sharded) -> None:
    down, up = sharded.states
    async with serving(sharded.url) as (server, http):
        paths = {}
        for name, statement in {
            "down": select(INSTITUTIONS).where(INSTITUTIONS.c.state == down),
            "up": select(INSTITUTIONS).where(INSTITUTIONS.c.state == up),
            "both": select(INSTITUTIONS),
        }.items():
            response = await server.create_response(statement, name=name)
            paths[name] = f"/resources/{response.resource_id}"
        sharded.shards[0].stop(signal.SIGQUIT)
        try:
            for name in ("down", "both"):
                for _ in range(2):
                    _assert_busy(await http.get(paths[name], params={"limit": 10}))
                _assert_busy(await http.get(f"{paths[name]}/rows", params={"format": "csv"}))
                _assert_busy(await http.post(f"{paths[name]}/query", json={"aggregates": ["count"]}))
            page = await http.get(paths["up"], params={"limit": 1000})
            assert [row["id"] for row in page.json()["data"]] == [r["id"] for r in ROWS if r["state"] == up]
            with pytest.raises(DatabaseBusyError) as raised:
                await server.create_response(select(INSTITUTIONS), name="new")
            assert problem_response(raised.value).headers["retry-after"]
        finally:
            sharded.shards[0].start(*SMALL, "log_statement=all")
        again = await until(
            lambda: http.get(paths["both"], params={"limit": 1000}), lambda answer: answer.status_code == 200
        )
        assert len(again.json()["data"]) == len(ROWS)


@pytest.mark.parametrize("form", ["ndjson", "csv"])
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_stream_whose_shard_is_killed_ends_with_an_error(
    sharded: Sharded, driver: str, form: str
) -> None:
    url = sharded.url.replace("asyncpg", driver)
    async with DualResponseServer(url, base_url="http://shop/resources", tables=NOTES.metadata) as server:
        response = await server.create_response(select(NOTES), name="notes", count="none")
        stream = await server.stream(response.resource_id, None, StreamRequest(format=form))
        read = b""
        while len(read) < 100_000:
            read += (await anext(stream.chunks)).data
        sharded.shards[1].stop(signal.SIGKILL)
        try:
            read += b"".join([bytes(chunk.data) async for chunk in stream.chunks])
            message = read.splitlines()[-1].decode()
        except DatabaseBusyError as error:  # a CSV file cannot say it
            message = f"{error.code} {error.for_caller}"
        finally:
            sharded.shards[1].start(*SMALL, "log_statement=all")
    assert len(read) < NUMBER * 2000
    assert "DATABASE_BUSY" in message and "Try again in a moment." in message
    assert not [word for word in PRIVATE if word in message]


async def test_a_client_resumes_once_the_shard_is_up_again(sharded: Sharded) -> None:
    killed_at: list[int] = []

    def restart(progress: Progress) -> None:
        if progress.rows and not killed_at:
            killed_at.append(progress.rows)
            sharded.shards[0].stop(signal.SIGKILL)
            sharded.shards[0].start(*SMALL, "log_statement=all")

    async with (
        listening(sharded.url, statement=select(NOTES), tables=NOTES.metadata) as live,
        DualResponseClient(f"http://127.0.0.1:{live.port}/resources") as client,
        asyncio.timeout(3 * PATIENCE),
    ):
        parsed = client.parse(structured(uri=f"resource://{live.path.rpartition('/')[2]}"), strict=True)
        rows = [row["id"] async for batch in parsed.fetch_stream(progress=restart) for row in batch]
    assert killed_at[0] < NUMBER / 2
    assert rows == list(range(1, NUMBER + 1))


def _assert_busy(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    problem = answer.json()
    assert problem["code"] == "DATABASE_BUSY"
    assert problem["hint"].startswith("Try again in a moment.")
    assert answer.headers["retry-after"].isdecimal()
    assert not [word for word in PRIVATE if word in answer.text], answer.text
