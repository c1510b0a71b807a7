"""Texts on a database itself, through dualsql, and over a result of dualsql whose rows are kept."""

from __future__ import annotations

import base64
import json
import math
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import httpx
import psycopg
import pymysql  # type: ignore[import-untyped]
import sqlglot
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    make_url,
    select,
)
from sqlglot import exp
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseError, DualResponseServer, LocalResultStorage
from dualsql_client import DualResponseClient, ParseError
from dualsql_client.ndjson import decode_rows
from tests.servers import create_server, fill_tables
from tests.sql.value_texts import ValueText

METADATA = MetaData()
item = Table(
    "item",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("grp", String(10), nullable=False),
    Column("whole", Integer),
    Column("other", Integer),
    Column("big", BigInteger),
    Column("amount", Numeric(12, 2)),
    Column("ratio", Double),
    Column("flag", Boolean),
    Column("word", String(40)),
    Column("note", String(40)),
    Column("day", Date),
    Column("moment", DateTime),
)
tag = Table(
    "tag",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("item_id", Integer),
    Column("label", String(10)),
    Column("weight", Numeric(6, 3)),
)
_D = Decimal
_ITEMS = [
    (1, "a", 7, 2, 2**53 + 1, _D("2.50"), 2.5, True, "Apple", "x", "2024-01-31", "2024-01-31 23:59:59"),
    (2, "a", -7, 2, -(2**53) - 1, _D("-2.50"), -2.5, False, "apple", "", "2024-02-29", "2024-02-29 00:00:00"),
    (3, "a", 7, -2, 1, _D("0.10"), 0.5, None, "éclair", "a b", "1999-12-31", "2024-01-31 12:00:00"),
    (4, "a", 0, 3, 0, _D("0.00"), -0.5, True, "ÉCLAIR", None, None, None),
    (5, "a", None, None, None, None, None, None, None, None, "2024-02-29", None),
    (6, "b", 10, 4, 42, _D("21.99"), 1.5, False, "item 10", "trail  ", "2023-12-31", "1969-07-20 20:17:00"),
    (
        7,
        "b",
        9,
        -4,
        2**62,
        _D("1234567.89"),
        1e-12,
        True,
        "10",
        "  lead",
        "2024-01-31",
        "2024-03-01 00:00:01",
    ),
    (8, "b", 9, 5, None, _D("0.30"), 1e18, None, "9", "é ü", "2000-02-29", "2000-02-29 06:30:00"),
    (9, "b", None, 1, 7, _D("-0.05"), 3.5, False, "O'Neil 50%", "a,b,c", None, "2024-01-01 00:00:00"),
    (10, "b", 1, None, 2, None, -1.5, True, "", " ", "2024-12-31", "2024-12-31 23:00:00"),
    (11, "c", 2, 7, -3, _D("2.50"), 0.1, True, "apple pie", "日本 ß", "1970-01-01", "1970-01-01 00:00:00"),
    (12, "c", -1, 3, 5, _D("12.35"), 0.0, False, "b_c", "a  b", "2024-02-01", "2024-02-01 01:02:03"),
]
_TAGS = [
    (1, 1, "red", _D("1.250")),
    (2, 1, "blue", _D("0.125")),
    (3, 3, "red", None),
    (4, 9, "Green", _D("-2.500")),
    (5, None, "lost", _D("0.001")),
    (6, 12, None, _D("7.000")),
]

BASE_URL = "http://t/resources"
Rows = list[tuple[Any, ...]]


def fill(url: str) -> None:
    """Make and fill the two tables."""
    rows: dict[Table, list[tuple[Any, ...]]] = {item: _ITEMS, tag: _TAGS}
    fill_tables(
        url,
        METADATA,
        {
            table: [
                {column.name: _value(column, cell) for column, cell in zip(table.columns, row, strict=True)}
                for row in cells
            ]
            for table, cells in rows.items()
        },
    )


