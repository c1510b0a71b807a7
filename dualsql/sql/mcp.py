"""The tools execute_query and query, which run SQL text from a model.

A malformed call is answered as the SDKs answer invalid arguments: `isError` and a text, without a structure. All
other errors have a structure with code, message, hint and suggestions (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from anyio import to_thread
from pydantic import Field, WithJsonSchema

from dualsql.catalogue import Visible
from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.formats.text import single_line
from dualsql.mcp.calls import MalformedCallError, publish_without
from dualsql.mcp.decorators import make_tool, tool, tool_title
from dualsql.mcp.options import ToolOptions
from dualsql.mcp.results import Answer
from dualsql.plan.derived import at_most
from dualsql.resource import Principal
from dualsql.sql.feature import SQL
from dualsql.sql.service import ResolvedQuery, require_parser
from dualsql.sql.titles import LONGEST_TITLE, title_of
from dualsql_client.keywords import checked_keywords

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_VALUES = "Give values as :name in parameters. "
_COUNT = "Without a LIMIT all rows are counted."
_OR_SAVED = "Or give query_name, the name of a saved query, and its parameters."

_MAXIMUM_ROWS = 2**53 - 1  # the largest integer that every JSON reader keeps exactly

_Query = Annotated[str | None, Field(description="SQL; or give query_name.")]
_QueryName = Annotated[str | None, Field(description="The name of a saved query.")]
_Parameters = dict[str, Any] | None
_Limit = Annotated[int, Field(ge=1, le=_MAXIMUM_ROWS), WithJsonSchema({"type": "integer"})] | None
_SourceName = Annotated[str | None, Field(description="Which database, where there are several.")]


@checked_keywords(make_tool)
def add_execute_query(
    dual: ResultServer, server: Any, *, visible: Visible | None = None, **options: Unpack[ToolOptions]
) -> None:
    """Register the tool `execute_query`, which runs a SQL text or a saved query and answers with a dual response.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        visible: which tables a caller may see; by default all. The server's hooks always apply.
        options: see `ToolOptions`. `source` is the database of calls that name none.

    Raises:
        ConfigurationError: as `DualResponseServer.tool`; or the extra `sql` is not installed.
    """
    require_parser()
    texts = dual.features.get(SQL)

    async def execute_query(
        query: _Query = None,
        query_name: _QueryName = None,
        parameters: _Parameters = None,
        source_name: _SourceName = None,
        limit: _Limit = None,
        *,
        title: str | None = None,
        caller: Principal | None,
    ) -> Answer:
        # Models fill in arguments that they do not need, so an empty text counts as omitted.
        query, query_name, source_name = query or None, query_name or None, source_name or None
        if (query is None) == (query_name is None):
            raise MalformedCallError(
                "Give exactly one of query and query_name."
                if texts.service.saved_queries
                else "query must not be empty."
            )
        source = source_name or options.get("source")
        arguments: dict[str, Any] = {
            "parameters": parameters,
            "source": source,
            "principal": caller,
            "visible": visible,
        }
        with _suggestions():
            if query_name is None:
                return _answer(await texts.service.read(str(query), **arguments), limit, title)
            # In a thread, because hooks and `visible` are called for the tables of every saved query.
            resolve = partial(texts.service.saved_queries.resolve, query_name, **arguments)
            return _answer(await to_thread.run_sync(resolve, abandon_on_cancel=True), limit, title)

    description = f"{_statement(dual)} {_VALUES}{_COUNT}"
    if texts.service.saved_queries:
        description += f" {_OR_SAVED}"
    else:
        publish_without(execute_query, "query_name", required={"query": str})
    if len(texts.service.databases) == 1:
        publish_without(execute_query, "source_name")
    options.setdefault("description", description)
    tool(dual, server, **options)(execute_query)
    texts.service.offer(visible=visible)


@checked_keywords(make_tool)
def add_query(
    dual: ResultServer, server: Any, *, visible: Visible | None = None, **options: Unpack[ToolOptions]
) -> None:
    """Register the tool `query`, which takes a SQL text and no other argument (specification S9).

    Otherwise it is as `add_execute_query`.

    Raises:
        ConfigurationError: as `add_execute_query`; or the server has several databases and `source` names none.
    """
    require_parser()
    texts = dual.features.get(SQL)
    source = options.get("source")
    if source is None and len(texts.service.databases) > 1:
        raise ConfigurationError(
            "Which database does the tool query?", hint='add_query(dual, server, source="...")'
        )

    async def query(
        sql: Annotated[str, Field(description="SQL text")], *, caller: Principal | None
    ) -> Answer:
        with _suggestions():
            return _answer(await texts.service.read(sql, source=source, principal=caller, visible=visible))

    options.setdefault("description", f"{_statement(dual, source)} {_COUNT}")
    tool(dual, server, **options)(query)
    texts.service.offer(source=source, visible=visible)


@contextmanager
def _suggestions() -> Iterator[None]:
    """Add `suggestions` to the details of errors in the block: a list that may be empty."""
    try:
        yield
    except DualResponseError as error:
        error.details.setdefault("suggestions", [])
        raise


def _answer(query: ResolvedQuery, limit: int | None = None, title: str | None = None) -> Answer:
    select = query.select if limit is None else at_most(query.select, limit)
    name = single_line(title or "", LONGEST_TITLE)
    if query.saved is None:
        return Answer(select, name=name or title_of(select), source=query.source, is_text=True)
    return Answer(
        select,
        name=name or tool_title(query.saved.name),
        description=query.saved.description or None,
        metadata={"query_name": query.saved.name},
        source=query.source,
    )


def _statement(dual: ResultServer, source: str | None = None) -> str:
    """The sentence of a tool's description about its statements, and the SQL dialects of the databases."""
    databases = dual.features.get(SQL).service.databases
    if source is not None or len(databases) == 1:
        first = next(iter(databases.values()))
        return (
            f"Run one SELECT, WITH or UNION of {first if source is None else databases.get(source, first)}."
        )
    names = ", ".join(f"{name} ({kind})" for name, kind in databases.items())
    return f"Run one SELECT, WITH or UNION. Give source_name, one of: {names}."
