"""The client and a real server over HTTP, with SQLite."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import mcp
import mcp_types
import pytest
from mcp.server import MCPServer
from sqlalchemy import Select, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseServer
from dualsql_client import (
    DualResponseClient,
    FetchError,
    ParsedDualResponse,
    ResourceExpiredError,
    ResourceNotFoundError,
    where,
)
from tests.client.hosting import listening_socket, origin_of, serving
from tests.schools import SCHOOLS, Base, Program, School, fill, visits
from tests.servers import create_server

ALL = select(School).order_by(School.id)


@dataclass(frozen=True)
class Pair:
    """A server and a client of it."""

    server: DualResponseServer
    client: DualResponseClient
    engine: AsyncEngine

    async def open(self, statement: Select[Any] = ALL, **options: Any) -> ParsedDualResponse:
        """What the application gets of a tool call that returned `statement`."""
        response = await self.server.create_response(statement, name="Schools", **options)
        return self.client.parse(response.to_mcp_tool_result(), strict=True)


@pytest.fixture
async def pair(sqlite_url: str, make_engine: Callable[[str], AsyncEngine], http: Any) -> AsyncIterator[Pair]:
    engine = make_engine(sqlite_url)
    await fill(engine)
    with listening_socket() as port:
        base_url = f"{origin_of(port)}/resources"
        server = create_server(engine, base_url=base_url, tables=Base)
        app = Starlette(routes=[Mount("/resources", server.router())], lifespan=server.lifespan)
        async with serving(app, port), DualResponseClient(base_url, http=http) as client:
            yield Pair(server, client, engine)


def as_sqlite_gives_it(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it comes back: SQLite keeps no time zones, an enumeration travels as its stored name."""
    return {**row, "updated": row["updated"].replace(tzinfo=None), "control": row["control"].name}


def as_written(moment: datetime | None) -> datetime | None:
    return moment and moment.replace(microsecond=0)


async def test_the_tool_result_tells_all_of_it(pair: Pair) -> None:
    response = await pair.server.create_response(ALL, name="Schools", sample_size=5)
    for form in (
        response.to_mcp_tool_result(),
        response.to_call_tool_result(),
        response.to_structured_content(),
    ):
        parsed = pair.client.parse(form, strict=True)
        assert parsed.name == "Schools"
        assert parsed.sample == response.sample
        assert parsed.total_count == len(SCHOOLS)
        assert parsed.resource_uri == response.resource_uri
        assert parsed.resource_url == response.resource_url
        assert parsed.columns == response.columns
        # Both are written to the second.
        assert parsed.expires_at == as_written(response.expires_at)
        assert parsed.executed_at == as_written(response.created_at)
        assert (await parsed.get_metadata()).created_at == as_written(response.created_at)
        assert not parsed.is_expired()


async def test_through_the_official_sdk(pair: Pair) -> None:
    tools = MCPServer("schools")

    @tools.tool()
    async def search() -> mcp_types.CallToolResult:
        response = await pair.server.create_response(ALL, name="Schools")
        return response.to_call_tool_result()

    async with mcp.Client(tools) as session:
        parsed = pair.client.parse(await session.call_tool("search", {}), strict=True)
    assert len(await parsed.fetch_all(batch_size=10)) == len(SCHOOLS)


@pytest.mark.quick(3)
@pytest.mark.parametrize("batch_size", [1, 7, 23, 100])
async def test_every_row_in_order_with_the_database_s_own_values(pair: Pair, batch_size: int) -> None:
    parsed = await pair.open()
    rows = await parsed.fetch_all(batch_size=batch_size, typed=True)
    assert rows == [as_sqlite_gives_it(row) for row in SCHOOLS]
    assert [type(value) for value in rows[0].values()] == [
        type(value) for value in as_sqlite_gives_it(SCHOOLS[0]).values()
    ]


async def test_wire_values_are_what_json_has(pair: Pair) -> None:
    [row] = (await (await pair.open()).fetch(limit=1)).data
    assert (row["tuition"], row["founded"], row["endowment"]) == ("1.10", "1801-01-31", 2**53 + 1)


async def test_a_number_the_sample_writes_as_text_is_typed_all_the_same(pair: Pair) -> None:
    parsed = await pair.open()
    assert parsed.sample[0]["endowment"] == str(2**53 + 1)
    page = await parsed.fetch(limit=1, typed=True)
    assert page.data[0]["endowment"] == 2**53 + 1


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "statement", [select(visits), select(School, Program).join(Program), select(School.state)]
)
async def test_ties_joins_and_equal_rows_page_without_loss(pair: Pair, statement: Select[Any]) -> None:
    parsed = await pair.open(statement)
    whole = (await parsed.fetch(limit=100)).data
    assert await parsed.fetch_all(batch_size=4) == whole
    assert len(whole) == parsed.total_count


