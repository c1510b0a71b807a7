"""The server's answers as objects. An answer that could lose or repeat rows raises an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, cast

from dualsql_client.conversions import is_count, read_instant
from dualsql_client.errors import FetchError, rows_for_metadata
from dualsql_client.ndjson import decode_rows
from dualsql_client.object_walk import fields_of
from dualsql_client.wire import ENCODINGS, Column, ColumnType, Encoding, Row, TotalCountKind

# Other servers of the pattern name the database's type; these are the four words of the specification.
_TYPES: Mapping[object, ColumnType] = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "float": "number",
    "decimal": "number",
    "boolean": "boolean",
    "date": "date",
    "datetime": "date",
    "timestamp": "date",
}


def read_columns(
    entries: object, *, implied: Mapping[ColumnType, Encoding] = MappingProxyType({})
) -> list[Column] | None:
    """The columns of an answer or tool result; None when `entries` is no list of named columns.

    A column without an encoding gets that of its type in `implied`, or "any". An unknown encoding is "any", too.
    """
    if entries is None:
        return []
    if not isinstance(entries, list):
        return None
    columns = [_column(entry, implied) for entry in entries]
    return None if None in columns else cast("list[Column]", columns)


def _column(entry: object, implied: Mapping[ColumnType, Encoding]) -> Column | None:
    fields = fields_of(entry)  # of a mapping, or of the object that an SDK converted it to
    if fields is None or not isinstance(name := fields.get("name"), str):
        return None
    word = fields.get("type")
    kind = _TYPES.get(word, "string") if isinstance(word, str) else "string"
    encoding = fields.get("encoding")
    column = Column(
        name=name, type=kind, encoding=_encoding(implied.get(kind) if encoding is None else encoding)
    )
    if fields.get("items") is not None:
        column["items"] = _encoding(fields["items"])
    return column


def _encoding(word: object) -> Encoding:
    return cast(Encoding, word) if isinstance(word, str) and word in ENCODINGS else "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """One page of rows.

    Attributes:
        data: the rows, in order; values as JSON has them unless they were fetched with `typed=True`.
        total_count: the number of all rows; None when the server has not counted them.
        total_count_kind: "exact", "estimated", "capped" (a lower bound), or "none".
        offset: position of the first row of `data`, from 0; of a page by cursor, counted from the page that had the
            cursor.
        has_next: as the server reports it; an empty page is always the last one.
        next_offset: offset of the next page; None on the last one.
        cached: the rows come from the server's cache.
        order: "partial" when the order of the rows may change from one request to the next: pages may then repeat
            rows or lose some. "total" when it cannot; None when the server does not say.
        next_cursor, previous_cursor: for `fetch(cursor=...)` with the same sort; None at the ends, and where the
            server has none.
    """

    data: list[Row]
    total_count: int | None
    total_count_kind: TotalCountKind
    returned_count: int
    offset: int
    has_next: bool
    has_previous: bool
    next_offset: int | None
    columns: list[Column]
    order: str | None
    cached: bool
    next_cursor: str | None
    previous_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMetadata:
    """The metadata of a resource; the server reads no rows for it.

    Attributes:
        status: "ready" or "pinned"; "pending" while the query still runs; "failed" if it failed.
        total_count_kind: the kind of `total_count`, as in `FetchResult`.
        expires_at: None for a pinned resource.
        metadata: what the tool's author stored with it.
        error: code, message, hint and details of the error of a failed query.
        kept: of a result whose rows the server is to keep: `kept`, with `as_of`, `rows` and `bytes`, or with the
            `reason` why they are not kept; `rows_so_far` while the query runs, `error` of a refresh that failed.
    """

    status: str
    name: str
    uri: str
    total_count: int | None
    total_count_kind: TotalCountKind
    columns: list[Column]
    created_at: datetime | None
    expires_at: datetime | None
    access_count: int
    last_accessed_at: datetime | None
    metadata: Mapping[str, Any]
    error: Mapping[str, Any] | None = None
    kept: Mapping[str, Any] | None = None


# The names of the reference design, where pages are read by GET.
_OTHER_NAMES = {"skip": "offset", "has_prev": "has_previous"}


def read_page(answer: object, *, offset: int | None, columns: Sequence[Column], typed: bool) -> FetchResult:
    """The requested page.

    Args:
        offset: of the request; None for a page by cursor, whose offset is in the answer.
        columns: used when the answer has none.

    Raises:
        FetchError: the answer is no page or another page, or the next one would not follow it.
        ParseError: with `typed`, a value does not fit its column's encoding.
    """
    fields = _fields(answer)
    fields = {ours: fields[theirs] for theirs, ours in _OTHER_NAMES.items() if theirs in fields} | fields
    data, has_next = _rows(fields.get("data")), _typed(fields, "has_next", bool)
    start = _count(fields, "offset") if offset is None else offset
    end = start + len(data)
    _refuse_if(
        {
            "it starts at another row than was asked for": fields.get("offset", start) != start,
            "it holds fewer or more rows than it says": fields.get("returned_count", len(data)) != len(data),
            "the next page would not follow its last row": has_next and fields.get("next_offset", end) != end,
        }
    )
    columns = _columns(fields) or list(columns)
    # A faulty server could announce pages for ever.
    has_next = has_next and bool(data)
    total = _count(fields, "total_count", None)
    return FetchResult(
        data=decode_rows(data, columns) if typed else data,
        total_count=total,
        total_count_kind=kind_of_total(total, fields.get("total_count_kind")),
        returned_count=len(data),
        offset=start,
        has_next=has_next,
        has_previous=_typed(fields, "has_previous", bool, start > 0),
        next_offset=end if has_next else None,
        columns=columns,
        order=_typed(fields, "order", str, None),
        cached=_typed(fields, "cached", bool, default=False),
        next_cursor=_typed(fields, "next_cursor", str, None),
        previous_cursor=_typed(fields, "previous_cursor", str, None),
    )


_EVERY_SERVER_HAS = frozenset({"offset", "limit", "sort"})
_PARTS = {"cursor": "a cursor", "sql": "the SQL text"}


def require_confirmed(page: FetchResult, request: Mapping[str, Any]) -> None:
    """Refuse a page of a server that may have ignored a part of the request: one that says nothing of the order.

    Args:
        request: the body of a page or of a query.

    Raises:
        FetchError: the request has a cursor, several sort keys or a query.
    """
    if page.order is not None:
        return
    parts = ["several sort keys"] if isinstance(request.get("sort"), list) else []
    # A page that has rows before it is not the first: the server has read the cursor.
    confirmed = {"cursor"} if page.previous_cursor is not None else set[str]()
    parts += [_PARTS.get(key, key) for key in request if key not in _EVERY_SERVER_HAS | confirmed]
    if parts:
        raise FetchError(
            f"The server does not confirm {parts[0]}: it may have ignored this part of the request.",
            status=200,
            hint="Sort by one key, and read the pages by offset. A server of dualsql has the rest.",
        )


def with_columns(rows: list[Row], names: Sequence[str] | None) -> list[Row]:
    """The rows with only these columns, in this order; all of them for None.

    Raises:
        FetchError: a row lacks one of them.
    """
    if names is None:
        return rows
    if missing := next((name for row in rows for name in names if name not in row), None):
        raise FetchError(
            f"The rows have no column {missing[:100]!r}.",
            status=200,
            hint=f"They have: {', '.join(list(rows[0])[:20])}.",
        )
    return [{name: row[name] for name in names} for row in rows]


def exact_total(page: FetchResult) -> int | None:
    """The number of all rows; None when the server has not counted them."""
    return page.total_count if page.total_count_kind == "exact" else None


def read_metadata(answer: object) -> ResourceMetadata:
    """The answer of GET /{id}.

    Raises:
        FetchError: it is something else.
    """
    fields = _fields(answer)
    if "status" not in fields and "data" in fields:
        raise rows_for_metadata()
    total = _count(fields, "total_count", None)
    return ResourceMetadata(
        status=_typed(fields, "status", str),
        name=_typed(fields, "name", str, ""),
        uri=_typed(fields, "uri", str, ""),
        total_count=total,
        total_count_kind=kind_of_total(total, fields.get("total_count_kind")),
        columns=_columns(fields),
        created_at=read_instant(fields.get("created_at")),
        expires_at=read_instant(fields.get("expires_at")),
        access_count=_count(fields, "access_count", 0),
        last_accessed_at=read_instant(fields.get("last_accessed_at")),
        metadata=_typed(fields, "metadata", dict, {}),
        error=_typed(fields, "error", dict, None),
        kept=_typed(fields, "kept", dict, None),
    )


def is_pending(answer: object) -> bool:
    """Whether the metadata are those of a result whose query still runs."""
    return isinstance(answer, dict) and answer.get("status") == "pending"


def read_listing(answer: object) -> tuple[list[ResourceMetadata], str | None]:
    """The answer of GET on the collection: its resources, and the cursor of the next page.

    Raises:
        FetchError: it is something else.
    """
    fields = _fields(answer)
    resources = [read_metadata(entry) for entry in _rows(fields.get("resources"))]
    return resources, _typed(fields, "next_cursor", str, None)


def kind_of_total(total: int | None, kind: object) -> TotalCountKind:
    """The kind of a total from an answer: "exact" when it is absent, "estimated" when this client has no such kind."""
    if total is None:
        return "none"
    if kind is None or kind == "exact":
        return "exact"
    return "capped" if kind == "capped" else "estimated"


_REQUIRED: Any = object()

_JSON_NAMES = {bool: "boolean", str: "string", int: "whole number", dict: "object"}


def _typed(fields: Mapping[str, Any], name: str, kind: type, default: Any = _REQUIRED) -> Any:
    value = fields.get(name)
    if value is None and default is not _REQUIRED:
        return default
    if value is None:
        raise _refusal(f"it has no {name!r}")
    # By class: isinstance() takes True for an int.
    _refuse_if({f"its {name!r} is no {_JSON_NAMES[kind]}": type(value) is not kind})
    return value


def _count(fields: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> Any:
    value = _typed(fields, name, int, default)
    _refuse_if({f"its {name} is no number of rows": value is not None and not is_count(value)})
    return value


def _fields(answer: object) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise _refusal("it is no JSON object")
    return answer


def _rows(data: object) -> list[Row]:
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise _refusal("its data is no list of rows")
    return data


def _columns(fields: Mapping[str, Any]) -> list[Column]:
    columns = read_columns(fields.get("columns"))
    if columns is None:
        raise _refusal("its columns have no names")
    return columns


def _refuse_if(faults: Mapping[str, bool]) -> None:
    for reason, applies in faults.items():
        if applies:
            raise _refusal(reason)


def _refusal(reason: str) -> FetchError:
    return FetchError(
        f"The server's answer cannot be used: {reason}.",
        status=200,
        hint="Check that base_url is the address of dual response resources.",
    )
