"""Tools over an earlier result: query_result, refine_result, and data_manager for clients of the dual-mode envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from pydantic import Field, SkipValidation, WithJsonSchema
from typing_extensions import TypedDict

from dualsql.errors import (
    BadParameterError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UnauthenticatedError,
)
from dualsql.formats import json
from dualsql.formats.cells import run_heavy
from dualsql.mcp.calls import tool_call
from dualsql.mcp.decorators import make_tool, plain_tool, tool_over_result
from dualsql.mcp.options import PlainEnvelope, ToolOptions
from dualsql.query import read_result_query
from dualsql.query.aggregates import AGGREGATES, AggregateFunction
from dualsql.query.feature import Queries
from dualsql.query.model import BUCKETS, OPERATORS, ResultQuery, SQLQuery, in_words, with_names_of
from dualsql.query.parse import id_in
from dualsql.query.select import TEXT_KEYS, read_sql_query
from dualsql.resource import CALLS, RELATION, Principal, Resource, calls_in, instant
from dualsql.response import DualResponse
from dualsql.results.pages import PageRequest, ResultPage
from dualsql_client.identifiers import is_checked
from dualsql_client.keywords import checked_keywords

if TYPE_CHECKING:
    from dualsql.server import ResultServer

Operation = Literal["query", "schema", "list"]


class Managed(TypedDict, total=False):
    """The answer of one operation.

    Operation "query" answers with `columns`, `rows` and `rowCount`, with `hasMore` and, if the call has a cursor,
    `nextCursor` for further rows, with `asOf` if the rows are kept, and with `notes` on how the SQL was read, where
    that is not plain. Operation "schema" answers with the name, type and encoding of each column; its `rowCount` is
    the total of the result, or null if it was not counted. Operation "list" answers with `resources`, each as "schema"
    describes it, and with `notes` if some cannot be read.
    """

    operation: Operation
    dataAccessId: str
    name: str
    uri: str
    table: str
    columns: list[str]
    schema: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    rowCount: int | None
    hasMore: bool
    nextCursor: str
    asOf: str
    notes: list[str]
    expiresAt: str | None
    resources: list[dict[str, Any]]


_LONGEST_NAME = 200
_RESULT_OPTIONS = ("sample_size", "expiration", "count", "wait")

_QUERY = "Count, sum, group, sort or look up over all rows of an earlier result."

_REFINE = "Make a result of some rows or columns of an earlier one. Arguments as in query_result."


def _with_its_fraction(function: AggregateFunction) -> str:
    return f"{function.name} (with fraction)" if function.takes_fraction else function.name


# What is read by `read_result_query` is not validated before, so that errors are in its words.
_Conditions = list[dict[str, Any]] | None
_Names = list[str] | None
_NamesOrObjects = list[str | dict[str, Any]] | None
_Filters = Annotated[
    _Conditions,
    SkipValidation,
    Field(
        description=f"All must hold: {{column, op: {'|'.join(OPERATORS)}, value}}, {{and|or: [...]}}, {{not: {{...}}}}."
    ),
]
_Columns = Annotated[_Names, SkipValidation]
_Order = Annotated[
    _NamesOrObjects,
    SkipValidation,
    Field(description="Columns, or {column, order: desc}."),
]
_Groups = Annotated[
    _NamesOrObjects,
    SkipValidation,
    Field(description=f"Columns; dates as {{column, bucket: {'|'.join(BUCKETS)}}}."),
]
_Aggregates = Annotated[
    _NamesOrObjects,
    SkipValidation,
    Field(
        description='"count", or {function: '
        f"{'|'.join(map(_with_its_fraction, AGGREGATES.values()))}, column, as}}."
    ),
]
_Having = Annotated[_Conditions, SkipValidation, Field(description="Filters of the answer.")]
_WHOLE = WithJsonSchema({"type": "integer"})
_Rows = Annotated[int, SkipValidation, _WHOLE] | None
_SQL = Annotated[str | None, Field(description="Instead: one SELECT FROM data.")]
# refine_result is published beside query_result, which describes them.
_SameFilters = Annotated[_Conditions, SkipValidation]
_SameOrder = Annotated[_NamesOrObjects, SkipValidation]


@checked_keywords(make_tool)
def add_result_tools(dual: ResultServer, server: Any, **options: Unpack[ToolOptions]) -> None:
    """Register the tools `query_result` and `refine_result`, which take the URI of an earlier result.

    Args:
        server: `mcp.server.MCPServer` or `fastmcp.FastMCP`.
        options: see `ToolOptions`, without a name and a description.

    Raises:
        ConfigurationError: as `DualResponseServer.tool`.
    """
    result_options: dict[str, Any] = {name: options[name] for name in _RESULT_OPTIONS if name in options}  # type: ignore[literal-required]

    async def query_result(
        resource: Annotated[str, Field(description="Its URI.")],
        *,
        filters: _Filters = None,
        group_by: _Groups = None,
        aggregates: _Aggregates = None,
        having: _Having = None,
        order_by: _Order = None,
        columns: _Columns = None,
        limit: _Rows = None,
        offset: _Rows = None,
        sql: _SQL = None,
        caller: Principal | None,
    ) -> DualResponse:
        arguments: dict[str, Any] = {
            "filters": filters, "group_by": group_by, "aggregates": aggregates, "having": having,
            "order_by": order_by, "columns": columns, "limit": limit, "offset": offset, "sql": sql,
        }  # fmt: skip
        arguments = {name: value for name, value in arguments.items() if value is not None}
        query = _result_query(arguments)
        parent = await _open(dual, resource, caller)
        query = with_names_of(query, [column["name"] for column in parent.columns])
        calls = [*calls_in(parent.metadata), tool_call("query_result", arguments)]
        name = f"{parent.name}: {in_words(query)}"[:_LONGEST_NAME]
        return await dual.create_response(
            name=name,
            parent=parent,
            refinement=query,
            principal=caller,
            metadata={CALLS: calls},
            **result_options,
        )

    async def refine_result(
        resource: str,
        *,
        filters: _SameFilters = None,
        columns: _Columns = None,
        order_by: _SameOrder = None,
        limit: _Rows = None,
        offset: _Rows = None,
        sql: str | None = None,
        caller: Principal | None,
    ) -> DualResponse:
        return await query_result(
            resource, filters=filters, columns=columns, order_by=order_by, limit=limit, offset=offset, sql=sql,
            caller=caller,
        )  # fmt: skip

    tool_over_result(dual, server, _QUERY, options)(query_result)
    tool_over_result(dual, server, _REFINE, options)(refine_result)


async def _open(dual: ResultServer, text: str, caller: Principal | None) -> Resource:
    """The resource that a model names. Errors say how it is named, and by which calls an expired one is made again."""
    try:
        return await dual.open_resource(id_in(text), caller, "read")
    except ResourceExpiredError as error:
        calls = [
            f"{call['tool']} {call.get('arguments', 'with the same arguments')}" for call in error.tool_calls
        ]
        if calls:
            error.hint = f"Make it again: {', then of that result '.join(calls)}"
        raise
    except ResourceNotFoundError as error:
        if not is_checked(id_in(text)):
            error.hint = "Copy the URI of the earlier result as it is written there, such as resource://abc."
        raise


def _result_query(arguments: Mapping[str, Any]) -> ResultQuery:
    beside = [name for name in arguments if name not in TEXT_KEYS]
    if "sql" in arguments and beside:
        raise BadParameterError(
            f"{beside[0]} cannot be given beside sql.",
            hint="Write it in the SQL; columns, limit and offset may stand beside.",
        )
    query = read_result_query(arguments)
    if not isinstance(query, SQLQuery):
        return query
    return replace(query, reads_tables=True, needs_result=True)


def add_data_manager(dual: ResultServer, server: Any, *, envelope: PlainEnvelope = "dual_mode") -> None:
    """Register the tool `data_manager`, which lists, describes and queries stored results.

    It is for clients of dual-mode answers (specification S8), which query staged data with it.

    Args:
        envelope: "dual_mode" for such an answer, whose `data` is the result of the operation; "none" for that alone.

    Raises:
        ConfigurationError: as `plain_tool`.
    """

    async def data_manager(
        operation: Operation,
        data_access_id: Annotated[str | None, Field(description="Of a result; its URI will do.")] = None,
        sql: Annotated[str | None, Field(description="One SELECT over the relation data.")] = None,
        limit: Annotated[int, Field(description="The most rows.", ge=1)] = 100,
        *,
        offset: Annotated[int, Field(description="Rows to leave out before.", ge=0)] = 0,
        cursor: Annotated[str | None, Field(description="For programs: empty, then nextCursor.")] = None,
        caller: Principal | None,
    ) -> Managed:
        """Query results that are kept: list them, read their columns, or run a SELECT over one."""
        if operation == "list":
            return await _list(dual, caller)
        if data_access_id is None:
            raise BadParameterError(
                f"{operation} needs a data_access_id.",
                hint=_WHERE_THE_ID_IS if caller is None else 'operation="list" shows them.',
            )
        resource = await _open(dual, data_access_id, caller)
        if operation == "schema":
            return _schema(dual, resource)
        if sql is None:
            raise BadParameterError("query needs sql.", hint="SELECT * FROM data LIMIT 100")
        query = replace(read_sql_query({"sql": sql}), reads_tables=True, needs_result=True)
        request = PageRequest(limit=limit, offset=offset, cursor=cursor or None)
        page = await dual.features.get(Queries).service.page_unchecked(
            resource, query, request, principal=caller
        )
        answer = await run_heavy(_query, resource, page) if page.is_heavy else _query(resource, page)
        # Only for those who ask: a model has no use for a cursor.
        if cursor is not None and page.next_cursor is not None:
            answer["nextCursor"] = page.next_cursor
        return answer

    plain_tool(dual, server, envelope=envelope)(data_manager)


_WHERE_THE_ID_IS = "Give the id or the URI that the earlier result printed, such as resource://abc."


async def _list(dual: ResultServer, caller: Principal | None) -> Managed:
    if caller is None:
        raise UnauthenticatedError(
            "Only callers that are known have a list of results.", hint=_WHERE_THE_ID_IS
        )
    listing = await dual.list_resources(caller)
    resources = [_schema(dual, resource) for resource in listing.resources]
    answer = Managed(operation="list", resources=[dict(one) for one in resources])
    if listing.unreadable:
        answer["notes"] = [f"Results that cannot be read, and are not listed: {listing.unreadable}."]
    return answer


def _schema(dual: ResultServer, resource: Resource) -> Managed:
    description = dual.unchecked.metadata_of(resource)
    return Managed(
        operation="schema",
        dataAccessId=resource.id,
        name=description["name"],
        uri=description["uri"],
        table=RELATION,
        columns=[column["name"] for column in description["columns"]],
        schema=[dict(column) for column in description["columns"]],
        rowCount=description["total_count"],
        expiresAt=description["expires_at"],
    )


def _query(resource: Resource, page: ResultPage) -> Managed:
    rows: Sequence[dict[str, Any]] = json.loads(json.dumps(list(page.rows)))
    answer = Managed(
        operation="query",
        dataAccessId=resource.id,
        table=RELATION,
        columns=[column["name"] for column in page.columns],
        rows=list(rows),
        rowCount=len(rows),
        hasMore=page.has_next,
    )
    if page.as_of is not None:
        answer["asOf"] = instant(page.as_of)
    if page.notes:
        answer["notes"] = list(page.notes)
    return answer
