"""`call_tool` reads the data of any tool, through each MCP client and in each form of answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import fastmcp
import httpx2
import mcp
import pytest
from fastmcp.client.transports import StreamableHttpTransport
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import aliased

from dualsql import DualResponseServer
from dualsql.mcp import add_data_manager
from dualsql_client import DualResponseClient, NotConfiguredError, ToolFailedError
from dualsql_client.codemode import NEGOTIATION, CodeMode
from dualsql_client.tool_answers import field_names, rows_in
from tests.client.code.answers import ANSWERS, ID
from tests.client.hosting import listening_socket, origin_of, serving, structured
from tests.schools import SCHOOLS, Base, School, fill

STAGED = {
    "data": {"dataAccessId": ID, "table": "protein"},
    "metadata": {"status": "staged", "operation": "search"},
}
FAILED = {
    "success": False,
    "error": {
        "code": "TABLE_NOT_FOUND",
        "message": 'Table "protein" does not exist',
        "details": {"availableTables": ["entries"], "suggestion": 'Use "entries"'},
    },
}
ROWS = [{"accession": "P04637"}, {"accession": "P53_HUMAN"}]


def text(said: str, **more: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=said)], **more)


class Tools:
    """Stands for an MCP client: answers by name, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        return self.answers[name]

    async def list_tools(self) -> list[Any]:
        return [mcp.types.Tool(name=name, input_schema={"type": "object"}) for name in self.answers]


async def test_structure_is_taken_as_it_is() -> None:
    tools = Tools(
        dual=text("prose", structured_content={**STAGED, "display": {"type": "text", "content": "prose"}}),
        own=text("prose", structured_content={"results": ROWS, "count": 2}),
        json=text(json.dumps({"rows": [["P04637"], ["P53_HUMAN"]], "columns": [{"name": "accession"}]})),
        listed=text(json.dumps(ROWS)),
        wrapped=text("Data", structured_content={"result": ROWS}),
        bare=STAGED,
    )
    code = CodeMode(tools)
    for name in ("dual", "bare"):
        answer = await code.invoke(name, {"query": "TP53"})
        assert (answer.source, answer.data_access_id, answer.table) == ("dual mode", ID, "protein")
        assert (answer.operation, answer.success, answer.rows) == ("search", True, None)
    for name, source in {
        "own": "structure",
        "json": "json",
        "listed": "json",
        "wrapped": "structure",
    }.items():
        answer = await code.invoke(name)
        assert (answer.source, answer.rows) == (source, ROWS)
        assert await code.get_data(name) == ROWS
    assert tools.calls[0] == ("dual", {"query": "TP53"})


async def test_a_text_is_read_as_markdown_even_where_an_sdk_wraps_it() -> None:
    said = ANSWERS["all of it"].text
    tools = Tools(plain=text(said), wrapped=text(said, structured_content={"result": said}), string=said)
    for name in tools.answers:
        answer = await CodeMode(tools).invoke(name, expected_fields=["dataAccessId", "entities", "accession"])
        assert (answer.source, answer.data_access_id, answer.table) == ("markdown", ID, "protein")
        assert (answer.data, answer.text) == ({"entities": 25}, said)
        assert answer.fields == {"dataAccessId": ID, "entities": 25}
        assert answer.missing == ("accession",)


async def test_formats_of_the_return_and_strategies() -> None:
    prose, vague = text("Nothing to be read here."), text(f"It is staged as {ID}.")
    code = CodeMode(Tools(prose=prose, vague=vague))
    assert await code.invoke("prose") is prose
    assert (await code.invoke("prose", return_format="parsed")).source == "nothing"
    assert await code.invoke("vague", return_format="raw") is vague
    assert (await code.invoke("vague")).data_access_id == ID
    assert await code.invoke("vague", parse_strategy="conservative") is vague
    # Whether a text has a dual response does not depend on guesses about other values.
    assert DualResponseClient().find(vague) == []


