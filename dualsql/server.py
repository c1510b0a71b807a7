"""The server: a Select goes in, a dual response comes out. Only the thawed document runs.

    create_response   freeze -> thaw -> apply rules -> sample and count -> sign -> store
    open_resource     one store read -> check the signature -> check the caller's rights
    read_page         open_resource -> thaw -> apply rules -> one page
    stream            open_resource -> thaw -> apply rules -> all rows

Methods that take an id and a principal check the principal's rights. A method that does not check is named so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from dualsql.databases.proof import prove
from dualsql.errors import ConfigurationError, DatabaseBusyError, ResourceExpiredError, ResourceNotFoundError
from dualsql.events import EVENTS, GaugeReading, step
from dualsql.extension import Extension, Extensions, KernelOptions, Parts
from dualsql.maintenance import Maintenance
from dualsql.resource import Count, Principal, Resource
from dualsql.response import DualResponse
from dualsql.results.create import CreateOptions, checked_count
from dualsql.results.pages import FIRST_PAGE, PageRequest, ResultPage
from dualsql.results.streams import ALL_ROWS, ResultStream, StreamRequest
from dualsql.run import Run, warn_of_uvicorn
from dualsql.settings import Action, require_duration, takes
from dualsql.store import MemoryStore
from dualsql.store.housekeeping import Housekeeper
from dualsql.store.protocol import ResourceStore
from dualsql_client.wire import ResourceDescription

if TYPE_CHECKING:
    from dualsql.results.resources import Listing

logger = logging.getLogger(__name__)


class UncheckedResults:
    """Reads and changes results for the application's own code, without a check of rights. A resource that is
    passed may have expired.

    `ResultServer.open_resource` checks both, and returns the resource that these methods take.
    """

    def __init__(self, parts: Parts, features: Extensions) -> None:
        self._parts = parts
        self._features = features

    async def read_page(
        self, resource: Resource, principal: Principal | None, request: PageRequest = FIRST_PAGE
    ) -> ResultPage:
        """See `ResultServer.read_page`."""
        await self._parts.ready()
        checked = request.checked(self._parts.settings)
        with step("page"):
            target = await self._parts.views.target(resource, principal, checked.sort)
            return await self._parts.pages.read(target, checked)

    async def stream(
        self, resource: Resource, principal: Principal | None, request: StreamRequest = ALL_ROWS
    ) -> ResultStream:
        """See `ResultServer.stream`."""
        await self._parts.ready()
        checked = request.checked(self._parts.settings)
        target = await self._parts.views.target(resource, principal, checked.sort)
        return self._parts.streams.open(target, checked)

    async def describe(
        self, resource: Resource, principal: Principal | None, *, count: Count = "none", counts: bool = True
    ) -> ResourceDescription:
        """See `ResultServer.describe`.

        Args:
            counts: False only checks whether the rows can be counted so.
        """
        from dualsql.results.resources import describe

        parts = self._parts
        method = checked_count(count, parts.settings)
        return await describe(
            resource, principal, method, counts=counts,
            views=parts.views, access=parts.access, addresses=parts.addresses,
        )  # fmt: skip

    def metadata_of(self, resource: Resource) -> ResourceDescription:
        """The metadata of a resource; not recorded in the audit."""
        from dualsql.results.resources import metadata_of

        return metadata_of(resource, self._parts.access, self._parts.addresses)

    async def get(self, resource_id: str) -> Resource | None:
        """The live resource of any owner; None if there is none."""
        await self._parts.ready()
        resource = await self._parts.access.load(resource_id)
        return None if resource is None or resource.is_expired(self._parts.clock.now()) else resource

    async def pin(
        self, resource_id: str, principal: Principal | None = None, *, pinned_by: str | None = None
    ) -> bool:
        """Keep a result until it is deleted; False if it does not exist.

        Args:
            principal: for the audit.
            pinned_by: whose quota counts it, from `dualsql.results.resources.admit_pin`; None if none does.
        """
        from dualsql.results.resources import pin

        is_pinned = await pin(self._parts.access, resource_id, principal, pinned_by=pinned_by)
        self._features.changed(resource_id)
        return is_pinned

    async def unpin(self, resource_id: str, principal: Principal | None = None) -> datetime | None:
        """Undo a pin. Returns when the result expires; None if it does not exist. `principal` is for the audit."""
        from dualsql.results.resources import unpin

        expires_at = await unpin(self._parts.access, resource_id, principal)
        self._features.changed(resource_id)
        return expires_at

    async def delete(self, resource_id: str, principal: Principal | None = None) -> bool:
        """Delete a result; False if it did not exist. `principal` is for the audit."""
        await self._parts.access.note("delete", principal, resource_id=resource_id)
        runner = self._parts.creator.runner
        record = None if runner is None else await runner.record(resource_id)
        # Row first, file second: a row never names a file that is not there (decision 35).
        is_deleted = await self._parts.store.delete(resource_id) == 1
        if runner is not None:
            await runner.forget(resource_id, record)
        self._features.forget(resource_id)
        return is_deleted


class ResultServer:
    """The kernel of a server: it creates dual responses and serves the results that they link to.

    `dualsql.DualResponseServer` is this class with the features of the package. See there for the arguments.

    Attributes:
        base_url: of the REST resources, without a slash at the end.
        unchecked: the results without a check of rights.
        access: identifies callers, and checks their rights.
        run: the present one, from its start to its shutdown.
        notices: what an operator should know of the last start; each was logged, too.
    """

    def __init__(self, options: KernelOptions) -> None:
        self.store: ResourceStore = MemoryStore() if options.store is None else options.store
        self.parts = parts = Parts(options, self.store, self._ready)
        self.settings = parts.settings
        self.base_url = parts.addresses.base_url
        self.access = parts.access
        self.features = Extensions()
        self._housekeeper = Housekeeper(
            parts.store,
            parts.access.log,
            parts.clock,
            interval=self.settings.cleanup_interval,
            retention=self.settings.gone_retention,
            sweep_further=self.features.sweep,
        )
        self.run = Run(self._begin)
        self.maintenance = Maintenance(parts, self.store, self._housekeeper.sweep)
        self._entered = 0
        self._started: list[Extension] = []
        self.notices: list[str] = []
        self.unchecked = UncheckedResults(parts, self.features)

    @takes(CreateOptions)
    async def create_response(self, options: CreateOptions) -> DualResponse:
        """Store `select` as a resource and show its first rows.

        Args:
            select: a Select, ORM or Core, or a set operation; text().columns() where `allow_text` is set. None
                where a `parent` and its `refinement` are given.
            name: a title for people.
            sample_size: rows to show. Without it, a result within `Settings.text_budget` and
                `Settings.results_budget` is shown whole, and a larger one by `Settings.default_sample_size` rows.
            sample: which rows: "head", the first; "tail", the last; "random", which reports its seed, so that
                "random:SEED" shows them again; "spread", from the first to the last at even distances.
            expiration: lifetime, `Settings.default_expiration` unless given; at most `Settings.maximum_lifetime`.
            metadata: JSON values that are stored with the resource and shown to its readers.
            count: the kind of total_count if the sample is not the whole result: "exact", "estimated", "capped:N",
                "none" or "auto" (docs/counts.md).
            profile: statistics of the columns, of "sample" rows or of the "full" result (docs/profile.md).
            principal: the person or service that owns the resource; no one else can read it.
            source: the name of the database, if there are several.
            wait: how long to wait for the query. If it takes longer, the answer is a response whose status is
                "pending", and the query goes on (docs/pending.md).
            keep: whether the rows are kept in a storage: always, never, or "slow" (docs/kept-results.md).
            parent: the resource, or its URI, that is refined if there is no Select; `principal` must have the right to
                read it.
            refinement: the query over the parent (docs/querying.md), as JSON or as an object of `dualsql.query`.
            is_text: `select` comes from a caller's SQL text (`sql.resolve`): an operation that the database lacks is
                then InvalidSQLError and not QueryExecutionError.
            reads_conversions: the statement converts values of its own, so a value that cannot be converted is not
                taken for the caller's mistake.

        Raises:
            TypeError: an argument is unknown.
            BadParameterError, LimitExceededError: an argument is malformed or out of bounds.
            ConfigurationError: there is no such source, or it is not read-only.
            NotFreezableError, NoTotalOrderError: the statement cannot be stored as data, or paged without loss.
            QueryExecutionError, CountExecutionError: the database refused the statement, or the count.
            InvalidSQLError, BadParameterError: the database refused a caller's SQL text, or a caller's query.
            QueryTimeoutError, DatabaseBusyError: the query took too long, or no connection was free.
            TooManyQueriesError: with `wait`, `Settings.maximum_pending` run already.
            StorageError: the resource could not be stored.
        """
        checked = options.checked(self.settings)
        await self._ready()
        return await self.parts.creator.create_or_refine(checked)

    async def open_resource(self, resource_id: str, principal: Principal | None, action: Action) -> Resource:
        """Load a live resource and check that `principal` may do `action` with it.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `dualsql.results.access`.
            TamperedError: the stored row was not written by this server.
        """
        await self._ready()
        return await self.parts.access.open(resource_id, principal, action)

    async def get_resource(self, resource_id: str, principal: Principal | None = None) -> Resource | None:
        """The live resource; None where there is none that `principal` may read.

        Raises:
            ForbiddenError: `Settings.anonymous_actions` does not allow anonymous callers to read.
        """
        return await self._opened(resource_id, principal, "read")

    async def _opened(self, resource_id: str, principal: Principal | None, action: Action) -> Resource | None:
        """See `open_resource`; None where there is none that `principal` sees."""
        try:
            return await self.open_resource(resource_id, principal, action)
        except (ResourceNotFoundError, ResourceExpiredError):
            return None

    async def read_page(
        self, resource_id: str, principal: Principal | None, request: PageRequest = FIRST_PAGE
    ) -> ResultPage:
        """One page of a result, as `principal` may see its rows.

        Args:
            request: offset or cursor, limit and sort; the first page unless given.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `open_resource`.
            ResourcePendingError, ResourceFailedError: the result has no rows yet, or its query failed.
            BadParameterError, UnknownColumnError: a value is out of range, or a column is not in the result.
            BadCursorError, NoTotalOrderError: the cursor is not valid for this request, or the result has no cursors.
            QueryExecutionError, QueryTimeoutError, DatabaseBusyError: the database failed or took too long.
            StorageError: with sliding expiration, the new expiry could not be written.
        """
        resource = await self.open_resource(resource_id, principal, "read")
        return await self.unchecked.read_page(resource, principal, request)

    async def stream(
        self, resource_id: str, principal: Principal | None, request: StreamRequest = ALL_ROWS
    ) -> ResultStream:
        """All rows of a result as bytes of one format; the query runs while they are read.

        Args:
            request: format, columns, sort, limit; all rows as NDJSON unless given.

        Raises:
            DualResponseError: as `read_page`; that of the query is raised while the rows are read.
        """
        resource = await self.open_resource(resource_id, principal, "read")
        return await self.unchecked.stream(resource, principal, request)

    async def describe(
        self, resource_id: str, principal: Principal | None, *, count: Count = "none"
    ) -> ResourceDescription:
        """The metadata of a result, as GET answers it.

        Args:
            count: how to count the rows again; "none" for the known total.

        Raises:
            ResourceNotFoundError, ResourceExpiredError, ForbiddenError: see `open_resource`.
            BadParameterError, CountExecutionError, QueryTimeoutError, DatabaseBusyError: see `create_response`.
        """
        resource = await self.open_resource(resource_id, principal, "read")
        return await self.unchecked.describe(resource, principal, count=count)

    async def pin_resource(
        self,
        resource_id: str,
        principal: Principal | None = None,
        *,
        address: str | None = None,
    ) -> bool:
        """Keep a result until it is deleted; False where there is none, or none that `principal` sees.

        `unchecked.pin` is for the server's own code.

        Args:
            principal: for whom it is pinned; None for an anonymous caller.
            address: of the caller. The pins of results that belong to nobody count against it, or without one against
                the link.

        Raises:
            ForbiddenError: `principal` may not pin it.
            LimitExceededError: the caller's pins of results that belong to nobody fill the quota.
        """
        resource = await self._opened(resource_id, principal, "pin")
        if resource is None:
            return False
        from dualsql.results.resources import admit_pin

        pinned_by = await admit_pin(self.access, resource, principal, address)
        return await self.unchecked.pin(resource_id, principal, pinned_by=pinned_by)

    async def delete_resource(self, resource_id: str, principal: Principal | None = None) -> bool:
        """Delete a result, so that its links stop working; False where `principal` sees no such result.

        Raises:
            ForbiddenError: `principal` may not delete it.
        """
        if await self._opened(resource_id, principal, "delete") is None:
            return False
        return await self.unchecked.delete(resource_id, principal)

    async def list_resources(
        self, principal: Principal | None, *, limit: int | None = None, cursor: str | None = None
    ) -> Listing:
        """The principal's own live resources, newest first.

        Raises:
            UnauthenticatedError: the caller is anonymous.
            BadParameterError: the limit is out of range, or the cursor was not made by this server.
        """
        await self._ready()
        from dualsql.results.resources import list_resources

        return await list_resources(self.access, principal, limit=limit, cursor=cursor)

    def _readings(self) -> Iterator[GaugeReading]:
        from dualsql.databases.measurements import readings_of

        for source in self.parts.sources.values():
            yield from readings_of(source)
        yield GaugeReading("streams", len(self.parts.streams))
        cache = self.parts.views.cache
        yield GaugeReading("cached_bytes", 0 if cache is None else cache.pages.weight)
        for feature in self.features:
            yield from feature.readings()

    async def start(self) -> None:
        """Check that no source can be written to, then start housekeeping. The first use of the server calls it.

        A server that was shut down can start again, in this or another event loop. Your own engines and stores must be
        usable there too: an asyncpg pool, for example, belongs to the loop in which it was first used.

        Raises:
            ConfigurationError: a source can be written to, or the server runs in another event loop.
            QueryExecutionError, DatabaseBusyError, QueryTimeoutError: a source is out of reach.
        """
        if self.run.is_closed:
            self._renew()
        await self._ready()

    async def _ready(self) -> None:
        if self.run.loop is not asyncio.get_running_loop():
            # Until it has started. From then on, a request pays for the comparison only.
            self._leave_ended_loop()
            await self.run.ready()

    def _leave_ended_loop(self) -> None:
        """Begin a new run if the event loop of the last one has ended without a shutdown."""
        loop = self.run.loop
        if loop is None or loop is asyncio.get_running_loop():
            return
        if not loop.is_closed():
            raise ConfigurationError(
                "The server runs in another event loop.",
                hint="Shut it down there first, or create a server for each loop. In tests: docs/guides/testing.md.",
            )
        for source in self.parts.sources.values():
            # Closing a connection needs the loop that it belongs to, which has ended.
            source.abandon()
        for feature in self.features:
            feature.abandon()
        self._renew()

    async def _begin(self) -> None:
        self.notices.clear()
        await self.parts.store.open()
        for feature in self.features:
            if feature not in self._started:  # by an attempt that failed later
                await feature.start()
                self._started.append(feature)
        for source in self.parts.sources.values():
            try:
                await prove(source, self.parts.policy.secured)
            except DatabaseBusyError as error:
                from dualsql.databases.reach import for_operator

                raise for_operator(source, error) from error.__cause__
            if columns := self.parts.policy.tenant_columns:
                from dualsql.databases.comparison import prove_tenants

                await prove_tenants(source, columns)
        async for notice in self.maintenance.notices():
            self.notices.append(notice)
            logger.warning("%s", notice)
        self._housekeeper.start()
        EVENTS.watch(self._readings)

    def _renew(self) -> None:
        """Replace what belongs to the event loop of the last run."""
        self.run = Run(self._begin)
        self._started.clear()
        for name, source in self.parts.sources.items():
            self.parts.sources[name] = source.renewed(self.settings)
        self.parts.streams.renew()
        for feature in self.features:
            feature.renew()

    async def drain(self, timeout: timedelta | None = None) -> None:
        """Prepare a shutdown: call it when the process is told to stop, while requests are still answered.

        /ready answers 503 from now on, and no stream begins. Streams that run may go on for `timeout` (unless given,
        `Settings.drain_timeout`), and end then with SERVER_UNAVAILABLE, which tells a client to resume, here or at
        another server on the same store. Pending queries that still run then fail with QUERY_INTERRUPTED at the
        shutdown. Pages and tools work until then.
        """
        timeout = self.settings.drain_timeout if timeout is None else require_duration("timeout", timeout)
        self.run.is_draining = True
        running = sum(each.value for each in self._readings() if each.gauge in {"streams", "pending"})
        if running:
            text = "Stopping: %d streams and pending queries have %g seconds to end."
            logger.warning(text, running, timeout.total_seconds())
        remaining = await asyncio.gather(self.parts.streams.drain(timeout), self.features.drain(timeout))
        if any(remaining):
            logger.warning("Stopping: %d streams and %d other tasks did not end in time.", *remaining)

    async def shutdown(self) -> None:
        """End streams and slow queries, stop housekeeping, write access counts, close the store and own engines.

        `start` starts the server again. A MemoryStore loses its resources.
        """
        self.run.close()
        self.parts.streams.end()
        EVENTS.forget(self._readings)
        # Each one is closed, even if closing another one fails.
        async with AsyncExitStack() as closing:
            for source in self.parts.sources.values():
                closing.push_async_callback(source.close)
            for feature in self.features:
                closing.push_async_callback(feature.release)
            # Last in, first out: what still writes to the store, features and access counts, ends before it.
            closing.push_async_callback(self.parts.store.close)
            closing.push_async_callback(self._housekeeper.stop)
            for feature in self.features:
                closing.push_async_callback(feature.close)

    async def __aenter__(self) -> Self:
        await self.start()
        self._entered += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:  # several clients in one process each enter the lifespan of their server
            await self.shutdown()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """For `Starlette(lifespan=dual.lifespan)` or `MCPServer(..., lifespan=dual.lifespan)`.

        If a database or the store cannot be reached at the start, requests are answered 503 SERVER_UNAVAILABLE, and the
        start is tried again every second. Nothing of a caller runs before the databases are proved read-only.

        Raises:
            ConfigurationError: a source can be written to.
        """
        warn_of_uvicorn(self.base_url)
        if self.run.is_closed:
            self._renew()
        self._leave_ended_loop()
        await self.run.begin()
        self._entered += 1
        try:
            yield
        finally:
            await self.__aexit__()
