"""The envelopes in MCP's own shapes, and the format that a caller asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

from typing_extensions import TypedDict

from dualsql.envelope.displays import readable
from dualsql.envelope.shapes import (
    ContentItem,
    DualModeAnswer,
    Response,
    image_item,
    resource_item,
    text_item,
)
from dualsql.errors import BadParameterError

FORMAT_HEADER = "X-Response-Format"
CONTEXT_HEADER = "X-Execution-Context"
VARY = f"{FORMAT_HEADER}, {CONTEXT_HEADER}"
"""What an HTTP answer that was negotiated says in Vary, or a cache hands one caller's form to another."""

ResponseFormat = Literal["json", "markdown"]
ExecutionContext = Literal["chat", "code"]

Headers = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
"""Starlette's, httpx's, a dict, or the pairs of an ASGI scope."""

_MOST_HEADERS = 500
_LONGEST = 64

Word = TypeVar("Word", bound=str)


class RequestedForm(NamedTuple):
    """The format that a caller asks for; by default that of a chat."""

    format: ResponseFormat = "markdown"
    context: ExecutionContext = "chat"

    @property
    def is_structured(self) -> bool:
        """Whether the answer is for a program only."""
        return self.format == "json" or self.context == "code"


def requested_form(headers: Headers | None) -> RequestedForm:
    """Read the two headers. Unknown values, and two that contradict each other, are ignored."""
    values: dict[str, set[str]] = {}
    for name, value in _pairs(headers):
        values.setdefault(name, set()).add(value)
    return RequestedForm(
        format=_word(values, FORMAT_HEADER, get_args(ResponseFormat), "markdown"),
        context=_word(values, CONTEXT_HEADER, get_args(ExecutionContext), "chat"),
    )


def present(answer: DualModeAnswer, parts: RequestedForm) -> DualModeAnswer:
    """The parts of an answer that its caller asked for; the answer itself is not changed."""
    if not parts.is_structured:
        return answer
    return cast(DualModeAnswer, {name: value for name, value in answer.items() if name != "display"})


def _pairs(headers: Headers | None) -> Iterable[tuple[str, str]]:
    """Names and values in lower case."""
    if headers is None:
        return
    pairs: Iterable[tuple[str | bytes, str | bytes]] = (
        headers.items() if isinstance(headers, Mapping) else headers
    )
    for name, value in islice(pairs, _MOST_HEADERS):
        yield _text(name), _text(value)


def _text(value: str | bytes) -> str:
    head = value[:_LONGEST]
    return (head if isinstance(head, str) else head.decode("latin-1")).strip().lower()


def _word(by_header: Mapping[str, set[str]], header: str, words: tuple[Word, ...], default: Word) -> Word:
    values = by_header.get(header.lower(), set())
    return next((word for word in words if values == {word}), default)


Links = Literal["resource_link", "text"]
"""Whether a reference becomes a block of its own, on which several hosts break (docs/decisions/0004), or a text."""

Block = dict[str, Any]

_DATA_URL = re.compile(r"data:(image/[a-z]+);base64,(.+)")
# A host that follows links would fetch http and paste what it got into the model's prompt.
_OWN_SCHEME = re.compile(r"(?!https?:|file:|data:|javascript:)[a-z][a-z0-9+.-]*:.+", re.IGNORECASE)


class ToolResult(TypedDict):
    """A CallToolResult in MCP's JSON."""

    content: list[Block]
    structuredContent: dict[str, Any]
    isError: bool


def to_mcp_tool_result(response: Response, *, links: Links = "text") -> ToolResult:
    """A Response as an MCP tool result. The structure is the data, or the error under `error`."""
    content = [block for item in response["content"] for block in _blocks(item, links)]
    structure = response.get("data", {}) if response["success"] else {"error": response.get("error", {})}
    return ToolResult(
        content=content, structuredContent=cast(dict[str, Any], structure), isError=not response["success"]
    )


def dual_mode_tool_result(answer: DualModeAnswer, parts: RequestedForm) -> ToolResult:
    """A DualModeAnswer as an MCP tool result, for a caller who asked for `parts`.

    The text is the display, or the JSON where no display was requested; the structure is the answer.
    """
    presented = present(answer, parts)
    display = presented.get("display")
    text = display["content"] if display else json.dumps(presented, ensure_ascii=False)
    return ToolResult(
        content=[{"type": "text", "text": text}],
        structuredContent=cast(dict[str, Any], presented),
        isError=not answer["success"],
    )


def from_mcp_content(block: Mapping[str, Any]) -> ContentItem:
    """A content block of MCP as an item of S12; what is one already, or of another kind, stays as it is.

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
    """A block of a kind that S12 does not have: MCP's audio stays, anything else becomes text."""
    if item["type"] == "audio" and {"data", "mimeType"} <= item.keys():
        return dict(item)
    try:
        return {"type": "text", "text": readable(item)}
    except BadParameterError:
        return {"type": "text", "text": "Content of an unknown kind."}
