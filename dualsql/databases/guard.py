"""What every database's guard does: keep sessions read-only and bounded in time, and stop what runs."""

from __future__ import annotations

import asyncio
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection, Engine, PoolProxiedConnection, Table
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import greenlet_spawn

from dualsql.errors import LimitExceededError

_STOP_PAUSE, _STOP_ATTEMPTS = 0.01, 200


class FailureKind(Enum):
    """What a driver's error means to the caller."""

    WRITE = auto()
    """The database refused to change anything."""
    TIMEOUT = auto()
    """The statement was stopped, by its time limit or by the database's operator."""
    BUSY = auto()
    """Something was in the way that may be gone at the next try: a lock, a standby's recovery."""
    BROKEN = auto()
    """The connection ended while it was used."""
    UNREACHABLE = auto()
    """The database is down, starting or stopping."""
    FULL = auto()
    """The database ran out of disk or memory."""
    UNSUITED = auto()
    """The statement asks of a value what its type does not have: an operator, a function, a conversion."""
    SIZE = auto()
    """A value was larger than the connection allows."""


class Refusal(Enum):
    """Why a database takes no connection."""

    USER = auto()
    """The user may not connect, or the password is another one."""
    DATABASE = auto()
    """The server has no such database."""
    ROLE = auto()
    """The database has no such role."""
    HOST = auto()
    """Nobody answers at that address."""


def too_large() -> LimitExceededError:
    """The error for rows that are too large to be held."""
    return LimitExceededError(
        "The rows are too large to be shown.",
        hint="Select fewer or shorter columns, or fewer rows; a stream carries more.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTerms:
    """What holds in one session.

    Attributes:
        limit: how long each statement may run.
        settings: names and values that the database's own policies read, in this transaction alone.
    """

    limit: timedelta
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def milliseconds(self) -> int:
        """The limit as a whole number; never 0, which means "no limit" to most databases."""
        return max(1, math.ceil(self.limit.total_seconds() * 1000))


class Guard(ABC):
    """Keeps sessions on one kind of database read-only and bounded in time."""

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most have nothing to prepare
        """Make an engine read-only for good; called once, for engines that dualsql made itself."""

    @abstractmethod
    def kept(self, connection: AsyncConnection, terms: SessionTerms) -> AbstractAsyncContextManager[None]:
        """A read-only transaction on `terms`, open from the first line of the block on: what a lane runs on the
        driver's own connection stands in it too. Nothing of it is left on the connection afterwards."""

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """End the statement that `working` waits for, in the database too; returns when `working` is over."""
        working.cancel()
        await asyncio.wait({working})

    def held(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block waits for a slow reader, the driver reads nothing ahead."""
        return nullcontext()

    async def put_away(self, result: Any) -> None:
        """Close a stream's result, whether it was read to its end or left. Never raises: its session ends next."""
        with suppress(Exception):
            await result.close()

    def reading(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block reads rows by SQLAlchemy, a value that the driver cannot read is an Unfit."""
        return nullcontext()

    def metered(self, connection: AsyncConnection, most: int) -> AbstractContextManager[None]:
        """While the block reads a page, at most so many bytes come from the database, where that can be counted.

        Raises:
            LimitExceededError: more came; see `too_large`.
        """
        return nullcontext()

    def may_take(self, role: str, connection: Connection) -> bool:
        """Whether the connection's user may take the role; asked where there are roles."""
        raise NotImplementedError

    async def writable(self, connection: AsyncConnection, tables: Sequence[Table]) -> Sequence[str]:
        """The tables that the session's role could change without the guard; asked where there are roles."""
        raise NotImplementedError

    async def unsecured(self, connection: AsyncConnection, tables: Sequence[Any]) -> Sequence[Any]:
        """Those of the tables that no policy narrows for the session's user; asked where there is row security."""
        raise NotImplementedError

    def refusal_of(self, error: BaseException | None) -> Refusal | None:
        """Why the database did not take a connection, by the driver's `error`; None for any other reason."""
        return None

    @abstractmethod
    def fault_of(self, error: BaseException | None) -> FailureKind | None:
        """What the driver's `error` means, or None for any other failure."""


async def repeated_until_over(working: asyncio.Future[Any], attempt: Callable[[], Any]) -> None:
    """Make attempts at stopping a statement until `working` is over: what has not begun yet cannot be stopped.

    What goes on for two seconds does not wait for the database, and is cancelled.
    """
    for _ in range(_STOP_ATTEMPTS):
        if working.done():
            return
        attempted = attempt()
        if inspect.isawaitable(attempted):
            await attempted
        await asyncio.wait({working}, timeout=_STOP_PAUSE)
    working.cancel()
    await asyncio.wait({working})


def driver_of(connection: AsyncConnection) -> Any:
    """The driver's connection under one that is open."""
    opened = connection.sync_connection
    assert opened is not None
    return opened.connection.driver_connection


def memory_of(connection: AsyncConnection) -> dict[Any, Any]:
    """A place for notes that live as long as the driver's connection does."""
    opened = connection.sync_connection
    assert opened is not None
    return opened.info


Run = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def spare_connection(connection: AsyncConnection) -> AsyncIterator[Run]:
    """What runs a statement on a connection made just as those of the engine's pool are, and closed at the end."""
    opened = connection.sync_connection
    assert opened is not None
    call = greenlet_spawn if connection.dialect.is_async else asyncio.to_thread
    spare: PoolProxiedConnection = await call(opened.engine.pool.recreate().connect)

    async def run(statement: str) -> None:
        await call(_execute, spare, statement)

    try:
        yield run
    finally:
        await call(_close, spare)


def _execute(spare: PoolProxiedConnection, statement: str) -> None:
    cursor: Any = spare.cursor()
    cursor.execute(statement)
    cursor.close()


def _close(spare: PoolProxiedConnection) -> None:
    # Given back, it would wait in a pool that nobody uses.
    spare.detach()
    spare.close()
