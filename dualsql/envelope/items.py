"""Content items of the envelope of seeds/004; the rule: what is made here passes validation, or is refused here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dualsql.envelope.schemas import CONTENT_ITEM_SCHEMA
from dualsql.envelope.shapes import ContentItem, ImageItem, ResourceItem, TextItem
from dualsql.envelope.validation import validate
from dualsql.envelope.values import plain
from dualsql.errors import BadParameterError

Item = TypeVar("Item", bound=ContentItem)


def text_item(text: str) -> TextItem:
    """A text to be read.

    Raises:
        BadParameterError: it is no text.
    """
    return checked_item(TextItem(type="text", text=plain(text)))


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
    item: ImageItem = plain({"type": "image", "url": url, "altText": alt_text})
    if width is not None:
        item["width"] = width
    if height is not None:
        item["height"] = height
    if caption is not None:
        item["caption"] = plain(caption)
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
    item: ResourceItem = plain(
        {"type": "resource", "resourceType": resource_type, "identifier": identifier, "name": name}
    )
    if description is not None:
        item["description"] = plain(description)
    if metadata is not None:
        item["metadata"] = plain(metadata)
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
