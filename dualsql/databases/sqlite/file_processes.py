"""Chooses what the reader processes of a SQLite file read: long streams, and pages while there are many of them."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import timedelta

from dualsql.databases.driver import DriverStatement
from dualsql.databases.sqlite.page_process import PageProcess
from dualsql.databases.sqlite.process_stream import by_reader_process, terms_of_batches, terms_of_lines
from dualsql.databases.sqlite.processes import ReaderProcesses
from dualsql.databases.streams import StreamBackend, StreamJob
from dualsql.formats.writer import BatchWriter

_MOST_FAILED_STARTS = 3
_MOST_SLOW = 1_000


class FileProcesses:
    """The reader processes of one file, started when they are needed. What they do not read, the caller reads."""

    def __init__(self, path: str, page_bytes: int) -> None:
        self._path, self._page_bytes = path, page_bytes
        self.idle = ReaderProcesses()
        self.of_pages: PageProcess | None = None
        # Windows has no event loop that waits for pipes of another process.
        self._may_start = sys.platform != "win32"
        self._failed_starts = 0
        self._slow: set[tuple[str, str]] = set()

    def page_process(self, statement: DriverStatement, limit: timedelta) -> PageProcess | None:
        """The process that may read a statement; None if none reads it now."""
        process = self.of_pages
        if process is None or limit < process.limit or not process.takes(statement.sql):
            return None
        return process if process.is_worth_asking() else None

    def start_for_pages(self) -> None:
        """Start a process, as there are many pages. Until it answers, pages are read without it."""
        former = self.of_pages
        if not self._may_start or (former is not None and former.is_open):
            return
        self._failed_starts += former is not None and not former.was_ready
        self._may_start = self._failed_starts < _MOST_FAILED_STARTS
        # Without a process where there are too many, or too many open files.
        with suppress(OSError):
            if self._may_start:
                self.of_pages = PageProcess(self.idle.take(), self._path, self._page_bytes)

    def stream(
        self, job: StreamJob, statement: DriverStatement, seconds: float, thread: StreamBackend
    ) -> StreamBackend:
        """A backend for a writer of Arrow batches, or of lines, which a process makes; `thread`, if it cannot."""
        terms = (
            terms_of_batches(job) if isinstance(job.writer, BatchWriter) else terms_of_lines(job, statement)
        )
        if terms is None or (terms.get("lines"), statement.sql) in self._slow:
            return thread
        if len(self._slow) >= _MOST_SLOW:
            self._slow.clear()
        terms = {**terms, "path": self._path, "seconds": seconds}
        return by_reader_process(self.idle, terms, statement, thread, self._slow)

    def close(self) -> None:
        """End the processes."""
        self._may_start = False
        self.idle.close()
        if self.of_pages is not None:
            self.of_pages.close()
