"""The server's answers as objects. An answer that could lose or repeat rows raises an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, cast

from dualsql_client.conversions import is_count, read_instant
from dualsql_client.errors import FetchError, pages_only
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
    described: object, *, implied: Mapping[ColumnType, Encoding] = MappingProxyType({})
) -> list[Column] | None:
    """The columns of an answer or tool result; None when they are no list of named columns.

    A column without an encoding has that of its type in `implied`, or "any", as one that this client does not know.
    """
    if described is None:
        return []
    if not isinstance(described, list):
        return None
    columns = [_column(entry, implied) for entry in described]
    return None if None in columns else cast("list[Column]", columns)


def _column(entry: object, implied: Mapping[ColumnType, Encoding]) -> Column | None:
    fields = fields_of(entry)  # of a mapping, or of an object that an SDK has made of one
    if fields is None or not isinstance(name := fields.get("name"), str):
        return None
    kind = _type(fields.get("type"))
    named = fields.get("encoding")
    encoding = _encoding(implied.get(kind) if named is None else named)
    column = Column(name=name, type=kind, encoding=encoding)
    if fields.get("items") is not None:
        column["items"] = _encoding(fields["items"])
    return column


def _type(word: object) -> ColumnType:
    return _TYPES.get(word, "string") if isinstance(word, str) else "string"


def _encoding(word: object) -> Encoding:
    return cast(Encoding, word) if isinstance(word, str) and word in ENCODINGS else "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """One page of rows.

    Attributes:
        data: the rows, in order; values as JSON has them unless they were fetched with `typed=True`.
        total_count: all rows of the result; None when the server does not know.
        total_count_kind: "exact", "estimated", "capped" (a lower bound), or "none".
        offset: position of the first row of `data`, from 0; of a page by cursor, counted from the page that gave it.
        has_next: as the server reports it; an empty page is always the last one.
        next_offset: offset of the next page; None on the last one.
        cached: these rows were read a short time ago, by a server that is set up to keep them.
        order: "partial" when the server cannot put the rows in the same order at every reading: pages may then
            repeat rows or lose some.
        next_cursor, previous_cursor: for `fetch(cursor=...)` with the same sort; None at the ends, and where the
            server gives none.
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
    order: str
    cached: bool
    next_cursor: str | None
    previous_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceMetadata:
    """What the server says about a resource without reading its rows.

    Attributes:
        status: "ready" or "pinned"; "pending" while the query still runs; "failed" if it failed.
        total_count_kind: the kind of `total_count`, as in `FetchResult`.
        expires_at: None for a pinned resource.
        metadata: what the tool's author stored with it.
        error: code, message, hint and details of the error of a failed query.
        kept: of a result whose rows are kept, or were to be: `kept`, and `as_of`, `rows`, `bytes` or the `reason`;
            `rows_so_far` while a run is read, `error` of a refresh that failed.
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


def read_page(
    answer: object, *, offset: int | None, known_columns: Sequence[Column], typed: bool
) -> FetchResult:
    """The page that was asked for.

    Args:
        offset: where it was asked for; None when it was asked for by cursor, and the server says where it is.
        known_columns: used when the answer describes none.

    Raises:
        FetchError: the answer is no page, not the page asked for, or the next one would not follow it.
        ParseError: with `typed`, a value is not what its column says.
    """
    fields = _fields(answer)
    fields = {ours: fields[theirs] for theirs, ours in _OTHER_NAMES.items() if theirs in fields} | fields
    data, has_next = _rows(fields.get("data")), _typed(fields, "has_next", bool)
    start = _counted(fields, "offset") if offset is None else offset
    end = start + len(data)
    _refuse_if(
        {
            "it starts at another row than was asked for": fields.get("offset", start) != start,
            "it holds fewer or more rows than it says": fields.get("returned_count", len(data)) != len(data),
            "the next page would not follow its last row": has_next and fields.get("next_offset", end) != end,
        }
    )
    columns = _columns(fields) or list(known_columns)
    # A server that never ends must not keep anyone asking.
    has_next = has_next and bool(data)
    total = _counted(fields, "total_count", None)
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
        order=_typed(fields, "order", str, "total"),
        cached=_typed(fields, "cached", bool, default=False),
        next_cursor=_typed(fields, "next_cursor", str, None),
        previous_cursor=_typed(fields, "previous_cursor", str, None),
    )


def exact_total(page: FetchResult) -> int | None:
    """All rows of the result, where the server has counted them."""
    return page.total_count if page.total_count_kind == "exact" else None


def read_metadata(answer: object) -> ResourceMetadata:
    """The answer of GET /{id}.

    Raises:
        FetchError: it is something else.
    """
    fields = _fields(answer)
    if "status" not in fields and "data" in fields:
        raise pages_only(200)
    total = _counted(fields, "total_count", None)
    return ResourceMetadata(
        status=_typed(fields, "status", str),
        name=_typed(fields, "name", str, ""),
        uri=_typed(fields, "uri", str, ""),
        total_count=total,
        total_count_kind=kind_of_total(total, fields.get("total_count_kind")),
        columns=_columns(fields),
        created_at=read_instant(fields.get("created_at")),
        expires_at=read_instant(fields.get("expires_at")),
        access_count=_counted(fields, "access_count", 0),
        last_accessed_at=read_instant(fields.get("last_accessed_at")),
        metadata=_typed(fields, "metadata", dict, {}),
        error=_typed(fields, "error", dict, None),
        kept=_typed(fields, "kept", dict, None),
    )


def is_pending(answer: object) -> bool:
    """Whether the metadata say that the query of a result still runs."""
    return isinstance(answer, dict) and answer.get("status") == "pending"


def is_refreshing(answer: object) -> bool:
    """Whether the metadata say that the rows of a result are being read again."""
    return rows_so_far(answer) is not None


def rows_so_far(answer: object) -> int | None:
    """How many rows were read of a run that still runs, if the metadata say so."""
    kept = answer.get("kept") if isinstance(answer, dict) else None
    rows = kept.get("rows_so_far") if isinstance(kept, dict) else None
    return rows if type(rows) is int else None


def read_listing(answer: object) -> tuple[list[ResourceMetadata], str | None]:
    """The answer of GET on the collection: what is listed, and the cursor of the next page.

    Raises:
        FetchError: it is something else.
    """
    fields = _fields(answer)
    listed = [read_metadata(entry) for entry in _rows(fields.get("resources"))]
    return listed, _typed(fields, "next_cursor", str, None)


def kind_of_total(total: int | None, said: object) -> TotalCountKind:
    """The kind of a total: "exact" if the server does not say, "estimated" if its word is unknown to this client."""
    if total is None:
        return "none"
    if said is None or said == "exact":
        return "exact"
    return "capped" if said == "capped" else "estimated"


_REQUIRED: Any = object()

_JSON_NAMES = {bool: "boolean", str: "string", int: "whole number", dict: "object"}


def _typed(fields: Mapping[str, Any], name: str, kind: type, default: Any = _REQUIRED) -> Any:
    value = fields.get(name)
    if value is None and default is not _REQUIRED:
        return default
    # bool is an int to isinstance, and a server that counts in booleans is broken.
    if value is None:
        raise _refusal(f"it has no {name!r}")
    _refuse_if({f"its {name!r} is no {_JSON_NAMES[kind]}": type(value) is not kind})
    return value


def _counted(fields: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> Any:
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
    for reason, is_so in faults.items():
        if is_so:
            raise _refusal(reason)


def _refusal(reason: str) -> FetchError:
    return FetchError(
        f"The server's answer cannot be used: {reason}.",
        status=200,
        hint="Check that base_url is the address of dual response resources.",
    )
