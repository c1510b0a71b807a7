"""PgBouncer in transaction mode, as Debian packages it, before a PostgreSQL of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from tests.engines import START_DEADLINE, PostgreSQL, dies_with_us, unprivileged_user

PORT = 6432

SETTINGS = """
[databases]
* = host={server} port=5432
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
server_reset_query =
"""
"""No statement cleans a session between two clients: what one leaves behind, the next one would find."""


class Pooler(PostgreSQL):
    """PgBouncer, which listens in `socket_folder` and has at most `size` sessions on its server."""

    def __init__(self, folder: Path, server: PostgreSQL, size: int) -> None:
        super().__init__(str(folder))
        self.server = server
        self.size = size

    def url(self, database: str) -> str:
        """The async URL of a database behind it, as docs/operations.md has it."""
        return f"{self.plain_url(database)}&prepared_statement_cache_size=0"

    def plain_url(self, database: str) -> str:
        """The URL without what a pooler needs."""
        return f"{super().url(database)}&port={PORT}"

    async def _execute(self, statement: str, database: str) -> None:
        connection = await asyncpg.connect(
            host=self.socket_folder, port=PORT, user="postgres", database=database, statement_cache_size=0
        )
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def pooler(server: PostgreSQL, *, size: int = 2) -> Iterator[Pooler]:
    """A running PgBouncer, for the length of the block."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    folder = Path(tempfile.mkdtemp(prefix="dualsql-pooler-"))
    (folder / "users").write_text('"postgres" ""\n')
    settings = SETTINGS.format(server=server.socket_folder, folder=folder, port=PORT, size=size)
    (folder / "pgbouncer.ini").write_text(settings)
    identity = unprivileged_user()
    if identity:
        os.chown(folder, identity["user"], identity["group"])
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*dies_with_us(), program, folder / "pgbouncer.ini"],
            stdout=output,
            stderr=output,
            cwd=folder,
            **identity,
        )
    try:
        running = Pooler(folder, server, size)
        _wait_until_up(running, process, log)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=START_DEADLINE)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_up(pooler_of_test: Pooler, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while True:
        try:
            return pooler_of_test.execute("SELECT 1")
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PgBouncer did not start:\n{log.read_text()}") from error
            time.sleep(0.05)
