"""A chart over REST: GET /{id}/chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from dualsql.charts.axes import VegaLite
from dualsql.charts.chart import MARKS, Scale, Sort, charted_aggregates, read_chart
from dualsql.charts.render import MEDIA_TYPE, PictureFormat, Theme, with_theme
from dualsql.charts.service import ChartRequest, ChartService
from dualsql.errors import BadParameterError, ConfigurationError, refuse_unknown
from dualsql.formats import json
from dualsql.http.parameters import preferred_media_type, refuse_query, resource_id_of, split_query
from dualsql.http.problems import NotAcceptableError, method_route, while_connected
from dualsql.http.router import FeatureRoutes
from dualsql.openapi.operations import READS, Operation, Parameter, plain_schema, whole_schema
from dualsql.query import read_structured_query
from dualsql.query.model import BUCKETS
from dualsql.response import Picture

if TYPE_CHECKING:
    from dualsql.server import ResultServer

CHART_METHODS = ("GET", "HEAD", "OPTIONS")
CHART_QUERY = (
    *(
        "format",
        "mark",
        "x",
        "bucket",
        "scale",
        "y",
        "y_bucket",
        "aggregate",
        "color",
        "sort",
        "title",
        "width",
        "filters",
        "theme",
    ),
)
CHART = "/{resource_id}/chart"
NARROWEST, WIDEST = 200, 4_000
"""Widths of a plot, in pixels."""

_PICTURES: dict[str, PictureFormat] = {"image/png": "png", "image/svg+xml": "svg"}
_FORMATS = {"vegalite": MEDIA_TYPE, "png": "image/png", "svg": "image/svg+xml"}
# A browser opens an SVG as a document of this origin, which could run scripts.
_ALONE = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}


_NAME = {"type": "string", "minLength": 1, "examples": ["state"]}

OPERATION = Operation(
    method="GET",
    path="/{id}/chart",
    name="getChart",
    summary="Its chart, if it is one, or a chart of its rows.",
    methods=CHART_METHODS,
    query={
        "format": Parameter("The format; by default the one that Accept prefers.", {"enum": [*_FORMATS]}),
        "mark": Parameter("The kind of a chart of the rows.", {"enum": [*MARKS]}),
        "x": Parameter("A column.", _NAME),
        "bucket": Parameter("The unit to which dates of x are truncated.", {"enum": [*BUCKETS]}),
        "scale": Parameter("Of a histogram.", {"enum": [*get_args(Scale)]}),
        "y": Parameter(
            "The column of the aggregate; in a heat map the other axis; of points a column.", _NAME
        ),
        "y_bucket": Parameter(
            "The unit to which dates of y are truncated, in a heat map.", {"enum": [*BUCKETS]}
        ),
        "aggregate": Parameter("What is computed; without a column, count.", {"enum": charted_aggregates()}),
        "color": Parameter("A column; in a heat map that of the aggregate.", _NAME),
        "sort": Parameter("The order of the marks.", {"enum": [*get_args(Sort)]}),
        "title": Parameter("The title.", {"type": "string", "minLength": 1, "maxLength": 200}),
        "width": Parameter("Of the plot, in pixels.", whole_schema(NARROWEST, WIDEST, 640)),
        "filters": Parameter("Conditions in JSON, as queries have them.", {"type": "string", "minLength": 2}),
        "theme": Parameter("The colors: light by default.", {"enum": [*get_args(Theme)]}),
    },
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
        routes=[method_route(CHART, {"GET": chart}, CHART_METHODS)],
        representations={MEDIA_TYPE: vegalite},
    )


async def _answer_chart(
    server: ResultServer, service: ChartService, request: Request, media_type: str
) -> Response:
    """The chart that is stored as the resource of the path, or the one that the query string asks for.

    Raises:
        BadParameterError: the resource is not a chart, and the request names none.
        NotAcceptableError: the request is for a picture, and the extra `charts` is not installed.
    """
    values = split_query(request.scope["query_string"])
    chart_request, theme = parse_chart(values), _theme(values)
    principal = await server.access.identify(request)
    resource = await server.open_resource(resource_id_of(request), principal, "read")
    kind = _PICTURES.get(media_type)

    async def drawing() -> VegaLite:
        if chart_request is None:
            chart = await service.draw_unchecked(resource, principal=principal)
        else:
            chart = await service.draw_of_unchecked(resource, chart_request, principal=principal)
        return with_theme(chart, theme)

    try:
        if request.method == "HEAD":  # HEAD runs no query
            if chart_request is None:
                await service.check(resource, kind, principal=principal)
            else:
                await service.check_of(resource, chart_request, kind, principal=principal)
            return _chart(b"", media_type)
        chart: VegaLite = await while_connected(request.receive, drawing())
        if kind is None:
            return _chart(json.dumps(chart), MEDIA_TYPE)
        picture: Picture = await while_connected(request.receive, service.paint(chart, kind))
        return _chart(picture.content, picture.media_type)
    except ConfigurationError as error:
        raise NotAcceptableError(
            "This server cannot draw pictures.",
            hint=f"Ask for {MEDIA_TYPE}.",
            developer_hint=error.hint,
        ) from error


def parse_chart(values: Mapping[str, str]) -> ChartRequest | None:
    """The chart in `?mark=bar&x=carrier&y=delay&aggregate=avg&filters=[...]`; None without such parameters.

    Raises:
        BadParameterError: it is no chart, or `filters` is no JSON of conditions.
    """
    parameters = {name: value for name, value in values.items() if name not in ("format", "theme")}
    if not parameters:
        return None
    specification: dict[str, Any] = {
        name: parameters[name] for name in ("mark", "sort", "title") if name in parameters
    }
    mark = parameters.get("mark")
    specification["x"] = _axis(parameters, "x", bucket="bucket", scale="scale")
    of, measure = ("color", "y") if mark == "heatmap" else ("y", "color")
    if "aggregate" in parameters:
        field = {"field": parameters[of]} if of in parameters else {}
        specification[of] = {"aggregate": parameters["aggregate"], **field}
    elif of in parameters:
        specification[of] = parameters[of]
    if measure in parameters:
        specification[measure] = (
            _axis(parameters, measure, bucket="y_bucket") if measure == "y" else parameters[measure]
        )
    filters = read_structured_query({"filters": parameters["filters"]} if "filters" in parameters else {})
    try:
        chart = read_chart(specification)
    except BadParameterError as error:
        if error.details == {"name": "chart"}:
            error.hint = _EXAMPLE  # not as tools write it, in JSON
        raise
    if "width" in parameters:
        chart = replace(chart, width=_width(parameters["width"]))
    return ChartRequest(chart, filters)


_EXAMPLE = "For example ?mark=bar&x=state&aggregate=avg&y=debt&sort=-y."


def _width(text: str) -> int:
    is_whole = text.isascii() and text.isdecimal() and len(text) <= len(str(WIDEST))
    if not is_whole or not NARROWEST <= int(text) <= WIDEST:
        raise BadParameterError(
            f"width must be a whole number from {NARROWEST} to {WIDEST}.", details={"name": "width"}
        )
    return int(text)


def _theme(values: Mapping[str, str]) -> Theme:
    theme = values.get("theme", "light")
    if theme not in get_args(Theme):
        raise BadParameterError(
            f"theme must be one of {', '.join(get_args(Theme))}.", details={"name": "theme"}
        )
    return cast("Theme", theme)


def _axis(parameters: Mapping[str, str], name: str, **options: str) -> Any:
    """A column alone, or with options."""
    axis_options = {option: parameters[key] for option, key in options.items() if key in parameters}
    return {"field": parameters.get(name), **axis_options} if axis_options else parameters.get(name)


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
