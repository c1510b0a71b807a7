"""Runs the statements of new results and keeps their rows: all of them if requested, else those of slow queries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple

from dualsql import plan
from dualsql.databases.failures import ran_too_long, too_large
from dualsql.databases.fetch import Sample
from dualsql.databases.source import Sources
from dualsql.errors import DualResponseError, LimitExceededError, QueryTimeoutError
from dualsql.formats.writer import Chunk, Rows
from dualsql.kept.cells import KeptWriter
from dualsql.kept.service import UNREADABLE, ResultKeeper, UnusableError
from dualsql.kept.settings import KeptSettings
from dualsql.kept.views import KeptViews
from dualsql.kept.writing import UNWRITABLE, KeptRun, RunFile, keep, open_file
from dualsql.log import log_failure
from dualsql.pending.progress import in_background, report_to_caller
from dualsql.resource import UNCOUNTED, CountMethod, KeptRows, Principal, Resource, Total
from dualsql.results.create import MAXIMUM_SAMPLE_SIZE, NOT_COUNTED, Creation, Creator
from dualsql.results.kept_rows import (
    OF_VALUES,
    ROWS_OF_NOW,
    KeptAnswer,
    RunProgress,
    RunResult,
    is_of_kept_rows,
)
from dualsql.results.view import NOT_KEPT_ROWS, View, Views
from dualsql.settings import KeepOption

_log = logging.getLogger(__name__)

_UNANSWERABLE = "The kept rows cannot be asked in this way."
_UNFINISHED = "The rows could not all be read."
_FAILURES = frozenset({UNWRITABLE, UNREADABLE})
"""Reasons of which the operator's log has the cause."""


class _RunRequest(NamedTuple):
    """A statement to run for a new resource; see `Runner.run`."""

    view: View
    resource: Resource
    creation: Creation
    progress: RunProgress


