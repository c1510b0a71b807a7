"""A table of every type that can be asked about, of two tenants, a column masked; the same rows on any engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Enum,
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
    insert,
    select,
)
from sqlalchemy.dialects.mysql import DATETIME

from dualsql import Mask, Principal, TenantFilter
from dualsql.tenancy import Hook
from tests.engines import opened
from tests.http.application import Application, running

METADATA = MetaData()
READINGS = Table(
    "readings",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(10), nullable=False),
    Column("text", String(30)),
    Column("word", Enum("one", "two", name="word")),
    Column("small", Integer),
    Column("big", BigInteger),
    Column("price", Numeric(12, 2)),
    Column("ratio", Double),
    Column("flag", Boolean),
    Column("day", Date),
    Column("moment", DateTime().with_variant(DATETIME(fsp=6), "mysql", "mariadb")),
    Column("clock", Time),
    Column("span", Interval),
    Column("code", Uuid),
    Column("blob", LargeBinary),
    Column("secret", String(10)),
)

TEXTS = ("a", "A", "a ", "ä", "100%", "1_0", "10", "", "\\", "*", "äb", "a'b", "Zebra", "zebra", "🎈", "z",
         "Äb", "İi", "Iı", "ß", "ẞ", "ασ", "Ας", "ΑΣ", "e\u0301", "E\u0301", "é")  # fmt: skip
TENANTS = ("north", "south")

HOOKS: tuple[Hook, ...] = (
    TenantFilter(column="tenant", value=lambda principal: principal.tenant),
    Mask(READINGS.c.secret, "null", unless=lambda principal: principal.id == "auditor"),
)


def reading(number: int) -> dict[str, Any]:
    """Row `number`; each column is NULL in some of them, at a rhythm of its own."""
    values = {
        "text": TEXTS[number % len(TEXTS)],
        "word": ("one", "two")[number % 2],
        "small": number % 7 - 3,
        "big": 2**54 + number % 5,
        "price": Decimal(number % 11) / 4,
        "ratio": number % 9 / 8,
        "flag": number % 3 == 0,
        "day": dt.date(1999, 11, 1) + dt.timedelta(days=number * 17),
        "moment": dt.datetime(2023, 12, 30, 22) + dt.timedelta(minutes=number * 47, microseconds=number),  # noqa: DTZ001
        "clock": dt.time(number % 24, number % 60),
        "span": dt.timedelta(hours=number % 30, seconds=1),
        "code": UUID(int=number % 6),
        "blob": bytes([number % 4, 255]),
        "secret": "hidden",
    }
    kept = {
        name: None if (number + place) % (place + 5) == 0 else value
        for place, (name, value) in enumerate(values.items())
    }
    return {"id": number, "tenant": TENANTS[number % 5 == 0], **kept}


ROWS = [reading(number) for number in range(1, 181)]
ALL = select(READINGS).order_by(READINGS.c.id)


def rows_of(tenant: str) -> list[dict[str, Any]]:
    """What a principal of the tenant may see, in order."""
    return [row | {"secret": None} for row in ROWS if row["tenant"] == tenant]


def person(tenant: str, name: str = "ada") -> Principal:
    """Somebody of that tenant."""
    return Principal(id=name, tenant=tenant)


@asynccontextmanager
async def readings_at(url: str, **options: Any) -> AsyncIterator[Application]:
    """A server over the table, filled, on the empty database at `url`."""
    if url.startswith("duckdb"):
        _fill_synchronously(url)
    else:
        async with opened(url) as engine, engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
            await connection.execute(insert(READINGS), ROWS)
    async with running(url, tables=METADATA, hooks=HOOKS, **options) as application:
        yield application


def _fill_synchronously(url: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        METADATA.create_all(connection)
        connection.execute(insert(READINGS), ROWS)
    engine.dispose()
