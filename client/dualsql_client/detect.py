"""Dual responses in whatever a tool call returned; the rule: never an exception, and in doubt it is none.

Three things count as evidence: the structure of the specification (results, resource, metadata), a resource link
whose URI looks like one a server minted, and last such a URI in a text. Which SDK carried them does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dualsql_client.address import is_handle, resource_id
from dualsql_client.answers import kind_of_total
from dualsql_client.columns import read_columns
from dualsql_client.conversions import is_count
from dualsql_client.handles import uris_in
from dualsql_client.instants import read_instant
from dualsql_client.nodes import Fields, Walk, fields_of
from dualsql_client.wire import Column, Row, TotalCountKind

_TELLING = frozenset({"resource", "uri", "is_error", "isError", "status"})
"""A mapping with none of these names is neither a dual response nor a link, nor does it say that it is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A dual response as the tool result tells it: untrusted, and for a bare link little more than the URI.

    Attributes:
        url: where the tool result says the rows are; None when it does not say.
        sample: None when only a link was found.
        is_pending: the query still ran.
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


def find(tool_result: object, *, in_texts: bool = True) -> list[Detected]:
    """All dual responses inside `tool_result`, one for each resource, the shallowest first.

    What stands inside a dual response, or inside a result marked as an error, is not looked at. Where there is
    nothing else, private attributes are looked at, and then texts for a resource's URI.

    Args:
        in_texts: False where a text may have been cut anywhere.
    """
    found, walk = _found(Walk(tool_result))
    texts = walk.texts
    if not found and walk.met_objects:
        found, walk = _found(Walk(tool_result, hidden=True))
    if not found and in_texts:
        found = {uri: Detected(uri=uri, name="") for uri in uris_in(texts) or uris_in(walk.texts)}
    return list(found.values())


def _found(walk: Walk) -> tuple[dict[str, Detected], Walk]:
    found: dict[str, Detected] = {}
    while walk:
        try:
            _visit(walk, found)
        except Exception:  # noqa: BLE001 - a foreign object may raise anything when it is looked at
            continue
    return found, walk


def read_structure(value: object) -> Detected | None:
    """The dual response that `value` itself is (a structuredContent), or None."""
    try:
        fields = fields_of(value)
        return _structure(fields) if fields else None
    except Exception:  # noqa: BLE001 - as in find
        return None


def _visit(walk: Walk, found: dict[str, Detected]) -> None:
    fields = walk.step()
    if not fields:
        return
    if _TELLING.isdisjoint(fields):
        walk.descend(fields)
        return
    if _is_error(fields):
        return
    detected = _structure(fields) or _link(fields)
    if detected is None:
        walk.descend(fields)
    elif tells_more(detected, found.get(detected.uri)):
        found[detected.uri] = detected


def tells_more(detected: Detected, known: Detected | None) -> bool:
    """Whether a dual response says more than what is known of its resource, which may be nothing."""
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
    sample, columns = _rows(results), read_columns(metadata.get("columns"))
    if sample is None or columns is None or not _has_total(metadata):
        return None
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
    if uri is None or mime_type != "application/json" or not is_handle(uri):
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
