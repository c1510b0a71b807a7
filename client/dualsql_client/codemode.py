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
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal, overload

from dualsql_client.budget import Budget, Retry
from dualsql_client.client import DualResponseClient
from dualsql_client.errors import NotConfiguredError, ToolFailedError
from dualsql_client.markdown import TABLE_NAME, ParseStrategy
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.tool_answers import (
    ToolAnswer,
    ToolDescription,
    beginning_of_answer,
    field_names,
    is_bare_text,
    is_failed,
    list_all,
    parameters_error,
    read_answer,
    search_tools,
)
from dualsql_client.wire import Row

ReturnFormat = Literal["auto", "parsed", "raw"]

NEGOTIATION: Mapping[str, str] = MappingProxyType(
    {"X-Response-Format": "json", "X-Execution-Context": "code"}
)
"""The headers of a program. `CodeMode` sends them as `_meta` of each call, which servers of dualsql read. For a server
that reads headers only, set them in the HTTP client or transport of the MCP client."""

DATA_MANAGER = "data_manager"
_PAGED = ("cursor", "offset")
STAGED_ROWS = 100
"""Rows that `get_data` reads of staged data, from specification S8."""


class CodeMode:
    """Calls the tools of one MCP server.

    Args:
        mcp_client: mcp.Client, mcp.ClientSession, fastmcp.Client, or any object with `call_tool(name, arguments)`,
            and `list_tools()` for the methods that list or describe tools. The caller connects and closes it.
        client: fetches the rows of dual responses; without one they are parsed only.
    """

    def __init__(self, mcp_client: Any, client: DualResponseClient | None = None) -> None:
        # fastmcp's call_tool raises on errors and converts results; call_tool_mcp does neither.
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
        parse_strategy: ParseStrategy = "aggressive",
        expected_fields: Sequence[str] | None = None,
    ) -> ToolAnswer: ...
    @overload
    async def invoke(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        return_format: ReturnFormat = "auto",
        parse_strategy: ParseStrategy = "aggressive",
        expected_fields: Sequence[str] | None = None,
    ) -> Any: ...

    async def invoke(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        return_format: ReturnFormat = "auto",
        parse_strategy: ParseStrategy = "aggressive",
        expected_fields: Sequence[str] | None = None,
    ) -> Any:
        """Call a tool. A failure of the tool is in the answer; exceptions of the MCP client are not caught.

        Args:
            return_format: "parsed" for a ToolAnswer; "raw" for the result of the MCP client; "auto" for a ToolAnswer if
                anything could be read, else for the raw result.
            parse_strategy: see `parse_markdown`.
            expected_fields: names of values that the answer should have, for `fields` and `missing`. By default, those
                in the tool's output schema if the answer is a text.
        """
        raw = await self._call(tool, dict(arguments or {}), **self._options)
        if return_format == "raw":
            return raw
        # The answer of a data manager has the id of the data that it was asked for, whose rows are others.
        response = None if tool == DATA_MANAGER else self._client.parse(raw)
        if expected_fields is None and response is None and is_bare_text(raw):
            described = (await self._tools_by_name()).get(tool)
            expected_fields = field_names(described.output_schema if described else None)
        answer = read_answer(
            tool,
            raw,
            response=response,
            strategy=parse_strategy,
            expected_fields=expected_fields or (),
            query=self._query,
        )
        if answer.error is not None and answer.source in {"nothing", "markdown"} and is_failed(raw):
            answer = await self._with_parameters(answer, arguments or {})
        return raw if return_format == "auto" and answer.source == "nothing" and answer.success else answer

    async def get_data(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The rows of a tool's answer: all of a dual response, the first hundred of staged data, or those in it.

        The rows in an answer with staged data are a preview and are not returned. Of an answer that is no table, the
        answer's data are returned, and of staged data without the name of a table the data, or the ToolAnswer, whose
        `query` takes a statement.

        Raises:
            ToolFailedError: the tool failed, or its answer has no data that could be read.
            NotConfiguredError, FetchError: a dual response's rows could not be fetched.
        """
        answer = await self.invoke(tool, arguments, return_format="parsed")
        if answer.error is not None:
            raise answer.error
        if answer.response is not None:
            rows = answer.response.fetch_all()
            return await self._with_manager(rows, answer.response, "SELECT * FROM data")
        if answer.data_access_id is not None:
            if answer.table is None:
                return answer.data if answer.data is not None and answer.rows is None else answer
            if not TABLE_NAME.fullmatch(answer.table):
                raise ToolFailedError(
                    f"The name of the data that {tool} has staged cannot be used in a statement.",
                    hint="Write the statement and call query_staged_data().",
                )
            return await self.query_staged_data(
                answer.data_access_id,
                f"SELECT * FROM {answer.table} LIMIT {STAGED_ROWS}",  # noqa: S608 - a name, and the server's own
            )
        data = answer.data if answer.rows is None else answer.rows
        if data is None:
            raise ToolFailedError(
                f"The answer of {tool} contains no readable data.{beginning_of_answer(answer)}",
                hint="Look at what invoke() returns.",
            )
        return data

    async def query_staged_data(self, data_access_id: str, sql: str) -> list[Row]:
        """All rows of a statement over staged data, by the server's `data_manager`, or over REST if there is none.

        If the `data_manager` returns only the first rows, all rows are read over REST. Without an address for REST, the
        others are read by the `data_manager` if it has pages, as that of dualsql.

        Raises:
            ToolFailedError: the server rejected the statement, or returned no rows.
            NotConfiguredError, FetchError: over REST.
        """
        manager = (await self._tools_by_name()).get(DATA_MANAGER)
        if manager is None:
            return await self._client.query_staged_data(data_access_id, sql)
        arguments = {"operation": "query", "data_access_id": data_access_id, "sql": sql}
        answer = await self.invoke(DATA_MANAGER, arguments, return_format="parsed")
        if answer.error is not None:
            raise answer.error
        rows = _rows_of(answer)
        if not answer.has_more:
            return rows
        try:
            return await self._client.query_staged_data(data_access_id, sql)
        except NotConfiguredError:
            if any(name not in (manager.input_schema or {}).get("properties", {}) for name in _PAGED):
                raise
        return await self._managed_pages(arguments)

    async def _managed_pages(self, arguments: Mapping[str, Any]) -> list[Row]:
        """All rows from a data manager that has pages. Each follows the last by its cursor, if there is one."""
        rows, budget = list[Row](), Budget(Retry())
        cursors: set[str] = set()
        start: dict[str, Any] = {"cursor": ""}
        while True:
            answer = await self.invoke(DATA_MANAGER, {**arguments, **start}, return_format="parsed")
            if answer.error is not None:
                raise answer.error
            page, cursor = _rows_of(answer), answer.next_cursor
            rows += page
            if not answer.has_more:
                return rows
            # A faulty server could repeat its cursors for ever.
            if cursor in cursors:
                raise ToolFailedError("The server's data_manager returns the same page repeatedly.")
            if cursor is not None:
                cursors.add(cursor)
            budget.page(len(page))
            start = {"offset": len(rows)} if cursor is None else {"cursor": cursor}

    async def _with_manager(
        self, rows: Awaitable[list[Row]], response: ParsedDualResponse, sql: str
    ) -> list[Row]:
        """The rows over REST; without an address for it, those of a statement from the server's data manager."""
        try:
            return await rows
        except NotConfiguredError:
            if DATA_MANAGER not in await self._tools_by_name():
                raise
        return await self.query_staged_data(response.resource_uri, sql)

    async def list_tools(self) -> list[str]:
        """The names of the server's tools."""
        return list(await self._tools_by_name())

    async def search_tools(self, query: str, *, limit: int = 20) -> list[ToolDescription]:
        """The tools whose name or description matches the words of `query`, the best match first."""
        return search_tools((await self._tools_by_name()).values(), query)[:limit]

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
        """The answer with an error that lists the wrong arguments, if the arguments do not fit the tool's input schema.

        SDKs report wrong arguments only in the text of a validator.
        """
        tool = (await self._tools_by_name()).get(answer.tool)
        error = None if tool is None else parameters_error(arguments, tool.input_schema or {})
        return answer if error is None else replace(answer, error=error)

    async def _query(self, answer: ToolAnswer, sql: str) -> list[Row]:
        if answer.response is not None:
            return await self._with_manager(answer.response.sql_all(sql), answer.response, sql)
        assert answer.data_access_id is not None
        return await self.query_staged_data(answer.data_access_id, sql)

    async def _tools_by_name(self) -> dict[str, ToolDescription]:
        if self._tools is None:
            tools = [] if self._list is None else await list_all(self._list)
            self._tools = {tool.name: tool for tool in tools}
        return self._tools


def _rows_of(answer: ToolAnswer) -> list[Row]:
    if answer.rows is None:
        raise ToolFailedError(
            f"The answer of the server's data_manager contains no readable rows.{beginning_of_answer(answer)}"
        )
    return answer.rows


def _negotiating_options(call: Any) -> dict[str, Any]:
    """The negotiation headers as a keyword argument of `call`: `_meta` of each call, over any transport."""
    try:
        names = inspect.signature(call).parameters
    except (TypeError, ValueError):  # a callable without a signature
        return {}
    return {name: dict(NEGOTIATION) for name in ("headers", "meta") if name in names}
