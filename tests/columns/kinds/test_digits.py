"""Numbers inside JSON documents keep every digit that the database shows, in every format."""

from __future__ import annotations

import json as json_module
import operator
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import starmap
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ARRAY, JSON, Column, Integer, MetaData, Table, create_engine, select, text, types
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import JSONB, TSTZRANGE
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.columns.exact import Digits, read_document
from dualsql.formats import json
from dualsql_client import FetchError
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


JSON_BODY = {"content-type": "application/json"}
_LONG = (
    "1267650600228229401496703205377",
    "0.1234567890123456789",
    "1234567890.12345678901",
    "12.50",
    "1e20",
)


@pytest.mark.quick(1, "sqlite", "postgresql")
@pytest.mark.parametrize("database", ["postgresql", "mariadb", "duckdb"])
async def test_a_filter_compares_a_number_of_a_body_as_it_is_written(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A parser that reads doubles has 2**100 for 2**100 + 1."""
    url = f"duckdb:///{tmp_path}/long.duckdb"
    url = url if database == "duckdb" else request.getfixturevalue(f"{database}_url")
    kind = "decimal(38, 19)" if database == "duckdb" else "decimal(60, 19)"
    written = [number for number in _LONG if database != "duckdb" or float(number) < 1e19]
    table = Table(
        "amounts",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("amount", types.Numeric(60, 19)),
        Column("double", types.Double()),
    )
    statements = [f"CREATE TABLE amounts (id int PRIMARY KEY, amount {kind}, double_ double precision)"]
    statements = [
        each.replace("double_", '"double"' if database != "mariadb" else "`double`") for each in statements
    ]
    # Beside each number is the double that is read for it.
    for number in written:
        place = 2 * len(statements)
        near = format(Decimal(repr(float(number))), "f")
        statements += [
            f"INSERT INTO amounts VALUES ({place}, {Decimal(number):f}, 1), ({place + 1}, {near}, {near})"
        ]
    await _run(url, statements)
    async with served(url, table.metadata) as server:
        result = await server.result(select(table))
        path = f"/resources/{result.resource_uri.rpartition('/')[2]}/query"
        for place, number in enumerate(written, 1):
            double = 2 * place + 1
            is_exact = Decimal(number) == Decimal(repr(float(number)))
            for column, expected in (
                ("amount", [double - 1, double] if is_exact else [double - 1]),
                ("double", [double]),
            ):
                for filters in (
                    f'[{{"column": "{column}", "op": "eq", "value": {number}}}]',
                    json_module.dumps(f'[{{"column": "{column}", "op": "eq", "value": {number}}}]'),
                ):
                    body = f'{{"columns": ["id"], "order_by": ["id"], "filters": {filters}}}'
                    answer = await server.http.post(path, content=body, headers=JSON_BODY)
                    assert answer.status_code == 200, answer.text
                    assert [row["id"] for row in answer.json()["data"]] == expected, (column, filters)

            text = f'{{"sql": "SELECT id FROM data WHERE amount = :n", "parameters": {{"n": {number}}}}}'
            answer = await server.http.post(path.replace("/query", "/sql"), content=text, headers=JSON_BODY)
            if is_exact:
                assert answer.status_code == 200, answer.text
            else:
                assert "digits" in answer.json()["hint"], answer.text
                assert "in a text" in answer.json()["hint"]
            text = text.replace(f'"n": {number}', f'"n": "{number}"')
            answer = await server.http.post(path.replace("/query", "/sql"), content=text, headers=JSON_BODY)
            expected = [double - 1, double] if is_exact else [double - 1]
            assert sorted(row["id"] for row in answer.json()["data"]) == expected
        deep = '{"filters": 12345678901234567890, "columns": ' + "[" * 1000 + "]" * 1000 + "}"
        assert (await server.http.post(path, content=deep, headers=JSON_BODY)).status_code == 400


_UNSIGNED = (2**64 - 1, 2**63, 2**63 - 1, 5, 0)
_SIGNED = (2**63 - 1, -(2**63), -1, 0, 5)
_COMPARED: Mapping[str, Any] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "in": lambda value, listed: value in listed, "between": lambda value, ends: ends[0] <= value <= ends[1],
}  # fmt: skip


@pytest.mark.parametrize("driver", ["asyncmy", "pymysql"])
async def test_a_filter_compares_whole_numbers_without_a_sign(mariadb_url: str, driver: str) -> None:
    """MariaDB's BIGINT UNSIGNED has 2**64 - 1."""
    table = Table(
        "wide",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("large", mysql.BIGINT(unsigned=True)),
        Column("small", types.BigInteger()),
    )
    rows = list(zip(_UNSIGNED, _SIGNED, strict=True))
    statements = ["CREATE TABLE wide (id int PRIMARY KEY, large bigint unsigned, small bigint)"]
    statements += [f"INSERT INTO wide VALUES ({place}, {a}, {b})" for place, (a, b) in enumerate(rows)]
    await _run(mariadb_url, statements)
    values = [-(2**63), -1, 0, 5, 2**63 - 1, 2**63, 2**64 - 1]
    operands: list[tuple[str, Any]] = [
        (op, value) for op in ("eq", "ne", "lt", "le", "gt", "ge") for value in values
    ]
    operands += [
        ("in", values),
        ("in", [2**64 - 1, -1]),
        ("between", [5, 2**63]),
        ("between", [2**63, 2**64 - 1]),
    ]
    async with served(mariadb_url.replace("asyncmy", driver), table.metadata) as server:
        result = await server.result(select(table))
        for place, name in enumerate(("large", "small")):
            for op, value in operands:
                expected = [number for number, row in enumerate(rows) if _COMPARED[op](row[place], value)]
                texts = list(map(str, value)) if isinstance(value, list) else str(value)
                for written in (value, texts):
                    filters: Any = {"column": name, "op": op, "value": written}
                    found = (await result.query(filters=filters, columns=["id"])).data
                    assert sorted(row["id"] for row in found) == expected, (name, op, value)
            for odd in (2**64, -(2**63) - 1, 0.5, 1e30):
                filters = {"column": name, "op": "eq", "value": odd}
                with pytest.raises(FetchError, match="beyond 64 bits, its digits in a text") as refused:
                    await result.query(filters=filters)
                assert refused.value.code == "BAD_PARAMETER"
        filters = {"column": "large", "op": "gt", "value": 2**63}
        refined = await result.refine(filters=filters)
        assert [row["id"] for row in (await refined.fetch()).data] == [0]


async def _run(url: str, statements: Sequence[str]) -> None:
    if url.startswith("duckdb"):
        engine = create_engine(url)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()
        return
    async with opened(url) as engine_, engine_.begin() as opened_connection:
        for statement in statements:
            await opened_connection.exec_driver_sql(statement)
