"""Every analytic query of the corpus is accepted, and its rows are those of the same text on the engine itself."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, insert
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import DualResponseError, DualResponseServer, PageRequest
from dualsql.formats import json
from dualsql_client.ndjson import decode_rows
from tests.quick import case_of
from tests.servers import create_server
from tests.sql.corpus import ENGINES, Text, texts_for
from tests.sql.warehouse import METADATA, rows

BASE_URL = "http://127.0.0.1:8000/resources"
MOST_ROWS = 10_000
Row = tuple[Any, ...]


def fill(connection: Any) -> None:
    METADATA.create_all(connection)
    for table, found in rows().items():
        connection.execute(insert(table), found)


@pytest.fixture(
    params=[
        "sqlite",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("postgresql", "mariadb", "duckdb")),
    ]
)
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@asynccontextmanager
async def warehouse(
    name: str, request: pytest.FixtureRequest, folder: Path
) -> AsyncIterator[tuple[Any, Any]]:
    """The filled database as dualsql has it, and an engine to ask it directly."""
    if name == "duckdb":
        url = f"duckdb:///{folder}/warehouse.duckdb"
        writer = create_engine(url)
        with writer.begin() as connection:
            fill(connection)
        writer.dispose()
        yield url, url
        return
    engine = create_async_engine(request.getfixturevalue(f"{name}_url"))
    async with engine.begin() as opened:
        await opened.run_sync(fill)
    yield engine, engine
    await engine.dispose()


async def raw_rows(asked: Any, texts: Sequence[Text]) -> list[list[Row] | Exception]:
    """What the engine itself answers, text by text."""
    if isinstance(asked, AsyncEngine):
        return [await _raw(asked, text.sql) for text in texts]
    engine = create_engine(asked, connect_args={"read_only": True})
    with engine.connect() as connection:
        actual = [_driven(connection, text.sql) for text in texts]
    engine.dispose()
    return actual


async def _raw(engine: AsyncEngine, sql: str) -> list[Row] | Exception:
    async with engine.connect() as connection:
        return await connection.run_sync(_driven, sql)


def _driven(connection: Any, sql: str) -> list[Row] | Exception:
    # What SQLAlchemy's dialects do to a percent sign, a driver undoes.
    written = sql.replace("%", "%%") if connection.dialect.paramstyle in ("format", "pyformat") else sql
    try:
        return [tuple(row) for row in connection.exec_driver_sql(written).all()]
    except Exception as error:  # noqa: BLE001 - a text the engine does not take is a mistake of the corpus: it is reported
        return error


async def served_rows(server: DualResponseServer, text: Text) -> list[Row]:
    """What a caller gets who hands the text over: the stored resource, read back."""
    select = server.sql.resolve(text.sql).select
    response = await server.create_response(select, name="legitimate", count="exact")
    resource = await server.unchecked.get(response.resource_id)
    assert resource is not None
    page = await server.unchecked.read_page(resource, None, PageRequest(limit=MOST_ROWS))
    assert page.total_count == response.total_count == len(page.rows)
    decoded = decode_rows(json.loads(json.dumps(list(page.rows))), page.columns)
    return [tuple(row[column["name"]] for column in page.columns) for row in decoded]


def plain(value: Any) -> Any:
    """A value as every driver might have given it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal | float):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return _number_or_text(value)
    return value


def _number_or_text(text: str) -> Any:
    text = text.removesuffix(".000000").removesuffix(" 00:00:00")
    try:
        return float(text)
    except ValueError:
        return text


def is_same(one: Any, other: Any) -> bool:
    one, other = plain(one), plain(other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def difference(text: Text, expected: list[Row], found: list[Row]) -> str | None:
    """Where the rows are not the same, if they are not."""
    if not text.is_ordered:
        expected, found = (
            sorted(rows, key=lambda row: str([plain(cell) for cell in row])) for rows in (expected, found)
        )
    for number, (one, other) in enumerate(zip_longest(expected, found, fillvalue=())):
        if len(one) != len(other) or not all(map(is_same, one, other)):
            return f"row {number} of {len(expected)} and {len(found)}: {one} became {other}"
    return None


async def faults(name: str, asked: tuple[Any, Any], chosen: Sequence[Text]) -> dict[str, str]:
    """What is wrong with each text that is not answered as the engine answers it."""
    found: dict[str, str] = {}
    expected = await raw_rows(asked[1], chosen)
    async with create_server(
        asked[0], base_url=BASE_URL, tables=METADATA, maximum_page_size=MOST_ROWS
    ) as server:
        for text, own in zip(chosen, expected, strict=True):
            if isinstance(own, Exception):
                found[text.title] = f"{name} does not take it: {str(own)[:300]}"
                continue
            try:
                wrong = difference(text, own, await served_rows(server, text))
            except DualResponseError as error:
                wrong = f"{error.code}: {error.message} {error.hint} {error.__cause__!r}"[:600]
            if wrong is not None:
                found[text.title] = wrong
    return found


PARTS = 4


@pytest.mark.long
@pytest.mark.parametrize("part", [case_of(part, is_long=part > 0) for part in range(PARTS)])
async def test_every_text_gives_the_rows_of_the_engine(
    engine_name: str, part: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with warehouse(engine_name, request, tmp_path) as server:
        actual = await faults(engine_name, server, texts_for(engine_name)[part::PARTS])
    assert actual == {}


def test_there_are_as_many_as_were_promised() -> None:
    numbers = {name: len({text.sql for text in texts_for(name)}) for name in ENGINES}
    assert numbers["sqlite"] >= 300
    assert numbers["postgresql"] >= 300
