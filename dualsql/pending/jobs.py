"""Queries that may run longer than their caller waits.

A job has no row in the store while its caller waits. If the wait ends first, the job stores a pending resource, which
every process sees, and settles it when the query ends. While the query runs, the server renews a lease
(`Settings.pending_lease`); if the server ends, the lease expires and the others report the query as failed. A caller
with an equal request joins the job that runs, or gets its result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from dualsql.databases.failures import ran_too_long
from dualsql.databases.slots import Shares
from dualsql.errors import (
    BadParameterError,
    DualResponseError,
    LimitExceededError,
    QueryCancelledError,
    QueryInterruptedError,
    StorageError,
)
from dualsql.events import EVENTS, CreationEnded, GaugeReading
from dualsql.extension import Extension
from dualsql.log import Outage, log_failure, log_unforeseen
from dualsql.pending.progress import RunRecords, report_to_caller
from dualsql.resource import KeptRows, Principal, Resource, problem_of
from dualsql.response import DualResponse
from dualsql.results.access import AccessControl
from dualsql.results.create import FinishedQuery
from dualsql.results.kept_rows import RunProgress
from dualsql.settings import Settings
from dualsql.store.housekeeping import every
from dualsql.store.protocol import ResourceStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SETTLE_ATTEMPTS = 5
RETRY_PENDING = 10
"""Seconds after which a slow query that was refused may be asked for again."""

NOTE_INTERVAL = timedelta(seconds=1)
"""How often the number of rows that were read is written to the store, and leases are renewed where they must be."""

StopAction = Literal["settle", "delete", "nothing"]
"""What is done with the stored row of a job that was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWork:
    """The work of a job.

    Attributes:
        resource: the pending resource.
        response: the response while it is pending.
        run: runs the query, and counts the rows that are going to be kept.
        discard: deletes what the query left besides its resource; called if the resource is not stored.
    """

    resource: Resource
    response: DualResponse
    principal: Principal | None
    run: Callable[[RunProgress], Awaitable[FinishedQuery]]
    discard: Callable[[FinishedQuery], Awaitable[None]]


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """A query and the number of callers that wait for it.

    Attributes:
        is_kept: it has a row in the store.
        is_announced: a caller has its id and may come back for it.
        is_over: the query has ended, or was stopped.
        until: the end of its lease, once it has a row.
        noted: what its row says of the rows that were read.
    """

    key: Hashable
    work: QueryWork
    waiting: int = 0
    is_kept: bool = False
    is_announced: bool = False
    is_over: bool = False
    on_stop: StopAction = "settle"
    progress: RunProgress = field(default_factory=RunProgress)
    until: datetime | None = None
    noted: KeptRows | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[FinishedQuery | DualResponseError] = field(init=False)

    @property
    def id(self) -> str:
        """The resource's."""
        return self.work.resource.id

    def stop(self, on_stop: StopAction) -> None:
        """Stop the query, also in the database; without effect once it is over."""
        if not self.is_over:
            self.is_over, self.on_stop = True, on_stop
            self.task.cancel()


