"""What is said of a stored result without its rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from dualsql.resource import CALLS, INTERRUPTED, Addresses, CountMethod, Principal, Resource, instant
from dualsql.results.access import AccessControl
from dualsql.results.view import View, Views, kept_or_live
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import ResourceChanges, ResourceStore
from dualsql_client.wire import KeptDescription, ResourceDescription


class Descriptions:
    """Describes the results of one server."""

    def __init__(
        self,
        views: Views,
        access: AccessControl,
        store: ResourceStore,
        accesses: AccessLog,
        addresses: Addresses,
    ) -> None:
        self._views = views
        self._access = access
        self._store = store
        self._accesses = accesses
        self._addresses = addresses

    async def describe(
        self, resource: Resource, *, principal: Principal | None, method: CountMethod, counts: bool = True
    ) -> ResourceDescription:
        """See `DualResponseServer.describe`."""
        await self._access.note("describe", principal, resource=resource)
        if method.way != "none":
            view = await self._views.of(resource, principal)
            if counts:
                resource = await self._counted(resource, principal, method, view)
        metadata = self.metadata_of(resource)
        if resource.kept is not None and resource.status == "ready":
            described = await self._views.kept.describe(resource, self._views.live(resource, principal))
            # A refresh may run in another process, also where this one keeps no rows.
            metadata["kept"] = KeptDescription(
                **{**describe_run(resource, self._access.clock.now()), **described}
            )
        elif resource.kept is not None and resource.status == "pending":
            metadata["kept"] = describe_run(resource, self._access.clock.now())
        return metadata

    async def _counted(
        self, resource: Resource, principal: Principal | None, method: CountMethod, view: View
    ) -> Resource:
        """The resource with a new total, which is stored if every reader of the resource would count the same rows."""
        total = await kept_or_live(
            view, view.total(method), lambda: self._views.live(resource, principal).total(method)
        )
        if not self._views.hides_rows or _is_owner(principal, resource):
            await self._store.update(resource.id, ResourceChanges(total=total))
        expires_at = await self._access.note_access(resource)
        return replace(resource, total_count=total.rows, total_count_kind=total.kind, expires_at=expires_at)

    def metadata_of(self, resource: Resource) -> ResourceDescription:
        """The metadata of a resource; not recorded in the audit."""
        accessed = self._accesses.last(resource.id) or resource.last_accessed_at
        metadata = ResourceDescription(
            status="pinned" if resource.status == "ready" and resource.is_pinned else resource.status,
            name=resource.name,
            uri=self._addresses.uri(resource.id),
            total_count=resource.total_count,
            total_count_kind=resource.total_count_kind,
            columns=list(resource.columns),
            created_at=instant(resource.created_at),
            expires_at=None if resource.expires_at is None else instant(resource.expires_at),
            access_count=resource.access_count + self._accesses.pending(resource.id),
            last_accessed_at=None if accessed is None else instant(accessed),
            metadata={name: value for name, value in resource.metadata.items() if name != CALLS},
        )
        if resource.failure is not None:
            metadata["error"] = resource.failure
        return metadata


def _is_owner(principal: Principal | None, resource: Resource) -> bool:
    who = (principal.id, principal.tenant) if principal else None
    return who is not None and who == (resource.owner, resource.tenant)


def is_refreshed(resource: Resource, now: datetime) -> bool:
    """Whether a server refreshes the resource, by its record."""
    running = None if resource.kept is None else resource.kept.get("running")
    return running is not None and datetime.fromisoformat(running["until"]) > now


def describe_run(resource: Resource, now: datetime) -> KeptDescription:
    """How far the run is whose rows a resource is going to keep, or why it failed."""
    kept, description = resource.kept or {}, KeptDescription(kept=False)
    if "running" in kept:
        if resource.status == "pending" or is_refreshed(resource, now):
            description["rows_so_far"] = kept["running"]["rows"]
        else:
            description["error"] = INTERRUPTED
    elif "failure" in kept:
        description["error"] = kept["failure"]
    return description