@pytest.mark.parametrize(
    ("answer", "code", "message", "hint"),
    [
        (FAILED, "TABLE_NOT_FOUND", 'Table "protein" does not exist', 'Use "entries"'),
        (text(json.dumps(FAILED)), "TABLE_NOT_FOUND", 'Table "protein" does not exist', 'Use "entries"'),
        (
            text("x", structured_content=FAILED),
            "TABLE_NOT_FOUND",
            'Table "protein" does not exist',
            'Use "entries"',
        ),
        (text("**Error:** no such table: protein"), "TOOL_FAILED", "no such table: protein", ""),
        (text("It broke.", is_error=True), "TOOL_FAILED", "It broke.", ""),
        (CallToolResult(content=[], is_error=True), "TOOL_FAILED", "tool failed and did not say why.", ""),
        (
            text("x", structured_content={"error": {"code": "E1", "message": "m"}}, is_error=True),
            "E1",
            "m",
            "",
        ),
    ],
)
async def test_a_failure_is_told_and_never_taken_for_data(
    answer: Any, code: str, message: str, hint: str
) -> None:
    tools = CodeMode(Tools(tool=answer))
    result = await tools.invoke("tool")
    assert not result.success and result.data is None and result.rows is None
    assert (result.error.code, result.error.message, result.error.hint) == (code, message, hint)
    with pytest.raises(ToolFailedError) as caught:
        await tools.get_data("tool")
    assert caught.value.code == code


async def test_arguments_that_an_sdk_refused_are_told_by_the_tool_s_own_schema() -> None:
    """A server of the SDK alone answers them with a validator's text."""
    server = MCPServer("proteins")

    @server.tool()
    def protein(accession: str, limit: int = 5) -> str:
        """A protein."""
        return f"| accession |\n|---|\n| {accession} |"

    @server.tool()
    def broken() -> str:
        """Fails."""
        raise RuntimeError("accession is missing")

    async with mcp.Client(server) as client:
        code = CodeMode(client)
        for received, message in (
            ({"id": "P04637"}, "Missing required parameter: accession."),
            ({"accession": "P04637", "limit": "many"}, "Wrong type of parameter: limit."),
        ):
            answer = await code.invoke("protein", received)
            assert (answer.error.code, answer.error.message) == ("INVALID_PARAMETERS", message)
            expected = {"accession": "string", "limit": "integer"}
            assert answer.error.details == {"received": received, "expected": expected}
            assert "validation error" in answer.text
            with pytest.raises(ToolFailedError) as caught:
                await code.get_data("protein", received)
            assert caught.value.code == "INVALID_PARAMETERS"
        assert await code.get_data("protein", {"accession": "P04637"}) == [{"accession": "P04637"}]
        assert (await code.invoke("broken")).error.code == "TOOL_FAILED"


async def test_staged_data_are_queried_by_the_server_s_data_manager() -> None:
    tools = Tools(search=STAGED, data_manager={"data": {"rows": ROWS}, "metadata": {"status": "success"}})
    code = CodeMode(tools)
    assert await code.get_data("search", {"query": "TP53"}) == ROWS
    answer = await code.invoke("search")
    assert await answer.query("SELECT accession FROM protein") == ROWS
    parameters = {"operation": "query", "data_access_id": ID}
    assert [call for call in tools.calls if call[0] == "data_manager"] == [
        ("data_manager", {**parameters, "sql": "SELECT * FROM protein LIMIT 100"}),
        ("data_manager", {**parameters, "sql": "SELECT accession FROM protein"}),
    ]


@pytest.mark.parametrize(
    "answer",
    [FAILED, text("Data Manager Error: no such table"), {"data": {}, "metadata": {"status": "success"}}],
)
async def test_a_data_manager_that_gives_no_rows(answer: Any) -> None:
    with pytest.raises(ToolFailedError):
        await CodeMode(Tools(search=STAGED, data_manager=answer)).get_data("search")


