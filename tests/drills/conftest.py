"""What drills share: a balancer, and the row that each drill adds to the report."""

from __future__ import annotations

import asyncio
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from tests.failures.conftest import data_url, own_cluster, url
from tests.relay import Relay
from tests.serve.conftest import shop

__all__ = ["data_url", "own_cluster", "shop", "url"]


class Row(NamedTuple):
    """What a drill found, as docs/reliability.md tells it."""

    drill: str
    lost: str
    told: str
    recovery: str


ROWS: list[Row] = []

SOAKS: list[str] = []
"""Of each soak: the database, its minutes, the answers, what was held at the beginning and at the end."""


@dataclass
class Report:
    """Of one drill: when the trouble ended, and what is told."""

    drill: str
    over_at: float = 0.0

    def end_trouble(self) -> None:
        """The trouble ends now; recovery is counted from here."""
        self.over_at = time.monotonic()

    def tell(self, *, lost: str = "nothing", told: str, recovery: str | None = None) -> None:
        """Add the row; the recovery ends now unless it is given in words."""
        seconds = f"{time.monotonic() - self.over_at:.1f} s"
        ROWS.append(Row(self.drill, lost, told, seconds if recovery is None else recovery))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """The row of this drill, named by its docstring's first line."""
    return Report(str(request.function.__doc__).partition("\n")[0].rstrip("."))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the rows of this run as docs/reliability.md has them."""
    for row in ROWS:
        terminalreporter.write_line(f"| {' | '.join(row)} |")
    for soak in SOAKS:
        terminalreporter.write_line(soak)


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
