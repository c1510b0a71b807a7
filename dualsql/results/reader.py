"""Reads stored results. Each reading is counted and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dualsql.databases import Source, chosen_source
from dualsql.errors import blaming
from dualsql.resource import Addresses, CountMethod, Principal, Resource, Total
from dualsql.response import instant
from dualsql.results.access import AccessControl
from dualsql.results.cursors import Cursors
from dualsql.results.pages import PageRequest, ResultPage, read_page
from dualsql.results.streams import ResultStream, StreamRequest, Streams
from dualsql.results.view import Plans, ReadTarget, RowCache, View, open_view, require_sources
from dualsql.settings import Settings
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import ResourceChanges, ResourceStore
from dualsql.tenancy import Policy
from dualsql_client.wire import ResourceDescription


class ResultReader:
    """Reads stored results from their databases."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        policy: Policy,
        access: AccessControl,
        store: ResourceStore,
        accesses: AccessLog,
        *,
        settings: Settings,
        addresses: Addresses,
        cursors: Cursors,
        streams: Streams,
    ) -> None:
        require_sources(settings.snapshot_tags, sources)
        self._sources = sources
        self._policy = policy
        self._access = access
        self._store = store
        self._accesses = accesses
        self._settings = settings
        self._addresses = addresses
        self._cursors = cursors
        self._streams = streams
        self._plans = Plans()
        self._results = None if settings.result_cache is None else RowCache(settings.result_cache)

    def view(self, database: Source, document: bytes, principal: Principal | None) -> View:
        """A stored statement as `principal` sees it."""
        return open_view(
            database,
            document,
            principal,
            policy=self._policy,
            plans=self._plans,
            results=self._results,
            settings=self._settings,
        )

    def target(self, resource: Resource, principal: Principal | None) -> ReadTarget:
        """The rows of a resource, as `principal` sees them.

        Raises:
            ResourcePendingError, ResourceFailedError: it has none.
        """
        return ReadTarget(
            resource=resource,
            principal=principal,
            view=self.view_of(resource, principal),
            key=resource.id,
            total=Total(resource.total_count, resource.total_count_kind),
        )

    async def page(self, target: ReadTarget, request: PageRequest) -> ResultPage:
        """A page of the target; the request has been checked."""
        with blaming(target.asked):
            page = await read_page(target, request, self._cursors)
        await self._access.note("read", target.principal, resource=target.resource, rows=len(page.rows))
        expires_at = await self._access.note_access(target.resource)
        return page if expires_at == page.expires_at else replace(page, expires_at=expires_at)

    def stream(self, target: ReadTarget, request: StreamRequest) -> ResultStream:
        """A stream of the target; the request has been checked."""
        return self._streams.open(target, request)

    async def describe(
        self, resource: Resource, *, principal: Principal | None, asked: CountMethod
    ) -> ResourceDescription:
        """See `DualResponseServer.describe`."""
        await self._access.note("describe", principal, resource=resource)
        if asked.way != "none":
            resource = await self._counted(resource, principal, asked)
        return self.metadata_of(resource)

    async def _counted(self, resource: Resource, principal: Principal | None, asked: CountMethod) -> Resource:
        """The resource with a new total, which is kept if whoever else may read it would have counted the same."""
        total = await self.view_of(resource, principal).total(asked)
        if self._policy.shows_all or _is_owner(principal, resource):
            await self._store.update(resource.id, ResourceChanges(total=total))
        expires_at = await self._access.note_access(resource)
        return replace(resource, total_count=total.rows, total_count_kind=total.kind, expires_at=expires_at)

    def metadata_of(self, resource: Resource) -> ResourceDescription:
        """What may be said of a resource, without a word to the audit."""
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
            metadata=dict(resource.metadata),
        )
        if resource.failure is not None:
            metadata["error"] = resource.failure
        return metadata

    @property
    def has_functions(self) -> bool:
        """Whether plain functions narrow statements, whatever these do."""
        return self._policy.has_functions

    @property
    def hides_rows(self) -> bool:
        """Whether one principal may see other rows than the next."""
        return not self._policy.shows_all

    def view_of(self, resource: Resource, principal: Principal | None) -> View:
        """What `principal` sees of the resource."""
        resource.require_ready()
        return self.view(chosen_source(self._sources, resource.source), resource.document, principal)


def _is_owner(principal: Principal | None, resource: Resource) -> bool:
    who = (principal.id, principal.tenant) if principal else None
    return who is not None and who == (resource.owner, resource.tenant)
