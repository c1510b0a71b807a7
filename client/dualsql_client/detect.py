"""Finds dual responses in the result of a tool call, of any SDK.

There are four kinds of evidence: the structure of the specification (results, resource, metadata); a resource without a
URI whose URL is at a configured address; a resource link whose URI has the form of a result's; and, if an SDK retains
only text, such a URI in a text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from itertools import pairwise
from typing import Any, TypeVar

from dualsql_client.addresses import is_handle, resource_id, uri_of_url
from dualsql_client.answers import kind_of_total, read_columns
from dualsql_client.conversions import is_count, read_instant
from dualsql_client.object_walk import Fields, Walk, fields_of
from dualsql_client.wire import IMPLIED_ENCODINGS, Column, Row, TotalCountKind

MAXIMUM_CHARACTERS = 4 * 1024 * 1024

# The next character must not be able to belong to the URI: an id that was cut is another id.
_IN_TEXT = re.compile(
    r"(?<![\w+./:-])[a-z][a-z0-9+.-]{1,31}://(?:[a-z0-9][\w.-]{0,63}/){0,8}[\w-]{1,128}"
    r"(?![\w/%?#&=@:~+\\-]|\.[\w.]|…|\[)",
    re.ASCII | re.IGNORECASE,
)
_NAMES_A_RESULT = re.compile(r"(?:resource|result|dataset|dualsql|row)s?", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32,64}", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]?[a-z]{3,}")
_MOST_IN_WORDS = 0.7
"""Share of the characters in words of four letters or more, 0.7 in one of 600 ids of 128 random bits."""

_ANNOUNCED = ("gets every row from ", "Rows for the application: ")
"""The text of `dualsql` before the URI."""

_LEAST_CHANGES = 0.36
"""Changes between small letters, capitals, digits and signs, per character: 0.64 on average in random ids, of which
0.3 % are below this; about 0.3 in joined words."""


def uris_in(texts: Iterable[str]) -> list[str]:
    """The URIs of results in these texts, each once; a text with several has none."""
    handles: dict[str, None] = {}
    remaining = MAXIMUM_CHARACTERS
    for text in texts:
        remaining -= len(text)
        if remaining < 0:
            break
        uris = {
            match.group(): text.endswith(_ANNOUNCED, 0, match.start()) for match in _IN_TEXT.finditer(text)
        }
        candidates = [
            uri
            for uri, is_announced in uris.items()
            if is_handle(uri) and (is_announced or _is_generated(uri))
        ]
        if len(candidates) == 1:
            handles[candidates[0]] = None
    return list(handles)


def _is_generated(uri: str) -> bool:
    scheme, _, path = uri.partition("://")
    *segments, identifier = path.split("/")
    if not any(_NAMES_A_RESULT.fullmatch(word) for word in (*re.split(r"[+.-]", scheme), *segments)):
        return False
    return bool(_UUID.fullmatch(identifier)) or _is_random(identifier)


def _is_random(identifier: str) -> bool:
    """Whether its characters look random, and not written by a person."""
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else "-" for c in identifier]
    changes = sum(one != other for one, other in pairwise(kinds))
    words = sum(bool(_WORD.fullmatch(piece)) for piece in re.split(r"[-_]", identifier))
    in_words = sum(map(len, _WORD.findall(identifier)))  # as in getUserById
    return (
        {"a", "A"} <= set(kinds)
        and changes >= _LEAST_CHANGES * (len(kinds) - 1)
        and words < 2
        and in_words < _MOST_IN_WORDS * len(identifier)
    )


_EVIDENCE = frozenset({"resource", "uri", "is_error", "isError", "status"})
"""A mapping with none of these names is no dual response, no link and not marked as an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A dual response as the tool result describes it. It is untrusted; a bare link has little more than the URI.

    Attributes:
        uri: of a result that has only a URL, built from the id in that URL.
        url: the address of the rows according to the tool result; None if it has none.
        sample: None for a bare link.
        is_pending: the query was still running.
        key: equal for two descriptions of one resource.
    """

    uri: str
    name: str
    url: str | None = None
    sample: list[Row] | None = None
    total_count: int | None = None
    total_count_kind: TotalCountKind = "none"
    columns: list[Column] = field(default_factory=list)
    executed_at: datetime | None = None
    expires_at: datetime | None = None
    is_pending: bool = False
    has_uri: bool = True

    @property
    def key(self) -> str:
        return self.uri if self.has_uri else self.url or ""


IsConfigured = Callable[[str], bool]
"""Whether a URL is that of a resource at a configured address."""


def find(
    tool_result: object, *, in_texts: bool = True, is_configured: IsConfigured = lambda _: False
) -> list[Detected]:
    """All dual responses inside `tool_result`, one for each resource, the shallowest first.

    The content of a dual response, and of a result marked as an error, is not searched. If nothing else matches,
    private attributes are searched, and then texts for a resource's URI.

    Args:
        in_texts: False for texts that may be cut.
        is_configured: accepts the URL of a resource without a URI.
    """
    walk = Walk(tool_result)
    responses = _search(walk, is_configured)
    texts = walk.texts
    if not responses and walk.met_objects:
        walk = Walk(tool_result, hidden=True)
        responses = _search(walk, is_configured)
    if not responses and in_texts:
        responses = {uri: Detected(uri=uri, name="") for uri in uris_in(texts) or uris_in(walk.texts)}
    return list(responses.values())


def _search(walk: Walk, is_configured: IsConfigured) -> dict[str, Detected]:
    responses: dict[str, Detected] = {}
    while walk:
        try:
            _visit(walk, responses, is_configured)
        except Exception:  # noqa: BLE001 - a foreign object may raise anything when it is read
            continue
    return responses


def read_structure(value: object, *, is_configured: IsConfigured = lambda _: False) -> Detected | None:
    """The dual response that `value` itself is (a structuredContent), or None."""
    try:
        fields = fields_of(value)
        return (_structure(fields) or _by_url(fields, is_configured)) if fields else None
    except Exception:  # noqa: BLE001 - as in find
        return None


def _visit(walk: Walk, responses: dict[str, Detected], is_configured: IsConfigured) -> None:
    fields = walk.step()
    if not fields:
        return
    if _EVIDENCE.isdisjoint(fields):
        walk.descend(fields)
        return
    if _is_error(fields):
        return
    detected = _structure(fields) or _by_url(fields, is_configured) or _link(fields)
    if detected is None:
        walk.descend(fields)
    elif is_more_complete(detected, responses.get(detected.key)):
        responses[detected.key] = detected


def is_more_complete(detected: Detected, earlier: Detected | None) -> bool:
    """Whether a dual response adds to an earlier one of the same resource."""
    return earlier is None or (earlier.sample is None and detected.sample is not None)


def _is_error(fields: Fields) -> bool:
    # The second form is that of LangChain's ToolMessage.
    return _either(fields, "is_error", "isError") is True or _text(fields.get("status")) == "error"


def _structure(fields: Fields) -> Detected | None:
    results = fields.get("results")
    resource, metadata = fields_of(fields.get("resource")), fields_of(fields.get("metadata"))
    if resource is None or metadata is None:
        return None
    uri = _text(resource.get("uri"))
    if uri is None or resource_id(uri) is None:
        return None
    sample, columns = _rows(results), _columns(metadata)
    if sample is None or columns is None or not _has_total(metadata):
        return None
    return _detected(uri, resource, metadata, sample, columns)


def _by_url(fields: Fields, is_configured: IsConfigured) -> Detected | None:
    """A result whose resource has a URL and no URI. With a configured address, the other parts are optional."""
    resource, metadata = fields_of(fields.get("resource")), fields_of(fields.get("metadata")) or {}
    url = _text(resource.get("url")) if resource and resource.get("uri") is None else None
    uri = uri_of_url(url) if url else None
    if resource is None or uri is None or url is None or not is_configured(url):
        return None
    sample, columns = _rows(fields.get("results")), _columns(metadata)
    counts = metadata if _has_total(metadata) else {**metadata, "total_count": None, "totalCount": None}
    return replace(_detected(uri, resource, counts, sample, columns or []), has_uri=False)


def _detected(
    uri: str, resource: Fields, metadata: Fields, sample: list[Row] | None, columns: list[Column]
) -> Detected:
    total = _either(metadata, "total_count", "totalCount")
    return Detected(
        uri=uri,
        name=_text(resource.get("name")) or "",
        url=_text(resource.get("url")),
        sample=sample,
        total_count=total,
        total_count_kind=kind_of_total(total, _text(_either(metadata, "total_count_kind", "totalCountKind"))),
        columns=columns,
        executed_at=read_instant(_either(metadata, "executed_at", "executedAt")),
        expires_at=read_instant(_either(metadata, "expires_at", "expiresAt")),
        is_pending=metadata.get("status") == "pending",
    )


def _link(fields: Fields) -> Detected | None:
    if _text(fields.get("type")) != "resource_link":
        return None
    uri, mime_type = _text(fields.get("uri")), _text(_either(fields, "mime_type", "mimeType"))
    if uri is None or mime_type != "application/json" or not (is_handle(uri) and _is_generated(uri)):
        return None
    return Detected(uri=uri, name=_text(fields.get("name")) or "")


def _rows(results: object) -> list[Row] | None:
    if not isinstance(results, list):
        return _rows_of_columns(fields_of(results) or {})
    rows = [fields_of(row) for row in results]
    return None if None in rows else [dict(row) for row in rows if row is not None]


def _rows_of_columns(columns: Fields) -> list[Row] | None:
    values = list(columns.values())
    if not values or not all(isinstance(each, list) and len(each) == len(values[0]) for each in values):
        return None
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _columns(metadata: Fields) -> list[Column] | None:
    """The columns of a tool result; a server of dualsql omits the encoding that a column's type implies."""
    is_ours = _either(metadata, "total_count_kind", "totalCountKind") is not None
    return read_columns(metadata.get("columns"), implied=IMPLIED_ENCODINGS if is_ours else {})


