"""What was not counted at first is counted when somebody asks, and nobody learns of rows that are not theirs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import DualResponseServer, SQLResourceStore
from dualsql.resource import CountMethod, Principal
from dualsql.tenancy import HookContext, Shared, TenantFilter
from dualsql_client import DualResponseClient
from tests.http.application import INSTITUTIONS, Application, by_header, problem_of, running
from tests.identity.people import ANA, AS_ANA, AS_BOB, people
from tests.results.counts.conftest import MANY, METADATA, events
from tests.server.test_safety import SECRET
from tests.servers import create_server

pytestmark = pytest.mark.quick(50, "sqlite")

ACME, ZETA = Principal(id="ann", tenant="acme"), Principal(id="zoe", tenant="zeta")


@pytest.fixture
async def path(application: Application) -> str:
    return await application.create(count="none", sample_size=15)


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    ("asked", "total"),
    [
        ("exact", (60, "exact")),
        ("auto", (60, "exact")),
        ("capped:59", (59, "capped")),
        ("capped:60", (60, "exact")),
    ],
)
async def test_get_counts_and_keeps_what_it_counted(
    application: Application, path: str, asked: str, total: tuple[int, str]
) -> None:
    before = (await application.http.get(path)).json()
    assert (before["total_count"], before["total_count_kind"], before["access_count"]) == (None, "none", 0)
    counted = (await application.http.get(path, params={"count": asked})).json()
    assert (counted["total_count"], counted["total_count_kind"]) == total
    assert counted["access_count"] == 1, "counting reads the rows"
    after = (await application.http.get(path)).json()
    assert (after["total_count"], after["total_count_kind"]) == total
    page = (await application.http.get(path, params={"limit": 2})).json()
    assert (page["total_count"], page["total_count_kind"]) == total


async def test_less_than_exact_never_takes_the_place_of_exact(application: Application, path: str) -> None:
    for asked, answered, kept in (
        ("capped:7", (7, "capped"), (7, "capped")),
        ("exact", (60, "exact"), (60, "exact")),
        ("capped:9", (9, "capped"), (60, "exact")),
        ("none", (60, "exact"), (60, "exact")),
    ):
        counted = (await application.http.get(path, params={"count": asked})).json()
        assert (counted["total_count"], counted["total_count_kind"]) == answered
        body = (await application.http.get(path)).json()
        assert (body["total_count"], body["total_count_kind"]) == kept


async def test_head_counts_nothing(application: Application, path: str) -> None:
    assert (await application.http.head(path, params={"count": "exact"})).status_code == 200
    assert (await application.http.get(path)).json()["total_count"] is None


@pytest.mark.parametrize(
    "query", ["count=", "count=all", "count=capped:0", "count=exact&limit=1", "count=exact&count=none"]
)
async def test_other_words_are_refused(application: Application, path: str, query: str) -> None:
    problem_of(await application.http.get(f"{path}?{query}"), 400)
    problem_of(await application.http.post(path, json={"count": "exact"}), 400)


async def test_every_store_keeps_the_word(store_url: str, institutions: AsyncEngine) -> None:
    stores = [SQLResourceStore(store_url), SQLResourceStore(store_url)]
    async with (
        running(institutions, store=stores[0], secrets=[SECRET]) as here,
        running(institutions, store=stores[1], secrets=[SECRET]) as there,
    ):
        path = await here.create(count="none", sample_size=15)
        for asked, kept in (
            ("capped:5", (5, "capped")),
            ("exact", (60, "exact")),
            ("capped:5", (60, "exact")),
        ):
            await here.http.get(path, params={"count": asked})
            body = (await there.http.get(path)).json()
            assert (body["total_count"], body["total_count_kind"]) == kept


async def test_a_row_of_an_older_release_counted_exactly(
    store_url: str, institutions: AsyncEngine, make_engine: Callable[[str], AsyncEngine]
) -> None:
    async with running(institutions, store=SQLResourceStore(store_url), secrets=[SECRET]) as application:
        path = await application.create(count="exact")
        async with make_engine(store_url).begin() as connection:
            await connection.execute(text("UPDATE dualsql_resources SET total_count_kind = NULL"))
        await application.http.get(path, params={"count": "capped:5"})
        body = (await application.http.get(path)).json()
        assert (body["total_count"], body["total_count_kind"]) == (60, "exact")


async def test_the_client_counts(application: Application, path: str) -> None:
    async with DualResponseClient("http://127.0.0.1:8000/resources", http=application.http) as client:
        response = await application.server.create_response(
            select(INSTITUTIONS), name="x", count="none", sample_size=15
        )
        parsed = client.parse(response.to_mcp_tool_result())
        assert parsed is not None
        assert (parsed.total_count, parsed.total_count_kind) == (None, "none")
        metadata = await parsed.get_metadata(count="exact")
        assert (metadata.total_count, metadata.total_count_kind) == (60, "exact")
        assert (parsed.total_count, parsed.total_count_kind) == (60, "exact")
        assert (await parsed.fetch(limit=1)).total_count_kind == "exact"


# Of whom ---------------------------------------------------------------------------------------------------


async def test_a_count_of_the_owner_s_is_for_the_owner(institutions: AsyncEngine) -> None:
    async with people(str(institutions.url)) as application:
        path = await application.create(principal=ANA, count="none", sample_size=15)
        problem_of(await application.http.get(path, params={"count": "exact"}, headers=AS_BOB), 404)
        assert (await application.http.get(path, headers=AS_ANA)).json()["total_count"] is None
        counted = await application.http.get(path, params={"count": "exact"}, headers=AS_ANA)
        assert counted.json()["total_count"] == 60


async def test_what_each_sees_differently_is_not_kept(institutions: AsyncEngine) -> None:
    """A resource that is nobody's, under a rule: each asker's count is their own."""

    def own_state(statement: Any, context: HookContext) -> Any:
        table = INSTITUTIONS
        who = context.principal
        return statement.where(table.c.state == who.id) if who else statement.where(table.c.id < 50)

    shared = Shared(INSTITUTIONS)
    async with running(institutions, hooks=[shared, own_state], authenticate=by_header) as application:
        path = await application.create(count="none", sample_size=15)
        for state in ("NJ", "NY"):
            headers = {"X-User": state}
            counted = (await application.http.get(path, params={"count": "exact"}, headers=headers)).json()
            assert counted["total_count"] == 20
        assert (await application.http.get(path)).json()["total_count"] is None


@pytest.fixture(scope="module")
async def narrowed(engine: AsyncEngine) -> AsyncIterator[list[DualResponseServer]]:
    """Two servers whose tenants see their own rows; the second tells what the planner thinks of them."""
    options: dict[str, Any] = {
        "base_url": "http://127.0.0.1:8000/resources",
        "tables": METADATA,
        "hooks": [TenantFilter(column="tenant", value=lambda who: who.tenant)],
    }
    async with (
        create_server(engine, **options) as closed,
        create_server(engine, allow_estimates_under_hooks=True, **options) as open_,
    ):
        yield [closed, open_]


async def test_an_estimate_tells_nothing_of_foreign_rows(
    narrowed: list[DualResponseServer], engine: AsyncEngine
) -> None:
    """All rows with the word are another tenant's; the planner's statistics know the word, whosever it is."""
    foreign = select(events).where(events.c.word == "secret")
    for count in ("estimated", "auto", "exact", "capped:3"):
        response = await narrowed[0].create_response(
            foreign, name="x", count=count, principal=ACME, sample_size=0
        )
        assert (response.total_count, response.total_count_kind) == (0, "exact")
    mine = await narrowed[0].create_response(
        select(events), name="x", count="estimated", principal=ZETA, sample_size=3
    )
    assert (mine.total_count, mine.total_count_kind) == (MANY // 5, "exact")


async def test_an_estimate_of_narrowed_rows_is_of_the_narrowed_statement(
    narrowed: list[DualResponseServer], engine: AsyncEngine
) -> None:
    if engine.dialect.name != "postgresql":  # the others have no statistics of values
        return
    seen = [
        await narrowed[1].create_response(
            select(events), name="x", count="estimated", principal=who, sample_size=15
        )
        for who in (ACME, ZETA)
    ]
    foreign = select(events).where(events.c.word == "secret")
    result = await narrowed[1].create_response(
        foreign, name="x", count="exact", principal=ACME, sample_size=0
    )
    assert result.total_count == 0
    view = narrowed[1].parts.views.open(
        narrowed[1].parts.sources["default"], narrowed[1].parts.sources["default"].freeze(foreign), ACME
    )
    expected = await view.total(CountMethod("estimated"))
    assert expected.rows is not None and expected.rows > 1_000, "which is why no other server asks"
    assert [response.total_count_kind for response in seen] == ["estimated", "estimated"]
    assert [round((response.total_count or 0) / MANY, 1) for response in seen] == [0.8, 0.2]
