"""What the log says of an outage: enough to be noticed, not enough to fill a disk."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from dualsql.errors import StorageError
from dualsql.log import Outage
from dualsql.store.housekeeping import every
from tests.waiting import PATIENCE


class Clock:
    """A clock that goes when it is told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_of_a_day_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("Counting accesses", clock)
    outage.succeeded()
    assert not caplog.records, "what works is not worth a word"
    cause = StorageError("The resource store failed.")
    for _ in range(24 * 3600):
        outage.failed(cause)
        clock.now += 1
    begun, *reminders = caplog.records
    assert begun.getMessage().endswith(str(cause))
    assert 24 <= len(reminders) <= 36
    assert not any(reminder.exc_info for reminder in (begun, *reminders))
    outage.succeeded()
    outage.succeeded()
    assert caplog.records[-1].getMessage() == "Counting accesses works again after 86400 seconds."
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_the_next_outage_is_told_anew(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("Sweeping", clock)
    for _ in range(3):
        outage.failed(StorageError("The resource store failed."))
        outage.succeeded()
        clock.now += 1
    assert len(caplog.records) == 6


async def test_housekeeping_says_when_it_fails_and_when_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = iter([StorageError("The resource store failed.")] * 50 + [None] * 50)
    is_over = asyncio.Event()

    async def work() -> None:
        answer = next(answers, is_over)
        if isinstance(answer, StorageError):
            raise answer
        if answer is is_over:
            is_over.set()

    task = asyncio.create_task(every(timedelta(0), work, Outage("Work")))
    async with asyncio.timeout(PATIENCE):
        await is_over.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [record.getMessage().split()[1] for record in caplog.records] == ["failed", "works"]
