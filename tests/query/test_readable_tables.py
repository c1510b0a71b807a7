"""A SQL text over a result reads the tables that its caller may read in SQL texts, under their rules, and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from sqlalchemy import Column, Integer, MetaData, String, Table, delete, false, insert, select

from dualsql import (
    DualResponseServer,
    LocalResultStorage,
    Mask,
    Principal,
    RowFilter,
    Shared,
    TenantFilter,
    UnknownTableError,
)
from dualsql.catalogue import Visible
from dualsql.mcp import add_execute_query, add_query, add_result_tools
from dualsql.query.mcp import add_data_manager
from dualsql.query.model import SQLQuery
from dualsql.results.kept_rows import ROWS_OF_NOW
from tests.engines import opened, sqlite_url_in
from tests.http.application import Application, by_header, problem_of, running

METADATA = MetaData()
FLIGHTS = Table(
    "flights",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("tenant", String(10), nullable=False),
    Column("carrier", String(2), nullable=False),
    Column("order_id", Integer),
    Column("price", Integer),
)
CARRIERS = Table(
    "carriers", METADATA, Column("code", String(2), primary_key=True), Column("name", String(20))
)
WAGES = Table("wages", METADATA, Column("id", Integer, primary_key=True), Column("wage", Integer))

ROWS = [
    {
        "id": number,
        "tenant": "south" if number % 4 == 0 else "north",
        "carrier": "B6" if number % 5 == 0 else "AA",
        "order_id": number,
        "price": 100,
    }
    for number in range(1, 41)
]
OF_NORTH = [row for row in ROWS if row["tenant"] == "north"]
FEW = select(FLIGHTS.c.id, FLIGHTS.c.carrier).where(FLIGHTS.c.carrier == "B6")
SHARE = "SELECT COUNT(*) * 100.0 / (SELECT COUNT(*) FROM flights) AS share FROM data"

HOOKS = (
    TenantFilter(column="tenant", value=lambda principal: principal.tenant),
    Shared(CARRIERS, WAGES),
    Mask(FLIGHTS.c.price, "null", unless=lambda principal: principal.id == "auditor"),
)
ANA = {"x-user": "ana", "x-tenant": "north"}


def person(tenant: str, name: str = "ana") -> Principal:
    return Principal(id=name, tenant=tenant)


def without_wages(principal: Principal | None, table: Any) -> bool:
    return bool(table.name != "wages")


@asynccontextmanager
async def flights_at(
    url: str, *, visible: Visible | None = None, **options: Any
) -> AsyncIterator[Application]:
    """A server whose tool `execute_query` reads the tables that `visible` shows."""
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(METADATA.create_all)
        await connection.execute(insert(FLIGHTS), ROWS)
        await connection.execute(
            insert(CARRIERS), [{"code": "B6", "name": "JetBlue"}, {"code": "AA", "name": None}]
        )
        await connection.execute(insert(WAGES), [{"id": 1, "wage": 5}])
    async with running(url, tables=METADATA, **options) as application:
        add_execute_query(application.server, MCPServer("flights"), visible=visible)
        yield application


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url_in(tmp_path)


async def post(application: Application, path: str, sql: str, **headers: str) -> Any:
    return await application.http.post(f"{path}/sql", json={"sql": sql}, headers=headers)


async def rows(application: Application, path: str, sql: str, **headers: str) -> Any:
    answer = await post(application, path, sql, **(headers or ANA))
    return answer.raise_for_status().json()["data"]


@pytest.mark.quick(1)
async def test_the_share_of_a_tenant_s_own_rows(source_url: str) -> None:
    async with flights_at(source_url, hooks=HOOKS, authenticate=by_header) as application:
        for tenant in ("north", "south"):
            path = await application.create(FEW, principal=person(tenant))
            headers = {"x-user": "ana", "x-tenant": tenant}
            own = [row for row in ROWS if row["tenant"] == tenant]
            few = [row for row in own if row["carrier"] == "B6"]
            [found] = await rows(application, path, SHARE, **headers)
            assert float(found["share"]) == pytest.approx(100 * len(few) / len(own))
            [found] = await rows(
                application, path, "SELECT count(*) AS n, count(price) AS p FROM flights", **headers
            )
            assert found == {"n": len(own), "p": 0}
        path = await application.create(FEW, principal=person("north", "auditor"))
        [found] = await rows(
            application, path, "SELECT count(price) AS p FROM flights", **{**ANA, "x-user": "auditor"}
        )
        assert found == {"p": len(OF_NORTH)}


async def test_joins_pages_and_streams(url: str) -> None:
    async with flights_at(url, authenticate=by_header) as application:
        path = await application.create(FEW, principal=person("north"))
        named = "SELECT d.id, c.name FROM data d JOIN carriers c ON c.code = d.carrier"
        wanted = [{"id": row["id"], "name": "JetBlue"} for row in ROWS if row["carrier"] == "B6"]
        assert await rows(application, path, named) == wanted
        body: dict[str, Any] = {"sql": named, "limit": 3}
        found = []
        while body.get("cursor", "first"):
            page = (
                (await application.http.post(f"{path}/sql", json=body, headers=ANA)).raise_for_status().json()
            )
            found += page["data"]
            body["cursor"] = page["next_cursor"]
        assert found == wanted
        answer = await application.http.post(f"{path}/sql", json={"sql": named, "format": "csv"}, headers=ANA)
        assert answer.text.split() == ["id,name", *(f'{row["id"]},"JetBlue"' for row in wanted)]


async def test_a_table_s_columns_are_all_read(url: str) -> None:
    """The order of the result is carried in columns whose names begin as `order_id` does."""
    async with flights_at(url, authenticate=by_header) as application:
        path = await application.create(FEW, principal=person("north"))
        [row] = await rows(application, path, "SELECT f.* FROM data JOIN flights f USING (id) WHERE f.id = 5")
        assert row == ROWS[4]


async def test_data_is_the_result_and_no_table(tmp_path: Path) -> None:
    metadata = MetaData()
    data = Table("data", metadata, Column("id", Integer, primary_key=True))
    url = sqlite_url_in(tmp_path)
    async with opened(url) as engine, engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.execute(insert(data), [{"id": number} for number in range(1, 8)])
    async with running(url, tables=metadata, authenticate=by_header) as application:
        add_execute_query(application.server, MCPServer("data"))
        path = await application.create(select(data).where(data.c.id < 3), principal=person("north"))
        assert await rows(application, path, "SELECT count(*) AS n FROM data") == [{"n": 2}]
        assert await rows(application, path, "SELECT count(*) AS n FROM main.data") == [{"n": 7}]


async def test_hidden_tables_are_as_unknown_ones(url: str) -> None:
    answers = []
    for options in ({"visible": without_wages}, {"hooks": [Shared(FLIGHTS, CARRIERS), HIDDEN]}):
        async with flights_at(url, authenticate=by_header, **options) as application:
            path = await application.create(FEW, principal=person("north"))
            for name in ("wages", "main.wages", "xages", "main.xages"):
                for text in ("SELECT * FROM {}", "SELECT (SELECT count(*) FROM {}) FROM data"):
                    answer = await post(application, path, text.format(name), **ANA)
                    assert problem_of(answer, 422)["code"] == "UNKNOWN_TABLE"
                    body = {name: value for name, value in answer.json().items() if name != "request_id"}
                    answers.append(str(body).replace(name, "NAME"))
                    assert "carriers" in answers[-1]
        for table in (FLIGHTS, CARRIERS, WAGES):
            await _emptied(url, table)
    assert len(set(answers)) == 1, set(answers)


HIDDEN = RowFilter(WAGES, lambda _: false())


async def _emptied(url: str, table: Table) -> None:
    async with opened(url) as engine, engine.begin() as connection:
        await connection.execute(delete(table))


async def test_what_one_caller_reads_another_does_not(url: str) -> None:
    """Statements are cached for the next page."""

    def visible(principal: Principal | None, table: Any) -> bool:
        return table.name == "flights" or (principal is not None and principal.id == "auditor")

    async with flights_at(url, visible=visible, authenticate=by_header) as application:
        sql = "SELECT count(*) AS n FROM wages"
        for name in ("auditor", "ana", "auditor"):
            path = await application.create(FEW, principal=person("north", name))
            answer = await post(application, path, sql, **{**ANA, "x-user": name})
            assert answer.status_code == (200 if name == "auditor" else 422)


async def test_each_tool_has_to_show_a_table(url: str) -> None:
    async with flights_at(url, authenticate=by_header) as application:
        path = await application.create(FEW, principal=person("north"))
        assert await rows(application, path, "SELECT wage FROM wages") == [{"wage": 5}]
        add_query(application.server, MCPServer("narrower"), visible=without_wages)
        assert problem_of(await post(application, path, "SELECT wage FROM wages", **ANA), 422)
        assert await rows(application, path, "SELECT count(*) AS n FROM carriers") == [{"n": 2}]


async def test_without_a_tool_no_table_is_read(url: str) -> None:
    async with flights_at(url):
        pass
    async with running(url, tables=METADATA, authenticate=by_header) as application:
        path = await application.create(FEW, principal=person("north"))
        problem = problem_of(await post(application, path, SHARE, **ANA), 422)
        assert (problem["code"], problem["details"]["tables"]) == ("UNKNOWN_TABLE", ["data"])
        tools = MCPServer("results")
        add_result_tools(application.server, tools)
        uri = await _anonymous(application)
        async with Client(tools) as model:
            answer = await model.call_tool("query_result", {"resource": uri, "sql": SHARE})
        assert answer.structured_content["error"]["code"] == "UNKNOWN_TABLE"


async def test_only_the_source_of_the_tool(tmp_path: Path) -> None:
    urls = {name: sqlite_url_in(tmp_path) for name in ("a", "b")}
    for url in urls.values():
        async with flights_at(url):
            pass
    async with DualResponseServer(urls, base_url="http://127.0.0.1/r", tables=METADATA) as dual:
        add_query(dual, MCPServer("a"), source="a")
        for name, is_read in (("a", True), ("b", False)):
            result = await dual.create_response(FEW, name="few", source=name)
            response = dual.create_response(
                name="share", parent=result.resource_uri, refinement=SQLQuery(SHARE, reads_tables=True)
            )
            if is_read:
                assert (await response).sample == [{"share": 20.0}]
                continue
            with pytest.raises(UnknownTableError):
                await response


async def test_functions_among_the_hooks_would_not_see_the_table(url: str) -> None:
    def own(statement: Any, _: Any) -> Any:
        return statement.where(FLIGHTS.c.tenant == "north")

    async with flights_at(
        url, hooks=[own, Shared(FLIGHTS, CARRIERS, WAGES)], authenticate=by_header
    ) as application:
        path = await application.create(FEW, principal=person("north"))
        assert problem_of(await post(application, path, SHARE, **ANA), 422)["code"] == "UNKNOWN_TABLE"
        assert await rows(application, path, "SELECT count(*) AS n FROM data") == [{"n": 6}]


async def _anonymous(application: Application) -> str:
    response = await application.server.create_response(FEW, name="few")
    return response.resource_uri


async def test_the_link_of_an_anonymous_result_leads_to_no_table(url: str) -> None:
    async with flights_at(url) as application:
        path = await application.create(FEW)
        for kind in ("sql", "refine"):
            answer = await application.http.post(f"{path}/{kind}", json={"sql": SHARE})
            assert problem_of(answer, 422)["code"] == "UNKNOWN_TABLE"


ONLY_TABLES = (
    "SELECT count(*) AS n FROM flights",
    "SELECT count(*) AS n, 'data' AS of FROM flights -- FROM data",
    "SELECT data.n FROM (SELECT count(*) AS n FROM flights) AS data",
    "WITH data AS (SELECT * FROM flights) SELECT count(*) AS n FROM data",
    "SELECT count(*) AS data FROM flights AS f JOIN carriers AS c ON c.code = f.carrier",
    "SELECT 1 AS data",
)
OF_THE_RESULT = (
    "SELECT count(*) AS n FROM DATA",
    "SELECT (SELECT count(*) FROM data) AS n FROM flights LIMIT 1",
    "WITH d AS (SELECT * FROM data AS x) SELECT count(*) AS n FROM d",
    "SELECT count(*) AS n FROM flights WHERE id IN (SELECT id FROM data)",
    "SELECT count(*) AS n FROM (SELECT id FROM flights INTERSECT SELECT id FROM data) AS s",
)


async def test_a_model_s_question_is_about_the_result(url: str) -> None:
    """A model that forgets to name the result would get the rows of a whole table for it."""
    async with flights_at(url, visible=without_wages) as application:
        tools, uri = MCPServer("results"), await _anonymous(application)
        add_result_tools(application.server, tools)
        async with Client(tools) as model:
            for sql in ONLY_TABLES:
                answer = await model.call_tool("query_result", {"resource": uri, "sql": sql})
                assert answer.structured_content["error"]["code"] == "INVALID_SQL", sql
                assert "FROM data" in answer.structured_content["error"]["hint"]
            for sql in OF_THE_RESULT:
                answer = await model.call_tool("query_result", {"resource": uri, "sql": sql})
                assert answer.structured_content["results"][0]["n"] == 8, sql


async def test_the_model_s_tools(url: str) -> None:
    async with flights_at(url, visible=without_wages) as application:
        tools, uri = MCPServer("results"), await _anonymous(application)
        add_result_tools(application.server, tools)
        add_data_manager(application.server, tools, envelope="none")
        hidden = SHARE.replace("flights", "wages")
        async with Client(tools) as model:
            for name in ("query_result", "refine_result"):
                answer = await model.call_tool(name, {"resource": uri, "sql": SHARE})
                assert answer.structured_content["results"] == [{"share": 20.0}]
                answer = await model.call_tool(name, {"resource": uri, "sql": hidden})
                assert answer.structured_content["error"]["code"] == "UNKNOWN_TABLE"
            question = {"operation": "query", "data_access_id": uri, "sql": SHARE}
            answer = await model.call_tool("data_manager", question)
            assert answer.structured_content["rows"] == [{"share": 20.0}]


async def test_a_refinement_is_read_under_the_rules_of_its_reader(url: str) -> None:
    async with flights_at(url, hooks=HOOKS, authenticate=by_header) as application:
        path = await application.create(FEW, principal=person("north"))
        question = {"sql": "SELECT id, price FROM flights ORDER BY id", "name": "All"}
        uri = (await application.http.post(f"{path}/refine", json=question, headers=ANA)).raise_for_status()
        child = f"{uri.headers['location']}?limit=100"
        page = (await application.http.get(child, headers=ANA)).raise_for_status().json()
        assert page["data"] == [{"id": row["id"], "price": None} for row in OF_NORTH]


async def test_of_a_kept_result_the_rows_are_of_now(url: str, tmp_path: Path) -> None:
    tmp_path.joinpath("kept").mkdir(mode=0o700)
    storage = LocalResultStorage(tmp_path / "kept")
    async with flights_at(url, storage=storage, authenticate=by_header) as application:
        path = await application.create(FEW, principal=person("north"), keep=True)
        async with opened(url) as engine, engine.begin() as connection:
            await connection.execute(delete(FLIGHTS).where(FLIGHTS.c.id.in_([5, 6])))
        kept = (await post(application, path, "SELECT count(*) AS n FROM data", **ANA)).json()
        assert (kept["data"], "notes" in kept) == ([{"n": 8}], False)
        live = (await post(application, path, SHARE, **ANA)).json()
        assert live["data"] == [{"share": pytest.approx(700 / 38)}]
        assert live["notes"] == [ROWS_OF_NOW]
        response = await application.server.create_response(
            name="share",
            parent=path.rpartition("/")[2],
            refinement=SQLQuery(SHARE, reads_tables=True),
            principal=person("north"),
        )
        assert response.sample == [{"share": pytest.approx(700 / 38)}]
        assert ROWS_OF_NOW in response.to_text()