class Jobs(Extension):
    """The jobs of one server."""

    def __init__(
        self, access: AccessControl, store: ResourceStore, settings: Settings, records: RunRecords
    ) -> None:
        self._records = records
        self._access = access
        self._store = store
        self._settings = settings
        self._shares = Shares(settings.maximum_pending)
        self._running: set[Job] = set()
        # Running jobs and finished ones whose result no caller has fetched, the oldest first.
        self._jobs: dict[Hashable, Job] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def start(self) -> None:
        """Begin to renew leases, in the running event loop."""
        if self._renewing is None or self._renewing.done():
            interval = min(NOTE_INTERVAL, self._settings.pending_lease / 3)
            renewing = every(interval, self._renew_leases, Outage("Renewing the leases of pending queries"))
            self._renewing = asyncio.create_task(renewing, context=Context())

    def renew(self) -> None:
        """Forget the event loop of the last run and its jobs."""
        self._shares = Shares(self._settings.maximum_pending)
        self._running.clear()
        self._jobs.clear()
        self._renewing, self._closing = None, asyncio.Event()

    def readings(self) -> Iterator[GaugeReading]:
        """How many run."""
        yield GaugeReading("pending", len(self._running))

    async def drain(self, timeout: timedelta) -> int:
        """Let running jobs end within `timeout`. Returns how many still run."""
        tasks = [job.task for job in self._running]
        if not tasks:
            return 0
        return len((await asyncio.wait(tasks, timeout=timeout.total_seconds()))[1])

    async def close(self) -> None:
        """Stop all jobs; their resources have failed."""
        self._closing.set()
        if self._renewing is not None:
            self._renewing.cancel()
        tasks = [job.task for job in self._running]
        for job in self._running:
            job.stop("settle")
        if tasks:
            await asyncio.wait(tasks)  # unlike gather, it leaves them alone when we are cancelled

    def forget(self, resource_id: str) -> None:
        """Stop the query of a resource that was deleted."""
        for job in {*self._running, *self._jobs.values()}:
            if job.id == resource_id:
                self._stop(job, "nothing")

    async def cancel(self, resource: Resource) -> bool:
        """Mark a pending resource as failed and stop its query, whichever process runs it. False if it had ended."""
        error = QueryCancelledError("The query was cancelled.")
        is_cancelled = await self._store.settle(_fail(resource, error, self._access.clock.now()))
        self.forget(resource.id)  # another process sees it at its next renewal
        return is_cancelled

    def response_of(self, resource_id: str, principal: Principal | None) -> DualResponse | None:
        """The response of a query that ended here for `principal`, if no caller has fetched it yet."""
        for job in self._jobs.values():
            is_theirs = job.id == resource_id and job.work.principal == principal
            if is_theirs and job.task.done() and not job.task.cancelled():
                answered = job.task.result()
                return answered.response if isinstance(answered, FinishedQuery) else None
        return None

    async def answer(self, key: Hashable, work: Callable[[], QueryWork], wait: timedelta) -> DualResponse:
        """The response of the work, or a pending response if it takes longer than `wait`.

        Args:
            key: equal for equal requests, which share one job.
            work: called only if there is no such job yet.

        Raises:
            TooManyQueriesError: `Settings.maximum_pending` run already.
            DualResponseError: the query failed, or its resource could not be stored.
        """
        job = await self._job_of(key) or self._begin(key, work())
        report_to_caller(job.progress)
        job.waiting += 1
        try:
            return await self._answer(job, wait)
        finally:
            job.waiting -= 1
            if not job.waiting and not job.is_announced:  # its last caller was cancelled
                self._stop(job, "delete")

    def _stop(self, job: Job, on_stop: StopAction) -> None:
        self._release(job)  # an equal request from now on starts a new job
        job.stop(on_stop)

    async def _job_of(self, key: Hashable) -> Job | None:
        job = self._jobs.get(key)
        if job is None or not job.task.done():
            return job
        # A result is shared only until its resource expires.
        resource = await self._store.get(job.id)
        if resource is not None and not resource.is_expired(self._access.clock.now()):
            return job
        self._release(job)
        return None

    def _begin(self, key: Hashable, work: QueryWork) -> Job:
        shares = self._shares
        caller = shares.require_room("slow queries", RETRY_PENDING)
        job = Job(key=key, work=work)
        job.task = asyncio.create_task(self._run(job))
        self._running.add(job)
        self._jobs[key] = job
        job.task.add_done_callback(lambda _: self._end(job))
        job.task.add_done_callback(lambda _: shares.give_back(caller))
        return job

    def _end(self, job: Job) -> None:
        self._running.discard(job)
        if not job.is_announced:
            self._release(job)
        unclaimed = [job for job in self._jobs.values() if job.task.done()]
        for oldest in unclaimed[: -self._settings.maximum_pending]:
            self._release(oldest)

    def _release(self, job: Job) -> None:
        if self._jobs.get(job.key) is job:
            del self._jobs[job.key]

    async def _answer(self, job: Job, wait: timedelta) -> DualResponse:
        await asyncio.wait({job.task}, timeout=wait.total_seconds())
        if not job.task.done():
            await asyncio.shield(self._keep_pending(job))
            if job.is_kept:
                job.is_announced = True
                return job.work.response
            await asyncio.wait({job.task})
        return await self._claim(job)

    async def _keep_pending(self, job: Job) -> None:
        async with job.lock:
            if not job.is_over and not job.is_kept:
                job.until = self._records.new_lease()
                resource = replace(job.work.resource, pending_until=job.until)
                await self._access.keep(resource, job.work.principal, rows=0)
                job.is_kept = True

    async def _claim(self, job: Job) -> DualResponse:
        self._release(job)
        answered = job.task.result()
        if isinstance(answered, DualResponseError):
            raise answered
        if job.is_kept:
            shown = len(answered.response.sample)
            await self._access.note("read", job.work.principal, resource=answered.resource, rows=shown)
        return answered.response

    async def _run(self, job: Job) -> FinishedQuery | DualResponseError:
        # It is cancelled by `stop`, which says what happens to the row.
        answer = await outcome(job.work.run(job.progress), self._settings.pending_timeout)
        job.is_over = True
        async with job.lock:
            stored: FinishedQuery | DualResponseError
            try:
                stored = await (
                    self._settle_job(job, answer) if job.is_kept else self._store_answer(job, answer)
                )
            except DualResponseError as error:
                stored = error
        if isinstance(answer, FinishedQuery) and (stored is not answer or job.on_stop != "settle"):
            await job.work.discard(answer)
        EVENTS.report(CreationEnded(stored.cause if isinstance(stored, DualResponseError) else "none"))
        return stored

    async def _store_answer(
        self, job: Job, answer: FinishedQuery | DualResponseError
    ) -> FinishedQuery | DualResponseError:
        if isinstance(answer, FinishedQuery):
            await self._access.keep(answer.resource, job.work.principal, rows=len(answer.response.sample))
        return answer

    async def _settle_job(
        self, job: Job, answer: FinishedQuery | DualResponseError
    ) -> FinishedQuery | DualResponseError:
        if job.on_stop == "delete":
            await self._store.delete(job.id)
        if job.on_stop != "settle":
            return answer
        try:
            now = self._access.clock.now()
            ended = (
                answer.resource
                if isinstance(answer, FinishedQuery)
                else _fail(job.work.resource, answer, now)
            )
            is_ours = await self._settle(ended)
        except (BadParameterError, LimitExceededError) as error:  # of its sample
            answer = error
            is_ours = await self._settle(_fail(job.work.resource, error, self._access.clock.now()))
        return (
            answer if is_ours else QueryInterruptedError("The server that ran the query stopped responding.")
        )

    async def _settle(self, resource: Resource) -> bool:
        """Store the outcome, with retries: a query of minutes should not be lost to a short outage of the store."""
        pause = self._settings.pending_lease.total_seconds() / 3
        for left in reversed(range(_SETTLE_ATTEMPTS)):
            try:
                return await self._store.settle(resource)
            except StorageError as error:
                log_failure(logger, error, "storing what came of a query", level=logging.WARNING)
                if not left or self._closing.is_set():
                    raise
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._closing.wait()
        return False

    async def _renew_leases(self) -> None:
        """Renew the leases of which a third is over, and write how many rows were read."""
        jobs = [job for job in self._running if job.is_kept]
        due = {job.id: job for job in jobs if job.until is not None and self._records.must_renew(job.until)}
        if due:
            until = self._records.new_lease()
            alive = set(await self._store.prolong(due.keys(), until=until))
            for resource_id, job in due.items():
                job.until = until
                if resource_id not in alive:
                    self._stop(job, "nothing")  # deleted, or given up, by another process
        for job in jobs:
            noted = self._records.running(None, job.progress.rows)
            before = 0 if job.noted is None else job.noted["running"]["rows"]
            is_new = not job.is_over and job.progress.rows != before
            if is_new and await self._records.change(job.id, job.noted, noted):
                job.noted = noted


async def outcome(work: Awaitable[T], limit: timedelta) -> T | DualResponseError:
    """The result of the work, or its error, which is returned: there may be no caller to raise it to."""
    try:
        async with asyncio.timeout(limit.total_seconds()):
            return await work
    except DualResponseError as error:
        return error
    except TimeoutError:
        return ran_too_long(limit)
    except asyncio.CancelledError:
        return QueryInterruptedError("The query was stopped before the database answered.")
    except Exception as error:  # noqa: BLE001
        log_unforeseen(logger, error, "A query in the background failed.")
        return DualResponseError("The query failed.", hint="The server's log has the cause.")


def _fail(resource: Resource, error: DualResponseError, now: datetime) -> Resource:
    expires_at = now + resource.lifetime
    return replace(resource, status="failed", failure=problem_of(error), expires_at=expires_at)