@pytest.mark.parametrize("return_format", ["auto", "parsed"])
async def test_a_text_that_begins_with_a_failure_is_one(return_format: Any) -> None:
    """Whoever gets the answer parsed, whoever queries, and whoever gets rows hears what the server said."""
    message = "Data Manager Error: Query failed: no such table: protein"
    code = CodeMode(Tools(search=STAGED, data_manager=text(message)))
    answer = await code.invoke("data_manager", return_format=return_format)
    assert not answer.success and answer.data is None
    for question in (
        code.query_staged_data(ID, "SELECT 1"),
        code.get_data("search"),
        code.get_data("data_manager"),
    ):
        with pytest.raises(ToolFailedError, match=r"^Query failed: no such table: protein") as caught:
            await question
        assert caught.value.message == answer.error.message


async def test_what_came_instead_of_rows_is_quoted() -> None:
    code = CodeMode(Tools(search=STAGED, data_manager=text("Please  log in\n\x1b[31mfirst.\n" + "x" * 1_000)))
    for question in (code.query_staged_data(ID, "SELECT 1"), code.get_data("data_manager")):
        with pytest.raises(ToolFailedError, match=r"It says: Please log in .?.?.?.?.?first\. x+") as caught:
            await question
        assert len(caught.value.message) < 400 and caught.value.message.isprintable()


async def test_a_glance_at_staged_data_is_not_taken_for_it() -> None:
    glance = f"Data Access ID: {ID}\nTable: protein\n\n| accession |\n|---|\n| P04637 |"
    code = CodeMode(Tools(search=text(glance), data_manager={"rows": ROWS}))
    assert (await code.invoke("search")).rows == ROWS[:1]
    assert await code.get_data("search") == ROWS


async def test_staged_data_without_a_table_are_the_answer() -> None:
    preview = f"Data Access ID: {ID}\n\n| accession |\n|---|\n| P04637 |"
    block = f'Data Access ID: {ID}\n```json\n{{"entities": 25}}\n```'
    envelope = {"data": {"dataAccessId": ID, "entities": 25}, "metadata": {"status": "staged"}}
    answers = {
        "preview": text(preview),
        "block": text(block),
        "envelope": envelope,
        "id": text(f"Staged: {ID}"),
    }
    code = CodeMode(Tools(**answers, data_manager={"rows": ROWS}))
    assert await code.get_data("block") == {"entities": 25}
    assert await code.get_data("envelope") == {"dataAccessId": ID, "entities": 25}
    for name in ("preview", "id"):
        answer = await code.get_data(name)
        assert (answer.data_access_id, answer.table) == (ID, None)
        assert await answer.query("SELECT * FROM protein") == ROWS


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"dataAccessId": {}, "entities": {}, "accession": {}}},
        {"properties": {"data": {"properties": {"dataAccessId": {}, "entities": {}, "accession": {}}}, "display": {}}},
        {"properties": {"result": {"$ref": "#/$defs/Found"}},
         "$defs": {"Found": {"properties": {"dataAccessId": {}, "entities": {}, "accession": {}}}}},
    ],
    ids=["plain", "dual mode", "wrapped"],
)  # fmt: skip
async def test_the_expected_fields_are_those_of_the_output_schema(schema: dict[str, Any]) -> None:
    tools = Tools(
        plain=text(ANSWERS["all of it"].text + "\nAccession: P04637"), none=text("Accession: P04637")
    )

    async def list_tools() -> list[Any]:
        described = {"plain": {"type": "object", **schema}, "none": None}
        return [
            mcp.types.Tool(name=name, input_schema={"type": "object"}, output_schema=output)
            for name, output in described.items()
        ]

    tools.list_tools = list_tools  # type: ignore[method-assign]
    code = CodeMode(tools)
    answer = await code.invoke("plain")
    assert answer.fields == {"dataAccessId": ID, "entities": 25, "accession": "P04637"}
    assert (await code.invoke("plain", expected_fields=["entities"])).fields == {"entities": 25}
    assert (await code.invoke("plain", expected_fields=[])).fields == {}
    assert (await code.invoke("none", return_format="parsed")).fields == {}


