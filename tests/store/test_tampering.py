"""A row that was changed behind the store's back is refused whole, never handed out in part."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import text

from dualsql.errors import ConfigurationError, StorageError, TamperedError
from dualsql.freeze import Seal
from dualsql.results import access
from dualsql.results.access import require_signature, seal_for, sign
from dualsql.store import MemoryStore, ResourceStore, SQLResourceStore
from dualsql.testing.stores import minutes, resource
from tests import engines

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


@pytest.mark.quick(4)
@pytest.mark.parametrize(("column", "value"), BROKEN)
async def test_broken_json_is_an_error(
    sql_store: SQLResourceStore, store_url: str, column: str, value: str
) -> None:
    await _tamper(sql_store, store_url, column, value)


@pytest.mark.quick(4)
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
        ("total_count_kind", "roughly"),
        ("total_count_kind", "none"),
        ("name", b"\xff\x00"),
        ("metadata", b"\xff"),
    ],
)
async def test_sqlite_keeps_any_type_anywhere(sqlite_store_url: str, column: str, value: Any) -> None:
    store = SQLResourceStore(sqlite_store_url)
    await _tamper(store, sqlite_store_url, column, value)
    await store.close()


@pytest.mark.quick(2)
@pytest.mark.parametrize("lifetime", [1e300, float("inf"), float("-inf")])
async def test_a_lifetime_beyond_measure(
    sql_store: SQLResourceStore, store_url: str, lifetime: float
) -> None:
    await _tamper(sql_store, store_url, "lifetime_seconds", lifetime)


async def _tamper(store: SQLResourceStore, url: str, column: str, value: Any) -> None:
    """Change one column of one of two resources that were read; that one is refused, the other is not."""
    victim, other = resource(), resource()
    for each in (victim, other):
        await store.save(each)
        assert await store.get(each.id) == each
    async with engines.opened(url) as engine, engine.begin() as connection:
        await connection.execute(
            text(f"UPDATE dualsql_resources SET {column} = :value WHERE id = :id"),
            {"value": value, "id": victim.id},
        )
    with pytest.raises(StorageError) as error:
        await store.get(victim.id)
    assert str(value)[:20] not in str(error.value) or not value
    assert await store.get(other.id) == other


@pytest.mark.parametrize(("column", "value"), [*BROKEN, ("total_count", "many"), ("document", "text")])
async def test_a_row_in_memory_is_checked_at_each_read(column: str, value: Any) -> None:
    store, victim, other = MemoryStore(), resource(), resource()
    for each in (victim, other):
        await store.save(each)
        assert await store.get(each.id) == each
    row = store._rows[victim.id]
    stored, row[column] = row[column], value
    for _ in range(2):
        with pytest.raises(TamperedError):
            await store.get(victim.id)
        assert await store.get(other.id) == other
    row[column] = stored
    assert await store.get(victim.id) == victim


@pytest.mark.parametrize("count", [2, 1_000])
async def test_columns_are_checked_however_many_they_are(store: ResourceStore, count: int) -> None:
    columns = [{"name": f"column {i}", "type": "number", "encoding": "integer"} for i in range(count)]
    sound, broken = resource(columns=columns), resource(columns=[*columns[1:], {**columns[0], "type": "any"}])
    for each in (sound, broken):
        await store.save(each)
    for _ in range(2):
        assert await _found(store, sound.id) == sound
        with pytest.raises(TamperedError):
            await store.get(broken.id)


async def test_who_changes_what_was_read_changes_no_other_resource(store: ResourceStore) -> None:
    """Also not one of the same columns, which are parsed once."""
    expected = [resource(metadata={"of": i}, sample=[{"unitid": 1, "tags": []}]) for i in range(2)]
    for each in expected:
        await store.save(each)
    for each in expected:
        found = await _found(store, each.id)
        found.columns[0]["name"] = found.metadata["of"] = found.sample[0]["unitid"] = "changed"
        found.columns.pop()
        found.columns[0].clear()
    for each in expected:
        assert await _found(store, each.id) == each


OLD, NEW = "o" * 32, "n" * 32
SWAPS: dict[str, dict[str, Any]] = {
    "another resource's document": {"document": b"another"},
    "a longer document": {"document": b"\x00\xffdocument "},
    "a cut document": {"document": b"\x00\xffdocumen"},
    "no document": {"document": b""},
    "another owner": {"owner": "eve"},
    "no owner": {"owner": None},
    "another tenant": {"tenant": "two"},
    "no tenant": {"tenant": None},
    "owner and tenant exchanged": {"owner": "one", "tenant": "ana"},
    "another source": {"source": "billing"},
    "another time of making": {"created_at": minutes(1)},
    "no signature": {"signature": b""},
    "a signature of zeros": {"signature": bytes(32)},
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", SWAPS)
async def test_a_changed_row_is_refused_with_one_error(
    store: ResourceStore, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    seal = Seal([NEW])
    genuine = sign(seal, resource(owner="ana", tenant="one"))
    for _ in range(2):  # also after it was read as it was written
        await store.save(genuine)
        require_signature(seal, await _found(store, genuine.id))
        await store.delete(genuine.id)
        await store.save(replace(genuine, **SWAPS[name]))
        await _require_refusal(store, seal, genuine.id, caplog)
        await store.delete(genuine.id)


async def test_the_signature_of_another_row_is_refused(
    store: ResourceStore, caplog: pytest.LogCaptureFixture
) -> None:
    seal = Seal([NEW])
    one, other = (sign(seal, resource(owner="ana", tenant="one")) for _ in range(2))
    await store.save(replace(one, document=other.document, signature=other.signature))
    await _require_refusal(store, seal, one.id, caplog)


async def test_a_secret_that_was_taken_away_signs_nothing(
    store: ResourceStore, caplog: pytest.LogCaptureFixture
) -> None:
    seal, signed = Seal([NEW, OLD]), sign(Seal([OLD]), resource())
    await store.save(signed)
    require_signature(seal, await _found(store, signed.id))
    await _require_refusal(store, Seal([NEW]), signed.id, caplog)
    seal.replace([NEW])
    await _require_refusal(store, seal, signed.id, caplog)


def test_an_instant_of_another_zone_has_the_same_signature() -> None:
    """A store may give it back in the zone of its session, whether this process or another one has signed it."""
    seal, written = Seal([NEW]), resource()
    zone = timezone(timedelta(hours=9))
    for one, other in ((UTC, zone), (zone, UTC)):
        signed = sign(seal, replace(written, created_at=written.created_at.astimezone(one)))
        access._isoformat.cache_clear()
        require_signature(seal, replace(signed, created_at=signed.created_at.astimezone(other)))


async def _found(store: ResourceStore, resource_id: str) -> Any:
    resource = await store.get(resource_id)
    assert resource is not None
    return resource


async def _require_refusal(
    store: ResourceStore, seal: Seal, resource_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    actual = await _found(store, resource_id)
    with pytest.raises(TamperedError) as error:
        require_signature(seal, actual)
    assert (error.value.code, error.value.message) == (
        "TAMPERED_RESOURCE",
        "The signature of the stored resource is not valid.",
    )
    assert resource_id[:6] in caplog.text
    assert resource_id not in caplog.text


def test_a_store_that_outlives_the_process_needs_a_secret(sqlite_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"requires secrets=\[\.\.\.\]"):
        seal_for(SQLResourceStore(sqlite_url), [])
    assert seal_for(MemoryStore(), []).sign("a") != seal_for(MemoryStore(), []).sign("a")
