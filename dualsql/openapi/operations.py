"""What the REST resources take and answer: one table, for the OpenAPI document and the well-known document.

An `Operation` is one method of one path. Names of parameters come from the tables of the parsers, JSON shapes from the
types in `dualsql_client.wire`, and errors from the table of problems. Features describe their own operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, get_args

from dualsql.envelope import DualModeAnswer
from dualsql.envelope.mcp import CONTEXT_HEADER, FORMAT_HEADER, ExecutionContext, ResponseFormat
from dualsql.feature import Feature
from dualsql.formats.table import FORMATS
from dualsql.http.parameters import (
    COUNT_QUERY,
    DIGEST,
    LISTING_QUERY,
    MAXIMUM_COLUMNS,
    MAXIMUM_NAME_LENGTH,
    PAGE_BODY,
    PAGE_QUERY,
    STREAM_PARAMETERS,
    TOKEN,
    ParameterKind,
    StreamParameter,
)
from dualsql.http.problems import METHODS, RETRY_SECONDS
from dualsql.http.router import COLLECTION_METHODS, PIN_METHODS, ROW_METHODS
from dualsql.log import REQUEST_ID_HEADER
from dualsql.openapi.service import WELL_KNOWN
from dualsql.results.pages import LONGEST_CELL
from dualsql.results.resources import LONGEST_LISTING
from dualsql.settings import Settings
from dualsql_client import wire
from dualsql_client.wire import Profile

OPENAPI = "/openapi.json"
DOCUMENT_METHODS = ("GET", "HEAD", "OPTIONS")

Schema = Mapping[str, Any]

JSON = "application/json"
EXAMPLE_ID = "TilOQRDcoKWRQDm8es86EA85ZCU"


class Parameter(NamedTuple):
    """A value that a caller may give.

    Attributes:
        value: its schema in JSON, with an example.
        text: its schema in a query string, where that is another one.
    """

    description: str
    value: Schema
    text: Schema | None = None


Parameters = Mapping[str, Parameter]


class FurtherAnswer(NamedTuple):
    """An answer with another status, to requests with certain headers.

    Attributes:
        answers, headers: as of an `Operation`.
        asks: names of REQUEST_HEADERS that lead to it.
    """

    description: str
    answers: Mapping[str, Schema]
    headers: Sequence[str]
    asks: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path below the base URL.

    Attributes:
        name: what generated clients call it.
        query, body: the parameters by name, from the table of the parser. None: a body is not read.
        rules: further JSON Schema of the body: which names go together.
        methods: all methods of the path. HEAD and OPTIONS are described with GET or the first method.
        answers: the schema of an answer with `status`, by media type; empty for an answer without a body.
        headers: names of HEADERS that such an answer may have, besides those that all have.
        asks: names of REQUEST_HEADERS.
        errors: codes, as in the table of problems.
        is_enveloped: JSON is a dual-mode answer for callers who ask for one.
        links: by name, operations that a value of the answer leads to.
        schemas: components of the document that its other schemas refer to.
        further: other answers without an error, by their status.
    """

    method: str
    path: str
    name: str
    summary: str
    methods: Sequence[str]
    query: Parameters = field(default_factory=dict)
    body: Parameters | None = None
    rules: Schema = field(default_factory=dict)
    example: Mapping[str, Any] | None = None
    form: Schema | None = None
    status: int = 200
    answers: Mapping[str, Schema] = field(default_factory=dict)
    headers: Sequence[str] = ()
    asks: Sequence[str] = ()
    errors: Sequence[str] = ()
    is_enveloped: bool = True
    links: Mapping[str, Schema] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    further: Mapping[int, FurtherAnswer] = field(default_factory=dict)

    def without_dual_mode(self) -> Operation:
        """The operation of a server without dual-mode answers."""
        further = {
            status: each._replace(answers=_without_dual_mode(each.answers))
            for status, each in self.further.items()
        }
        return replace(self, answers=_without_dual_mode(self.answers), further=further, is_enveloped=False)

    def to_endpoint(self) -> dict[str, Any]:
        """The entry of the well-known document."""
        return {
            "method": self.method,
            "path": self.path,
            "description": self.summary,
            "parameters": {"query": list(self.query), "body": list(self.body or ())},
        }


