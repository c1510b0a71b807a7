"""A result as one stream of bytes; the rule: it ends with a summary or a problem."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from dualsql.columns import ResultColumn, chosen_columns
from dualsql.errors import DualResponseError, LimitExceededError
from dualsql.formats.writer import Chunk, Format, Options, Rows, Summary, Writer
from dualsql.resource import Resource
from dualsql.settings import Settings
from dualsql.view import View
from dualsql_client.wire import SortKey


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What of a result is streamed, and how.

    Attributes:
        format: one of `dualsql.formats.formats.FORMATS`.
        columns: names of the columns wanted, in order; None for all.
        limit: the most rows; None for all of them.
        skip: rows that the caller has already, counted in the same order.
    """

    format: str = "ndjson"
    columns: tuple[str, ...] | None = None
    sort: tuple[SortKey, ...] = ()
    limit: int | None = None
    skip: int = 0
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultStream:
    """A stream that is about to begin.

    Attributes:
        chunks: the bytes, in pieces of whole rows; reading them runs the query, closing them stops it.
    """

    name: str
    format: Format
    total_count: int | None
    chunks: AsyncGenerator[Chunk, None]


def open_stream(
    view: View, written: Format, request: StreamRequest, *, resource: Resource, settings: Settings
) -> ResultStream:
    """The stream of what `request` asks of `view`. Nothing runs before its first chunk is asked for.

    Raises:
        UnknownColumnError: a column is not in the result.
    """
    columns = chosen_columns(view.columns, request.columns)
    writer = written.writer(columns, view.source.engine.dialect, request.options)
    encode = _reduced(writer.rows, view.columns, columns)
    batches = view.stream(encode, sort=request.sort, limit=request.limit, skip=request.skip)
    return ResultStream(
        name=resource.name,
        format=written,
        total_count=resource.total_count,
        chunks=_written(writer, batches, settings),
    )


def _reduced(
    encode: Callable[[Rows], Chunk], columns: Sequence[ResultColumn], chosen: Sequence[ResultColumn]
) -> Callable[[Rows], Chunk]:
    """`encode` for rows of all `columns`."""
    if chosen is columns:
        return encode
    places = [columns.index(column) for column in chosen]
    return lambda rows: encode([[row[place] for place in places] for row in rows])


async def _written(
    writer: Writer, batches: AsyncGenerator[Chunk, None], settings: Settings
) -> AsyncGenerator[Chunk, None]:
    deadline = asyncio.get_running_loop().time() + settings.maximum_stream_duration.total_seconds()
    rows = size = 0
    async with aclosing(batches):
        try:
            yield Chunk(writer.head(), 0)
            while (chunk := await _next(batches, deadline)) is not None:
                rows, size = rows + chunk.rows, size + len(chunk.data)
                _check_bounds(rows, size, settings)
                yield chunk
        except DualResponseError as error:
            yield _failed(writer, error, rows)
        else:
            yield Chunk(writer.end(Summary(rows=rows)), 0)


async def _next(batches: AsyncGenerator[Chunk, None], deadline: float) -> Chunk | None:
    try:
        # Never around a `yield`: the time would then run out inside whoever reads the stream.
        async with asyncio.timeout_at(deadline):
            return await anext(batches, None)
    except TimeoutError:
        raise _limit("seconds") from None


def _failed(writer: Writer, error: DualResponseError, rows: int) -> Chunk:
    """The last record; a format that has no place for it lets the error through, which cuts the connection."""
    said = writer.failure(error, Summary(rows=rows, complete=False))
    if said is None:
        raise error
    return Chunk(said, 0)


def _check_bounds(rows: int, size: int, settings: Settings) -> None:
    if rows > settings.maximum_stream_rows:
        raise _limit("rows")
    if size > settings.maximum_stream_bytes:
        raise _limit("bytes")


def _limit(what: str) -> LimitExceededError:
    return LimitExceededError(
        f"The stream reached the most {what} this server sends at once.",
        hint="Continue from the last complete row, or ask for fewer columns.",
        details={"limit": what},
    )
