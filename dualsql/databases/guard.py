"""Read-only sessions of one kind of database (`Guard`), and the meaning of its errors."""

from __future__ import annotations

import asyncio
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from enum import Enum
from inspect import isawaitable
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.ext.asyncio import AsyncConnection

_STOP_PAUSE, _STOP_ATTEMPTS = 0.01, 200


class FailureKind(Enum):
    """The meaning of a driver's error."""

    WRITE = "the database refused to change anything"
    TIMEOUT = "the statement was stopped, by its time limit or by the database's operator"
    BUSY = "something was in the way that may be gone at the next try: a lock, a standby's recovery"
    BROKEN = "the connection ended while it was used"
    UNREACHABLE = "the database is down, starting or stopping"
    PART = "another server, which the database asks for a part of the rows, did not answer"
    FULL = "the database ran out of disk or memory"
    UNSUITED = "the statement asks of a value what its type lacks: an operator, a function, a conversion"
    DEPTH = "the statement is nested deeper than the database's parser reads"
    GROUPING = "an aggregate is not allowed where it stands, or a column beside aggregates is not in GROUP BY"
    SORTING = "the rows of a SELECT DISTINCT are sorted by what is not selected"
    WINDOW = "a window function is not allowed where it stands, as in WHERE"
    DIVISION = "the statement divides by zero"
    OVERFLOW = "a number that the statement computes is out of the range of its type"
    ARGUMENT = "a function of the statement is not defined for a value that it is given"
    PATTERN = "a pattern of the statement is not valid, or too large"
    DOCUMENT = "a function reads a text as JSON that is none"
    CALLBACK = "a function in Python failed for a value: one of ours, or one of the application"
    SEVERAL_ROWS = "a subquery that stands for one value gives more than one row"
    VALUE = "a value is none of the type that it is converted to, or compared with"
    SIZE = "a value was larger than the connection allows"


class Refusal(Enum):
    """Why a database refuses a connection."""

    USER = "the user may not connect, or the password is another one"
    RIGHT = "the user lacks a right"
    DATABASE = "the server has no such database"
    ROLE = "the database has no such role"
    HOST = "no server answers at that address"
    TLS = "TLS, or a file that its options name"
    POOLER = "a pooler between gives each transaction another session, and the driver counts on one"


class SessionTerms(NamedTuple):
    """The terms of one session.

    Attributes:
        limit: how long each statement may run.
        settings: names and values that the database's own policies read, for this transaction only.
    """

    limit: timedelta
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def milliseconds(self) -> int:
        """The limit in milliseconds; never 0, which most databases take as "no limit"."""
        return max(1, math.ceil(self.limit.total_seconds() * 1000))


TableName = tuple[str | None, str]
"""The schema of a table, None for the database's own, and its name."""


class Guard(ABC):
    """Makes sessions of one kind of database read-only and limits their time.

    Attributes:
        failures: the meaning of an error by one of its `codes_of`.
        refusals: the same for errors of connecting.
        missing_operations: patterns of messages of UNSUITED failures, each with a template of the operation it names.
        ends_behind: `read_only` takes a round trip after its block, which shows nothing that the caller has to know.
    """

    failures: ClassVar[Mapping[Any, FailureKind]] = {}
    refusals: ClassVar[Mapping[Any, Refusal]] = {}
    missing_operations: ClassVar[Mapping[re.Pattern[str], str]] = {}
    ends_behind: ClassVar[bool] = False

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most have nothing to prepare
        """Make an engine read-only permanently. Called once, for engines that dualsql made."""

    @abstractmethod
    def read_only(
        self, connection: AsyncConnection, terms: SessionTerms
    ) -> AbstractAsyncContextManager[None]:
        """A read-only transaction on `terms`, open from the first line of the block. It also covers statements that a
        stream backend runs on the driver's connection. Afterwards, all settings of the connection are restored.

        Where `Backend.reading_options` turns the pool's ping off, it sends a statement before the block: that shows
        whether the connection is alive.
        """

    async def renew_limit(self, connection: AsyncConnection, terms: SessionTerms, *, is_new: bool) -> None:  # noqa: B027
        """Give the session's next statement the limit of `terms`, which is new to the session or the same as before."""

    async def stop(self, connection: AsyncConnection, working: asyncio.Future[Any]) -> None:
        """Stop the statement that `working` waits for, also in the database. Returns when `working` has ended."""
        working.cancel()
        await asyncio.wait({working})

    def without_read_ahead(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block waits for a slow reader, keep the driver from reading ahead."""
        return nullcontext()

    async def close_result(self, result: Any) -> None:
        """Close a stream's result, read to its end or not. Never raises: the session ends next."""
        with suppress(Exception):
            await result.close()

    def tolerant_reading(self, connection: AsyncConnection) -> AbstractContextManager[None]:
        """While the block reads rows through SQLAlchemy, a value that the driver cannot read becomes an Unfit."""
        return nullcontext()

    def limited_bytes(self, connection: AsyncConnection, most: int) -> AbstractContextManager[None]:
        """While the block reads a page, limit the bytes from the database, if they can be counted.

        Raises:
            LimitExceededError: the limit was exceeded.
        """
        return nullcontext()

    def require_size(self, _rows: Sequence[Any], _most: int) -> None:  # noqa: B027 - most are read as they come
        """Raise LimitExceededError if rows that SQLAlchemy has read are too large for a page."""

    def look(self, connection: Connection) -> None:
        """Let the database read its catalogue, as every user may, and as a file that was removed cannot."""
        inspect(connection).has_table("dualsql_health")

    async def row_numbers(self, _connection: AsyncConnection) -> Mapping[TableName, str]:
        """The names of the columns that number the rows of tables; see `Capabilities.row_number`."""
        return {}

    def codes_of(self, _error: BaseException | None) -> Iterable[Any]:
        """The codes that the driver's error has, such as its number or its SQLSTATE; those that say most first."""
        return ()

    def refusal_of(self, error: BaseException | None) -> Refusal | None:
        """Why the database refused a connection, from the driver's `error`; None for any other reason."""
        return next((self.refusals[code] for code in self.codes_of(error) if code in self.refusals), None)

    def failure_kind(self, error: BaseException | None) -> FailureKind | None:
        """The meaning of the driver's `error`; None for any other failure."""
        return next((self.failures[code] for code in self.codes_of(error) if code in self.failures), None)


async def run_or_close(connection: AsyncConnection, *statements: str, execute: Any = None) -> None:
    """Begin or end a session. If that fails, the connection is closed: it may be the application's."""
    try:
        for statement in statements:
            await (execute or connection.exec_driver_sql)(statement)
    except BaseException:
        await connection.invalidate()
        raise


async def repeat_until_done(working: asyncio.Future[Any], attempt: Callable[[], Any]) -> None:
    """Repeat an attempt to stop a statement until `working` has ended: one that has not begun cannot be stopped.

    After two seconds, `working` is not waiting for the database, and is cancelled.
    """
    for _ in range(_STOP_ATTEMPTS):
        if working.done():
            return
        result = attempt()
        if isawaitable(result):
            await result
        await asyncio.wait({working}, timeout=_STOP_PAUSE)
    working.cancel()
    await asyncio.wait({working})