class DescribedFeature(Feature):
    """A feature whose routes are in the documents that describe the service."""

    def operations(self, settings: Settings) -> Sequence[Operation]:
        """What the routes take and answer.

        Args:
            settings: those of the server.
        """
        raise NotImplementedError

    def extended(self, operation: Operation) -> Operation:
        """An operation of the server, with what this feature adds to it."""
        return operation


# Codes of errors, by what an operation does.
ANY = (
    "BAD_PARAMETER", "UNAUTHENTICATED", "INSUFFICIENT_SCOPE", "FOREIGN_REQUEST", "DUAL_RESPONSE_ERROR",
    "BAD_CONFIGURATION", "STORAGE_ERROR", "DATABASE_UNREACHABLE", "SERVER_UNAVAILABLE",
)  # fmt: skip
OPENS = (*ANY, "RESOURCE_NOT_FOUND", "RESOURCE_EXPIRED", "FORBIDDEN", "TAMPERED_RESOURCE")
READS = (
    *OPENS, "RESOURCE_PENDING", "RESOURCE_FAILED", "QUERY_EXECUTION_FAILED", "QUERY_TIMEOUT", "QUERY_INTERRUPTED",
    "QUERY_CANCELLED", "DATABASE_BUSY", "TOO_MANY_QUERIES", "UNKNOWN_COLUMN", "NO_TOTAL_ORDER", "BAD_CURSOR",
    "LIMIT_EXCEEDED", "VALUE_NOT_REPRESENTABLE", "CALLER_GONE", "RATE_LIMITED",
)  # fmt: skip
BODY = ("SLOW_BODY", "BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "CALLER_GONE")
STREAMS = ("NOT_ACCEPTABLE", "OLD_PROTOCOL", "RESULT_CHANGED")
ASKS = (
    "INVALID_SQL", "UNKNOWN_TABLE", "FORBIDDEN_SQL", "NOT_FREEZABLE", "COUNT_EXECUTION_FAILED", "MISSING_EXTRA",
)  # fmt: skip

DUAL_MODE = "DualModeAnswer"
"""The component that an answer in JSON may be, where the server has the feature DualMode."""
WIRE: Mapping[str, Any] = {
    "Page": wire.Page,
    "ResourceDescription": wire.ResourceDescription,
    "ResourceListing": wire.ResourceListing,
    "Pinned": wire.Pinned,
    "Unpinned": wire.Unpinned,
    "Problem": wire.Problem,
    "Profile": Profile,
    "StructuredContent": wire.StructuredContent,
    "SortKey": wire.SortKey,
    DUAL_MODE: DualModeAnswer,
}
"""The types of bodies, which are components of the document."""


def ref(name: str) -> Schema:
    """The component schema of a type in WIRE."""
    assert name in WIRE
    return {"$ref": f"#/components/schemas/{name}"}


def in_json(*names: str, further: Sequence[Schema] = ()) -> dict[str, Schema]:
    """A JSON answer of one of these types, or the dual-mode answer that a caller may ask for."""
    return {JSON: {"anyOf": [*map(ref, names), *further, ref(DUAL_MODE)]}}


def _without_dual_mode(answers: Mapping[str, Schema]) -> dict[str, Schema]:
    return {
        media_type: {**schema, "anyOf": [form for form in schema["anyOf"] if form != ref(DUAL_MODE)]}
        if "anyOf" in schema
        else schema
        for media_type, schema in answers.items()
    }


def plain_schema(media_type: str) -> Schema:
    """The schema of an answer that is not described further: text, any JSON object, or bytes, which have none."""
    # NDJSON is a text here: a schema of its lines needs itemSchema, which OpenAPI has since 3.2.
    if media_type.startswith("text/") or media_type.endswith(("ndjson", "+xml")):
        return {"type": "string"}
    return {"type": "object"} if media_type.endswith("json") else {}


ROWS: Schema = {"type": "array", "items": {"type": "object"}}


def streams() -> dict[str, Schema]:
    """The formats of a stream of rows, by media type."""
    return {
        format_.media_type: ROWS if format_.media_type == JSON else plain_schema(format_.media_type)
        for format_ in FORMATS.values()
    }


STREAM_HEADERS = (
    "Content-Disposition", "Content-Encoding", "ETag", wire.RESUME_HEADER, wire.NO_RESUME_HEADER,
    wire.TOTAL_COUNT_HEADER, wire.TOTAL_COUNT_KIND_HEADER, wire.NOTES_HEADER, "X-Accel-Buffering",
)  # fmt: skip
CONDITIONAL = ("If-None-Match",)
ENCODED = ("Accept-Encoding",)

TEXT: Schema = {"type": "string"}
_REQUEST_ID: Schema = {"type": "string", "examples": ["0d9f2c55b1a7e384"]}
HEADERS: Mapping[str, tuple[str, Schema]] = {
    "Vary": ("The request headers that the answer depends on.", TEXT),
    "ETag": ("The version of the answer, for If-None-Match.", TEXT),
    "Retry-After": ("Seconds to wait.", {"type": "integer", "minimum": 0, "examples": [RETRY_SECONDS]}),
    "WWW-Authenticate": ("The required credential.", TEXT),
    "Connection": ("The connection is closed, or the protocol must be changed.", TEXT),
    "Upgrade": ("The required protocol.", TEXT),
    "Allow": ("The methods of the path.", TEXT),
    "Location": ("Where the new result, or the page, is.", TEXT),
    "Set-Cookie": (
        "The signed link, for this result only; of a page, what its forms are checked with.",
        TEXT,
    ),
    "Refresh": ("A page of a pending result reloads itself.", TEXT),
    "Content-Disposition": ("The name of the file.", TEXT),
    "Content-Encoding": ("The content coding.", {"type": "string", "examples": ["gzip"]}),
    "Content-Security-Policy": ("What the answer may load.", TEXT),
    "Cross-Origin-Opener-Policy": ("Other sites get no hold of the page.", TEXT),
    wire.RESUME_HEADER: ("The token for `resume`, if the stream breaks.", TOKEN),
    wire.NO_RESUME_HEADER: ("Why a broken stream cannot be resumed.", {"enum": ["NO_TOTAL_ORDER", "FORMAT"]}),
    wire.TOTAL_COUNT_HEADER: ("The rows of the result, where known.", {"type": "integer", "minimum": 0}),
    wire.TOTAL_COUNT_KIND_HEADER: ("What that number is worth.", {"enum": [*get_args(wire.TotalCountKind)]}),
    wire.NOTES_HEADER: (
        "A JSON list of sentences: the rows are those of the database now, for instance.",
        TEXT,
    ),
    "X-Accel-Buffering": ("no: nginx passes the stream on as it comes.", TEXT),
    "Cache-Control": ("No cache keeps the answer.", {"type": "string", "examples": ["no-store"]}),
    "Referrer-Policy": ("No other site learns the address.", TEXT),
    "X-Content-Type-Options": ("Browsers do not guess the type.", TEXT),
    "Preference-Applied": (
        "What was done of the preferences of the request.",
        {"const": "respond-async"},
    ),
    REQUEST_ID_HEADER: ("The id of the request in the server's log.", _REQUEST_ID),
}
"""Headers of answers: their meaning and schema."""

REQUEST_HEADERS: Mapping[str, tuple[str, Schema]] = {
    "If-None-Match": (
        "The ETag of the copy that the caller has.",
        {"type": "string", "examples": ['W/"0a1b"']},
    ),
    "Accept-Encoding": ("Content codings, such as gzip.", {"type": "string", "examples": ["gzip"]}),
    "Prefer": (
        "respond-async: 202 where the rows take too long. wait: the seconds that they may take (RFC 7240).",
        {"type": "string", "examples": ["respond-async, wait=20"]},
    ),
    FORMAT_HEADER: (
        "Asks for a dual-mode answer: json is data for code, markdown also text for people. Others are ignored.",
        {"type": "string", "examples": [*get_args(ResponseFormat)]},
    ),
    CONTEXT_HEADER: (
        f"With {FORMAT_HEADER}: whether a `chat` or `code` reads it.",
        {"type": "string", "examples": [*get_args(ExecutionContext)]},
    ),
    REQUEST_ID_HEADER: ("An id for the server's log. A malformed one is replaced.", _REQUEST_ID),
}
"""Headers of requests. Accept and Authorization are described by the answers and the security scheme."""

OF_PAGES = ("Content-Security-Policy", "Cross-Origin-Opener-Policy")
"""Headers of pages, and of errors that are answered with one."""


def whole_schema(least: int, most: int, example: int) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, "examples": [example]}


