"""All rows of a result: as a stream, a table or a file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from errno import EAGAIN, ENOENT, ENOTSUP
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from dualsql_client.budget import Budget
from dualsql_client.errors import FetchError, StreamBrokenError, needed
from dualsql_client.formats import BY_NAME, BY_SUFFIX, DATABASES, DownloadFormat, FileFormat
from dualsql_client.framing import Block, Framer
from dualsql_client.transport import Transport
from dualsql_client.wire import (
    NO_RESUME_HEADER,
    RESUME_HEADER,
    TOTAL_COUNT_HEADER,
    TOTAL_COUNT_KIND_HEADER,
    RowsBody,
)

if TYPE_CHECKING:
    import pyarrow as pa


async def read_table(blocks: AsyncIterable[Block]) -> pa.Table:
    """The messages of an Arrow stream as one table; their bytes are its memory.

    Raises:
        FetchError: they are none.
        MissingExtraError: pyarrow is not installed.
    """
    pyarrow = needed("pyarrow", "arrow")
    schema, batches = None, []
    async for schema, batch in read_batches(blocks):  # noqa: B007 - it is read below
        if batch is not None:
            batches.append(batch)
    if schema is None:
        raise FetchError("The stream has no schema.", status=200)
    return pyarrow.Table.from_batches(batches, schema)


async def read_batches(blocks: AsyncIterable[Block]) -> AsyncGenerator[tuple[Any, Any], None]:
    """The schema of an Arrow stream with None, then the schema with each batch that has rows.

    Raises:
        FetchError: they are no messages of an Arrow stream.
    """
    from pyarrow import ArrowException

    schema = batch = None
    async for block in blocks:
        try:
            if schema is None:
                schema = _schema(block)
            elif block.rows:
                batch = _batch(block, schema)
            else:
                continue
        except (ArrowException, OSError, ValueError) as error:
            raise FetchError("The stream is not an Arrow IPC stream.", status=200) from error
        yield schema, batch


def _schema(block: Block) -> Any:
    from pyarrow import ipc, py_buffer

    schema = ipc.read_schema(py_buffer(block.data))
    list(schema.names)  # a name that is no text is found now, and not by whoever asks for it
    return schema


def _batch(block: Block, schema: Any) -> Any:
    from pyarrow import ipc, py_buffer

    batch = ipc.read_record_batch(py_buffer(block.data), schema)
    # Arrow follows a batch's offsets wherever they lead; those of a stranger are looked at first.
    batch.validate(full=True)
    if batch.num_rows != block.rows:
        raise ValueError("another number of rows")
    return batch


_BUFFER_BYTES = 1024 * 1024


_SUFFIXES = [*BY_SUFFIX, *chain.from_iterable(DATABASES.values())]
_SPREADSHEETS = frozenset({".xls", ".xlsm", ".ods", ".numbers"})


def format_of(path: Path, name: FileFormat | None = None) -> DownloadFormat:
    """The format of that name, or that the suffix names.

    Raises:
        ValueError: there is none.
    """
    found = BY_SUFFIX.get(path.suffix.lower()) if name is None else BY_NAME.get(name)
    if found is None and name is None:
        excel = " A spreadsheet opens .xlsx." if path.suffix.lower() in _SPREADSHEETS else ""
        raise ValueError(f"The file's suffix must be one of {', '.join(_SUFFIXES)}.{excel}")
    if found is None:
        raise ValueError(f"A file can be of {', '.join([*BY_NAME, *DATABASES])}, not {name}.")
    return found


PartialFile = Literal["discard", "keep", "continue"]
"""What becomes of the rows that came when a download to a file stops: see `ParsedDualResponse.save`."""


async def write(blocks: AsyncGenerator[Block, None], path: Path, partial: Partial | None = None) -> None:
    """Write all blocks beside `path`, and give the file its name when it is whole and on the disk.

    Args:
        partial: keeps what came if the download stops; None deletes it.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.{token_hex(4)}.part") if partial is None else partial.data
    try:
        # Closed here: an interrupted program would close the generators below it in any order.
        async with aclosing(blocks):
            if not path.parent.is_dir():
                raise FileNotFoundError(ENOENT, "There is no such folder", str(path.parent))
            file = part.open("xb", buffering=_BUFFER_BYTES) if partial is None else await partial.opened()
            with file:
                async for block in blocks:
                    await asyncio.to_thread(file.write, block.data)
                    if partial is not None:
                        partial.note()
                await asyncio.to_thread(_settle, file)
                # On the disk by now: after a power cut, the name must not lead to an empty file.
                part.replace(path)
        if partial is not None:
            partial.forget()
    except BaseException:
        if partial is not None:
            partial.tidy()
        raise
    finally:
        if partial is None:
            part.unlink(missing_ok=True)


KEEPS_PARTS = find_spec("fcntl") is not None
"""Whether this system has the locks of files that a kept part needs."""


