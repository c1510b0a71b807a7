"""The conversion of resources to rows that a store keeps and back, and changes of rows for stores that make them here.

The keys of a row are Resource's field names; `columns`, `sample`, `metadata`, `failure` and `kept` are JSON text. Every
store converts here, the one in memory too, so that all accept the same values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from operator import attrgetter, itemgetter
from string import ascii_letters, digits
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import orjson

from dualsql.errors import BadParameterError, LimitExceededError, StorageError, TamperedError
from dualsql.resource import KeptProgress, KeptRows, Principal, Resource, Status
from dualsql.store.protocol import ListingPosition, Requester, ResourceChanges, ResourcePage, Usage
from dualsql_client.wire import ENCODINGS, ColumnType, ToolProblem, TotalCountKind

MAXIMUM_ID_LENGTH = 64

MAXIMUM_ROW_BYTES = 16 * 1024 * 1024
"""The maximum size of one resource, with its sample."""

ID_CHARACTERS = f"{ascii_letters}{digits}_.~-"
ID_PATTERN = rf"[A-Za-z0-9_.~-]{{1,{MAXIMUM_ID_LENGTH}}}"
_id_match = lru_cache(1_000)(re.compile(ID_PATTERN).fullmatch)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # by PostgreSQL, and in UTF-8
_INSTANTS = ("created_at", "expires_at", "last_accessed_at", "pending_until")
_JSON = ("columns", "sample", "metadata", "failure", "kept")
_END_COLUMNS = ("status", "failure", "total_count", "total_count_kind", "sample", "expires_at", "kept")
_COLUMN_TYPES = frozenset(get_args(ColumnType))
_KINDS = frozenset(get_args(TotalCountKind))
_STATUSES = frozenset(get_args(Status))

_LONGEST_KNOWN = 8 * 1024
"""Characters of columns in JSON that are kept when they are parsed: those of 145 columns."""


def _classes(hint: Any) -> tuple[type, ...]:
    """The classes of the values that a field of this type has when it is read from JSON or a database."""
    if get_origin(hint) is UnionType:
        return tuple(chain.from_iterable(map(_classes, get_args(hint))))
    kind = get_origin(hint) or hint
    if kind is Literal:
        return (str,)
    return (list if kind is Sequence else dict if issubclass(kind, Mapping) else kind,)


FIELD_CLASSES = {name: _classes(hint) for name, hint in get_type_hints(Resource).items()}
"""To check rows that were read: other programs can change them, and SQLite stores any type in any column."""
_FIELDS = list(FIELD_CLASSES)
_VALUES_OF: Callable[[Resource], tuple[Any, ...]] = attrgetter(*FIELD_CLASSES)

Row = dict[str, Any]
"""A row of `to_row`."""


def in_utc(instant: datetime) -> datetime:
    """The same instant in UTC; ValueError without a zone, because it is then ambiguous."""
    if instant.tzinfo is None:
        raise ValueError("a timestamp without a zone cannot be stored")
    return instant.astimezone(UTC)


def already_stored() -> StorageError:
    """The error for an id that is already in use."""
    return StorageError("A resource with this id is already stored.", hint="Store it under a fresh id.")


def is_storable_id(value: Any) -> bool:
    """Whether a resource can have this id. Any other id is unknown without a query.

    A NUL or a lone surrogate in a URL would otherwise raise an error in the driver, which would look like an outage.
    """
    return isinstance(value, str) and len(value) <= MAXIMUM_ID_LENGTH and _id_match(value) is not None


def to_row(resource: Resource) -> Row:
    """The row to store; it shares nothing mutable with the resource.

    Raises:
        BadParameterError: a value that some database, or JSON, cannot store.
        LimitExceededError: the row would be larger than MAXIMUM_ROW_BYTES.
    """
    if not is_storable_id(resource.id):
        raise BadParameterError(f"A resource cannot have the id {resource.id[:80]!r}.")
    row = dict(zip(FIELD_CLASSES, _VALUES_OF(resource), strict=True))
    row["metadata"] = dict(row["metadata"])
    for name in ("name", "source", "owner", "tenant"):
        if row[name] is not None and _UNSTORABLE.search(row[name]):
            raise BadParameterError(f"The resource's {name} holds a character that cannot be stored.")
    for name in _INSTANTS:
        row[name] = None if row[name] is None else in_utc(row[name])
    for name in _JSON:
        row[name] = None if row[name] is None else _to_json(name, row[name])
    size = sum(len(value) for value in row.values() if isinstance(value, str | bytes))
    if size > MAXIMUM_ROW_BYTES:
        raise LimitExceededError(
            f"The resource has {size:,} bytes; the limit is {MAXIMUM_ROW_BYTES:,}.",
            hint="Give it less metadata, or keep a smaller sample.",
        )
    return row | {"size": size}


def from_row(row: Mapping[str, Any]) -> Resource:
    """The resource of a stored row.

    Raises:
        TamperedError: `to_row` did not make this row.
    """
    # None in place of a field that an earlier release did not write.
    values: dict[str, Any] = dict(row) if list(row) == _FIELDS else {name: row.get(name) for name in _FIELDS}
    try:
        columns = _known_columns if len(values["columns"]) <= _LONGEST_KNOWN else _known_columns.__wrapped__
        # Copies: a resource shares nothing mutable with another one.
        values["columns"] = list(map(dict.copy, columns(values["columns"])))
        for name in _JSON[1:]:
            if values[name] is not None:
                values[name] = orjson.loads(values[name])
        if values["total_count_kind"] is None:
            values["total_count_kind"] = "none" if values["total_count"] is None else "exact"
        values["status"] = values["status"] or "ready"
        if _is_whole(values):
            return Resource(**values)
    except (ValueError, TypeError, KeyError):
        pass
    raise unreadable()


def settled_values(resource: Resource) -> dict[str, Any]:
    """The columns that are written when a pending resource has ended; raises what `to_row` raises."""
    row = to_row(resource)
    return {name: row[name] for name in (*_END_COLUMNS, "size")} | {"pending_until": None}


def failed_values(failure: ToolProblem) -> dict[str, Any]:
    """The columns that are written when the lease of a pending resource has expired."""
    return {"status": "failed", "failure": _to_json("failure", failure), "pending_until": None}


def unreadable() -> TamperedError:
    """The error for a row that was changed: the same as for a wrong signature.

    It has no cause: that of a value that cannot be read quotes the value, and the log would show it.
    """
    return TamperedError("The signature of the stored resource is not valid.")


def _to_json(name: str, value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise BadParameterError(
            f"The resource's {name} cannot be written as JSON.",
            hint="Use text, numbers up to 64 bits, booleans, None, lists, and dicts with text keys.",
        ) from error


def size_of(resource: Resource) -> int:
    """The size of the stored resource in bytes."""
    return int(to_row(resource)["size"])


def _is_whole(values: Mapping[str, Any]) -> bool:
    """Whether the values of all fields, in their order, are those of a resource; `_known_columns` checks columns."""
    return (
        all(map(isinstance, values.values(), FIELD_CLASSES.values()))
        and is_storable_id(values["id"])
        and values["total_count_kind"] in _KINDS
        and (values["total_count"] is None) == (values["total_count_kind"] == "none")
        and values["status"] in _STATUSES
        and _is_problem(values["failure"])
        and (values["kept"] is None or _is_kept_record(values["kept"]))
        and (values["sample"] is None or all(isinstance(row, dict) for row in values["sample"]))
    )


def _is_problem(value: Mapping[str, Any] | None) -> bool:
    if value is None:
        return True
    texts = ToolProblem.__required_keys__ - {"details"}
    return all(isinstance(value.get(name), str) for name in texts) and isinstance(value.get("details"), dict)


def _is_kept_record(record: KeptRows) -> bool:
    """Whether it is one; raises what `from_row` catches, too."""
    running = record.get("running", KeptProgress(rows=0, until="2000-01-01T00:00:00+00:00"))
    is_instant = datetime.fromisoformat(running["until"]).tzinfo is not None
    return is_instant and type(running.get("rows")) is int and _is_problem(record.get("failure"))


@lru_cache(128)
def _known_columns(text: str) -> list[dict[str, str]]:
    """The columns of a text in JSON, to be copied; raises ValueError for another text. Half of the time of a row."""
    columns = orjson.loads(text)
    if not isinstance(columns, list) or not all(map(_is_column, columns)):
        raise ValueError
    return columns


def _is_column(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(each, str) for each in value.values())
        and "name" in value
        and value.get("type") in _COLUMN_TYPES
        and value.get("encoding") in ENCODINGS
        and value.get("items", "any") in ENCODINGS
    )


def has_expired(row: Row, instant: datetime) -> bool:
    """Whether the row has expired at `instant`; a pinned one never does."""
    return row["expires_at"] is not None and row["expires_at"] <= instant


def is_visible_to(viewer: Requester | None, row: Row) -> bool:
    """Whether the requester may see the row. None sees every row."""
    if viewer is None:
        return True
    if row["expires_at"] is not None and row["expires_at"] < viewer.since:
        return False
    return row["owner"] is None or (viewer.principal is not None and is_owned_by(viewer.principal, row))


def is_pinned_by(pinned_by: str, row: Row) -> bool:
    """Whether the row is pinned, and by this caller."""
    return row["expires_at"] is None and row.get("pinned_by") == pinned_by


def is_owned_by(principal: Principal, row: Row) -> bool:
    """Whether the row is bound to the principal."""
    return bool((row["owner"], row["tenant"]) == (principal.id, principal.tenant))


_LISTING_KEY = itemgetter("created_at", "id")


def newest(rows: Iterable[Row], after: ListingPosition | None) -> list[Row]:
    """These rows in the order of listings, newest first, from `after` on."""
    ordered = sorted(rows, key=_LISTING_KEY, reverse=True)
    if after is None:
        return ordered
    return [row for row in ordered if _LISTING_KEY(row) < (in_utc(after.created_at), after.id)]


NO_ID = "(none)"
"""In place of an id that no resource can have: others wrote it, so no log shows it."""


def page_of(rows: Iterable[Mapping[str, Any]], limit: int) -> ResourcePage:
    """The first `limit` of these rows, which are in the order of listings.

    Rows without an instant in `created_at`, or with an id that is none, are no place to continue from, and are not
    counted.
    """
    resources: list[Resource] = []
    unreadable: list[str] = []
    last: ListingPosition | None = None
    counted = 0
    for row in rows:
        if counted >= limit:
            return ResourcePage(resources, unreadable, last)
        is_named = is_storable_id(row["id"])
        if is_named and isinstance(row.get("created_at"), datetime):
            last = ListingPosition(row["created_at"], row["id"])
            counted += 1
        try:
            resources.append(from_row(row))
        except TamperedError:
            unreadable.append(row["id"] if is_named else NO_ID)
    return ResourcePage(resources, unreadable)


def oldest_unpinned(rows: Iterable[Row], limit: int) -> list[tuple[str, int]]:
    """Id and size of at most `limit` unpinned rows, oldest first."""
    ordered = sorted((row for row in rows if row["expires_at"] is not None), key=_LISTING_KEY)
    return [(row["id"], row["size"]) for row in ordered[: max(limit, 0)]]


def first_to_expire(rows: Iterable[Row], limit: int) -> list[str]:
    """The ids of at most `limit` unpinned rows, in the order of their expiry."""
    ordered = sorted(rows, key=itemgetter("expires_at", "id"))
    return [row["id"] for row in ordered[: max(limit, 0)]]


def usage_of(rows: list[Row]) -> Usage:
    """The number and the size of these rows, and of the pinned ones among them."""
    pinned = [row["size"] for row in rows if row["expires_at"] is None]
    return Usage(len(rows), sum(row["size"] for row in rows), len(pinned), sum(pinned))


def apply_changes(row: Row, changes: ResourceChanges) -> Row | None:
    """The row after an update; None if `changes` pins an expired row or expects another record of kept rows."""
    if changes.pin and changes.now is not None and has_expired(row, changes.now):
        return None
    change = changes.kept
    if change is not None and row.get("kept") != kept_text(change.before):
        return None
    accesses = row["access_count"] + changes.accesses
    after = {**row, "access_count": accesses, "expires_at": _expiry_after(row, changes)}
    if changes.pin and row["expires_at"] is not None:
        after["pinned_by"] = changes.pinned_by
    if changes.accessed_at is not None:
        last = in_utc(changes.accessed_at)
        after["last_accessed_at"] = max(last, row["last_accessed_at"] or last)
    total = changes.total
    if total is not None and (total.kind == "exact" or row["total_count_kind"] != "exact"):
        after["total_count"], after["total_count_kind"] = total
    if change is not None:
        after["kept"] = kept_text(change.after)
    return after


def kept_text(record: KeptRows | None) -> str | None:
    """A record of kept rows as text in JSON."""
    return None if record is None else _to_json("kept", record)


def settle_row(row: Row, resource: Resource) -> Row | None:
    """The row of a pending resource that has ended; None if it was not pending."""
    if row["status"] != "pending":
        return None
    is_pinned = row["expires_at"] is None
    return {**row, **settled_values(resource), **({"expires_at": None} if is_pinned else {})}


def _expiry_after(row: Row, changes: ResourceChanges) -> datetime | None:
    expires_at: datetime | None = row["expires_at"]
    if expires_at is None:
        return in_utc(changes.unpin_to) if changes.unpin_to is not None else None
    if changes.pin:
        return None
    if changes.extend_to is None or changes.now is None or expires_at <= changes.now:
        return expires_at
    return max(expires_at, in_utc(changes.extend_to))
