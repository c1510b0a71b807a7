"""Pages of a busy server by a reader process, which waits for no thread of the server."""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import timedelta
from threading import Thread
from typing import Any

import orjson

from dualsql.databases.driver import DriverStatement, require_described
from dualsql.databases.sqlite.processes import ReaderProcess, columns_text, sendable
from dualsql.databases.sqlite.reader_process import LENGTHS
from dualsql.errors import QueryExecutionError
from dualsql.formats.cells import processed
from dualsql.formats.writer import PlainPage, WrittenRows


class PageProcess:
    """A reader process that reads and writes pages for one event loop, in the order in which they are asked for.

    The work of SQLite, and making JSON of its cells, are half the time of a page. Another core does them here, while
    the event loop works for others. It is not replaced by itself once it has ended.

    Attributes:
        limit: how long it works on a page at most: others wait meanwhile.
        is_open: whether it may answer yet. was_ready: it could read the file.
    """

    limit = timedelta(milliseconds=20)

    def __init__(self, process: ReaderProcess, path: str) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._terms = {
            "path": path,
            "seconds": self.limit.total_seconds(),
            "lock_seconds": 0,
            "largest_value": _LARGEST_IN_PAGE,
            "is_page": True,
        }
        self._waiting: deque[tuple[str, asyncio.Future[_Answer | None]]] = deque()
        self._unread = bytearray()
        self._declined: set[str] = set()
        self._pages = self._pages_without = self._alone = self._answered = 0
        self._is_watched = False
        self.is_open, self.was_ready = True, False
        self._requests, self._answers = process.pipes
        for pipe in process.pipes:
            os.set_blocking(pipe, False)
        self._loop.add_reader(self._answers, self._receive)
        # Answered once it has started and opened the file.
        self._ask("SELECT 1", (), {"columns": _NO_COLUMNS, "size": 1, "is_reversed": False})

    def takes(self, sql: str) -> bool:
        """Whether this statement can be asked for now, on the running event loop."""
        is_ready = self.was_ready and self.is_open and len(self._waiting) < _MOST_WAITING
        return is_ready and sql not in self._declined and asyncio.get_running_loop() is self._loop

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
        columns = columns_text(page.columns, tuple(statement.processors()), statement.dialect)
        if columns is None:
            self._decline(statement.sql)
            return None
        terms = {"columns": columns, "size": page.size, "is_reversed": page.is_reversed}
        answer_of, pages_before = self._ask(statement.sql, statement.parameters, terms), self._pages
        if answer_of is None:
            return None
        self._pages_without = 0
        if not self._is_watched:
            self._watch()
        answer = await answer_of
        self._alone = 0 if self._pages > pages_before else self._alone + 1
        if answer is None:
            return None
        header, text = answer
        try:
            require_described(header["names"], statement.described)
        except QueryExecutionError:  # the event loop reports it, unless its SQLite names them in another way
            self._decline(statement.sql)
            return None
        return WrittenRows(text, header["count"], processed(header["edges"], statement.processors()))

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

    def _ask(
        self, sql: str, parameters: Sequence[Any], terms: Mapping[str, Any]
    ) -> asyncio.Future[_Answer | None] | None:
        """Send a request for its answer; None if it cannot be sent."""
        request = self._request(sql, parameters, terms)
        if request is None:
            return None
        try:
            count = os.write(self._requests, request) if self.is_open else 0
        except OSError:  # the pipe is full, or closed at its other end
            return None
        if count < len(request):
            self.close()
            return None
        future = self._loop.create_future()
        self._waiting.append((sql, future))
        return future

    def _request(self, sql: str, parameters: Sequence[Any], terms: Mapping[str, Any]) -> bytes | None:
        values = sendable(parameters)
        # orjson would write infinity as null.
        if values is None or not all(math.isfinite(value) for value in values if type(value) is float):
            return None
        try:
            request = orjson.dumps({**self._terms, **terms, "sql": sql, "parameters": values}) + b"\n"
        except TypeError:  # a number beyond 64 bits, half a surrogate pair
            return None
        return request if len(request) <= _LARGEST_REQUEST else None

    def _decline(self, sql: str) -> None:
        if len(self._declined) >= _MOST_DECLINED:
            self._declined.clear()  # those that are still read are declined again
        self._declined.add(sql)

    def _receive(self) -> None:
        """On the event loop: take what the process has written."""
        try:
            data = os.read(self._answers, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._unread += data
        while len(self._unread) >= LENGTHS.size:
            header_size, size = LENGTHS.unpack_from(self._unread)
            body = LENGTHS.size + header_size
            if len(self._unread) < body + size:
                return
            header = orjson.loads(self._unread[LENGTHS.size : body])
            with memoryview(self._unread) as unread:
                text = bytes(unread[body : body + size])
            del self._unread[: body + size]
            if not self.was_ready and not text:
                self.close()
                return
            self.was_ready = True
            if "declined" in header:
                self._decline(self._waiting[0][0])
            self._answer_first((header, text) if text else None)

    def _answer_first(self, answer: _Answer | None) -> None:
        self._answered += 1
        _, future = self._waiting.popleft()
        if not future.done():
            future.set_result(answer)


_NO_COLUMNS = "[[], []]"
_Answer = tuple[dict[str, Any], bytes]

_ANSWER_SECONDS = 1.0
"""Seconds without an answer after which a process is given up; up to twice as many, if it has answered before."""

_LARGEST_IN_PAGE = 1024 * 1024
"""Bytes of one value."""

_TRIES, _TRIED_EVERY = 4, 16
_MOST_WAITING = 16
_MOST_DECLINED = 1_000
_LARGEST_REQUEST = 16 * 1024
_READ_BYTES = 256 * 1024
