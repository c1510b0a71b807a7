"""Names of tables and columns, and values: what is written into a database is what each format shows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from openpyxl import load_workbook
from pyarrow.parquet import read_table
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text as SQLText,
    insert,
    select,
)
from sqlalchemy.exc import DBAPIError

from dualsql import DualResponseError
from dualsql.formats.csv import begins_formula
from tests.engines import opened, sqlite_url_in
from tests.fuzz.running import ONE_CASE, Case, cases, check_problem, odd_text
from tests.http.application import Application, running

pytestmark = [pytest.mark.timeout(7200), pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")]

KINDS: tuple[Any, ...] = (
    SQLText(),
    BigInteger(),
    Double(),
    Numeric(20, 4),
    Boolean(),
    Date(),
    DateTime(),
    LargeBinary(),
)


def cell(case: Case, kind: Any) -> Any:
    """A value that a column of this type holds exactly, or NULL."""
    choices, make_cell = case.choices, next(make for known, make in CELLS if isinstance(kind, known))
    return None if choices.random() < 0.1 else make_cell(case)


CELLS: tuple[tuple[type, Callable[[Case], Any]], ...] = (
    (SQLText, odd_text),
    (
        BigInteger,
        lambda case: case.one_of(
            (0, -1, 2**53 + 1, -(2**63), 2**63 - 1, case.choices.randrange(-(2**63), 2**63))
        ),
    ),
    (
        Double,
        lambda case: case.one_of((0.0, -0.5, 1e300, 5e-324, 0.1, 2.0**53, case.choices.uniform(-1e9, 1e9))),
    ),
    (Numeric, lambda case: Decimal(case.choices.randrange(-(10**10), 10**10)) / 10_000),
    (Boolean, lambda case: case.choices.random() < 0.5),
    (DateTime, lambda case: datetime(1, 1, 1) + timedelta(microseconds=case.choices.randrange(3 * 10**17))),  # noqa: DTZ001
    (Date, lambda case: date(1, 1, 1) + timedelta(days=case.choices.randrange(3_652_058))),
    (LargeBinary, lambda case: case.choices.randbytes(case.choices.randrange(20))),
)


def odd_name(case: Case) -> str:
    """A name of a column. One with `%(` is taken for one that SQLAlchemy made, and shown as `column_5`."""
    return odd_text(case, longest=12).strip().lower().replace("%(", "%")


def table_of(case: Case) -> tuple[Table, list[dict[str, Any]]]:
    """A table with odd names, and rows of odd values."""
    names = list(dict.fromkeys(odd_name(case) or "x" for _ in range(case.choices.randrange(1, 6))))
    kinds = [case.one_of(KINDS) for _ in names]
    columns = [Column(name, kind) for name, kind in zip(names, kinds, strict=True) if name != "key"]
    table = Table(
        odd_text(case, longest=12).strip() or "t",
        MetaData(),
        Column("key", Integer, primary_key=True),
        *columns,
    )
    rows = [
        {"key": number, **{column.name: cell(case, column.type) for column in columns}}
        for number in range(case.choices.randrange(1, 6))
    ]
    return table, rows


Filled = tuple[Table, list[dict[str, Any]]]


def tables_of(case: Case) -> list[Filled]:
    """Some tables, whose names differ."""
    tables = [table_of(case) for _ in range(case.one_of((1, 10)))]
    return list({table.name.casefold(): (table, rows) for table, rows in tables}.values())


@asynccontextmanager
async def taken(tables: list[Filled], url: str) -> AsyncIterator[list[Filled]]:
    """Those of the tables that the database takes, during the block."""
    found = []
    async with opened(url) as engine:
        for table, rows in tables:
            with suppress(DBAPIError):
                async with engine.begin() as connection:
                    await connection.run_sync(table.metadata.create_all)
                    await connection.execute(insert(table), rows)
                found.append((table, rows))
        try:
            yield found
        finally:
            for table, _ in found:
                async with engine.begin() as connection:
                    await connection.run_sync(table.metadata.drop_all)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url_in(tmp_path)
    return request.getfixturevalue("postgresql_url")


@pytest.mark.long
async def test_what_is_written_is_what_each_format_shows(url: str) -> None:
    shown = 0
    for case in cases():
        tables = tables_of(case)
        with case.about(
            [(table.name, [(each.name, each.type) for each in table.c], rows) for table, rows in tables]
        ):
            async with taken(tables, url) as found:
                shown += await serves(found, url) if found else 0
    assert shown or ONE_CASE, "the databases take such names"


async def serves(tables: list[Filled], url: str) -> int:
    """How many of the tables a server serves: then it shows their rows. It may refuse a name in its own words."""
    shown = 0
    try:
        async with running(url, tables=[table.metadata for table, _ in tables]) as application:
            for table, rows in tables:
                await shows(application, table, rows)
                shown += 1
    except DualResponseError as error:
        check_problem({"code": error.code, "message": error.message, "hint": error.hint, "details": {}})
    return shown


async def shows(application: Application, table: Table, rows: list[dict[str, Any]]) -> None:
    """Each format has the rows: the binary ones each value, the others each text."""
    path = await application.create(select(table).order_by(table.c.key))

    async def asked(name: str, **parameters: str) -> httpx.Response:
        answer = await application.http.get(f"{path}/rows", params={"format": name, **parameters})
        assert answer.status_code == 200, answer.text
        return answer

    arrow, parquet = await asked("arrow"), await asked("parquet")
    assert pa.ipc.open_stream(io.BytesIO(arrow.content)).read_all().to_pylist() == rows
    assert read_table(io.BytesIO(parquet.content)).to_pylist() == rows
    texts = [column.name for column in table.c if isinstance(column.type, SQLText)]
    expected = [[row[name] for name in texts] for row in rows]
    page = await application.http.get(path, params={"limit": 10})
    lines = (await asked("ndjson", summary="false")).text.split("\n")
    shown = (page.json()["data"], (await asked("json")).json(), [json.loads(line) for line in lines if line])
    for found in shown:
        assert [[row[name] for name in texts] for row in found] == expected
    names = [column.name for column in table.c]
    places = [names.index(name) for name in texts]
    for guard in ("false", "true"):
        header, *cells = csv.reader(io.StringIO((await asked("csv", guard_formulas=guard)).text, newline=""))
        assert [name.removeprefix("'") if guard == "true" else name for name in header] == [
            name.removeprefix("'") if guard == "true" else name for name in names
        ]
        assert [[row[place] for place in places] for row in cells] == [
            [f"'{text}" if guard == "true" and begins_formula(text or "") else text or "" for text in row]
            for row in expected
        ]
        assert guard == "false" or not any(begins_formula(row[place]) for row in cells for place in places)
    book = load_workbook(io.BytesIO((await asked("xlsx")).content), read_only=True)
    assert not [cell for row in book["Rows"].rows for cell in row if cell.data_type == "f"]
