"""A standalone cluster of Spark: a master, two workers with an executor each, and the Thrift server. Six JVMs, 2 GB."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from sqlalchemy import make_url

from dualsql.databases.spark.driver import SparkConnection

ENVIRONMENT = Path(__file__).parents[2] / ".spark"
"""What scripts/spark_environment makes: pyspark, with the JVM's classes."""

START_DEADLINE = 600.0
"""Seconds in which the Thrift server and all executors must be there; it takes about 20 on two free cores."""

_DAEMON = {"SPARK_DAEMON_MEMORY": "128m"}
_DRIVER = {
    # An executor may not have less than 450 MB.
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.memory": "640m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # So that a stream is computed while it is read, one partition after the other.
    "spark.sql.thriftServer.incrementalCollect": "true",
    "spark.ui.showConsoleProgress": "false",
    # A loop in compiled code sees no interrupt: its executor is replaced.
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.pollingInterval": "1s",
    "spark.task.reaper.killTimeout": "3s",
    "spark.scheduler.mode": "FAIR",
}


def spark_home() -> Path | None:
    """Where pyspark is installed; None where it is not."""
    return next(ENVIRONMENT.glob("lib/python3*/site-packages/pyspark"), None)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


class Cluster:
    """A running cluster.

    Attributes:
        url: of the Thrift server.
        port: of the Thrift server.
        ui: the address of the driver's own pages and of its REST API.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self.folder = folder
        self._home = home
        self._started: list[subprocess.Popen[bytes]] = []
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._master_port, self._ui_port, port = free_port(), free_port(), free_port()
        self.url = f"hive://127.0.0.1:{port}/default"
        self.ui = f"http://127.0.0.1:{self._ui_port}"
        self.port = port

    def start(self) -> None:
        master = (
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(self._master_port),
        )
        self._daemon("master", *master, "--webui-port", "0")
        for number in (1, 2):
            self.start_worker(number)
        metastore = self.folder / "metastore"
        options = {
            **_DRIVER,
            "spark.ui.port": str(self._ui_port),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={self.folder} -Djava.io.tmpdir={self.folder}",
        }
        conf = [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
        self._run(
            "thrift",
            str(self._home / "bin" / "spark-submit"),
            "--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
            "--master", f"spark://127.0.0.1:{self._master_port}",
            *conf,
            "spark-internal",
            "--hiveconf", f"hive.server2.thrift.port={self.port}",
            "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1",
        )  # fmt: skip
        self._wait()

    def start_worker(self, number: int) -> None:
        work = self.folder / f"worker{number}"
        worker = (
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            "--cores",
            "1",
        )
        self._daemon(
            f"worker{number}", *worker, "--memory", "512m", "--work-dir", str(work),
            f"spark://127.0.0.1:{self._master_port}",
        )  # fmt: skip
        self._workers[number] = self._started[-1]

    def kill_worker(self, number: int) -> None:
        """End a worker at once. Its executor notices, and ends too."""
        self._workers[number].kill()
        self._workers[number].wait()

    def stop(self) -> None:
        for process in reversed(self._started):
            process.send_signal(signal.SIGTERM)
        for process in self._started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, *statements: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements, on a connection that may write."""
        parts = make_url(url or self.url)
        opened = SparkConnection(
            {"host": parts.host, "port": parts.port, "database": parts.database}, only_reads=False
        )
        try:
            cursor = opened.cursor()
            for statement in statements:
                cursor.execute(statement.replace("%", "%%"))
            return cursor.fetchall()
        finally:
            opened.close()

    def executors(self) -> list[int]:
        """The process ids of the executors' JVMs."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (process / "cmdline").read_bytes()
                is_executor = b"CoarseGrainedExecutorBackend" in line
                if is_executor and self.folder in (process / "cwd").readlink().parents:
                    found.append(int(process.name))
        return found

    def jobs(self, status: str = "running") -> list[dict[str, Any]]:
        """Spark's own list of jobs."""
        application = self._asked("applications")[0]["id"]
        answer: list[dict[str, Any]] = self._asked(f"applications/{application}/jobs?status={status}")
        return answer

    def _asked(self, path: str) -> Any:
        with urlopen(f"{self.ui}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)

    def _daemon(self, name: str, *command: str) -> None:
        self._run(name, str(self._home / "bin" / "spark-class"), *command, **_DAEMON)

    def _run(self, name: str, *command: str, **variables: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment = {
            **inherited, **variables,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder),
        }  # fmt: skip
        with (self.folder / f"{name}.log").open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    command, cwd=self.folder, env=environment, stdout=log, stderr=subprocess.STDOUT
                )
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            assert self._started[-1].poll() is None, (self.folder / "thrift.log").read_text()[-4000:]
            # The first answer of its pages takes longer than a query, which would be over then.
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                if len(self.executors()) == len(self._workers) and not self.jobs():
                    return
            time.sleep(0.25)
        raise TimeoutError((self.folder / "thrift.log").read_text()[-4000:])


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster that is stopped at the end of the block."""
    home = spark_home()
    assert home is not None, "make test-spark"
    running = Cluster(home, folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()
