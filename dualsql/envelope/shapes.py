"""The shapes of answers, as types; the rule: `schemas` says the same to a program, and a test compares them.

A Response is the envelope of seeds/004, a DualModeAnswer that of seeds/001. What either means in MCP, `mcp` says.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from dualsql.envelope.displays import Display


class TextItem(TypedDict):
    """What is to be read."""

    type: Literal["text"]
    text: str


class ImageItem(TypedDict):
    """A picture by its address; MCP's image carries the bytes instead."""

    type: Literal["image"]
    url: str
    altText: str
    width: NotRequired[int]
    height: NotRequired[int]
    caption: NotRequired[str]


class ResourceItem(TypedDict):
    """Something that exists elsewhere; MCP's resource embeds its contents instead."""

    type: Literal["resource"]
    resourceType: str
    identifier: str
    name: str
    description: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]


ContentItem = TextItem | ImageItem | ResourceItem


class ErrorBody(TypedDict):
    """What went wrong. `details.suggestion` says what to do next, where that is known."""

    code: str
    message: str
    details: NotRequired[dict[str, Any]]


class Response(TypedDict):
    """The envelope of seeds/004. `timestamp` is ISO 8601 in UTC; `error` is there exactly when `success` is false."""

    success: bool
    timestamp: str
    content: list[ContentItem]
    data: NotRequired[dict[str, Any]]
    error: NotRequired[ErrorBody]


Status = Literal["success", "error", "staged"]
"""staged: the rows are kept, and `data` says how to get them."""


class Metadata(TypedDict):
    """About an answer of seeds/001. `timestamp` and `executionTime` are milliseconds, the one since 1970.

    `cached` is true only if a result cache answered; `schema` is the JSON Schema of the data.
    """

    operation: str
    timestamp: int
    status: Status
    executionTime: float
    cached: bool
    schema: NotRequired[dict[str, Any]]


class DualModeAnswer(TypedDict):
    """The dual-mode answer of seeds/001: `data` for code, `display` for people, or an `error` instead of `data`.

    `display` is left out for callers who asked for JSON only. `success` is always there, because clients written to
    seeds/001 take an answer without it for an error.
    """

    success: bool
    data: NotRequired[dict[str, Any]]
    error: NotRequired[ErrorBody]
    display: NotRequired[Display]
    metadata: Metadata


class QueryAccess(TypedDict, total=False):
    """Where and how staged rows are queried."""

    endpoint: str
    example: str


class StagedData(TypedDict, total=False):
    """The `data` of a result that is kept elsewhere. `payloadSize` is bytes, `entities` a number of rows."""

    dataAccessId: str
    operation: str
    payloadSize: int
    entities: int
    table: str
    rows: list[dict[str, Any]]
    queryAccess: QueryAccess
