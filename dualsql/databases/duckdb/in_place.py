"""Files that the database of files reads in place, by its views: nothing else of the machine can be read.

DuckDB would also write to a path that it may read, for a COPY. What a caller sends is always a SELECT.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from dualsql.errors import QueryExecutionError

_State = tuple[int, int, int] | None
_files: dict[Path, Mapping[Path, _State]] = {}
"""By the path of a database. Of this process: a database must not say itself what its views may read."""


def read_in_place(database: Path, files: Iterable[Path]) -> None:
    """Let views of the database that is or will be here read these files, as long as they do not change."""
    _files[database.resolve()] = {path: _state_of(path) for path in files}


def url_of_files(url: URL) -> URL:
    """The URL; of a database that reads files in place, with access to files, which `allow_files` ends."""
    return url.update_query_dict({"enable_external_access": "true"}) if _files_of(url.database) else url


def allow_files(connection: Any) -> None:
    """Let an instance read the files of its database, and no others."""
    [path] = connection.execute(
        "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    ).fetchone()
    files = _files_of(path)
    if not files:
        return
    for file in (each for each in files if each.name.lower().endswith(".duckdb")):
        # One that could not be read has no views; of one that cannot be read any more, they fail.
        with suppress(import_module("duckdb").Error):
            attach(connection, file)
    connection.execute(f"SET allowed_paths = [{', '.join(text_literal(str(file)) for file in files)}]")
    connection.execute("SET enable_external_access = false")


def attach(connection: Any, file: Path) -> str:
    """Attach a database read-only. Returns its name, which is the same in every instance."""
    name = f"file_{hashlib.sha256(str(file).encode()).hexdigest()[:24]}"
    connection.execute(f"ATTACH IF NOT EXISTS {text_literal(str(file))} AS {name} (READ_ONLY)")
    return name


def require_unchanged(database: str | None) -> None:
    """Refuse to read files that are not as they were at the start: pages would repeat or lose rows.

    Raises:
        QueryExecutionError: one of them has changed.
    """
    for path, state in _files_of(database).items():
        if _state_of(path) != state:
            raise QueryExecutionError(
                f"The file {path.name[:200]!r} has changed since the server was started.",
                hint="Start the server again.",
            )


def text_literal(value: str) -> str:
    """The text as a literal in SQL."""
    return "'" + value.replace("'", "''") + "'"


def _files_of(database: str | None) -> Mapping[Path, _State]:
    return _files.get(Path(database).resolve(), {}) if _files and database else {}


def _state_of(path: Path) -> _State:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns, state.st_ino