def _value(column: Column[Any], cell: Any) -> Any:
    if cell is None or not isinstance(column.type, Date | DateTime):
        return cell
    return column.type.python_type.fromisoformat(cell)


#
# The database itself.


def _postgresql(url: Any) -> Any:
    return psycopg.connect(dbname=url.database, user=url.username, host=url.query["host"], autocommit=True)


def _mariadb(url: Any) -> Any:
    return pymysql.connect(unix_socket=url.query["unix_socket"], user=url.username, database=url.database)


DRIVERS = {
    "sqlite": lambda url: sqlite3.connect(url.database),
    "postgresql": _postgresql,
    "mysql": _mariadb,
    "duckdb": lambda url: duckdb.connect(url.database, read_only=True),
}


def own_rows(url: str, texts: Sequence[ValueText]) -> list[Rows | Exception]:
    """What the driver returns for each text."""
    parsed = make_url(url)
    with closing(DRIVERS[parsed.get_backend_name()](parsed)) as connection:
        cursor = connection.cursor()
        return [_own(cursor, text.sql) for text in texts]


def _own(cursor: Any, sql: str) -> Rows | Exception:
    try:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]
    except Exception as error:  # noqa: BLE001 - a text that the database refuses is a mistake of the corpus: it is reported
        return error


#
# Through dualsql.


class Answer(NamedTuple):
    """Rows, the encodings of their columns, and where cells do not fit them."""

    rows: Rows
    encodings: list[str]


class Doors:
    """One server on the database, and the ways to it."""

    def __init__(self, server: DualResponseServer, http: httpx.AsyncClient) -> None:
        self._server = server
        self._http = http
        self._client = DualResponseClient(BASE_URL, http=http)

    async def through(self, sql: str) -> Answer:
        """The rows as an application reads them that got the response of a tool."""
        response = await self._server.create_response(self._server.sql.resolve(sql).select, name="text")
        parsed = self._client.parse(response.to_mcp_tool_result(), strict=True)
        sent = await parsed.fetch_all()
        read = decode_rows([dict(row) for row in sent], response.columns)
        rows = [_cells(row, typed) for row, typed in zip(sent, read, strict=True)]
        return Answer(rows, [column["encoding"] for column in response.columns])

    async def result(self, *, keep: bool) -> str:
        """The id of a result that holds all rows of the table."""
        response = await self._server.create_response(select(item), name="items", keep=keep)
        return response.resource_id

    async def over(self, resource_id: str, sql: str) -> Any:
        """The answer of a text over a result: rows, or a problem."""
        answer = await self._http.post(f"/resources/{resource_id}/sql", json={"sql": sql, "limit": 1_000})
        return answer.json()


def _cells(sent: dict[str, Any], read: dict[str, Any]) -> tuple[Any, ...]:
    """The cells of a row as Python's types have them; a number as it was sent, before it takes its column's type."""
    names = [name for name in sent if name != "$unfit"]
    return tuple(sent[name] if isinstance(sent[name], int | float) else read[name] for name in names)


@asynccontextmanager
async def doors(url: str, folder: Path) -> AsyncIterator[Doors]:
    """A server on the database."""
    kept = folder / "kept"
    kept.mkdir(mode=0o700, exist_ok=True)
    async with create_server(
        url, base_url=BASE_URL, tables=METADATA, storage=LocalResultStorage(kept)
    ) as server:
        app = Starlette(routes=[Mount("/resources", server.router())])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://t", timeout=60) as http:
            yield Doors(server, http)


async def faults(url: str, engine: str, texts: Sequence[ValueText], folder: Path) -> dict[str, str]:
    """What is wrong with the texts whose answer is not that of the database."""
    wrong: dict[str, str] = {}
    own = own_rows(url, texts)
    async with doors(_async_url(url), folder) as served:
        for text, rows in zip(texts, own, strict=True):
            fault = await _fault(served, text, engine, rows)
            if fault is not None:
                wrong[text.sql] = fault
    return wrong


