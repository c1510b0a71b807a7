"""Queries over results by REST: POST /{id}/query, /sql and /refine.

The answer is a page, unless the body names a stream format or Accept prefers one to JSON. A signed link gives access to
rows only, not to queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from dualsql.errors import BadParameterError, refuse_unknown
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Format
from dualsql.http.parameters import (
    STREAM_PARAMETERS,
    chosen_format,
    integer_value,
    parse_page,
    parse_stream,
    preferred_media_type,
    read_json_body,
    refuse_query,
    resource_id_of,
    without_nulls,
)
from dualsql.http.problems import Endpoint, JSONAnswer, method_route, while_connected
from dualsql.http.router import FeatureRoutes, answer_page
from dualsql.http.streaming import answer_stream
from dualsql.openapi.operations import (
    ASKS,
    BODY,
    CURSOR_OR_OFFSET,
    JSON,
    READS,
    ROWS,
    STREAM_HEADERS,
    STREAMS,
    Operation,
    Parameter,
    Schema,
    in_json,
    name_schema,
    shared_parameters,
    streams,
    whole_schema,
)
from dualsql.query import read_result_query
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.model import BUCKETS, MAXIMUM_ALIAS, OPERATORS, ResultQuery, SQLQuery
from dualsql.query.parse import (
    KEYS,
    MAXIMUM_GROUPS,
    MAXIMUM_MEASURES,
    MAXIMUM_ORDER,
    MAXIMUM_VALUES,
    WINDOW_KEYS,
    exact_object,
    read_structured_query,
)
from dualsql.query.select import MAXIMUM_PARAMETERS, TEXT_KEYS, read_sql_query
from dualsql.query.service import QueryService
from dualsql.resource import Principal
from dualsql.settings import Settings

if TYPE_CHECKING:
    from dualsql.server import ResultServer

QUERY_METHODS = ("OPTIONS", "POST")

_READERS: Mapping[str, tuple[Callable[[Any], ResultQuery], Sequence[str]]] = {
    "query": (read_structured_query, KEYS),
    "sql": (read_sql_query, TEXT_KEYS),
}
WINDOW = (
    *("offset", "limit", "cursor", "cell_limit", "format"),
    *(name for name, parameter in STREAM_PARAMETERS.items() if parameter.option),
)
NAMING = ("name",)


def query_routes(server: ResultServer, service: QueryService) -> FeatureRoutes:
    """The routes of a resource for queries over it."""
    endpoints = {kind: _endpoint(server, service, reader, keys) for kind, (reader, keys) in _READERS.items()}
    endpoints["refine"] = _refining(server)
    return FeatureRoutes(
        routes=[
            method_route(f"/{{resource_id}}/{kind}", {"POST": answer}, QUERY_METHODS)
            for kind, answer in endpoints.items()
        ],
    )


def _endpoint(
    server: ResultServer,
    service: QueryService,
    reader: Callable[[Any], ResultQuery],
    keys: Sequence[str],
) -> Endpoint:
    async def answer(request: Request) -> Response:
        refuse_query(request.scope["query_string"])
        values = exact_object(await read_json_body(request, server.settings))
        refuse_unknown(values, dict.fromkeys((*keys, *WINDOW)), "key")
        window = without_nulls({name: values[name] for name in WINDOW if name in values})
        query = reader({name: value for name, value in values.items() if name not in WINDOW})
        format_ = _stream_format(window.get("format"), request)
        principal = await server.access.identify(request)
        query = _of_caller(query, principal)
        resource = await server.open_resource(resource_id_of(request), principal, "read")
        if format_ is None:
            page_request = parse_page(window, takes_text=True)
            reading = service.page_unchecked(resource, query, page_request, principal=principal)
            return await answer_page(request, reading)
        if "cell_limit" in window:
            raise BadParameterError(
                "cell_limit is for pages: a stream has whole cells.",
                hint="Leave cell_limit or format out.",
                details={"name": "cell_limit"},
            )
        if window.get("offset"):
            # A stream has no offset of its own: the question skips the rows.
            query = replace(query, offset=integer_value("offset", window["offset"]))
        stream_parameters = parse_stream({**window, "format": format_.name}, request.headers)
        stream = await service.stream_unchecked(resource, query, stream_parameters, principal=principal)
        return await answer_stream(server, request, stream, resource=resource, principal=principal)

    return answer


def _refining(server: ResultServer) -> Endpoint:
    async def refine(request: Request) -> Response:
        """201: a new result, in the form of a tool's response."""
        refuse_query(request.scope["query_string"])
        values = without_nulls(exact_object(await read_json_body(request, server.settings)))
        keys = TEXT_KEYS if "sql" in values else (*KEYS, *WINDOW_KEYS)
        refuse_unknown(values, (*keys, *NAMING), "key")
        refinement = {key: value for key, value in values.items() if key not in NAMING}
        principal = await server.access.identify(request)
        making = server.create_response(
            name=values.get("name", "Refined"),
            parent=resource_id_of(request),
            refinement=_of_caller(read_result_query(refinement), principal),
            principal=principal,
        )
        response = await while_connected(request.receive, making)
        headers = {"Location": response.resource_url}
        return JSONAnswer(response.to_structured_content(), status_code=201, headers=headers)

    return refine


