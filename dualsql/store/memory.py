"""Keeps resources in memory. The number is bounded, and no mutable object is shared with a caller.

For development and for a single process: resources are lost when it ends, and other processes do not see them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from dualsql.resource import Principal, Resource, parent_of
from dualsql.store import rows
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
from dualsql_client.wire import ToolProblem

Group = tuple[str, str | None, str | None]
"""The group of a resource: a principal of a tenant, the result that it was refined from, or tools."""


class MemoryStore:
    """Keeps at most `maximum` resources, for one event loop.

    Resources belong to a group: those of one principal; without a principal, those that were refined from one result,
    or all results of tools. A full store deletes expired resources first, then the oldest unpinned one of the group
    that saves: no group deletes another's (`dualsql.store.eviction`).
    """

    def __init__(self, maximum: int = 10_000) -> None:
        if maximum < 1:
            raise ValueError("maximum must be at least 1")
        self._maximum = maximum
        self._crowded = maximum - maximum // 4 - maximum // 10  # no group makes room before; see `eviction`
        # In order of creation. Rows as in the SQL store and not Resource objects, so that no caller can change stored
        # metadata. No method awaits, so each is atomic.
        self._rows: dict[str, rows.Row] = {}
        self._links: dict[str, LinkRecord] = {}

    async def save(self, resource: Resource) -> str:
        row = rows.to_row(resource)
        row["group"] = group = self._group_of(resource)
        if resource.id in self._rows:
            raise rows.already_stored()
        if len(self._rows) >= self._crowded:
            from dualsql.store.eviction import ids_to_evict

            now = row["created_at"]
            self._forget([key for key, other in self._rows.items() if rows.has_expired(other, now)])
            self._forget(ids_to_evict(self._rows, group, self._maximum))
        self._rows[resource.id] = row
        return resource.id

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        row = self._rows.get(resource_id)
        return None if row is None or not rows.is_visible_to(viewer, row) else rows.from_row(row)

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        row = self._rows.get(resource_id)
        return self._replace(None if row is None else rows.apply_changes(row, changes))

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        for resource_id, access in accesses.items():
            await self.update(resource_id, ResourceChanges(accesses=access.number, accessed_at=access.last))

    async def settle(self, resource: Resource) -> bool:
        row = self._rows.get(resource.id)
        return self._replace(None if row is None else rows.settle_row(row, resource))

    async def prolong(self, resource_ids: Collection[str], *, until: datetime) -> Collection[str]:
        rows_of_ids = (self._rows[resource_id] for resource_id in set(resource_ids) & self._rows.keys())
        pending = [row for row in rows_of_ids if row["status"] == "pending"]
        for row in pending:
            row["pending_until"] = rows.in_utc(until)
        return [row["id"] for row in pending]

    async def fail_overdue(self, failure: ToolProblem, *, now: datetime) -> int:
        overdue = [
            row for row in self._rows.values() if row["status"] == "pending" and row["pending_until"] <= now
        ]
        for row in overdue:
            row |= rows.failed_values(failure)
        return len(overdue)

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        ids = set(resource_ids) & self._rows.keys()
        if expired_before is not None:
            ids = {name for name in ids if rows.has_expired(self._rows[name], expired_before)}
        self._forget(ids)
        return len(ids)

    async def standings(self, resource_ids: Collection[str]) -> Mapping[str, ResourceState]:
        rows_by_id = {name: self._rows[name] for name in resource_ids if name in self._rows}
        return {name: ResourceState(row["status"], row["expires_at"]) for name, row in rows_by_id.items()}

    async def find_expired(self, *, before: datetime, limit: int = 500) -> Sequence[str]:
        expired = [row for row in self._rows.values() if rows.has_expired(row, before)]
        return rows.first_to_expire(expired, limit)

    async def find(
        self, principal: Principal, *, now: datetime, limit: int, after: ListingPosition | None = None
    ) -> ResourcePage:
        return rows.page_of(rows.newest(self._rows_of(principal, now), after), limit)

    async def usage(self, principal: Principal, *, now: datetime) -> Usage:
        return rows.usage_of(self._rows_of(principal, now))

    async def pins(self, pinned_by: str) -> Usage:
        return rows.usage_of([row for row in self._rows.values() if rows.is_pinned_by(pinned_by, row)])

    async def find_unpinned(
        self, principal: Principal, *, now: datetime, limit: int
    ) -> Sequence[tuple[str, int]]:
        return rows.oldest_unpinned(self._rows_of(principal, now), limit)

    async def save_link(self, link: LinkRecord) -> None:
        self._links[link.id] = link

    async def has_link(self, link: LinkRecord, *, take: bool = False) -> bool:
        record = self._links.get(link.id)
        is_alive = record is not None and record.resource_id == link.resource_id
        if is_alive and take:
            del self._links[link.id]
        return is_alive

    async def delete_links(
        self,
        *,
        link_id: str | None = None,
        resource_id: str | None = None,
        expired_before: datetime | None = None,
    ) -> int:
        # Without a condition, every link would match.
        if link_id is None and resource_id is None and expired_before is None:
            return 0
        ids = [
            link.id
            for link in self._links.values()
            if (link_id is None or link.id == link_id)
            and (resource_id is None or link.resource_id == resource_id)
            and (expired_before is None or link.expires_at <= expired_before)
        ]
        for key in ids:
            del self._links[key]
        return len(ids)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._rows.clear()
        self._links.clear()

    def _replace(self, row: rows.Row | None) -> bool:
        """Replace the row; its position in the order of creation stays. Returns whether there is one."""
        if row is not None:
            self._rows[row["id"]] = row
        return row is not None

    def _rows_of(self, principal: Principal, now: datetime) -> list[rows.Row]:
        return [
            row
            for row in self._rows.values()
            if rows.is_owned_by(principal, row) and not rows.has_expired(row, now)
        ]

    def _forget(self, resource_ids: Iterable[str]) -> None:
        for resource_id in resource_ids:
            del self._rows[resource_id]

    def _group_of(self, resource: Resource) -> Group:
        if resource.owner is not None:
            return ("principal", resource.owner, resource.tenant)
        parent_id = parent_of(resource)
        if parent_id is None:
            return ("tools", None, None)
        above: Group | None = self._rows.get(parent_id, {}).get("group")
        # A caller with the link of a result can refine it, and refine the refinement, any number of times.
        return above if above is not None and above[0] == "link" else ("link", parent_id, None)
