"""Questions over REST: POST /{id}/query, /sql and /refine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dualsql.errors import refuse_unknown
from dualsql.formats.formats import FORMATS
from dualsql.formats.writer import Format, WriterOptions
from dualsql.http.negotiation import preferred_media_type
from dualsql.http.parameters import (
    RowsParameters,
    column_names,
    cursor_value,
    flag_value,
    integer_form,
    integer_value,
    json_object,
    read_json_body,
    refuse_query,
    resource_id_of,
)
from dualsql.http.problems import JSONAnswer, MethodNotAllowedError, answering, problem_response
from dualsql.http.resources import Resources
from dualsql.http.streaming import answer_rows, chosen_format, while_connected
from dualsql.query.parse import KEYS, WINDOW_KEYS, read_question
from dualsql.query.question import ResultQuery
from dualsql.query.select import TEXT_KEYS, read_text

QUESTION_METHODS = ("OPTIONS", "POST")

_READERS: Mapping[str, tuple[Callable[[Any], ResultQuery], Sequence[str]]] = {
    "query": (read_question, KEYS),
    "sql": (read_text, TEXT_KEYS),
}
WINDOW = ("offset", "limit", "cursor", "format", "big_integers", "guard_formulas", "text_columns")
NAMING = ("name",)
_PAGE = "application/json"


def question_routes(server: Resources) -> list[Route]:
    """The routes below a resource that answer questions about it."""
    endpoints = {kind: _endpoint(server, read, keys) for kind, (read, keys) in _READERS.items()}
    endpoints["refine"] = _refining(server)
    routes = []
    for kind, endpoint in endpoints.items():
        path = f"/{{resource_id}}/{kind}"
        unknown = MethodNotAllowedError("This method does not exist here.", known=QUESTION_METHODS)
        routes += [
            Route(path, answering(endpoint), methods=["POST"]),
            Route(path, _list_methods, methods=["OPTIONS"]),
            Route(path, problem_response(unknown)),
        ]
    return routes


async def _list_methods(_: Request) -> Response:
    return Response(status_code=204, headers={"Allow": ", ".join(QUESTION_METHODS)})


def _endpoint(server: Resources, read: Callable[[Any], ResultQuery], keys: Sequence[str]) -> Any:
    async def answer(request: Request) -> Response:
        refuse_query(request.scope["query_string"])
        values = json_object(await read_json_body(request, server.settings))
        refuse_unknown(values, dict.fromkeys((*keys, *WINDOW)), "key")
        window = {name: values[name] for name in WINDOW if name in values}
        inquiry = read({name: value for name, value in values.items() if name not in window})
        written = _wanted_format(window.get("format"), request)
        if written is None:
            return await _answer_page(server, request, inquiry, window)
        return await _answer_stream(server, request, inquiry, window, written)

    return answer


def _refining(server: Resources) -> Any:
    async def refine(request: Request) -> Response:
        """201: a new result, as a tool would have answered it."""
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
    server: Resources, request: Request, inquiry: ResultQuery, window: Mapping[str, Any]
) -> Response:
    principal = await server.identify(request)
    resource = await server.open_resource(resource_id_of(request), principal, "read")
    answer = server.inquiries.page(
        resource,
        inquiry,
        principal=principal,
        offset=integer_value("offset", window.get("offset", 0)),
        limit=_limit(window),
        cursor=cursor_value(window),
        integer_strings=integer_form(window.get("big_integers", "number")),
    )
    page = await while_connected(request.receive, answer)
    return JSONAnswer(page.to_wire())


async def _answer_stream(
    server: Resources, request: Request, inquiry: ResultQuery, window: Mapping[str, Any], written: Format
) -> Response:
    parameters = RowsParameters(
        format=written.name,
        limit=_limit(window),
        cursor=cursor_value(window),
        options=WriterOptions(
            integer_strings=integer_form(window.get("big_integers", "number")),
            guard_formulas=flag_value("guard_formulas", window.get("guard_formulas", False)),
            text_columns=column_names("text_columns", window["text_columns"])
            if "text_columns" in window
            else (),
        ),
    )
    if window.get("offset"):
        inquiry = replace(inquiry, offset=integer_value("offset", window["offset"]))
    principal = await server.identify(request)
    resource = await server.open_resource(resource_id_of(request), principal, "read")
    return await answer_rows(
        server, request, parameters, written, resource=resource, principal=principal, inquiry=inquiry
    )


def _limit(window: Mapping[str, Any]) -> int | None:
    return None if window.get("limit") is None else integer_value("limit", window["limit"])
