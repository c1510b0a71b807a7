"""Finds dual responses in the result of a tool call, of any SDK.

There are two kinds of evidence. An id with a checksum is one that dualsql made, wherever it is written. A result of
another server has the structure of the specification: a resource at a configured address beside results or metadata, or
one with a `resource://` URI beside both."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial, wraps
from typing import Any, TypeVar

from dualsql_client.addresses import is_web, resource_id, uri_of_url
from dualsql_client.answers import kind_of_total, read_columns
from dualsql_client.conversions import MOST_COUNTED, is_count, read_instant, whole_or_none
from dualsql_client.identifiers import is_checked
from dualsql_client.links import LinkReader, link_in
from dualsql_client.object_walk import (
    Evidence,
    Fields,
    Walk,
    fields_of,
    leading_pairs,
    nested_fields,
    untyped,
)
from dualsql_client.origins import Origins
from dualsql_client.wire import IMPLIED_ENCODINGS, Column, Row, TotalCountKind

_NO_ORIGINS = Origins(None, ())

Words = list[tuple[str, str | int | None]]
"""The words of names of a mapping, and what is under them: the words of a text, a number or a flag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A dual response as the tool result describes it. It is untrusted; a bare link has little more than the URI.

    Attributes:
        uri: of a result that has only a URL, built from the id in that URL.
        url: the address of the rows according to the tool result; None if it has none.
        sample: None for a bare link.
        is_pending: the query was still running.
        has_uri: False for a result of another server that is known by its URL.
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
        identifier = resource_id(self.uri) or ""
        return identifier if is_checked(identifier) else self.uri if self.has_uri else self.url or ""


def find(tool_result: object, origins: Origins = _NO_ORIGINS) -> list[Detected]:
    """All dual responses inside `tool_result`, one for each resource: the shallowest first, then links in texts.

    The rows of a dual response and a failure are not searched; of a person's message and the arguments of a call, only
    the results of tools in them are. Private attributes are searched if no sample is found otherwise: for the same
    results or, without any, for all.

    Args:
        origins: the configured addresses.
    """
    responses, met_objects = _search(tool_result, origins, hidden=False)
    if met_objects and all(response.sample is None for response in responses.values()):
        private, _ = _search(tool_result, origins, hidden=True)
        if not responses:
            return list(private.values())
        for key in responses.keys() & private.keys():
            if is_more_complete(private[key], responses[key]):
                responses[key] = private[key]
    return list(responses.values())


def _search(value: object, origins: Origins, *, hidden: bool) -> tuple[dict[str, Detected], bool]:
    responses: dict[str, Detected] = {}
    reader = LinkReader(origins)

    def read_text(text: str) -> Evidence:
        return Evidence.RESPONSES if reader.read(text) else Evidence.ANYTHING

    walk = Walk(value, read_text=read_text, hidden=hidden)
    while walk:
        try:
            detected = _visit(walk, origins)
        except Exception:  # noqa: BLE001 - a foreign object may raise anything when it is read
            continue
        if detected is not None and is_more_complete(detected, responses.get(detected.key)):
            responses[detected.key] = detected
    for link in reader.links:
        detected = Detected(uri=link.uri, name="", url=link.url)
        responses.setdefault(detected.key, detected)
    return responses, walk.met_objects


def read_structure(value: object, origins: Origins = _NO_ORIGINS) -> Detected | None:
    """The dual response that `value` itself is (a structuredContent), or None."""
    try:
        fields = fields_of(value)
        return _response(fields, origins) if fields else None
    except Exception:  # noqa: BLE001 - as in find
        return None


def _visit(walk: Walk, origins: Origins) -> Detected | None:
    fields = walk.step()
    if not fields:
        return None
    fields = nested_fields(fields)
    pairs = leading_pairs(fields)
    if not pairs:
        return None
    names = set(map(_words, fields))
    words = _words_of_fields(fields)
    is_failed = _is_failed(fields, names, words)
    scope = Evidence.NOTHING if is_failed else _scope(words, walk)
    detected = _response(fields, origins) if scope else None
    if detected and detected.sample is not None:
        return detected
    walk.descend(pairs, _scopes(fields, names, scope, is_failed=is_failed, is_response=detected is not None))
    return detected or (_link_with_name(fields, origins) if scope is Evidence.ANYTHING else None)


