"""The envelopes in MCP's own shapes, and back; the rule: each shape has a name, and no field means two things.

| word | seeds/004 | MCP |
|---|---|---|
| success or failure | `success`, `error` | `isError` |
| data | `data` | `structuredContent` |
| image | by URL: `url`, `altText` | by value: `data` (base64), `mimeType` |
| resource | a reference: `resourceType`, `identifier` | its contents, embedded; a reference is `resource_link` |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from typing_extensions import TypedDict

from dualsql.envelope.displays import readable
from dualsql.envelope.items import image_item, resource_item, text_item
from dualsql.envelope.negotiation import Wanted, present
from dualsql.envelope.shapes import ContentItem, DualModeAnswer, Response
from dualsql.errors import BadParameterError

Links = Literal["resource_link", "text"]
"""Whether a reference becomes a block of its own, on which several hosts break (docs/decisions/0004), or a text."""

Block = dict[str, Any]

_DATA_URL = re.compile(r"data:(image/[a-z]+);base64,(.+)")
# A host that follows links would fetch http and paste what it got into the model's prompt.
_OWN_SCHEME = re.compile(r"(?!https?:|file:|data:|javascript:)[a-z][a-z0-9+.-]*:.+", re.IGNORECASE)


class ToolResult(TypedDict):
    """A CallToolResult as the wire of MCP has it."""

    content: list[Block]
    structuredContent: dict[str, Any]
    isError: bool


def to_mcp_tool_result(response: Response, *, links: Links = "text") -> ToolResult:
    """A Response as MCP has it. The structure is the data, or the error under `error`."""
    content = [block for item in response["content"] for block in _blocks(item, links)]
    structure = response.get("data", {}) if response["success"] else {"error": response.get("error", {})}
    return ToolResult(
        content=content, structuredContent=cast(dict[str, Any], structure), isError=not response["success"]
    )


def dual_mode_tool_result(answer: DualModeAnswer, wanted: Wanted) -> ToolResult:
    """A DualModeAnswer as MCP has it, for a caller who asked for `wanted`.

    The text is the display, or the JSON for a caller who wants no display; the structure is the answer.
    """
    presented = present(answer, wanted)
    shown = presented.get("display")
    text = shown["content"] if shown else json.dumps(presented, ensure_ascii=False)
    return ToolResult(
        content=[{"type": "text", "text": text}],
        structuredContent=cast(dict[str, Any], presented),
        isError=not answer["success"],
    )


def from_mcp_content(block: Mapping[str, Any]) -> ContentItem:
    """A content block of MCP's as an item of seeds/004; what is one already, or of another kind, stays as it is.

    Raises:
        BadParameterError: a reference without a URI.
    """
    kind = block.get("type")
    if kind == "image" and "url" not in block and isinstance(block.get("data"), str):
        return _image(block)
    if kind == "resource" and isinstance(block.get("resource"), Mapping):
        contents = block["resource"]
        uri = str(contents.get("uri", ""))
        return resource_item(str(contents.get("mimeType") or "resource"), uri, uri, metadata=contents)
    if kind == "resource_link":
        uri = str(block.get("uri", ""))
        return resource_item("resource_link", uri, str(block.get("name") or uri), metadata=block)
    return cast(ContentItem, block)


def _image(block: Mapping[str, Any]) -> ContentItem:
    try:
        return image_item(f"data:{block.get('mimeType', '')};base64,{block['data']}", "Image")
    except BadParameterError:  # SVG, which can hold scripts, or no base64
        return text_item("An image of a kind that is not shown.")


def _blocks(item: Mapping[str, Any], links: Links) -> list[Block]:
    if item["type"] == "text":
        return [{"type": "text", "text": item["text"]}]
    if item["type"] == "image":
        words = ": ".join(filter(None, [item["altText"], item.get("caption")]))
        inline = _DATA_URL.fullmatch(item["url"])
        if inline is None:
            return [{"type": "text", "text": f"Image: {words} ({item['url']})"}]
        return [
            {"type": "text", "text": words},
            {"type": "image", "data": inline[2], "mimeType": inline[1]},
        ]
    if item["type"] == "resource":
        if links == "resource_link" and _OWN_SCHEME.fullmatch(item["identifier"]):
            return [{"type": "resource_link", "uri": item["identifier"], "name": item["name"]}]
        return [{"type": "text", "text": _reference(item)}]
    return [_foreign(item)]


def _reference(item: Mapping[str, Any]) -> str:
    text = f"{item['name']} ({item['resourceType']}): {item['identifier']}"
    return f"{text}\n{item['description']}" if "description" in item else text


def _foreign(item: Mapping[str, Any]) -> Block:
    """A block of a kind that seeds/004 does not have: MCP's sound stays, anything else is written out."""
    if item["type"] == "audio" and {"data", "mimeType"} <= item.keys():
        return dict(item)
    try:
        return {"type": "text", "text": readable(item)}
    except BadParameterError:
        return {"type": "text", "text": "Content of an unknown kind."}
