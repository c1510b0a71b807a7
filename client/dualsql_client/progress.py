"""The progress of a fetch, shown as a bar or passed to a function."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from dualsql_client.errors import import_extra
from dualsql_client.preview import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a fetch.

    Attributes:
        rows: fetched so far; 0 for Parquet and Excel, whose rows are not counted.
        total: the exact number of rows; None when it is unknown, or more rows came.
        bytes: received so far, after decompression; 0 from a server that has only pages.
        seconds: since the fetch began.
    """

    rows: int
    total: int | None
    bytes: int
    seconds: float


ProgressCallback = Callable[[Progress], Awaitable[object] | object]
"""Called with a Progress as rows arrive; may be a coroutine function."""


class Meter:
    """Reports progress while the context manager is entered.

    Args:
        progress: True for a bar on stderr, if that is a terminal; or a function.
        batch_size: the functions are called after so many rows each, and at the end; None for every piece.

    Raises:
        TypeError: `progress` is neither.
        MissingExtraError: rich is not installed, which draws the bar.
    """

    def __init__(
        self,
        name: str,
        *,
        progress: bool | ProgressCallback | None,
        batch_size: int | None = None,
    ) -> None:
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise TypeError("progress must be True, False or a function that takes a Progress.")
        self._batch_size = batch_size
        self._reported = 0
        self._last: tuple[int, int | None, int] | None = None
        self._bar = Bar(name) if progress is True else None
        self._callback = progress if callable(progress) else None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    async def report(self, rows: int, total: int | None, size: int) -> None:
        """Report the rows and bytes so far."""
        self._last = rows, total, size
        if self._bar:
            self._bar.show(self._progress(rows, total, size))
        if self._batch_size is None:
            await self._report(rows, total, size)
            return
        while self._reported + self._batch_size <= rows:
            await self._report(self._reported + self._batch_size, total, size)

    async def finish(self) -> None:
        """Report the last, smaller batch; also before the error of a broken stream."""
        if self._last is not None and self._last[0] > self._reported:
            await self._report(*self._last)

    async def _report(self, rows: int, total: int | None, size: int) -> None:
        self._reported = rows
        if self._callback:
            result = self._callback(self._progress(rows, total, size))
            if inspect.isawaitable(result):
                await result

    def _progress(self, rows: int, total: int | None, size: int) -> Progress:
        expected = None if total is None or rows > total else total
        return Progress(rows=rows, total=expected, bytes=size, seconds=time.monotonic() - self._started)


class Bar:
    """A line in the terminal: rows, bytes, rows a second, time left.

    Args:
        console: a rich.console.Console; None for stderr's.
    """

    def __init__(self, name: str, console: Any = None) -> None:
        rich, columns = import_extra("rich.console", "progress"), import_extra("rich.progress", "progress")
        console = console or rich.Console(stderr=True)
        self._progress = columns.Progress(
            # The name is untrusted: its brackets are no markup.
            columns.TextColumn("{task.description}", markup=False),
            columns.BarColumn(),
            columns.TextColumn("{task.fields[numbers]}", markup=False),
            columns.TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(printable(name, 40), total=None, numbers="")

    def start(self) -> None:
        """Start drawing."""
        self._progress.start()

    def stop(self) -> None:
        """Draw it once more and stop."""
        if not self._progress.disable:  # before rich 15, it would end a line that it did not begin
            self._progress.stop()

    def show(self, progress: Progress) -> None:
        """Draw the progress."""
        # Without rows, as for Parquet and Excel, there is no share to draw: the bar moves to and fro.
        total = progress.total if progress.rows or not progress.bytes else None
        self._progress.update(
            self._task, completed=progress.rows, total=total, numbers=progress_text(progress)
        )


def progress_text(progress: Progress) -> str:
    """Such as `1,200/5,000 rows (24%)  3.1 MB  48,000 rows/s`; of Parquet `3.1 MB  2.0 MB/s`."""
    if progress.bytes and not progress.rows:
        megabytes = progress.bytes / 1e6
        return f"{megabytes:,.1f} MB  {megabytes / progress.seconds if progress.seconds else 0.0:,.1f} MB/s"
    rows = f"{progress.rows:,} rows"
    if progress.total is not None:
        share = progress.rows / progress.total if progress.total else 1.0
        rows = f"{progress.rows:,}/{progress.total:,} rows ({int(100 * share)}%)"
    rate = progress.rows / progress.seconds if progress.seconds else 0.0
    return f"{rows}  {progress.bytes / 1e6:,.1f} MB  {rate:,.0f} rows/s"