def _stream_format(name: Any, request: Request) -> Format | None:
    """The format of a stream; None for a page."""
    if name is not None:
        return chosen_format(str(name), request.headers)
    # JSON first: a request without a preference is answered with a page.
    offered = [JSON, *(format_.media_type for format_ in FORMATS.values() if format_.media_type != JSON)]
    if preferred_media_type(request.headers.getlist("accept"), offered) == JSON:
        return None
    return chosen_format(None, request.headers)


def _of_caller(query: ResultQuery, principal: Principal | None) -> ResultQuery:
    """The query, which reads tables only for a known caller: anyone may have the link to an anonymous result."""
    if not isinstance(query, SQLQuery):
        return query
    return replace(query, reads_tables=principal is not None)


_CONDITIONS = {"$ref": "#/components/schemas/Conditions"}
_VALUE: Schema = {"type": ["string", "number", "boolean"]}
_ALIAS: Schema = {"type": "string", "minLength": 1, "maxLength": MAXIMUM_ALIAS}


def _object(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Schema, most: int, *examples: Any) -> Schema:
    return {"type": "array", "items": items, "maxItems": most, "examples": list(examples)}


CONDITION: Schema = {
    "description": "A comparison, or conditions joined by and, or, not. Other spellings are understood, too.",
    "oneOf": [
        _object(
            {
                "column": name_schema(),
                "op": {"enum": [*OPERATORS]},
                "value": {"anyOf": [_VALUE, _list(_VALUE, MAXIMUM_VALUES), {"type": "null"}]},
            },
            "column",
        ),
        *(
            _object({word: {"type": "array", "items": {"$ref": "#/components/schemas/Condition"}, "minItems": 1}}, word)
            for word in ("and", "or")
        ),
        _object({"not": {"$ref": "#/components/schemas/Condition"}}, "not"),
    ],
}  # fmt: skip
CONDITIONS: Schema = {
    "description": "One condition, or several that all hold.",
    "anyOf": [
        {"$ref": "#/components/schemas/Condition"},
        {"type": "array", "items": {"$ref": "#/components/schemas/Condition"}},
    ],
    "examples": [[{"column": "state", "op": "eq", "value": "NJ"}]],
}
SCHEMAS: Mapping[str, Schema] = {"Condition": CONDITION, "Conditions": CONDITIONS}


