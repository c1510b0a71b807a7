"""Data frames hold the values of the database, NULLs included, also after they were saved to a file."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    Time,
    Uuid,
    insert,
    select,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql_client import DualResponseClient, ParsedDualResponse
from tests.client.served import serving_results

pytestmark = pytest.mark.quick(50, "sqlite")

METADATA = MetaData()
MEASURES = Table(
    "measures",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("whole", Integer),
    Column("big", BigInteger),
    Column("price", Numeric(20, 4)),
    Column("is_open", Boolean),
    Column("raw", LargeBinary),
    Column("ratio", Double),
    Column("word", Text),
    Column("day", Date),
    Column("hour", Time),
    Column("local", DateTime),
    Column("at", DateTime(timezone=True)),
    Column("key", Uuid),
)
HALF_PAST = dt.timezone(dt.timedelta(hours=5, minutes=30))
FULL: dict[str, Any] = {
    "id": 1,
    "whole": -7,
    "big": 2**53 + 1,
    "price": Decimal("12345678.7891"),
    "is_open": False,
    "raw": b"\x00\xff'\"",
    "ratio": 0.1,
    "word": "é€😀",
    "day": dt.date(1, 1, 2),
    "hour": dt.time(23, 59, 59, 999999),
    "local": dt.datetime(1900, 2, 28, 0, 0, 0, 1),  # noqa: DTZ001 - it has none
    "at": dt.datetime(2026, 3, 29, 2, 30, tzinfo=HALF_PAST),
    "key": UUID("00112233-4455-6677-8899-aabbccddeeff"),
}
LARGEST = FULL | {"id": 3, "big": 2**63 - 1, "price": Decimal("-0.0001"), "is_open": True, "raw": b""}
NOTHING = dict.fromkeys(FULL) | {"id": 2}
ROWS = [FULL, NOTHING, LARGEST]


@pytest.fixture
async def measures(engine: AsyncEngine) -> AsyncIterator[ParsedDualResponse]:
    async with engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(MEASURES), ROWS)
    async with (
        serving_results(engine, METADATA, select(MEASURES).order_by(MEASURES.c.id)) as served,
        DualResponseClient(served.base_url) as client,
    ):
        yield client.parse(served.tool_result, strict=True)


def kept(engine: AsyncEngine) -> list[dict[str, Any]]:
    """The rows as the database has them: SQLite keeps no zones; Arrow has UUIDs as text."""
    has_zones = engine.dialect.name == "postgresql"

    def value(name: str, value: Any) -> Any:
        if name == "at" and value:
            return value.astimezone(dt.UTC) if has_zones else value.replace(tzinfo=None)
        return str(value) if name == "key" and value else value

    return [{name: value(name, each) for name, each in row.items()} for row in ROWS]


TYPES: dict[str, pa.DataType] = {
    "whole": pa.int64(),
    "big": pa.int64(),
    "price": pa.decimal128(20, 4),
    "is_open": pa.bool_(),
    "raw": pa.binary(),
    "ratio": pa.float64(),
    "word": pa.string(),
    "day": pa.date32(),
    "hour": pa.time64("us"),
    "local": pa.timestamp("us"),
}


async def test_pandas(measures: ParsedDualResponse, engine: AsyncEngine, tmp_path: Path) -> None:
    frame = await measures.to_pandas()
    assert {name: frame[name].dtype.pyarrow_dtype for name in TYPES} == TYPES
    assert frame["at"].dtype.pyarrow_dtype.tz == ("UTC" if engine.dialect.name == "postgresql" else None)
    rows = [{name: _python(frame[name].iloc[at]) for name in frame} for at in range(len(frame))]
    assert rows == kept(engine)
    frame.to_parquet(tmp_path / "measures.parquet")
    again = pd.read_parquet(tmp_path / "measures.parquet", dtype_backend="pyarrow")
    pd.testing.assert_frame_equal(again, frame)
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == kept(engine)


async def test_pandas_counts_with_them(measures: ParsedDualResponse) -> None:
    frame = await measures.to_pandas()
    assert frame["big"].iloc[0] + 1 == 2**53 + 2, "as a float it would be 2**53"
    assert frame["price"].sum() == Decimal("12345678.7890")
    assert frame["is_open"].isna().to_list() == [False, True, False]
    assert frame["whole"].dropna().to_list() == [-7, -7]


async def test_polars(measures: ParsedDualResponse, engine: AsyncEngine, tmp_path: Path) -> None:
    frame = await measures.to_polars()
    wanted = pl.from_arrow(pa.schema(list(TYPES.items())).empty_table())
    assert isinstance(wanted, pl.DataFrame)
    assert {name: frame.schema[name] for name in TYPES} == dict(wanted.schema)
    assert frame.to_dicts() == kept(engine)
    frame.write_parquet(tmp_path / "measures.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "measures.parquet"), frame)


async def test_from_one_to_the_other(measures: ParsedDualResponse, engine: AsyncEngine) -> None:
    frame = pl.from_pandas(await measures.to_pandas())
    assert_frame_equal(frame, await measures.to_polars())
    assert frame.to_arrow().to_pylist() == kept(engine)


async def test_a_result_without_rows_has_its_types(measures: ParsedDualResponse) -> None:
    frame = await measures.to_pandas(limit=1, sort={"field": "id", "order": "desc"}, columns=["big", "price"])
    none = frame.iloc[:0]
    assert [str(dtype) for dtype in none.dtypes] == ["int64[pyarrow]", "decimal128(20, 4)[pyarrow]"]
    assert frame["big"].to_list() == [2**63 - 1]


def _python(value: Any) -> Any:
    if value is pd.NA:
        return None
    return value.to_pydatetime() if isinstance(value, pd.Timestamp) else value
