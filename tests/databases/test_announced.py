"""Whatever a column announces, a sample, a page and the streams show one text for one value.

An application may state another type than the column of the database has.
"""

from __future__ import annotations

import csv
import io
from typing import Any

import orjson
import pytest
from sqlalchemy import (
    Column,
    Date,
    DateTime,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Uuid,
    create_engine,
    select,
    text,
    type_coerce,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql.databases.source import Database
from tests.databases.test_drivers import answered, asked
from tests.quick import case_of
from tests.server.conftest import BASE_URL
from tests.servers import create_server

ANNOUNCED = (String(), Integer(), Date(), Uuid())
VALUES = {
    "TIME": ("01:24:17.07", ["01:24:17.070000"]),
    "TIMETZ": ("01:24:17.07+05:21:10", ["01:24:17.070000+05:21:10", "01:24:17.070000+05:21"]),
    "TIME[]": ("{01:24:17.07}", [["01:24:17.070000"]]),
    "TIMESTAMP": ("2026-01-31 01:24:17.07", ["2026-01-31T01:24:17.070000"]),
}
"""By the type of the column in the database: a value, and its texts. asyncpg reads zones to the minute, and drivers of
MariaDB an interval, which is written as one or passed to a type's own reader."""
OF_MARIADB = {"TIME(6)": ("01:24:17.07", ["01:24:17.070000", "PT1H24M17.07S", "1:24:17.070000"])}
OF_SQLITE = {"TIME": ("01:24:17.07", ["01:24:17.07"])}
ROWS = 20


async def run(database: Database, statements: list[str]) -> None:
    if isinstance(database, AsyncEngine):
        async with database.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement.replace(":", r"\:")))
        return
    engine = database if isinstance(database, Engine) else create_engine(str(database))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement.replace(":", r"\:")))
    engine.dispose()


@pytest.mark.parametrize(
    ("driver", "values"),
    [
        ("duckdb", {**VALUES, "TIME[]": ("[01:24:17.07]", VALUES["TIME[]"][1])}),
        ("asyncpg", VALUES),
        case_of(("psycopg", VALUES), is_long=True),
        ("asyncmy", OF_MARIADB),
        ("aiosqlite", OF_SQLITE),
    ],
    indirect=["driver"],
)
async def test_all_ways_show_one_text(database: Database, values: dict[str, tuple[str, list[Any]]]) -> None:
    names = dict(zip(values, "abcdefgh", strict=False))
    declared = ", ".join(f"{name} {kind}" for kind, name in names.items())
    written = ", ".join(f"'{value}'" for value, _ in values.values())
    rows = ", ".join(f"({number}, '2026-01-31 00:00:00', {written})" for number in range(ROWS))
    await run(
        database,
        [
            f"CREATE TABLE disguised (id INTEGER PRIMARY KEY, moment TIMESTAMP, {declared})",
            f"INSERT INTO disguised VALUES {rows}",
        ],
    )
    table = Table(
        "disguised",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("moment", DateTime),
        *(Column(name, String) for name in names.values()),
    )
    wrong: dict[str, Any] = {}
    async with (
        create_server(database, base_url=BASE_URL, tables=table.metadata) as server,
        asked(server) as http,
    ):
        for kind, type_ in [(kind, type_) for kind in values for type_ in ANNOUNCED]:
            value = type_coerce(table.c[names[kind]], type_).label("value")
            # Beside an instant, which orjson writes itself.
            response = await server.create_response(
                select(table.c.id, table.c.moment, value), name="x", sample_size=ROWS
            )
            path = f"/resources/{response.resource_id}"
            shown = {"sample": response.sample, "page": (await answered(http, path, {})).json()["data"]}
            streams = {
                name: (await answered(http, f"{path}/rows", {"format": name})).content
                for name in ("ndjson", "json", "csv")
            }
            shown["ndjson"] = [orjson.loads(line) for line in streams["ndjson"].splitlines()[:-1]]
            shown["json"] = orjson.loads(streams["json"])
            shown["csv"] = list(csv.DictReader(io.StringIO(streams["csv"].decode(), newline="")))
            texts = {way: [_text(row["value"]) for row in rows] for way, rows in shown.items()}
            if not any(texts == dict.fromkeys(shown, [_text(one)] * ROWS) for one in values[kind][1]):
                wrong[f"{kind} as {type_}"] = {way: rows[0] for way, rows in texts.items()}
    assert wrong == {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
