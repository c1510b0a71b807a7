"""The store of `dualsql serve --stdio`: a file of the user, which the process of the next call reads, too.

Each served database, with its choice of tables, has a file of its own. The secret that signs the results is in a file
beside them.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import sys
import time
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import URL
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from dualsql.databases.engines import parsed_url
from dualsql.extension import Parts
from dualsql.feature import Feature
from dualsql.store.tables import metadata
from dualsql_client.identifiers import id_characters, random_characters
from dualsql_client.local_servers import MARK_LENGTH, make_private

if TYPE_CHECKING:
    from dualsql.cli.options import ServeOptions
    from dualsql.server import ResultServer

_UNUSED = 30 * 24 * 3600
"""Seconds after which the file of a server that was not started again is deleted."""

_SECRET_BYTES = 48


class LocalStore(NamedTuple):
    """A file that keeps results, the secret that signs them, and the mark of their ids."""

    url: str
    secret: str
    mark: str


class MarkedIds(Feature):
    """The ids of results begin with the mark of their server, by which clients find it."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def attach(self, server: ResultServer, parts: Parts) -> None:
        parts.creator.id_start = self._mark


def new_mark() -> str:
    """A mark for a server whose results end with its process."""
    return random_characters(MARK_LENGTH)


def state_folder() -> Path:
    """By the XDG Base Directory Specification; on Windows in the local application data."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "dualsql"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "dualsql"


def open_local_store(options: ServeOptions) -> LocalStore | None:
    """The store of the server with these options; None if the user has no folder in which to make one."""
    folder = state_folder()
    try:
        make_private(folder)
        secret = _secret(folder / "secret")
        identity = hmac.new(secret.encode(), _identity(options).encode(), sha256).digest()
        path = folder / f"{identity.hex()[:32]}.sqlite"
        _delete_unused(folder, path)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
        os.utime(path)
        _create_tables(path)
    except (OSError, sqlite3.Error):
        return None
    return LocalStore(URL.create("sqlite", database=str(path)).render_as_string(), secret, _mark(identity))


def _identity(options: ServeOptions) -> str:
    """A text that is equal for two processes that may read one another's results."""
    if options.files:
        served = [str(path.absolute()) for path in options.files]
    else:
        url = parsed_url(options.database)
        # The path of a file may be relative.
        served = [url.set(password=None).render_as_string(), "" if url.host else str(Path.cwd())]
    selection = (options.schema, options.tables, options.everything, options.read_only_role)
    callers = (options.authenticate, options.token is not None)
    schema = {name: table.columns.keys() for name, table in metadata.tables.items()}
    return repr((served, selection, callers, schema))


def _mark(identity: bytes) -> str:
    return id_characters(int.from_bytes(identity[16:]), MARK_LENGTH)


def _secret(path: Path) -> str:
    """The secret in a file, which is made if it is not there."""
    with suppress(FileNotFoundError):
        return _private_text(path)
    draft = path.with_name(f"secret-{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(_SECRET_BYTES))
    try:
        # Another process may have been first; a link never replaces its file.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    return _private_text(path)


def _private_text(path: Path) -> str:
    text = path.read_text("utf-8")
    if len(text) < _SECRET_BYTES or (sys.platform != "win32" and path.lstat().st_mode & 0o077):
        raise PermissionError(f"{path} is not a private secret.")
    return text


def _create_tables(path: Path) -> None:
    """Create the tables of this release, unless they are there. The name of the file has its schema.

    Not by the migrations: importing Alembic takes a third of the time in which a host expects an answer.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            for table in metadata.sorted_tables:
                statements: list[ExecutableDDLElement] = [
                    CreateTable(table),
                    *map(CreateIndex, table.indexes),
                ]
                for statement in statements:
                    connection.execute(str(statement.compile(dialect=sqlite.dialect())))
        connection.execute("COMMIT")


def _delete_unused(folder: Path, own: Path) -> None:
    oldest = time.time() - _UNUSED
    for path in folder.glob("*.sqlite*"):
        with suppress(OSError):
            if not path.name.startswith(own.name) and path.stat().st_mtime < oldest:
                path.unlink()
