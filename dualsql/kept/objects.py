"""An object store as the place of kept results, with a bounded folder of copies on this machine."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dualsql.errors import ConfigurationError, StorageError
from dualsql.kept.settings import KeptSettings
from dualsql.kept.storage import (
    FILE_NAME,
    NO_FOLLOW,
    LocalResultStorage,
    StorageFullError,
    StoredFile,
    lock_file,
    move_into_place,
    require_name,
    shared,
)
from dualsql.packages import require_package
from dualsql.settings import require_duration, user_cache

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PART_BYTES = 8 * 1024 * 1024
_PARTS_AT_ONCE = 4
"""A transfer holds so many parts in memory."""
_MOST_PARTS = 10_000
"""S3 refuses uploads of more parts."""
_REQUEST_SECONDS, _CONNECT_SECONDS, _RETRIES = 30, 5, 3
_CHECK_SECONDS = 2
"""How long a reader of a copy waits for the answer whether the object is still there."""
_DELETED_AT_ONCE = 16
_ID_OBJECT = "storage-id"
_STAGED = re.compile(rf"({FILE_NAME.pattern})#[0-9]+")
"""What obstore's store of local files writes before the object, and leaves behind when the process is killed."""
_SCHEMES = frozenset("s3 s3a gs az adl azure abfs abfss file".split())
_REASONS = {
    "PermissionDeniedError": "the credentials of the server do not allow it",
    "UnauthenticatedError": "the credentials of the server are not valid",
    "TimeoutError": "it took too long",
    "FileNotFoundError": "the bucket or container does not exist",
}
"""The message of failures. Those of obstore contain the URL of the store."""


class ObjectResultStorage:
    """Keeps the files of results in an object store: S3, Google Cloud Storage, Azure, or a shared folder.

    Every host that has the same store of resources reads what another one kept. A file is read from a copy on this
    machine. The copies together take at most `cache_bytes`: the one that was read the longest ago makes room for
    another, and those that are open stay. Files that are being written come on top, each with up to `keep_bytes`.

    Args:
        store: a URL, such as s3://bucket/prefix; or a store of obstore. Credentials for a URL are taken from the
            environment (AWS_..., GOOGLE_..., AZURE_...), or from the machine's own role.
        cache: the folder of the copies; it is made if it does not exist. Processes of one machine may share it.
        cache_bytes: must be more than `keep_bytes`, so that every kept file has room.
        timeout: for one upload or download as a whole.
        recheck: how long a copy is read before the store is asked again whether the object was deleted.

    Attributes:
        folder: of the copies.

    Raises:
        ConfigurationError: the URL cannot be used, or obstore is not installed; when the server starts: the store
            cannot be reached, or the folder is not safe.
    """

    def __init__(
        self,
        store: str | ObjectStore,
        *,
        cache: str | Path,
        cache_bytes: int = 16 * 1024**3,
        timeout: timedelta = timedelta(minutes=5),
        recheck: timedelta = timedelta(seconds=10),
    ) -> None:
        require_package(
            "obstore",
            "Object stores need a package that is not installed.",
            hint='pip install "dualsql[storage]"',
        )
        require_duration("timeout", timeout, is_positive=True)
        self._recheck = require_duration("recheck", recheck).total_seconds()
        self._remote = _Remote(_store_of(store) if isinstance(store, str) else store, timeout)
        self.folder, self._cache_bytes = Path(cache).absolute(), cache_bytes
        self._id = ""

    @property
    def id(self) -> str:
        return self._id

    async def open(self) -> None:
        with _of_start():
            self._id = await self._remote.id()
        # A folder for each store: what one does not have is deleted from its folder.
        self._cache = _Cache(self.folder / self._id, self._cache_bytes)
        await self._cache.files.open()
        self._fetching: dict[str, asyncio.Task[Path | None]] = {}
        self._last_checks: dict[str, float] = {}

    async def check(self) -> None:
        """Raise ConfigurationError if the object store cannot be read, or the folder of copies not be made."""
        with _of_start():
            await self._remote.size(_ID_OBJECT)
        # The folder of a store that has been used is in there.
        await LocalResultStorage(self.folder / "new").check()

    def new_folder(self) -> Path:
        return self._cache.files.new_folder()

    async def put(self, name: str, file: Path) -> None:
        require_name(name)
        try:
            size = (await asyncio.to_thread(file.stat)).st_size
        except OSError as error:
            raise StorageError("A result could not be kept.") from error
        if size > self._cache_bytes:
            raise StorageError("A result could not be kept: it is larger than cache_bytes.")
        await self._remote.upload(name, file, size)
        self._last_checks[name] = time.monotonic()
        # Its first reader is most often here.
        with suppress(StorageFullError, OSError):
            await asyncio.to_thread(self._cache.adopt, name, file, size)

    async def get(self, name: str) -> Path | None:
        require_name(name)
        path = await self._cache.files.get(name)
        if path is not None:
            if await self._is_there(name):
                return path
            await self._cache.files.delete(name)
            return None
        return await shared(self._fetching, name, lambda: self._fetch(name))

    async def _is_there(self, name: str) -> bool:
        """Whether the object of a copy was there a short while ago. If the store does not answer, the copy is read."""
        now = time.monotonic()
        if now - self._last_checks.get(name, -self._recheck) < self._recheck:
            return True
        self._last_checks[name] = now
        self._cache.note_use(name)
        try:
            return await self._remote.size(name, seconds=_CHECK_SECONDS) is not None
        except StorageError:
            return True

    async def _fetch(self, name: str) -> Path | None:
        size = await self._remote.size(name)
        if size is None:
            return None
        try:
            async with self._remote.time_limit("read"), self._cache.new_copy(name, size) as part:
                if part is not None:
                    await self._remote.download(name, part, size)
        except OSError as error:
            raise StorageError("The kept rows could not be copied to this machine.") from error
        self._last_checks[name] = time.monotonic()
        return await self._cache.files.get(name)

    async def delete(self, *names: str) -> None:
        objects = [name for name in names if FILE_NAME.fullmatch(name)]
        staged = [name for name in names if _STAGED.fullmatch(name)]
        # Refuses every other name.
        await self._cache.files.delete(*(name for name in names if name not in staged))
        await self._remote.delete(objects, staged)
        for name in objects:
            self._last_checks.pop(name, None)

    async def list_files(self) -> Sequence[StoredFile]:
        """Also deletes copies of files that are gone: a sweep of each process lists."""
        copies = await self._cache.files.list_files()
        objects = await self._remote.list_files()
        names = {file.name for file in objects}
        self._last_checks = {name: last_use for name, last_use in self._last_checks.items() if name in names}
        await asyncio.to_thread(self._cache.drop, [file.name for file in copies if file.name not in names])
        return [*objects, *(file for file in copies if not FILE_NAME.fullmatch(file.name))]


