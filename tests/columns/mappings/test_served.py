"""Whatever its classes load, a statement is served with its own columns: in every format, page and question."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.routing import Mount

from dualsql import DualResponseError, DualResponseServer
from dualsql.formats.table import FORMATS
from dualsql.plan import shape, written_out
from dualsql.tenancy import Shared
from dualsql_client import DualResponseClient
from tests.columns.mappings.people import Base, fill
from tests.columns.mappings.statements import STATEMENTS
from tests.databases.streams.reading import read
from tests.quick import one_in
from tests.waiting import wait_until_logged

pytestmark = pytest.mark.quick(50, "sqlite")

ADDRESS = "http://127.0.0.1:8000"
Served = tuple[DualResponseServer, httpx.AsyncClient, AsyncEngine]


@pytest.fixture
async def served(engine: AsyncEngine) -> AsyncIterator[Served]:
    async with engine.begin() as connection:
        await connection.run_sync(fill)
    # A server that makes its own engine reads a file's pages in a thread of their own.
    url = engine.url.render_as_string(hide_password=False)
    async with DualResponseServer(url, base_url=f"{ADDRESS}/resources", tables=Base) as dual:
        app = Starlette(routes=[Mount("/resources", dual.router())])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ADDRESS) as http:
            yield dual, http, engine


def rows_of(connection: Connection, statement: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(statement)]


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("name", one_in(9, STATEMENTS))
async def test_every_format_page_and_question(served: Served, name: str) -> None:
    dual, http, engine = served
    statement, expected = STATEMENTS[name]
    names = expected.split()
    response = await dual.create_response(statement, name="x", count="exact")
    assert [column["name"] for column in response.columns] == names
    columns = shape(written_out(statement)).columns
    async with engine.connect() as connection:
        rows = await connection.run_sync(rows_of, written_out(statement))
    assert response.total_count == len(rows)
    for format_name in FORMATS:
        answer = await http.post(f"/resources/{response.resource_id}/rows", json={"format": format_name})
        assert answer.status_code == 200, answer.text
        table = read(format_name, answer.content, columns)
        assert list(table) == names
        assert sorted(map(repr, zip(*table.values(), strict=True))) == sorted(map(repr, rows))
    await follow(DualResponseClient(f"{ADDRESS}/resources", http=http), response, names, len(rows))


async def follow(client: DualResponseClient, response: Any, names: list[str], total: int) -> None:
    """Pages in both directions, a filter and a group on each column."""
    parsed = client.parse(response.to_mcp_tool_result(), strict=True)
    everything = await parsed.fetch_all()
    assert [list(row) for row in everything] == [names] * total
    seen, page = [], await parsed.fetch(limit=2)
    while True:
        seen += page.data
        if page.next_cursor is None:
            break
        page = await parsed.fetch(limit=2, cursor=page.next_cursor)
    assert seen == everything
    last = everything[-1]
    for name in names:
        value = last[name]
        parameters: Any = {"column": name, "op": "is_null"}
        if value is not None:
            parameters = {"column": name, "op": "eq", "value": value}
        assert last in (await parsed.query(filters=parameters)).data
        if len({str(row[name]) for row in everything}) == total:
            continue  # a key, which is not grouped by
        grouped: Any = (
            {"column": name, "bucket": "day"} if name.startswith("at") or name.endswith("_at") else name
        )
        groups = (await parsed.query(group_by=[grouped], aggregates=["count"])).data
        assert sum(group["count"] for group in groups) == total


def broken(statement: Any, context: Any) -> Any:
    raise ZeroDivisionError(f"{statement} {context}")


async def test_whatever_is_raised_for_a_statement_it_is_an_error_of_ours(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    async with DualResponseServer(
        engine, base_url=ADDRESS, tables=Base, hooks=[Shared(*Base.metadata.sorted_tables), broken]
    ) as dual:
        with pytest.raises(DualResponseError, match="raised ZeroDivisionError") as raised:
            await dual.create_response(STATEMENTS["eager"][0], name="x")
    assert "house" not in str(raised.value)
    wait_until_logged()
    assert "ZeroDivisionError" in caplog.text
