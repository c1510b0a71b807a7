"""What a stream backend is given and gives back. It holds a few batches, never a result."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Executable
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.columns.result import ResultColumn
from dualsql.databases.source import Source
from dualsql.formats.writer import Chunk, Rows, Writer
from dualsql.tenancy import ActiveRules


@contextmanager
def without_collector() -> Iterator[None]:
    """No garbage collection in the block, in any thread; an application that has switched it off finds it off.

    Python looks for cycles among new objects every few hundred of them. A batch has tens of thousands and no cycles:
    the search takes up to two fifths of the time of a stream.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


Put = Callable[[Chunk], Awaitable[None]]
"""Takes the next chunk, once there is room for it; raises ReaderGone when nobody reads any longer."""

BATCH_BYTES = 256 * 1024

_FIRST_ROWS, _MOST_ROWS, _GROWTH = 100, 4_000, 4


class ReaderGone(Exception):  # noqa: N818 - no error: the lane ends
    """Nobody reads the stream any longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJob:
    """One statement to be streamed.

    Attributes:
        columns: of the statement, in order.
        places: of the columns that the writer writes, among these; None for all of them.
    """

    source: Source
    statement: Executable
    rules: ActiveRules
    columns: Sequence[ResultColumn]
    writer: Writer
    places: Sequence[int] | None = None

    @property
    def written(self) -> Sequence[int]:
        """Places of the columns that are written."""
        return range(len(self.columns)) if self.places is None else self.places

    def encode(self, rows: Rows) -> Chunk:
        """Rows of all columns, each a tuple or list, as the writer writes them."""
        if self.places is None:
            return self.writer.rows(rows)
        return self.writer.rows([[row[place] for place in self.places] for row in rows])


Lane = Callable[[StreamJob, AsyncConnection, Put], Awaitable[None]]


class Pace:
    """How many rows to take at once: few at first, then as many as make a good piece.

    The rows to come are not known. A batch never has more than four times the rows of the one before: rows that
    suddenly get wide are met in moderate numbers.
    """

    def __init__(self) -> None:
        self.rows = _FIRST_ROWS

    def note(self, chunk: Chunk) -> None:
        """Learn from what was read last."""
        if chunk.rows:
            fitting = int(BATCH_BYTES * chunk.rows / max(1, chunk.weight))
            self.rows = max(1, min(fitting, self.rows * _GROWTH, _MOST_ROWS))
