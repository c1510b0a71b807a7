"""A table of every type and of hard values, and streams of it by a stream backend of choice."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import (
    ARRAY,
    JSON,
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
    SmallInteger,
    String,
    Table,
    Text,
    Time,
    TypeDecorator,
    Uuid,
    insert,
)
from sqlalchemy.dialects.postgresql import INET, INT4RANGE, JSONB, REAL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from dualsql.databases import streams
from dualsql.databases.streams import StreamBackend, StreamJob, by_sqlalchemy, chosen_stream_backend

metadata = MetaData()


class Colour(enum.Enum):
    red = "r"
    green = "g"


class Shouted(TypeDecorator[str]):
    """A type that only Python can read."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else value.upper()


def portable() -> list[Column[Any]]:
    """Columns for any engine."""
    return [
        Column("id", Integer, primary_key=True),
        Column("small", SmallInteger),
        Column("big", BigInteger),
        Column("text", Text),
        Column("name", String(40)),
        Column("price", Numeric(12, 2)),
        Column("exact", Numeric),
        Column("number", Float),
        Column("flag", Boolean),
        Column("day", Date),
        Column("moment", DateTime),
        Column("instant", DateTime(timezone=True)),
        Column("clock", Time),
        Column("span", Interval),
        Column("code", Uuid),
        Column("bytes", LargeBinary),
        Column("json", JSON),
        Column("colour", Enum(Colour)),
        Column("word", Enum("one", "two", name="word")),
        Column("shouted", Shouted),
    ]


everything = Table("everything", metadata, *portable())

POSTGRESQL = MetaData()

on_postgresql = Table(
    "everything",
    POSTGRESQL,
    *portable(),
    Column("real", REAL),
    Column("jsonb", JSONB),
    Column("integers", ARRAY(Integer)),
    Column("texts", ARRAY(Text)),
    Column("flags", ARRAY(Boolean)),
    Column("days", ARRAY(Date)),
    Column("prices", ARRAY(Numeric)),
    Column("matrix", ARRAY(Integer, dimensions=2)),
    Column("address", INET),
    Column("numbers", INT4RANGE),
    Column("tea_time", Time(timezone=True)),
    Column("untyped", String),
)

NASTY = [
    "",
    "null",
    'a"b',
    "a,b",
    "a\nb\r\n",
    "],[",
    "{x}",
    "=1+1",
    "\\N",
    "\\.",
    "ä🎈",
    " x ",
    "NaN",
    "'",
    "\x01",
]


def _row(number: int) -> dict[str, Any]:
    nasty = NASTY[number % len(NASTY)]
    return {
        "id": number,
        "small": -number,
        "big": 2**62 + number,
        "text": nasty * 2,
        "name": nasty,
        "price": Decimal(number) / 4,
        "exact": Decimal("123456789.123456789") / (number or 1),
        "number": (0.1, 1e300, -0.0, 1e-7, 123456789.125)[number % 5],
        "flag": number % 2 == 0,
        "day": dt.date(1999, 12, 1 + number % 31),
        "moment": dt.datetime(1999, 12, 31, 23, 59, number % 60, (0, 500_000, 123_456)[number % 3]),  # noqa: DTZ001
        "instant": dt.datetime(2026, 7, 1, 12, 0, number % 60, 250_000, tzinfo=dt.UTC),
        "clock": dt.time(8, number % 60, 0, (0, 120_000)[number % 2]),
        "span": dt.timedelta(days=number * 40 - 1000, seconds=61, microseconds=10**6 // 2 ** (number % 7)),
        "code": UUID(int=number),
        "bytes": bytes([number % 256, 255]) * (number * 7 % 90),
        "json": [{"a": [1, None, "x"]}, [1.5, "é"], "text", 7, False][number % 5],
        "colour": list(Colour)[number % 2],
        "word": ("one", "two")[number % 2],
        "shouted": nasty,
    }


def _more(number: int) -> dict[str, Any]:
    return {
        "real": (0.1, 1.5)[number % 2],
        "jsonb": ({"k": [number, nasty_text(number)]}, 7, JSON.NULL)[number // 3 % 3],
        "integers": [number, None, -number],
        "texts": [nasty_text(number), None, ""],
        "flags": [True, None],
        "days": [dt.date(2020, 1, 1)],
        "prices": [Decimal("1.50"), None],
        "matrix": [[1, 2], [3, number]],
        "address": f"10.0.0.{number % 200}",
        "untyped": "x",
        "tea_time": dt.time(17, 0, tzinfo=dt.UTC),
    }


def nasty_text(number: int) -> str:
    return NASTY[number % len(NASTY)]


def rows(count: int, *, is_postgresql: bool) -> list[dict[str, Any]]:
    """Every third row is NULL but for its key."""
    made = [_row(n) | (_more(n) if is_postgresql else {}) for n in range(count)]
    return [
        {key: value if key == "id" or row["id"] % 3 else None for key, value in row.items()} for row in made
    ]


async def fill(engine: AsyncEngine, count: int = 60) -> Table:
    """The table, made and filled."""
    is_postgresql = engine.dialect.name == "postgresql"
    table = on_postgresql if is_postgresql else everything
    async with engine.begin() as connection:
        await connection.run_sync(table.metadata.create_all)
        await connection.execute(insert(table), rows(count, is_postgresql=is_postgresql))
    return table


@contextmanager
def backends_taken(*, slow: bool = False) -> Iterator[list[str]]:
    """Names of the backends that streams take in the block; the one of SQLAlchemy for all of them if `slow`."""
    taken: list[str] = []

    async def choose(job: StreamJob, connection: AsyncConnection) -> StreamBackend:
        backend = by_sqlalchemy if slow else await chosen_stream_backend(job, connection)
        taken.append(backend.__qualname__.split(".")[0])
        return backend

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "chosen_stream_backend", choose)
        yield taken
