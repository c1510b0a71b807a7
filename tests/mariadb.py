"""A MariaDB of the test session's own. A child process with its own data, reached by its socket only.

It is the system's `mariadbd` (Debian: mariadb-server). Where there is none, tests that ask for it are skipped
and say so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import asyncmy
from asyncmy.errors import OperationalError

from tests.engines import START_DEADLINE, dies_with_us, make_or_copy, unprivileged_user

LOG_SIZE = "--innodb-log-file-size=8M"  # the default of 96 MB would be written, and copied for each worker
SERVER_OPTIONS = (
    LOG_SIZE,
    "--skip-networking",
    "--skip-log-bin",
    "--character-set-server=utf8mb4",
    "--innodb-buffer-pool-size=32M",
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-innodb-doublewrite",
    "--max-connections=200",
)


class MariaDB:
    """A running server, reached as its user `root` through `socket`."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    @contextmanager
    def database(self) -> Iterator[str]:
        """The async URL of a new database, dropped at the end of the block."""
        name = f"test_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name}")

    def url(self, database: str) -> str:
        """The async URL of one of its databases."""
        return f"mysql+asyncmy://root@/{database}?unix_socket={self.socket}"

    def execute(self, statement: str) -> None:
        """Run one statement outside any test's event loop, on a connection of its own."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, self._execute(statement)).result()

    async def _execute(self, statement: str) -> None:
        connection = await asyncmy.connect(unix_socket=str(self.socket), user="root")
        try:
            async with connection.cursor() as cursor:
                await cursor.execute(statement)
        finally:
            await connection.ensure_closed()


def find_server() -> str | None:
    """The path of the installed server, or None."""
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextmanager
def mariadb_server(program: str) -> Iterator[MariaDB]:
    """A server for the length of the block; raises when it does not come up."""
    # Not pytest's own temporary folder: its parents are closed to the user the server runs as, and its path is
    # too long for a socket's.
    folder = Path(tempfile.mkdtemp(prefix="dualsql-my-"))
    identity = unprivileged_user("mysql")
    try:
        if identity:
            os.chown(folder, identity["user"], identity["group"])
        make_or_copy("mariadb", folder / "data", lambda: _install(folder))
        # A server that starts empties its folder of temporary tables: those of another one, were it shared.
        own = [
            f"--datadir={folder}/data",
            f"--tmpdir={folder}",
            f"--socket={folder}/s",
            f"--pid-file={folder}/pid",
        ]
        with (folder / "log").open("wb") as output:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [*dies_with_us("KILL"), program, "--no-defaults", *own, *SERVER_OPTIONS],
                stdout=output,
                stderr=output,
                cwd=folder,
                **identity,
            )
        try:
            server = MariaDB(folder / "s")
            _wait_until_up(server, process, folder / "log")
            yield server
        finally:
            process.send_signal(signal.SIGKILL)  # the data goes next, and no client is waited for
            process.wait(timeout=START_DEADLINE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _install(folder: Path) -> None:
    """Make the server's own tables, with a root that needs no password."""
    install = shutil.which("mariadb-install-db")
    assert install, "mariadbd is installed without mariadb-install-db"
    owner = ["--user=mysql"] if os.geteuid() == 0 else []
    installed = subprocess.run(
        [
            install,
            "--no-defaults",
            f"--datadir={folder}/data",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            LOG_SIZE,
            f"--tmpdir={folder}",
            *owner,
        ],
        check=False,
        capture_output=True,
        cwd=folder,
    )
    if installed.returncode:
        raise RuntimeError(f"MariaDB's tables were not made:\n{installed.stdout!r}\n{installed.stderr!r}")


def _wait_until_up(server: MariaDB, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while True:
        try:
            return server.execute("DO 1")
        except (OSError, OperationalError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"MariaDB did not start:\n{log.read_text()}") from error
            time.sleep(0.05)