def name_schema(pattern: str | None = None) -> Schema:
    """The name of a column."""
    schema = {"type": "string", "minLength": 1, "maxLength": MAXIMUM_NAME_LENGTH}
    return schema if pattern is None else {**schema, "pattern": pattern}


def _names() -> tuple[Schema, Schema]:
    schema = {"type": "array", "minItems": 1, "maxItems": MAXIMUM_COLUMNS, "uniqueItems": True}
    examples = [["name", "state"]]
    return (
        {**schema, "items": name_schema(), "examples": examples},
        # In a URL a comma separates names: a column that has one can be named in a body only.
        {**schema, "items": name_schema("^[^,]+$"), "examples": examples},
    )


def _sort(settings: Settings) -> tuple[Schema, Schema]:
    key = {
        "type": "object",
        "properties": {"field": name_schema(), "order": {"enum": ["asc", "desc"]}},
        "required": ["field"],
        "additionalProperties": False,
    }
    keys = {"type": "array", "items": key, "maxItems": settings.maximum_sort_keys}
    return (
        {"anyOf": [key, keys], "examples": [{"field": "earnings", "order": "desc"}]},
        {"type": "string", "minLength": 1, "examples": ["-earnings,name"]},
    )


def shared_parameters(settings: Settings) -> Parameters:
    """The parameters that several operations take."""
    offset = whole_schema(0, settings.maximum_offset, 100)
    return {
        **stream_parameters(settings),
        "offset": Parameter("Rows before the page.", offset),
        "skip": Parameter("Another name for offset.", offset),
        "limit": Parameter("The most rows of the page.", whole_schema(1, settings.maximum_page_size, 100)),
        "cell_limit": Parameter(
            "Cut texts and documents after so many characters; `cut` lists them.",
            whole_schema(1, LONGEST_CELL, 500),
        ),
        "count": Parameter(
            "Count the rows anew, in this way. No other parameter is allowed beside it.",
            {
                "type": "string",
                "pattern": r"^(exact|estimated|none|auto|capped:[1-9][0-9]{0,8})$",
                "examples": ["exact"],
            },
        ),
        "link": Parameter("A signed link, instead of a credential.", {"type": "string", "minLength": 1}),
    }


