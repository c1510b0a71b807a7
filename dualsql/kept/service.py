"""Opens the files of resources for their readers, counts those that are written, and deletes those of no use.

A file is written before the row of its resource is. A process that ends in between leaves a file that no row names,
which `sweep` deletes.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import orjson

from dualsql.databases.slots import QueryLimits
from dualsql.errors import DatabaseBusyError, StorageError, TamperedError
from dualsql.events import EVENTS, BackgroundFailed, GaugeReading
from dualsql.extension import Extension
from dualsql.freeze import Seal
from dualsql.kept.cells import is_cell
from dualsql.kept.files import (
    KeptFile,
    MemoryShares,
    digest_of,
    hold,
    open_file,
    require_packages,
    state_of,
)
from dualsql.kept.settings import KeptSettings
from dualsql.kept.storage import FILE_NAME, ResultStorage, StorageFullError, StoredFile, shared
from dualsql.resource import Clock, KeptRows, Principal, Resource
from dualsql.settings import Settings
from dualsql.store.protocol import ListingPosition, ResourceState, ResourceStore

logger = logging.getLogger(__name__)

_LABEL = "dualsql.kept/1"
_MOST_OPEN = 16
"""Files whose digests are known. How many are open at once is a matter of `MemoryShares`."""
_GONE = "The file of the rows is gone."
UNREADABLE = "The kept rows could not be read."
_SPARE = timedelta(hours=1)
"""How much longer than the time limit of a query a file stays that no resource names."""
_LONGEST_WAIT, _PAUSE = 1.0, 0.05
"""Seconds to wait for room among the copies of files, and between two attempts."""
_OF_RUNS = frozenset({"running", "failure"})
"""The parts of a record that say nothing of kept rows, and are not signed."""
_SPILL_OF_UNBOUNDED = 64 * 1024**3
"""Bytes of disk for sorts and the like, where `keep_total` is None."""
_BATCH = 1_000
"""Resources whose state the store is asked for at a time."""


class UnusableError(Exception):
    """The rows of a resource are read from the database, for the reason that is the text."""


class TooLargeError(UnusableError):
    """A result is larger than those that are kept."""


class FileGoneError(UnusableError):
    """The file of the rows does not exist. Other rows may have taken their place since the record was read."""


class _Counted(NamedTuple):
    """The bytes of files that were found when another one was begun."""

    names: frozenset[str]
    size: int

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> _Counted:
        return cls(frozenset(sizes), sum(sizes.values()))


@dataclass(slots=True)
class _WrittenFile:
    """A file that this process writes or has written. The row of its resource may not be in the store yet.

    Attributes:
        owner: id and tenant of the principal; callers without one count as one.
        theirs, all: the other files of the owner, and of the storage.
        is_there: it is in the storage, or was.
    """

    owner: tuple[str | None, str | None]
    theirs: _Counted
    all: _Counted
    size: int = 0
    is_there: bool = False


class ResultKeeper(Extension):
    """The kept results of one server."""

    def __init__(
        self,
        storage: ResultStorage,
        store: ResourceStore,
        seal: Seal,
        clock: Clock,
        *,
        settings: Settings,
        kept_settings: KeptSettings,
    ) -> None:
        self.storage = storage
        self._store = store
        self._seal = seal
        self._settings = settings
        self._kept_settings = kept_settings
        self.clock = clock
        self._open: OrderedDict[str, KeptFile] = OrderedDict()
        self._referenced: set[str] = set()
        self._ownerless: dict[str, bool] = {}
        self._files: dict[str, _WrittenFile] = {}
        self.stored_bytes: int | None = None
        """Bytes of all files in the storage when they were last listed, which every run and every sweep does."""
        self.renew()

    def renew(self) -> None:
        """Forget what belongs to the event loop of the last run."""
        self._limits = QueryLimits(self._settings)
        disk = self._kept_settings.keep_total or _SPILL_OF_UNBOUNDED
        self.shares = MemoryShares(self._kept_settings.keep_memory, disk)
        self._opening: dict[str, asyncio.Task[KeptFile]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def abandon(self) -> None:
        """Drop connections whose event loop has ended."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()

    async def start(self) -> None:
        """Prepare the storage.

        Raises:
            ConfigurationError: it cannot be used, or a package is missing.
        """
        require_packages()
        await self.storage.open()

    async def release(self) -> None:
        """Close all files."""
        if self._opening:
            await asyncio.wait(set(self._opening.values()))
        for name in list(self._open):
            self._shut(name)
        if self._closing:
            await asyncio.wait(self._closing)

    def _shut(self, name: str) -> None:
        """Close a file, if it is open, once what reads it has ended."""
        file = self._open.pop(name, None)
        if file is not None:
            closing = asyncio.ensure_future(file.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def readings(self) -> Iterator[GaugeReading]:
        """Bytes of all files, and those that are free where files are written."""
        if self.stored_bytes is not None:
            yield GaugeReading("kept_bytes", self.stored_bytes)
        if (folder := getattr(self.storage, "folder", None)) is not None:
            with suppress(OSError):  # the folder is gone: keeping fails, which is reported there
                yield GaugeReading("kept_free", shutil.disk_usage(folder).free)

    # Writing ----------------------------------------------------------------------------------------------

    async def begin(self, name: str, resource: Resource) -> None:
        """Note a file that is about to be written.

        Raises:
            UnusableError: there is no room for any; StorageError: see `ResultStorage` and `ResourceStore`.
        """
        sizes = {file.name: file.size for file in await self._list_files()}
        for absent in [each for each, file in self._files.items() if file.is_there and each not in sizes]:
            del self._files[absent]
        theirs: dict[str, int] = {}
        if self._kept_settings.keep_quota is not None and resource.owner is None:
            theirs = await self._files_of_nobody(sizes, but=resource.id)
        elif self._kept_settings.keep_quota is not None and resource.owner is not None:
            principal = Principal(id=resource.owner, tenant=resource.tenant)
            theirs = await self._files_of(principal, sizes, but=resource.id)
        owner = resource.owner, resource.tenant
        self._files[name] = _WrittenFile(owner, _Counted.of(theirs), _Counted.of(sizes))
        self.require_room(name, 1)

    async def _list_files(self) -> Sequence[StoredFile]:
        files = await self.storage.list_files()
        self.stored_bytes = sum(file.size for file in files)
        return files

    async def _files_of(self, principal: Principal, sizes: Mapping[str, int], *, but: str) -> dict[str, int]:
        """The sizes of the files that the principal's resources name, of those that are there.

        Args:
            but: the id of a resource whose file is replaced.
        """
        own_files: dict[str, int] = {}
        after: ListingPosition | None = None
        now = self.clock.now()
        while True:
            page = await self._store.find(principal, now=now, limit=_BATCH, after=after)
            files = [each.kept.get("file", "") for each in page.resources if each.kept and each.id != but]
            own_files |= {file: sizes[file] for file in files if file in sizes}
            if page.next is None:
                return own_files
            after = page.next

    async def _files_of_nobody(self, sizes: Mapping[str, int], *, but: str) -> dict[str, int]:
        """The sizes of the files of resources without an owner, of those that are there.

        Args:
            but: the id of a resource whose file is replaced.
        """
        # The store lists by principal, and a resource never changes its owner: each is asked for once.
        self._ownerless = {each: owner for each, owner in self._ownerless.items() if each in sizes}
        for each in sizes:
            if each not in self._ownerless and FILE_NAME.fullmatch(each):
                resource = await self._store.get(_id_in(each))
                if resource is not None:
                    self._ownerless[each] = resource.owner is None
        return {
            each: size
            for each, size in sizes.items()
            if self._ownerless.get(each, False) and _id_in(each) != but
        }

    def require_size(self, size: int, *, rows: int = 0) -> None:
        """Raise TooLargeError for a result of so many bytes or rows."""
        settings = self._kept_settings
        for number, most, what in ((rows, settings.keep_rows, "rows"), (size, settings.keep_bytes, "bytes")):
            if number > most:
                raise TooLargeError(f"There are more than {most:,} {what}.")

    def note_stored(self, name: str) -> None:
        """Note that a file is in the storage."""
        self._files[name].is_there = True

    def note_left(self, name: str) -> None:
        """Note that a file is no longer written, unless it is in the storage."""
        if name in self._files and not self._files[name].is_there:
            del self._files[name]

    def sign(self, resource_id: str, record: KeptRows) -> KeptRows:
        """A record with its signature."""
        record["signature"] = self._seal.sign(*_signed_parts(resource_id, record)).hex()
        return record

    def require_room(self, name: str, size: int) -> None:
        """Note the size of a file that is written. Nothing is awaited: files that end at once see each other.

        Raises:
            UnusableError: with it, the files of its owner, or all files, are too large.
        """
        mine = self._files[name]
        mine.size = size
        quota, total = self._kept_settings.keep_quota, self._kept_settings.keep_total
        others = {
            each: file
            for each, file in self._files.items()
            if file.owner == mine.owner and _id_in(each) != _id_in(name)
        }
        if quota is not None and size + _sum(mine.theirs, others) > quota:
            whose = "callers without a principal" if mine.owner[0] is None else "one principal"
            raise UnusableError(f"All kept rows of {whose} would be more than {quota:,} bytes.")
        if total is not None and _sum(mine.all, self._files) > total:
            raise UnusableError(f"All kept rows of the server would be more than {total:,} bytes.")

    # Reading ----------------------------------------------------------------------------------------------

    async def open_file(self, resource: Resource, record: KeptRows, fingerprint: str | None) -> KeptFile:
        """The file of a resource.

        Args:
            fingerprint: of its statement under the rules of the reader; None if there is none.

        Raises:
            UnusableError: the rows have to be read from the database.
            TamperedError: the row or the file was changed.
        """
        self._require_usable(resource, record, fingerprint)
        try:
            return await self._shared_file(resource, record)
        except (UnusableError, TamperedError, DatabaseBusyError):
            raise
        # Of the disk, DuckDB or an object store.
        except Exception as error:
            with suppress(StorageError):
                if await self.storage.get(record["file"]) is None:  # deleted or refreshed while it was opened
                    raise FileGoneError(_GONE) from error
            logger.exception("The kept rows of a result could not be read.", exc_info=error)
            EVENTS.report(BackgroundFailed("Keeping"))
            raise UnusableError(UNREADABLE) from error

    async def _shared_file(self, resource: Resource, record: KeptRows) -> KeptFile:
        name = record["file"]
        path = await self._locate(name)
        state = None if path is None else state_of(path)
        if path is None or state is None:
            raise FileGoneError(_GONE)
        # A digest reads the whole file, so it is computed only for a file whose state is new.
        file = self._open.get(name)
        if file is not None and file.state == state:
            self._open.move_to_end(name)
            return file
        return await shared(self._opening, name, lambda: self._open_file(resource, record, path))

    async def _locate(self, name: str) -> Path | None:
        """The path of the file; None if it is gone. Unused files are closed where they leave no room for it."""
        ends_at = time.monotonic() + _LONGEST_WAIT
        while True:
            try:
                return await self.storage.get(name)
            except StorageFullError as error:
                idle = next((each for each, file in self._open.items() if not file.is_read), None)
                if idle is not None:
                    self._shut(idle)
                    # Until then, the file is in use.
                    await asyncio.wait(self._closing)
                elif time.monotonic() < ends_at:
                    # A reader may end; and a process that starts has a closed file of this one for a moment.
                    await asyncio.sleep(_PAUSE)
                else:
                    raise DatabaseBusyError("Too many kept results are read at once.") from error

    def _require_usable(self, resource: Resource, record: KeptRows, fingerprint: str | None) -> None:
        if "reason" in record:
            raise UnusableError(record["reason"])
        if not record.keys() - _OF_RUNS:
            raise UnusableError("The rows are not kept yet.")
        # A reason is not signed: all that a forged one does is to have the rows read from the database.
        if not self._is_signed(resource, record):
            logger.error("The kept rows of the resource %s... were changed in the store.", resource.id[:6])
            raise TamperedError("The record of the kept rows is not valid.")
        if record["storage"] != self.storage.id:
            raise UnusableError("The rows are kept at another server.")
        if datetime.fromisoformat(record["as_of"]) + self._kept_settings.keep_for <= self.clock.now():
            raise UnusableError("The kept rows are too old.")
        if fingerprint is None or record["fingerprint"] != fingerprint:
            raise UnusableError("The rules for the rows have changed since they were kept.")

    def _is_signed(self, resource: Resource, record: KeptRows) -> bool:
        try:
            signature = bytes.fromhex(record["signature"])
            is_ours = self._seal.verify(signature, *_signed_parts(resource.id, record))
        except (KeyError, TypeError, ValueError):
            return False
        return is_ours and all(map(is_cell, record["cells"]))

    async def _open_file(self, resource: Resource, record: KeptRows, path: Path) -> KeptFile:
        name = record["file"]
        self._shut(name)
        descriptor = await asyncio.to_thread(hold, path)
        if descriptor is None:
            # A copy of an object may have made room for another one; it is fetched again.
            path = await self._locate(name) or path
            descriptor = await asyncio.to_thread(hold, path)
        if descriptor is None:
            raise FileGoneError(_GONE)
        try:
            state, digest = await asyncio.to_thread(digest_of, descriptor)
            if digest != record["digest"]:
                logger.error("The file of the kept rows of the resource %s... was changed.", resource.id[:6])
                raise TamperedError("The file of the kept rows was changed.")
            source = await open_file(resource.source, path, state, self._limits, self.shares)
        except OSError as error:
            descriptor.close()
            raise StorageError("The file of kept rows cannot be read.") from error
        except BaseException:
            descriptor.close()
            raise
        self._open[name] = file = KeptFile(state, source, descriptor)
        while len(self._open) > _MOST_OPEN:
            self._shut(next(iter(self._open)))
        return file

    # Deleting ---------------------------------------------------------------------------------------------

    async def of(self, resource_id: str) -> KeptRows | None:
        """The record of kept rows in the row of a resource."""
        resource = await self._store.get(resource_id)
        return None if resource is None else resource.kept

    async def delete_file(self, resource_id: str, record: KeptRows | None) -> None:
        """Delete the file of a resource that was deleted. Streams that read it go on."""
        name = None if record is None else record.get("file")
        match = None if name is None else FILE_NAME.fullmatch(name)
        # A row that was changed may name the file of another resource.
        if record is None or name is None or match is None or match[1] != resource_id:
            return
        if record.get("storage") != self.storage.id:
            return
        self._shut(name)
        if (opening := self._opening.get(name)) is not None:
            opening.add_done_callback(lambda _: self._shut(name))
        with suppress(StorageError):  # the next sweep deletes it
            await self.storage.delete(name)

    async def sweep(self) -> None:
        """Delete the files that no resource needs, and close those that are gone."""
        open_before = set(self._open)  # the list may lack a file that is opened later
        files = await self._list_files()
        self._referenced &= {file.name for file in files}
        # A row that was refreshed no longer names the first of its files.
        number = Counter(file.name.partition("@")[0] for file in files)
        self._referenced = {name for name in self._referenced if number[name.partition("@")[0]] == 1}
        ids = sorted({match[1] for file in files if (match := FILE_NAME.fullmatch(file.name))})
        standings: dict[str, ResourceState] = {}
        for start in range(0, len(ids), _BATCH):
            standings |= await self._store.standings(ids[start : start + _BATCH])
        doomed = [file.name for file in files if await self._is_useless(file, standings)]
        await self.storage.delete(*doomed)
        # Another process may have deleted some: an open one would keep its room on the disk.
        for name in open_before - ({file.name for file in files} - set(doomed)):
            self._shut(name)

    async def _is_useless(self, file: StoredFile, standings: Mapping[str, ResourceState]) -> bool:
        now, match = self.clock.now(), FILE_NAME.fullmatch(file.name)
        standing = None if match is None else standings.get(match[1])
        is_over = standing is not None and standing.expires_at is not None and standing.expires_at <= now
        if is_over or file.written_at + self._kept_settings.keep_for <= now:
            return True
        if match is not None and standing is not None and await self._names_file(match[1], file.name):
            return False
        # Its row may be about to be written, unless it was there before.
        is_new = file.written_at + self._settings.pending_timeout + _SPARE > now
        return file.name in self._referenced or not is_new

    async def _names_file(self, resource_id: str, name: str) -> bool:
        """Whether the row of the resource names the file."""
        if name not in self._referenced:
            resource = await self._store.get(resource_id)
            record = None if resource is None else resource.kept
            if record is not None and record.get("file") == name:
                self._referenced.add(name)
        return name in self._referenced


def _signed_parts(resource_id: str, record: KeptRows) -> tuple[str | bytes, ...]:
    rest = {name: value for name, value in record.items() if name not in _OF_RUNS and name != "signature"}
    return _LABEL, resource_id, orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)


def _id_in(name: str) -> str:
    """The id of the resource whose file has this name."""
    return name.partition("@")[0]


def _sum(count: _Counted, recent: Mapping[str, _WrittenFile]) -> int:
    """The bytes of files that were counted, and of those that were written since."""
    return count.size + sum(file.size for name, file in recent.items() if name not in count.names)
