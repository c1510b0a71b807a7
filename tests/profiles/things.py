"""Rows of every kind that a profile looks at. They are the same on each engine, and at each run."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Enum,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    Time,
    Uuid,
    insert,
)
from sqlalchemy.ext.asyncio import AsyncEngine

METADATA = MetaData()
things = Table(
    "things",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(10), nullable=False),
    Column("small", Integer),
    Column("big", BigInteger, nullable=False),
    Column("ratio", Double),
    Column("price", Numeric(10, 2)),
    Column("born", Date),
    Column("seen", DateTime, nullable=False),
    Column("bell", Time),
    Column("word", String(200)),
    Column("is_open", Boolean),
    Column("code", Uuid),
    Column("kind", Enum("red", "green", name="thing_kind")),
    Column("constant", Integer, nullable=False),
    Column("absent", Integer),
    Column("note", Text),
    Column("extra", JSON),
    Column("blob", LargeBinary),
)

COUNT = 600
FIRST_SEEN = dt.datetime.fromisoformat("2026-01-01")
WORDS = ("alpha", "Alpha", "beta", "gämma", "delta|pipe", "line\nbreak", "z" * 150)


def _thing(number: int, dice: random.Random) -> dict[str, Any]:
    def rarely_null(value: Any) -> Any:
        return None if dice.random() < 0.15 else value

    return {
        "id": number,
        "tenant": "acme" if number % 3 else "zeta",
        "small": rarely_null(dice.randint(-7, 40)),
        "big": 2**53 + dice.randint(-(10**15), 10**15),
        "ratio": rarely_null(round(dice.gauss(0, 1000), 3)),
        "price": rarely_null(Decimal(dice.randint(-5_000, 500_000)) / 100),
        "born": rarely_null(dt.date(1950, 1, 1) + dt.timedelta(days=dice.randint(0, 20_000))),
        "seen": FIRST_SEEN + dt.timedelta(seconds=dice.randint(0, 10_000_000)),
        "bell": rarely_null(dt.time(dice.randint(0, 23), dice.choice((0, 30)))),
        "word": rarely_null(dice.choice(WORDS)),
        "is_open": rarely_null(dice.random() < 0.7),
        "code": rarely_null(UUID(int=dice.randint(1, 20))),
        "kind": rarely_null(dice.choice(("red", "green"))),
        "constant": 7,
        "absent": None,
        "note": None if number % 10 else f"note {number % 50}",
        "extra": rarely_null({"n": number}),
        "blob": rarely_null(bytes([number % 256])),
    }


def _things() -> list[dict[str, Any]]:
    dice = random.Random(20261121)  # the same rows at every run
    return [_thing(number, dice) for number in range(1, COUNT + 1)]


ROWS = _things()


async def fill(engine: AsyncEngine) -> None:
    """Create the table and put the rows into it."""
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(things), ROWS)