def stream_parameters(settings: Settings) -> Parameters:
    """The parameters of streams."""
    # Where the schema in a query string is another one than in JSON, it is the second.
    schemas: Mapping[ParameterKind, tuple[Schema, ...]] = {
        "format": ({"enum": [*FORMATS], "examples": ["csv"]},),
        "names": _names(),
        "sort": _sort(settings),
        "rows": (whole_schema(0, settings.maximum_stream_rows, 1000),),
        "offset": (whole_schema(0, settings.maximum_offset, 500),),
        "cursor": ({"type": "string"},),
        "token": (TOKEN,),
        "digest": (DIGEST,),
    }
    return {
        name: Parameter(parameter.meaning, *(schemas.get(parameter.kind) or (_option_schema(parameter),)))
        for name, parameter in STREAM_PARAMETERS.items()
    }


def _option_schema(parameter: StreamParameter) -> Schema:
    return (
        {"enum": [*parameter.words]} if parameter.words else {"type": "boolean", "default": parameter.default}
    )


def _of(parameters: Parameters, names: Iterable[str], **instead: Schema) -> dict[str, Parameter]:
    return {
        name: Parameter(parameters[name].description, instead[name]) if name in instead else parameters[name]
        for name in names
    }


CURSOR_OR_OFFSET: Schema = {
    "not": {
        "required": ["cursor", "offset"],
        "properties": {"cursor": {"type": "string"}, "offset": {"type": "integer"}},
    }
}
"""Nulls count as left out."""

_TURNS: Mapping[str, Schema] = {
    "nextPage": {
        "operationId": "postPage",
        "parameters": {"id": "$request.path.id"},
        # A runtime expression of OpenAPI 3.1 (Link Object).
        "requestBody": {"cursor": "$response.body#/next_cursor"},
        "description": "The next page, where next_cursor is not null.",
    }
}


