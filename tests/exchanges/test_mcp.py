"""The model's half: every tool, resource, prompt and completion, on the official SDK and on fastmcp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import fastmcp
import mcp
import pytest
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, PromptReference, ResourceTemplateReference
from sqlalchemy import bindparam, func, literal, select
from typing_extensions import TypedDict

from dualsql.catalogue.mcp import add_catalogue
from dualsql.errors import ForbiddenError
from dualsql.features import DualResponseServer
from dualsql.mcp.decorators import plain_tool
from dualsql.mcp.resources import add_resources, system_prompt
from dualsql.mcp.results import Answer
from dualsql.mcp.tasks import Tasks
from dualsql.query.mcp import add_data_manager, add_result_tools
from dualsql.saved_queries import SavedQuery
from dualsql.sql.mcp import add_execute_query, add_query
from tests.exchanges.recording import Exchanges
from tests.exchanges.subject import chart_of, delete, make_server, pin
from tests.schools import Program, School
from tests.waiting import until

SDKS = ("official", "fastmcp")
PLAIN: Any = select(School.id, School.name, School.state, School.enrollment, School.founded).order_by(
    School.id
)
QUERIES = [
    SavedQuery(
        "schools_in_state",
        select(School.id, School.name).where(School.state == bindparam("state")).order_by(School.id),
        description="Schools of a state.",
    ),
    SavedQuery("all_programs", select(Program)),
]

_forever = select(literal(1).label("n")).cte("forever", recursive=True)
FOREVER = select(func.count().label("n")).select_from(_forever.union_all(select(_forever.c.n)))


class Figures(TypedDict):
    """What a plain tool returns."""

    schools: int
    states: list[str]


@dataclass(frozen=True)
class Caller:
    """A connected client whose exchanges are taken down."""

    session: Any
    exchanges: Exchanges

    async def ask(self, method: str, *args: Any, **options: Any) -> Any:
        """Ask by the client's method of that name, the plain one of the protocol where there are two."""
        asked = f"{method} {' '.join(str(arg) for arg in args)} {options or ''}".strip()
        bound = getattr(self.session, f"{method}_mcp", None) or getattr(self.session, method)
        try:
            actual = await bound(*args, **options)
        except MCPError as refused:
            self.exchanges.add(asked, {"error": refused.error.model_dump(mode="json", exclude_none=True)})
            return None
        self.exchanges.add(asked, plain(actual))
        return actual

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool."""
        return await self.ask("call_tool", tool, arguments)


def plain(found: Any) -> Any:
    """A result of the protocol as JSON; what an SDK says of itself is left out."""
    said = found.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(said.get("_meta"), dict):
        said["_meta"] = {k: v for k, v in said["_meta"].items() if "serverInfo" not in k and k != "fastmcp"}
    return said


def new_server(sdk: str) -> Any:
    """A server of the SDK."""
    return fastmcp.FastMCP("schools") if sdk == "fastmcp" else MCPServer("schools")


@asynccontextmanager
async def calling(sdk: str, server: Any, exchanges: Exchanges, **options: Any) -> AsyncIterator[Caller]:
    """A client of the SDK at the server."""
    introduced = Implementation(name="a-host", version="1")
    client: Any = (
        fastmcp.Client(server, client_info=introduced, **options)
        if sdk == "fastmcp"
        else mcp.Client(server, client_info=introduced, **options)
    )
    async with client as session:
        yield Caller(session, exchanges)


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
async def dual(sqlite_schools: str) -> AsyncIterator[DualResponseServer]:
    """A server of the schools; no engine makes a difference to a tool."""
    async with make_server(sqlite_schools, queries=QUERIES, count_budget=timedelta(seconds=60)) as dual:
        yield dual


def add_tools(dual: DualResponseServer, server: Any) -> None:  # noqa: C901 - they are many, and each is short
    """Tools whose functions take and return all that functions may."""

    @dual.tool(server, title="Schools", sample_size=3)
    def search_schools(state: str, least: int = 0, kind: Literal["all", "open"] = "all") -> Any:
        """Schools of a state.

        Args:
            state: such as NJ.
            least: the fewest who are enrolled.
        """
        statement = PLAIN.where(School.state == state, School.enrollment >= least)
        return statement.where(School.is_open) if kind == "open" else statement

    @dual.tool(server, name="everything", description="All of them.", count="none", profile="sample")
    async def list_everything() -> Answer:
        return Answer(
            select(School).order_by(School.id), name="All", description="Figures of 2025.", sample_size=2
        )

    @dual.tool(
        server, results_format="columnar", text_format="csv", links="text", sample="tail", sample_size=2
    )
    def as_columns() -> Any:
        return PLAIN

    @dual.tool(server, text_format="json", sample_size=2, links="auto")
    def as_json() -> Any:
        return PLAIN

    @dual.tool(server)
    def no_rows() -> Any:
        return PLAIN.where(School.id < 0)

    @dual.tool(server)
    def refused() -> Any:
        raise ForbiddenError("Not on Sundays.", hint="Come on Monday.")

    @dual.tool(server)
    def broken() -> Any:
        raise RuntimeError("the password is hunter2")

    @dual.tool(server)
    def no_select() -> Any:
        return [1, 2]

    @dual.tool(server)
    async def chart() -> Any:
        response = await dual.create_response(PLAIN, name="Schools")
        return await chart_of(dual, response, {"mark": "bar", "x": "state", "y": {"aggregate": "count"}})

    @dual.tool(server, wait=timedelta(milliseconds=10))
    def slow() -> Any:
        return FOREVER

    @plain_tool(dual, server)
    def figures() -> Figures:
        """Figures of all schools."""
        return {"schools": 23, "states": ["NJ", "NY"]}

    @plain_tool(dual, server)
    def broken_figures() -> Figures:
        raise ValueError("the password is hunter2")


async def listed(caller: Caller) -> None:
    """Every tool as it is published, each an exchange of its own."""
    tools = await caller.session.list_tools()
    for tool in sorted(getattr(tools, "tools", tools), key=lambda tool: tool.name):
        caller.exchanges.add(f"tools/list {tool.name}", plain(tool))


async def test_tools(dual: DualResponseServer, sdk: str, exchanges: Exchanges) -> None:
    server = new_server(sdk)
    add_tools(dual, server)
    async with calling(sdk, server, exchanges) as caller:
        await listed(caller)
        for arguments in (
            {"state": "NJ"},
            {"state": "NJ", "least": 1, "kind": "open"},
            {"state": "XX"},
            {},
            {"state": 1},
            {"state": "NJ", "least": "many"},
            {"state": "NJ", "kind": "closed"},
            {"state": "NJ", "nonsense": 1},
        ):
            await caller.call("search_schools", **arguments)
        for tool in (
            "everything", "as_columns", "as_json", "no_rows", "refused", "broken", "no_select", "chart", "slow",
            "figures", "broken_figures", "nonsense",
        ):  # fmt: skip
            await caller.call(tool)


async def test_sql(dual: DualResponseServer, sdk: str, exchanges: Exchanges) -> None:
    server = new_server(sdk)
    add_execute_query(dual, server, sample_size=3)
    add_query(dual, server)
    async with calling(sdk, server, exchanges) as caller:
        await listed(caller)
        for arguments in (
            {"query": "SELECT id, name FROM schools ORDER BY id"},
            {"query": "SELECT id, name FROM schools ORDER BY id", "limit": 2},
            {"query": "SELECT id FROM schools WHERE state = :state", "parameters": {"state": "NJ"}},
            {"query": "SELECT id FROM schools WHERE state = :state"},
            {"query": "SELECT id FROM schools", "source_name": "default"},
            {"query": "SELECT id FROM schools", "source_name": "other"},
            {"query": "SELECT id FROM school"},
            {"query": "SELECT idd FROM schools"},
            {"query": "SELECT id FROM sqlite_master"},
            {"query": "DROP TABLE schools"},
            {"query": "SELEC"},
            {"query": "SELECT id FROM schools", "limit": 0},
            {"query_name": "schools_in_state", "parameters": {"state": "NJ"}},
            {"query_name": "schools_in_state"},
            {"query_name": "schools_in_state", "parameters": {"state": "NJ", "nonsense": 1}},
            {"query_name": "schools_in_stat"},
            {"query_name": "all_programs", "query": "SELECT 1"},
            {},
        ):
            await caller.call("execute_query", **arguments)
        for sql in ("SELECT state, count(*) AS n FROM schools GROUP BY state", "SELECT 1; SELECT 2", ""):
            await caller.call("query", sql=sql)


async def test_results(dual: DualResponseServer, sdk: str, exchanges: Exchanges) -> None:
    server = new_server(sdk)
    add_result_tools(dual, server, sample_size=3)
    uri = (await dual.create_response(PLAIN, name="Schools")).resource_uri
    in_nj = [{"column": "state", "op": "eq", "value": "NJ"}]
    async with calling(sdk, server, exchanges) as caller:
        await listed(caller)
        for arguments in (
            {"aggregates": ["count"]},
            {
                "group_by": ["state"],
                "aggregates": [{"function": "avg", "column": "enrollment", "as": "mean"}],
            },
            {"filters": in_nj, "columns": ["id"], "order_by": [{"column": "id", "order": "desc"}]},
            {
                "group_by": ["state"],
                "aggregates": ["count"],
                "having": [{"column": "count", "op": "gt", "value": 4}],
            },
            {"limit": 2, "offset": 1},
            {"sql": "SELECT count(*) AS n FROM data"},
            {"sql": "SELECT count(*) AS n FROM data", "filters": in_nj},
            {"filters": [{"column": "stat", "op": "eq", "value": "NJ"}]},
            {"filters": [{"column": "state", "op": "is", "value": "NJ"}]},
            {"aggregates": ["mode"]},
            {"limit": 0},
        ):
            await caller.call("query_result", resource=uri, **arguments)
        for arguments in (
            {"filters": in_nj},
            {"columns": ["id", "name"], "order_by": ["name"], "limit": 2},
            {"sql": "SELECT id FROM data WHERE id < 3"},
            {"columns": ["nonsense"]},
            {"offset": -1},
        ):
            await caller.call("refine_result", resource=uri, **arguments)
        await caller.call("query_result", resource="resource://nothing", limit=1)
        await caller.call("refine_result", resource="q4T-9_hXv2ZkLwPmB7sYd1RcE0a", limit=1)


async def test_staged_data(dual: DualResponseServer, sdk: str, exchanges: Exchanges) -> None:
    server = new_server(sdk)
    add_data_manager(dual, server)
    response = await dual.create_response(PLAIN, name="Schools")
    async with calling(sdk, server, exchanges) as caller:
        await listed(caller)
        for arguments in (
            {"operation": "schema", "data_access_id": response.resource_id},
            {
                "operation": "query",
                "data_access_id": response.resource_uri,
                "sql": "SELECT id FROM data",
                "limit": 2,
            },
            {"operation": "query", "data_access_id": response.resource_id, "sql": "SELECT id FROM other"},
            {"operation": "query", "data_access_id": response.resource_id},
            {"operation": "query"},
            {"operation": "list"},
            {"operation": "drop"},
        ):
            await caller.call("data_manager", **arguments)


async def test_the_catalogue(dual: DualResponseServer, sdk: str, exchanges: Exchanges) -> None:
    server = new_server(sdk)
    add_catalogue(dual, server)
    async with calling(sdk, server, exchanges) as caller:
        await listed(caller)
        await caller.ask("list_resources")
        await caller.ask("list_resource_templates")
        for uri in (
            "catalog://default/catalog",
            "catalog://default/catalog/contents",
            "catalog://default/schema/default",
            "catalog://default/schema/default/contents",
            "catalog://default/schema/default/table/schools",
            "catalog://default/schema/default/table/programs",
            "catalog://default/query/schools_in_state",
            "catalog://default/query/nothing",
            "catalog://default/schema/default/table/nothing",
            "catalog://other/catalog",
            "catalog://default/nonsense",
        ):
            await caller.ask("read_resource", uri)
        within = {"source": "default", "schema": "default"}
        for template, name, value, given in (
            ("catalog://{source}/schema/{schema}/table/{table}", "source", "", None),
            ("catalog://{source}/schema/{schema}/table/{table}", "table", "s", within),
            ("catalog://{source}/query/{query}", "query", "sch", None),
            ("other://{x}", "x", "", None),
        ):  # fmt: skip
            reference = ResourceTemplateReference(uri=template)
            await caller.ask("complete", reference, {"name": name, "value": value}, given)
        for tool, arguments in (
            ("list_tables", {}),
            ("list_tables", {"source_name": "default"}),
            ("list_tables", {"nonsense": 1}),
            ("describe_table", {"table": "schools"}),
            ("describe_table", {"table_name": "schools"}),
            ("describe_table", {"table": "scools"}),
            ("describe_table", {}),
            ("search_catalog", {"query": "enrollment"}),
            ("search_catalog", {"query": "nothing of that kind"}),
            ("search_catalog", {}),
        ):
            await caller.call(tool, **arguments)


async def test_stored_results_as_resources(dual: DualResponseServer, sdk: str, exchanges: Exchanges) -> None:
    server = new_server(sdk)
    add_resources(dual, server, page_size=2)
    response = await dual.create_response(PLAIN, name="Schools")
    async with calling(sdk, server, exchanges) as caller:
        capabilities = caller.session.server_capabilities
        exchanges.add("capabilities", capabilities.model_dump(mode="json", by_alias=True, exclude_none=True))
        await caller.ask("list_resources")
        await caller.ask("list_resource_templates")
        await caller.ask("read_resource", response.resource_uri)
        await caller.ask("read_resource", "resource://q4T-9_hXv2ZkLwPmB7sYd1RcE0a")
        await caller.ask("read_resource", "resource://nothing")
        await caller.ask("read_resource", "other://nothing")
        await caller.ask("list_prompts")
        await caller.ask("get_prompt", "use_dual_responses")
        await caller.ask("get_prompt", "nothing")
        await caller.ask("complete", PromptReference(name="use_dual_responses"), {"name": "x", "value": ""})
        await pin(dual, response)
        await caller.ask("read_resource", response.resource_uri)
        await delete(dual, response)
        await caller.ask("read_resource", response.resource_uri)
    exchanges.add("system_prompt", {"text": system_prompt(dual)})


async def test_subscriptions(dual: DualResponseServer, exchanges: Exchanges) -> None:
    server: MCPServer[Any] = MCPServer("schools")
    add_resources(dual, server)
    response = await dual.create_response(PLAIN, name="Schools")
    async with (
        mcp.Client(server) as client,
        client.listen(resource_subscriptions=[response.resource_uri]) as stream,
    ):
        exchanges.add("listen", {"honored": list(stream.honored.resource_subscriptions or [])})
        events = aiter(stream)
        for name, change in (("pinned", pin), ("deleted", delete)):
            await change(dual, response)
            exchanges.add(name, str(await asyncio.wait_for(anext(events), 60)))


async def test_tasks(dual: DualResponseServer, exchanges: Exchanges) -> None:
    from fastmcp_tasks.client import TasksClientExtension
    from fastmcp_tasks.client_models import (
        CancelTaskRequest,
        ClientGetTaskResult,
        GetTaskRequest,
        GetTaskRequestParams,
    )
    from mcp_types import Result

    server = MCPServer("schools", extensions=[Tasks(dual, wait=timedelta(milliseconds=10))])

    @dual.tool(server)
    def run_forever() -> Any:
        return FOREVER

    async with mcp.Client(server, extensions=[TasksClientExtension()]) as client:
        task: Any = await client.session.call_tool("run_forever", {}, allow_claimed=True)
        exchanges.add("call", plain(task))
        parameters = GetTaskRequestParams(task_id=task.task_id)

        async def standing() -> ClientGetTaskResult:
            return await client.session.send_request(GetTaskRequest(params=parameters), ClientGetTaskResult)

        exchanges.add("tasks/get", plain(await standing()))
        await client.session.send_request(CancelTaskRequest(params=parameters), Result)
        actual = await until(standing, lambda task: task.status != "working")
        exchanges.add("tasks/get, once it was cancelled", plain(actual))


async def test_several_databases(sqlite_schools: str, sdk: str, exchanges: Exchanges) -> None:
    async with AsyncExitStack() as stack:
        databases = {"here": sqlite_schools, "there": sqlite_schools}
        dual = await stack.enter_async_context(make_server(databases))
        server = new_server(sdk)
        add_execute_query(dual, server, sample_size=1)
        add_catalogue(dual, server)
        caller = await stack.enter_async_context(calling(sdk, server, exchanges))
        await listed(caller)
        for arguments in (
            {"query": "SELECT id FROM schools"},
            {"query": "SELECT id FROM schools", "source_name": "there"},
            {"query": "SELECT id FROM schools", "source_name": "nowhere"},
        ):
            await caller.call("execute_query", **arguments)
        await caller.call("list_tables", source_name="there")
        await caller.call("list_tables")