class Partial:
    """The rows of a download that stopped, and how it goes on, also in another process.

    Args:
        path: of the file. Beside it are `.NAME.part` with the rows and `.NAME.part.json` with the rest.
        stream: the rows of a format that can be resumed.
        is_continued: go on with what is there.
    """

    def __init__(self, path: Path, stream: RowStream, *, is_continued: bool = False) -> None:
        self.data = path.with_name(f".{path.name}.part")
        self._note = note_of(path)
        self._stream = stream
        self._is_continued = is_continued
        self._noted: str | None = None
        self._is_ours = False

    async def opened(self) -> BinaryIO:
        """The file with the rows, at its end. No other process writes to it while it is open.

        Raises:
            OSError: it cannot be opened, or another process writes to it.
            ValueError: it has rows of another result, or was asked for in another way.
        """
        return await asyncio.to_thread(self._opened)

    def _opened(self) -> BinaryIO:
        file = os.fdopen(os.open(self.data, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666), "r+b", _BUFFER_BYTES)
        try:
            _lock(file, self.data)
            end = self._stream.restore(file, self._token()) if self._is_continued else 0
            file.seek(end)
            file.truncate()
            if not end:
                self.forget()
            self._is_ours = True
        except BaseException:
            file.close()
            raise
        return file

    def _token(self) -> str | None:
        try:
            noted = json.loads(self._note.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(noted, dict) or {**noted, "resume": None} != self._asked(None):
            raise ValueError(
                "What came is of another result or of other options. Begin anew: without --continue."
            )
        token = noted.get("resume")
        return token if isinstance(token, str) else None

    def _asked(self, token: str | None) -> dict[str, Any]:
        stream = self._stream
        return {
            "uri": stream.uri,
            "format": stream.format.name,
            "request": dict(stream.request),
            "resume": token,
        }

    def note(self) -> None:
        """Note how the download goes on, as soon as the server has said so."""
        token = self._stream.resume_token
        if token != self._noted:
            self._noted = token
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW
            with os.fdopen(os.open(self._note, flags, 0o666), "w") as file:
                file.write(json.dumps(self._asked(token)))

    def forget(self) -> None:
        """Delete the note: there is nothing to go on with."""
        self._note.unlink(missing_ok=True)

    def tidy(self) -> None:
        """After a download that stopped: delete what nothing could go on with."""
        if self._is_ours and not (self._stream.rows and self._stream.resume_token):
            self.data.unlink(missing_ok=True)
            self.forget()


def note_of(path: Path) -> Path:
    """Where it is noted how the download of this file goes on; there is no such file where it cannot."""
    return path.with_name(f".{path.name}.part.json")


_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def _lock(file: BinaryIO, path: Path) -> None:
    """Keep other processes from writing to the file until it is closed."""
    if not KEEPS_PARTS:
        raise OSError(ENOTSUP, "This system has no locks of files, which a kept part needs", str(path))
    fcntl: Any = import_module("fcntl")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(error.errno, "Another download writes to it", str(path)) from None
    # Whoever held the lock may have given the file its name.
    if not (path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())):
        raise OSError(EAGAIN, "Another download has just ended", str(path))


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


_RESUMED = " or ".join(
    ", ".join(name for name, found in BY_NAME.items() if found.is_resumable).rsplit(", ", 1)
)
_WHY_NOT = {
    "NO_TOTAL_ORDER": "Give the query an ORDER BY that no two rows share, or sort= by such columns.",
    "FORMAT": f"Use a format that can be resumed: {_RESUMED}.",
}


@dataclass(slots=True, kw_only=True)
class RowStream:
    """The stream of one result. A broken connection is replaced by another, which begins after the last row passed on.

    If the server cannot find that row again, the stream ends with StreamBrokenError.

    Attributes:
        is_iterated: the application takes the blocks one by one, and its time with each is left out of the limits.
        rows, bytes: handed on so far; bytes are counted after decompression.
        total: rows that the server counted; None while, or where, it did not.
    """

    transport: Transport
    uri: str
    format: DownloadFormat
    request: RowsBody
    is_iterated: bool = False
    rows: int = 0
    bytes: int = 0
    total: int | None = None
    _framer: Framer = field(init=False)
    _token: str | None = None
    _no_resume: str = ""
    _is_answered: bool = False

    def __post_init__(self) -> None:
        self._framer = self._new_framer()

    @property
    def resume_token(self) -> str | None:
        """What the server takes to go on with this stream; None where it cannot."""
        return self._token

    def restore(self, file: BinaryIO, token: str | None) -> int:
        """Go on after the whole rows that `file` has. Returns where they end; 0 where there are none."""
        framer, rows, end = self._framer, 0, 0
        while token is not None and (piece := file.read(_BUFFER_BYTES)):
            for block in framer.feed(piece):
                rows, end = rows + block.rows, end + len(block.data)
        if not rows:
            self._framer = self._new_framer()
            return 0
        framer.forget()
        self.rows, self.bytes, self._token = rows, end, token
        return end

    async def blocks(self) -> AsyncGenerator[Block, None]:
        """All rows, in blocks of whole ones; joined, their bytes are the stream without its last record.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        budget = Budget(self.transport.retry)
        while True:
            try:
                async with aclosing(self._attempt(budget)) as blocks:
                    async for block in blocks:
                        with budget.paused() if self.is_iterated else nullcontext():
                            yield block
                return
            except FetchError as error:
                await self._wait(error, budget)

    async def _attempt(self, budget: Budget) -> AsyncGenerator[Block, None]:
        framer = self._framer
        async with self.transport.stream(self.uri, self._body(), self.format.media_type) as (headers, pieces):
            self._read_headers(headers)
            async with aclosing(pieces):
                async for piece in pieces:
                    budget.spend(len(piece))
                    blocks = framer.feed(piece)
                    is_partial = not blocks or not self.format.is_resumable
                    budget.progress(sum([block.rows for block in blocks]), is_partial=is_partial)
                    for block in blocks:
                        yield self._counted(block)
        for block in framer.finish(self.rows):
            yield self._counted(block)

    def _body(self) -> RowsBody:
        request = self.request | {"format": self.format.name}
        if self._token is None or not self.rows:
            return request
        request |= {"resume": self._token, "after": self.rows}
        # The server compares it with that row, and refuses to resume if the row has changed.
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

    async def _wait(self, error: FetchError, budget: Budget) -> None:
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
        delay = budget.delay(error.retry_after, most=self.transport.longest_wait)
        if delay is None:
            if self.bytes:
                raise budget.annotated(self._broken(error, "Try again later.")) from error
            raise budget.annotated(error)
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
