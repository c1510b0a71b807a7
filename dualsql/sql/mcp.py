"""The tools execute_query and query_*: they run what a model asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from pydantic import Field

from dualsql.catalogue import Visible
from dualsql.errors import ConfigurationError, DualResponseError
from dualsql.mcp.calls import MalformedCallError
from dualsql.mcp.results import Answer
from dualsql.mcp.tool import ToolOptions, make_tool, titled, tool
from dualsql.plan import at_most
from dualsql.resource import Principal
from dualsql.sql.service import ResolvedQuery, sql_reader
from dualsql_client.errors import checked_keywords

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer

_RULES = (
    "One SELECT, WITH ... SELECT or set operation over the tables that are served; nothing can be changed. "
    "Write values as :name and give them in parameters. Without a LIMIT all rows are counted, and a few are shown."
)
_NAMED = "Or give query_name, the name of a saved query, and its parameters."

_MOST_ROWS = 2**53 - 1  # of JSON's numbers, the largest that every reader has

_Query = Annotated[str | None, Field(description="SQL text; or leave it out and give query_name.")]
_QueryName = Annotated[str | None, Field(description="The name of a saved query.")]
_Parameters = Annotated[
    dict[str, Any] | None, Field(description="Values by name: of :name in the text, or of the saved query.")
]
_Limit = Annotated[
    int | None, Field(description="The most rows of the result; all by default.", ge=1, le=_MOST_ROWS)
]
_SourceName = Annotated[str | None, Field(description="Which database, where there are several.")]


@checked_keywords(make_tool)
def add_execute_query(
    dual: DualResponseServer, server: Any, *, visible: Visible | None = None, **options: Unpack[ToolOptions]
) -> None:
    """Register the tool `execute_query`: a SQL text or a saved query, answered by a dual response.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        visible: which tables a caller may know of, all of them unless given. What is narrowed by the server's
            hooks is narrowed here, whatever this says.
        options: see `ToolOptions`; `source` is the database of calls that name none.

    Raises:
        ConfigurationError: as `DualResponseServer.tool`; or the extra `sql` is not installed.
    """
    sql_reader()

    def execute_query(
        query: _Query = None,
        query_name: _QueryName = None,
        parameters: _Parameters = None,
        source_name: _SourceName = None,
        limit: _Limit = None,
        *,
        caller: Principal | None,
    ) -> Answer:
        if (query is None) == (query_name is None):
            raise MalformedCallError("Give exactly one of query and query_name.")
        ask = _asking(parameters, source_name or options.get("source"), caller, visible)
        if query_name is not None:
            return _answer(lambda: dual.saved_queries.resolve(query_name, **ask), limit)
        return _answer(lambda: dual.sql.resolve(str(query), **ask), limit)

    described = f"Run a query.\n\n{_spoken(dual)} {_RULES}"
    if dual.saved_queries:
        described += f" {_NAMED}"
    options.setdefault("description", described)
    tool(dual, server, **options)(execute_query)


@checked_keywords(make_tool)
def add_query(
    dual: DualResponseServer, server: Any, *, visible: Visible | None = None, **options: Unpack[ToolOptions]
) -> None:
    """Register the tool `query`, which takes a SQL text and nothing else (specification S9); see `add_execute_query`.

    Raises:
        ConfigurationError: as `add_execute_query`; or there are several sources and `source` names none.
    """
    sql_reader()
    source = options.get("source")
    if source is None and len(dual.sql.databases) > 1:
        raise ConfigurationError(
            "Which database does the tool query?", hint='add_query(dual, server, source="...")'
        )

    def query(sql: Annotated[str, Field(description="SQL text")], *, caller: Principal | None) -> Answer:
        ask = _asking(None, source, caller, visible)
        return _answer(lambda: dual.sql.resolve(sql, **ask))

    rules = _RULES.replace(" Write values as :name and give them in parameters.", "")
    options.setdefault("description", f"Run a query.\n\n{_spoken(dual, source)} {rules}")
    tool(dual, server, **options)(query)


def _asking(
    parameters: Mapping[str, Any] | None,
    source: str | None,
    caller: Principal | None,
    visible: Visible | None,
) -> dict[str, Any]:
    return {"parameters": parameters, "source": source, "principal": caller, "visible": visible}


def _answer(ask: Callable[[], ResolvedQuery], limit: int | None = None) -> Answer:
    try:
        asked = ask()
        select = asked.select if limit is None else at_most(asked.select, limit)
    except DualResponseError as error:
        # A program that reads suggestions finds some, or that there are none.
        error.details.setdefault("suggestions", [])
        raise
    if asked.saved is None:
        return Answer(select, name="Query results", source=asked.source, is_text=True)
    return Answer(
        select,
        name=titled(asked.saved.name),
        description=asked.saved.description or None,
        metadata={"query_name": asked.saved.name},
        source=asked.source,
    )


def _spoken(dual: DualResponseServer, source: str | None = None) -> str:
    """Which SQL is spoken."""
    databases = dual.sql.databases
    if source is not None or len(databases) == 1:
        first = next(iter(databases.values()))
        return f"SQL is that of {first if source is None else databases.get(source, first)}."
    listed = ", ".join(f"{name} ({kind})" for name, kind in databases.items())
    return f"Give source_name, one of: {listed}."