def is_more_complete(detected: Detected, earlier: Detected | None) -> bool:
    """Whether a dual response adds to an earlier one of the same resource."""
    return earlier is None or _completeness(detected) > _completeness(earlier)


def _completeness(detected: Detected) -> int:
    return (
        2 if detected.sample is not None else 1 if detected.total_count is not None or detected.columns else 0
    )


# The words of names and kinds that SDKs, hosts, protocols and tracers use, as `_words` writes them.
_FAILED = re.compile(
    r"(?:.* )?(?:error|errored|fail|failed|failure|denied|rejected|crashed|timed out)|error .*"
)
_SUCCESS = frozenset({"success", "is success", "succeeded", "ok"})
_STATES = frozenset({"status", "state", "outcome", "conclusion", "type", "event", "level"})
_CODES = frozenset({"code", "status code"})
_KINDS = frozenset(
    "type|kind|part kind|role|message type|sender|source|from|speaker|event|event name|hook event name|session update"
    "".split("|")
)
_WRITERS = frozenset({"author", "info"})
"""Names of who wrote a message: the role, or an object with it."""
_QUOTATION = re.compile(
    r"(?:role |gen ai )?(?:user|human|system|developer)(?: (?:message|part|prompt|chunk|submit))*"
    r"|(?:.* )?prompt(?: part)?|.*\b(?:arguments|args)\b.*|(?:.* )?(?:tool|call) input\b.*|input json .*"
    r"|.* start(?:ed)?|thinking|reasoning"
)
"""Kinds of messages of a person, of thoughts, of pieces of arguments, and of events before a call."""
_RESULT = re.compile(
    r".*\b(?:tool|function|mcp)\b.* (?:result|response|return|output|message)s?\b.*"
    r"|(?:role )?(?:tool|function)(?: part)?|tool(?:result|response|output)s?"
)
_HIDDEN = re.compile(
    r".*\b(?:arguments|args|instructions?|err(?:or)?s?|exceptions?|exc|failure)\b.*|cause"
    r"|.+ kwargs|.*\b(?:tool|call|raw|span|chat|user|action) (?:inputs?|params|parameters)|.* input state|post data"
    r"|failed reason|stack ?trace"
)
"""Names of arguments, instructions and errors."""
_QUESTION = re.compile(r"(?:.* )?(?:prompt|question|query)|input text|user message|system")
"""Names of texts of a person, and of lists of them."""
_ARGUMENTS_OF_CALLS = frozenset({"input", "inputs", "kwargs", "parameters"})
_TOOLS = frozenset({"tool", "tool name", "function"})
_CALLS = frozenset({"name", "call id", "tool call id", "jsonrpc", *_TOOLS})
"""Fields of a call of a tool or its result; the former have the name of a tool and nothing else."""
_BESIDE_ARGUMENTS = ("output", "outputs", "error", "status", "state", *_CALLS)
_OF_MESSAGES = ("type", "kind", "part_kind", "role")
"""Fields of a message or a content block, and not of a row unless `columns` has them."""
_TABLES = frozenset({"results", "data", "data array", "items", "records"})
_OF_TABLES = re.compile(r"(?:.* )?meta ?data|columns|(?:total|row) count")
"""Names beside the rows of a table. A link in a cell is no result."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@lru_cache(maxsize=4_096)
def _words_of(name: str) -> str:
    return " ".join(_WORD.findall(name)).lower()


def _words(name: object) -> str:
    """The words of a name, such as "tool call id" of toolCallId, tool-call-id and TOOL_CALL_ID_0."""
    return _words_of(name[:40]) if isinstance(name, str) else ""


@lru_cache(maxsize=4_096)
def _has_word(name: str) -> bool:
    """Whether the value of that name may be the kind of a mapping, or say that it is a failure."""
    return name in _KINDS | _STATES | _CODES | _WRITERS | _SUCCESS or _FAILED.fullmatch(name) is not None


def _words_of_fields(fields: Fields) -> Words:
    words = [
        ("role" if own in _WRITERS else own, _word(fields[name], own))
        for name in fields
        if _has_word(own := _words(name))
    ]
    # A part of a message of the AI SDK has the name of its tool there.
    kind = fields.get("type")
    is_part = "state" in fields and isinstance(kind, str) and kind.startswith("tool-")
    return [pair for pair in words if pair[0] != "type"] if is_part else words


def _scope(words: Words, walk: Walk) -> Evidence:
    """What counts in a mapping: nothing in a person's message or a piece of arguments, all in a tool's result in it."""
    kinds = [word for name, word in words if name in _KINDS and isinstance(word, str)]
    kinds.append(_words(walk.kind))
    if any(map(_RESULT.fullmatch, kinds)):
        return walk.scope or Evidence.ANYTHING
    return Evidence.NOTHING if any(map(_QUOTATION.fullmatch, kinds)) else walk.scope


def _is_failed(fields: Fields, names: set[str], words: Words) -> bool:
    """Whether a mapping is a failed call, as an SDK or a protocol says it."""
    if any(map(_says_failed, words)):
        return True
    is_call = "message" in names or not names.isdisjoint(_CALLS)
    return is_call and bool(fields.get("error") or fields.get("exception"))


def _says_failed(pair: tuple[str, str | int | None]) -> bool:
    name, word = pair
    word = {"true": True, "false": False}.get(word, word) if isinstance(word, str) else word
    if isinstance(word, bool):
        return _FAILED.fullmatch(name) is not None if word else name in _SUCCESS
    if isinstance(word, int):
        return name in {"status", *_CODES} and 400 <= word < 600
    if name in _CODES:
        return word in {"error", "failed", "failure", "status code error"}
    return name in _STATES and word is not None and _FAILED.fullmatch(word) is not None


def _word(value: object, name: str) -> str | int | None:
    """A text, a number or a flag, also one that is named: in JSON with the type of each value, or as a label."""
    if name in _WRITERS and not isinstance(value, str):
        return _words((fields_of(value) or {}).get("role")) or None
    for _ in range(2):
        value = next(iter(value.values())) if type(value) is dict and len(value) == 1 else value
    return value if isinstance(value, int) else _words(value) or None


def _scopes(
    fields: Fields, names: set[str], scope: Evidence, *, is_failed: bool, is_response: bool
) -> Callable[[object, object], Evidence]:
    """What counts under each name of a mapping."""
    is_call = not names.isdisjoint(_BESIDE_ARGUMENTS)
    is_request = {"method", "id"} <= names or not names.isdisjoint(_TOOLS)
    code = fields.get("code")
    # None of those for success, of gRPC, OpenTelemetry, HTTP or JSON-RPC.
    has_code_of_failure = type(code) is int and code != 0 and not 100 <= code < 400

    def scope_of(name: object, value: object) -> Evidence:
        words = _words(name)
        if (
            _HIDDEN.fullmatch(words)
            or (is_call and words in _ARGUMENTS_OF_CALLS)
            or (is_request and words == "params")
            or (words == "data" and "returnvalue" in names)
            or (isinstance(value, (str, list)) and _QUESTION.fullmatch(words))
            or (isinstance(value, str) and words == "input" and "model" in names)
            or (words == "message" and type(value) is dict and "response" in names)
            or (words == "message" and isinstance(value, str) and has_code_of_failure)
        ):
            return Evidence.NOTHING
        if is_response and words in {"results", "resource", "metadata"}:
            return Evidence.NOTHING if words == "results" else min(scope, Evidence.RESPONSES)
        is_rows = words == "rows" and not _is_link(value) and not _has_results(value)
        if is_rows or (words in _TABLES and _is_table(value, fields)):
            return min(scope, Evidence.RESPONSES)
        is_result = not scope and not is_failed and _RESULT.fullmatch(words)
        return Evidence.ANYTHING if is_result else scope

    return scope_of


def _has_results(rows: object) -> bool:
    """Whether the rows of a table are messages, with those of a tool among them."""
    rows = rows[:50] if isinstance(rows, list) else ()
    pairs = [pair for row in rows if type(row) is dict for pair in _words_of_fields(row)]
    return any(name in _KINDS and isinstance(word, str) and _RESULT.fullmatch(word) for name, word in pairs)


def _is_link(value: object) -> bool:
    """Whether a value is an object of texts, such as a link to rows."""
    return type(value) is dict and all(isinstance(each, str) for each in value.values())


def _is_table(rows: object, fields: Fields) -> bool:
    """Whether the value of a mapping is the rows or columns of a table: neither messages nor content blocks."""
    is_described = any(
        _OF_TABLES.fullmatch(_words(name)) and value is not None for name, value in fields.items()
    )
    columns = fields.get("columns", fields.get("meta"))
    columns = columns if isinstance(columns, list) else ()
    names = [(fields_of(column) or {}).get("name", column) for column in columns]
    first = rows[0] if isinstance(rows, list) and rows else rows
    if isinstance(first, list):
        return bool(names) or (is_described and not any(map(fields_of, first)))
    row = fields_of(first)
    if not row:
        return False
    if names and all(name in names for name in row):
        return True
    return is_described and isinstance(rows, list) and row.keys().isdisjoint(_OF_MESSAGES)


def _response(fields: Fields, origins: Origins) -> Detected | None:
    resource = fields_of(fields.get("resource"))
    if resource is None:
        return None
    if (plain := fields_of(untyped(resource))) is not resource:
        fields = {name: untyped(fields.get(name)) for name in ("results", "resource", "metadata")}
        resource = plain or {}
    uri, url = _text(resource.get("uri")), _text(resource.get("url"))
    metadata = fields_of(fields.get("metadata")) or {}
    detected = partial(
        _detection, name=_text(resource.get("name")) or "", results=fields.get("results"), metadata=metadata
    )
    links = [link for address in (uri, url) if address and (link := link_in(address, origins))]
    if links:
        own = uri if uri and resource_id(uri) == links[0].id else links[0].uri
        return detected(uri=own, url=links[0].url if url is None else url)
    addresses = [address for address in (url, uri) if address and is_web(address)]
    if not fields.keys().isdisjoint(("results", "metadata")):
        for address in addresses:
            if origins.has_resource(address):
                return detected(uri=uri_of_url(address), url=address, has_uri=False)
    is_complete = (
        uri and uri.startswith("resource://") and resource_id(uri) and _is_specified(fields, metadata)
    )
    return detected(uri=uri, url=url) if is_complete else None


def _is_specified(fields: Fields, metadata: Fields) -> bool:
    """Whether results and metadata are those of the specification."""
    if _rows(fields.get("results")) is None or _columns(metadata) is None:
        return False
    if "total_count" not in metadata and "totalCount" not in metadata:
        return False
    total = _either(metadata, "total_count", "totalCount")
    return total is None or _count(total) is not None


def _detection(
    *, uri: Any, url: str | None, name: str, results: object, metadata: Fields, has_uri: bool = True
) -> Detected:
    total = _count(_either(metadata, "total_count", "totalCount"))
    return Detected(
        uri=uri,
        name=name,
        url=url,
        sample=_rows(results),
        total_count=total,
        total_count_kind=kind_of_total(total, _text(_either(metadata, "total_count_kind", "totalCountKind"))),
        columns=_columns(metadata) or [],
        executed_at=read_instant(_either(metadata, "executed_at", "executedAt")),
        expires_at=read_instant(_either(metadata, "expires_at", "expiresAt")),
        is_pending=metadata.get("status") == "pending",
        has_uri=has_uri,
    )


def _link_with_name(fields: Fields, origins: Origins) -> Detected | None:
    """A link with a name, such as a resource_link."""
    uri, name = _text(fields.get("uri")), _text(fields.get("name"))
    link = link_in(uri, origins) if uri and name else None
    return Detected(uri=link.uri, name=name or "", url=link.url) if link else None


def _count(total: object) -> int | None:
    """A number of rows; protobuf's Struct has doubles only, and DynamoDB and attributes have texts."""
    total = untyped(total)
    if type(total) is float and total.is_integer():
        total = int(total)
    elif isinstance(total, str):
        total = whole_or_none(total, MOST_COUNTED)
    return total if is_count(total) else None  # type: ignore[return-value]


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
