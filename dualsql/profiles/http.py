"""Profiles over REST: GET /{id}/profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from starlette.requests import Request
from starlette.responses import Response

from dualsql.errors import BadParameterError, refuse_unknown
from dualsql.http.parameters import MAXIMUM_NAME_LENGTH, resource_id_of, split_query
from dualsql.http.problems import JSONAnswer, method_routes, while_connected
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import READS, Operation, Parameter, in_json, shared_parameters
from dualsql.profiles.service import ProfileService
from dualsql.settings import Settings
from dualsql_client.wire import ProfileKind

if TYPE_CHECKING:
    from dualsql.server import ResultServer

PROFILE_METHODS = ("GET", "HEAD", "OPTIONS")
PROFILE_QUERY = ("kind", "columns")
PROFILE = "/{resource_id}/profile"


def profile_routes(server: ResultServer, service: ProfileService) -> FeatureRoutes:
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

    return FeatureRoutes(routes=method_routes(PROFILE, {"GET": profile}, PROFILE_METHODS))


def profile_parameters(settings: Settings) -> dict[str, Parameter]:
    """The parameters of a profile, as OpenAPI describes them."""
    kind = Parameter("Whether the first rows are looked at, or all.", {"enum": [*get_args(ProfileKind)]})
    known = {**shared_parameters(settings), "kind": kind}
    return {name: known[name] for name in PROFILE_QUERY}


def profile_operations(settings: Settings) -> list[Operation]:
    """The profile, as OpenAPI describes it."""
    return [
        Operation(
            method="GET",
            path="/{id}/profile",
            name="getProfile",
            summary="What its columns are like.",
            methods=PROFILE_METHODS,
            query=profile_parameters(settings),
            answers=in_json("Profile"),
            errors=READS,
        )
    ]


def parse_profile(query_string: bytes) -> tuple[str, Sequence[str] | None]:
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
    return values.get("kind", "sample"), names


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAXIMUM_NAME_LENGTH
