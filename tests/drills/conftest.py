"""What drills share: a balancer, and the row that each drill adds to the report."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from dataclasses import dataclass

import pytest

from benchmarks.drills import Drill, Soak, keep
from tests.failures.conftest import data_url, own_cluster, url
from tests.relay import Relay
from tests.serve.conftest import shop

__all__ = ["data_url", "own_cluster", "shop", "url"]


DRILLS: list[Drill] = []
"""What the drills of this run found."""

SOAKS: list[Soak] = []
"""What its soaks found."""


@dataclass
class Report:
    """Of one drill: when the trouble ended, and what is told."""

    drill: str
    database: str | None
    over_at: float = 0.0

    def end_trouble(self) -> None:
        """The trouble ends now; recovery is counted from here."""
        self.over_at = time.monotonic()

    def tell(self, *, lost: str = "nothing", told: str, recovery: str | None = None) -> None:
        """Add the row; the recovery ends now unless it is given in words."""
        seconds = f"{time.monotonic() - self.over_at:.1f} s"
        recovery = seconds if recovery is None else recovery
        DRILLS.append(Drill(self.drill, lost, told, recovery, self.database))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """The row of this drill, named by its docstring's first line."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    name = str(request.function.__doc__).partition("\n")[0].rstrip(".")
    return Report(name, NAMES.get(parameters.get("kind")))


NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print what this run found; `make drills` and `make soak` keep it for docs/reliability.md if all held."""
    for found in (*DRILLS, *SOAKS):
        terminalreporter.write_line(str(found))
    if os.environ.get("DUALSQL_KEEP_DRILLS") and exitstatus == pytest.ExitCode.OK:
        keep(DRILLS, SOAKS)


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