def resource_operations(
    settings: Settings,
    representations: Iterable[str] = (),
    listings: Iterable[str] = (),
    *,
    has_links: bool = False,
) -> list[Operation]:
    """The operations of results and of the collection.

    Args:
        representations, listings: further media types of GET of a result, and of the collection.
        has_links: results are read by signed links, too.
    """
    parameters = shared_parameters(settings)
    link = _of(parameters, ("link",) if has_links else ())
    further_headers = (*OF_PAGES, "Refresh")
    of_result = {media_type: plain_schema(media_type) for media_type in representations}
    of_listing = {media_type: plain_schema(media_type) for media_type in listings}
    return [
        _document(WELL_KNOWN, "getService", "The endpoints and defaults of this service."),
        _document(OPENAPI, "getOpenAPI", "This document."),
        Operation(
            method="GET",
            path="/",
            name="listResults",
            summary="Your own results, newest first.",
            methods=COLLECTION_METHODS,
            query=_of(parameters, LISTING_QUERY, limit=whole_schema(1, LONGEST_LISTING, 20)),
            answers=in_json("ResourceListing") | of_listing,
            headers=further_headers if of_listing else (),
            errors=(*ANY, "RESOURCE_NOT_FOUND"),
        ),
        Operation(
            method="GET",
            path="/{id}",
            name="getResult",
            summary="The metadata of a result; with page parameters, a page of its rows.",
            methods=METHODS,
            query={**_of(parameters, (*PAGE_QUERY, *COUNT_QUERY)), **link},
            answers=in_json("ResourceDescription", "Page") | of_result,
            headers=("Vary", "ETag", "Retry-After", *((*further_headers, "Set-Cookie") if of_result else ())),
            asks=CONDITIONAL,
            errors=(*READS, "COUNT_EXECUTION_FAILED"),
            links=_TURNS,
        ),
        Operation(
            method="POST",
            path="/{id}",
            name="postPage",
            summary="A page of the rows of a result.",
            methods=METHODS,
            query=link,
            body=_of(parameters, PAGE_BODY),
            rules=CURSOR_OR_OFFSET,
            example={"limit": 100, "sort": {"field": "earnings", "order": "desc"}},
            answers=in_json("Page"),
            errors=(*READS, *BODY),
            links=_TURNS,
        ),
        *_keeping(),
        *_streaming(link, settings),
    ]


def _document(path: str, name: str, summary: str) -> Operation:
    return Operation(
        method="GET",
        path=path,
        name=name,
        summary=summary,
        methods=DOCUMENT_METHODS,
        answers={JSON: {"type": "object"}},
        errors=("BAD_PARAMETER", "FOREIGN_REQUEST", "DUAL_RESPONSE_ERROR"),
        is_enveloped=False,
    )


def _keeping() -> list[Operation]:
    pinned = Operation(
        method="PUT",
        path="/{id}",
        name="pinResult",
        summary="Pin a result: it does not expire.",
        methods=METHODS,
        answers=in_json("Pinned"),
        errors=(*OPENS, "LIMIT_EXCEEDED"),
    )
    unpinned = Operation(
        method="DELETE",
        path="/{id}/pin",
        name="unpin",
        summary="Unpin a result: it expires one lifetime from now.",
        methods=PIN_METHODS,
        answers=in_json("Unpinned"),
        errors=OPENS,
    )
    return [
        pinned,
        replace(pinned, path="/{id}/pin", name="pin", summary="The same.", methods=PIN_METHODS),
        unpinned,
        replace(
            unpinned,
            path="/{id}",
            name="deleteResult",
            summary="Delete it.",
            methods=METHODS,
            status=204,
            answers={},
        ),
    ]


def _streaming(link: Parameters, settings: Settings) -> list[Operation]:
    parameters = stream_parameters(settings)
    shared: dict[str, Any] = {
        "path": "/{id}/rows",
        "summary": "All rows of a result as a stream.",
        "methods": ROW_METHODS,
        "answers": streams(),
        "headers": STREAM_HEADERS,
        "asks": (*CONDITIONAL, *ENCODED),
    }
    together = {"dependentRequired": {"after": ["resume"], "last": ["resume"], "resume": ["after"]}}
    return [
        Operation(
            method="GET", name="getRows", query={**parameters, **link}, errors=(*READS, *STREAMS), **shared
        ),
        Operation(
            method="POST",
            name="postRows",
            query=link,
            body=parameters,
            rules=together,
            example={"format": "csv", "columns": ["name", "earnings"]},
            errors=(*READS, *STREAMS, *BODY),
            **shared,
        ),
    ]
