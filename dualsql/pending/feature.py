"""The feature Pending: queries that run on when their caller has stopped waiting."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from dualsql.databases.fetch import Sample
from dualsql.errors import DatabaseBusyError, DualResponseError, QueryTimeoutError
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.pending.jobs import Jobs, QueryWork
from dualsql.pending.progress import RunRecords, in_background
from dualsql.resource import UNCOUNTED, Principal, Resource
from dualsql.response import DualResponse
from dualsql.results.create import Creation, FinishedQuery, shown_sample
from dualsql.results.kept_rows import RunProgress, kept_or_live, view_of

if TYPE_CHECKING:
    from dualsql.server import ResultServer

NOTHING = Sample((), UNCOUNTED)
"""The sample of a query whose rows were not read."""


class Pending(Feature):
    """Pending queries: the argument `wait` of `create_response`; see docs/pending.md.

    Attributes:
        jobs: the queries that run.
    """

    def attach(self, server: ResultServer, parts: Parts) -> None:
        self._parts = parts
        records = RunRecords.of(parts)
        self.jobs = Jobs(parts.access, parts.store, parts.settings, records)
        server.features.add(self.jobs)
        parts.creator.answer_within = self._answer

    async def _answer(self, creation: Creation, wait: timedelta) -> DualResponse:
        """The response of a new result, or a pending response if its query takes longer than `wait`.

        Raises:
            TooManyQueriesError: `Settings.maximum_pending` run already.
            DualResponseError: the query failed, or its resource could not be stored.
        """
        # The document says what the Select is: callers with equal options share one query.
        options = replace(creation.options, select=None, wait=None)
        key = (creation.source.name, creation.document, repr(options))
        return await self.jobs.answer(key, lambda: self._work(creation), wait)

    def _work(self, creation: Creation) -> QueryWork:
        """The work of a query that may outlast its caller: it runs in the background pool, with `pending_timeout`."""
        creator, options = self._parts.creator, creation.options
        view = creator.open_view(creation._replace(source=creation.source.in_background()))
        resource = creator.new_resource(view, creation)
        # When the query ends is not known yet. The expiry is set anew then, from how long it took.
        latest = self._parts.settings.pending_timeout + options.lifetime
        expires_at = resource.created_at + min(latest, self._parts.settings.maximum_lifetime)
        resource = replace(resource, status="pending", expires_at=expires_at)

        async def run(progress: RunProgress) -> FinishedQuery:
            try:
                return await creator.completed(in_background(view), resource, creation, progress)
            except DualResponseError as error:
                from dualsql.databases.failures import raise_for_input

                raise_for_input(error, options.input_kind, lambda: options.reads_conversions)
                raise

        async def discard(query: FinishedQuery) -> None:
            if creator.runner is not None:
                await creator.runner.forget(query.resource.id, query.resource.kept)

        return QueryWork(
            resource=resource,
            response=creator.respond(resource, shown_sample(view, NOTHING)),
            principal=options.principal,
            run=run,
            discard=discard,
        )

    async def show_again(self, resource: Resource, principal: Principal | None) -> DualResponse:
        """The dual response of a stored resource; the sample is empty if reading the rows takes too long.

        Rights and expiry are not checked here: call `ResultServer.open_resource` first.

        Raises:
            ResourcePendingError, ResourceFailedError: its query still runs, or failed.
        """
        await self._parts.ready()
        resource.require_ready()
        access, creator = self._parts.access, self._parts.creator
        # A query that ended a moment ago in this process has its sample still in memory.
        response = self.jobs.response_of(resource.id, principal)
        if response is not None:
            await access.note("read", principal, resource=resource, rows=len(response.sample))
            return replace(response, expires_at=resource.expires_at)
        access.admit("ask", principal)
        view = await view_of(self._parts.views, resource, principal)
        # The id and the link are worth an answer without rows; an error would withhold both.
        shown = shown_sample(view, NOTHING)
        with suppress(QueryTimeoutError, DatabaseBusyError):
            shown = await kept_or_live(
                view,
                creator.whole_or_head(view),
                lambda: creator.whole_or_head(self._parts.views.live(resource, principal)),
            )
        await access.note("read", principal, resource=resource, rows=len(shown.rows))
        return creator.respond(resource, shown)

    async def cancel(self, resource: Resource, principal: Principal | None) -> bool:
        """Stop the query of a pending resource, in any process; False if it had ended.

        Rights are not checked here; `principal` is for the audit.
        """
        await self._parts.ready()
        await self._parts.access.note("cancel", principal, resource=resource)
        return await self.jobs.cancel(resource)
