"""SQLite's file may be removed or replaced while it is open; the rule: nothing is written where nobody will look.

A connection to a removed file goes on writing into what has no name any more, and a new one would make an
empty file in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError

_OPENED = "dualsql_opened_file"


class MissingFileError(OSError):
    """The database's file is not in its folder."""


def watch_file(engine: Engine) -> None:
    """Let the engine's connections end with their file, and none be made where there is none."""
    path = Path(str(engine.url.database))
    if engine.url.database is None or str(path).startswith("file:"):
        return

    def refuse_to_create(*_connecting: Any) -> None:
        # Without the folder SQLite fails by itself.
        if path.parent.is_dir() and not path.exists():
            raise MissingFileError("The SQLite file does not exist.")

    def remember_file(_connection: Any, record: Any) -> None:
        record.info[_OPENED] = _identity(path)

    def compare_file(_connection: Any, record: Any, _proxy: Any) -> None:
        if record.info.get(_OPENED) != _identity(path):
            raise InvalidatePoolError("The SQLite file was removed or replaced.")

    event.listen(engine, "do_connect", refuse_to_create)
    event.listen(engine, "connect", remember_file)
    event.listen(engine, "checkout", compare_file)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
