"""What is said of a stored result without its rows."""

from __future__ import annotations

from dataclasses import replace

from dualsql.resource import CALLS, Addresses, CountMethod, Principal, Resource, instant
from dualsql.results.access import AccessControl
from dualsql.results.view import Views
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import ResourceChanges, ResourceStore
from dualsql_client.wire import ResourceDescription


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
                if view.kept is None:
                    total = await view.total(method)
                else:
                    from dualsql.results.kept_rows import kept_or_live

                    live = self._views.live(resource, principal)
                    total = await kept_or_live(view, view.total(method), lambda: live.total(method))
                # The total is stored if every reader of the resource would count the same rows.
                who = None if principal is None else (principal.id, principal.tenant)
                if self._views.policy.shows_all or who == (resource.owner, resource.tenant):
                    await self._store.update(resource.id, ResourceChanges(total=total))
                expires_at = await self._access.note_access(resource)
                resource = replace(
                    resource, total_count=total.rows, total_count_kind=total.kind, expires_at=expires_at
                )
        metadata = self.metadata_of(resource)
        if resource.kept is not None and resource.status != "failed":
            from dualsql.results.kept_rows import described

            metadata["kept"] = await described(self._views, resource, principal, self._access.clock.now())
        return metadata

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
