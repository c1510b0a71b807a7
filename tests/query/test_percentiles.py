"""Percentiles of groups are PostgreSQL's percentile_cont to the last digit, on each database, live and kept."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BigInteger, Column, Date, Double, Integer, MetaData, String, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, LocalResultStorage
from tests.servers import create_server

pytestmark = pytest.mark.quick(2, "sqlite")

METADATA = MetaData()
MARKS = Table(
    "marks",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("word", String(10)),
    Column("day", Date),
    Column("ratio", Double),
    Column("big", BigInteger),
)


def _rows() -> list[dict[str, Any]]:
    chance = random.Random(7)
    words = [None, "a", "A", "a ", "ä", "b"]
    made = [
        {
            "id": n,
            "word": words[chance.randrange(len(words))],
            "day": date(2024, chance.randrange(1, 4), 5),
            "ratio": None if chance.random() < 0.2 else chance.uniform(-1e3, 1e3),
            "big": None if chance.random() < 0.2 else chance.randrange(-(2**62), 2**62),
        }
        for n in range(1, 401)
    ]
    return [*made, {"id": 999, "word": "none", "day": date(2024, 9, 1), "ratio": None, "big": None}]


ROWS = _rows()


def percentile(values: list[float], fraction: float) -> float | None:
    """As PostgreSQL's percentile_cont_final() computes it."""
    if not values:
        return None
    place = fraction * (len(values) - 1)
    lower, upper = sorted(values)[math.floor(place)], sorted(values)[math.ceil(place)]
    return lower if lower == upper else lower + (place - math.floor(place)) * (upper - lower)


@pytest.fixture
async def dual(
    source_url: str, make_engine: Callable[[str], AsyncEngine], tmp_path: Path
) -> AsyncIterator[DualResponseServer]:
    async with make_engine(source_url).begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(MARKS), ROWS)
    storage = LocalResultStorage(tmp_path / "kept")
    async with create_server(
        source_url, base_url="http://127.0.0.1/resources", tables=METADATA, storage=storage
    ) as server:
        yield server


_GROUPS: dict[str, tuple[list[Any], Callable[[dict[str, Any]], Any]]] = {
    "none": ([], lambda row: ()),
    "a text": (["word"], lambda row: (row["word"],)),
    "a month": (
        [{"column": "day", "bucket": "month", "as": "m"}],
        lambda row: (row["day"].replace(day=1).isoformat(),),
    ),
    "both": (
        ["word", {"column": "day", "bucket": "month", "as": "m"}],
        lambda row: (row["word"], row["day"].replace(day=1).isoformat()),
    ),
}


@pytest.mark.parametrize("is_kept", [False, True], ids=["live", "kept"])
@pytest.mark.parametrize("groups", _GROUPS)
async def test_percentiles_are_those_of_postgresql(
    dual: DualResponseServer, groups: str, is_kept: bool
) -> None:
    keys, key_of = _GROUPS[groups]
    fractions = {"low": 0.0, "third": 1 / 3, "most": 0.9, "high": 1.0}
    question = {
        "filters": [{"column": "id", "op": "ge", "value": 10}],
        "group_by": keys,
        "aggregates": [
            {"function": "median", "column": "ratio", "as": "median"},
            {"function": "median", "column": "big", "as": "big"},
            *(
                {"function": "percentile", "column": "ratio", "fraction": fraction, "as": name}
                for name, fraction in fractions.items()
            ),
            "count",
        ],
    }
    parent = await dual.create_response(select(MARKS), name="marks", keep=is_kept)
    answer = await dual.create_response(
        name="marks", parent=parent.resource_uri, refinement=question, sample_size=100
    )
    wanted: dict[Any, list[dict[str, Any]]] = {}
    for row in ROWS[9:]:
        wanted.setdefault(key_of(row), []).append(row)
    names = [key if isinstance(key, str) else key["as"] for key in keys]
    actual = {tuple(row[name] for name in names): row for row in answer.sample}
    assert set(actual) == set(wanted)
    for key, rows in wanted.items():
        ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
        bigs = [float(row["big"]) for row in rows if row["big"] is not None]
        assert {name: actual[key][name] for name in ("median", "big", "count", *fractions)} == {
            "median": percentile(ratios, 0.5),
            "big": percentile(bigs, 0.5),
            "count": len(rows),
            **{name: percentile(ratios, fraction) for name, fraction in fractions.items()},
        }
