"""The client for an application's tests: both SDKs, callers with and without a name, tools that fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp.server import MCPServer
from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.testclient import TestClient

from dualsql import BadParameterError, ConfigurationError, DualResponseServer, Principal
from dualsql.identity import static_tokens
from dualsql.serve import serve_app
from dualsql.testing import tool_client
from dualsql_client import ParseError, ToolFailedError
from tests.http.application import BASE_URL, INSTITUTIONS, METADATA, fill

ANA = {"Authorization": "Bearer token-of-ana"}


@pytest.fixture
async def institutions_url(sqlite_url: str, make_engine: Callable[[str], AsyncEngine]) -> str:
    """The URL of a database that holds sixty institutions."""
    await fill(make_engine(sqlite_url))
    return sqlite_url


@pytest.fixture(params=[MCPServer, FastMCP])
def mcp(request: pytest.FixtureRequest) -> Any:
    """An empty server of each SDK."""
    return request.param("institutions")


@pytest.fixture
def dual(institutions_url: str, mcp: Any) -> DualResponseServer:
    """A server with three tools."""
    dual = DualResponseServer(
        institutions_url,
        base_url=BASE_URL,
        tables=METADATA,
        authenticate=static_tokens({"token-of-ana": Principal(id="ana", tenant="acme")}),
    )

    @dual.tool(mcp)
    def of_state(state: str) -> Select[Any]:
        if len(state) != 2:
            raise BadParameterError("That is no state.", hint="Two letters.")
        return select(INSTITUTIONS).where(INSTITUTIONS.c.state == state)

    @dual.tool(mcp)
    def own(caller: Principal) -> Select[Any]:
        assert caller == Principal(id="ana", tenant="acme")
        return select(INSTITUTIONS)

    def greeting() -> str:
        return "hello"

    mcp.tool()(greeting)

    return dual


async def test_rows_come_over_rest(dual: DualResponseServer, mcp: Any) -> None:
    async with tool_client(dual, mcp) as tools:
        result = await tools.call("of_state", state="NJ")
        assert result.total_count == len(await result.fetch_all()) == 20
        assert (await tools.http.get(str(result.resource_url))).json()["total_count"] == 20


async def test_callers_are_those_of_authenticate(dual: DualResponseServer, mcp: Any) -> None:
    async with tool_client(dual, mcp, headers=ANA) as ana:
        result = await ana.call("own")
        assert len(await result.fetch_all()) == 60
        async with tool_client(dual, mcp) as nobody:
            assert (await nobody.http.get(str(result.resource_url))).status_code == 404
            with pytest.raises(ToolFailedError) as error:
                await nobody.call("own")
    assert error.value.code == "UNAUTHENTICATED"


async def test_a_tool_that_fails_raises_what_the_model_reads(dual: DualResponseServer, mcp: Any) -> None:
    async with tool_client(dual, mcp) as tools:
        with pytest.raises(ToolFailedError, match="no state") as error:
            await tools.call("of_state", state="New Jersey")
        assert (error.value.code, error.value.hint) == ("BAD_PARAMETER", "Two letters.")
        with pytest.raises(ToolFailedError, match="state"):
            await tools.call("of_state", stat="NJ")
        with pytest.raises(ParseError):
            await tools.call("greeting")
        assert "hello" in str((await tools.result("greeting")).content)


async def test_a_second_start_in_another_loop_fails_alone(dual: DualResponseServer) -> None:
    mcp = MCPServer("own")

    @dual.tool(mcp)
    def everything() -> Select[Any]:
        return select(INSTITUTIONS)

    app = serve_app(dual, mcp)
    async with tool_client(dual, mcp, app=app) as tools:
        with pytest.raises(ConfigurationError, match="runs in another event loop"), TestClient(app):
            pass
        assert (await tools.call("everything")).total_count == 60


async def test_another_object_is_no_server(dual: DualResponseServer) -> None:
    with pytest.raises(ConfigurationError, match="object"):
        async with tool_client(dual, object()):
            pass


def test_without_pytest_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None; import dualsql.testing"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install pytest" in ended.stderr