def _async_url(url: str) -> str:
    for sync, driver in (("psycopg", "asyncpg"), ("pymysql", "asyncmy")):
        url = url.replace(f"+{sync}", f"+{driver}")
    return url


async def _fault(served: Doors, text: ValueText, engine: str, own: Rows | Exception) -> str | None:
    words = text.refusals.get(engine)
    try:
        answer = await served.through(text.sql)
    except DualResponseError as error:
        if isinstance(own, Exception) and "has no function" in error.message:
            return None  # a function that this version of the database lacks
        message = f"{error.code}: {error.message} {error.hint} {error.__cause__!r}"[:600]
        return None if words is not None and words in error.message else f"refused: {message}"
    except ParseError as error:
        return f"the client cannot read it: {error}"
    if words is not None:
        return "it is answered, and listed as refused"
    if isinstance(own, Exception):
        return None if _lacks_function(own) else f"the database does not take it: {own}"[:300]
    return difference(text.sql, own, answer)


def _lacks_function(error: Exception) -> bool:
    """Whether this version of the database lacks a function, of which dualsql has an equivalent."""
    return re.search(r"(?i)no such function|function .+ does not exist", str(error)) is not None


async def faults_over_kept_rows(
    url: str, engine: str, texts: Sequence[ValueText], folder: Path
) -> dict[str, str]:
    """What is wrong with the texts that are answered otherwise over kept rows than over the live result."""
    wrong: dict[str, str] = {}
    asked = [text for text in texts if not re.search(r"\btag\b", text.sql) and engine not in text.refusals]
    own = own_rows(url, asked)
    async with doors(_async_url(url), folder) as served:
        ids = [await served.result(keep=keep) for keep in (False, True)]
        for text, rows in zip(asked, own, strict=True):
            sql = re.sub(r"\bitem\b", "data", text.sql)
            live, kept = [await served.over(one, sql) for one in ids]
            fault = _other_answer(text, engine, rows, live, kept)
            if fault is not None:
                wrong[text.sql] = fault
    return wrong


def _other_answer(text: ValueText, engine: str, own: Rows | Exception, live: Any, kept: Any) -> str | None:
    words = text.refusals.get(f"kept {engine}")
    if "data" not in live and live == kept and isinstance(own, Exception):
        return None  # this version of the database lacks a function
    if "data" not in live:
        return f"live: {live.get('code')} {live.get('message')} {live.get('hint')}"
    if "data" not in kept:
        message = f"{kept.get('code')} {kept.get('message')} {kept.get('hint')}"
        return None if words is not None and words in message else f"kept: {message}"
    if words is not None:
        return "it is answered, and listed as refused"
    kinds = [[column["encoding"] for column in answer["columns"]] for answer in (live, kept)]
    if kinds[0] != kinds[1]:
        return f"types {kinds[0]} live and {kinds[1]} kept"
    first, second = ([tuple(row.items()) for row in answer["data"]] for answer in (live, kept))
    if json.dumps(first) != json.dumps(second):
        fault = _unequal(text.sql, first, second, lambda one, other: json.dumps(one) == json.dumps(other))
        if fault is not None:
            return f"live and kept: {fault}"
    is_answered = len(own) == len(live["data"]) if isinstance(own, list) else _lacks_function(own)
    if not is_answered:
        return f"{own} of the database, {len(live['data'])} rows live"[:300]
    return None


#
# Comparison.


def difference(sql: str, own: Rows, answer: Answer) -> str | None:
    """Where the rows are not those of the database; the rows of a LIMIT are compared by the keys of ORDER BY."""
    encodings = answer.encodings

    def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return len(one) == len(other) and all(map(is_same, one, other, encodings))

    return _unequal(sql, own, answer.rows, same)