def storage_at(location: str | Path, settings: KeptSettings) -> LocalResultStorage | ObjectResultStorage:
    """The storage in a folder, or at the URL of an object store, whose copies are where the settings say.

    Raises:
        ConfigurationError: the URL cannot be used, or obstore is not installed.
    """
    if "://" not in str(location):
        return LocalResultStorage(location)
    return ObjectResultStorage(
        str(location),
        cache=settings.keep_cache or user_cache() / "kept",
        cache_bytes=settings.keep_cache_bytes,
    )


def _store_of(url: str) -> ObjectStore:
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    scheme = urlsplit(url).scheme
    hint = (
        "For example s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix or file:///folder."
    )
    if scheme not in _SCHEMES:
        raise ConfigurationError("This is no URL of an object store.", hint=hint)
    try:
        if scheme == "file":
            return from_url(url, mkdir=True)
        # Options that are given here replace those of the environment.
        may_be_plain = any(
            os.environ.get(f"{prefix}_ALLOW_HTTP", "").lower() in ("1", "true")
            for prefix in ("AWS", "GOOGLE", "AZURE")
        )
        return from_url(
            url,
            client_options={
                "timeout": timedelta(seconds=_REQUEST_SECONDS),
                "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
                "allow_http": may_be_plain,
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_REQUEST_SECONDS)},
        )
    except (BaseError, ValueError, OSError):
        raise ConfigurationError("The URL of the object store cannot be used.", hint=hint) from None


@contextmanager
def _of_start() -> Iterator[None]:
    """Raise ConfigurationError for a store that cannot be used."""
    try:
        yield
    except StorageError as error:
        raise ConfigurationError(
            error.message,
            hint="Check the URL, the credentials in the environment, and that this machine reaches the store.",
        ) from None


