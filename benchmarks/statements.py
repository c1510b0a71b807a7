"""What the servers of the benchmarks are asked for: `STATEMENTS`, by name."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Interval,
    LargeBinary,
    Numeric,
    SmallInteger,
    String,
    Table,
    Time,
    Uuid,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from benchmarks.flights import ROWS, airports, copies, flights, metadata
from dualsql.freeze.document import AnySelect

EACH = ROWS // 3
"""Rows of the flights as they came: one of three copies."""

every_type = Table(
    "every_type",
    metadata,
    Column("id", BigInteger, primary_key=True),
    Column("small", SmallInteger),
    Column("price", Numeric(12, 2)),
    Column("ratio", Double),
    Column("name", String),
    Column("is_open", Boolean),
    Column("day", Date),
    Column("local", DateTime),
    Column("instant", DateTime(timezone=True)),
    Column("clock", Time),
    Column("length", Interval),
    Column("key", Uuid),
    Column("raw", LargeBinary),
    Column("document", JSONB().with_variant(String, "sqlite")),
    Column("numbers", ARRAY(BigInteger).with_variant(String, "sqlite")),
)
"""On PostgreSQL only."""

GENERATED, MILLIONS = "{} million", (1, 2, 10, 50)


def _generated(million: int) -> AnySelect:
    """So many million rows: a million flights for each of the first so many airports, ordered by both keys."""
    first = select(airports.c.faa).order_by(airports.c.faa).limit(million)
    return (
        select(airports.c.faa, flights.c.id, flights.c.carrier, flights.c.distance, flights.c.time_hour)
        .join_from(airports, flights, true())
        .where(airports.c.faa.in_(first), flights.c.id <= 1_000_000)
        .order_by(airports.c.faa, flights.c.id)
    )


STATEMENTS: Mapping[str, AnySelect] = {
    "flights": select(flights).order_by(flights.c.id),
    "a third": select(flights).where(flights.c.id <= EACH).order_by(flights.c.id),
    "five times": (
        select(flights, copies.c.number)
        .join_from(flights, copies, true())
        .order_by(flights.c.id, copies.c.number)
    ),
    "every type": select(every_type).order_by(every_type.c.id),
    **{GENERATED.format(million): _generated(million) for million in MILLIONS},
}
