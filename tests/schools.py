"""A small school database that holds what makes paging hard: ties, NULLs, equal rows, every type.

`fill` puts it on any engine; its rows are the same on each.
"""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Integer,
    Numeric,
    String,
    Table,
    insert,
)
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from tests.engines import fill_once


class Control(enum.Enum):
    """Who runs a school; the database holds the names, not the values."""

    public = 1
    private = 2


class Base(DeclarativeBase):
    """All of it."""


class School(Base):
    __tablename__ = "schools"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(60))
    state: Mapped[str | None] = mapped_column(String(2))
    enrollment: Mapped[int | None]
    endowment: Mapped[int] = mapped_column(BigInteger)
    tuition: Mapped[Decimal] = mapped_column(Numeric(12, 2))
    rating: Mapped[float | None]
    is_open: Mapped[bool]
    founded: Mapped[dt.date]
    updated: Mapped[dt.datetime] = mapped_column(DateTime(timezone=True))
    bell: Mapped[dt.time]
    term: Mapped[dt.timedelta]
    code: Mapped[UUID]
    crest: Mapped[bytes]
    control: Mapped[Control]
    extra: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    programs: Mapped[list[Program]] = relationship(back_populates="school")


class Program(Base):
    __tablename__ = "programs"

    school_id: Mapped[int] = mapped_column(ForeignKey("schools.id"), primary_key=True)
    field: Mapped[str] = mapped_column(String(20), primary_key=True)
    level: Mapped[int] = mapped_column(primary_key=True)
    earnings: Mapped[int | None]
    school: Mapped[School] = relationship(back_populates="programs")


# No key at all, and rows that are equal.
visits = Table(
    "visits",
    Base.metadata,
    Column("school_id", Integer),
    Column("day", String(10)),
    Column("note", String(20)),
    Column("extra", JSON),
)

STATES = ("NJ", "NY", None, "PA", "nj")
FIELDS = ("Art", "Biology", "Chemistry")


def school(number: int) -> dict[str, Any]:
    """Row `number`: states, enrollments and ratings repeat, some are NULL, endowments need 64 bits."""
    return {
        "id": number,
        "name": f"School {number % 7}",
        "state": STATES[number % 5],
        "enrollment": None if number % 4 == 0 else 100 * (number % 3),
        "endowment": 2**53 + number,
        "tuition": Decimal(number) + Decimal("0.10"),
        "rating": None if number % 6 == 0 else number / 3,
        "is_open": number % 2 == 0,
        "founded": dt.date(1800 + number, 1, 31),
        "updated": dt.datetime(2026, 1, 1, 12, 0, number % 60, 250_000, tzinfo=dt.UTC),
        "bell": dt.time(8, number % 60),
        "term": dt.timedelta(days=number, seconds=1.5),
        "code": UUID(int=number),
        "crest": bytes([number % 256, 255]),
        "control": Control.public if number % 2 else Control.private,
        "extra": None if number % 5 == 0 else {"rank": number % 3, "tags": ["a", None]},
    }


SCHOOLS = [school(number) for number in range(1, 24)]
PROGRAMS = [
    {"school_id": number, "field": field, "level": level, "earnings": (number * level * 1000) % 7 or None}
    for number in range(1, 20)
    for level, field in enumerate(FIELDS[: number % 4], start=1)
]
VISITS = [
    {
        "school_id": number % 3,
        "day": f"2026-01-0{number % 2 + 1}",
        "note": ("a", "A", None)[number % 3],
        "extra": {"n": 1},
    }
    for number in range(18)
]


async def fill(engine: AsyncEngine) -> None:
    """Create the tables and put the rows into them."""
    await fill_once(engine, create)


def create(connection: Connection) -> None:
    """The same on a connection."""
    Base.metadata.create_all(connection)
    connection.execute(insert(School), SCHOOLS)
    connection.execute(insert(Program), PROGRAMS)
    connection.execute(insert(visits), VISITS)
