"""What a call does while its query takes its time; the rule: whoever waits is told that it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple

from dualsql.formats.samples import TextFormat
from dualsql.response import Links, ResultsFormat

Report = Callable[[float, str], Awaitable[None]]
"""Tells a client how many seconds a call has taken, and what it does."""

INTERVAL = 1.0
"""Seconds between two words of progress. Hosts that give up on a silent call do so after five, or more."""


Envelope = Literal["dual_response", "dual_mode"]
"""Whether a result is the dual response of seeds/000, or that in the dual-mode answer of seeds/001."""


class Style(NamedTuple):
    """How a tool writes its results."""

    results_format: ResultsFormat
    text_format: TextFormat
    links: Links
    envelope: Envelope = "dual_response"


@dataclass(slots=True)
class Offer:
    """The client of this call would take a task in place of a result that is long in coming.

    Attributes:
        wait: how long is long.
        taken: the resource that is pending, and how its result is to be written; None while the offer stands.
    """

    wait: timedelta
    taken: tuple[str, Style] | None = None


OFFER: ContextVar[Offer | None] = ContextVar("dualsql_task_offer", default=None)


@asynccontextmanager
async def reporting(report: Report | None) -> AsyncIterator[None]:
    """Say now and then that the block goes on."""
    if report is None:
        yield
        return
    telling = asyncio.create_task(_tell(report))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.wait({telling})


async def _tell(report: Report) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    # A client that has gone, or asked for no progress in a way the SDK minds, is no reason for the query to fail.
    with suppress(Exception):
        while True:
            await asyncio.sleep(INTERVAL)
            seconds = round(clock() - begun)
            await report(seconds, still_runs(seconds))


def still_runs(seconds: int) -> str:
    """What is said of a query after so many seconds."""
    return f"The query has run for {seconds} {'second' if seconds == 1 else 'seconds'}."
