"""Hostile texts, types, stopped queries and killed executors, on a real cluster."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest
from sqlalchemy import BigInteger, Column, MetaData, String, Table, func, select

from dualsql import ConfigurationError, DatabaseBusyError, DualResponseServer
from dualsql.databases.reflection import Selection, reflect
from dualsql.databases.spark.driver import SparkConnection, literal
from dualsql.results.streams import StreamRequest
from tests import waiting
from tests.servers import create_server
from tests.spark.cluster import Cluster

pytestmark = pytest.mark.exhaustive

BASE_URL = "https://api.example.com/resources"
NUMBERS = Table("numbers", MetaData(), Column("id", BigInteger, primary_key=True), Column("label", String))
ROWS = 200_000

_one, _two, _three = (NUMBERS.alias(name) for name in ("one", "two", "three"))
SLOW = select(func.sum(_one.c.id % 7 + _two.c.id % 7 + _three.c.id % 7)).select_from(
    _one.join(_two, _one.c.id != _two.c.id).join(_three, _two.c.id != _three.c.id)
)


@pytest.fixture(scope="module")
def numbers_url(spark: Cluster) -> Iterator[str]:
    """A schema with 200,000 rows in eight files."""
    spark.run(
        "CREATE SCHEMA numbered",
        "CREATE TABLE numbered.numbers USING parquet AS SELECT id + 9007199254740993 AS id, "
        f"concat('row ', id) AS label FROM range(0, {ROWS}, 1, 8)",
    )
    yield f"{spark.url.rpartition('/')[0]}/numbered"
    spark.run("DROP SCHEMA numbered CASCADE")


@pytest.fixture
async def make_server(numbers_url: str) -> AsyncIterator[Callable[..., Any]]:
    servers: list[DualResponseServer] = []

    async def make(**options: Any) -> DualResponseServer:
        # On a loaded machine, a session of Spark is not open after ten seconds.
        options = {"queue_timeout": timedelta(minutes=1), "unproved_read_only": True, **options}
        servers.append(create_server(numbers_url, base_url=BASE_URL, tables=NUMBERS.metadata, **options))
        await servers[-1].start()
        return servers[-1]

    yield make
    for server in servers:
        await server.shutdown()


async def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """What the condition gives, once it is true."""
    deadline = time.monotonic() + seconds
    while not (actual := await asyncio.to_thread(condition)):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)
    return actual


def connection(spark: Cluster) -> SparkConnection:
    return SparkConnection({"host": "127.0.0.1", "port": spark.port, "database": "default"}, only_reads=True)


def test_ten_thousand_hostile_texts_make_the_round_trip(spark: Cluster) -> None:
    chosen = random.Random(19)
    signs = "'\"\\`$%{}()[]:;?@#-*/\n\r\t\0\x1a\x7f\x85\u2028\u2029\u200b\ufeffAaéß日😀\U0010ffff _uxU0123rR"
    texts = ["".join(chosen.choices(signs, k=chosen.randrange(24))) for _ in range(9_990)]
    texts += [
        "${env:PATH}",
        "${spark.master}",
        "\\u0041",
        "\\101",
        "\\'",
        "' OR 1=1 --",
        "';",
        "\\%",
        "\\_",
        "%(x)s",
    ]
    opened = connection(spark)
    cursor = opened.cursor()
    for start in range(0, len(texts), 1_000):
        part = texts[start : start + 1_000]
        names = {f"p{number}": one for number, one in enumerate(part)}
        cursor.execute(f"SELECT stack({len(part)}, {', '.join(f'%({name})s' for name in names)})", names)
        assert [row[0] for row in cursor.fetchall()] == part
    opened.close()


async def test_types_are_what_they_were(spark: Cluster, spark_url: str) -> None:
    spark.run(
        """CREATE TABLE kinds (id BIGINT, tags ARRAY<STRING>, sums ARRAY<DECIMAL(20,10)>, days ARRAY<DATE>,
            details STRUCT<a: STRING, b: MAP<STRING, BIGINT>, c: TIMESTAMP>, price DECIMAL(38,18), day DATE,
            seen TIMESTAMP, local TIMESTAMP_NTZ, content BINARY, flag BOOLEAN, small FLOAT) USING parquet""",
        r"""INSERT INTO kinds VALUES (9223372036854775807, array('a","b', '\'', null), array(1.10, 0.0000000001),
            array(date'2026-01-02'), named_struct('a', '"', 'b', map('k', 9223372036854775807L), 'c',
            timestamp'2026-01-02 03:04:05.123456Z'), 12345678901234567890.123456789012345678BD, date'0001-01-01',
            timestamp'2026-01-02 03:04:05.000001Z', timestamp_ntz'2026-01-02 03:04:05.1', X'00ff', true, 0.1F),
            (1, null, null, null, null, null, date'+12000-01-01', null, null, null, null, null)""",
        url=spark_url,
    )
    async with create_server(
        spark_url, base_url=BASE_URL, tables=[NUMBERS], unproved_read_only=True
    ) as server:
        tables = await reflect(server.parts.sources["default"], Selection(everything=True))
    assert not tables.left_out
    kinds = tables.metadata.tables["kinds"]
    async with create_server(
        spark_url, base_url=BASE_URL, tables=tables.metadata, unproved_read_only=True
    ) as server:
        response = await server.create_response(select(kinds).order_by(kinds.c.id.desc()), name="Kinds")
        stream = await server.stream(response.resource_id, None, StreamRequest())
        lines = b"".join([chunk.data async for chunk in stream.chunks]).splitlines()
    first, second = (orjson.loads(line) for line in lines[:2])
    assert first["id"] == 2**63 - 1
    assert (first["tags"], first["days"]) == (['a","b', "'", None], ["2026-01-02"])
    assert [Decimal(one) for one in first["sums"]] == [Decimal("1.10"), Decimal("0.0000000001")]
    assert first["details"] == {"a": '"', "b": {"k": 2**63 - 1}, "c": "2026-01-02T03:04:05.123456Z"}
    assert Decimal(first["price"]) == Decimal("12345678901234567890.123456789012345678")
    assert (first["day"], first["content"], first["flag"]) == ("0001-01-01", "AP8=", True)
    assert (first["local"], first["seen"][:26]) == (
        "2026-01-02T03:04:05.100000",
        "2026-01-02T03:04:05.000001",
    )
    assert (second["day"], second["$unfit"], second["details"]) == ("+12000-01-01", ["day"], None)


async def test_a_caller_who_leaves_stops_the_jobs_of_spark(
    spark: Cluster, make_server: Callable[..., Any]
) -> None:
    server = await make_server()
    asking = asyncio.create_task(server.create_response(SLOW, name="Slow", count="none"))
    await until(spark.jobs)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: not spark.jobs())


async def test_the_deadline_stops_the_jobs_of_spark(spark: Cluster, make_server: Callable[..., Any]) -> None:
    server = await make_server(query_timeout=timedelta(seconds=5), queue_timeout=timedelta(minutes=1))
    started = time.monotonic()
    with pytest.raises(Exception, match="longer than 5 seconds"):
        await server.create_response(SLOW, name="Slow", count="none")
    assert time.monotonic() - started < 60
    await until(lambda: not spark.jobs())


async def _streamed(server: DualResponseServer, during: Callable[[], Any]) -> list[int]:
    """The ids of a stream; `during` is called after the first piece."""
    response = await server.create_response(select(NUMBERS), name="Numbers", count="none")
    stream = await server.stream(response.resource_id, None, StreamRequest())
    pieces = [(await anext(stream.chunks)).data]
    await asyncio.to_thread(during)
    pieces += [chunk.data async for chunk in stream.chunks]
    lines = b"".join(pieces).splitlines()
    assert b'"$end"' in lines[-1] or orjson.loads(lines[-1]).keys() != {"id", "label"}
    return [orjson.loads(line)["id"] for line in lines[:-1]]


async def test_an_executor_is_killed_in_the_middle_of_a_stream(
    spark: Cluster, make_server: Callable[..., Any]
) -> None:
    server = await make_server()

    def kill() -> None:
        os.kill(spark.executors()[0], signal.SIGKILL)

    try:
        actual = await _streamed(server, kill)
    except DatabaseBusyError:
        return
    assert sorted(actual) == [number + 2**53 + 1 for number in range(ROWS)]


_other = NUMBERS.alias("other")
COUNTED = select(func.count().label("n"), func.sum(NUMBERS.c.id % 10).label("s")).select_from(
    NUMBERS.join(_other, NUMBERS.c.id % 200 == _other.c.id % 200)
)
"""Works for some seconds."""
PAIRS = ROWS // 200
FOUND = [{"n": ROWS * PAIRS, "s": sum((number + 2**53 + 1) % 10 for number in range(ROWS)) * PAIRS}]


async def test_an_executor_is_killed_in_the_middle_of_a_query(
    spark: Cluster, make_server: Callable[..., Any]
) -> None:
    server = await make_server(query_timeout=timedelta(minutes=3))
    asking = asyncio.create_task(server.create_response(COUNTED, name="Counted", count="none"))
    await until(spark.jobs)
    os.kill((await until(spark.executors))[0], signal.SIGKILL)
    try:
        response = await asking
    except DatabaseBusyError:
        return
    assert list(response.sample) == FOUND


@pytest.mark.parametrize("lost", ["a worker", "all executors"])
async def test_a_pending_query_loses_its_machines(
    spark: Cluster, make_server: Callable[..., Any], lost: str
) -> None:
    server = await make_server(query_timeout=timedelta(minutes=5))
    await until(lambda: len(spark.executors()) == 2)  # an earlier test may have ended one
    response = await server.create_response(
        COUNTED, name="Counted", count="none", wait=timedelta(milliseconds=50)
    )
    assert response.status == "pending"
    await until(spark.jobs)
    killed = spark.executors()
    try:
        if lost == "a worker":
            spark.kill_worker(1)
        else:
            for process in killed:
                os.kill(process, signal.SIGKILL)
        # It was lost while the query worked, or the test says nothing.
        assert (await server.describe(response.resource_id, None))["status"] == "pending"
        await until(lambda: len(set(killed) & set(spark.executors())) < len(killed))
        state: dict[str, Any] = await waiting.until(
            lambda: server.describe(response.resource_id, None),
            lambda actual: actual["status"] != "pending",
            patience=300,
        )
    finally:
        if lost == "a worker":
            spark.start_worker(1)
    if state["status"] == "failed":
        assert state["error"]["code"] == "DATABASE_BUSY"
        assert "again" in state["error"]["hint"].lower()
    else:
        page = await server.read_page(response.resource_id, None)
        assert (state["status"], list(page.rows)) == ("ready", FOUND)
    again = await server.create_response(COUNTED, name="Counted again", count="none")
    assert list(again.sample) == FOUND


def test_escaped_string_literals_are_refused(spark: Cluster) -> None:
    opened = connection(spark)
    opened.only_reads = False
    from dualsql.databases.spark.driver import _require_plain_session

    for name in ("spark.sql.parser.escapedStringLiterals", "spark.sql.variable.substitute"):
        opened.execute(f"SET {name}=true")
        with pytest.raises(ConfigurationError, match=name):
            _require_plain_session(opened)
        opened.execute(f"SET {name}=false")
    _require_plain_session(opened)
    opened.close()


def test_a_value_of_any_type_is_bound_as_it_is(spark: Cluster) -> None:
    opened = connection(spark)
    cursor = opened.cursor()
    values: list[Any] = [
        -(2**63), 2**63 - 1, -1, 0.1, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), Decimal("9" * 38),
        Decimal("-0." + "1" * 38), b"\x00'\xff", True, None, timedelta(days=-3, microseconds=7),
    ]  # fmt: skip
    cursor.execute(f"SELECT {', '.join(map(literal, values))}")
    assert cursor.fetchall() == [tuple(values)]
    opened.close()


@pytest.mark.parametrize("milliseconds", [0, 50, 200, 1_000, 5_000])
async def test_no_job_of_a_statement_begins_after_its_end(
    spark: Cluster, numbers_url: str, milliseconds: int
) -> None:
    """Before Spark plans, while it plans, and during work; with the address of Spark's pages."""
    await until(lambda: len(spark.executors()) == 2)  # an earlier test may have ended one

    def ours() -> list[str]:
        return [text for job in spark.jobs() if "numbers" in (text := job.get("description", ""))]

    async with create_server(
        f"{numbers_url}?ui={spark.ui}",
        base_url=BASE_URL,
        tables=NUMBERS.metadata,
        unproved_read_only=True,
        queue_timeout=timedelta(minutes=1),
    ) as server:
        for _ in range(4):
            asking = asyncio.create_task(server.create_response(SLOW, name="Heavy", count="exact"))
            await asyncio.wait({asking}, timeout=milliseconds / 1000)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.sleep(
                2
            )  # what is tested: whatever Spark planned has begun and was ended in that time
            assert await asyncio.to_thread(ours) == []
