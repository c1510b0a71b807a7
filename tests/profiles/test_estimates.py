"""What there was no time to count is estimated from rows chosen at random, and each estimate is labelled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from sqlalchemy import func, select, union_all
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer
from dualsql.freeze.document import Statement
from dualsql.profiles import estimates, service
from dualsql.web.words import profile_rows
from dualsql_client.wire import Profile
from tests.profiles.conftest import PATIENT
from tests.profiles.test_profile import assert_right
from tests.profiles.things import COUNT, METADATA, ROWS, things
from tests.servers import create_server

HURRY = 5.0
"""Seconds that are left after the summary: less than the tenth of the budget that is kept for estimates."""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the time for counting run out as soon as the summary of the next profile is there."""

    def start() -> None:
        looks = count()
        end = PATIENT.total_seconds() - HURRY
        # The first looks: when it begins, when the summary begins and has begun, what it took and leaves.
        monkeypatch.setattr(service, "_now", lambda: 0.0 if next(looks) < 5 else end)

    return start


async def estimated(
    dual: DualResponseServer,
    statement: Statement,
    hurry: Callable[[], None],
    columns: list[str] | None = None,
) -> Profile:
    response = await dual.create_response(statement, name="things")
    hurry()
    return await dual.profiles.profile(response.resource_id, None, kind="full", columns=columns)


@pytest.mark.quick(1, "postgresql")
async def test_an_estimate_from_every_row_is_the_figure(
    dual: DualResponseServer, hurried: Callable[[], None]
) -> None:
    profile = await estimated(dual, select(things), hurried)
    assert not profile["complete"], "whoever trusts `complete` alone is not misled"
    assert profile["covers"] == {"rows": COUNT, "of": "all"}
    for column in profile["columns"]:
        if column["name"] in ("extra", "blob"):
            assert "estimated" not in column
            continue
        names = {"distinct", "most_frequent", "histogram"} & column.keys()
        assert column["estimated"]["rows"] == COUNT
        assert set(column["estimated"]["statistics"]) >= names - {"distinct"}
        assert_right(column, ROWS)
    shown = {row[0]: row for row in profile_rows(profile)}
    assert shown["tenant"][2] == "about 2"
    assert shown["tenant"][5] == "acme (about 400), zeta (about 200)"
    assert "about" not in shown["extra"][2]


STATEMENTS: dict[str, tuple[Statement, int]] = {
    "a table": (select(things), COUNT),
    "a union": (
        union_all(select(things.c.id, things.c.small), select(things.c.id, things.c.small)),
        2 * COUNT,
    ),
    "groups": (select(things.c.id, func.min(things.c.small).label("small")).group_by(things.c.id), COUNT),
    "the author's limit": (select(things.c.id, things.c.small).order_by(things.c.id).limit(500), 500),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", STATEMENTS)
async def test_each_row_is_chosen_on_its_own(
    dual: DualResponseServer, hurried: Callable[[], None], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    statement, rows = STATEMENTS[name]
    monkeypatch.setattr(estimates, "MOST_ROWS", 200)
    profile = await estimated(dual, statement, hurried, ["id", "small"])
    key, small = profile["columns"]
    # Seven times the standard deviation of a choice of one in three.
    assert 100 < key["estimated"]["rows"] == small["estimated"]["rows"] < 300
    assert small["estimated"]["statistics"] == ["distinct", "most_frequent", "histogram"]
    assert small["nulls"] + sum(each["count"] for each in small["histogram"]) == pytest.approx(rows, abs=10)
    assert 5 <= small["distinct"] <= 48
    if rows == COUNT:
        assert (key["distinct"], key["distinct_kind"]) == (rows, "approximate")
    assert profile["covers"] == {"rows": rows, "of": "all"}


@pytest.mark.quick(1)
async def test_rows_too_wide_for_one_answer_are_chosen_more_rarely(
    engine: AsyncEngine, hurried: Callable[[], None]
) -> None:
    async with create_server(
        engine,
        base_url="http://127.0.0.1:8000/resources",
        tables=METADATA,
        profile_budget=PATIENT,
        maximum_page_bytes=40_000,
    ) as dual:
        profile = await estimated(dual, select(things), hurried)
    assert all(
        "estimated" in column for column in profile["columns"] if column["name"] not in ("extra", "blob")
    )
    assert 0 < profile["columns"][0]["estimated"]["rows"] < COUNT / 2
