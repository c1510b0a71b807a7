"""Storages of the files of kept results: the interface, and a folder of this machine."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple, Protocol, TypeVar

from dualsql.errors import ConfigurationError, StorageError
from dualsql.threads import shielded

T = TypeVar("T")

fcntl: Any = None
with suppress(ImportError):  # Windows
    import fcntl

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""The flag that refuses to open a link."""

FILE_NAME = re.compile(r"([A-Za-z0-9_.~-]{1,64})@[0-9a-f]{16}")
"""The name of a kept file: the id of its resource, and a random part."""

_PART = re.compile(r"part-[a-z0-9_]{8}")
"""A folder of `tempfile.mkdtemp`."""
_SPILLED = re.compile(rf"({FILE_NAME.pattern})\.tmp")
"""The folder that DuckDB makes beside a file for what does not fit its memory."""
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""Opening a pipe would wait for a writer."""
_ID_FILE = "storage-id"
"""The mark of a folder that is ours: in another one, nothing is written and nothing removed."""
_NEW_ID_FILE = f"{_ID_FILE}.new"
_ID = re.compile(r"[0-9a-f]{32}\s*")
_OF_FILE_SYSTEMS = frozenset({"lost+found"})


def new_file_name(resource_id: str) -> str:
    """A name for a file of a resource that no other file has."""
    return f"{resource_id}@{secrets.token_hex(8)}"


class StoredFile(NamedTuple):
    """A file of a storage: its name, when it was last written, and its size in bytes (0 of what is no file)."""

    name: str
    written_at: datetime
    size: int


class StorageFullError(StorageError):
    """A file cannot be read, because others that are in use leave no room for it on this machine."""


class ResultStorage(Protocol):
    """Keeps the files of results. Failures are raised as StorageError.

    A file on which somebody has a lock (flock) is in use: it stays where it is, unless it is deleted.

    A storage belongs to one store of resources: files whose resource that store does not have are deleted.
    """

    @property
    def id(self) -> str:
        """The same for all processes that find the same files; known once it is open."""
        ...

    async def open(self) -> None:
        """Prepare for use. Called whenever a server starts."""
        ...

    def new_folder(self) -> Path:
        """A new folder of this machine, which only this user can read. A file is written there before it is put."""
        ...

    async def put(self, name: str, file: Path) -> None:
        """Keep a complete file under a new name; it is moved. It is there as a whole, also after a crash, or not."""
        ...

    async def get(self, name: str) -> Path | None:
        """The path at which this machine can read the file; None if it does not exist. Nothing writes to it any more.

        Raises StorageFullError if that needs room which files in use have.
        """
        ...

    async def delete(self, *names: str) -> None:
        """Delete files that exist. Processes that read one can read it to its end."""
        ...

    async def list_files(self) -> Sequence[StoredFile]:
        """All files, and what processes that were stopped left of others."""
        ...


class LocalResultStorage:
    """Keeps the files of results in a folder of this machine, which only this user can read.

    The files hold rows of your databases as they are. Where that matters, encrypt the disk.

    Args:
        path: of the folder; it is made if it does not exist, and taken if it is empty (`lost+found` does not count) or
            was made by this class. Several processes of one machine may share it.

    Attributes:
        folder: the path.

    Raises:
        ConfigurationError: when the server starts: it is no folder, it has files of something else, or others may write
            to it.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = self.folder = Path(path).absolute()
        self._id = ""

    @property
    def id(self) -> str:
        return self._id

    async def open(self) -> None:
        require_locks()
        with self._folder_errors():
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.require_safe()
            self._id = await asyncio.to_thread(self._mark)

    async def check(self) -> None:
        """Raise ConfigurationError if the folder cannot be used, or not be made. Nothing is left of the attempt."""
        require_locks()
        with self._folder_errors():
            await asyncio.to_thread(self._check)

    def _check(self) -> None:
        if self._path.exists() or self._path.is_symlink():
            self.require_safe()
            self._read_id()
        # Write what a start writes, and delete it.
        folder = next(path for path in (self._path, *self._path.parents) if path.exists())
        with tempfile.TemporaryDirectory(prefix="part-", dir=folder) as trial:
            Path(trial, _ID_FILE).write_bytes(bytes(4096))

    @contextmanager
    def _folder_errors(self) -> Iterator[None]:
        """Turn an OSError into a ConfigurationError."""
        try:
            yield
        except OSError as error:
            cause = os.strerror(error.errno) if error.errno else type(error).__name__
            raise ConfigurationError(
                f"The folder of kept results cannot be used: {cause}.", hint=f"Check {self._path}."
            ) from error

    def require_safe(self) -> None:
        """Raise ConfigurationError if it is no folder, or other users may use it; OSError if it does not exist.

        DuckDB writes the files of a large sort there, with the umask of the process.
        """
        status = self._path.stat()
        if not S_ISDIR(status.st_mode):
            raise ConfigurationError("The folder of kept results is a file.", hint=f"Check {self._path}.")
        if status.st_mode & 0o077 or status.st_uid != os.getuid():
            raise ConfigurationError(
                "The folder of kept results is not safe: other users may read it or write to it.",
                hint=f"chmod 700 {self._path}, as its owner, who runs the server.",
            )

    def _mark(self) -> str:
        """The id in the mark, which is made in an empty folder."""
        folder = os.open(self._path, os.O_RDONLY | _DIRECTORY)
        try:
            # Of several processes that start, one makes the mark, and the others find it.
            lock_file(folder)
            folder_id = self._read_id()
            if folder_id is None:
                folder_id, new = secrets.token_hex(16), self._path / _NEW_ID_FILE
                new.unlink(missing_ok=True)  # a link would be followed
                new.write_text(folder_id, "ascii")
                move_into_place(new, self._path / _ID_FILE)
            return folder_id
        finally:
            os.close(folder)

    def _read_id(self) -> str | None:
        """The id in the mark; None in an empty folder, which has none.

        Raises:
            ConfigurationError: it is the folder of something else.
        """
        with suppress(FileNotFoundError, UnicodeDecodeError):
            descriptor = os.open(self._path / _ID_FILE, os.O_RDONLY | NO_FOLLOW | _NO_WAIT)
            with os.fdopen(descriptor, encoding="ascii") as file:
                if _ID.fullmatch(text := file.read(100)):
                    return text.strip()
        names = {entry.name for entry in os.scandir(self._path)} - _OF_FILE_SYSTEMS - {_NEW_ID_FILE}
        if names:
            raise ConfigurationError(
                "The folder of kept results has files of something else.",
                hint=f"Give a folder that is empty or does not exist yet: in {self._path} is {min(names)[:80]!r}.",
            )
        return None

    def new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="part-", dir=self._path))

    async def put(self, name: str, file: Path) -> None:
        try:
            await asyncio.to_thread(move_into_place, file, self._path_of(name))
        except OSError as error:
            raise StorageError("A result could not be kept.") from error

    async def get(self, name: str) -> Path | None:
        path = self._path_of(name)
        try:
            status = path.lstat()
        except OSError:
            return None
        return path if S_ISREG(status.st_mode) else None

    async def delete(self, *names: str) -> None:
        for name in names:
            is_left = self._is_left(name)
            path = self._path / name if is_left else self._path_of(name)
            try:
                if is_left and path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif not is_left:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageError("A kept result could not be deleted.") from error

    async def list_files(self) -> Sequence[StoredFile]:
        files: list[StoredFile] = []
        try:
            with os.scandir(self._path) as entries:
                for entry in entries:
                    is_file = entry.is_file(follow_symlinks=False)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if (is_file and FILE_NAME.fullmatch(entry.name)) or (
                        is_folder and self._is_left(entry.name)
                    ):
                        with suppress(FileNotFoundError):  # another process has deleted it
                            status = entry.stat(follow_symlinks=False)
                            changed_at = datetime.fromtimestamp(status.st_mtime, UTC)
                            files.append(StoredFile(entry.name, changed_at, status.st_size if is_file else 0))
        except OSError as error:
            raise StorageError("The folder of kept results cannot be read.") from error
        return files

    def _is_left(self, name: str) -> bool:
        spilled = _SPILLED.fullmatch(name)
        if spilled is not None:
            return not _is_locked(self._path / spilled[1])
        return _PART.fullmatch(name) is not None and not _is_locked(self._path / name)

    def _path_of(self, name: str) -> Path:
        require_name(name)
        return self._path / name