@pytest.mark.parametrize(
    "schema",
    [
        None, {}, 5, {"properties": 5}, {"properties": {"result": {"type": "string"}}},
        {"properties": {"result": {"$ref": "elsewhere"}}}, {"$ref": "#/$defs/x"},
    ],
)  # fmt: skip
def test_a_schema_without_names_expects_nothing(schema: Any) -> None:
    assert field_names(schema) == []


async def test_without_rest_all_staged_rows_are_read_by_the_data_manager(
    sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> None:
    engine = make_engine(sqlite_url)
    await fill(engine)
    async with DualResponseServer(engine, base_url="http://127.0.0.1:1/resources", tables=Base) as dual:
        server = MCPServer("schools")

        @dual.tool(server)
        def pairs() -> Select[int, int]:
            """Pairs of schools."""
            other = aliased(School)
            return select(School.id.label("one"), other.id.label("other")).join(other, School.id != other.id)

        add_data_manager(dual, server)
        async with mcp.Client(server) as client:
            code = CodeMode(client)
            rows = await code.get_data("pairs")
            answer = await code.invoke("pairs")
            count = await answer.query("SELECT count(*) AS n FROM data")
            staged = await code.query_staged_data(
                answer.response.resource_uri, "SELECT other, one FROM data ORDER BY other DESC, one"
            )
    ids = [school["id"] for school in SCHOOLS]
    expected = {(one, other) for one in ids for other in ids if one != other}
    assert len(expected) > 300
    assert len(rows) == len(expected) and {(row["one"], row["other"]) for row in rows} == expected
    assert count == [{"n": len(expected)}]
    ordered = sorted(expected, key=lambda pair: (-pair[1], pair[0]))
    assert [(row["one"], row["other"]) for row in staged] == ordered


async def test_a_data_manager_whose_pages_never_end_is_given_up() -> None:
    page = text("x", structured_content={"rows": ROWS, "hasMore": True, "nextCursor": "same"})
    tools = Tools(search=STAGED, data_manager=page)

    async def list_tools() -> list[Any]:
        schema = {"type": "object", "properties": {"cursor": {}, "offset": {}}}
        return [mcp.types.Tool(name="data_manager", input_schema=schema)]

    tools.list_tools = list_tools  # type: ignore[method-assign]
    with pytest.raises(ToolFailedError, match="same page repeatedly"):
        await CodeMode(tools).get_data("search")


async def test_rows_that_were_cut_are_not_taken_for_all() -> None:
    for more in ({"hasMore": True}, {"has_more": True}, {"truncated": True}):
        tools = Tools(search=STAGED, data_manager=text("x", structured_content={"rows": ROWS, **more}))
        with pytest.raises(NotConfiguredError):
            await CodeMode(tools).query_staged_data(ID, "SELECT * FROM protein")


@pytest.mark.parametrize(
    "table", ["protein; DROP TABLE x", "protein--", "a b", "x" * 100, "(SELECT 1)", '"p"']
)
async def test_a_hostile_table_name_is_written_into_no_statement(table: str) -> None:
    staged = {"data": {"dataAccessId": ID, "table": table}, "metadata": {"status": "staged"}}
    tools = Tools(search=staged, data_manager=STAGED)
    with pytest.raises(ToolFailedError, match="cannot be used in a statement"):
        await CodeMode(tools).get_data("search")
    assert [name for name, _ in tools.calls] == ["search"]


async def test_what_cannot_be_queried_or_fetched_says_so() -> None:
    code = CodeMode(Tools(search=STAGED, found=structured(), plain={"rows": ROWS}, none=text("Hm.")))
    with pytest.raises(NotConfiguredError):
        await code.get_data("search")
    with pytest.raises(NotConfiguredError):
        await code.get_data("found")
    with pytest.raises(ToolFailedError, match="staged no data"):
        await (await code.invoke("plain", return_format="parsed")).query("SELECT 1")
    with pytest.raises(ToolFailedError, match="no readable data"):
        await code.get_data("none")


@pytest.mark.parametrize(
    "data",
    [
        None, 5, "x", [1, 2], [{"a": 1}, 2], {"rows": 5}, {"rows": [[1, 2]], "columns": ["a"]},
        {"rows": [[1]], "columns": [5]}, {"rows": [[1, 2]], "columns": ["a", "a"]}, {"rows": [[1]], "columns": "a"},
        {"a": 1},
    ],
)  # fmt: skip
def test_what_is_no_table_has_no_rows(data: Any) -> None:
    assert rows_in(data) is None


@dataclass(frozen=True)
class Site:
    """A server with tools and resources, over HTTP."""

    mcp_url: str
    base_url: str
    heard: list[dict[str, str]]


@pytest.fixture(params=["without", "with data_manager"])
async def site(
    request: pytest.FixtureRequest, sqlite_url: str, make_engine: Callable[[str], AsyncEngine]
) -> AsyncIterator[Site]:
    engine = make_engine(sqlite_url)
    await fill(engine)
    heard: list[dict[str, str]] = []
    with listening_socket() as port:
        origin = origin_of(port)
        dual = DualResponseServer(engine, base_url=f"{origin}/resources", tables=Base)
        tools = MCPServer("schools", lifespan=dual.lifespan)

        @dual.tool(tools, sample_size=3)
        def search_schools() -> Select[Any]:
            """Schools of a state."""
            return select(School).order_by(School.id)

        if request.param == "with data_manager":
            add_data_manager(dual, tools)

        @tools.tool()
        async def list_markets(context: mcp.server.mcpserver.Context) -> str:
            """Towns that hold markets."""
            headers = context.headers or {}
            heard.append({name: headers.get(name.lower(), "") for name in NEGOTIATION})
            return "| town |\n|---|\n| Trenton |"

        app = tools.streamable_http_app(stateless_http=True)
        app.mount("/resources", dual.router())
        async with serving(app, port):
            yield Site(f"{origin}/mcp", f"{origin}/resources", heard)


@asynccontextmanager
async def official(url: str) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(headers=NEGOTIATION) as http,
        mcp.Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(headers=NEGOTIATION) as http,
        streamable_http_client(url, http_client=http) as streams,
        mcp.ClientSession(*streams[:2]) as client,
    ):
        await client.initialize()
        yield client


