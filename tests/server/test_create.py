"""create_response: what it runs, what it returns, what it refuses."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import column, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import (
    BadParameterError,
    ConfigurationError,
    DatabaseUnreachableError,
    DualResponseServer,
    LimitExceededError,
    NotFreezableError,
    PageRequest,
    QueryExecutionError,
    Registry,
    Settings,
)
from tests.schools import SCHOOLS, Base, School
from tests.server.conftest import BASE_URL, MakeServer, statements_of

# What is about databases is in tests/databases and tests/results.
pytestmark = pytest.mark.quick(50, "sqlite")


async def test_a_sample_that_is_everything_costs_one_statement(
    make_server: MakeServer, schools: AsyncEngine
) -> None:
    # However slow the machine is today, the sample is back before the count may start.
    dual = make_server(count_head_start=timedelta(minutes=1))
    await dual.start()
    with statements_of(schools) as statements:
        response = await dual.create_response(select(School).where(School.id <= 15), name="few")
    assert len(statements) == 1
    assert response.total_count == len(response.sample) == 15


async def test_a_larger_result_costs_two(dual: DualResponseServer, schools: AsyncEngine) -> None:
    await dual.start()
    with statements_of(schools) as statements:
        response = await dual.create_response(select(School), name="all", sample_size=15)
    assert len(statements) == 2
    assert response.total_count == len(SCHOOLS)
    assert [row["id"] for row in response.sample] == list(range(1, 16))


async def test_exactly_one_row_more_than_the_sample_is_counted(dual: DualResponseServer) -> None:
    response = await dual.create_response(select(School).where(School.id <= 16), name="16", sample_size=15)
    assert (len(response.sample), response.total_count) == (15, 16)


async def test_without_a_count_the_total_stays_open(dual: DualResponseServer, schools: AsyncEngine) -> None:
    await dual.start()
    with statements_of(schools) as statements:
        response = await dual.create_response(select(School), name="all", count="none", sample_size=15)
    assert len(statements) == 1
    assert response.total_count is None
    assert "more than 15 rows (not counted)" in response.to_text()


SLOW_NUMBERS = select(literal(1).label("n")).cte("slow", recursive=True)
SLOW_NUMBERS = SLOW_NUMBERS.union_all(select(SLOW_NUMBERS.c.n + 1).where(SLOW_NUMBERS.c.n < 300_000))


@pytest.mark.quick(1, "sqlite")
async def test_a_slow_sample_is_counted_beside_it(make_server: MakeServer) -> None:
    server = make_server(count_head_start=timedelta(0))
    response = await server.create_response(select(SLOW_NUMBERS.c.n), name="slow", count="exact")
    assert response.total_count == 300_000
    few = await server.create_response(select(func.max(SLOW_NUMBERS.c.n).label("n")), name="slow, one row")
    assert (few.total_count, few.sample) == (1, [{"n": 300_000}])


async def test_the_object_that_was_passed_in_never_runs(dual: DualResponseServer) -> None:
    statement = select(School.id).where(School.id < 3)
    response = await dual.create_response(statement, name="two")
    resource = await dual.open_resource(response.resource_id, None, "read")
    assert isinstance(resource.document, bytes)
    del statement
    page = await dual.unchecked.read_page(resource, None)
    assert [row["id"] for row in page.rows] == [1, 2]


async def test_text_only_where_it_is_allowed(make_server: MakeServer) -> None:
    statement = text("SELECT id FROM schools").columns(column("id"))
    with pytest.raises(NotFreezableError):
        await make_server().create_response(statement, name="text")
    response = await make_server(allow_text=True).create_response(statement, name="text")
    assert response.total_count == len(SCHOOLS)


async def test_a_table_nobody_registered_is_refused(dual: DualResponseServer) -> None:
    from sqlalchemy import Column, Integer, MetaData, Table

    secret = Table("secrets", MetaData(), Column("id", Integer))
    with pytest.raises(NotFreezableError):
        await dual.create_response(select(secret), name="secrets")


async def test_what_the_database_says_stays_with_the_operator(
    dual: DualResponseServer, schools: AsyncEngine
) -> None:
    async with schools.begin() as connection:
        await connection.execute(text("DROP TABLE visits"))
    from tests.schools import visits

    with pytest.raises(QueryExecutionError) as refused:
        await dual.create_response(select(visits), name="gone")
    assert "visits" not in str(refused.value)
    assert refused.value.__cause__ is not None


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": ""}, BadParameterError),
        ({"name": "x" * 201}, BadParameterError),
        ({"sample_size": -1}, BadParameterError),
        ({"sample_size": 100_000}, BadParameterError),
        ({"source": "elsewhere"}, ConfigurationError),
        ({"metadata": {"x": "y" * 70_000}}, LimitExceededError),
    ],
)
async def test_values_out_of_bounds(
    dual: DualResponseServer, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await dual.create_response(select(School), **{"name": "x", **options})


async def test_a_sample_of_no_rows(dual: DualResponseServer) -> None:
    response = await dual.create_response(select(School), name="none shown", sample_size=0)
    assert (response.sample, response.total_count) == ([], len(SCHOOLS))


async def test_several_sources_by_name(make_server: MakeServer, schools: AsyncEngine) -> None:
    server = make_server(databases={"east": schools, "west": schools})
    response = await server.create_response(select(School.id), name="x", source="west")
    resource = await server.unchecked.get(response.resource_id)
    assert resource is not None and resource.source == "west"
    assert (await server.unchecked.read_page(resource, None, PageRequest(limit=1))).rows == [{"id": 1}]
    with pytest.raises(ConfigurationError):
        await server.create_response(select(School.id), name="which?")


@pytest.mark.quick(1, "sqlite")
async def test_many_at_once(dual: DualResponseServer) -> None:
    responses = await asyncio.gather(
        *(
            dual.create_response(select(School).where(School.id > n), name=str(n), count="exact")
            for n in range(20)
        )
    )
    assert [response.total_count for response in responses] == [len(SCHOOLS) - n for n in range(20)]
    assert len({response.resource_id for response in responses}) == 20


async def test_the_plain_names_of_urls_open_the_async_drivers(
    database_url: str, schools: AsyncEngine
) -> None:
    plain = database_url.replace("+aiosqlite", "").replace("+asyncpg", "")
    from tests.schools import Base

    async with DualResponseServer(plain, base_url=BASE_URL, tables=Base) as server:
        response = await server.create_response(select(School.id), name="x")
        assert response.total_count == len(SCHOOLS)


async def test_a_memory_database_has_one_connection_for_all() -> None:
    from tests.schools import Base, fill

    engine = create_async_engine("sqlite+aiosqlite://")
    await fill(engine)
    async with DualResponseServer(engine, base_url=BASE_URL, tables=Base) as server:
        responses = await asyncio.gather(
            *(server.create_response(select(School), name=str(n)) for n in range(8))
        )
    assert {response.total_count for response in responses} == {len(SCHOOLS)}
    await engine.dispose()


@pytest.mark.quick(2, "sqlite")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": None}, BadParameterError),
        ({"expiration": 60}, BadParameterError),
        ({"expiration": timedelta(seconds=-1)}, BadParameterError),
        ({"sample_size": "5"}, BadParameterError),
        ({"sample_size": True}, BadParameterError),
        ({"count": "roughly"}, BadParameterError),
        ({"count": "capped:0"}, BadParameterError),
        ({"count": "capped:9999999999"}, BadParameterError),
        ({"count": "capped:1 "}, BadParameterError),
        ({"count": 5}, BadParameterError),
        ({"count": None}, BadParameterError),
        ({"metadata": {"a": object()}}, BadParameterError),
        ({"name": ""}, BadParameterError),
    ],
)
async def test_arguments_are_checked_before_the_database_works(
    dual: DualResponseServer, schools: AsyncEngine, options: dict[str, Any], error: type[Exception]
) -> None:
    with statements_of(schools) as statements, pytest.raises(error):
        await dual.create_response(select(School), **{"name": "x", **options})
    assert statements == []


async def test_a_database_that_is_out_of_reach_is_not_quoted() -> None:
    url = "postgresql://someone:pa55word@127.0.0.1:1/x"
    async with AsyncExitStack() as stack:
        server = DualResponseServer(url, base_url=BASE_URL, tables=Base)
        stack.push_async_callback(server.shutdown)
        with pytest.raises(DatabaseUnreachableError) as refused:
            await server.create_response(select(School), name="x")
    assert "127.0.0.1" not in str(refused.value)
    assert "pa55word" not in str(refused.value)


async def test_after_its_shutdown_a_server_stays_shut(make_server: MakeServer) -> None:
    server = make_server()
    await server.shutdown()
    with pytest.raises(ConfigurationError, match="shut down"):
        await server.create_response(select(School), name="x")


async def test_a_registry_decides_on_text_itself(make_server: MakeServer) -> None:
    with pytest.raises(ConfigurationError, match="Registry"):
        make_server(tables=Registry(Base), allow_text=True)
    server = make_server(tables=Registry(Base, allow_text=True))
    statement = text("SELECT id FROM schools").columns(column("id"))
    assert (await server.create_response(statement, name="x")).total_count == len(SCHOOLS)


async def test_a_result_that_fits_the_budgets_is_shown_whole(
    make_server: MakeServer, schools: AsyncEngine
) -> None:
    dual = make_server(default_sample_size=3, count_head_start=timedelta(minutes=1))
    await dual.start()
    with statements_of(schools) as statements:
        response = await dual.create_response(select(School.id, School.state), name="All schools")
    assert len(statements) == 1, "what reads the rows tells their number"
    assert (len(response.sample), response.total_count) == (len(SCHOOLS), len(SCHOOLS))
    assert response.to_text().startswith(f"All schools: all {len(SCHOOLS)} rows. Cells")
    assert response.to_text().endswith(f"\n\nRows for the application: {response.resource_uri}")
    named = await dual.create_response(select(School.id, School.state), name="x", sample_size=3)
    assert len(named.sample) == 3
    assert f"showing 3 of {len(SCHOOLS)} rows" in named.to_text()


@pytest.mark.parametrize("budgets", [{"text_budget": 150}, {"results_budget": 450}])
async def test_a_result_that_fits_one_budget_only_is_a_sample(
    make_server: MakeServer, budgets: dict[str, int]
) -> None:
    dual = make_server(default_sample_size=3, **budgets)
    response = await dual.create_response(select(School.id, School.state), name="x", count="none")
    assert (len(response.sample), response.total_count) == (3, len(SCHOOLS)), "it was read, and so counted"


async def test_no_row_is_shown_where_the_operator_shows_none(make_server: MakeServer) -> None:
    response = await make_server(default_sample_size=0).create_response(select(School.id), name="x")
    assert (response.sample, response.total_count) == ([], len(SCHOOLS))


@pytest.mark.quick(1, "sqlite")
async def test_the_number_of_rows_of_a_small_limit_is_known_however_slow_the_query(
    make_server: MakeServer,
) -> None:
    wide = [SLOW_NUMBERS.c.n.label(f"column_{number}") for number in range(90)]
    server = make_server(count_budget=timedelta(microseconds=1))
    response = await server.create_response(select(*wide).order_by(SLOW_NUMBERS.c.n).limit(20), name="20")
    assert (len(response.sample), response.total_count) == (Settings().default_sample_size, 20)
    assert "of 20 rows" in response.to_text()