class KeptRunner:
    """Runs the statements of one server's new results; a `Runner`."""

    def __init__(
        self,
        keeper: ResultKeeper,
        kept_views: KeptViews,
        views: Views,
        sources: Sources,
        creator: Creator,
        *,
        kept_settings: KeptSettings,
    ) -> None:
        self._keeper = keeper
        self._kept_views = kept_views
        self._views = views
        self._sources = sources
        self._creator = creator
        self._kept_settings = kept_settings

    async def run(
        self, view: View, resource: Resource, creation: Creation, progress: RunProgress | None
    ) -> RunResult:
        run = await self._run(_RunRequest(view, resource, creation, progress or RunProgress()))
        reason, answer = (run.kept or {}).get("reason"), creation.answer
        if reason is not None and (self._keep_option(creation) is True or reason in _FAILURES):
            run = run._replace(notes=[f"{reason} Each page has the rows that the database has at its time."])
        if answer is None or answer.view is None or "rows" in (run.kept or {}):
            return run
        is_unanswerable = run.kept == KeptRows(reason=_UNANSWERABLE)
        return run._replace(notes=[ROWS_OF_NOW if is_unanswerable else NOT_KEPT_ROWS])

    async def record(self, resource_id: str) -> KeptRows | None:
        return await self._keeper.of(resource_id)

    async def forget(self, resource_id: str, record: KeptRows | None) -> None:
        await self._keeper.delete_file(resource_id, record)

    async def run_again(
        self, resource: Resource, principal: Principal | None, progress: RunProgress
    ) -> KeptRows:
        """Run the statement of a stored resource once more, and keep its rows. The resource is not changed.

        Raises:
            LimitExceededError: they cannot be kept.
            DualResponseError: see `DualResponseServer.create_response`.
        """
        source = self._sources[resource.source].in_background()
        view = in_background(self._views.open(source, resource.document, principal))
        record = (await self._keep(view, resource, progress, must_succeed=True)).record
        if "rows" in record:
            try:
                await self._kept_views.usable_view(resource, record, view)
            except UnusableError as error:
                await self._keeper.delete_file(resource.id, record)
                record = KeptRows(reason=str(error))
        if "reason" in record:
            raise LimitExceededError(
                f"The rows cannot be kept: {record['reason']}", hint="The result stays as it was."
            )
        return record

    async def _run(self, request: _RunRequest) -> RunResult:
        view, resource, creation, progress = request
        keep = self._keep_option(creation)
        if keep is False:
            return RunResult(await self._creator.sampled(view, creation), view)
        if creation.answer is not None:
            return await self._run_over_kept_rows(request, creation.answer)
        file, ends = None, _end_of(view)
        if keep == "slow":
            run = await self._run_quickly(request)
            if isinstance(run, RunResult):
                return run
            file = run
        outcome = await self._keep(view, resource, progress, must_succeed=keep is True, file=file, ends=ends)
        return await self._read_sample(request, outcome, ends)

    def _keep_option(self, creation: Creation) -> KeepOption:
        keep = creation.options.keep
        return self._kept_settings.keep if keep is None else keep

    async def _run_over_kept_rows(self, request: _RunRequest, answer: KeptAnswer) -> RunResult:
        """Keep the answer to a question over kept rows. If that is not possible, its statement reads the database."""
        view = request.view
        outcome, ends = _RunOutcome(KeptRows(reason=_UNANSWERABLE)), _end_of(view)
        names = None if answer.view is None else [column.name for column in answer.view.columns]
        if names == [column.name for column in view.columns]:
            outcome = await self._keep(
                view, request.resource, request.progress, must_succeed=False, answer=answer, ends=ends
            )
        return await self._read_sample(request, outcome, ends)

    async def _run_quickly(self, request: _RunRequest) -> RunResult | RunFile | None:
        """Read the sample from the database.

        If that takes long and the rows can be kept, it is stopped, and the result is the file for them; None if
        there is no time for it at all.
        """
        view, wait = request.view, request.creation.options.wait
        at_most = (
            self._kept_settings.keep_after if wait is None else min(self._kept_settings.keep_after, wait)
        )
        if not at_most:
            return None
        running = asyncio.ensure_future(self._creator.sampled(view, request.creation))
        opening: asyncio.Future[RunFile] | None = None
        obstacle = None
        try:
            await asyncio.wait({running}, timeout=at_most.total_seconds())
            if not running.done():
                # Before the query is stopped: without a file, it runs on.
                opening = asyncio.ensure_future(self._open(view, request.resource))
                await asyncio.wait({running, opening}, return_when=asyncio.FIRST_COMPLETED)
                if not running.done():
                    try:
                        file, opening = opening.result(), None
                        return file
                    except UnusableError as error:
                        obstacle = KeptRows(reason=str(error))
            return RunResult(await running, view, obstacle)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if opening is not None:
                await asyncio.shield(_close_unneeded(opening))

    async def _open(self, view: View, resource: Resource) -> RunFile:
        """A file for the rows of a view; raises UnusableError, with the reason, if there is none."""
        obstacle = await self._kept_views.obstacle_to_keeping(view, self._kept_views.fingerprint(view))
        if obstacle is not None:
            raise UnusableError(obstacle)
        return await open_file(self._keeper, resource)

    async def _read_sample(self, request: _RunRequest, outcome: _RunOutcome, ends: float) -> RunResult:
        """Read the sample of a run: from its first rows, from the file, or from the database until `ends`."""
        record, rows = outcome
        live, resource, creation, progress = request
        if "rows" in record:
            try:
                return await self._sample_kept_rows(request, record, rows, ends)
            except BaseException as error:
                await asyncio.shield(self._keeper.delete_file(resource.id, record))
                if isinstance(error, UnusableError):
                    record = KeptRows(reason=str(error))
                elif rows is None or not is_of_kept_rows(error):
                    raise
                else:
                    record = KeptRows(reason=UNREADABLE)
        if rows is None:
            progress.rows = 0  # of the run that failed
            async with _until(ends, live):
                return RunResult(await self._creator.sampled(live, creation), live, record)
        sample = await self._creator.sampled(live, creation, partial(rows.sample, live, ends))
        return RunResult(sample, live, record)

    async def _sample_kept_rows(
        self, request: _RunRequest, record: KeptRows, rows: _RunRows | None, ends: float
    ) -> RunResult:
        """The sample of rows that are kept."""
        live, resource, creation, _ = request
        if rows is not None and rows.has_all_first and creation.sampler is None and creation.profiler is None:
            # The file is opened by its first reader.
            sample = await self._creator.sampled(live, creation, partial(rows.sample, live, ends))
            return RunResult(sample._replace(as_of=datetime.fromisoformat(record["as_of"])), live, record)
        view = await self._kept_views.usable_view(resource, record, live)
        sample = await self._creator.sampled(view, creation)
        total = Total(record["rows"], "exact")
        return RunResult(sample._replace(sample=sample.sample._replace(total=total)), view, record)

    async def _keep(
        self,
        view: View,
        resource: Resource,
        progress: RunProgress,
        *,
        must_succeed: bool,
        answer: KeptAnswer | None = None,
        file: RunFile | None = None,
        ends: float | None = None,
    ) -> _RunOutcome:
        """Run a statement once and keep its rows.

        Args:
            must_succeed: raise the error of a run that fails. Otherwise it is tried as one that is not kept.
            answer: where the rows are read; None for the database.
            file: for the rows, if it is open already.
            ends: when `query_timeout` is over, of which an earlier attempt may have had a part.
        """
        report_to_caller(progress)
        most_bytes = view.source.limits.page_bytes
        writer = KeptWriter(
            view.columns, view.dialect, most_first=MAXIMUM_SAMPLE_SIZE + 1, most_bytes=most_bytes
        )
        try:
            async with _until(_end_of(view) if ends is None else ends, view):
                file = file or await self._open(view, resource)
                record, is_complete = await keep(file, self._run_of(view, writer, progress, answer))
        except UnusableError as error:
            return _RunOutcome(KeptRows(reason=str(error)))
        except DualResponseError as error:
            reason = _UNFINISHED if file is None else file.reason or _UNFINISHED
            is_late = isinstance(error, QueryTimeoutError) and answer is None and not writer.first_rows
            if is_late or (must_succeed and reason == _UNFINISHED):
                raise
            log_failure(_log, error, "keeping the rows of a slow query", level=logging.WARNING)
            if answer is not None and isinstance(error, OF_VALUES):
                reason = _UNANSWERABLE
            record, is_complete = KeptRows(reason=reason), False
        finally:
            if file is not None:
                await file.close()
        # Those of an answer over kept rows are of another time than what is read from the database later.
        rows = _RunRows(writer.first_rows, writer.number, is_complete) if answer is None else None
        if rows is not None and not rows.first and not is_complete:
            rows = None
        return _RunOutcome(record, rows)

    def _run_of(
        self, view: View, writer: KeptWriter, progress: RunProgress, answer: KeptAnswer | None
    ) -> KeptRun:
        to_read = view if answer is None or answer.view is None else answer.view
        rows = plan.page(to_read.ordered(), offset=0, limit=None)
        return KeptRun(
            stream=lambda to: _count(to_read.stream(to, to_read.columns, rows), progress),
            writer=writer,
            fingerprint=self._kept_views.fingerprint(view) or "",
            as_of=None if answer is None else answer.as_of,
            goes_on=answer is None,
        )


