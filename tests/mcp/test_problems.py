"""What a tool answers when it cannot: clear words of ours, and not one of a database's or of a stranger's exception."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import fastmcp.exceptions
import mcp.server.mcpserver.exceptions
import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS
from sqlalchemy import exc, func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from dualsql import BadParameterError, DualResponseServer, UnknownColumnError
from dualsql.mcp import Answer
from tests.mcp.conftest import Host, MakeDual, text_of, wire_of
from tests.schools import School
from tests.waiting import wait_until_logged

SECRET = "postgresql://admin:hunter2@db.internal/tenants"


def database_error(*, connection_invalidated: bool = False) -> exc.DBAPIError:
    """What a driver might raise, with what it might say."""
    return exc.OperationalError(
        f"SELECT '{SECRET}'", {"x": SECRET}, Exception(SECRET), connection_invalidated=connection_invalidated
    )


def raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


FOREIGN = {
    "a value": ValueError(SECRET),
    "a key": KeyError(SECRET),
    "of the system": ConnectionRefusedError(111, SECRET),
    "too long": TimeoutError(SECRET),
    "a group": ExceptionGroup(SECRET, [ValueError(SECRET)]),
    "an assertion": AssertionError(SECRET),
    "deep": RecursionError(SECRET),
    "no more": StopIteration(SECRET),
    "hidden by the SDK": mcp.server.mcpserver.exceptions.UnexpectedToolError(SECRET),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("error", FOREIGN.values(), ids=FOREIGN)
async def test_an_exception_that_is_not_ours_says_nothing(
    dual: DualResponseServer, host: Host, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = host.server()
    dual.tool(server, name="fails")(raising(error))
    with caplog.at_level(logging.ERROR, logger="dualsql.mcp.calls"):
        async with host.connected(server) as connection:
            result = await connection.call("fails")
    assert result.is_error
    assert "hunter2" not in wire_of(result)
    assert type(error).__name__ not in wire_of(result)
    assert result.structured_content is not None
    problem = result.structured_content["error"]
    assert problem["message"] == "The tool failed."
    assert problem["details"]["incident"] in problem["hint"]
    wait_until_logged()
    [record] = [each for each in caplog.records if each.name == "dualsql.mcp.calls"]
    assert problem["details"]["incident"] in record.getMessage()
    assert record.exc_info is not None
    assert "hunter2" in caplog.text, "the operator is told"


async def test_a_wrong_output_is_one_sentence_of_the_log(
    dual: DualResponseServer, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """Its traceback would be dualsql's own code."""
    server = host.server()

    @dual.tool(server)
    def wrong() -> Any:
        return "SELECT 1"

    async with host.connected(server) as connection:
        result = await connection.call("wrong")
    assert result.is_error
    [record] = [each for each in caplog.records if each.name == "dualsql.mcp.calls"]
    assert "the tool 'wrong' returned a str. Return a Select" in record.getMessage()
    assert record.exc_info is None


DATABASE = {
    "a statement": (database_error(), "QUERY_EXECUTION_FAILED"),
    "a connection": (database_error(connection_invalidated=True), "DATABASE_BUSY"),
    "a full pool": (exc.TimeoutError(SECRET), "DATABASE_BUSY"),
    "a wrong statement": (exc.ArgumentError(SECRET), "QUERY_EXECUTION_FAILED"),
    "no row": (exc.NoResultFound(SECRET), "QUERY_EXECUTION_FAILED"),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize(("error", "code"), DATABASE.values(), ids=DATABASE)
async def test_a_database_s_words_go_no_further(
    dual: DualResponseServer, host: Host, error: Exception, code: str
) -> None:
    server = host.server()
    dual.tool(server, name="fails")(raising(error))
    async with host.connected(server) as connection:
        result = await connection.call("fails")
    assert result.is_error
    assert "hunter2" not in wire_of(result)
    assert text_of(result).startswith(f"{code}: ")
    assert result.structured_content is not None
    assert result.structured_content["error"]["code"] == code


async def test_a_statement_that_the_database_refuses(
    make_dual: MakeDual, host: Host, schools: AsyncEngine
) -> None:
    server = host.server()
    make_dual().tool(server, name="fails")(lambda: select(func.json_extract(School.name, "no path")))
    async with host.connected(server) as connection:
        result = await connection.call("fails")
    assert result.is_error
    assert text_of(result).startswith(
        "QUERY_EXECUTION_FAILED: A function of the query reads a text as JSON that is none."
    )
    assert "no path" not in wire_of(result)
    assert "malformed" not in wire_of(result)


OURS = {
    "BAD_PARAMETER": BadParameterError("No state is called XX.", hint="Use NJ."),
    "UNKNOWN_COLUMN": UnknownColumnError("nam", ["id", "name"]),
}


@pytest.mark.parametrize("error", OURS.values(), ids=OURS)
async def test_our_errors_say_what_to_do(
    dual: DualResponseServer, host: Host, error: BadParameterError
) -> None:
    server = host.server()
    dual.tool(server, name="fails")(raising(error))
    async with host.connected(server) as connection:
        result = await connection.call("fails")
    assert result.is_error
    assert text_of(result) == f"{error.code}: {error.message} {error.hint}"
    assert result.structured_content == {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "details": error.details,
        }
    }


async def test_what_the_author_says_with_the_sdk_s_tool_error_is_said(
    dual: DualResponseServer, host: Host
) -> None:
    server = host.server()
    spoken = fastmcp.exceptions if host.is_fast else mcp.server.mcpserver.exceptions
    dual.tool(server, name="fails")(raising(spoken.ToolError("Ask\u202e for\na state.")))
    async with host.connected(server) as connection:
        result = await connection.call("fails")
    assert result.is_error
    assert text_of(result) == "TOOL_ERROR: Ask for a state."


async def test_errors_of_the_protocol_are_the_sdk_s(dual: DualResponseServer, host: Host) -> None:
    server = host.server()
    dual.tool(server, name="fails")(raising(MCPError(code=INVALID_PARAMS, message="not like this")))
    async with host.connected(server) as connection:
        if host.is_fast:  # it makes a result of them
            assert "not like this" in text_of(await connection.session.call_tool_mcp("fails", {}))
        else:
            with pytest.raises(MCPError, match="not like this"):
                await connection.session.call_tool("fails", {})


@pytest.mark.quick(4)
@pytest.mark.parametrize("returned", [None, "SELECT 1", [1], {"results": []}, School, Answer("SELECT 1")])  # type: ignore[arg-type]
async def test_what_is_no_statement_is_the_author_s_mistake(
    dual: DualResponseServer, host: Host, returned: Any
) -> None:
    server = host.server()
    dual.tool(server, name="fails")(lambda: returned)
    async with host.connected(server) as connection:
        assert (await connection.call("fails")).is_error
