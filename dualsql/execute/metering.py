"""How many bytes an answer may have; the rule: they are counted as they come, before anybody holds them.

A few rows can weigh gigabytes: `repeat('x', 200000000)` is one value. A driver gathers what a database sends until a
row is whole, so that nobody above it could stop it in time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import LimitExceededError
from dualsql.execute.guards import driver_of


class _Meter(asyncio.Protocol):
    """Stands before a driver's protocol, and breaks the connection off when too much comes."""

    def __init__(self, transport: asyncio.Transport, driver: asyncio.Protocol) -> None:
        self._transport = transport
        self._driver = driver
        self.left = math.inf

    def data_received(self, data: bytes) -> None:
        self.left -= len(data)
        if self.left < 0:
            self._transport.abort()
        else:
            self._driver.data_received(data)

    def eof_received(self) -> bool | None:
        return self._driver.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._driver.connection_lost(exc)

    def pause_writing(self) -> None:
        self._driver.pause_writing()

    def resume_writing(self) -> None:
        self._driver.resume_writing()


@contextmanager
def metered(connection: AsyncConnection, most: int) -> Iterator[None]:
    """Let at most so many bytes come from the database; where the driver is asyncpg.

    Raises:
        LimitExceededError: more came. The connection is broken off then, which ends the statement, too.
    """
    meter = _meter_of(driver_of(connection))
    if meter is None:
        yield
        return
    meter.left = most
    try:
        yield
    except Exception as error:
        if meter.left >= 0:
            raise
        raise too_large() from error
    finally:
        meter.left = math.inf


def too_large() -> LimitExceededError:
    """The error for rows that are too large to be held."""
    return LimitExceededError(
        "The rows are too large to be shown.",
        hint="Select fewer or shorter columns, or fewer rows; a stream carries more.",
    )


def _meter_of(driver: Any) -> _Meter | None:
    """The meter of asyncpg's connection, put before its protocol once; None for other drivers."""
    transport = getattr(driver, "_transport", None)
    if not hasattr(driver, "get_server_pid") or transport is None:
        return None
    found = transport.get_protocol()
    if not isinstance(found, _Meter):
        found = _Meter(transport, found)
        transport.set_protocol(found)
    return found
