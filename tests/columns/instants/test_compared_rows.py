"""Rows such as `(at, id)` compared with constants: each constant takes the type of the column beside it."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Column, DateTime, Integer, MetaData, Table, Uuid

from dualsql import Registry
from tests.columns.instants.conftest import serving

pytestmark = pytest.mark.quick(50, "sqlite")

metadata = MetaData()
events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", DateTime),
    Column("token", Uuid),
)
KEYS = [UUID(int=number) for number in range(1, 5)]
ROWS = [
    {"id": number, "at": dt.datetime(2024, 1, number), "token": key}  # noqa: DTZ001
    for number, key in enumerate(KEYS, 1)
]


@pytest.mark.quick(1, "sqlite")
async def test_each_constant_takes_the_type_of_its_column(source_url: str, make_engine: Any) -> None:
    engine = make_engine(source_url)
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(events.insert(), ROWS)
    async with serving(engine, Registry(metadata)) as application:
        conditions = [
            ("(at, id) = ('2024-01-02', 2)", [2]),
            ("(at, id) = ('2024-01-02T00:00:00', 2)", [2]),
            ("('2024-01-02', 2) = (at, id)", [2]),
            ("(at, id) > ('2024-01-02', 2)", [3, 4]),
            ("(at, id) IN (('2024-01-02', 2), ('2024-01-03', 2))", [2]),
            ("(at, id) NOT IN (('2024-01-02', 2), ('2024-01-03', 3))", [1, 4]),
            ("(at, id) >= ('2024-01-02', 0) AND (at, id) <= ('2024-01-03', 9)", [2, 3]),
            (f"(token, id) = ('{KEYS[1]}', 2)", [2]),
            (f"(token, id) IN (('{KEYS[0]}', 1), ('{KEYS[2]}', 3))", [1, 3]),
        ]
        # For MariaDB, sqlglot reads VALUES as a function, and MariaDB itself has no BETWEEN of rows.
        if application.dialect != "mysql":
            conditions += [
                ("(at, id) IN (VALUES ('2024-01-02', 2), ('2024-01-04', 4))", [2, 4]),
                (f"(token, id) IN (VALUES ('{KEYS[0]}', 1), ('{KEYS[2]}', 3))", [1, 3]),
                ("(at, id) BETWEEN ('2024-01-02', 0) AND ('2024-01-03', 9)", [2, 3]),
            ]
        for condition, expected in conditions:
            rows = await application.rows(f"SELECT id FROM events WHERE {condition} ORDER BY id")
            assert [row["id"] for row in rows] == expected, condition
