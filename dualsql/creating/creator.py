"""A Select becomes a resource with a sample; the rule: what runs is the stored document, thawed.

freeze -> thaw -> narrow -> compile every form -> sample and count -> sign -> store

With `wait`, `dualsql.creating.pending` does the last three, and may store first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dualsql.addresses import Addresses
from dualsql.creating.options import Creation
from dualsql.creating.pending import Answered, Jobs, Work
from dualsql.creating.rehearsing import Rehearsals
from dualsql.creating.responding import respond
from dualsql.errors import (
    DatabaseBusyError,
    DualResponseError,
    LimitExceededError,
    NotFreezableError,
    QueryTimeoutError,
    blaming,
)
from dualsql.execute import Rows, Sample, Source, chosen_source
from dualsql.formats import json
from dualsql.gate.gate import Gate
from dualsql.incidents import log_unforeseen
from dualsql.profiling import Found
from dualsql.reading.profiles import ProfileAsked, fetch_profile
from dualsql.reading.reader import Reader
from dualsql.reading.sampling import take_sample
from dualsql.reading.view import View
from dualsql.resource import Principal, Resource, new_resource
from dualsql.response import DualResponse
from dualsql.settings import Settings
from dualsql.statement import Statement
from dualsql.totals import UNCOUNTED, CountAsked, Total

_log = logging.getLogger(__name__)


class Creator:
    """Makes the resources of one server."""

    def __init__(
        self,
        sources: Mapping[str, Source],
        reader: Reader,
        gate: Gate,
        jobs: Jobs,
        *,
        settings: Settings,
        addresses: Addresses,
    ) -> None:
        self._sources = sources
        self._reader = reader
        self._gate = gate
        self._jobs = jobs
        self._settings = settings
        self._addresses = addresses
        self._rehearsals = Rehearsals()

    async def create(self, select: Statement, creation: Creation) -> DualResponse:
        """See `DualResponseServer.create_response`."""
        with _refusals(), blaming(creation.asked):
            return await self._create(select, creation)

    async def _create(self, select: Statement, creation: Creation) -> DualResponse:
        source = chosen_source(self._sources, creation.source)
        document = _frozen(source, select, creation)
        if creation.wait is not None:
            # Whoever asks for all of the same asks the same.
            key = (source.name, document, repr(replace(creation, wait=None)))
            return await self._jobs.answer(key, lambda: self._work(source, document, creation), creation.wait)
        view = self._reader.view(source, document, creation.principal)
        self._rehearsals.require(view)
        sample = await take_sample(view, creation.sample_size, creation.count, creation.sample)
        profile = await _profile(view, creation)
        resource = self._resource(view, document, creation, sample.total)
        answered = self._answered(resource, view, sample, profile)
        await self._gate.keep(answered.resource, creation.principal, rows=len(sample.rows))
        return answered.response

    async def show_again(self, resource: Resource, *, principal: Principal | None) -> DualResponse:
        """The dual response of a resource that was made before; without a sample where rows take too long to read.

        Neither rights nor expiry are checked here: `Gate.open` gives a resource that may be read.

        Raises:
            ResourcePendingError, ResourceFailedError: it has no rows, yet or ever.
        """
        resource.require_ready()
        response = self._jobs.response_of(resource.id, principal)
        if response is not None:
            await self._gate.note("read", principal, resource=resource, rows=len(response.sample))
            return replace(response, expires_at=resource.expires_at)
        source = chosen_source(self._sources, resource.source)
        view = self._reader.view(source, resource.document, principal)
        rows: Rows = ()
        with suppress(QueryTimeoutError, DatabaseBusyError):
            rows = (await view.sample(self._settings.default_sample_size, CountAsked("none"))).rows
        await self._gate.note("read", principal, resource=resource, rows=len(rows))
        return self._respond(resource, view, Sample(rows, UNCOUNTED))

    async def cancel(self, resource: Resource, *, principal: Principal | None) -> bool:
        """End the query of a pending resource, in whichever process it runs; False when it was over already.

        Nobody's rights are checked (see `DualResponseServer.open_resource`); `principal` is for the audit.
        """
        await self._gate.note("cancel", principal, resource=resource)
        return await self._jobs.cancel(resource)

    def _work(self, source: Source, document: bytes, creation: Creation) -> Work:
        """What a query that may outlast its caller does, with places and time of its own."""
        view = self._reader.view(source.in_background(), document, creation.principal)
        self._rehearsals.require(view)
        patient = replace(view, settings=replace(view.settings, query_timeout=self._settings.pending_timeout))
        latest = self._settings.pending_timeout + creation.lifetime
        pending = self._resource(view, document, creation, UNCOUNTED)
        pending = replace(pending, status="pending", expires_at=self._expiry(pending, latest))

        async def run() -> Answered:
            with blaming(creation.asked):
                sample = await take_sample(patient, creation.sample_size, creation.count, creation.sample)
                profile = await _profile(patient, creation)
            lasted = datetime.now(UTC) - pending.created_at
            ready = replace(
                pending,
                status="ready",
                total_count=sample.total.rows,
                total_count_kind=sample.total.kind,
                expires_at=self._expiry(pending, lasted + creation.lifetime),
            )
            return self._answered(ready, view, sample, profile)

        response = self._respond(pending, view, Sample((), UNCOUNTED))
        return Work(resource=pending, response=response, principal=creation.principal, run=run)

    def _expiry(self, resource: Resource, lifetime: timedelta) -> datetime:
        return resource.created_at + min(lifetime, self._settings.maximum_lifetime)

    def _resource(self, view: View, document: bytes, creation: Creation, total: Total) -> Resource:
        return new_resource(
            name=creation.name,
            source=view.source.name,
            document=document,
            columns=json.describe(view.columns),
            total_count=total.rows,
            total_count_kind=total.kind,
            lifetime=creation.lifetime,
            principal=creation.principal,
            metadata=creation.metadata,
        )

    def _answered(self, resource: Resource, view: View, sample: Sample, profile: Found | None) -> Answered:
        response = self._respond(resource, view, sample, profile)
        kept = response.sample if self._settings.keep_sample else None
        return Answered(replace(resource, sample=kept), response)

    def _respond(
        self, resource: Resource, view: View, sample: Sample, profile: Found | None = None
    ) -> DualResponse:
        return respond(resource, view, sample, profile, addresses=self._addresses, settings=self._settings)


def _frozen(source: Source, select: Statement, creation: Creation) -> bytes:
    """The document; a result that a caller refined until it can no longer be stored is the caller's mistake."""
    try:
        return source.freeze(select)
    except NotFreezableError as error:
        if creation.parent is None:
            raise
        raise LimitExceededError(
            "What that makes of the result is too large to keep.",
            hint="Ask less of it, refine an earlier result, or run the query anew.",
        ) from error


@contextmanager
def _refusals() -> Iterator[None]:
    """Refuse a statement that anything but an error of ours was raised for: whoever asks hears no other."""
    try:
        yield
    except DualResponseError:
        raise
    except Exception as error:
        log_unforeseen(_log, error, "A statement could not be served.")
        raise NotFreezableError(
            f"The statement cannot be served: it, or a rule or a hook of the server, raised {type(error).__name__}.",
            hint="The server's log has the cause. If it is the statement, write it in a simpler way.",
        ) from error


async def _profile(view: View, creation: Creation) -> Found | None:
    if creation.profile is None:
        return None
    return await fetch_profile(view, ProfileAsked(creation.profile))