@contextmanager
def _failing_as(message: str) -> Iterator[None]:
    """Raise StorageError for what obstore raises, without its words."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, TimeoutError, FileNotFoundError) as error:
        reason = _REASONS.get(type(error).__name__, "it does not answer, or refuses the request")
        raise StorageError(f"{message}: {reason}.") from None


class _Remote:
    """The objects. Failures are StorageErrors that do not name the store.

    Args:
        timeout: for one upload or download as a whole.
    """

    def __init__(self, store: ObjectStore, timeout: timedelta) -> None:
        self._store = store
        self.seconds = timeout.total_seconds()

    @asynccontextmanager
    async def time_limit(self, what: str, seconds: float | None = None) -> AsyncIterator[None]:
        """A block with a time limit, whose failures are reported.

        Args:
            seconds: None for those of a whole transfer.
        """
        with _failing_as(f"The object store of kept results cannot be {what}"):
            async with asyncio.timeout(self.seconds if seconds is None else seconds):
                yield

    async def id(self) -> str:
        """The same for all who use the store: an object that was written once."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        async with self.time_limit("read and written", _REQUEST_SECONDS):
            try:
                answer = await obstore.get_async(self._store, _ID_OBJECT)
            except FileNotFoundError:
                with suppress(AlreadyExistsError):  # of two processes, one wins
                    new = secrets.token_hex(16).encode()
                    await obstore.put_async(self._store, _ID_OBJECT, new, mode="create")
                answer = await obstore.get_async(self._store, _ID_OBJECT)
            text = bytes(await answer.bytes_async()).decode("ascii", "replace")
        # It becomes the name of a folder.
        if not re.fullmatch(r"[0-9a-f]{32}", text):
            raise StorageError(f"The object {_ID_OBJECT} was not written by dualsql.")
        return text

    async def size(self, name: str, *, seconds: float = _REQUEST_SECONDS) -> int | None:
        """Bytes of an object; None if it does not exist."""
        import obstore

        async with self.time_limit("read", seconds):
            try:
                head = await obstore.head_async(self._store, name)
            except FileNotFoundError:
                return None
        return int(head["size"])

    async def upload(self, name: str, file: Path, size: int) -> None:
        """Write an object as a whole: it is not there before its last part is."""
        import obstore

        part = max(_PART_BYTES, -(-size // _MOST_PARTS))
        async with self.time_limit("written"):
            await obstore.put_async(self._store, name, file, chunk_size=part, max_concurrency=_PARTS_AT_ONCE)

    async def download(self, name: str, file: IO[bytes], size: int) -> None:
        """Write the bytes of an object to a file. Each range is a request, so that none takes long."""
        import obstore

        starts = iter(range(0, size, _PART_BYTES))

        async def take() -> None:
            for start in starts:
                length = min(_PART_BYTES, size - start)
                data = await obstore.get_range_async(self._store, name, start=start, length=length)
                await asyncio.to_thread(_write, file.fileno(), memoryview(data), start)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_PARTS_AT_ONCE):
                    tasks.create_task(take())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    async def delete(self, names: Sequence[str], staged: Sequence[str]) -> None:
        """Delete objects that exist.

        Args:
            staged: names of files beside them that were not finished.
        """
        import obstore

        async def remove(name: str) -> None:
            # Not in bulk: some stores then stop at the first object that does not exist.
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, name)

        for start in range(0, len(names), _DELETED_AT_ONCE):
            async with self.time_limit("written", _REQUEST_SECONDS):
                await asyncio.gather(*map(remove, names[start : start + _DELETED_AT_ONCE]))
        for name in staged:
            if (folder := self._folder()) is not None:
                await asyncio.to_thread((folder / name).unlink, missing_ok=True)

    async def list_files(self) -> list[StoredFile]:
        """All kept files, and what a store of local files has of others."""
        import obstore

        files: list[StoredFile] = []
        async with self.time_limit("listed"):
            async for page in obstore.list(self._store):
                files += [
                    StoredFile(each["path"], each["last_modified"], each["size"])
                    for each in page
                    if FILE_NAME.fullmatch(each["path"])
                ]
        if (folder := self._folder()) is not None:
            files += await asyncio.to_thread(_staged_files, folder)
        return files

    def _folder(self) -> Path | None:
        from obstore.store import LocalStore

        store: Any = self._store
        return Path(store.prefix) if isinstance(store, LocalStore) and store.prefix is not None else None


def _staged_files(folder: Path) -> list[StoredFile]:
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if _STAGED.fullmatch(entry.name):
                with suppress(FileNotFoundError):  # it was finished meanwhile
                    status = entry.stat(follow_symlinks=False)
                    files.append(
                        StoredFile(entry.name, datetime.fromtimestamp(status.st_mtime, UTC), status.st_size)
                    )
    return files