def questions_of(settings: Settings) -> Mapping[str, Parameter]:
    """The parameters of questions, by name."""
    group = _object({"column": name_schema(), "bucket": {"enum": [*BUCKETS]}, "as": _ALIAS}, "column")
    measure = _object(
        {
            "function": {"enum": [*AGGREGATES]},
            "column": name_schema(),
            "fraction": {"type": "number", "minimum": 0, "maximum": 1},
            "as": _ALIAS,
        },
        "function",
    )
    key = _object({"column": name_schema(), "order": {"enum": ["asc", "desc"]}}, "column")
    groups = {"anyOf": [name_schema(), group]}
    measures = {"anyOf": [name_schema(), measure]}
    keys = {"anyOf": [name_schema(), key]}
    shared = shared_parameters(settings)
    return {
        **shared,
        "limit": Parameter("The most rows.", whole_schema(0, settings.maximum_stream_rows, 100)),
        "filters": Parameter("Which rows.", _CONDITIONS),
        "having": Parameter("Which groups, by columns of the answer.", _CONDITIONS),
        "group_by": Parameter("Columns; dates may be cut.", _list(groups, MAXIMUM_GROUPS, ["state"])),
        "aggregates": Parameter(
            "Figures of each group, or of all rows.",
            _list(measures, MAXIMUM_MEASURES, [{"function": "avg", "column": "earnings"}]),
        ),
        "order_by": Parameter("Columns of the answer.", _list(keys, MAXIMUM_ORDER, ["state"])),
        "sql": Parameter(
            "One SELECT over the relation data, which is the result.",
            {"type": "string", "minLength": 1, "examples": ["SELECT count(*) FROM data"]},
        ),
        "parameters": Parameter(
            "Values of :name in the SQL.",
            {
                "type": "object",
                "maxProperties": MAXIMUM_PARAMETERS,
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
            },
        ),
        "name": Parameter("The title of the new result.", {"type": "string", "minLength": 1, "maxLength": 200}),
    }  # fmt: skip


_EITHER: Schema = {
    "dependentRequired": {"parameters": ["sql"]},
    "dependentSchemas": {
        "sql": {"properties": {name: False for name in (*KEYS, *WINDOW_KEYS) if name not in TEXT_KEYS}}
    },
}
"""The body of a refinement is a question or a SQL text."""


def query_operations(settings: Settings) -> list[Operation]:
    """The questions, as OpenAPI describes them."""
    parameters = questions_of(settings)
    page = in_json("Page", further=[ROWS])
    answering: dict[str, Any] = {"answers": {**streams(), JSON: page[JSON]}, "headers": STREAM_HEADERS}
    errors = (*READS, *STREAMS, *BODY, *ASKS)
    count = {"aggregates": [{"function": "count"}]}
    text = {"sql": "SELECT state, count(*) AS programs FROM data GROUP BY state"}
    return [
        Operation(
            method="POST",
            path="/{id}/query",
            name="queryResult",
            summary="Filter, group, aggregate.",
            methods=QUERY_METHODS,
            body={name: parameters[name] for name in (*KEYS, *WINDOW)},
            rules=CURSOR_OR_OFFSET,
            example={"group_by": ["state"], **count},
            errors=errors,
            schemas=SCHEMAS,
            **answering,
        ),
        Operation(
            method="POST",
            path="/{id}/sql",
            name="querySQL",
            summary="The same in SQL.",
            methods=QUERY_METHODS,
            body={name: parameters[name] for name in dict.fromkeys((*TEXT_KEYS, *WINDOW))},
            rules={"required": ["sql"], **CURSOR_OR_OFFSET},
            example=text,
            errors=errors,
            **answering,
        ),
        Operation(
            method="POST",
            path="/{id}/refine",
            name="refineResult",
            summary="A new result of the answer.",
            methods=QUERY_METHODS,
            body={
                name: parameters[name] for name in dict.fromkeys((*KEYS, *TEXT_KEYS, *WINDOW_KEYS, *NAMING))
            },
            rules=_EITHER,
            example={"name": "Of NJ", "filters": [{"column": "state", "op": "eq", "value": "NJ"}]},
            status=201,
            answers=in_json("StructuredContent"),
            headers=("Location",),
            errors=(*READS, *BODY, *ASKS),
            links={
                "newResult": {
                    "operationId": "getResult",
                    "description": "The id is at the end of resource.url.",
                }
            },
        ),
    ]
