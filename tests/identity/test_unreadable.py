"""A row that cannot be read costs its owner that row, and nobody else anything."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from dualsql.query.mcp import _list
from dualsql.store import KeyValueStore, SQLResourceStore
from dualsql.testing.stores import ANA, MOMENT, NOW, minutes, of
from tests import engines
from tests.http.application import Application
from tests.identity.conftest import SECRETS
from tests.identity.people import ANA as CALLER, AS_ANA, AS_BOB, BOB, people

Tamper = Callable[[str, str, Any], Awaitable[None]]
"""Sets one column of the row with an id."""

BROKEN: list[tuple[str, Any]] = [
    ("columns", "{"),
    ("columns", '[{"name": "unitid", "type": "of another release", "encoding": "integer"}]'),
    ("metadata", "null"),
    ("sample", "[1]"),
    ("status", "archived"),
    ("lifetime_seconds", float("inf")),
    ("signature", b"another"),
]


class Values(KeyValueStore):
    """In a dict."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    async def read(self, key: str) -> bytes | None:
        return self.values.get(key)

    async def write(self, key: str, value: bytes, *, instead_of: bytes | None) -> bool:
        if self.values.get(key) != instead_of:
            return False
        self.values[key] = value
        return True

    async def remove(self, key: str, *, instead_of: bytes) -> bool:
        return self.values.get(key) == instead_of and self.values.pop(key) is not None

    async def scan(self, prefix: str) -> AsyncIterator[tuple[str, bytes]]:
        for key, value in [*self.values.items()]:
            if key.startswith(prefix):
                yield key, value

    async def close(self) -> None:
        pass


def tamper_in(url: str) -> Tamper:
    async def tamper(resource_id: str, column: str, value: Any) -> None:
        async with engines.opened(url) as engine, engine.begin() as connection:
            await connection.execute(
                text(f"UPDATE dualsql_resources SET {column} = :value WHERE id = :id"),
                {"value": value, "id": resource_id},
            )

    return tamper


async def require_the_others(application: Application, tamper: Tamper, column: str, value: Any) -> None:
    """Of five results, the second and the third cannot be read: the listing has the others in any size of its pages."""
    paths = [await application.create(principal=CALLER) for _ in range(5)]
    ids = [path.rpartition("/")[2] for path in paths]
    for each in ids[1:3]:
        await tamper(each, column, value)
    await application.create(principal=BOB)
    for limit in (1, 2, 5):
        listed, unreadable, query = [], 0, f"?limit={limit}"
        while query:
            answer = await application.http.get(f"/resources/{query}", headers=AS_ANA)
            assert answer.status_code == 200, answer.text
            listing = answer.json()
            listed += [entry["url"].rpartition("/")[2] for entry in listing["resources"]]
            unreadable += listing.get("unreadable", 0)
            cursor = listing["next_cursor"]
            query = f"?limit={limit}&cursor={cursor}" if cursor else ""
        assert listed == [ids[4], ids[3], ids[0]]
        assert unreadable == 2
    theirs = (await application.http.get("/resources/", headers=AS_BOB)).json()
    assert len(theirs["resources"]) == 1 and "unreadable" not in theirs


@pytest.mark.quick(4)
@pytest.mark.parametrize(("column", "value"), BROKEN)
async def test_a_listing_has_the_rows_that_can_be_read(
    institutions_url: str, store_url: str, column: str, value: Any
) -> None:
    store = SQLResourceStore(store_url)
    async with people(institutions_url, store=store, secrets=SECRETS) as application:
        await require_the_others(application, tamper_in(store_url), column, value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *BROKEN[:5],
        ("signature", {"bytes": "QQ=="}),
        ("created_at", "yesterday"),
        ("created_at", {"instant": "2026-01-01T00:00:00"}),
        ("expires_at", 7),
        ("size", None),
        ("access_count", {"of": "another release"}),
    ],
)
async def test_so_it_has_of_keys_and_values(institutions_url: str, column: str, value: Any) -> None:
    store = Values()

    async def tamper(resource_id: str, column: str, value: Any) -> None:
        key = f"resource/{resource_id}"
        store.values[key] = orjson.dumps(orjson.loads(store.values[key]) | {column: value})

    async with people(institutions_url, store=store, secrets=SECRETS) as application:
        await require_the_others(application, tamper, column, value)


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b'{"id": "x"}', b'{"created_at": {}}'])
async def test_a_value_that_says_nothing_of_its_owner_stops_nothing(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither listings, nor quotas, nor the sweeper."""
    store = Values()
    mine = await store.save(of(ANA, expires_at=minutes(5)))
    over = await store.save(of(ANA, expires_at=NOW - MOMENT))
    store.values["resource/" + "secret" * 4] = value
    page = await store.find(ANA, now=NOW, limit=9)
    assert [each.id for each in page.resources] == [mine] and page.unreadable == []
    assert (await store.usage(ANA, now=NOW)).count == 1
    assert await store.find_expired(before=NOW) == [over]
    assert "resource/secret..." in caplog.text and "secretsecret" not in caplog.text


async def test_everyone_who_lists_is_told(
    institutions_url: str, sqlite_store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The page of listings, the tool, and the operator's log, which has no more of an id than of others."""
    store = SQLResourceStore(sqlite_store_url)
    async with people(institutions_url, store=store, secrets=SECRETS, pages=True) as application:
        ids = [(await application.create(principal=CALLER)).rpartition("/")[2] for _ in range(2)]
        await tamper_in(sqlite_store_url)(ids[0], "columns", "{")
        page = await application.http.get("/resources/", headers={**AS_ANA, "Accept": "text/html"})
        assert page.status_code == 200
        assert re.search(r"1 result\s+cannot be read", page.text) and ids[1] in page.text
        assert (await _list(application.server, CALLER))["notes"] == [
            "Results that cannot be read, and are not listed: 1."
        ]
        listing = await application.server.list_resources(CALLER)
    assert (listing.unreadable, len(listing.resources)) == (1, 1)
    assert ids[0][:6] in caplog.text and ids[0] not in caplog.text


async def test_pages_of_rows_without_a_time_end(sqlite_store_url: str) -> None:
    """They are no place to continue from: however many they are, the others follow."""
    store = SQLResourceStore(sqlite_store_url)
    ids = [await store.save(of(ANA, created_at=NOW - timedelta(minutes=number))) for number in range(6)]
    for each in ids[:3]:
        await tamper_in(sqlite_store_url)(each, "created_at", "yesterday")
    found: list[str] = []
    unreadable: list[str] = []
    page = await store.find(ANA, now=NOW, limit=1)
    while True:
        found += [each.id for each in page.resources]
        unreadable += page.unreadable
        if page.next is None:
            break
        page = await store.find(ANA, now=NOW, limit=1, after=page.next)
    await store.close()
    assert found == ids[3:] and sorted(unreadable) == sorted(ids[:3])
