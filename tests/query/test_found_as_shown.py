"""A condition finds the rows that show its value, however they are stored, or is refused in words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Enum,
    Float,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Time,
    Uuid,
    create_engine,
    select,
    text,
    types,
)
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql.databases.sqlite.capabilities import CAPABILITIES
from dualsql.plan import shape
from dualsql.query.parse import read_structured_query
from dualsql.query.select import build_structured_select
from dualsql_client import FetchError, ParsedDualResponse
from tests.columns.kinds.results import served

_ONE = "a0eebc999c0b4ef8bb6d6bb9bd380a11"
_DASHED = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"

# By name: the type in DDL, as SQLAlchemy has it, and values as they are stored.
_SQLITE: dict[str, tuple[str, Any, Sequence[str]]] = {
    "truth": ("BOOLEAN", Boolean(), ("0", "1", "2", "-1", "0.5", "'true'", "''", "x''", "x'00'")),
    "uuid": (
        "CHAR(32)",
        Uuid(),
        (
            *(f"'{spelled}'" for spelled in (_ONE, _DASHED, _DASHED.upper(), f"{{{_DASHED}}}")),
            f"'urn:uuid:{_DASHED}'",
            f"'{1:032x}'",
            "'x'",
            f"'{'Z' * 32}'",
            "x'ff'",
        ),
    ),
    "uuid_text": ("CHAR(32)", Uuid(as_uuid=False), (f"'{_ONE}'", f"'{_DASHED}'")),
    "integer": ("INTEGER", Integer(), ("1", "12", "'abc'", "2.5", "x'00'", "9.3e18", "9e999")),
    "no_affinity": ("", BigInteger(), ("12", "'12'", "12.5", "x'3132'")),
    "real": ("REAL", Float(), ("1.5", "1", "'x'", "x'00'")),
    "decimal": ("NUMERIC(10,2)", Numeric(10, 2), ("1.5", "2.675", "2.67", "'x'", "x'00'")),
    "large": (
        "NUMERIC",
        Numeric(),
        ("12345678901234567", "12345678901234568.0", "-12345678901234567", "3", "'x'"),
    ),
    "decimal_text": ("", Numeric(10, 2), ("1.5", "'1.5'", "'1.50'")),
    "text": (
        "TEXT",
        Text(),
        ("'abcd'", "x'69b71d'", "x'ff00'", "'/wA='", "CAST(x'ff41' AS TEXT)", "'\\xffA'", "'\\xff'", "'x'"),
    ),
    "word": ("VARCHAR", Enum("abcd", "b", name="word"), ("'abcd'", "x'69b71d'", "'zzz'")),
    "bytes": ("BLOB", LargeBinary(), ("x'69b71d'", "'abcd'", "'abc'", "1234", "x''", "12.5")),
    "date": ("DATE", Date(), ("'2024-01-01'", "20240101", "'2024-13-45'", "'2024-01-01 10:00:00'")),
    "instant": (
        "DATETIME",
        DateTime(),
        ("'2024-01-01 10:00:00'", "'2024-01-01T10:00:00.000'", "'2024-01-01'", "20240101", "1700000000"),
    ),
    "time": (
        "TIME",
        Time(),
        ("'10:00:00.000000'", "'10:00:00'", "'10:00'", "'10:00:00.5'", "'10:00:00.500'", "10", "'25:00'"),
    ),
    "interval": ("DATETIME", Interval(), ("'1970-01-02 00:00:01.000000'", "'P1DT0H0M1S'", "'x'")),
    "any": ("", types.NullType(), ("1", "1.0", "'1'", "'abcd'", "x'69b71d'", "CAST(x'ff41' AS TEXT)")),
}
_MARIADB: dict[str, tuple[str, Any, Sequence[str]]] = {
    "truth": ("BOOLEAN", Boolean(), ("0", "1", "2", "-1")),
    "word": ("VARCHAR(9)", String(9), ("'a'", "'A'", "'a '")),
}


async def _require_found(result: ParsedDualResponse) -> None:
    rows = {row["id"]: row["v"] for row in (await result.fetch(limit=100)).data if row["v"] is not None}
    for shown in rows.values():
        same = {key for key, value in rows.items() if type(value) is type(shown) and value == shown}
        # "12" is a number too, and "20240101" a date: what they are asked of may be shown in another way.
        alike = {key for key, value in rows.items() if _meanings(value) & _meanings(shown) or key in same}
        for operator, value in (("eq", shown), ("in", [shown]), ("ne", shown)):
            condition = {"column": "v", "op": operator, "value": value}
            answer = await _answer(result, filters=condition)
            if answer is not None:
                keys = {row["id"] for row in answer}
                actual = rows.keys() - keys if operator == "ne" else keys
                assert same <= actual <= alike, (operator, shown)


async def _answer(result: ParsedDualResponse, **question: Any) -> list[dict[str, Any]] | None:
    """The rows; None for a question that is refused in words."""
    try:
        return list((await result.query(**question, limit=100)).data)
    except FetchError as error:
        if error.code != "BAD_PARAMETER" or not error.hint:
            raise
        return None


def _meanings(value: Any) -> set[Any]:
    found: set[Any] = {(type(value), value)}
    for read in (datetime.fromisoformat, time.fromisoformat, Decimal):
        with suppress(ValueError, TypeError, ArithmeticError):
            found.add((read, read(value)))
    return found


async def _require_groups(result: ParsedDualResponse) -> None:
    actual = await _answer(result, group_by=["v"], aggregates=["count"]) or []
    shown = [(type(row["v"]), row["v"]) for row in actual if row["v"] is not None and "$unfit" not in row]
    assert len(shown) == len(set(shown)), actual


async def _require(url: str, cases: dict[str, tuple[str, Any, Sequence[str]]]) -> None:
    metadata = MetaData()
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        for name, (sql_type, type_, values) in cases.items():
            Table(name, metadata, Column("id", Integer, primary_key=True), Column("v", type_))
            await connection.exec_driver_sql(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, v {sql_type})")
            for number, value in enumerate([*values, "NULL"], 1):
                await connection.execute(text(f"INSERT INTO {name} VALUES ({number}, {_escaped(value)})"))
    await engine.dispose()
    async with served(url, metadata) as server:
        for table in metadata.tables.values():
            result = await server.result(select(table).order_by(table.c.id))
            await _require_found(result)
            if table.name in {"truth", "uuid", "uuid_text", "time"}:
                await _require_groups(result)


def _escaped(value: str) -> str:
    return value.replace(":", "\\:")


async def test_on_sqlite(tmp_path: Any) -> None:
    await _require(f"sqlite+aiosqlite:///{tmp_path}/odd.sqlite", _SQLITE)


@pytest.mark.long
async def test_on_mariadb(mariadb_server: Any) -> None:
    with mariadb_server.database() as url:
        await _require(url, _MARIADB)


@pytest.mark.parametrize(
    ("operator", "value"), [("eq", _DASHED), ("in", [_DASHED, str(UUID(int=7))]), ("eq", _DASHED.upper())]
)
async def test_an_index_serves_uuids(tmp_path: Any, operator: str, value: Any) -> None:
    things = Table("things", MetaData(), Column("id", Uuid(), primary_key=True))
    engine = create_engine(f"sqlite:///{tmp_path}/things.sqlite")
    things.metadata.create_all(engine)
    question = read_structured_query({"filters": {"column": "id", "op": operator, "value": value}})
    statement = build_structured_select(question, shape(select(things)), CAPABILITIES)
    with engine.connect() as connection:
        sql = str(statement.compile(engine, compile_kwargs={"literal_binds": True}))
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}").all()
    engine.dispose()
    assert not any(str(step[3]).startswith("SCAN") for step in plan), plan
