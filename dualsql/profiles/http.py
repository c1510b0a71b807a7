"""Profiles over REST: GET /{id}/profile, and POST for the answer of a query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from dualsql.errors import BadParameterError, refuse_unknown
from dualsql.http.parameters import (
    MAXIMUM_NAME_LENGTH,
    json_object,
    read_json_body,
    refuse_query,
    resource_id_of,
    split_query,
)
from dualsql.http.problems import JSONAnswer, method_route, while_connected
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import BODY, READS, Operation, Parameter, in_json, shared_parameters
from dualsql.profiles.service import ProfileService
from dualsql.query import KEYS, read_structured_query
from dualsql.query.http import SCHEMAS, questions_of
from dualsql.settings import Settings
from dualsql_client.wire import ProfileKind

if TYPE_CHECKING:
    from dualsql.server import ResultServer

PROFILE_METHODS = ("GET", "HEAD", "OPTIONS")
PROFILE_QUERY = ("kind", "columns")
PROFILE = "/{resource_id}/profile"
_MOST_SECONDS = 86_400


PROFILE_BODY = ("kind", "budget", *KEYS)


def profile_routes(server: ResultServer, service: ProfileService, *, takes_queries: bool) -> FeatureRoutes:
    """The routes of a resource for the profile of its columns."""

    async def profile(request: Request) -> Response:
        """Answer the profile of a resource. Signed links give access to rows only, not to profiles."""
        kind, columns = parse_profile(request.scope["query_string"])
        principal = await server.access.identify(request)
        resource = await server.open_resource(resource_id_of(request), principal, "read")
        if request.method == "HEAD":  # HEAD runs no query
            await service.check(resource, principal=principal, kind=kind, columns=columns)
            return JSONAnswer(None)
        profiling = service.profile(resource, principal=principal, kind=kind, columns=columns)
        return JSONAnswer(await while_connected(request.receive, profiling))

    async def profile_answer(request: Request) -> Response:
        """Answer the profile of the rows or groups that a query asks for."""
        refuse_query(request.scope["query_string"])
        values = json_object(await read_json_body(request, server.settings))
        refuse_unknown(values, PROFILE_BODY, "key")
        query = read_structured_query({name: value for name, value in values.items() if name in KEYS})
        kind, budget = str(values.get("kind") or "sample"), _budget(values.get("budget"))
        principal = await server.access.identify(request)
        resource = await server.open_resource(resource_id_of(request), principal, "read")
        profiling = service.profile(resource, principal=principal, kind=kind, query=query, budget=budget)
        return JSONAnswer(await while_connected(request.receive, profiling))

    endpoints = {"GET": profile} | ({"POST": profile_answer} if takes_queries else {})
    methods = _methods(takes_queries=takes_queries)
    return FeatureRoutes(routes=[method_route(PROFILE, endpoints, methods)])


def _methods(*, takes_queries: bool) -> Sequence[str]:
    return (*PROFILE_METHODS, "POST") if takes_queries else PROFILE_METHODS


def profile_parameters(settings: Settings) -> dict[str, Parameter]:
    """The parameters of a profile, as OpenAPI describes them."""
    kind = Parameter("Whether the first rows are looked at, or all.", {"enum": [*get_args(ProfileKind)]})
    parameters = {**shared_parameters(settings), "kind": kind}
    return {name: parameters[name] for name in PROFILE_QUERY}


def profile_operations(settings: Settings, *, takes_queries: bool) -> list[Operation]:
    """The profile, as OpenAPI describes it."""
    methods = _methods(takes_queries=takes_queries)
    questions = questions_of(settings)
    answer = Operation(
        method="POST",
        path="/{id}/profile",
        name="getProfileOfQuery",
        summary="What the columns of a query's answer are like.",
        methods=methods,
        body={
            "kind": profile_parameters(settings)["kind"],
            "budget": Parameter(
                "Seconds, if fewer than profile_budget.", {"type": "number", "minimum": 0.1, "examples": [2]}
            ),
            **{name: questions[name] for name in KEYS},
        },
        example={"filters": [{"column": "state", "op": "eq", "value": "NJ"}], "kind": "full"},
        answers=in_json("Profile"),
        errors=(*READS, *BODY),
        schemas=SCHEMAS,
    )
    return [
        Operation(
            method="GET",
            path="/{id}/profile",
            name="getProfile",
            summary="What its columns are like.",
            methods=methods,
            query=profile_parameters(settings),
            answers=in_json("Profile"),
            errors=READS,
        ),
        *([answer] if takes_queries else []),
    ]


def parse_profile(query_string: bytes, default: str = "sample") -> tuple[str, Sequence[str] | None]:
    """The kind and the columns of `?kind=full&columns=state,name`. Without `columns`, they are None.

    Raises:
        BadParameterError: a name is unknown or repeated, or a value is malformed.
    """
    values = split_query(query_string)
    refuse_unknown(values, PROFILE_QUERY, "query parameter")
    names = values["columns"].split(",") if "columns" in values else None
    if names is not None and (len(set(names)) != len(names) or not all(map(_is_name, names))):
        raise BadParameterError(
            "columns must be a comma-separated list without repeated names.", details={"name": "columns"}
        )
    return values.get("kind", default), names


def _budget(value: Any) -> timedelta | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= _MOST_SECONDS:
        raise BadParameterError(
            "budget is a number of seconds from 0.1.",
            hint='Such as {"budget": 2}.',
            details={"name": "budget"},
        )
    return timedelta(seconds=value)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAXIMUM_NAME_LENGTH
