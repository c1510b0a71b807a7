"""psycopg sends a sample and its count in one round trip, and the answer is that of two."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    case,
    delete,
    func,
    insert,
    make_url,
    select,
    text,
    true,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DatabaseBusyError, QueryTimeoutError, Registry
from dualsql.databases.fetch import Sample
from dualsql.databases.postgresql import pipeline
from dualsql.databases.source import Source, open_source
from dualsql.errors import CountExecutionError, QueryExecutionError
from dualsql.resource import Total
from tests.engines import opened
from tests.relay import Relay, relaying
from tests.results.counts.counting import MINUTE, sampled
from tests.waiting import PATIENCE, until

TABLES = MetaData()
items = Table("items", TABLES, Column("id", Integer, primary_key=True))
obstacles = Table("obstacles", TABLES, Column("id", Integer, primary_key=True))
"""Rows of `items` at which a statement does what its test wants of it."""

ITEMS = 40
AT_THE_END = ITEMS
BEGIN, BOTH, SAMPLE, LIMIT, COUNT, ROLLBACK = (
    "BEGIN",
    "sample and count",
    "sample",
    "SET",
    "count",
    "ROLLBACK",
)


class Messages(Relay):
    """Notes what a client sends until it waits for an answer.

    Attributes:
        sent_at_once: the statements of each such time.
    """

    def __init__(self, target: int | str) -> None:
        super().__init__(target)
        self.sent_at_once: list[bytes] = []
        self._is_answered = True

    async def _carry(self, source: StreamReader, target: StreamWriter, *, counts: bool = False) -> None:
        while chunk := await source.read(65_536):
            if counts:
                self._is_answered = True
            elif self._is_answered:
                self._is_answered = False
                self.sent_at_once.append(chunk)
            else:
                self.sent_at_once[-1] += chunk
            target.write(chunk)
        target.close()


def names(sent: bytes) -> str:
    """What was sent in one round trip."""
    if b"BEGIN" in sent or b"ROLLBACK" in sent:
        return BEGIN if b"BEGIN" in sent else ROLLBACK
    is_sample, is_count = b"ORDER BY" in sent, b"count(" in sent
    return BOTH if is_sample and is_count else SAMPLE if is_sample else COUNT if is_count else LIMIT


@pytest.fixture
async def relay(postgresql_url: str) -> AsyncIterator[Messages]:
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        await connection.run_sync(TABLES.create_all)
        await connection.execute(insert(items), [{"id": number} for number in range(1, ITEMS + 1)])
    async with relaying(Messages(f"{make_url(postgresql_url).query['host']}/.s.PGSQL.5432")) as relay:
        yield relay


@pytest.fixture
async def source(relay: Messages, postgresql_url: str) -> AsyncIterator[Source]:
    database = make_url(postgresql_url).database
    source = open_source(
        "default",
        f"postgresql+psycopg://postgres@127.0.0.1:{relay.port}/{database}",
        Registry(TABLES),
    )
    await sampled(source, select(obstacles.c.id), "exact")  # connects
    yield source
    await source.close()


@pytest.fixture
async def writer(postgresql_url: str) -> AsyncIterator[AsyncEngine]:
    async with opened(postgresql_url) as engine:
        yield engine


def with_obstacle(what_happens: Any) -> Any:
    """All items; `what_happens` at those that are obstacles, which returns no truth value of its own."""
    is_obstacle = items.c.id.in_(select(obstacles.c.id))
    return select(items.c.id).where(case((is_obstacle, what_happens.is_not(None)), else_=true()))


async def known(source: Source, statement: Any, **settings: Any) -> Sample:
    """The sample once sample and count were quick."""
    await sampled(source, statement, "exact", query_timeout=MINUTE, **settings)
    return await sampled(source, statement, "exact", query_timeout=MINUTE, **settings)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement is quick however busy the machine is."""
    monkeypatch.setattr(pipeline, "_QUICK", PATIENCE)


@pytest.mark.parametrize("how", ["exact", "auto", "capped:20"])
async def test_a_known_sample_and_its_count_are_one_round_trip(
    source: Source, relay: Messages, how: str
) -> None:
    statement, trips = select(items.c.id).order_by(items.c.id), []
    samples = []
    for _ in range(3):
        relay.sent_at_once.clear()
        samples.append(await sampled(source, statement, how, query_timeout=MINUTE, count_budget=MINUTE / 2))
        trips.append([names(sent) for sent in relay.sent_at_once])
    limits = [LIMIT] * (how == "auto")
    assert trips[0] == [BEGIN, SAMPLE, *limits, COUNT, ROLLBACK]
    assert trips[1] == trips[2] == [BEGIN, BOTH, ROLLBACK]
    assert samples[0] == samples[1] == samples[2]
    assert [tuple(row) for row in samples[2].rows] == [(number,) for number in range(1, 6)]