def require_name(name: str) -> None:
    """Raise StorageError for a name that no kept file has."""
    if not FILE_NAME.fullmatch(name):
        raise StorageError("A kept result has a name that no file can have.")


async def shared(
    running: dict[str, asyncio.Task[T]], name: str, begin: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """The result of the running task of this name; if none runs, of what `begin` makes."""
    task = running.get(name)
    if task is None:
        task = running[name] = asyncio.create_task(begin())
        task.add_done_callback(lambda _: running.pop(name))
    # Others may wait for the same task: one that leaves does not end it.
    return await shielded(task)


def require_locks() -> None:
    """Raise ConfigurationError if this system has no such locks: nothing can be kept there."""
    if fcntl is None:
        raise ConfigurationError(
            "Results cannot be kept on this system: it has no locks on files that end with their process.",
            hint="Leave out the storage of Kept (--keep): results are read from the database.",
        )


def lock_file(file: Any, *, is_shared: bool = False, waits: bool = True) -> None:
    """Lock an open file or its number.

    Raises:
        BlockingIOError: another process has a lock, and `waits` is False.
    """
    require_locks()
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if waits else kind | fcntl.LOCK_NB)


def _is_locked(path: Path) -> bool:
    """Whether a running process has a lock on a file or folder."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW)
    except OSError:
        return False
    try:
        lock_file(descriptor, waits=False)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def move_into_place(file: Path, path: Path) -> None:
    """Give a complete file of the same disk its name, so that it is there as a whole also after a crash."""
    # Its writer made it by the umask, and a folder that was there before may be open to readers.
    file.chmod(0o600)
    _synchronize(file)
    file.rename(path)
    # A new name is on the disk only when its folder is: fsync(2).
    _synchronize(path.parent)


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
