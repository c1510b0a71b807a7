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
from dualsql_client.conversions import MOST_COUNTED, whole_or_none
from dualsql_client.errors import FetchError, StreamBrokenError, import_extra
from dualsql_client.formats import BY_NAME, BY_SUFFIX, CSV, DATABASES, NDJSON, DownloadFormat, FileFormat
from dualsql_client.framing import Block, Framer
from dualsql_client.rewriting import COMPRESSED, REWRITTEN, is_rewritten, rewriting, stream_suffix
from dualsql_client.transport import Transport
from dualsql_client.wire import NO_RESUME_HEADER, RESUME_HEADER, TOTAL_COUNT_HEADER, TOTAL_COUNT_KIND_HEADER
from dualsql_client.wire_requests import RowsBody

if TYPE_CHECKING:
    import pyarrow as pa


async def read_table(blocks: AsyncIterable[Block]) -> pa.Table:
    """The messages of an Arrow stream as one table, which uses their bytes without a copy.

    Raises:
        FetchError: the blocks are no Arrow stream.
        MissingExtraError: pyarrow is not installed.
    """
    pyarrow = import_extra("pyarrow", "arrow")
    schema, batches = None, []
    async for schema, batch in read_batches(blocks):  # noqa: B007 - it is used below
        if batch is not None:
            batches.append(batch)
    return pyarrow.Table.from_batches(batches, schema)


async def read_batches(blocks: AsyncIterable[Block]) -> AsyncGenerator[tuple[Any, Any], None]:
    """The schema of an Arrow stream with None, then the schema with each batch that has rows.

    Raises:
        FetchError: the blocks are no Arrow stream.
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
    if schema is None:
        raise FetchError("The stream has no schema.", status=200)


def _schema(block: Block) -> Any:
    from pyarrow import ipc, py_buffer

    schema = ipc.read_schema(py_buffer(block.data))
    list(schema.names)  # raises now for a name that is no text, and not when a name is read
    return schema


def _batch(block: Block, schema: Any) -> Any:
    from pyarrow import ipc, py_buffer

    batch = ipc.read_record_batch(py_buffer(block.data), schema)
    # Arrow does not check a batch's offsets when it reads them.
    batch.validate(full=True)
    if batch.num_rows != block.rows:
        raise ValueError("another number of rows")
    return batch


_BUFFER_BYTES = 1024 * 1024
_SUFFIXES = [*BY_SUFFIX, *REWRITTEN, *chain.from_iterable(DATABASES.values())]
_SPREADSHEETS = frozenset({".xls", ".xlsm", ".ods", ".numbers"})


def format_of(path: Path, name: FileFormat | None = None) -> DownloadFormat:
    """The format of this name, or else of the path's suffix.

    Raises:
        ValueError: no stream has that format.
    """
    form = BY_SUFFIX.get(stream_suffix(path)) if name is None else BY_NAME.get(name)
    if (
        name is not None
        and stream_suffix(path) != path.suffix.lower()
        and BY_SUFFIX.get(stream_suffix(path)) is not form
    ):
        raise ValueError(f"The suffix of {path.name[:100]} is not of {name}.")
    if is_rewritten(path) and form not in {CSV, NDJSON, None}:
        raise ValueError(f"{', '.join(COMPRESSED)} are for .csv, .tsv, .json, .ndjson and .jsonl.")
    if form is None and name is None:
        excel = " A spreadsheet opens .xlsx." if path.suffix.lower() in _SPREADSHEETS else ""
        raise ValueError(f"The file's suffix must be one of {', '.join(_SUFFIXES)}.{excel}")
    if form is None:
        raise ValueError(f"A file can be of {', '.join([*BY_NAME, *DATABASES])}, not {name}.")
    return form


PartialFile = Literal["discard", "keep", "continue"]
"""What happens to the received rows when a download to a file stops: see `ParsedDualResponse.save`."""


async def write(blocks: AsyncGenerator[Block, None], path: Path, partial: Partial | None = None) -> None:
    """Write all blocks to a file next to `path`, and rename it when it is complete and on the disk.

    Args:
        partial: keeps the received rows if the download stops; None deletes them.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_name(f".{path.name}.{token_hex(4)}.part") if partial is None else partial.data
    try:
        # Closed here: an interrupted program closes generators in any order.
        async with aclosing(blocks):
            if not path.parent.is_dir():
                raise FileNotFoundError(ENOENT, "There is no such folder", str(path.parent))
            file = part.open("xb", buffering=_BUFFER_BYTES) if partial is None else await partial.open()
            with file:
                with rewriting(path, file) if partial is None else nullcontext(file.write) as write_rows:
                    async for block in blocks:
                        await asyncio.to_thread(write_rows, block.data)
                        if partial is not None:
                            partial.save_note()
                await asyncio.to_thread(_flush, file)
                # After the flush: a power cut must not leave an empty file of this name.
                part.replace(path)
        if partial is not None:
            partial.delete_note()
    except BaseException:
        if partial is not None:
            partial.clean_up()
        raise
    finally:
        if partial is None:
            part.unlink(missing_ok=True)


