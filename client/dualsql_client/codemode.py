"""Tools called by a program instead of a model (specification S8). It works with any MCP client and imports none.

In short:

    code = CodeMode(mcp_client, client)
    rows = await code.get_data("search_colleges", {"state": "NJ"})
    answer = await code.invoke("protein_search", {"query": "TP53"})
    if answer.data_access_id:
        rows = await answer.query(f"SELECT * FROM {answer.table} LIMIT 10")
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, overload

from dualsql_client.client import DualResponseClient
from dualsql_client.errors import ToolFailedError
from dualsql_client.markdown import ParseStrategy
from dualsql_client.tool_answers import (
    ToolAnswer,
    ToolDescription,
    is_failed,
    list_all,
    parameters_error,
    quoted,
    read_answer,
    search,
)
from dualsql_client.wire import Row

ReturnFormat = Literal["auto", "parsed", "raw"]

NEGOTIATION: Mapping[str, str] = MappingProxyType(
    {"X-Response-Format": "json", "X-Execution-Context": "code"}
)
"""The headers of a program. `CodeMode` sends them as `_meta` of each call, which servers of dualsql read; a server that
reads headers only gets them from the HTTP client, or the transport, that the MCP client sends with."""

DATA_MANAGER = "data_manager"
STAGED_ROWS = 100
"""Rows that `get_data` reads of staged data, as specification S8 has it."""

_TABLE = re.compile(r"[^\W\d]\w{0,62}(?:\.[^\W\d]\w{0,62}){0,2}")


class CodeMode:
    """Calls the tools of one MCP server.

    Args:
        mcp_client: mcp.Client, mcp.ClientSession, fastmcp.Client, or any object with `call_tool(name, arguments)`,
            and `list_tools()` if the tools are asked for. Connected, and the caller's to close.
        client: reads dual responses, and fetches their rows; without one they are parsed and not fetched.
    """

    def __init__(self, mcp_client: Any, client: DualResponseClient | None = None) -> None:
        # fastmcp's call_tool raises on errors, and makes objects of what a program would rather have as it is.
        self._call = getattr(mcp_client, "call_tool_mcp", None) or mcp_client.call_tool
        self._list = getattr(mcp_client, "list_tools_mcp", None) or getattr(mcp_client, "list_tools", None)
        self._client = client or DualResponseClient()
        self._options = _negotiating_options(self._call)
        self._tools: dict[str, ToolDescription] | None = None

    @overload
    async def invoke(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        return_format: Literal["parsed"],
        parse_strategy: ParseStrategy = "conservative",
        expected_fields: Sequence[str] = (),
    ) -> ToolAnswer: ...
    @overload
    async def invoke(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        return_format: ReturnFormat = "auto",
        parse_strategy: ParseStrategy = "conservative",
        expected_fields: Sequence[str] = (),
    ) -> Any: ...

    async def invoke(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        return_format: ReturnFormat = "auto",
        parse_strategy: ParseStrategy = "conservative",
        expected_fields: Sequence[str] = (),
    ) -> Any:
        """Call a tool. A failure of the tool is in the answer; exceptions of the MCP client are not caught.

        Args:
            return_format: "parsed" for a ToolAnswer; "raw" for what the MCP client returned; "auto" for a ToolAnswer
                where anything could be read, else for the raw result.
            parse_strategy: how a text is read, see `parse_markdown`.
            expected_fields: names of values that the answer should have, for `fields` and `missing`.
        """
        raw = await self._call(tool, dict(arguments or {}), **self._options)
        if return_format == "raw":
            return raw
        answer = read_answer(
            tool,
            raw,
            response=self._client.parse(raw),
            strategy=parse_strategy,
            expected_fields=expected_fields,
            query=self._query,
        )
        if answer.error is not None and answer.source in {"nothing", "markdown"} and is_failed(raw):
            answer = await self._with_parameters(answer, arguments or {})
        return raw if return_format == "auto" and answer.source == "nothing" and answer.success else answer

    async def get_data(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The rows of a tool's answer: all of a dual response, the first hundred of staged data, or those in it.

        Rows beside staged data are a preview and not returned. An answer that is no table is returned as the
        answer's data.

        Raises:
            ToolFailedError: the tool failed, or its answer has no data that could be read.
            NotConfiguredError, FetchError: a dual response's rows could not be fetched.
        """
        answer = await self.invoke(tool, arguments, return_format="parsed", parse_strategy="aggressive")
        if answer.error is not None:
            raise answer.error
        if answer.response is not None:
            return await answer.response.fetch_all()
        if answer.data_access_id is not None:
            if answer.table is None or not _TABLE.fullmatch(answer.table):
                raise ToolFailedError(
                    f"The name of the data that {tool} has staged cannot be used in a statement.",
                    hint="Write the statement and call query_staged_data().",
                )
            return await self.query_staged_data(
                answer.data_access_id,
                f"SELECT * FROM {answer.table} LIMIT {STAGED_ROWS}",  # noqa: S608 - a name, and the server's own
            )
        found = answer.data if answer.rows is None else answer.rows
        if found is None:
            raise ToolFailedError(
                f"The answer of {tool} contains no readable data.{quoted(answer)}",
                hint="Look at what invoke() returns.",
            )
        return found

    async def query_staged_data(self, data_access_id: str, sql: str) -> list[Row]:
        """All rows of a statement over staged data, by the server's `data_manager`, or over REST if there is none.

        A `data_manager` that says it has more rows than it gave is not believed to be done: all are read over REST.

        Raises:
            ToolFailedError: the server refused, or answered no rows.
            NotConfiguredError, FetchError: over REST.
        """
        if DATA_MANAGER not in await self._tools_by_name():
            return await self._client.query_staged_data(data_access_id, sql)
        asked = {"operation": "query", "data_access_id": data_access_id, "sql": sql}
        answer = await self.invoke(DATA_MANAGER, asked, return_format="parsed")
        if answer.error is not None:
            raise answer.error
        if answer.response is not None:
            return await answer.response.fetch_all()
        if answer.rows is None:
            raise ToolFailedError(
                f"The answer of the server's data_manager contains no readable rows.{quoted(answer)}"
            )
        if answer.has_more:
            return await self._client.query_staged_data(data_access_id, sql)
        return answer.rows

    async def list_tools(self) -> list[str]:
        """The names of the server's tools."""
        return list(await self._tools_by_name())

    async def search_tools(self, query: str, *, limit: int = 20) -> list[ToolDescription]:
        """The tools whose name or description has the words of `query`, the best first."""
        return search((await self._tools_by_name()).values(), query)[:limit]

    async def describe_tool(self, tool: str) -> ToolDescription:
        """A tool's description with the schemas of its arguments and of its answer.

        Raises:
            ToolFailedError: the server has no such tool.
        """
        tools = await self._tools_by_name()
        if tool not in tools:
            raise ToolFailedError(
                f"The server has no tool {tool[:100]!r}.", hint=f"It has: {', '.join(list(tools)[:20])}."
            )
        return tools[tool]

    async def _with_parameters(self, answer: ToolAnswer, arguments: Mapping[str, Any]) -> ToolAnswer:
        """The answer whose error says what was wrong with the arguments, if that is what its text is about.

        An SDK refuses arguments in a validator's words. The tool's own schema says the same to a program.
        """
        described = (await self._tools_by_name()).get(answer.tool)
        found = None if described is None else parameters_error(arguments, described.input_schema or {})
        return answer if found is None else replace(answer, error=found)

    async def _query(self, answer: ToolAnswer, sql: str) -> list[Row]:
        if answer.response is not None:
            return await answer.response.sql_all(sql)
        assert answer.data_access_id is not None
        return await self.query_staged_data(answer.data_access_id, sql)

    async def _tools_by_name(self) -> dict[str, ToolDescription]:
        if self._tools is None:
            listed = [] if self._list is None else await list_all(self._list)
            self._tools = {tool.name: tool for tool in listed}
        return self._tools


def _negotiating_options(call: Any) -> dict[str, Any]:
    """The negotiation headers as a keyword argument of `call`: `_meta` of each call, over any transport."""
    try:
        names = inspect.signature(call).parameters
    except (TypeError, ValueError):  # a callable that tells nothing of itself
        return {}
    return {name: dict(NEGOTIATION) for name in ("headers", "meta") if name in names}
