"""Finds dual responses in the result of a tool call, of any SDK.

Four things count as evidence: the structure of the specification (results, resource, metadata); a resource without a
URI whose URL is at a configured address; a resource link whose URI has the form of a result's; and, if an SDK kept only
text, such a URI in a text."""

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

# What follows must not be able to belong to it: an id that was cut short is another id.
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
"""What `dualsql` writes before the URI."""

_LEAST_CHANGES = 0.36
"""Changes between small letters, capitals, digits and signs, per character: 0.64 on average where an id is drawn, with
0.3 % below this; about 0.3 where words are joined."""


def uris_in(texts: Iterable[str]) -> list[str]:
    """The URIs of results in these texts, each once; a text with several has none."""
    found: dict[str, None] = {}
    left = MAXIMUM_CHARACTERS
    for text in texts:
        left -= len(text)
        if left < 0:
            break
        uris = {
            match.group(): text.endswith(_ANNOUNCED, 0, match.start()) for match in _IN_TEXT.finditer(text)
        }
        handles = [
            uri for uri, is_announced in uris.items() if is_handle(uri) and (is_announced or _is_made(uri))
        ]
        if len(handles) == 1:
            found[handles[0]] = None
    return list(found)


def _is_made(uri: str) -> bool:
    scheme, _, path = uri.partition("://")
    *places, identifier = path.split("/")
    if not any(_NAMES_A_RESULT.fullmatch(word) for word in (*re.split(r"[+.-]", scheme), *places)):
        return False
    return bool(_UUID.fullmatch(identifier)) or _is_drawn(identifier)


def _is_drawn(identifier: str) -> bool:
    """Whether its characters look random, and not written by a person."""
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" if c.isdigit() else "-" for c in identifier]
    changes = sum(one != other for one, other in pairwise(kinds))
    words = sum(bool(_WORD.fullmatch(piece)) for piece in re.split(r"[-_]", identifier))
    in_words = sum(map(len, _WORD.findall(identifier)))  # joined as in getUserById
    return (
        {"a", "A"} <= set(kinds)
        and changes >= _LEAST_CHANGES * (len(kinds) - 1)
        and words < 2
        and in_words < _MOST_IN_WORDS * len(identifier)
    )


_TELLING = frozenset({"resource", "uri", "is_error", "isError", "status"})
"""A mapping with none of these names is neither a dual response nor a link, nor does it say that it is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A dual response as the tool result describes it. It is untrusted; of a bare link it is little more than the URI.

    Attributes:
        uri: of a result that names only a URL, made of the id in that URL.
        url: the address of the rows according to the tool result; None if it names none.
        sample: None when only a link was found.
        is_pending: the query still ran.
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

    What stands inside a dual response, or inside a result marked as an error, is not looked at. Where there is
    nothing else, private attributes are looked at, and then texts for a resource's URI.

    Args:
        in_texts: False where a text may have been cut anywhere.
        is_configured: decides about resources that have a URL and no URI.
    """
    found, walk = _found(Walk(tool_result), is_configured)
    texts = walk.texts
    if not found and walk.met_objects:
        found, walk = _found(Walk(tool_result, hidden=True), is_configured)
    if not found and in_texts:
        found = {uri: Detected(uri=uri, name="") for uri in uris_in(texts) or uris_in(walk.texts)}
    return list(found.values())


def _found(walk: Walk, is_configured: IsConfigured) -> tuple[dict[str, Detected], Walk]:
    found: dict[str, Detected] = {}
    while walk:
        try:
            _visit(walk, found, is_configured)
        except Exception:  # noqa: BLE001 - a foreign object may raise anything when it is looked at
            continue
    return found, walk


def read_structure(value: object, *, is_configured: IsConfigured = lambda _: False) -> Detected | None:
    """The dual response that `value` itself is (a structuredContent), or None."""
    try:
        fields = fields_of(value)
        return (_structure(fields) or _addressed(fields, is_configured)) if fields else None
    except Exception:  # noqa: BLE001 - as in find
        return None


def _visit(walk: Walk, found: dict[str, Detected], is_configured: IsConfigured) -> None:
    fields = walk.step()
    if not fields:
        return
    if _TELLING.isdisjoint(fields):
        walk.descend(fields)
        return
    if _is_error(fields):
        return
    detected = _structure(fields) or _addressed(fields, is_configured) or _link(fields)
    if detected is None:
        walk.descend(fields)
    elif is_more_complete(detected, found.get(detected.key)):
        found[detected.key] = detected


def is_more_complete(detected: Detected, known: Detected | None) -> bool:
    """Whether a dual response adds to what is known of its resource."""
    return known is None or (known.sample is None and detected.sample is not None)


def _is_error(fields: Fields) -> bool:
    # The second is how LangChain's ToolMessage says it.
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
    return _described(uri, resource, metadata, sample, columns)


def _addressed(fields: Fields, is_configured: IsConfigured) -> Detected | None:
    """A result whose resource has a URL and no URI. The configured address is evidence enough to leave out the rest."""
    resource, metadata = fields_of(fields.get("resource")), fields_of(fields.get("metadata")) or {}
    url = _text(resource.get("url")) if resource and resource.get("uri") is None else None
    uri = uri_of_url(url) if url else None
    if resource is None or uri is None or url is None or not is_configured(url):
        return None
    sample, columns = _rows(fields.get("results")), _columns(metadata)
    known = metadata if _has_total(metadata) else {**metadata, "total_count": None, "totalCount": None}
    return replace(_described(uri, resource, known, sample, columns or []), has_uri=False)


def _described(
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
    if uri is None or mime_type != "application/json" or not (is_handle(uri) and _is_made(uri)):
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
    """The columns of a tool result; a server of dualsql names no encoding that the column's type implies."""
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
    """The results of the tool calls of the sessions it watches.

    Args:
        maximum: the most that are kept; the oldest go first.
    """

    def __init__(self, *, maximum: int = 1_000) -> None:
        self._results: deque[Any] = deque(maxlen=maximum)

    @property
    def results(self) -> list[Any]:
        """The kept results, the oldest first."""
        return list(self._results)

    def take(self) -> list[Any]:
        """Return the kept results and forget them, so that the next run of an agent starts empty."""
        results = self.results
        self._results.clear()
        return results

    def watch(self, session: Session, *, drop_links: bool = False) -> Session:
        """Keep what `call_tool` of the session returns from now on; the same session is returned.

        Args:
            drop_links: hand the SDK results without their resource_link blocks: anthropic's takes a result that has one
                for an error.
        """
        original = session.call_tool  # type: ignore[attr-defined]  # whatever has one

        @wraps(original)
        async def call_tool(*args: Any, **options: Any) -> Any:
            result = await original(*args, **options)
            self._results.append(result)
            return _without_links(result) if drop_links else result

        # An attribute of this session alone: other sessions keep the method of their class.
        session.call_tool = call_tool  # type: ignore[attr-defined]
        return session


def _without_links(result: Any) -> Any:
    content = [block for block in result.content if block.type != "resource_link"]
    return result.model_copy(update={"content": content})


def keep_structured_content(context: Any) -> Mapping[str, Any] | None:
    """For openai-agents: the `custom_data_extractor` of an MCP server, so that run items hold the structure."""
    structured = context.structured_content
    return None if structured is None or context.is_error else {"structured_content": dict(structured)}