KEEPS_PARTS = find_spec("fcntl") is not None
"""Whether this system has the file locks that a partial file needs."""


class Partial:
    """The rows of a download that stopped, and a note to resume it with, also in another process.

    Args:
        path: of the file. Next to it are `.NAME.part` with the rows and `.NAME.part.json` with the note.
        stream: of a format that can be resumed.
        is_continued: resume from an existing partial file.
    """

    def __init__(self, path: Path, stream: RowStream, *, is_continued: bool = False) -> None:
        self.data = path.with_name(f".{path.name}.part")
        self._note = note_of(path)
        self._stream = stream
        self._is_continued = is_continued
        self._token_in_note: str | None = None
        self._is_ours = False

    async def open(self) -> BinaryIO:
        """The file with the rows, at its end. No other process writes to it while it is open.

        Raises:
            OSError: it cannot be opened, or another process writes to it.
            ValueError: it has rows of another result or of other options.
        """
        return await asyncio.to_thread(self._open)

    def _open(self) -> BinaryIO:
        file = os.fdopen(os.open(self.data, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666), "r+b", _BUFFER_BYTES)
        try:
            _lock(file, self.data)
            end = self._stream.restore(file, self._token()) if self._is_continued else 0
            file.seek(end)
            file.truncate()
            if not end:
                self.delete_note()
            self._is_ours = True
        except BaseException:
            file.close()
            raise
        return file

    def _token(self) -> str | None:
        try:
            note = json.loads(self._note.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(note, dict) or {**note, "resume": None} != self._new_note(None):
            raise ValueError(
                "What came is of another result or of other options. Begin anew: without --continue."
            )
        token = note.get("resume")
        return token if isinstance(token, str) else None

    def _new_note(self, token: str | None) -> dict[str, Any]:
        stream = self._stream
        return {
            "uri": stream.uri,
            "format": stream.format.name,
            "request": dict(stream.request),
            "resume": token,
        }

    def save_note(self) -> None:
        """Write the note, if the server has sent a new token to resume with."""
        token = self._stream.resume_token
        if token != self._token_in_note:
            self._token_in_note = token
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW
            with os.fdopen(os.open(self._note, flags, 0o666), "w") as file:
                file.write(json.dumps(self._new_note(token)))

    def delete_note(self) -> None:
        """Delete the note: the download cannot be resumed."""
        self._note.unlink(missing_ok=True)

    def clean_up(self) -> None:
        """After a download that stopped: delete the files if it cannot be resumed."""
        if self._is_ours and not (self._stream.rows and self._stream.resume_token):
            self.data.unlink(missing_ok=True)
            self.delete_note()


def note_of(path: Path) -> Path:
    """The path of the note to resume the download of a file with; without a note it cannot be resumed."""
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
    # The last holder of the lock may have renamed the file.
    if not (path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())):
        raise OSError(EAGAIN, "Another download has just ended", str(path))


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


