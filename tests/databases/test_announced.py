"""Whatever a column announces, a sample, a page and the streams show one text for one value, and name the same cells.

An application may state another type than the column of the database has.
"""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import product
from typing import Any

import orjson
import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Date,
    DateTime,
    Engine,
    Float,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Time,
    Uuid,
    create_engine,
    make_url,
    select,
    text,
    type_coerce,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, ValueNotRepresentableError
from dualsql.databases.source import Database
from dualsql_client.ndjson import decode_rows
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
OF_MARIADB = {"TIME(6)": ("01:24:17.07", ["01:24:17.070000", "P0DT1H24M17.07S"])}
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
            shown = await every_way(server, http, select(table.c.id, table.c.moment, value))
            del shown["columns"]
            texts = {way: [_text(row["value"]) for row in rows] for way, rows in shown.items()}
            if not any(texts == dict.fromkeys(shown, [_text(one)] * ROWS) for one in values[kind][1]):
                wrong[f"{kind} as {type_}"] = {way: rows[0] for way, rows in texts.items()}
    assert wrong == {}


STATED = (
    String(), Integer(), Float(), Numeric(10, 3), Boolean(), Date(), DateTime(), Time(), Interval(), Uuid(),
    LargeBinary(),
)  # fmt: skip
STORED = {
    "INTEGER": "7",
    "DOUBLE PRECISION": "0.5",
    "NUMERIC(10, 3)": "12.125",
    "VARCHAR(40)": "'a text'",
    "DATE": "'2026-01-31'",
}
OF_MOST = {
    **STORED,
    "BOOLEAN": "true",
    "TIMESTAMP": "'2026-01-31 01:24:17.07'",
    "TIME": "'01:24:17.07'",
    "TIMESTAMPTZ": "'2026-01-31 01:24:17.07+02'",
    "UUID": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "INTERVAL": "'1 day 02:03:04.5'",
    "INTEGER[]": "ARRAY[1, NULL]",
}
CELLS = {
    "duckdb": {**OF_MOST, "BLOB": r"'\xAA\x00'::BLOB", "date": "'infinity'", "Date": "'0044-03-15 (BC)'"},
    "postgresql": {
        **OF_MOST,
        "BYTEA": r"'\xaa00'",
        "JSONB": """'{"a": 1}'""",
        "INET": "'10.0.0.1'",
        "REAL": "'NaN'",
        "date": "'infinity'",
        "Date": "'0044-03-15 BC'",
    },
    "mysql": {
        **STORED,
        "BOOLEAN": "2",
        "DATETIME(6)": "'2026-01-31 01:24:17.07'",
        "TIME(6)": "'01:24:17.07'",
        "BLOB": "x'aa00'",
        "date": "'0000-00-00'",
    },
    "sqlite": {**STORED, "BLOB": "x'aa00'", "BIGINT": "9.5", "TIME": "'01:24:17.07'", "TEXT": "x'ff'"},
}  # fmt: skip
"""By the type of the column in the database: a value, in SQL."""
OTHERS = ("psycopg async", "psycopg", "psycopg2", "pymysql", "sqlite3")
CLASSES: Any = {
    "integer": (int,),
    "float": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "any": (object,),
    "json": (object,),
}
"""By encoding: the classes of values in JSON; of all others, texts."""


