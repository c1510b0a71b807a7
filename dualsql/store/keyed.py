"""A store over any database of keys and values: a subclass has five methods (docs/guides/own-store.md)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import orjson

from dualsql.errors import StorageError, TamperedError
from dualsql.resource import Principal, Resource
from dualsql.store.protocol import (
    Access,
    LinkRecord,
    ListingPosition,
    Requester,
    ResourceChanges,
    ResourcePage,
    ResourceState,
    Usage,
)
from dualsql.store.rows import (
    FIELD_CLASSES,
    Row,
    already_stored,
    apply_changes,
    failed_values,
    first_to_expire,
    from_row,
    has_expired,
    in_utc,
    is_owned_by,
    is_pinned_by,
    is_storable_id,
    is_visible_to,
    newest,
    oldest_unpinned,
    page_of,
    settle_row,
    to_row,
    unreadable,
    usage_of,
)
from dualsql_client.wire import ToolProblem

_log = logging.getLogger(__name__)

ATTEMPTS = 100
"""How often a change is tried while concurrent changes overtake it."""

_RESOURCES, _LINKS = "resource/", "link/"


class KeyValueStore(ABC):
    """Keeps resources as values under keys, in any database that can compare and set one value.

    Listings, quotas and the sweeper read all values, so it is for thousands of results; `SQLResourceStore` has
    indexes. If the database fails while several access counts are written, some may be counted twice.

    A key is `resource/` or `link/` and an id of up to 64 characters of `A-Z a-z 0-9 _ . ~ -`.
    """

    @abstractmethod
    async def read(self, key: str) -> bytes | None:
        """The value; None if there is none."""

    @abstractmethod
    async def write(self, key: str, value: bytes, *, instead_of: bytes | None) -> bool:
        """Set the value if the present one is `instead_of`, or if there is none and that is None.

        The comparison and the change are one step, in any process. Returns whether the value was set.
        """

    @abstractmethod
    async def remove(self, key: str, *, instead_of: bytes) -> bool:
        """Remove the value if it is `instead_of`, in one step. Returns whether it was removed."""

    @abstractmethod
    def scan(self, prefix: str) -> AsyncIterator[tuple[str, bytes]]:
        """All keys that begin so, with their values, in any order."""

    async def open(self) -> None:  # noqa: B027 - few need it
        """Prepare for use in the running event loop."""

    @abstractmethod
    async def close(self) -> None:
        """Release connections."""

    async def save(self, resource: Resource) -> str:
        value = encode_row(to_row(resource))
        if not await self.write(_RESOURCES + resource.id, value, instead_of=None):
            raise already_stored()
        return resource.id

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        value = await self._read(_RESOURCES, resource_id)
        if value is None:
            return None
        row = decode_row(value)
        return from_row(row) if is_visible_to(viewer, row) else None

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        return await self._change(resource_id, lambda row: apply_changes(row, changes))

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        for resource_id, access in accesses.items():
            await self.update(resource_id, ResourceChanges(accesses=access.number, accessed_at=access.last))

    async def settle(self, resource: Resource) -> bool:
        return await self._change(resource.id, lambda row: settle_row(row, resource))

    async def prolong(self, resource_ids: Collection[str], *, until: datetime) -> Collection[str]:
        def prolonged(row: Row) -> Row | None:
            return {**row, "pending_until": in_utc(until)} if row["status"] == "pending" else None

        return [name for name in resource_ids if await self._change(name, prolonged)]

    async def fail_overdue(self, failure: ToolProblem, *, now: datetime) -> int:
        def failed(row: Row) -> Row | None:
            is_overdue = row["status"] == "pending" and row["pending_until"] <= now
            return {**row, **failed_values(failure)} if is_overdue else None

        overdue = await self._rows(lambda row: failed(row) is not None)
        # _change() reads each row again: a process that prolongs or settles its query meanwhile keeps it.
        return sum([await self._change(row["id"], failed) for row in overdue])

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        return sum([await self._delete(name, expired_before) for name in set(resource_ids)])

    async def standings(self, resource_ids: Collection[str]) -> Mapping[str, ResourceState]:
        values = {name: await self._read(_RESOURCES, name) for name in resource_ids}
        states = {}
        for name, value in values.items():
            with suppress(TamperedError):
                if value is not None:
                    row = decode_row(value)
                    states[name] = ResourceState(row["status"], row["expires_at"])
        return states

    async def find_expired(self, *, before: datetime, limit: int = 500) -> Sequence[str]:
        return first_to_expire(await self._rows(lambda row: has_expired(row, before)), limit)

    async def find(
        self, principal: Principal, *, now: datetime, limit: int, after: ListingPosition | None = None
    ) -> ResourcePage:
        rows, unreadable = [], []
        async for key, value, row in self._scanned():
            if row is None and _names_owner(value, principal):
                unreadable.append(key.removeprefix(_RESOURCES))
            elif row is not None and is_owned_by(principal, row) and not has_expired(row, now):
                rows.append(row)
        odd = [{"id": each} for each in unreadable] if after is None else []
        return page_of([*odd, *newest(rows, after)], limit)

    async def usage(self, principal: Principal, *, now: datetime) -> Usage:
        return usage_of(await self._rows_of(principal, now))

    async def pins(self, pinned_by: str) -> Usage:
        return usage_of(await self._rows(lambda row: is_pinned_by(pinned_by, row)))

    async def find_unpinned(
        self, principal: Principal, *, now: datetime, limit: int
    ) -> Sequence[tuple[str, int]]:
        return oldest_unpinned(await self._rows_of(principal, now), limit)

    async def save_link(self, link: LinkRecord) -> None:
        value = orjson.dumps([link.resource_id, in_utc(link.expires_at).isoformat()])
        if not await self.write(_LINKS + link.id, value, instead_of=None):
            raise StorageError("This link is already stored.")

    async def has_link(self, link: LinkRecord, *, take: bool = False) -> bool:
        value = await self._read(_LINKS, link.id)
        # A link is valid for its own result only.
        if value is None or orjson.loads(value)[0] != link.resource_id:
            return False
        # Of several concurrent requests, one removes the value: a single-use link is used once.
        return not take or await self.remove(_LINKS + link.id, instead_of=value)

    async def delete_links(
        self,
        *,
        link_id: str | None = None,
        resource_id: str | None = None,
        expired_before: datetime | None = None,
    ) -> int:
        if link_id is None and resource_id is None and expired_before is None:
            return 0

        def matches(key: str, link_resource_id: str, expires_at: str) -> bool:
            return (
                (link_id is None or key == _LINKS + link_id)
                and (resource_id is None or link_resource_id == resource_id)
                and (expired_before is None or datetime.fromisoformat(expires_at) <= expired_before)
            )

        links = [(key, value) async for key, value in self.scan(_LINKS)]
        matching = [(key, value) for key, value in links if matches(key, *orjson.loads(value))]
        return sum([await self.remove(key, instead_of=value) for key, value in matching])

    async def _read(self, kind: str, name: str) -> bytes | None:
        """The value; None without a query for an id that no resource or link can have."""
        return await self.read(kind + name) if is_storable_id(name) else None

    async def _change(self, resource_id: str, change: Callable[[Row], Row | None]) -> bool:
        for _ in range(ATTEMPTS):
            before = await self._read(_RESOURCES, resource_id)
            after = None if before is None else change(decode_row(before))
            if after is None:
                return False
            if await self.write(_RESOURCES + resource_id, encode_row(after), instead_of=before):
                return True
        raise StorageError("The resource was changed by others at each attempt to change it.")

    async def _delete(self, resource_id: str, expired_before: datetime | None) -> bool:
        for _ in range(ATTEMPTS):
            value = await self._read(_RESOURCES, resource_id)
            if value is None:
                return False
            if expired_before is not None and not has_expired(decode_row(value), expired_before):
                return False
            # A resource that was pinned since has another value and stays.
            if await self.remove(_RESOURCES + resource_id, instead_of=value):
                return True
        raise StorageError("The resource was changed by others at each attempt to delete it.")

    async def _rows(self, matches: Callable[[Row], bool]) -> list[Row]:
        """The rows that match, of those that can be read."""
        return [row async for _, _, row in self._scanned() if row is not None and matches(row)]

    async def _scanned(self) -> AsyncIterator[tuple[str, bytes, Row | None]]:
        """All keys and values of resources; None in place of a row that cannot be read."""
        async for key, value in self.scan(_RESOURCES):
            try:
                row = decode_row(value)
            except TamperedError:
                row = None
                _log.error("The value of the key %s... cannot be read.", key[: len(_RESOURCES) + 6])
            yield key, value, row

    async def _rows_of(self, principal: Principal, now: datetime) -> list[Row]:
        return await self._rows(lambda row: is_owned_by(principal, row) and not has_expired(row, now))


# Types that JSON does not have: their name in the document, and how they are written and read.
_KINDS: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    bytes: ("bytes", lambda value: b64encode(value).decode()),
    datetime: ("instant", datetime.isoformat),
    timedelta: ("microseconds", lambda value: value // timedelta(microseconds=1)),
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "bytes": b64decode,
    "instant": datetime.fromisoformat,
    "microseconds": lambda value: timedelta(microseconds=value),
}


def encode_row(row: Row) -> bytes:
    """The row as bytes."""
    kinds = {name: (_KINDS[type(value)], value) for name, value in row.items() if type(value) in _KINDS}
    return orjson.dumps(row | {name: {kind: write(value)} for name, ((kind, write), value) in kinds.items()})


def decode_row(data: bytes) -> Row:
    """The row of these bytes.

    Raises:
        TamperedError: `encode_row` did not make them.
    """
    try:
        row = {
            name: _READ[next(iter(value))](*value.values()) if isinstance(value, dict) else value
            for name, value in orjson.loads(data).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration, OverflowError):
        raise unreadable() from None
    if not _is_comparable(row):
        raise unreadable()
    return row


_COMPARED = (
    "id", "owner", "tenant", "created_at", "expires_at", "access_count", "last_accessed_at", "pending_until",
)  # fmt: skip
"""The values of a row that are compared."""


def _is_comparable(row: Row) -> bool:
    return (
        all(name in row and isinstance(row[name], FIELD_CLASSES[name]) for name in _COMPARED)
        and all(value.tzinfo is not None for value in row.values() if isinstance(value, datetime))
        and {"status", "total_count_kind"} <= row.keys()
        and type(row.get("size")) is int
    )


def _names_owner(data: bytes, principal: Principal) -> bool:
    """Whether a value that is no row still names the principal as its owner."""
    try:
        record = orjson.loads(data)
        return bool((record["owner"], record["tenant"]) == (principal.id, principal.tenant))
    except (ValueError, TypeError, KeyError):
        return False
