"""The OpenAPI document of a list of operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter

from dualsql.envelope.mcp import CONTEXT_HEADER, FORMAT_HEADER
from dualsql.errors import DualResponseError
from dualsql.http.parameters import RESOURCE_ID
from dualsql.http.problems import KINDS, PRIVATE_HEADERS
from dualsql.log import REQUEST_ID_HEADER
from dualsql.openapi.operations import (
    DUAL_MODE,
    EXAMPLE_ID,
    HEADERS,
    JSON,
    OF_PAGES,
    REQUEST_HEADERS,
    TEXT,
    WIRE,
    Operation,
    Schema,
    ref,
)
from dualsql_client import wire

_ALWAYS = (*PRIVATE_HEADERS, REQUEST_ID_HEADER)
# RFC 9110 requires those of 401 (15.5.2) and 426 (15.5.22), RFC 6750 that of 403 (3.1).
_ERROR_HEADERS: Mapping[int, Sequence[str]] = {
    401: ("WWW-Authenticate",),
    403: ("WWW-Authenticate",),
    408: ("Connection",),
    409: ("Retry-After",),
    429: ("Retry-After",),
    426: ("Upgrade", "Connection"),
    503: ("Retry-After",),
}


def openapi_document(
    base_url: str, operations: Sequence[Operation], *, is_authenticated: bool
) -> dict[str, Any]:
    """The document, OpenAPI 3.1.

    Args:
        is_authenticated: the server has an authenticator. The document then names bearer tokens as optional: results
            without an owner need none, and an authenticator of the application may read another credential.
    """
    has_pages = any("text/html" in operation.answers for operation in operations)
    is_dual_mode = any(operation.is_enveloped for operation in operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        item = paths.setdefault(operation.path, _path_item(operation.path))
        item[operation.method.lower()] = _operation(operation)
    for operation in operations:
        _add_plain_methods(paths[operation.path], operation)
    schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dualsql",
            "summary": "Stored query results, read in pages or as a stream.",
            "description": "An application's own `authenticate` may add answers, such as a redirect to a login.",
            "version": version("dualsql"),
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": base_url}],
        "paths": paths,
        "components": {
            "schemas": {
                **component_schemas(is_dual_mode=is_dual_mode),
                **{name: schema for each in operations for name, schema in each.schemas.items()},
            },
            "responses": _problems(has_pages=has_pages, is_dual_mode=is_dual_mode),
            "headers": {name: _header(name) for name in HEADERS},
            **({"securitySchemes": schemes} if is_authenticated else {}),
        },
        # {} makes the token optional (OpenAPI 3.1, Security Requirement Object).
        **({"security": [{}, {"bearer": []}]} if is_authenticated else {}),
    }


def _path_item(path: str) -> dict[str, Any]:
    if "{id}" not in path:
        return {}
    identifier = {**RESOURCE_ID, "examples": [EXAMPLE_ID]}
    return {
        "parameters": [
            {"name": "id", "in": "path", "required": True, "description": "The result.", "schema": identifier}
        ]
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_parameters(operation)],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        schema = body_schema(operation)
        described["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    if operation.form is not None:
        content = {"application/x-www-form-urlencoded": {"schema": operation.form}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(operation: Operation) -> Iterator[Mapping[str, Any]]:
    for name, parameter in operation.query.items():
        schema = parameter.text or parameter.value
        described = {"name": name, "in": "query", "description": parameter.description, "schema": schema}
        # Names are joined by commas.
        yield {**described, "style": "form", "explode": False} if schema.get("type") == "array" else described
    enveloped = (FORMAT_HEADER, CONTEXT_HEADER) if operation.is_enveloped else ()
    further = (name for answer in operation.further.values() for name in answer.asks)
    for name in (*operation.asks, *further, *enveloped, REQUEST_ID_HEADER):
        description, schema = REQUEST_HEADERS[name]
        yield {"name": name, "in": "header", "description": description, "schema": schema}


def body_schema(operation: Operation) -> Schema:
    """The schema of a body. A null is as if the name was left out, unless `rules` require it."""
    required = operation.rules.get("required", ())
    return {
        "type": "object",
        "properties": {
            name: {
                **(parameter.value if name in required else _or_null(parameter.value)),
                "description": parameter.description,
            }
            for name, parameter in (operation.body or {}).items()
        },
        "additionalProperties": False,
        **operation.rules,
        **({} if operation.example is None else {"examples": [operation.example]}),
    }


# OpenAPI 3.1 has the types of JSON Schema 2020-12: null is one of them, and there is no `nullable`.
def _or_null(schema: Schema) -> Schema:
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema


def _responses(operation: Operation) -> dict[str, Any]:
    always = (*_ALWAYS, *(("Vary",) if operation.is_enveloped else ()))

    def answered(description: str, answers: Mapping[str, Schema], headers: Sequence[str]) -> dict[str, Any]:
        content = {media_type: {"schema": schema} for media_type, schema in answers.items()}
        return {
            "description": description,
            "headers": {name: _header_ref(name) for name in dict.fromkeys((*always, *headers))},
            **({"content": content} if content else {}),
        }

    responses = {str(operation.status): answered(operation.summary, operation.answers, operation.headers)}
    if operation.links:
        responses[str(operation.status)]["links"] = dict(operation.links)
    for status, further in operation.further.items():
        responses[str(status)] = answered(further.description, further.answers, further.headers)
    if "If-None-Match" in operation.asks:
        headers = {name: _header_ref(name) for name in (*_ALWAYS, "ETag", "Vary")}
        responses["304"] = {"description": "The caller's copy is current.", "headers": headers}
    return responses | _errors(operation.errors)


def _errors(codes: Iterable[str]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {
        str(status): {"$ref": f"#/components/responses/{status}", "description": ", ".join(codes_of_status)}
        for status, codes_of_status in sorted(by_status.items())
    }


def _add_plain_methods(item: dict[str, Any], operation: Operation) -> None:
    """HEAD, which answers as GET without a body; OPTIONS, which lists the methods."""
    if operation.method == "GET" and "HEAD" in operation.methods:
        # With another name: an operationId is unique in the document.
        bodiless = replace(
            operation,
            name=f"{operation.name}Head",
            answers={},
            links={},
            further={},
            summary=f"Headers only: {operation.summary}",
        )
        head = _operation(bodiless)
        # An answer to HEAD has no content (RFC 9110, 9.3.2), and the shared answers of errors have one.
        for status in [status for status in head["responses"] if int(status) >= 400]:
            described = head["responses"][status]["description"]
            headers = _problem_headers(int(status))
            head["responses"][status] = {"description": described, "headers": headers}
        item["head"] = head
    if "OPTIONS" in operation.methods and "options" not in item:
        headers = {name: _header_ref(name) for name in (*_ALWAYS, "Vary", "Allow")}
        answered = {"description": "The methods of the path.", "headers": headers}
        item["options"] = {
            "operationId": f"{operation.name}Options",
            "summary": "The methods of the path.",
            "responses": {"204": answered} | _errors(("FOREIGN_REQUEST",)),
        }


def _header(name: str) -> dict[str, Any]:
    description, schema = HEADERS[name]
    return {"description": description, "schema": schema}


def _header_ref(name: str) -> Schema:
    assert name in HEADERS
    return {"$ref": f"#/components/headers/{name}"}


def _problem_headers(status: int) -> dict[str, Schema]:
    header_names = (*_ALWAYS, "Vary", *OF_PAGES, *_ERROR_HEADERS.get(status, ()))
    return {name: _header_ref(name) for name in header_names}


def _problems(*, has_pages: bool, is_dual_mode: bool) -> dict[str, Any]:
    """One answer for each status of an error, with an example of each code. Pages answer with a page."""
    by_status: dict[int, list[str]] = {}
    for code, kind in KINDS.items():
        by_status.setdefault(kind.status, []).append(code)
    errors = errors_by_code()
    forms = [ref("Problem"), *([ref(DUAL_MODE)] if is_dual_mode else [])]
    return {
        str(status): {
            "description": ", ".join(codes),
            "headers": _problem_headers(status),
            "content": {
                JSON: {
                    "schema": {"anyOf": forms},
                    "examples": {code: {"value": _problem(code, errors[code])} for code in codes},
                },
                **({"text/html": {"schema": TEXT}} if has_pages else {}),
            },
        }
        for status, codes in sorted(by_status.items())
    }


def errors_by_code() -> dict[str, type[DualResponseError]]:
    """The classes of errors of dualsql's own."""
    classes: dict[str, type[DualResponseError]] = {}
    pending: list[type[DualResponseError]] = [DualResponseError]
    while pending:
        error = pending.pop()
        pending += error.__subclasses__()
        # A subclass of the application's own is answered as dualsql's class that it extends.
        if error.__module__.partition(".")[0] == "dualsql":
            # A class without a code of its own inherits one. Its parent came first and stays.
            classes.setdefault(error.code, error)
    return classes


