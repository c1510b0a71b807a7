"""Writes the rows of a run to a file. The run continues without a file that fails."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from io import FileIO
from pathlib import Path

from dualsql.events import EVENTS, BackgroundFailed
from dualsql.formats.writer import Chunk, Writer
from dualsql.kept.cells import KeptWriter
from dualsql.kept.files import KeptFileWriter, digest_of
from dualsql.kept.service import ResultKeeper, TooLargeError, UnusableError
from dualsql.kept.storage import new_file_name
from dualsql.resource import KeptRows, Resource
from dualsql.threads import in_thread

logger = logging.getLogger(__name__)

UNWRITABLE = "The rows could not be written."


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A statement that is about to run, and what is kept of it.

    Attributes:
        stream: its rows as the bytes of the writer.
        fingerprint: see `KeptRows`.
        as_of: when the rows were read that it reads; None for now.
        goes_on: it runs to its end also if its rows can no longer be kept.
    """

    stream: Callable[[Writer], AsyncGenerator[Chunk, None]]
    writer: KeptWriter
    fingerprint: str
    as_of: datetime | None = None
    goes_on: bool = False


class RunFile:
    """The file of one run. Whatever fails about it, no error is raised: there is no file from then on.

    Attributes:
        name: of the file, once it is complete.
        reason: why there is none; None as long as there is one.
        is_too_large: the reason is the number or the size of the rows.
    """

    def __init__(self, keeper: ResultKeeper, resource: Resource) -> None:
        self._keeper = keeper
        self._resource = resource
        self._folder: Path | None = None
        self._file: KeptFileWriter | None = None
        self._is_begun = False
        self._share = AsyncExitStack()
        self.name = new_file_name(resource.id)
        self.reason: str | None = None
        self.is_too_large = False

    def now(self) -> datetime:
        """By the clock of the server."""
        return self._keeper.clock.now()

    async def open(self) -> None:
        """Begin the file, once another one may be written."""
        keeper = self._keeper
        async with self._note_failure():
            # Not in a thread, where a cancelled caller would leave it behind.
            self._folder = keeper.storage.new_folder()
            await keeper.begin(self.name, self._resource)
            await self._share.enter_async_context(keeper.shares.writing)
            self._file = await in_thread(KeptFileWriter, self._folder / "rows", keeper.shares)

    async def add(self, writer: KeptWriter, chunk: Chunk) -> None:
        """Add rows that the writer has written."""
        async with self._note_failure():
            if self._file is not None:
                self._require_keepable(writer, self._file, chunk)
                await self._begin(writer, self._file)
                await in_thread(self._file.add, chunk.data)

    async def finish(self, run: KeptRun, start: datetime) -> KeptRows:
        """Put the complete file into the storage. Returns its record, or why there is none."""
        async with self._note_failure():
            if self._file is not None and self._folder is not None:
                return await self._finish(run, start, self._file, self._folder / "rows")
        return KeptRows(reason=self.reason or UNWRITABLE)

    async def close(self) -> None:
        """Give back what the file has taken. One that is not complete is deleted."""
        await asyncio.shield(self._release())

    async def _finish(self, run: KeptRun, start: datetime, file: KeptFileWriter, path: Path) -> KeptRows:
        keeper, writer = self._keeper, run.writer
        self._require_keepable(writer, file, Chunk(b"", 0))
        await self._begin(writer, file)
        cells = await in_thread(file.finish, writer.cells)
        with FileIO(path) as stored:
            state, digest = await in_thread(digest_of, stored)
        size = state.size
        keeper.require_size(size)
        keeper.require_room(self.name, size)
        await keeper.storage.put(self.name, path)
        keeper.note_stored(self.name)
        return keeper.sign(
            self._resource.id,
            KeptRows(
                storage=keeper.storage.id,
                file=self.name,
                as_of=start.isoformat(),
                rows=file.rows,
                bytes=size,
                digest=digest,
                fingerprint=run.fingerprint,
                cells=cells,
                copied=writer.copied,
            ),
        )

    def _require_keepable(self, writer: KeptWriter, file: KeptFileWriter, chunk: Chunk) -> None:
        if writer.refusal is not None:
            raise UnusableError(writer.refusal)
        self._keeper.require_size(file.size, rows=file.rows + chunk.rows)
        self._keeper.require_room(self.name, max(file.size, 1))

    async def _begin(self, writer: KeptWriter, file: KeptFileWriter) -> None:
        if not self._is_begun:
            await in_thread(file.begin, writer.schema, writer.cells)
            self._is_begun = True

    @asynccontextmanager
    async def _note_failure(self) -> AsyncIterator[None]:
        """Note what fails in the block as the reason."""
        try:
            yield
        except UnusableError as error:
            self.reason, self.is_too_large = str(error), isinstance(error, TooLargeError)
        # Of the disk, DuckDB, Arrow, an object store or the store of resources: none of them may end the query.
        except Exception as error:
            logger.exception("The rows of a result could not be kept.", exc_info=error)
            self.reason = UNWRITABLE
            EVENTS.report(BackgroundFailed("Keeping"))
        if self.reason is not None:
            await self.close()  # the disk may be full of it

    async def _release(self) -> None:
        file, folder = self._file, self._folder
        self._file = self._folder = None
        try:
            if file is not None:
                await asyncio.to_thread(file.close)
        # Closing writes what is left, which fails again where the disk is full.
        except Exception as error:  # noqa: BLE001 - DuckDB raises errors of many classes
            logger.warning("A file that is not kept could not be closed: %s.", type(error).__name__)
        finally:
            await self._share.aclose()
            self._keeper.note_left(self.name)
            if folder is not None:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def keep(file: RunFile, run: KeptRun) -> tuple[KeptRows, bool]:
    """Run a statement once, and keep its rows.

    Returns the record, which says why if they are not kept, and whether all rows were read. Raises what the stream
    raises, and nothing else.
    """
    # Rows are as of the start: a statement does not see what is committed while it runs.
    start = run.as_of or file.now()
    async with aclosing(run.stream(run.writer)) as chunks:
        async for chunk in chunks:
            await file.add(run.writer, chunk)
            if file.reason is not None and (file.is_too_large or not run.goes_on):
                return KeptRows(reason=file.reason), False
    return await file.finish(run, start), True


async def open_file(keeper: ResultKeeper, resource: Resource) -> RunFile:
    """A file for the rows of a run that is about to begin.

    Raises:
        UnusableError: there is none.
    """
    file = RunFile(keeper, resource)
    try:
        await file.open()
    except BaseException:
        await file.close()
        raise
    if file.reason is not None:
        raise UnusableError(file.reason)
    return file
