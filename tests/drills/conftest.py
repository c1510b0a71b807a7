"""A balancer, and the row that each drill adds to the report."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks import machine
from benchmarks.drills import Drill, Soak, record
from tests.failures.conftest import data_url, own_cluster, url
from tests.relay import Relay
from tests.serve.conftest import shop

__all__ = ["data_url", "own_cluster", "shop", "url"]


RESULTS: list[Drill | Soak] = []
"""Of the drills of this run that held."""

_OF_TEST = pytest.StashKey[list[Drill | Soak]]()
COMMIT = machine.commit() if os.environ.get("DUALSQL_KEEP_DRILLS") else ""
"""The code that runs; empty if no result is recorded."""
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}


@dataclass
class Report:
    """When the trouble of a drill ended, and its results."""

    drill: str
    database: str | None
    results: list[Drill | Soak]
    ended_at: float = 0.0

    def end_trouble(self) -> None:
        """The trouble ends now; recovery is counted from here."""
        self.ended_at = time.monotonic()

    def add(self, *, lost: str = "nothing", effect: str, recovery: str | None = None) -> None:
        """Add the row; the recovery ends now unless it is given in words."""
        seconds = f"{time.monotonic() - self.ended_at:.1f} s"
        recovery = seconds if recovery is None else recovery
        self.results.append(Drill(self.drill, lost, effect, recovery, self.database))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """The row of this drill, named by its docstring's first line."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    name = str(request.function.__doc__).partition("\n")[0].rstrip(".")
    return Report(name, NAMES.get(str(parameters.get("kind"))), request.node.stash.setdefault(_OF_TEST, []))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Take the results of a drill that held."""
    outcome = yield
    if outcome.when == "call" and outcome.passed:
        results = item.stash.get(_OF_TEST, [])
        RESULTS.extend(results)
    return outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the results; `make drills` and `make soak` write them into docs/reliability.md."""
    for each in RESULTS:
        terminalreporter.write_line(str(each))
    if COMMIT and RESULTS:
        record(RESULTS, COMMIT)


class Balancer(Relay):
    """Carries each connection to the first of its servers that takes it."""

    def __init__(self) -> None:
        super().__init__(0)
        self.targets: list[int] = []

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Carry one connection, or close it if no server takes it."""
        for target in self.targets:
            with suppress(ConnectionRefusedError):
                _, probe = await asyncio.open_connection("127.0.0.1", target)
                probe.close()
                self.target = target
                await super().accept(reader, writer)
                return
        writer.close()
