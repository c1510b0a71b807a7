"""The interface of a store of resources. Each method is one atomic step, in any process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from dualsql.resource import KeptRows, Principal, Resource, Status, Total
from dualsql_client.wire import ToolProblem

MIGRATE_HINT = "Run `dualsql migrate --create --store URL`."
"""The hint of a StorageError for a store whose tables are missing or outdated."""


class KeptChange(NamedTuple):
    """Another record of kept rows, for a resource whose record is still `before`."""

    before: KeptRows | None
    after: KeptRows | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ResourceChanges:
    """A partial update. Fields with their default value do not change.

    Attributes:
        accesses: added to access_count.
        accessed_at: becomes last_accessed_at, unless a later one is there.
        extend_to: a later expires_at for a resource that is neither pinned nor expired; never shortens it.
        total: a later count; a count that is not exact never replaces an exact one.
        kept: another record of kept rows. If the stored record is not `kept.before`, nothing changes.
        pin: remove the expiry of a resource that has not expired.
        pinned_by: who pins it (`Resource.pinned_by`); of a resource that is pinned already, nothing changes.
        unpin_to: the new expires_at of a pinned resource; an unpinned one keeps its own.
        now: the instant that decides whether it has expired; required with extend_to and pin.
    """

    accesses: int = 0
    accessed_at: datetime | None = None
    extend_to: datetime | None = None
    total: Total | None = None
    kept: KeptChange | None = None
    pin: bool = False
    pinned_by: str | None = None
    unpin_to: datetime | None = None
    now: datetime | None = None

    def __post_init__(self) -> None:
        if self.now is None and (self.pin or self.extend_to is not None):
            raise ValueError("extend_to and pin need now: the instant that decides whether it has expired")


class Access(NamedTuple):
    """How often a resource was read, and when last."""

    number: int
    last: datetime


class Requester(NamedTuple):
    """The caller who looks for a resource, and the time.

    Attributes:
        principal: sees resources that are bound to it or to no principal; None sees only the latter.
        since: resources that expired before this time are not found.
    """

    principal: Principal | None
    since: datetime


class ResourceState(NamedTuple):
    """The state of a resource at one time; `expires_at` is None for a pinned one."""

    status: Status
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Usage:
    """How much one principal keeps: live resources and their bytes at rest, and how much of that is pinned."""

    count: int = 0
    size: int = 0
    pinned_count: int = 0
    pinned_size: int = 0


class LinkRecord(NamedTuple):
    """The record that keeps a signed link alive (see `dualsql.links`)."""

    id: str
    resource_id: str
    expires_at: datetime


class ListingPosition(NamedTuple):
    """Where a listing continues: after this resource, newest first."""

    created_at: datetime
    id: str


class ResourcePage(NamedTuple):
    """A part of a listing, newest first.

    Attributes:
        unreadable: ids of the rows of this part that cannot be read: others changed them, or another release wrote
            them.
        next: where the listing continues; None at its end.
    """

    resources: Sequence[Resource]
    unreadable: Sequence[str] = ()
    next: ListingPosition | None = None


class ResourceStore(Protocol):
    """Keeps resources. Failures of a backend are raised as StorageError."""

    async def save(self, resource: Resource) -> str:
        """Store a new resource and return its id."""

    async def get(self, resource_id: str, viewer: Requester | None = None) -> Resource | None:
        """The resource, expired or not, or None; for a requester, only if that requester may find it.

        The store tests this condition in the same query. If it read the row first, a caller could distinguish
        foreign ids from unknown ones by the response time.
        """

    async def update(self, resource_id: str, changes: ResourceChanges) -> bool:
        """Apply `changes` without losing a concurrent update.

        Returns whether a row was changed: False for an unknown id, for `pin` on an expired one, and if the record of
        kept rows is not `kept.before`.
        """

    async def add_accesses(self, accesses: Mapping[str, Access]) -> None:
        """Add to the access counts of existing resources, by id. Either all are written, or StorageError is raised."""

    async def settle(self, resource: Resource) -> bool:
        """Store the end of a pending resource: status, failure, total, sample, and expiry unless it was pinned since.

        Returns whether it was still pending: only the first call settles it.
        """

    async def prolong(self, resource_ids: Collection[str], *, until: datetime) -> Collection[str]:
        """Renew the leases of these resources, if they are still pending."""

    async def fail_overdue(self, failure: ToolProblem, *, now: datetime) -> int:
        """Fail pending resources whose `pending_until` is at or before `now`. Returns how many."""

    async def delete(self, *resource_ids: str, expired_before: datetime | None = None) -> int:
        """Delete, all of them or only those whose expires_at lies at or before `expired_before`.

        The condition is tested in the same step as the deletion. Returns how many were deleted.
        """

    async def standings(self, resource_ids: Collection[str]) -> Mapping[str, ResourceState]:
        """The state of each of these resources that exists. A call has at most 1,000 ids."""

    async def find_expired(self, *, before: datetime, limit: int = 500) -> Sequence[str]:
        """Ids of at most `limit` resources whose expires_at lies at or before `before`."""

    async def find(
        self, principal: Principal, *, now: datetime, limit: int, after: ListingPosition | None = None
    ) -> ResourcePage:
        """At most `limit` rows of resources bound to `principal` that live at `now`, newest first.

        Rows that say no time of creation are not counted.
        """

    async def usage(self, principal: Principal, *, now: datetime) -> Usage:
        """How much is bound to `principal` and live at `now`."""

    async def pins(self, pinned_by: str) -> Usage:
        """How much this caller has pinned of results without an owner (`Resource.pinned_by`)."""

    async def find_unpinned(
        self, principal: Principal, *, now: datetime, limit: int
    ) -> Sequence[tuple[str, int]]:
        """Id and size in bytes of the oldest unpinned resources that `usage` counts, oldest first."""

    async def save_link(self, link: LinkRecord) -> None:
        """Store the record of a link."""

    async def has_link(self, link: LinkRecord, *, take: bool = False) -> bool:
        """Whether the link is valid; with `take`, end it in the same step, so that only one caller gets True."""

    async def delete_links(
        self,
        *,
        link_id: str | None = None,
        resource_id: str | None = None,
        expired_before: datetime | None = None,
    ) -> int:
        """End one link, all of a resource, or all that expired. Returns how many."""

    async def open(self) -> None:
        """Prepare for use in the running event loop. Called whenever a server starts, also after `close`."""

    async def close(self) -> None:
        """Release connections; the store is not used again before it is opened."""
