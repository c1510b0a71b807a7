"""A row that was changed behind the store's back is refused whole, never handed out in part."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from dualsql.errors import StorageError
from dualsql.store import SQLResourceStore
from tests import engines
from tests.store.samples import resource

BROKEN: list[tuple[str, str]] = [
    ("columns", ""),
    ("columns", "null"),
    ("columns", "{}"),
    ("columns", '["unitid"]'),
    ("columns", '[{"name": "unitid"}]'),
    ("columns", '[{"name": 1, "type": "number", "encoding": "integer"}]'),
    ("columns", '[{"name": "a", "type": "object", "encoding": "integer"}]'),
    ("columns", '[{"name": "a", "type": ["number"], "encoding": "integer"}]'),
    ("columns", '[{"name": "a", "type": "number", "encoding": "pickle"}]'),
    ("columns", '[{"name": "a", "type": "number", "encoding": "array", "items": "pickle"}]'),
    ("metadata", "{"),
    ("metadata", "[]"),
    ("metadata", "null"),
    ("metadata", '{"a": NaN}'),
    ("metadata", "[" * 100_000),
    ("sample", "{}"),
    ("sample", "[1]"),
]


@pytest.mark.parametrize(("column", "value"), BROKEN)
async def test_broken_json_is_an_error(
    sql_store: SQLResourceStore, store_url: str, column: str, value: str
) -> None:
    await _tamper(sql_store, store_url, column, value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("created_at", "yesterday"),
        ("expires_at", "2026-13-45 99:00:00"),
        ("last_accessed_at", 7),
        ("document", "text"),
        ("signature", 7),
        ("lifetime_seconds", "long"),
        ("lifetime_seconds", 1e300),
        ("access_count", "many"),
        ("total_count", "many"),
        ("name", b"\xff\x00"),
        ("metadata", b"\xff"),
    ],
)
async def test_sqlite_keeps_any_type_anywhere(sqlite_store_url: str, column: str, value: Any) -> None:
    store = SQLResourceStore(sqlite_store_url)
    await _tamper(store, sqlite_store_url, column, value)
    await store.close()


@pytest.mark.parametrize("lifetime", [1e300, float("inf"), float("-inf")])
async def test_a_lifetime_beyond_measure(
    sql_store: SQLResourceStore, store_url: str, lifetime: float
) -> None:
    await _tamper(sql_store, store_url, "lifetime_seconds", lifetime)


async def _tamper(store: SQLResourceStore, url: str, column: str, value: Any) -> None:
    """Change one column of one of two resources; that one is refused, the other is not."""
    victim, other = resource(), resource()
    await store.save(victim)
    await store.save(other)
    async with engines.opened(url) as engine, engine.begin() as connection:
        await connection.execute(
            text(f"UPDATE dualsql_resources SET {column} = :value WHERE id = :id"),
            {"value": value, "id": victim.id},
        )
    with pytest.raises(StorageError) as caught:
        await store.get(victim.id)
    assert str(value)[:20] not in str(caught.value) or not value
    assert await store.get(other.id) == other
