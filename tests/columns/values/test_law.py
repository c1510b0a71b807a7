"""A value is never changed to fit a type: each door gives what the driver returns."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Select, create_engine, make_url, select, text
from sqlalchemy.exc import SQLAlchemyError

from dualsql.errors import DualResponseError
from dualsql.freeze import Registry
from dualsql.sql import read_select
from tests.columns.kinds.results import BASE, Served, served, values_of
from tests.columns.values.expressions import ROWS, cells, selects, texts

FORMATS = ("ndjson", "json", "csv", "xlsx", "arrow", "parquet")
CUT = ("sql", 1e17)
"""What MariaDB itself makes of round(2.5e299, 2) in a subquery, whose column has 17 digits before the point."""
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}


class Database(NamedTuple):
    """A database with the cells: what dualsql opens, and an engine whose driver is asked itself."""

    name: str
    url: str
    engine: Any

    def direct(self, sql: str, values: Any = ()) -> Sequence[Sequence[Any]] | None:
        """The driver's own values; None if the database refuses the statement."""
        sql = sql if values else sql.replace("%", self._percent)
        with suppress(SQLAlchemyError), self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(sql, values)]
        return None

    def selected(self, statement: Select[Any]) -> Sequence[Sequence[Any]] | None:
        """The same for a Select, which is sent as SQLAlchemy sends it."""
        compiled: Any = statement.compile(self.engine, compile_kwargs={"render_postcompile": True})
        bound = compiled.construct_params()
        if compiled.positional:
            bound = tuple(bound[name] for name in compiled.positiontup)
        return self.direct(str(compiled), bound)

    @property
    def _percent(self) -> str:
        return "%" if self.name in ("sqlite", "duckdb") else "%%"


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "duckdb"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    name = request.param
    url = (
        f"duckdb:///{tmp_path / 'cells.duckdb'}"
        if name == "duckdb"
        else request.getfixturevalue(f"{name}_url")
    )
    engine = create_engine(url if name == "duckdb" else make_url(url).set(drivername=DRIVERS[name]))
    with engine.begin() as connection:
        cells.metadata.create_all(connection)
        for row in ROWS:
            connection.execute(text(f"INSERT INTO cells VALUES ({row})"))
    yield Database(name, url, engine)
    engine.dispose()


def number(value: Any) -> Any:
    """A value such that the same number is equal, whatever its class: true is 1 to a driver without truth values."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if isinstance(value, bool | int | float | Decimal):
        return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):
        with suppress(ArithmeticError):
            return Decimal({"true": "1", "false": "0"}.get(value, value))
    return value


def sort_key(row: Sequence[Any]) -> str:
    """A question has no order of its own."""
    return repr([number(value) for value in row])


async def asked_again(server: Served, result: Any) -> list[list[Any]] | str:
    """The rows that a SQL text over the result gives, or its problem."""
    path = f"{BASE}/{result.resource_uri.rpartition('/')[2]}/sql"
    answer = (await server.http.post(path, json={"sql": "SELECT * FROM data", "limit": 100})).json()
    if "data" not in answer:
        return f"refused {answer}"
    return [[value for name, value in row.items() if name != "$unfit"] for row in answer["data"]]


async def differences(server: Served, statement: Any, names: Sequence[str], wanted: Any) -> list[str]:
    """Where a door of dualsql gives another value than the driver."""
    try:
        result = await server.result(statement)
    except DualResponseError as error:
        return [f"{names}: {error.code} {error}"]
    page, actual = (await result.fetch(limit=100)).data, []
    doors: dict[str, list[list[Any]]] = {
        "sample": [list(row.values()) for row in result.sample],
        "page": [list(row.values()) for row in page],
        "client": [list(row.values()) for row in await result.fetch_all(typed=True)],
    }
    shown = [column["name"] for column in result.columns]
    for format_name in FORMATS:
        answer = await server.rows(result, format_name)
        if answer.status_code != 200:
            problem = answer.json()
            # The schema is the forecast, which a value of SQLite may contradict.
            if not any(problem["details"]["column"] in row.get("$unfit", ()) for row in page):
                actual.append(f"{names}: {format_name} refused {problem}")
            continue
        columns = [values_of(answer, format_name, name) for name in shown]
        doors[format_name] = (
            columns if isinstance(columns[0], str) else list(map(list, zip(*columns, strict=True)))
        )
    asked = await asked_again(server, result)
    if isinstance(asked, str):
        actual.append(f"{names}: sql {asked}")
    else:
        doors["sql"] = asked
    for door, rows in doors.items():
        pairs = (
            (rows, wanted) if door != "sql" else (sorted(rows, key=sort_key), sorted(wanted, key=sort_key))
        )
        for row, direct in zip(*pairs, strict=True):
            actual += [
                f"{name} [{column['encoding']}]: {door} {value!r}, the driver {other!r}"
                for name, column, value, other in zip(names, result.columns, row, direct, strict=False)
                if number(value) != number(other) and value != other and (door, value) != CUT
            ]
            actual += [
                f"{name} [{column['encoding']}]: {door} {value!r} is a text, the driver's {other!r} a number"
                for name, column, value, other in zip(names, result.columns, row, direct, strict=False)
                if door in ("sample", "page", "ndjson", "json", "sql") and isinstance(value, str)
                and isinstance(other, int | float) and column["encoding"] not in ("decimal", "integer-string")
                and math.isfinite(other) and abs(other) < 2**53
            ]  # fmt: skip
    return actual


async def law_of_texts(database: Database, every: int) -> list[str]:
    found: list[str] = []
    registry = Registry(cells.metadata)
    requests = []
    for rest, expressions in list(texts())[::every]:
        known = [one for one in expressions if database.direct(f"SELECT {one} {rest}") is not None]
        sql = f"SELECT {', '.join(f'{one} AS v{n}' for n, one in enumerate(known))} {rest}"
        requests.append((sql, known, database.direct(sql)))
    database.engine.dispose()
    async with served(database.url, cells.metadata) as server:
        for sql, known, wanted in requests:
            try:
                statement = read_select(sql, registry, database.name)
            except DualResponseError as error:
                found.append(f"{sql}: {error}")
                continue
            found += await differences(server, statement, known, wanted)
    return found


async def law_of_selects(database: Database, every: int) -> list[str]:
    requests = []
    for is_aggregate, named in list(selects())[::every]:
        known: list[tuple[str, Any]] = []
        for name, value in named:
            if database.selected(select(value)) is not None:
                known.append((f"{name} of {value}", value))
        if not known:
            continue
        statement = select(*(value.label(f"v{n}") for n, (_, value) in enumerate(known)))
        statement = statement if is_aggregate else statement.order_by(cells.c.id)
        requests.append((statement, [name for name, _ in known], database.selected(statement)))
    database.engine.dispose()
    found: list[str] = []
    async with served(database.url, cells.metadata) as server:
        for statement, names, wanted in requests:
            found += await differences(server, statement, names, wanted)
    return found


@pytest.mark.quick(1, "sqlite")
async def test_texts(database: Database) -> None:
    assert await law_of_texts(database, 15) == []


@pytest.mark.quick(1, "postgresql")
@pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")
async def test_selects(database: Database) -> None:
    assert await law_of_selects(database, 9) == []


@pytest.mark.long
async def test_all_texts(database: Database) -> None:
    assert await law_of_texts(database, 1) == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Type object:sqlalchemy.exc.SADeprecationWarning")
async def test_all_selects(database: Database) -> None:
    assert await law_of_selects(database, 1) == []