_RESUMABLE = " or ".join(
    ", ".join(name for name, form in BY_NAME.items() if form.is_resumable).rsplit(", ", 1)
)
_WHY_NOT = {
    "NO_TOTAL_ORDER": "Give the query an ORDER BY that no two rows share, or sort= by such columns.",
    "FORMAT": f"Use a format that can be resumed: {_RESUMABLE}.",
}


@dataclass(slots=True, kw_only=True)
class RowStream:
    """The stream of one result. After a broken connection, another request resumes it after the last row returned.

    If the server cannot find that row again, the stream ends with StreamBrokenError.

    Attributes:
        is_iterated: the application reads block by block, and its time with each is excluded from the limits.
        rows, bytes: returned so far; bytes are counted after decompression.
        total: the number of rows, if the server counted them; None before its answer.
    """

    transport: Transport
    uri: str
    format: DownloadFormat
    request: RowsBody
    is_iterated: bool = False
    rows: int = 0
    bytes: int = 0
    total: int | None = None
    resume_token: str | None = None
    _framer: Framer = field(init=False)
    _no_resume: str = ""
    _is_answered: bool = False

    def __post_init__(self) -> None:
        self._framer = self._new_framer()

    def restore(self, file: BinaryIO, token: str | None) -> int:
        """Resume after the whole rows of `file`. Returns their end; 0 without any."""
        framer, rows, end = self._framer, 0, 0
        while token is not None and (piece := file.read(_BUFFER_BYTES)):
            for block in framer.feed(piece):
                rows, end = rows + block.rows, end + len(block.data)
        if not rows:
            self._framer = self._new_framer()
            return 0
        framer.forget()
        self.rows, self.bytes, self.resume_token = rows, end, token
        return end

    async def blocks(self) -> AsyncGenerator[Block, None]:
        """All rows, in blocks of whole rows; together, their bytes are the stream without its last record.

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
                        self._count(block)
                        yield block
        for block in framer.finish(self.rows):
            self._count(block)
            yield block

    def _body(self) -> RowsBody:
        request = self.request | {"format": self.format.name}
        if self.resume_token is None or not self.rows:
            return request
        request |= {"resume": self.resume_token, "after": self.rows}
        # The server compares it with the row, and does not resume if the row has changed.
        digest = self._framer.last_digest()
        return request if digest is None else request | {"last": digest}

    def _read_headers(self, headers: Mapping[str, str]) -> None:
        self._is_answered = True
        self.resume_token = headers.get(RESUME_HEADER, self.resume_token)
        self._no_resume = headers.get(NO_RESUME_HEADER, "")
        if headers.get(TOTAL_COUNT_KIND_HEADER, "exact") == "exact":
            total = whole_or_none(headers.get(TOTAL_COUNT_HEADER, ""), MOST_COUNTED)
            if total is not None:
                self.total = min(total, self.request.get("limit", total))

    def _count(self, block: Block) -> None:
        self.rows += block.rows
        self.bytes += len(block.data)
        if self.bytes > self.transport.maximum_stream_bytes:
            raise FetchError(
                f"The stream is longer than {self.transport.maximum_stream_bytes:,} bytes.",
                status=200,
                hint="Ask for fewer rows or columns, or raise the client's maximum_stream_bytes.",
                details={"rows": self.rows},
            )

    async def _wait(self, error: FetchError, budget: Budget) -> None:
        """Wait for the next attempt.

        Raises:
            FetchError: no other attempt is made.
        """
        # A body that broke off has no status. A request that broke before its answer may have used a signed link.
        broke_off = error.status is None and self._is_answered
        is_lost = self.transport.carries_link and not self._is_answered
        if is_lost or not (error.may_pass or broke_off):
            raise error
        if self.bytes and (self.resume_token is None or not self.rows):
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