def _write(descriptor: int, data: memoryview, start: int) -> None:
    while data:
        count = os.pwrite(descriptor, data, start)
        data, start = data[count:], start + count


_WAIT_FOR_OTHERS = 0.05
"""Seconds between two looks at a download of another process."""


class _Cache:
    """The copies of a machine. Its processes take turns by locks that end with the process which holds them.

    A copy on which somebody has a lock is in use, and one that is being made has the lock of its maker.

    Args:
        most: bytes of all copies together.

    Attributes:
        files: the copies, and the folders in which files are written.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self.files = LocalResultStorage(folder)
        self._folder, self._most = folder, most
        self._used: dict[str, float] = {}

    @asynccontextmanager
    async def new_copy(self, name: str, size: int) -> AsyncIterator[IO[bytes] | None]:
        """A file of this size, which is the copy after the block; None if another process has made it.

        Raises:
            StorageFullError: the copies that are in use leave no room.
        """
        part = self._folder / f"part-{sha256(name.encode()).hexdigest()[:32]}"
        while True:
            file = _lock(part)
            if file is not None and await self.files.get(name) is None:
                break
            if file is None:
                await asyncio.sleep(_WAIT_FOR_OTHERS)
            else:
                part.unlink(missing_ok=True)
                file.close()
                yield None
                return
        with file:
            try:
                await asyncio.to_thread(self._reserve, file, size)
                yield file
                await self.files.put(name, part)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        self.note_use(name)

    def adopt(self, name: str, file: Path, size: int) -> None:
        """Make a file that was uploaded the copy."""
        with self._locked_folder():
            self._make_room(size)
            move_into_place(file, self._folder / name)
        self.note_use(name)

    def note_use(self, name: str) -> None:
        """Note that a copy is read. Not in its times, which show whether it was changed."""
        self._used[name] = time.time()

    def drop(self, names: Sequence[str]) -> None:
        """Delete unused copies."""
        for name in names:
            if FILE_NAME.fullmatch(name):
                self._evict(name)

    def _reserve(self, file: IO[bytes], size: int) -> None:
        with self._locked_folder():
            os.ftruncate(file.fileno(), 0)
            self._make_room(size)
            os.ftruncate(file.fileno(), size)

    def _make_room(self, size: int) -> None:
        sizes = self._sizes()
        if size > self._most:
            raise StorageError(
                "The kept rows are larger than all copies may be.", hint="Raise cache_bytes over keep_bytes."
            )
        for name in sorted(sizes, key=self._last_used):
            if sum(sizes.values()) + size <= self._most:
                return
            if self._evict(name):
                del sizes[name]
        if sum(sizes.values()) + size > self._most:
            raise StorageFullError(
                "The copies of kept results that are being read leave no room for another one."
            )

    def _sizes(self) -> dict[str, int]:
        """The bytes of all copies, and of those that are made."""
        sizes = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                is_part = entry.name.startswith("part-")
                with suppress(FileNotFoundError):
                    if (is_part or FILE_NAME.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
                        sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return sizes

    def _last_used(self, name: str) -> float:
        """When this process has read a copy. Copies that other processes read are in use, and stay for that reason."""
        if name not in self._used:
            with suppress(FileNotFoundError):
                self._used[name] = (self._folder / name).stat().st_mtime
        return self._used.get(name, 0.0)

    def _evict(self, name: str) -> bool:
        """Delete a copy, or what a process that died left of one; False if it is in use."""
        path = self._folder / name
        file = _lock(path, is_new=False)
        if file is None and path.exists():
            return False
        if file is not None:
            with file:
                path.unlink(missing_ok=True)
        self._used.pop(name, None)
        return True

    @contextmanager
    def _locked_folder(self) -> Iterator[None]:
        with (self._folder / "lock").open("ab") as file:
            lock_file(file)
            yield


def _lock(path: Path, *, is_new: bool = True) -> IO[bytes] | None:
    """A file that is locked for this caller alone; None if it is in use, or another one is there now."""
    try:
        descriptor = os.open(path, os.O_RDWR | NO_FOLLOW | (os.O_CREAT if is_new else 0), 0o600)
    except FileNotFoundError:
        return None
    file = os.fdopen(descriptor, "r+b")
    try:
        lock_file(file, waits=False)
        # Who had the lock may have renamed or deleted the file.
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    return None