async def test_an_empty_result(pair: Pair) -> None:
    parsed = await pair.open(ALL.where(School.id < 0))
    assert (parsed.sample, parsed.total_count) == ([], 0)
    assert await parsed.fetch_all() == []


async def test_a_sorted_page(pair: Pair) -> None:
    parsed = await pair.open()
    page = await parsed.fetch(
        offset=2, limit=3, sort=[{"field": "name", "order": "desc"}, {"field": "id", "order": "desc"}]
    )
    expected = sorted(SCHOOLS, key=lambda row: (row["name"], row["id"]), reverse=True)[2:5]
    assert [row["id"] for row in page.data] == [row["id"] for row in expected]
    assert (page.has_previous, page.has_next, page.next_offset) == (True, True, 5)


async def test_rows_deleted_between_pages_end_the_loop(pair: Pair) -> None:
    parsed = await pair.open()
    page = await parsed.fetch(limit=10)
    assert [row["id"] for row in page.data] == list(range(1, 11))
    async with pair.engine.begin() as connection:
        await connection.execute(delete(School).where(School.id > 5))
    assert page.next_offset == 10
    assert (await parsed.fetch(offset=10, limit=10)).data == []


async def test_rows_added_between_pages_are_fetched_beyond_the_total(pair: Pair) -> None:
    parsed = await pair.open()
    page = await parsed.fetch(limit=20)
    async with pair.engine.begin() as connection:
        await connection.execute(insert(School), [{**SCHOOLS[0], "id": n} for n in range(100, 130)])
    assert page.next_offset == 20
    rest = (await parsed.fetch(offset=20, limit=100)).data
    assert [row["id"] for row in rest] == [21, 22, 23, *range(100, 130)]


async def test_metadata_pin_and_delete(pair: Pair) -> None:
    parsed = await pair.open(metadata={"state": "NJ"})
    await parsed.fetch()
    metadata = await parsed.get_metadata()
    assert (metadata.status, metadata.name, metadata.total_count) == ("ready", "Schools", len(SCHOOLS))
    assert metadata.metadata == {"state": "NJ"}
    assert metadata.access_count >= 1
    assert metadata.expires_at == parsed.expires_at is not None
    assert await parsed.pin() is True
    pinned = await parsed.get_metadata()
    assert (pinned.status, pinned.expires_at) == ("pinned", None)
    assert await parsed.delete() is True
    assert await parsed.delete() is False
    with pytest.raises(ResourceNotFoundError) as error:
        await parsed.fetch()
    assert (error.value.code, error.value.status) == ("RESOURCE_NOT_FOUND", 404)


async def test_an_expired_resource_is_gone(pair: Pair) -> None:
    parsed = await pair.open(expiration=timedelta())
    assert parsed.is_expired()
    with pytest.raises(ResourceExpiredError) as error:
        await parsed.fetch_all()
    assert (error.value.code, error.value.status) == ("RESOURCE_EXPIRED", 410)
    assert error.value.hint


async def test_the_server_s_refusals_arrive_with_code_and_hint(pair: Pair) -> None:
    parsed = await pair.open()
    with pytest.raises(FetchError) as unknown:
        await parsed.fetch(sort={"field": "enrolment"})
    assert (unknown.value.code, unknown.value.status) == ("UNKNOWN_COLUMN", 422)
    assert "'enrollment'" in unknown.value.hint
    assert "enrollment" in unknown.value.details["columns"]
    for offset, limit in ((0, 10_001), (0, 0), (-1, 1)):
        with pytest.raises(FetchError) as error:
            await parsed.fetch(offset=offset, limit=limit)
        assert (error.value.code, error.value.status) == ("BAD_PARAMETER", 400)
        assert error.value.hint


@pytest.mark.quick(1)
async def test_a_profile(pair: Pair) -> None:
    parsed = await pair.open()
    profile = await parsed.profile("full", columns=["state", "enrollment"])
    assert profile["covers"] == {"rows": len(SCHOOLS), "of": "all"}
    assert [column["name"] for column in profile["columns"]] == ["state", "enrollment"]
    assert (await parsed.profile())["kind"] == "sample"
    with pytest.raises(FetchError) as unknown:
        await parsed.profile(columns=["enrolment"])
    assert unknown.value.code == "UNKNOWN_COLUMN"


