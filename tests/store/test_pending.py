"""Pending resources beyond what every store promises: leases, and rows that were changed or are old."""

from __future__ import annotations

from typing import Any

import pytest

from dualsql.errors import TamperedError
from dualsql.resource import INTERRUPTED
from dualsql.store import SQLResourceStore
from dualsql.testing.stores import MOMENT, minutes, pending, resource


def test_nobody_is_heard_of_any_more() -> None:
    kept = pending()
    assert kept.seen_at(minutes(1) - MOMENT) is kept
    assert (kept.seen_at(minutes(1)).status, kept.seen_at(minutes(1)).failure) == ("failed", INTERRUPTED)
    assert resource().seen_at(minutes(999)).status == "ready"


@pytest.mark.parametrize(
    "written",
    [
        {"status": "about to be"},
        {"failure": '"text"'},
        {"failure": '{"code": 1, "message": "m", "hint": "", "details": {}}'},
        {"failure": "{"},
    ],
    ids=str,
)
async def test_what_was_changed_behind_our_back(sql_store: SQLResourceStore, written: dict[str, Any]) -> None:
    from sqlalchemy import update

    from dualsql.store.tables import resources

    kept = pending()
    await sql_store.save(kept)
    await sql_store._change(update(resources).values(written))
    with pytest.raises(TamperedError):
        await sql_store.get(kept.id)


async def test_rows_of_an_older_release_are_ready(sql_store: SQLResourceStore) -> None:
    from sqlalchemy import update

    from dualsql.store.tables import resources

    kept = resource()
    await sql_store.save(kept)
    await sql_store._change(update(resources).values(status=None))
    assert await sql_store.get(kept.id) == kept
