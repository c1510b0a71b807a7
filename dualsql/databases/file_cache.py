"""Databases of files that an earlier start has read, in the cache folder of the user.

Only of many bytes: a few megabytes are read sooner than a cache is searched, and would be left behind by each trial.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import IO

from dualsql.databases.files import FileLoader, LoadedTable
from dualsql.settings import user_cache

CACHED_FROM = 64 * 1024**2
"""Bytes of all files together."""
_MOST_BYTES = 16 * 1024**3
_LONGEST_SECONDS = 30 * 24 * 3600
_LOCK = "lock"


def file_cache_folder() -> Path:
    """The folder of these databases."""
    return user_cache() / "files"


@contextmanager
def private_folder(parent: Path | None) -> Iterator[Path]:
    """A new private folder of a database that is served. It is locked, so that no process takes it for an old one."""
    with TemporaryDirectory(prefix="dualsql-", dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / _LOCK).open("wb") as file:
            _lock(file)
            yield folder


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed. False if another process has done so.

    Windows does not delete the database of a process that runs.
    """
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


@dataclass(frozen=True, slots=True)
class FileCache:
    """The databases in a folder, each for the same files with the same content.

    A database is linked to where it is served, so that another process may remove it from the cache.
    """

    folder: Path

    def restore(self, loader: FileLoader) -> bool:
        """Link the database of the loader's files to its path, and list its tables. False if there is none."""
        try:
            path = self.path_of(loader)
            described = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            os.link(path, loader.database)
        except (OSError, ValueError):
            return False
        loader.allow()
        loader.tables[:] = [
            LoadedTable(**{**table, "columns": [tuple(column) for column in table["columns"]]})
            for table in described["tables"]
        ]
        with suppress(OSError):
            for each in (path, path.with_suffix(".json")):
                os.utime(each)
        return True

    def keep(self, loader: FileLoader, path: Path) -> None:
        """Keep the database that was loaded, if the disk has links; then remove old ones.

        Args:
            path: of `path_of` before the files were read. If one has changed since, the database is not kept.
        """
        if self.path_of(loader) != path:
            return
        described = {"tables": [asdict(table) for table in loader.tables]}
        with suppress(OSError):
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(described), encoding="utf-8")
            path.unlink(missing_ok=True)
            with loader.database.open("r+b") as database:
                os.fsync(database.fileno())  # the import does not wait for the disk
            os.link(loader.database, path)
            part.replace(path.with_suffix(".json"))
        self._remove_old()

    def path_of(self, loader: FileLoader) -> Path:
        """The path of the database of these files in their present state."""
        facts = [(str(path), *_state_of(path)) for path in loader.paths]
        packages = [version(name) for name in ("dualsql", "duckdb")]
        digest = hashlib.sha256(json.dumps([facts, loader.encoding, packages]).encode())
        return self.folder / f"{digest.hexdigest()}{loader.database.suffix}"

    def _remove_old(self) -> None:
        """Remove what was not used for a month, and beyond 16 GiB what was used longest ago."""
        with suppress(OSError):
            entries = sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            total, oldest = 0, time.time() - _LONGEST_SECONDS
            for entry in entries:
                state = entry.stat()
                total += 0 if entry.is_dir() else state.st_size
                if state.st_mtime > oldest and (total <= _MOST_BYTES or entry.is_dir()):
                    continue
                if entry.is_dir():
                    _remove_unserved(entry)
                else:
                    entry.unlink(missing_ok=True)


def _remove_unserved(folder: Path) -> None:
    """Remove the folder of a server that was killed."""
    with suppress(FileNotFoundError), (folder / _LOCK).open("rb") as file:
        if not _lock(file):
            return
    rmtree(folder, ignore_errors=True)


def _state_of(path: Path) -> Sequence[int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino
