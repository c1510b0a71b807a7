"""Texts as people and models write them for one database: each gives the rows that the database itself gives."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql import DualResponseServer
from dualsql.errors import DualResponseError
from tests.engines import SOURCES, opened

FOLDER = Path(__file__).parent / "spoken"


def _statements(name: str) -> tuple[list[str], list[str]]:
    setup, _, texts = (FOLDER / f"{name}.sql").read_text(encoding="utf-8").partition("\n\n")
    return [
        [part.strip() for part in whole.split(";\n") if part.strip(" ;\n")] for whole in (setup + "\n", texts)
    ]  # type: ignore[return-value]


def plain(value: Any) -> Any:
    """A value as it is compared: numbers by nine digits, instants by their text, documents by what they hold."""
    match value:
        case bool():
            return float(value)
        case int() | float() | Decimal():
            return float(f"{float(value):.9g}")
        case datetime() | date() | time() | timedelta():
            return plain(value.isoformat() if hasattr(value, "isoformat") else str(value))
        case list() | dict():
            return json.dumps(value, sort_keys=True)
        case str():
            try:
                return plain(json.loads(value))
            except ValueError:
                return (
                    value.replace("T", " ").replace("+00:00", "").removesuffix("Z").removesuffix(" 00:00:00")
                )
    return value


async def _rows(connection: AsyncConnection, sql: str) -> list[str]:
    actual = await connection.exec_driver_sql(
        sql.replace("%", "%%") if "asyncmy" in str(connection.engine.url) else sql
    )
    return sorted(repr(tuple(map(plain, row))) for row in actual)


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("name", SOURCES)
async def test_a_text_gives_the_rows_of_its_database(name: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{name}_url")
    setup, texts = _statements(name)
    metadata, wanted = MetaData(), {}
    async with opened(url) as engine:
        async with engine.begin() as connection:
            for statement in setup:
                await connection.exec_driver_sql(statement)
        async with engine.connect() as connection:
            await connection.run_sync(metadata.reflect)
            for sql in texts:
                wanted[sql] = await _rows(connection, sql)
    refused, different = {}, {}
    async with DualResponseServer(url, base_url="http://127.0.0.1/resources", tables=metadata) as dual:
        for sql, rows in wanted.items():
            try:
                query = dual.sql.resolve(sql).select
                response = await dual.create_response(query, name="x", is_text=True, sample_size=100)
            except DualResponseError as error:
                refused[sql] = f"{error.code} {error.message} {error.hint}"
                continue
            given = [tuple(v for name, v in row.items() if name != "$unfit") for row in response.sample]
            if sorted(repr(tuple(map(plain, row))) for row in given) != rows:
                different[sql] = given, rows
    assert refused == {}
    assert different == {}
