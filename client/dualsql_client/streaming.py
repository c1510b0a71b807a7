"""All rows of a result, over as many connections as it takes; the rule: each row once, or an error that says so.

A connection that breaks is followed by another one, which begins after the last row that was handed on. The server
refuses that where it cannot find the place again; then the stream ends with StreamBrokenError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from dualsql_client.errors import FetchError, StreamBrokenError
from dualsql_client.formats import Format
from dualsql_client.framing import Block, Framer
from dualsql_client.retrying import Attempts
from dualsql_client.transport import Transport
from dualsql_client.wire import (
    NO_RESUME_HEADER,
    RESUME_HEADER,
    TOTAL_COUNT_HEADER,
    TOTAL_COUNT_KIND_HEADER,
    RowsRequest,
)

_WHY_NOT = {
    "NO_TOTAL_ORDER": "Give the query an ORDER BY that no two rows share, or sort= by such columns.",
    "FORMAT": "Take another format: ndjson, csv or arrow can be gone on with.",
}


@dataclass(slots=True, kw_only=True)
class RowStream:
    """One result on its way.

    Attributes:
        rows, bytes: handed on so far; bytes are counted after decompression.
        total: rows that the server counted; None while, or where, it did not.
    """

    transport: Transport
    uri: str
    format: Format
    request: RowsRequest
    rows: int = 0
    bytes: int = 0
    total: int | None = None
    _framer: Framer = field(init=False)
    _token: str | None = None
    _no_resume: str = ""
    _is_answered: bool = False

    def __post_init__(self) -> None:
        self._framer = self._new_framer()

    async def blocks(self) -> AsyncGenerator[Block, None]:
        """All rows, in blocks of whole ones; joined, their bytes are the stream without its last record.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        attempts = Attempts(self.transport.retry)
        while True:
            rows = self.rows
            try:
                async with aclosing(self._attempt()) as blocks:
                    async for block in blocks:
                        yield block
                return
            except FetchError as error:
                if self.rows > rows:
                    attempts.restart()
                await self._wait(error, attempts)

    async def _attempt(self) -> AsyncGenerator[Block, None]:
        framer = self._framer
        async with self.transport.stream(self.uri, self._body(), self.format.media_type) as (headers, pieces):
            self._read_headers(headers)
            async with aclosing(pieces):
                async for piece in pieces:
                    for block in framer.feed(piece):
                        yield self._counted(block)
        for block in framer.finish(self.rows):
            yield self._counted(block)

    def _body(self) -> RowsRequest:
        request = self.request | {"format": self.format.name}
        if self._token is None or not self.rows:
            return request
        request |= {"resume": self._token, "after": self.rows}
        digest = self._framer.last_digest()
        return request if digest is None else request | {"last": digest}

    def _read_headers(self, headers: Mapping[str, str]) -> None:
        self._is_answered = True
        self._token = headers.get(RESUME_HEADER, self._token)
        self._no_resume = headers.get(NO_RESUME_HEADER, "")
        if headers.get(TOTAL_COUNT_KIND_HEADER, "exact") == "exact":
            self._read_total(headers.get(TOTAL_COUNT_HEADER, ""))

    def _read_total(self, written: str) -> None:
        if written.isascii() and written.isdigit() and len(written) < 19:
            self.total = min(int(written), self.request.get("limit", int(written)))

    def _counted(self, block: Block) -> Block:
        self.rows += block.rows
        self.bytes += len(block.data)
        if self.bytes > self.transport.maximum_stream_bytes:
            raise FetchError(
                f"The stream is longer than {self.transport.maximum_stream_bytes:,} bytes.",
                status=200,
                hint="Ask for fewer rows or columns, or raise the client's maximum_stream_bytes.",
                details={"rows": self.rows},
            )
        return block

    async def _wait(self, error: FetchError, attempts: Attempts) -> None:
        """Until the next attempt, if there is to be one.

        Raises:
            FetchError: there is not.
        """
        # A body that broke off has no status. A signed link may be spent by a request that broke before its answer.
        broke_off = error.status is None and self._is_answered
        is_lost = self.transport.carries_link and not self._is_answered
        if is_lost or not (error.may_pass or broke_off):
            raise error
        if self.bytes and (self._token is None or not self.rows):
            raise self._broken(error, _WHY_NOT.get(self._no_resume, "Begin again.")) from error
        delay = attempts.delay(error.retry_after, most=self.transport.patience)
        if delay is None:
            if self.bytes:
                raise self._broken(error, "Try again later.") from error
            raise error
        await asyncio.sleep(delay)
        if self.rows:
            self._framer.forget()
        else:
            self._framer = self._new_framer()

    def _broken(self, error: FetchError, hint: str) -> StreamBrokenError:
        return StreamBrokenError(
            f"The stream broke after {self.rows:,} rows: {error.message}", rows=self.rows, hint=hint
        )

    def _new_framer(self) -> Framer:
        return self.format.framer(self.transport.maximum_bytes)
