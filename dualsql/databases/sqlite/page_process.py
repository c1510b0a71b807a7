"""Pages of a busy server by a reader process, which waits for no thread of the server."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from threading import Thread, get_ident
from typing import Any

import orjson
from sqlalchemy.dialects import sqlite

from dualsql.databases.driver import DriverStatement, require_described
from dualsql.databases.sqlite.processes import ReaderProcess, sendable, sendable_columns
from dualsql.databases.sqlite.reader_process import LENGTHS, MOST_FORMS
from dualsql.errors import QueryExecutionError
from dualsql.formats.cells import Processor, processed
from dualsql.formats.writer import PlainColumns, PlainPage, WrittenRows


@dataclass(slots=True, eq=False)
class _SentForm:
    """A statement and its columns, which the process is told once, and then their number.

    Attributes:
        is_described: the process has told the names of its columns, and they are the ones that are described.
    """

    number: int
    sql: str
    described: Sequence[str]
    processors: Sequence[tuple[int, Processor]]
    is_described: bool = False


class PageProcess:
    """A reader process that reads and writes pages for one event loop, in the order in which they are asked for.

    The work of SQLite, and making JSON of its cells, are half the time of a page. Another core does them here, while
    the event loop works for others. It is not replaced by itself once it has ended.

    Args:
        most_bytes: of a page that it writes.

    Attributes:
        limit: how long it works on a page at most: others wait meanwhile.
        declines_for: how long it is not asked for a statement that it has declined.
        is_open: whether it may answer yet. was_ready: it could read the file.
    """

    limit = timedelta(milliseconds=20)
    declines_for = timedelta(minutes=1)

    def __init__(self, process: ReaderProcess, path: str, most_bytes: int = sys.maxsize) -> None:
        self._process = process
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._terms = {
            "path": path,
            "seconds": self.limit.total_seconds(),
            "lock_seconds": 0,
            "largest_value": _LARGEST_IN_PAGE,
            "largest_page": min(_LARGEST_PAGE, most_bytes),
        }
        self._forms: dict[tuple[Any, ...], _SentForm] = {}
        self._numbers = count()
        self._waiting: deque[_Waiting] = deque()
        self._buffer, self._filled = bytearray(_READ_BYTES), 0
        self._declined: set[str] = set()
        self._pages = self._pages_without = self._alone = self._answered = 0
        self._is_watched = False
        self.is_open, self.was_ready = True, False
        self._requests, self._answers = process.pipes
        for pipe in process.pipes:
            os.set_blocking(pipe, False)
        self._loop.add_reader(self._answers, self._receive)
        # Answered once it has started and opened the file.
        statement = DriverStatement("SELECT 1", (), (), sqlite.dialect(), ("",))
        self._ask(statement, PlainPage(PlainColumns((), ()), 1, is_reversed=False))

    def takes(self, sql: str) -> bool:
        """Whether this statement can be asked for now, on the running event loop."""
        is_ready = self.was_ready and self.is_open and len(self._waiting) < _MOST_WAITING
        # get_running_loop() of Python 3.11 asks the system for the number of the process each time.
        is_here = self._thread == get_ident() and self._loop.is_running()
        return is_ready and is_here and sql not in self._declined

    def is_worth_asking(self) -> bool:
        """Count a page that is read next; whether the process should read it.

        Waking it takes longer than reading, if the event loop has nothing else to do meanwhile. It has, if other pages
        are read while one is waited for: when none was, some are tried.
        """
        self._pages += 1
        self._pages_without += 1
        return bool(self._waiting) or self._alone < _TRIES or self._pages_without >= _TRIED_EVERY

    async def fetch(self, statement: DriverStatement, page: PlainPage) -> WrittenRows | None:
        """The objects of all rows of a statement; None if it must be read in another way."""
        asked, pages_before = self._ask(statement, page), self._pages
        if asked is None:
            return None
        self._pages_without = 0
        if not self._is_watched:
            self._watch()
        form, answer_of = asked
        answer = await answer_of
        self._alone = 0 if self._pages > pages_before else self._alone + 1
        if answer is None:
            return None
        header, text = answer
        return WrittenRows(text, header["count"], processed(header["edges"], form.processors))

    def close(self) -> None:
        """End the process. Who waits for a page gets None."""
        if not self.is_open:
            return
        self.is_open = False
        if not self._loop.is_closed():
            self._loop.remove_reader(self._answers)
            while self._waiting:
                self._answer_first(None)
        # In a thread: a process that waits for a disk does not end at once, even when it is killed.
        Thread(target=self._process.close, name="dualsql-end-of-reader", daemon=True).start()

    def _watch(self) -> None:
        """End the process if it answers nothing for a time, as long as anybody waits: one timer, not one a page."""
        self._is_watched = True
        self._loop.call_later(_ANSWER_SECONDS, self._require_answer, self._answered)

    def _require_answer(self, answered: int) -> None:
        self._is_watched = False
        if self._waiting and self._answered == answered:
            self.close()
        elif self._waiting:
            self._watch()

    def _ask(self, statement: DriverStatement, page: PlainPage) -> _Waiting | None:
        """Send a request, and wait for its answer; None if it cannot be sent."""
        sql, definition = statement.sql, dict[str, Any]()
        # Without the dialect: each principal may have a copy of it, and all read cells alike.
        key = (sql, page.columns, tuple(statement.types), statement.described)
        form = self._forms.get(key)
        if form is None:
            processors = statement.processors()
            columns = sendable_columns(page.columns, processors, statement.dialect)
            if columns is None or len(sql) > _LARGEST_REQUEST:
                self._decline(sql)
                return None
            form = _SentForm(next(self._numbers), sql, statement.described, processors)
            definition = {**self._terms, "sql": sql, "columns": columns}
        values = sendable(statement.parameters)
        # orjson would write infinity as null.
        if values is None or not all(math.isfinite(value) for value in values if type(value) is float):
            return None
        own = {"form": form.number, "parameters": values, "size": page.size, "is_reversed": page.is_reversed}
        try:
            request = orjson.dumps(own | definition if definition else own) + b"\n"
            if len(request) > _LARGEST_REQUEST:
                return None
            size = os.write(self._requests, request) if self.is_open else 0
        # A number beyond 64 bits, half a surrogate pair; the pipe is full, or closed at its other end.
        except (TypeError, OSError):
            return None
        if size < len(request):
            self.close()
            return None
        if definition:
            if len(self._forms) == MOST_FORMS:
                self._forms.clear()
            self._forms[key] = form
        waiting = form, self._loop.create_future()
        self._waiting.append(waiting)
        return waiting

    def _decline(self, sql: str) -> None:
        if len(self._declined) >= _MOST_DECLINED:
            self._declined.clear()  # those that are still read are declined again
        self._declined.add(sql)
        # A view or a table that it reads may be changed.
        self._loop.call_later(self.declines_for.total_seconds(), self._declined.discard, sql)

    def _receive(self) -> None:
        """On the event loop: take what the process has written."""
        if self._filled == len(self._buffer):
            self._buffer += bytes(self._filled)  # for a long page
        # Into one buffer: bytes of that size would be memory of the kernel, new for each page.
        with memoryview(self._buffer) as buffer:
            try:
                size = os.readv(self._answers, [buffer[self._filled :]])
            except BlockingIOError:
                return
            if not size:
                self.close()
                return
            begin, end = 0, self._filled + size
            while end - begin >= LENGTHS.size:
                header_size, size = LENGTHS.unpack_from(buffer, begin)
                body = begin + LENGTHS.size + header_size
                if end - body < size:
                    break
                header = orjson.loads(buffer[begin + LENGTHS.size : body])
                if not self.was_ready and not size:
                    self.close()
                    return
                self.was_ready = True
                text, begin = bytes(buffer[body : body + size]), body + size
                self._answer_first((header, text) if self._may_be_used(header) else None)
            self._filled = end - begin
            if begin:
                buffer[: self._filled] = buffer[begin:end]
        if not self._filled:
            del self._buffer[_READ_BYTES:]

    def _may_be_used(self, header: dict[str, Any]) -> bool:
        """Whether an answer has the rows of the first who waits; what it will never have is not asked for again."""
        form = self._waiting[0][0]
        if header.get("names"):  # for the first page of a form, and when tables were changed
            form.is_described = False
            # The event loop reports it, unless its SQLite names them in another way.
            with suppress(QueryExecutionError):
                require_described(header["names"], form.described)
                form.is_described = True
        if "failed" in header or "too_large" in header:
            return False
        if "declined" in header or not form.is_described:
            self._decline(form.sql)
            return False
        return True

    def _answer_first(self, answer: tuple[dict[str, Any], bytes] | None) -> None:
        self._answered += 1
        _, future = self._waiting.popleft()
        if not future.done():
            future.set_result(answer)


_Waiting = tuple[_SentForm, asyncio.Future[tuple[dict[str, Any], bytes] | None]]

_ANSWER_SECONDS = 1.0
"""Seconds without an answer after which a process is given up; up to twice as many, if it has answered before."""

_LARGEST_IN_PAGE, _LARGEST_PAGE = 1024 * 1024, 16 * 1024 * 1024
"""Bytes of one value, and of the JSON of a page, with the cells that are not in it."""

_TRIES, _TRIED_EVERY = 4, 16
_MOST_WAITING = 16
_MOST_DECLINED = 1_000
_LARGEST_REQUEST = 16 * 1024
_READ_BYTES = 256 * 1024
