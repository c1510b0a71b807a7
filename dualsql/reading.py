"""What is read of a stored result: a page, a stream; the rule: each reading is counted and written down.

Neither rights nor expiry are checked here: `Gate.open` gives a resource that may be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dualsql import streams
from dualsql.addresses import Addresses
from dualsql.execute import Source, chosen_source
from dualsql.formats import json
from dualsql.formats.formats import format_named
from dualsql.gate import Gate
from dualsql.narrowing import Policy
from dualsql.pages import ResultPage, seen_total
from dualsql.parameters import checked_stream, checked_window
from dualsql.resource import Principal, Resource
from dualsql.response import instant
from dualsql.settings import Settings
from dualsql.store.accesses import AccessLog
from dualsql.store.protocol import ResourceChanges, ResourceStore
from dualsql.streams import ResultStream, StreamRequest
from dualsql.view import View, open_view
from dualsql_client.wire import ResourceMetadata, SortKey


class Reader:
    """Reads stored results from their databases."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        policy: Policy,
        gate: Gate,
        store: ResourceStore,
        accesses: AccessLog,
        *,
        settings: Settings,
        addresses: Addresses,
    ) -> None:
        self._sources = sources
        self._policy = policy
        self._gate = gate
        self._store = store
        self._accesses = accesses
        self._settings = settings
        self._addresses = addresses

    def view(self, database: Source, document: bytes, principal: Principal | None) -> View:
        """A stored statement as `principal` sees it."""
        return open_view(database, document, principal, self._policy, self._settings)

    async def page(
        self,
        resource: Resource,
        *,
        offset: int,
        limit: int | None,
        sort: Sequence[SortKey],
        principal: Principal | None,
        integer_strings: bool,
    ) -> ResultPage:
        """See `DualResponseServer.fetch_page`."""
        limit = checked_window(offset, limit, sort, self._settings)
        view = self._view_of(resource, principal)
        # One row more than asked for tells whether there is a next page, whatever was counted before.
        found = await view.fetch(offset=offset, limit=limit + 1, sort=sort)
        has_next = len(found) > limit
        rows = found[:limit]
        await self._gate.note("read", principal, resource=resource, rows=len(rows))
        as_strings = json.integer_columns(view.columns) if integer_strings else ()
        return ResultPage(
            columns=json.describe(view.columns, integer_strings=as_strings),
            rows=json.records(view.columns, rows, view.source.engine.dialect, integer_strings=as_strings),
            total_count=seen_total(
                known=resource.total_count, offset=offset, returned=len(rows), has_next=has_next
            ),
            offset=offset,
            has_next=has_next,
            expires_at=await self._note_access(resource),
        )

    async def stream(
        self, resource: Resource, request: StreamRequest, *, principal: Principal | None
    ) -> ResultStream:
        """See `DualResponseServer.stream_rows`."""
        checked_stream(request, self._settings)
        view = self._view_of(resource, principal)
        written = format_named(request.format)
        opened = streams.open_stream(view, written, request, resource=resource, settings=self._settings)
        await self._gate.note("read", principal, resource=resource)
        await self._note_access(resource)
        return opened

    async def describe(self, resource: Resource, *, principal: Principal | None) -> ResourceMetadata:
        """See `DualResponseServer.describe_resource`."""
        await self._gate.note("describe", principal, resource=resource)
        return self.metadata_of(resource)

    def metadata_of(self, resource: Resource) -> ResourceMetadata:
        """What may be said of a resource, without a word to the audit."""
        accessed = self._accesses.last(resource.id) or resource.last_accessed_at
        return ResourceMetadata(
            status="pinned" if resource.is_pinned else "ready",
            name=resource.name,
            uri=self._addresses.uri(resource.id),
            total_count=resource.total_count,
            columns=list(resource.columns),
            created_at=instant(resource.created_at),
            expires_at=None if resource.expires_at is None else instant(resource.expires_at),
            access_count=resource.access_count + self._accesses.pending(resource.id),
            last_accessed_at=None if accessed is None else instant(accessed),
            metadata=dict(resource.metadata),
        )

    def _view_of(self, resource: Resource, principal: Principal | None) -> View:
        return self.view(chosen_source(self._sources, resource.source), resource.document, principal)

    async def _note_access(self, resource: Resource) -> datetime | None:
        """Count the access, and start the lifetime anew where it slides. Returns the expiry from now on."""
        now = datetime.now(UTC)
        self._accesses.note(resource.id, now)
        if resource.expires_at is None or not self._settings.sliding_expiration:
            return resource.expires_at
        latest = resource.created_at + self._settings.maximum_lifetime
        extended = max(resource.expires_at, min(now + resource.lifetime, latest))
        await self._store.update(resource.id, ResourceChanges(extend_to=extended, now=now))
        return extended
