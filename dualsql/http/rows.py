"""All rows as one answer, in the form the caller would rather have; the rule: what a header says, the body keeps."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from dualsql.asking import Inquiry
from dualsql.formats.formats import FORMATS, format_named
from dualsql.formats.writer import Format
from dualsql.http.compression import CODINGS
from dualsql.http.conditions import is_known, not_modified
from dualsql.http.connection import while_connected
from dualsql.http.filenames import content_disposition
from dualsql.http.negotiation import preferred_coding, preferred_media_type
from dualsql.http.problems import NotAcceptableError, OldProtocolError
from dualsql.http.resources import Resources
from dualsql.http.row_parameters import RowsParameters
from dualsql.http.streaming import RowsAnswer, beginning_of
from dualsql.reading.streams import ResultStream, StreamRequest
from dualsql.resource import Principal, Resource
from dualsql_client.wire import NO_RESUME_HEADER, RESUME_HEADER, TOTAL_COUNT_HEADER, TOTAL_COUNT_KIND_HEADER

ROW_METHODS = ("GET", "HEAD", "OPTIONS", "POST")

_VARY = "Accept, Accept-Encoding"
_MEDIA_TYPES = {found.media_type: found for found in FORMATS.values()}
_PARAMETERS = {"csv": "; charset=utf-8; header=present"}
_ENDED_BY_HTTP = frozenset({"csv"})
_COMPRESSED_ALREADY = frozenset({"parquet"})


def chosen_format(named: str | None, headers: Headers) -> Format:
    """The format that the request names, or the one that its Accept weighs most.

    Raises:
        BadParameterError: no format has that name.
        NotAcceptableError: none is acceptable.
    """
    if named is not None:
        return format_named(named)
    media_type = preferred_media_type(headers.getlist("accept"), list(_MEDIA_TYPES))
    if media_type is None:
        raise NotAcceptableError(
            "Rows are not to be had in any format that is accepted.",
            hint=f"Accept one of: {', '.join(_MEDIA_TYPES)}.",
            details={"formats": {found.name: found.media_type for found in FORMATS.values()}},
        )
    return _MEDIA_TYPES[media_type]


def chosen_coding(written: Format, headers: Headers) -> str | None:
    """The content coding for this format; None for none.

    Raises:
        NotAcceptableError: neither is acceptable.
    """
    offered = () if written.name in _COMPRESSED_ALREADY else CODINGS
    return preferred_coding(headers.getlist("accept-encoding"), offered)


async def answer_rows(
    server: Resources,
    request: Request,
    parameters: RowsParameters,
    written: Format,
    *,
    resource: Resource,
    principal: Principal | None,
    inquiry: Inquiry | None = None,
) -> Response:
    """The rows that are asked for, from the first one on; for HEAD, what would be said of them.

    Args:
        inquiry: the rows are those of its answer, and not of the result itself.

    Raises:
        DualResponseError: what the request or the query is refused with, before a byte was sent.
    """
    _require_an_end(written, request)
    coding = chosen_coding(written, request.headers)
    wanted = StreamRequest(
        format=written.name,
        columns=parameters.columns,
        sort=parameters.sort,
        limit=parameters.limit,
        cursor=parameters.cursor,
        options=parameters.options,
        resumption=parameters.resumption,
    )
    if inquiry is None:
        stream = await server.stream_rows(resource, wanted, principal=principal)
    else:
        stream = server.inquiries.stream(resource, inquiry, wanted, principal=principal)
    if stream.etag is not None and is_known(request.headers, stream.etag):
        await server.describe_resource(resource, principal=principal)
        return not_modified(stream.etag, vary=_VARY)
    headers = _headers(stream, coding)
    if request.method == "HEAD":
        await server.describe_resource(resource, principal=principal)
        return _bodiless(headers)
    begun = await while_connected(request.receive, beginning_of(stream))
    return RowsAnswer(stream, begun, headers=headers, coding=coding, settings=server.settings)


def _require_an_end(written: Format, request: Request) -> None:
    """Refuse to send over HTTP/1.0, whose bodies end with the connection, what has no end of its own."""
    if written.name in _ENDED_BY_HTTP and request.scope.get("http_version") == "1.0":
        raise OldProtocolError(f"Over HTTP/1.0 {written.name} that was cut off would look whole.")


def _headers(stream: ResultStream, coding: str | None) -> dict[str, str]:
    written = stream.format
    found = {
        "Content-Type": written.media_type + _PARAMETERS.get(written.name, ""),
        "Content-Disposition": content_disposition(stream.name, written.extension),
        "Content-Encoding": coding,
        "Vary": _VARY,
        "ETag": stream.etag,
        RESUME_HEADER: stream.resume,
        NO_RESUME_HEADER: stream.no_resume,
        TOTAL_COUNT_HEADER: None if stream.total_count is None else str(stream.total_count),
        TOTAL_COUNT_KIND_HEADER: stream.total_count_kind,
    }
    return {name: value for name, value in found.items() if value is not None}


def _bodiless(headers: dict[str, str]) -> Response:
    response = Response(headers=headers)
    # GET's body has a length that nobody knows before its end.
    del response.headers["content-length"]
    return response