@asynccontextmanager
async def fast(url: str) -> AsyncIterator[Any]:
    async with fastmcp.Client(StreamableHttpTransport(url, headers=dict(NEGOTIATION))) as client:
        yield client


@pytest.mark.quick(1)
@pytest.mark.parametrize("connect", [official, session, fast])
async def test_every_mcp_client_against_a_real_server(site: Site, connect: Callable[[str], Any]) -> None:
    async with connect(site.mcp_url) as client, DualResponseClient(site.base_url) as rows:
        code = CodeMode(client, rows)
        assert {"list_markets", "search_schools"} <= set(await code.list_tools())
        assert [tool.name for tool in await code.search_tools("shools")] == ["search_schools"]
        assert [tool.name for tool in await code.search_tools("towns market")] == ["list_markets"]
        assert await code.search_tools("payroll") == []
        described = await code.describe_tool("search_schools")
        assert described.input_schema is not None and described.output_schema is not None
        with pytest.raises(ToolFailedError, match="no tool"):
            await code.describe_tool("payroll")
        actual = await code.get_data("search_schools")
        assert [row["id"] for row in actual] == [school["id"] for school in SCHOOLS]
        answer = await code.invoke("search_schools")
        assert (answer.source, len(answer.rows)) == ("dual response", 3)
        assert await answer.query("SELECT count(*) AS n FROM data") == [{"n": len(SCHOOLS)}]
        assert answer.response is not None
        identifier = answer.response.resource_uri.rpartition("/")[2]
        for question in (rows, code):
            every = await question.query_staged_data(identifier, "SELECT id FROM data ORDER BY id")
            assert [row["id"] for row in every] == sorted(school["id"] for school in SCHOOLS)
        assert await code.get_data("list_markets") == [{"town": "Trenton"}]
    assert site.heard == [dict(NEGOTIATION)]