class _RunRows(NamedTuple):
    """The rows of a run, as its database gave them.

    Attributes:
        first: as many as a sample may have.
        number: how many were read. is_complete: these were all.
    """

    first: Rows
    number: int
    is_complete: bool

    @property
    def has_all_first(self) -> bool:
        """Whether any sample of the first rows is among them, and its total is known."""
        return self.is_complete and len(self.first) == min(self.number, MAXIMUM_SAMPLE_SIZE + 1)

    async def sample(self, view: View, ends: float, size: int, count: CountMethod) -> Sample:
        """The first rows, and the total, which is counted until `ends`; as `View.sample`."""
        if len(self.first) < min(size, self.number):
            raise too_large()
        if self.is_complete:
            total = Total(self.number, "exact")
        elif count == NOT_COUNTED:
            total = UNCOUNTED
        else:
            total = Total(self.number, "capped")
            with suppress(QueryTimeoutError):
                async with _until(ends, view):
                    total = (await view.total(count)).at_least(self.number)
        return Sample(self.first[:size], total)


class _RunOutcome(NamedTuple):
    """The outcome of a run whose rows were to be kept.

    Attributes:
        record: where the rows are, or why they are not kept.
        rows: the first rows of the run; None if the sample has to be read elsewhere.
    """

    record: KeptRows
    rows: _RunRows | None = None


def _end_of(view: View) -> float:
    """When `query_timeout` is over, in the time of the event loop."""
    return asyncio.get_running_loop().time() + view.settings.query_timeout.total_seconds()


@asynccontextmanager
async def _until(ends: float, view: View) -> AsyncIterator[None]:
    """Stop what runs in the block when `query_timeout` of the whole creation is over."""
    try:
        async with asyncio.timeout_at(ends):
            yield
    except TimeoutError as error:
        raise ran_too_long(view.settings.query_timeout) from error


async def _close_unneeded(opening: asyncio.Future[RunFile]) -> None:
    """Close a file that is not needed."""
    opening.cancel()
    await asyncio.wait({opening})
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().close()


async def _count(chunks: AsyncGenerator[Chunk, None], progress: RunProgress) -> AsyncGenerator[Chunk, None]:
    """The chunks of a run that is kept; `progress` says how many rows they have so far."""
    async with aclosing(chunks):
        async for chunk in chunks:
            progress.rows += chunk.rows
            yield chunk