def _has_total(metadata: Fields) -> bool:
    if "total_count" not in metadata and "totalCount" not in metadata:
        return False
    total = _either(metadata, "total_count", "totalCount")
    return total is None or is_count(total)


def _either(fields: Fields, snake: str, camel: str) -> Any:
    value = fields.get(snake)
    return fields.get(camel) if value is None else value


def _text(value: object) -> str | None:
    # mcp 1.x holds URIs as pydantic's AnyUrl, which is no string.
    if isinstance(value, str):
        return value
    return str(value) if type(value).__name__ == "AnyUrl" else None


Session = TypeVar("Session")


class KeptResults:
    """Keeps the results of the tool calls of sessions.

    Args:
        maximum: the most results; the oldest are dropped.
    """

    def __init__(self, *, maximum: int = 1_000) -> None:
        self._results: deque[Any] = deque(maxlen=maximum)

    @property
    def results(self) -> list[Any]:
        """The kept results, the oldest first."""
        return list(self._results)

    def take(self) -> list[Any]:
        """Return the kept results and remove them, so that the next run of an agent starts empty."""
        results = self.results
        self._results.clear()
        return results

    def watch(self, session: Session, *, drop_links: bool = False) -> Session:
        """Keep the results of `call_tool` of a session from now on; returns the same session.

        Args:
            drop_links: return results without resource_link blocks to the SDK: anthropic's treats a result with one as
                an error.
        """
        original = session.call_tool  # type: ignore[attr-defined]  # any class with the method

        @wraps(original)
        async def call_tool(*args: Any, **options: Any) -> Any:
            result = await original(*args, **options)
            self._results.append(result)
            return _without_links(result) if drop_links else result

        # An attribute of this session only: other sessions use the method of their class.
        session.call_tool = call_tool  # type: ignore[attr-defined]
        return session


def _without_links(result: Any) -> Any:
    content = [block for block in result.content if block.type != "resource_link"]
    return result.model_copy(update={"content": content})


def keep_structured_content(context: Any) -> Mapping[str, Any] | None:
    """For openai-agents: the `custom_data_extractor` of an MCP server, so that run items hold the structure."""
    structured = context.structured_content
    return None if structured is None or context.is_error else {"structured_content": dict(structured)}
