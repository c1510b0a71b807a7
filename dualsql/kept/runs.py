"""Runs the statements of new results and keeps their rows: all of them if asked, else those of slow queries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from time import monotonic

from dualsql import plan
from dualsql.databases import Source, chosen_source, ran_too_long
from dualsql.errors import DualResponseError, LimitExceededError
from dualsql.formats.writer import Chunk
from dualsql.kept.cells import KeptWriter
from dualsql.kept.service import KeptRun, ResultKeeper, UnusableError
from dualsql.kept.settings import KeptSettings
from dualsql.kept.views import KeptViews
from dualsql.log import log_failure
from dualsql.pending.progress import report_to_caller
from dualsql.resource import KeptRows, Principal, Resource, Total
from dualsql.results.create import RunProgress, RunRequest, RunResult, ShownSample
from dualsql.results.streams import OF_VALUES
from dualsql.results.view import NOT_KEPT_ROWS, ROWS_OF_NOW, KeptAnswer, View, Views

_log = logging.getLogger(__name__)

_UNANSWERABLE = "The kept rows cannot be asked in this way."


class KeptRunner:
    """Runs the statements of one server's new results; a `Runner`."""

    def __init__(
        self,
        keeper: ResultKeeper,
        kept_views: KeptViews,
        views: Views,
        sources: Mapping[str, Source],
        kept: KeptSettings,
    ) -> None:
        self._keeper = keeper
        self._kept_views = kept_views
        self._views = views
        self._sources = sources
        self._kept = kept

    async def run(self, request: RunRequest) -> RunResult:
        """See `Runner`."""
        run = await self._run(request)
        answer = request.answer
        if answer is None or answer.view is None or run.view.kept is not None:
            return run
        is_unanswerable = run.kept == KeptRows(reason=_UNANSWERABLE)
        return run._replace(notes=[ROWS_OF_NOW if is_unanswerable else NOT_KEPT_ROWS])

    async def record(self, resource_id: str) -> KeptRows | None:
        """See `Runner`."""
        return await self._keeper.of(resource_id)

    async def forget(self, resource_id: str, kept: KeptRows | None) -> None:
        """See `Runner`."""
        await self._keeper.forget(resource_id, kept)

    async def run_again(
        self, resource: Resource, principal: Principal | None, progress: RunProgress
    ) -> KeptRows:
        """Run the statement of a stored resource once more, and keep its rows. The resource is not changed.

        Raises:
            LimitExceededError: they cannot be kept.
            DualResponseError: see `DualResponseServer.create_response`.
        """
        source = chosen_source(self._sources, resource.source).in_background()
        view = self._views.open(source, resource.document, principal).in_background()
        kept, _ = await self._keep(view, resource, progress, must_succeed=True)
        if "reason" in kept:
            raise LimitExceededError(
                f"The rows cannot be kept: {kept['reason']}", hint="The result stays as it was."
            )
        return kept

    async def _run(self, request: RunRequest) -> RunResult:
        keep = self._kept.keep if request.options.keep is None else request.options.keep
        view, progress = request.view, request.progress
        if keep is False:
            return RunResult(await request.sample(view), view)
        report_to_caller(progress)
        if request.answer is not None:
            return await self._run_over_kept_rows(request, request.answer)
        if keep == "slow":
            run = await self._run_quickly(request)
            if run is not None:
                return run
        kept, source = await self._keep(view, request.resource, progress, must_succeed=keep is True)
        return await self._read_sample(request, source, kept)

    async def _run_over_kept_rows(self, request: RunRequest, answer: KeptAnswer) -> RunResult:
        """Keep the answer to a question over kept rows. If that is not possible, its statement reads the database."""
        view = request.view
        kept, source = KeptRows(reason=_UNANSWERABLE), view
        names = None if answer.view is None else [column.name for column in answer.view.columns]
        if names == [column.name for column in view.columns]:
            kept, source = await self._keep(
                view, request.resource, request.progress, must_succeed=False, answer=answer
            )
        return await self._read_sample(request, source, kept)

    async def _run_quickly(self, request: RunRequest) -> RunResult | None:
        """Read the sample from the database. None if that takes long and the rows can be kept: then it was stopped."""
        view, wait = request.view, request.options.wait
        at_most = self._kept.keep_after if wait is None else min(self._kept.keep_after, wait)
        if not at_most:
            return None
        running = asyncio.ensure_future(request.sample(view))
        try:
            await asyncio.wait({running}, timeout=at_most.total_seconds())
            obstacle = None
            if not running.done():
                obstacle = await self._kept_views.obstacle_to_keeping(
                    view, self._kept_views.fingerprint(view)
                )
            if not running.done() and obstacle is None:
                return None
            sample = await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return RunResult(sample, view, None if obstacle is None else KeptRows(reason=obstacle))

    async def _read_sample(self, request: RunRequest, view: View, kept: KeptRows) -> RunResult:
        """Read the sample of a run from `view`."""
        if "rows" not in kept:
            request.progress.rows = 0  # of the run that failed
        try:
            sample = await request.sample(view)
        except BaseException:
            await asyncio.shield(self._keeper.forget(request.resource.id, kept))
            raise
        return RunResult(_with_total_of(kept, sample), view, kept)

    async def _keep(
        self,
        view: View,
        resource: Resource,
        progress: RunProgress,
        *,
        must_succeed: bool,
        answer: KeptAnswer | None = None,
    ) -> tuple[KeptRows, View]:
        """Run a statement once and keep its rows.

        Returns where they are, or why they are not kept, and the view to read them from.

        Args:
            must_succeed: raise the error of a run that fails. Otherwise it is tried as one that is not kept.
            answer: where the rows are read; None for the database.
        """
        fingerprint = self._kept_views.fingerprint(view)
        obstacle = await self._kept_views.obstacle_to_keeping(view, fingerprint)
        if obstacle is not None or fingerprint is None:
            return KeptRows(reason=obstacle or ""), view
        ran = view if answer is None or answer.view is None else answer.view
        rows = plan.page(ran.ordered(), offset=0, limit=None)
        limit = view.settings.query_timeout
        most = None if must_succeed else limit.total_seconds()
        run = KeptRun(
            stream=lambda writer: _count(ran.stream(writer, ran.columns, rows), progress, most),
            writer=KeptWriter(view.columns, view.dialect),
            fingerprint=fingerprint,
            as_of=None if answer is None else answer.as_of,
        )
        try:
            async with asyncio.timeout(limit.total_seconds()):
                kept = await self._keeper.keep(resource, run)
        except (TimeoutError, DualResponseError) as error:
            failure = ran_too_long(limit) if isinstance(error, TimeoutError) else error
            if must_succeed:
                raise failure from error
            log_failure(_log, failure, "keeping the rows of a slow query", level=logging.WARNING)
            is_of_values = answer is not None and isinstance(error, OF_VALUES)
            return KeptRows(reason=_UNANSWERABLE if is_of_values else "The rows could not all be read."), view
        try:
            return kept, await self._kept_views.usable_view(resource, kept, view)
        except UnusableError as error:
            await self._keeper.forget(resource.id, kept)
            return KeptRows(reason=str(error)), view


def _with_total_of(kept: KeptRows, sample: ShownSample) -> ShownSample:
    if "rows" not in kept:
        return sample
    return sample._replace(sample=sample.sample._replace(total=Total(kept["rows"], "exact")))


async def _count(
    chunks: AsyncGenerator[Chunk, None], progress: RunProgress, limit: float | None
) -> AsyncGenerator[Chunk, None]:
    """The chunks of a run that is kept.

    Args:
        progress: counts the rows.
        limit: seconds for this run and, if it does not end in time, for reading its first rows again. None: for this
            run alone.

    Raises:
        UnusableError: there is no more time than that.
    """
    start, latest = monotonic(), None
    async with aclosing(chunks):
        async for chunk in chunks:
            seconds = monotonic() - start
            if latest is None and limit is not None:
                # A statement whose first rows take more than a third of the time could not be read again.
                latest = limit - 2 * seconds if 3 * seconds < limit else limit
            if latest is not None and seconds > latest:
                raise UnusableError("The rows could not all be read in time.")
            progress.rows += chunk.rows
            yield chunk
