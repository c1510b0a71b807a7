"""Refreshes: the statement of a result runs again, and its new rows replace the kept ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dualsql.databases.slots import Shares
from dualsql.errors import DualResponseError, QueryInterruptedError
from dualsql.extension import Extension
from dualsql.kept.service import ResultKeeper
from dualsql.log import Outage, log_failure
from dualsql.pending.jobs import NOTE_INTERVAL, RETRY_PENDING, outcome
from dualsql.pending.progress import RunRecords
from dualsql.resource import KeptRows, Principal, Resource, Total, problem_of
from dualsql.results.access import AccessControl
from dualsql.results.kept_rows import RunProgress, is_refreshed
from dualsql.settings import Settings
from dualsql.store.housekeeping import every

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, kw_only=True)
class _Refresh:
    """A run whose rows replace the kept ones of a resource.

    Attributes:
        noted: what the row of the resource says now.
        lock: held while the row is written.
    """

    resource: Resource
    row: KeptRows
    progress: RunProgress = field(default_factory=RunProgress)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[DualResponseError | None] = field(init=False)


class Refreshes(Extension):
    """The refreshes of one server. Readers get the old rows until the new ones are complete.

    While one runs, the row of the resource says so, with a lease. Other processes do not begin another one.

    Args:
        run: runs the statement of a resource, keeps its rows, and returns where they are.
        tell: is called when the rows of a resource were replaced.
    """

    def __init__(
        self,
        access: AccessControl,
        keeper: ResultKeeper,
        records: RunRecords,
        *,
        settings: Settings,
        run: Callable[[Resource, Principal | None, RunProgress], Awaitable[KeptRows]],
        tell: Callable[[str], None],
    ) -> None:
        self._access = access
        self._keeper = keeper
        self._records = records
        self._settings = settings
        self._rerun = run
        self._tell = tell
        self.renew()

    def renew(self) -> None:
        """Forget the event loop of the last run and its refreshes."""
        self._shares = Shares(self._settings.maximum_pending)
        self._running: dict[str, _Refresh] = {}
        self._noting: asyncio.Task[None] | None = None

    async def answer(self, resource: Resource, principal: Principal | None, wait: timedelta | None) -> None:
        """Begin a refresh, or join the one that runs, and wait for its end for at most `wait`.

        Returns at once if another process refreshes the resource.

        Raises:
            ResourcePendingError, ResourceFailedError: the result has no rows.
            TooManyQueriesError: `Settings.maximum_pending` run already.
            LimitExceededError: the rows cannot be kept.
            DualResponseError: the query failed.
        """
        refresh = self._running.get(resource.id) or await self._begin(resource, principal)
        if refresh is None:
            return
        await asyncio.wait({refresh.task}, timeout=None if wait is None else wait.total_seconds())
        if refresh.task.done() and (error := refresh.task.result()) is not None:
            raise error

    async def drain(self, timeout: timedelta) -> int:
        """Let running refreshes end within `timeout`. Returns how many still run."""
        tasks = [refresh.task for refresh in self._running.values()]
        return len((await asyncio.wait(tasks, timeout=timeout.total_seconds()))[1]) if tasks else 0

    async def close(self) -> None:
        """Stop all refreshes; the old rows stay."""
        if self._noting is not None:
            self._noting.cancel()
        tasks = [refresh.task for refresh in self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def forget(self, resource_id: str) -> None:
        """Stop the refresh of a resource that was deleted."""
        if resource_id in self._running:
            self._running[resource_id].task.cancel()

    async def _begin(self, resource: Resource, principal: Principal | None) -> _Refresh | None:
        resource.require_ready()
        if is_refreshed(resource, self._access.clock.now()):
            return None
        self._access.admit("create", principal)
        shares = self._shares
        caller = shares.require_room("slow queries", RETRY_PENDING)
        try:
            refresh = await self._begun(resource, principal)
        except BaseException:
            shares.give_back(caller)
            raise
        if refresh is None:
            shares.give_back(caller)
            return None
        refresh.task.add_done_callback(lambda _: shares.give_back(caller))
        return refresh

    async def _begun(self, resource: Resource, principal: Principal | None) -> _Refresh | None:
        await self._access.note("refresh", principal, resource=resource)
        row = self._records.running(resource.kept, 0)
        if not await self._records.change(resource.id, resource.kept, row):
            return None  # deleted, or begun by somebody else
        refresh = self._running[resource.id] = _Refresh(resource=resource, row=row)
        refresh.task = asyncio.create_task(self._run(refresh, principal))
        refresh.task.add_done_callback(lambda _: self._running.pop(resource.id, None))
        if self._noting is None or self._noting.done():
            noting = every(NOTE_INTERVAL, self._note_all, Outage("Noting the rows of refreshes"))
            self._noting = asyncio.create_task(noting, context=Context())
        return refresh

    async def _run(self, refresh: _Refresh, principal: Principal | None) -> DualResponseError | None:
        resource = refresh.resource
        run = self._rerun(resource, principal, refresh.progress)
        result = await outcome(run, self._settings.pending_timeout)
        async with refresh.lock:
            try:
                if not isinstance(result, DualResponseError):
                    return await self._replace(refresh, result)
                rest = KeptRows() if resource.kept is None else resource.kept.copy()
                failure = KeptRows(**{**rest, "failure": problem_of(result)})
                await self._records.change(resource.id, refresh.row, failure)
            except DualResponseError as error:
                log_failure(logger, error, "storing what came of a refresh", level=logging.WARNING)
                return error
        return result

    async def _replace(self, refresh: _Refresh, record: KeptRows) -> DualResponseError | None:
        """Let the row name the new file, and delete the old one; the other way round if the row has changed."""
        resource, is_ours = refresh.resource, False
        try:
            total = Total(record["rows"], "exact")
            is_ours = await self._records.change(resource.id, refresh.row, record, total)
        finally:
            await self._keeper.delete_file(resource.id, resource.kept if is_ours else record)
        if not is_ours:
            return QueryInterruptedError("The result was deleted, or is refreshed by another server.")
        self._tell(resource.id)
        return None

    async def _note_all(self) -> None:
        for refresh in list(self._running.values()):
            async with refresh.lock:
                if not refresh.task.done():
                    await self._note(refresh)

    async def _note(self, refresh: _Refresh) -> None:
        """Write how many rows were read, if that has changed, and renew the lease if a third of it is over."""
        running, rows = refresh.row["running"], refresh.progress.rows
        must_renew = self._records.must_renew(datetime.fromisoformat(running["until"]))
        if rows == running["rows"] and not must_renew:
            return
        row = self._records.running(refresh.resource.kept, rows)
        if await self._records.change(refresh.resource.id, refresh.row, row):
            refresh.row = row
        else:
            refresh.task.cancel()  # deleted, or given up, by another process