async def test_a_slow_statement_is_not_followed_at_once(
    source: Source, relay: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = select(items.c.id).order_by(items.c.id)
    await known(source, statement)
    for quick, last in ((0.0, BOTH), (PATIENCE, SAMPLE), (PATIENCE, BOTH)):
        monkeypatch.setattr(pipeline, "_QUICK", quick)
        relay.sent_at_once.clear()
        await sampled(source, statement, "exact", query_timeout=MINUTE)
        assert names(relay.sent_at_once[1]) == last


async def test_a_count_that_was_sent_along_and_is_not_needed_changes_nothing(
    source: Source, writer: AsyncEngine, relay: Messages
) -> None:
    statement = select(items.c.id).order_by(items.c.id)
    await known(source, statement)
    async with writer.begin() as connection:
        await connection.execute(delete(items).where(items.c.id > 3))
    relay.sent_at_once.clear()
    sample = await sampled(source, statement, "exact", query_timeout=MINUTE)
    assert [names(sent) for sent in relay.sent_at_once] == [BEGIN, BOTH, ROLLBACK]
    assert ([tuple(row) for row in sample.rows], sample.total) == ([(1,), (2,), (3,)], Total(3, "exact"))


async def test_a_count_that_fails_is_an_error_of_the_count(source: Source, writer: AsyncEngine) -> None:
    statement = with_obstacle(1 / (items.c.id - items.c.id))
    assert (await known(source, statement)).total == Total(ITEMS, "exact")
    await obstruct(writer, AT_THE_END)
    with pytest.raises(CountExecutionError):
        await sampled(source, statement, "exact", query_timeout=MINUTE)
    assert (await sampled(source, select(items.c.id), "exact")).total == Total(ITEMS, "exact")


async def test_a_sample_that_fails_is_an_error_of_the_sample(source: Source, writer: AsyncEngine) -> None:
    statement = with_obstacle(1 / (items.c.id - items.c.id))
    await known(source, statement)
    await obstruct(writer, 1)
    with pytest.raises(QueryExecutionError, match="divides by zero") as raised:
        await sampled(source, statement, "exact", query_timeout=MINUTE)
    assert not isinstance(raised.value, CountExecutionError)


async def test_a_count_that_has_become_slow_ends_at_its_own_limit(
    source: Source, writer: AsyncEngine
) -> None:
    statement = with_obstacle(func.pg_sleep(3_600))
    for _ in range(2):
        await sampled(source, statement, "auto", query_timeout=MINUTE, count_budget=MINUTE / 2)
    await obstruct(writer, AT_THE_END)
    budget = timedelta(milliseconds=100)
    async with asyncio.timeout(PATIENCE):
        sample = await sampled(source, statement, "auto", query_timeout=MINUTE, count_budget=budget)
    assert len(sample.rows) == 5
    assert sample.total.kind != "exact"
    for _ in range(2):
        with pytest.raises(QueryTimeoutError, match=r"longer than 0\.1 seconds"):
            await sampled(source, statement, "exact", query_timeout=budget)


async def test_a_connection_that_is_lost_at_the_count_is_replaced(
    source: Source, writer: AsyncEngine
) -> None:
    end_itself = func.pg_terminate_backend(func.pg_backend_pid())
    statement = with_obstacle(end_itself)
    await known(source, statement)
    await obstruct(writer, AT_THE_END)
    with pytest.raises(DatabaseBusyError):
        await sampled(source, statement, "exact", query_timeout=MINUTE)
    async with writer.begin() as connection:
        await connection.execute(delete(obstacles))
    assert (await known(source, statement)).total == Total(ITEMS, "exact")


async def test_nothing_stays_prepared(source: Source, writer: AsyncEngine) -> None:
    """Behind a pooler, a prepared statement may be another one; after ALTER TABLE, it fails."""
    statement = select(items.c.id).order_by(items.c.id)
    prepared = text("SELECT count(*) FROM pg_prepared_statements")
    for _ in range(10):
        await sampled(source, statement, "exact", query_timeout=MINUTE)
    async with source.engine.connect() as connection:
        assert await connection.scalar(prepared) == 0
    async with writer.begin() as connection:
        await connection.execute(text("ALTER TABLE items ALTER COLUMN id TYPE bigint"))
    assert (await sampled(source, statement, "exact", query_timeout=MINUTE)).total == Total(ITEMS, "exact")


async def test_a_sample_that_fails_in_a_pipeline_leaves_no_trace(
    source: Source, writer: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    statement = with_obstacle(1 / (items.c.id - items.c.id))
    await known(source, statement)
    await obstruct(writer, 1)
    for _ in range(10):
        with pytest.raises(QueryExecutionError):
            await sampled(source, statement, "exact", query_timeout=MINUTE)
    async with writer.begin() as connection:
        await connection.execute(delete(obstacles))
    assert (await known(source, statement)).total == Total(ITEMS, "exact")
    assert not [record for record in caplog.records if record.name == "psycopg"]


async def test_a_count_that_began_beside_the_sample_is_not_sent_along(
    source: Source, relay: Messages
) -> None:
    statement = select(items.c.id).order_by(items.c.id)
    await known(source, statement)
    relay.sent_at_once.clear()
    await sampled(source, statement, "exact", query_timeout=MINUTE, count_head_start=timedelta(0))
    sent = [names(each) for each in relay.sent_at_once]
    assert sent.count(COUNT) == 1
    assert BOTH not in sent


async def test_who_leaves_stops_both(source: Source, writer: AsyncEngine) -> None:
    """The relay is in this process: a request to cancel that stops all threads until it is answered never is."""
    statement = with_obstacle(func.pg_sleep(3_600))
    await known(source, statement)
    await obstruct(writer, AT_THE_END)
    sleeping = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")

    async def sleepers() -> Any:
        async with writer.connect() as connection:
            return await connection.scalar(sleeping)

    sampling = asyncio.ensure_future(sampled(source, statement, "exact", query_timeout=MINUTE))
    await until(sleepers, lambda number: number == 1)
    sampling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sampling
    await until(sleepers, lambda number: number == 0)
    await asyncio.gather(*source.finishing)
    assert (await sampled(source, select(items.c.id), "exact")).total == Total(ITEMS, "exact")


async def obstruct(writer: AsyncEngine, number: int) -> None:
    async with writer.begin() as connection:
        await connection.execute(insert(obstacles), [{"id": number}])