def _problem(code: str, error: type[DualResponseError]) -> wire.Problem:
    words = error.caller_words
    message = (error.__doc__ or "").partition("\n")[0]
    return wire.Problem(
        error=KINDS[code].word,
        message=words.message if words else message,
        code=code,
        hint=words.hint if words else error.default_hint,
        details={"incident": "5f1c2a9d"} if KINDS[code].status >= 500 else {},
    )


@cache
def component_schemas(*, is_dual_mode: bool) -> Mapping[str, Any]:
    """The schemas of the types in WIRE, and of the types that they name."""
    adapters: list[Any] = [
        (name, "validation", TypeAdapter(type_))
        for name, type_ in WIRE.items()
        if is_dual_mode or name != DUAL_MODE
    ]
    _, shared = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = _without_titles(shared["$defs"])
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    return schemas


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic writes, which repeat the names."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(part)
        for key, part in schema.items()
        if key != "title" or not isinstance(part, str)
    }


_COLUMNS: list[wire.Column] = [
    {"name": "name", "type": "string", "encoding": "text"},
    {"name": "earnings", "type": "number", "encoding": "integer"},
]
_EXPIRES = "2026-11-21T06:03:00Z"
_DESCRIPTION = wire.ResourceDescription(
    status="ready",
    name="Programs",
    uri=f"resource://{EXAMPLE_ID}",
    total_count=15_191,
    total_count_kind="exact",
    columns=_COLUMNS,
    created_at="2026-11-21T05:48:00Z",
    expires_at=_EXPIRES,
    access_count=1,
    last_accessed_at="2026-11-21T05:49:00Z",
    metadata={},
)
EXAMPLES: Mapping[str, Any] = {
    "ResourceDescription": _DESCRIPTION,
    "ResourceListing": wire.ResourceListing(
        resources=[
            wire.ListedResource(**_DESCRIPTION, url=f"https://api.example.com/resources/{EXAMPLE_ID}")
        ],
        next_cursor=None,
    ),
    "Page": wire.Page(
        data=[{"name": "Ohio State University-Main Campus", "earnings": 329_225}],
        columns=_COLUMNS,
        total_count=15_191,
        total_count_kind="exact",
        returned_count=1,
        offset=0,
        skip=0,
        has_next=True,
        has_previous=False,
        has_prev=False,
        next_offset=1,
        order="total",
        cached=False,
        next_cursor="q83vEjRWeJCrze8",
        previous_cursor=None,
        expires_at=_EXPIRES,
    ),
    "Pinned": wire.Pinned(status="pinned", expires_at=None),
    "Unpinned": wire.Unpinned(status="ready", expires_at=_EXPIRES),
    "StructuredContent": wire.StructuredContent(
        results=[{"name": "Ohio State University-Main Campus", "earnings": 329_225}],
        resource=wire.ResourceLink(
            uri=f"resource://{EXAMPLE_ID}",
            url=f"https://api.example.com/resources/{EXAMPLE_ID}",
            name="Refined",
            mimeType="application/json",
        ),
        metadata=wire.ResultMetadata(
            total_count=1,
            total_count_kind="exact",
            sample_count=1,
            columns=[
                wire.ShownColumn(name="name", type="string"),
                wire.ShownColumn(name="earnings", type="number"),
            ],
            expires_at=_EXPIRES,
        ),
    ),
    "Profile": wire.Profile(
        kind="sample",
        covers=wire.Covered(rows=10_000, of="sample"),
        complete=True,
        left_out=0,
        columns=[
            wire.ColumnProfile(
                name="earnings",
                type="number",
                covers=wire.Covered(rows=10_000, of="sample"),
                masked=False,
                missing=[],
                nulls=12,
                distinct=4_321,
                distinct_kind="exact",
                minimum=10_000,
                maximum=329_225,
            )
        ],
    ),
}
"""Answers, by the name of their type."""
