"""Numbers inside JSON documents keep every digit that the database shows, in every format."""

from __future__ import annotations

import json as json_module
from asyncio import to_thread
from itertools import starmap
from typing import Any

import pytest
from sqlalchemy import ARRAY, JSON, Column, Integer, MetaData, Table, create_engine, select, text, types
from sqlalchemy.dialects.postgresql import JSONB, TSTZRANGE
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.columns.exact import Digits, read_document
from dualsql.formats import json
from tests.columns.kinds.results import served, table_of
from tests.engines import opened

NUMBERS = ("0.1234567890123456789", "1.50", "123456789012345678901234567890", "-18446744073709551616", "2.5")
DOCUMENT = f'{{"numbers": [{", ".join(NUMBERS)}], "word": "a"}}'

documents = Table(
    "documents",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("document", JSON().with_variant(JSONB(), "postgresql")),
)


@pytest.mark.quick(1, "sqlite", "postgresql")
@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"])
@pytest.mark.parametrize("is_owned", [True, False])
async def test_every_digit(database: str, is_owned: bool, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{database}_url")
    async with opened(url) as engine:
        async with engine.begin() as connection:
            await connection.run_sync(documents.metadata.create_all)
            await connection.execute(
                text(f"INSERT INTO documents VALUES (1, {_cast(database)})"),
                {"d": DOCUMENT},
            )
        async with served(url if is_owned else engine, documents.metadata) as server:
            result = await server.result(select(documents))
            expected = f"[{','.join(NUMBERS)}]"
            for format_name in ("ndjson", "json", "csv"):
                assert expected in (await server.rows(result, format_name)).text.replace(" ", ""), format_name
            for format_name in ("arrow", "parquet"):
                cell: Any = table_of(await server.rows(result, format_name), format_name).column("document")[
                    0
                ]
                assert expected in cell.as_py().replace(" ", ""), format_name
            path = f"/resources/{result.resource_uri.rpartition('/')[2]}/query"
            assert expected in (await server.http.post(path, json={})).text.replace(" ", "")


@pytest.mark.quick(1)
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg in a thread", "psycopg2"])
@pytest.mark.parametrize("is_told", [False, True])
async def test_an_engine_of_the_applications(postgresql_url: str, driver: str, *, is_told: bool) -> None:
    """json, jsonb and arrays of them; a reader that the application gave is used, and it sees its values as before."""
    kinds = {"a": JSON, "b": JSONB, "c": ARRAY(JSONB), "d": ARRAY(JSON), "e": types.NullType}
    table = Table(
        "documents", MetaData(), Column("id", Integer, primary_key=True), *starmap(Column, kinds.items())
    )
    one = f"'{DOCUMENT}'"
    async with opened(postgresql_url) as engine, engine.begin() as connection:
        for statement in (
            "CREATE TABLE documents (id int PRIMARY KEY, a json, b jsonb, c jsonb[], d json[], e jsonb)",
            f"INSERT INTO documents VALUES (1, {one}, {one}, ARRAY[{one}::jsonb, NULL], ARRAY[{one}::json], {one})",
            "INSERT INTO documents VALUES (2)",
        ):
            await connection.exec_driver_sql(statement)
    url = postgresql_url.replace("asyncpg", driver.partition(" ")[0])
    make: Any = create_engine if driver in {"psycopg2", "psycopg in a thread"} else create_async_engine
    engine = make(
        url, pool_size=1, max_overflow=0, **({"json_deserializer": json_module.loads} if is_told else {})
    )
    expected = "[0.12345678901234568," if is_told else f"[{','.join(NUMBERS)}]"
    async with served(engine, table.metadata) as server:
        for name in kinds:
            result = await server.result(select(table.c.id, table.c[name]).order_by(table.c.id))
            answers = [await server.rows(result, format_name) for format_name in ("ndjson", "json")]
            path = f"/resources/{result.resource_uri.rpartition('/')[2]}/query"
            answers.append(await server.http.post(path, json={}))
            if not is_told:
                answers.append(await server.rows(result, "csv"))
            for answer in answers:
                assert answer.status_code == 200
                assert expected in answer.text.replace(" ", ""), (name, answer.text)
    # The same connection, in the application's hands.
    if make is create_engine:
        with engine.connect() as plain:
            seen = plain.execute(select(table.c.b).where(table.c.id == 1)).scalar_one()
        await to_thread(engine.dispose)
    else:
        async with engine.connect() as opened_one:
            seen = (await opened_one.execute(select(table.c.b).where(table.c.id == 1))).scalar_one()
        await engine.dispose()
    assert seen == json_module.loads(DOCUMENT)
    assert [type(number) for number in seen["numbers"][:2]] == [float, float]


def _cast(database: str) -> str:
    return "CAST(:d AS JSONB)" if database == "postgresql" else ":d"


@pytest.mark.parametrize("kind", ["json", "jsonb", "interval", "tstzrange"])
async def test_a_page_runs_its_query_once(postgresql_url: str, kind: str) -> None:
    """On an application's engine, whose driver reads other values than the database has."""
    kinds: dict[str, Any] = {
        "json": JSON(),
        "jsonb": JSONB(),
        "interval": types.Interval(),
        "tstzrange": TSTZRANGE(),
    }
    table = Table("once", MetaData(), Column("id", Integer, primary_key=True), Column("v", kinds[kind]))
    value = {"interval": "1 mon", "tstzrange": "[2024-01-01,infinity]"}.get(kind, DOCUMENT)
    engine = create_async_engine(postgresql_url, pool_size=1, max_overflow=0)
    async with engine.begin() as connection:
        await connection.exec_driver_sql(f"CREATE TABLE once (id int PRIMARY KEY, v {kind})")
        await connection.exec_driver_sql(f"INSERT INTO once VALUES (1, '{value}')")
    async with served(engine, table.metadata) as server:
        result = await server.result(select(table))
        before = await _scans(engine)
        assert len((await result.fetch()).data) == 1
        assert await _scans(engine) - before == 1
    await engine.dispose()


async def _scans(engine: AsyncEngine) -> int:
    """How often the table was read, by the statistics of the database."""
    async with engine.begin() as connection:
        await connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
    async with engine.begin() as connection:
        statement = "SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relname = 'once'"
        return int((await connection.exec_driver_sql(statement)).scalar_one())


def test_what_is_no_document_is_an_error() -> None:
    long = "9" * 5_000
    assert json.dumps(read_document(long)) == long.encode()
    for wrong in ("{", "01", ""):
        with pytest.raises(ValueError, match=r"Expecting|Extra"):
            read_document(wrong)


def test_a_number_is_a_number() -> None:
    document = read_document('[0.1, 0.10, 1e400, {"1": 2}]')
    assert [type(one) for one in document[:2]] == [float, Digits]
    assert document[1] == 0.1 and document[0] + document[1] == 0.2
    assert json.loads(json.dumps(document)) == [0.1, 0.1, None, {"1": 2}]
    assert json.dumps({1: document, "big": 2**70, "nan": float("nan")}) == (
        b'{"1":[0.1,0.10,1e400,{"1":2}],"big":1180591620717411303424,"nan":null}'
    )