@pytest.mark.parametrize(
    "driver",
    [
        "duckdb", "asyncpg", "asyncmy", "aiosqlite", *(case_of(name, is_long=True) for name in OTHERS),
    ],
    indirect=True,
)  # fmt: skip
async def test_all_ways_name_the_cells_that_do_not_fit(database: Database, driver: str) -> None:
    """For each type that a column of the database may have, and each that the application may state."""
    if isinstance(database, Engine | AsyncEngine):
        name = database.dialect.name
    else:
        name = make_url(database).get_backend_name()
    names = {f"c{number}": cell for number, cell in enumerate(CELLS[name].items())}
    declared = ", ".join(f"{column} {kind}" for column, (kind, _) in names.items())
    values = ", ".join(value for _, value in names.values())
    nulls = ", ".join("NULL" for _ in names)
    rows = ", ".join([f"({number}, {values})" for number in range(ROWS)] + [f"({ROWS}, {nulls})"])
    await run(
        database,
        [
            *(["SET sql_mode = ''"] if name == "mysql" else []),
            f"CREATE TABLE disguised (id INTEGER PRIMARY KEY, {declared})",
            f"INSERT INTO disguised VALUES {rows}",
        ],
    )
    table = Table(
        "disguised", MetaData(), Column("id", Integer, primary_key=True), *(Column(n, String) for n in names)
    )
    wrong: dict[str, Any] = {}
    async with (
        create_server(database, base_url=BASE_URL, tables=table.metadata) as server,
        asked(server) as http,
    ):
        for stated, column in product((*STATED, None), names):
            value = table.c[column] if stated is None else type_coerce(table.c[column], stated)
            shown = await every_way(server, http, select(table.c.id, value.label("value")))
            described = shown.pop("columns")
            cells = {
                way: [(row["value"], "$unfit" in row) for row in rows]
                for way, rows in shown.items()
                if way != "csv"
            }
            texts = [row["value"] for row in shown["csv"]]
            first, is_unfit = cells["page"][0]
            is_same = all(one == cells["page"] for one in cells.values())
            of_cells = ["" if one is None else _text(one) for one, _ in cells["page"]]
            if driver == "asyncpg" and described[1]["encoding"] in ("time", "datetime") and not is_unfit:
                # COPY writes no zeros at the end of a fraction of a second, and nothing else in another way.
                of_cells = [re.sub(r"(\.\d+?)0+(?=[+-]|$)", r"\1", one) for one in of_cells]
            is_same = is_same and texts == of_cells
            if not is_same or not (is_unfit or fits(described[1], first)):
                wrong[f"{names[column]} as {stated}"] = {
                    **{way: one[0] for way, one in cells.items()},
                    "csv": texts[0],
                }
    assert wrong == {}, "\n".join(f"{pair}: {ways}" for pair, ways in wrong.items())


def fits(column: Any, value: Any) -> bool:
    """Whether a reader takes the value for one of the column's type."""
    classes = CLASSES.get(column["encoding"], (str,))
    if not isinstance(value, classes) or (
        type(value) is bool and bool not in classes and object not in classes
    ):
        return False
    decode_rows([{column["name"]: value}], [column])
    return True


async def every_way(server: DualResponseServer, http: Any, statement: Any) -> dict[str, Any]:
    """The rows of a sample, a page and of streams, and how their columns are described."""
    response = await server.create_response(statement, name="x", sample_size=ROWS + 1)
    path = f"/resources/{response.resource_id}"
    page = (await answered(http, path, {"limit": ROWS + 1})).json()
    lines, array, text = [
        (await answered(http, f"{path}/rows", {"format": name})).content for name in ("ndjson", "json", "csv")
    ]
    return {
        "columns": page["columns"],
        "sample": response.sample,
        "page": page["data"],
        "ndjson": [orjson.loads(line) for line in lines.splitlines()[:-1]],
        "json": orjson.loads(array),
        "csv": list(csv.DictReader(io.StringIO(text.decode(), newline=""))),
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"], indirect=True)
async def test_a_range_of_a_driver_under_another_type_is_refused_by_the_name_of_its_column(
    database: Database, driver: str
) -> None:
    """Its first rows are NULL: the sample has none, and a page, a stream and another result meet it."""
    await run(
        database,
        [
            "CREATE TABLE spans (id INTEGER PRIMARY KEY, span INT4RANGE)",
            "INSERT INTO spans SELECT i, CASE WHEN i > 400 THEN int4range(1, i) END FROM generate_series(1, 410) AS i",
        ],
    )
    table = Table("spans", MetaData(), Column("id", Integer, primary_key=True), Column("span", String))
    async with (
        create_server(database, base_url=BASE_URL, tables=table.metadata) as server,
        asked(server) as http,
    ):
        for stated in (Integer(), String(), Float(), DateTime()):
            value = type_coerce(table.c.span, stated).label("value")
            statement = select(table.c.id, value)
            response = await server.create_response(
                statement.order_by(table.c.id), name="spans", sample_size=5
            )
            address = f"/resources/{response.resource_id}"
            page = (await http.get(address, params={"offset": 400, "limit": 5})).json()
            *_, last = (await http.get(f"{address}/rows?format=ndjson")).text.splitlines()
            for problem in (page, json.loads(last)["$problem"]):
                assert problem["code"] == "VALUE_NOT_REPRESENTABLE"
                assert problem["message"].startswith(
                    "The column 'value' holds a value of the class Range, which"
                )
                assert problem["details"]["column"] == "value"
            with pytest.raises(
                ValueNotRepresentableError, match=f"'value', announced as {type(stated).__name__},"
            ):
                await server.create_response(statement.where(table.c.id > 400), name="spans")
