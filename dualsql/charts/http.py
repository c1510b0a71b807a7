"""A chart over REST: GET /{id}/chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from dualsql.charts.axes import VegaLite
from dualsql.charts.render import MEDIA_TYPE, PictureFormat
from dualsql.charts.service import ChartService
from dualsql.errors import BadParameterError, ConfigurationError, refuse_unknown
from dualsql.formats import json
from dualsql.http.parameters import preferred_media_type, refuse_query, resource_id_of, split_query
from dualsql.http.problems import NotAcceptableError, method_routes, while_connected
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import READS, Operation, Parameter, plain_schema
from dualsql.response import Picture

if TYPE_CHECKING:
    from dualsql.server import ResultServer

CHART_METHODS = ("GET", "HEAD", "OPTIONS")
CHART_QUERY = ("format",)
CHART = "/{resource_id}/chart"

_PICTURES: dict[str, PictureFormat] = {"image/png": "png", "image/svg+xml": "svg"}
_FORMATS = {"vegalite": MEDIA_TYPE, "png": "image/png", "svg": "image/svg+xml"}
# A browser opens an SVG as a document of this origin, which could run scripts.
_ALONE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


OPERATION = Operation(
    method="GET",
    path="/{id}/chart",
    name="getChart",
    summary="Its chart, if it is one.",
    methods=CHART_METHODS,
    query=dict.fromkeys(
        CHART_QUERY, Parameter("The format; by default the one that Accept prefers.", {"enum": [*_FORMATS]})
    ),
    answers={media_type: plain_schema(media_type) for media_type in _FORMATS.values()},
    headers=tuple(_ALONE),
    errors=(*READS, "NOT_ACCEPTABLE"),
)


def chart_routes(server: ResultServer, service: ChartService) -> FeatureRoutes:
    """The chart routes of a resource. GET of the resource itself also returns Vega-Lite."""

    async def chart(request: Request) -> Response:
        return await _answer_chart(server, service, request, _media_type_of(request))

    async def vegalite(request: Request) -> Response:
        refuse_query(request.scope["query_string"])
        return await _answer_chart(server, service, request, MEDIA_TYPE)

    return FeatureRoutes(
        routes=method_routes(CHART, {"GET": chart}, CHART_METHODS),
        representations={MEDIA_TYPE: vegalite},
    )


async def _answer_chart(
    server: ResultServer, service: ChartService, request: Request, media_type: str
) -> Response:
    """The chart that is stored as the resource of the path.

    Raises:
        BadParameterError: the resource is not a chart.
        NotAcceptableError: the caller wants a picture, and the extra `charts` is not installed.
    """
    principal = await server.access.identify(request)
    resource = await server.open_resource(resource_id_of(request), principal, "read")
    kind = _PICTURES.get(media_type)
    try:
        if request.method == "HEAD":  # HEAD runs no query
            await service.check(resource, kind, principal=principal)
            return _chart(b"", media_type)
        if kind is None:
            drawing = service.draw_unchecked(resource, principal=principal)
            chart: VegaLite = await while_connected(request.receive, drawing)
            return _chart(json.dumps(chart), MEDIA_TYPE)
        painting = service.picture_unchecked(resource, kind, principal=principal)
        picture: Picture = await while_connected(request.receive, painting)
        return _chart(picture.content, picture.media_type)
    except ConfigurationError as error:
        raise NotAcceptableError(
            "This server cannot draw pictures.",
            hint=f"Ask for {MEDIA_TYPE}.",
            developer_hint=error.hint,
        ) from error


def _media_type_of(request: Request) -> str:
    values = split_query(request.scope["query_string"])
    refuse_unknown(values, CHART_QUERY, "query parameter")
    if "format" in values:
        if values["format"] not in _FORMATS:
            raise BadParameterError(
                f"format must be one of {', '.join(_FORMATS)}.", details={"name": "format"}
            )
        return _FORMATS[values["format"]]
    media_type = preferred_media_type(request.headers.getlist("accept"), list(_FORMATS.values()))
    if media_type is None:
        raise NotAcceptableError(
            "The server has no chart format that Accept allows.",
            hint=f"Accept one of: {', '.join(_FORMATS.values())}.",
        )
    return media_type


def _chart(content: bytes, media_type: str) -> Response:
    return Response(content, media_type=media_type, headers={"Vary": "Accept", **_ALONE})
