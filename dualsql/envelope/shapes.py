"""The shapes of answers as types, and their content items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from dualsql.envelope.displays import Display
from dualsql.envelope.validation import CONTENT_ITEM_SCHEMA, validate
from dualsql.envelope.values import plain_value
from dualsql.errors import BadParameterError


class TextItem(TypedDict):
    """A text."""

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
    """An error. `details.suggestion` says what to do next, if that is known."""

    code: str
    message: str
    details: NotRequired[dict[str, Any]]


class Response(TypedDict):
    """The envelope (S12). `timestamp` is ISO 8601 in UTC; `error` is there exactly when `success` is false."""

    success: bool
    timestamp: str
    content: list[ContentItem]
    data: NotRequired[dict[str, Any]]
    error: NotRequired[ErrorBody]


Status = Literal["success", "error", "staged"]
"""staged: the rows are kept, and `data` says how to get them."""


class Metadata(TypedDict):
    """About an answer of specification S8. `timestamp` and `executionTime` are milliseconds, the one since 1970.

    `cached` is true only if a result cache answered; `schema` is the JSON Schema of the data.
    """

    operation: str
    timestamp: int
    status: Status
    executionTime: float
    cached: bool
    schema: NotRequired[dict[str, Any]]


class DualModeAnswer(TypedDict):
    """The dual-mode answer of specification S8: `data` for code, `display` for people, or an `error` instead of `data`.

    `display` is left out for callers who asked for JSON only. `success` is always there, because clients written to
    specification S8 take an answer without it for an error.
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
    """The `data` of a stored result. `payloadSize` is bytes, `entities` a number of rows."""

    dataAccessId: str
    operation: str
    payloadSize: int
    entities: int
    table: str
    rows: list[dict[str, Any]]
    queryAccess: QueryAccess


Item = TypeVar("Item", bound=ContentItem)


def text_item(text: str) -> TextItem:
    """A text item.

    Raises:
        BadParameterError: it is no text.
    """
    return checked_item(TextItem(type="text", text=plain_value(text)))


def image_item(
    url: str,
    alt_text: str,
    *,
    width: int | None = None,
    height: int | None = None,
    caption: str | None = None,
) -> ImageItem:
    """A picture by its address: http, https, a path on the same server, or a data: URL. Sizes are pixels.

    Raises:
        BadParameterError: the address is of another kind (no picture is a script), or a size is no size.
    """
    item: ImageItem = plain_value({"type": "image", "url": url, "altText": alt_text})
    if width is not None:
        item["width"] = width
    if height is not None:
        item["height"] = height
    if caption is not None:
        item["caption"] = plain_value(caption)
    return checked_item(item)


def resource_item(
    resource_type: str,
    identifier: str,
    name: str,
    *,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ResourceItem:
    """Something that exists elsewhere, such as a stored result: type "dual_response", its URI, its name.

    Raises:
        BadParameterError: type or identifier is empty, or `metadata` has no JSON.
    """
    item: ResourceItem = plain_value(
        {"type": "resource", "resourceType": resource_type, "identifier": identifier, "name": name}
    )
    if description is not None:
        item["description"] = plain_value(description)
    if metadata is not None:
        item["metadata"] = plain_value(metadata)
    return checked_item(item)


def checked_item(item: Item) -> Item:
    """The item itself.

    Raises:
        BadParameterError: it is no content item.
    """
    issues = validate(item, CONTENT_ITEM_SCHEMA)
    if issues:
        raise BadParameterError(f"Not a content item: {issues[0]}", details={"issues": issues})
    return item