@pytest.mark.quick(1)
@pytest.mark.parametrize("form", ["json", "markdown"])
async def test_an_http_client_that_asks_tools_for_another_form_reads_rows_too(
    pair: Pair, library: Any, form: str
) -> None:
    """One HTTP client for the tools and for REST, with the headers that a program sends to tools (S8.5)."""
    headers = {"X-Response-Format": form, "X-Execution-Context": "code"}
    async with library.AsyncClient(headers=headers) as http:
        response = await pair.server.create_response(ALL, name="Schools")
        base_url = response.resource_url.rpartition("/")[0]
        shared = DualResponseClient(base_url, http=http, headers=headers)
        parsed = shared.parse(response.to_mcp_tool_result(), strict=True)
        assert (await parsed.get_metadata()).status == "ready"
        assert len((await parsed.fetch(limit=2)).data) == 2
        assert len(await parsed.fetch_all()) == len(SCHOOLS)
        assert await parsed.sql_all("SELECT count(*) AS n FROM data") == [{"n": len(SCHOOLS)}]
        assert (await parsed.query(aggregates=["count"])).data == [{"count": len(SCHOOLS)}]
        assert (await parsed.profile())["columns"]
        assert await parsed.pin() and await parsed.unpin() and await parsed.delete()
        with pytest.raises(ResourceNotFoundError):
            await parsed.fetch()


async def test_progress_is_told_at_the_ends_of_batches(pair: Pair) -> None:
    """Whatever pieces the stream comes in."""
    parsed, total = await pair.open(), len(SCHOOLS)
    calls: list[tuple[int, int | None]] = []
    seen: list[int] = []
    await parsed.fetch_all(
        batch_size=5, progress=lambda progress: calls.append((progress.rows, progress.total))
    )
    assert calls == [(rows, total) for rows in (*range(5, total, 5), total)]
    batches = parsed.fetch_stream(batch_size=total, progress=lambda progress: seen.append(progress.rows))
    assert [len(batch) async for batch in batches] == [total]
    assert seen == [total]


async def test_names_of_columns_may_be_one_text_wherever_rows_are_read(pair: Pair) -> None:
    parsed = await pair.open()
    rows = [{"name": row["name"], "id": row["id"]} for row in SCHOOLS]
    for columns in (["name", "id"], "name, id"):
        assert (await parsed.fetch(columns=columns)).data == rows[: len((await parsed.fetch()).data)]
        assert await parsed.fetch_all(columns=columns) == rows
        assert [list(row) for row in await parsed.to_dicts(columns=columns, text_columns="id")] == [
            ["name", "id"] for _ in rows
        ]
    nothing: Any = None
    assert len(await parsed.fetch_all(columns=nothing, limit=nothing, progress=nothing)) == len(SCHOOLS)
    anything: Any = "yes"
    with pytest.raises(TypeError, match=r"progress must be True, False or a function"):
        await parsed.fetch_all(progress=anything)


async def test_rows_of_a_result_that_names_only_its_first_columns_are_typed(pair: Pair) -> None:
    """So is the result of a table with very many columns."""
    structured: Any = (await pair.server.create_response(ALL, name="Schools")).to_structured_content()
    structured["metadata"] |= {"columns": structured["metadata"]["columns"][:2], "column_count": 16}
    parsed = pair.client.parse(structured, strict=True)
    rows = await parsed.fetch_all(typed=True)
    assert rows == list(map(as_sqlite_gives_it, SCHOOLS))
    assert len(parsed.columns) == len(rows[0])


PAGES: list[dict[str, Any]] = [
    {},
    {"sort": "-name,id"},
    {"columns": ["name", "id"]},
    {"filters": where("state").eq("NJ"), "sort": [{"field": "id", "order": "desc"}]},
    {"filters": [where("state").eq("NJ")], "columns": ["id"], "typed": True},
]


@pytest.mark.quick(2)
@pytest.mark.parametrize("arguments", PAGES, ids=lambda given: "-".join(given) or "all")
async def test_pages_follow_one_another_and_are_those_of_fetch(pair: Pair, arguments: dict[str, Any]) -> None:
    parsed = await pair.open()
    pages = [page async for page in parsed.pages(limit=3, **arguments)]
    whole = await parsed.fetch(limit=500, **arguments)
    assert [row for page in pages for row in page.data] == whole.data != []
    assert {len(page.data) for page in pages[:-1]} <= {3} and not pages[-1].has_next
    expected = [school for school in SCHOOLS if "filters" not in arguments or school["state"] == "NJ"]
    assert sorted(row["id"] for row in whole.data) == sorted(school["id"] for school in expected)
    if "columns" in arguments:
        assert {tuple(row) for row in whole.data} == {tuple(arguments["columns"])}


async def test_the_example_of_the_readme_runs(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "client" / "README.md").read_text(encoding="utf-8")
    [code] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "Progress" in block]
    scope: dict[str, Any] = {"parsed": await pair.open()}
    await eval(compile(code, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), scope)
    assert scope["rows"] == await scope["parsed"].fetch_all()
    printed = capsys.readouterr().out
    assert f"{len(SCHOOLS)} of {len(SCHOOLS)} rows," in printed and "0 [{'id': " in printed