def _unequal(sql: str, one: Rows, other: Rows, same: Any) -> str | None:
    if len(one) != len(other):
        return f"{len(one)} rows became {len(other)}: {one[:3]} {other[:3]}"
    if all(map(same, one, other)):
        return None
    keys, is_cut = order_of(sql)
    if keys is None:
        left = list(other)
        for row in one:
            match = next((place for place, cells in enumerate(left) if same(row, cells)), None)
            if match is None:
                return f"no row {row} in {left[:6]}"
            del left[match]
        return None
    place = next(place for place, pair in enumerate(zip(one, other, strict=True)) if not same(*pair))
    if (
        is_cut
        and keys
        and all(
            [repr(row[key]) for key in keys] == [repr(cells[key]) for key in keys]
            for row, cells in zip(one, other, strict=True)
        )
    ):
        return None
    return f"row {place}: {one[place]!r} became {other[place]!r}"


def order_of(sql: str) -> tuple[list[int] | None, bool]:
    """The places of the keys of ORDER BY among the columns, None without ORDER BY; and whether LIMIT cuts the rows."""
    tree: Any = sqlglot.parse_one(
        sql, "postgres" if "::" in sql else None, error_level=sqlglot.ErrorLevel.IGNORE
    )
    order = tree.args.get("order")
    if order is None:
        return None, False
    names = [column.alias_or_name for column in tree.selects]
    keys = []
    for ordered in order.expressions:
        key = ordered.this
        if isinstance(key, exp.Literal) and key.is_int:
            keys.append(int(key.this) - 1)
        elif key.alias_or_name in names:
            keys.append(names.index(key.alias_or_name))
    return keys, any(tree.args.get(part) is not None for part in ("limit", "offset"))


_WORDS = {math.inf: "Infinity", -math.inf: "-Infinity"}


def is_same(own: Any, cell: Any, encoding: str) -> bool:
    """Whether a cell is the value that the driver returned, of the same type.

    Types differ where the column's own type says so: SQLite stores decimals as doubles, dates as texts and truth values
    as numbers, and a decimal without a fraction may be sent as a whole number.
    """
    if isinstance(own, float) and not math.isfinite(own):
        return cell == ("NaN" if math.isnan(own) else _WORDS[own]) or repr(cell) == repr(own)
    if isinstance(own, Decimal) and not own.is_finite():
        return str(cell) in (str(own), "NaN" if own.is_nan() else "")
    if type(own) is type(cell):
        if isinstance(own, list | tuple):
            return len(own) == len(cell) and all(is_same(x, y, "") for x, y in zip(own, cell, strict=True))
        return bool(own == cell) and (not isinstance(own, float) or repr(own) == repr(cell))
    return any(own_form(own, encoding, cell))


def own_form(own: Any, encoding: str, cell: Any) -> Iterator[bool]:
    """The ways in which a column's own type shows another Python type than the driver returns."""
    if isinstance(own, Decimal) and type(cell) is int:
        yield own.as_tuple().exponent == 0 and own == cell
    if isinstance(own, int | float) and isinstance(cell, Decimal):
        yield encoding == "decimal" and Decimal(repr(own)) == cell
    if type(own) is int and isinstance(cell, bool):
        yield encoding == "boolean" and own in (0, 1) and bool(own) == cell
    if isinstance(own, str) and isinstance(cell, datetime | date | time):
        kind: Any = type(cell)
        yield cell == kind.fromisoformat(own)
    if isinstance(own, str) and (encoding == "json" or isinstance(cell, dict | list)):
        yield json.loads(own) == cell
    if isinstance(own, timedelta) and isinstance(cell, time | str):
        hours, _, rest = str(own).rpartition(", ")[2].partition(":")
        yield not own.days and f"{hours.zfill(2)}:{rest}" == str(cell)
    if isinstance(own, datetime) and isinstance(cell, datetime | str):
        yield str(own) == str(cell)
    if isinstance(own, bytes) and isinstance(cell, str):
        yield base64.b64encode(own).decode() == cell
    if encoding == "json" or (isinstance(own, dict) and isinstance(cell, dict)):
        yield json.dumps(own, sort_keys=True, default=str) == json.dumps(cell, sort_keys=True, default=str)
