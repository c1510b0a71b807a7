"""A row that another program changed, in any column, costs its owner that row, and nobody else anything."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from dualsql.store import SQLResourceStore
from dualsql.store.tables import resources
from tests import engines
from tests.http.application import Application
from tests.identity.conftest import SECRETS
from tests.identity.people import ANA, AS_ANA, AS_BOB, BOB, people

MARK = "xmarkx"

TEXTS: dict[str, Any] = {
    "a path": f"../../{MARK}?y#z",
    "a long text": f"aaaaaa{MARK}" + "a" * 1_000_000,
    "a text of controls": f"{MARK}\n\x1b[31m\x7f",
    "a number as text": "-1",
    "nothing": "",
    "JSON": f'{{"{MARK}": ["{MARK}"]}}',
    "the end of time": "infinity",
    "a day of no calendar": f"2026-13-45 99:00:00 {MARK}",
}
OF_SQLITE: dict[str, Any] = {
    **TEXTS,
    "bytes": MARK.encode() + b"\xff\x00",
    "bytes of letters": MARK.encode(),
    "invalid UTF-8": text(f"CAST(x'{MARK.encode().hex()}ff' AS TEXT)"),
    "a NUL": text(f"'{MARK}' || char(0) || 'b'"),
    "half a pair": text(f"CAST(x'{MARK.encode().hex()}eda080' AS TEXT)"),
    "a negative number": -1,
    "a large number": 2**63 - 1,
    "a fraction": 1e300,
    "an infinity": float("inf"),
    "a far day": "9999-12-31 23:59:59.999999",
    "an early day": "0001-01-01 00:00:00.000000",
    "a short id": "a",
}
INSTANTS = (
    *("infinity", "-infinity", "294276-12-31 00:00:00+00", "4713-01-01 00:00:00+00 BC"),
    *("9999-12-31 23:59:59+00", "0001-01-01 00:00:00+00"),
)
NUMBERS = (-1, 2**63 - 1, 0)
COLUMNS = [column.name for column in resources.columns]


def of_postgresql(column: str) -> dict[str, Any]:
    """The odd values that PostgreSQL accepts in a column."""
    kind = next(each.type for each in resources.columns if each.name == column)
    name = type(kind).__name__
    if name == "UTCTimestamp":
        return {each: text(f"TIMESTAMPTZ '{each}'") for each in INSTANTS}
    if name == "Seconds":
        return {str(each): each for each in (-1.0, 1e300, float("inf"), float("nan"))}
    if name == "BigInteger":
        return {str(each): each for each in NUMBERS}
    if name == "LargeBinary":
        return {"bytes": MARK.encode(), "no bytes": b""}
    short = getattr(kind, "length", None)
    is_indexed = column in ("owner", "tenant")
    texts = {name: value[:short] if short else value for name, value in TEXTS.items()}
    return {name: value for name, value in texts.items() if not is_indexed or len(value) < 1_000}


async def change(url: str, resource_id: str, column: str, value: Any) -> None:
    is_sql = not isinstance(value, str | bytes | int | float)
    async with engines.opened(url) as engine, engine.begin() as connection:
        await connection.execute(
            text(f"UPDATE dualsql_resources SET {column} = {value if is_sql else ':value'} WHERE id = :id"),
            {"id": resource_id, **({} if is_sql else {"value": value})},
        )


async def listed(application: Application, headers: dict[str, str], limit: int) -> tuple[list[str], int]:
    """The ids of a listing, in pages, and the number of rows that it cannot read."""
    ids: list[str] = []
    unreadable, query = 0, f"?limit={limit}"
    for _ in range(20):
        answer = await application.http.get(f"/resources/{query}", headers=headers)
        assert answer.status_code == 200, answer.text
        listing = answer.json()
        ids += [entry["url"].rpartition("/")[2] for entry in listing["resources"]]
        unreadable += listing.get("unreadable", 0)
        if not listing["next_cursor"]:
            return ids, unreadable
        query = f"?limit={limit}&cursor={listing['next_cursor']}"
    pytest.fail("the pages do not end")


async def require_others(application: Application, url: str, column: str, value: Any) -> None:
    http = application.http
    paths = [await application.create(principal=ANA) for _ in range(4)]
    theirs = await application.create(principal=BOB)
    ids = [path.rpartition("/")[2] for path in paths]
    await change(url, ids[1], column, value)
    requests = [
        *[("GET", each) for each in ("", "?limit=1", "/rows", "?count=exact", "/profile")],
        *[("PUT", "/pin"), ("DELETE", "/pin"), ("POST", "/refine"), ("DELETE", "")],
    ]
    for method, rest in requests:
        body = {"limit": 1} if method == "POST" else None
        answer = await http.request(method, f"{paths[1]}{rest}", headers=AS_ANA, json=body)
        known = answer.status_code < 300 or answer.json()["code"] in {
            "TAMPERED_RESOURCE", "RESOURCE_NOT_FOUND", "RESOURCE_EXPIRED", "RESOURCE_PENDING", "RESOURCE_FAILED",
        }  # fmt: skip
        assert known, (method, rest, answer.text)
        assert MARK not in answer.text or answer.status_code < 300, (method, rest, answer.text)
    for path, headers in ((paths[0], AS_ANA), (theirs, AS_BOB)):
        assert (await http.get(f"{path}?limit=1", headers=headers)).status_code == 200
    others = [ids[3], ids[2], ids[0]]
    for limit in (1, 2, 9):
        actual, _ = await listed(application, AS_ANA, limit)
        assert [each for each in actual if each in others] == others
        assert await listed(application, AS_BOB, limit) == ([theirs.rpartition("/")[2]], 0)
    await application.create(principal=ANA)
    await application.server.maintenance.sweep()
    assert (await http.put(f"{paths[0]}/pin", headers=AS_ANA)).status_code == 200


async def require_sweep(application: Application, url: str, column: str, value: Any) -> None:
    """What has expired beside the odd row is deleted."""
    paths = [await application.create(principal=ANA, expiration=timedelta()) for _ in range(3)]
    ids = [path.rpartition("/")[2] for path in paths]
    await change(url, ids[1], column, value)
    await application.server.maintenance.sweep()
    async with engines.opened(url) as engine, engine.connect() as connection:
        left = await connection.execute(select(resources.c.id).where(resources.c.id.in_([ids[0], ids[2]])))
        assert left.all() == []


async def clear(url: str) -> None:
    async with engines.opened(url) as engine, engine.begin() as connection:
        await connection.execute(text("DELETE FROM dualsql_resources"))


@pytest.mark.long
@pytest.mark.parametrize("column", COLUMNS)
async def test_an_odd_row_costs_nobody_else_anything(
    institutions_url: str, store_url: str, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    values = OF_SQLITE if "sqlite" in store_url else of_postgresql(column)
    caplog.set_level(logging.DEBUG, "dualsql")
    options: dict[str, Any] = {"secrets": SECRETS, "gone_retention": timedelta(0)}
    async with people(institutions_url, store=SQLResourceStore(store_url), **options) as application:
        for name, value in values.items():
            try:
                await require_others(application, store_url, column, value)
                await clear(store_url)
                await require_sweep(application, store_url, column, value)
            except BaseException as failure:
                failure.add_note(f"{column}: {name}")
                raise
            await clear(store_url)
            records = [each for each in caplog.records if each.name.startswith("dualsql")]
            assert MARK not in "\n".join(each.getMessage() for each in records), (column, name)
            caplog.clear()
