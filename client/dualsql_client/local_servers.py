"""Servers that hosts have started on this machine for this user (`dualsql serve --stdio`), each known by a file.

A file holds the address of one server and its mark, with which the ids of its results begin. Files and folder can be
read and written by their user alone; others are ignored, because a client sends requests to what they name.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

MARK_LENGTH = 5
"""Characters at the start of an id. The 131 random bits behind them are more than MCP's 122."""

_LARGEST_FILE = 4_096
_MOST_FILES = 1_000
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def folder() -> Path:
    """The folder of the files: in the user's runtime folder, or in the temporary one where the system has none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return Path(runtime) / "dualsql"
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"dualsql-{user}"


@contextmanager
def announce(base_url: str, mark: str) -> Iterator[Path | None]:
    """A file about the server at `base_url`, for the length of the block; None where no private file can be made."""
    path = folder() / f"{mark}-{os.getpid()}.json"
    try:
        make_private(path.parent)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            json.dump({"base_url": base_url, "mark": mark, "pid": os.getpid()}, file)
    except OSError:
        yield None
        return
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def make_private(path: Path) -> None:
    """Make a folder that its user alone can open.

    Raises:
        OSError: it cannot be made, or is another user's, or a link.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(path, stat.S_ISDIR):
        raise PermissionError(f"{path} can be opened by others.")


def address_of(identifier: str) -> str | None:
    """The base URL of the running server whose results have ids like this; of several, the one that started last."""
    mark = identifier[:MARK_LENGTH]
    try:
        if len(mark) < MARK_LENGTH or not mark.isalnum() or not _is_private(folder(), stat.S_ISDIR):
            return None
        files = sorted(islice(folder().glob(f"{mark}-*.json"), _MOST_FILES), key=_start_of, reverse=True)
    except OSError:
        return None
    return next((address for path in files if (address := _read(path, mark)) is not None), None)


def _read(path: Path, mark: str) -> str | None:
    try:
        if not _is_private(path, stat.S_ISREG) or path.stat().st_size > _LARGEST_FILE:
            return None
        content = json.loads(path.read_text("utf-8"))
        base_url, pid = content["base_url"], content["pid"]
        parts = urlsplit(base_url)
        is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK and parts.username is None
        return base_url if is_local and content["mark"] == mark and _is_running(pid) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _start_of(path: Path) -> float:
    return path.lstat().st_mtime


def _is_private(path: Path, is_kind: object) -> bool:
    status = path.lstat()
    if sys.platform == "win32":  # which has no such modes; the folders are in the profile of the user
        return True
    is_ours = status.st_uid == os.getuid() and not status.st_mode & 0o077
    return is_ours and bool(is_kind(status.st_mode))  # type: ignore[operator]


def _is_running(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    if sys.platform == "win32":  # os.kill would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
