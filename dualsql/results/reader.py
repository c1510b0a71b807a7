"""Reads stored results. Each reading is counted and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dualsql.databases import Source, chosen_source
from dualsql.formats import json
from dualsql.resource import Addresses, CountMethod, Principal, Resource, Total
from dualsql.response import instant
from dualsql.results.access import AccessControl
from dualsql.results.cursors import Cursors
from dualsql.results.pages import PageRequest, ResultPage, fetch_view_page, seen_total
from dualsql.results.streams import ResultStream, StreamEnding, StreamRequest, Streams, checked_stream
from dualsql.results.view import Plans, RowCache, View, open_view, require_sources
from dualsql.settings import Settings
from dualsql.store.housekeeping import AccessLog
from dualsql.store.protocol import ResourceChanges, ResourceStore
from dualsql.tenancy import Policy
from dualsql_client.wire import ResourceDescription


@dataclass(frozen=True, slots=True)
class ReadTarget:
    """What rows are read of.

    Attributes:
        id: names it in cursors, and in the tokens of streams: those of one are no good for another.
    """

    id: str
    total: Total

    @classmethod
    def of(cls, resource: Resource) -> ReadTarget:
        """The resource's own rows."""
        return cls(resource.id, Total(resource.total_count, resource.total_count_kind))


class ResultReader:
    """Reads stored results from their databases."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        policy: Policy,
        gate: AccessControl,
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
        self._gate = gate
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

    async def page(
        self,
        resource: Resource,
        request: PageRequest,
        *,
        principal: Principal | None,
    ) -> ResultPage:
        """See `DualResponseServer.read_page_unchecked`."""
        asked = request.checked(self._settings)
        return await self.page_of(self.view_of(resource, principal), asked, resource, principal)

    async def page_of(
        self,
        view: View,
        asked: PageRequest,
        resource: Resource,
        principal: Principal | None,
        *,
        subject: ReadTarget | None = None,
    ) -> ResultPage:
        """A page of a view of the resource; of what else than its own rows, `subject` says."""
        subject = subject or ReadTarget.of(resource)
        turn = await fetch_view_page(asked, view, self._cursors, resource_id=subject.id, principal=principal)
        await self._gate.note("read", principal, resource=resource, rows=len(turn.rows))
        as_strings = json.integer_columns(view.columns) if asked.integer_strings else ()
        total = seen_total(
            subject.total,
            offset=turn.offset,
            returned=len(turn.rows),
            has_next=turn.has_next,
            is_counted=turn.is_counted,
        )
        return ResultPage(
            columns=json.describe(view.columns, integer_strings=as_strings),
            rows=json.records(
                view.columns, turn.rows, view.source.engine.dialect, integer_strings=as_strings
            ),
            total_count=total.rows,
            total_count_kind=total.kind,
            offset=turn.offset,
            has_next=turn.has_next,
            has_previous=turn.has_previous,
            order=turn.order,
            cached=turn.is_cached,
            next_cursor=turn.next_cursor,
            previous_cursor=turn.previous_cursor,
            expires_at=await self.note_access(resource),
        )

    async def stream(
        self, resource: Resource, request: StreamRequest, *, principal: Principal | None
    ) -> ResultStream:
        """See `DualResponseServer.stream`."""
        checked_stream(request, self._settings)
        return self.stream_of(self.view_of(resource, principal), request, resource, principal)

    def stream_of(
        self,
        view: View,
        request: StreamRequest,
        resource: Resource,
        principal: Principal | None,
        *,
        subject: ReadTarget | None = None,
    ) -> ResultStream:
        """A stream of a view of the resource; see `page_of`."""
        subject = subject or ReadTarget.of(resource)
        named = replace(
            resource, id=subject.id, total_count=subject.total.rows, total_count_kind=subject.total.kind
        )
        log = _StreamLog(self._gate, self, resource, principal)
        return self._streams.open(view, request, resource=named, principal=principal, log=log)

    async def describe(
        self, resource: Resource, *, principal: Principal | None, asked: CountMethod
    ) -> ResourceDescription:
        """See `DualResponseServer.describe`."""
        await self._gate.note("describe", principal, resource=resource)
        if asked.way != "none":
            resource = await self._counted(resource, principal, asked)
        return self.metadata_of(resource)

    async def _counted(self, resource: Resource, principal: Principal | None, asked: CountMethod) -> Resource:
        """The resource with a new total, which is kept if whoever else may read it would have counted the same."""
        total = await self.view_of(resource, principal).total(asked)
        if self._policy.shows_all or _is_owner(principal, resource):
            await self._store.update(resource.id, ResourceChanges(total=total))
        expires_at = await self.note_access(resource)
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

    async def note_access(self, resource: Resource) -> datetime | None:
        """Count the access, and start the lifetime anew where it slides. Returns the expiry from now on."""
        now = datetime.now(UTC)
        self._accesses.note(resource.id, now)
        if resource.expires_at is None or not self._settings.sliding_expiration:
            return resource.expires_at
        latest = resource.created_at + self._settings.maximum_lifetime
        extended = max(resource.expires_at, min(now + resource.lifetime, latest))
        await self._store.update(resource.id, ResourceChanges(extend_to=extended, now=now))
        return extended


def _is_owner(principal: Principal | None, resource: Resource) -> bool:
    who = (principal.id, principal.tenant) if principal else None
    return who is not None and who == (resource.owner, resource.tenant)


@dataclass(frozen=True, slots=True)
class _StreamLog:
    """The two events of a stream: that its rows are about to leave, and which of them did."""

    gate: AccessControl
    reader: ResultReader
    resource: Resource
    principal: Principal | None

    async def began(self) -> None:
        await self.gate.note("stream", self.principal, resource=self.resource)
        await self.reader.note_access(self.resource)

    async def ended(self, ending: StreamEnding) -> None:
        await self.gate.note(
            "read",
            self.principal,
            resource=self.resource,
            rows=ending.rows,
            is_complete=ending.is_complete,
            code=ending.error.code if ending.error else None,
        )
