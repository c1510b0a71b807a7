"""Questions over REST: POST /{id}/query, /sql and /refine.

A question is answered with a page, unless the body names a format of streams or Accept prefers one to JSON. A signed
link gives access to rows and answers no questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from dualsql.errors import refuse_unknown
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Format
from dualsql.http.parameters import (
    chosen_format,
    cursor_value,
    integer_form,
    integer_value,
    json_object,
    preferred_media_type,
    read_json_body,
    refuse_query,
    resource_id_of,
    without_nulls,
    writer_options,
)
from dualsql.http.problems import Endpoint, JSONAnswer, method_routes, while_connected
from dualsql.http.router import FeatureRoutes
from dualsql.http.streaming import answer_stream
from dualsql.query.model import ResultQuery
from dualsql.query.parse import KEYS, WINDOW_KEYS, read_structured_query
from dualsql.query.select import TEXT_KEYS, read_sql_query
from dualsql.resource import endpoint
from dualsql.results.pages import PageRequest
from dualsql.results.streams import StreamRequest

if TYPE_CHECKING:
    from dualsql.server import DualResponseServer

QUERY_METHODS = ("OPTIONS", "POST")

_READERS: Mapping[str, tuple[Callable[[Any], ResultQuery], Sequence[str]]] = {
    "query": (read_structured_query, KEYS),
    "sql": (read_sql_query, TEXT_KEYS),
}
WINDOW = ("offset", "limit", "cursor", "format", "big_integers", "guard_formulas", "text_columns")
NAMING = ("name",)
_PAGE = "application/json"


def query_routes(server: DualResponseServer) -> FeatureRoutes:
    """The routes below a resource that answer questions about it."""
    endpoints = {kind: _endpoint(server, read, keys) for kind, (read, keys) in _READERS.items()}
    endpoints["refine"] = _refining(server)
    return FeatureRoutes(
        routes=[
            route
            for kind, answer in endpoints.items()
            for route in method_routes(f"/{{resource_id}}/{kind}", {"POST": answer}, QUERY_METHODS)
        ],
        endpoints=[
            endpoint("POST", "/{id}/query", "Filter, group, aggregate.", body=(*KEYS, *WINDOW)),
            endpoint("POST", "/{id}/sql", "The same in SQL.", body=(*TEXT_KEYS, *WINDOW)),
            endpoint(
                "POST", "/{id}/refine", "A new result of the answer.", body=(*KEYS, *WINDOW_KEYS, *NAMING)
            ),
        ],
    )


def _endpoint(
    server: DualResponseServer, read: Callable[[Any], ResultQuery], keys: Sequence[str]
) -> Endpoint:
    async def answer(request: Request) -> Response:
        refuse_query(request.scope["query_string"])
        values = json_object(await read_json_body(request, server.settings))
        refuse_unknown(values, dict.fromkeys((*keys, *WINDOW)), "key")
        window = without_nulls({name: values[name] for name in WINDOW if name in values})
        query = read({name: value for name, value in values.items() if name not in WINDOW})
        written = _wanted_format(window.get("format"), request)
        if written is None:
            return await _answer_page(server, request, query, window)
        return await _answer_stream(server, request, query, window, written)

    return answer


def _refining(server: DualResponseServer) -> Endpoint:
    async def refine(request: Request) -> Response:
        """201: a new result, in the form of a tool's response."""
        refuse_query(request.scope["query_string"])
        values = json_object(await read_json_body(request, server.settings))
        keys = TEXT_KEYS if "sql" in values else (*KEYS, *WINDOW_KEYS)
        refuse_unknown(values, (*keys, *NAMING), "key")
        refinement = {key: value for key, value in values.items() if key not in NAMING}
        principal = await server.identify(request)
        making = server.create_response(
            name=values.get("name", "Refined"),
            parent=resource_id_of(request),
            refinement=refinement,
            principal=principal,
        )
        made = await while_connected(request.receive, making)
        headers = {"Location": made.resource_url}
        return JSONAnswer(made.to_structured_content(), status_code=201, headers=headers)

    return refine


def _wanted_format(named: Any, request: Request) -> Format | None:
    """The format of a stream; None for a page."""
    if named is not None:
        return chosen_format(str(named), request.headers)
    offered = [_PAGE, *(found.media_type for found in FORMATS.values() if found.media_type != _PAGE)]
    if preferred_media_type(request.headers.getlist("accept"), offered) == _PAGE:
        return None
    return chosen_format(None, request.headers)


async def _answer_page(
    server: DualResponseServer, request: Request, query: ResultQuery, window: Mapping[str, Any]
) -> Response:
    wanted = PageRequest(
        offset=integer_value("offset", window.get("offset", 0)),
        limit=_limit(window),
        cursor=cursor_value(window),
        integer_strings=integer_form(window.get("big_integers", "number")),
    )
    principal = await server.identify(request)
    resource = await server.open_resource(resource_id_of(request), principal, "read")
    answer = server.query.page_unchecked(resource, query, wanted, principal=principal)
    page = await while_connected(request.receive, answer)
    return JSONAnswer(page.to_wire())


async def _answer_stream(
    server: DualResponseServer,
    request: Request,
    query: ResultQuery,
    window: Mapping[str, Any],
    written: Format,
) -> Response:
    wanted = StreamRequest(
        format=written.name,
        limit=_limit(window),
        cursor=cursor_value(window),
        options=writer_options(window),
    )
    if window.get("offset"):
        query = replace(query, offset=integer_value("offset", window["offset"]))
    principal = await server.identify(request)
    resource = await server.open_resource(resource_id_of(request), principal, "read")
    stream = server.query.stream_unchecked(resource, query, wanted, principal=principal)
    return await answer_stream(server, request, stream, resource=resource, principal=principal)


def _limit(window: Mapping[str, Any]) -> int | None:
    return None if window.get("limit") is None else integer_value("limit", window["limit"])
