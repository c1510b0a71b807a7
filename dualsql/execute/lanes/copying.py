"""COPY ... TO STDOUT on PostgreSQL; the rule: it streams by itself, and no value is in its text.

The server writes CSV faster than any driver makes objects. As CSV it goes on as it is; for Arrow and Parquet it is
parsed by pyarrow, half a megabyte at a time, in a thread and without Python's lock, while the next one arrives.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, cast

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from dualsql.errors import ValueNotRepresentableError
from dualsql.execute.guards import driver_of
from dualsql.execute.lanes.carried import setting_statement, without_parameters
from dualsql.execute.lanes.job import Job, Lane, Put
from dualsql.execute.lanes.spelling import Speller
from dualsql.execute.lanes.statement import DriverStatement
from dualsql.formats.arrow import BatchWriter
from dualsql.formats.arrow_types import is_list
from dualsql.formats.csv import DatabaseCSVWriter
from dualsql.formats.writer import Chunk

PARSED_BYTES = 512 * 1024
"""Of CSV that are parsed at once."""

# asyncpg has a limit for each command, none by default; a stream has bounds of its own.
_NO_TIMEOUT = 30 * 24 * 3600.0

_Sink = Callable[[bytes], Any]


def by_copy(job: Job, sent: DriverStatement, driver: Any, prepared: Any) -> Lane | None:
    """A lane by COPY; None where a format, a type or a value has none.

    Args:
        driver: asyncpg's connection, which `prepared` the statement.
    """
    speller = Speller(sent.dialect, driver.get_settings().DateStyle)
    if isinstance(job.writer, DatabaseCSVWriter):
        spelling, lane = speller.for_csv, _as_csv
    elif isinstance(job.writer, BatchWriter):
        spelling, lane = speller.for_arrow, _as_batches
    else:
        return None
    attributes = prepared.get_attributes()
    texts = job.writer.arrow.texts if isinstance(job.writer, BatchWriter) else ()
    written = [
        (speller.for_csv if number in texts else spelling)(job.columns[place], attributes[place].type)
        for number, place in enumerate(job.written)
    ]
    plain = without_parameters(sent.sql, sent.parameters, prepared.get_parameters())
    if plain is None or not written or None in written:
        return None
    query = _written_as(plain, len(job.columns), job.written, cast("list[str]", written))
    return lane(query, sent, prepared.get_parameters())


def _written_as(sql: str, columns: int, places: Sequence[int], spellings: Sequence[str]) -> str:
    """The statement around `sql`. A subquery's order is the order of what only computes from its rows."""
    if list(places) == list(range(columns)) and all(spelling == "{c}" for spelling in spellings):
        return sql
    outputs = [spelling.replace("{c}", f"r.c{n}") for n, spelling in zip(places, spellings, strict=True)]
    names = ", ".join(f"c{n}" for n in range(columns))
    return f"SELECT {', '.join(outputs)} FROM ({sql}) AS r({names})"  # noqa: S608 - SQLAlchemy's, and ours


def _as_csv(query: str, sent: DriverStatement, types: Sequence[Any]) -> Lane:
    async def lane(job: Job, connection: AsyncConnection, put: Put) -> None:
        writer = cast("DatabaseCSVWriter", job.writer)

        async def pass_on(lines: bytes) -> None:
            await put(writer.text(lines))

        await _copy(job, connection, query, pass_on, sent=sent, types=types)

    return lane


def _as_batches(query: str, sent: DriverStatement, types: Sequence[Any]) -> Lane:
    async def lane(job: Job, connection: AsyncConnection, put: Put) -> None:
        parsing = _Parsing(job, put)
        try:
            await _copy(job, connection, query, parsing.take, sent=sent, types=types)
            await parsing.finish()
        finally:
            await parsing.settle()

    return lane


async def _copy(
    job: Job,
    connection: AsyncConnection,
    query: str,
    sink: _Sink,
    *,
    sent: DriverStatement,
    types: Sequence[Any],
) -> None:
    driver = driver_of(connection)
    if sent.parameters:
        await driver.fetch(setting_statement(types), *sent.parameters)
    taker = _Taker(sink)
    copying = asyncio.ensure_future(
        driver.copy_from_query(query, output=taker.take, format="csv", timeout=_NO_TIMEOUT)
    )
    try:
        either: set[asyncio.Future[Any]] = {copying, taker.refused}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if taker.refused.done():
            await job.source.guard.stop(connection, copying)
            await asyncio.wait({copying})
            copying.exception()  # that it was cancelled
            taker.refused.result()
        await copying
    except asyncio.CancelledError:
        # Whoever cancels has tried to stop the database already, and could not.
        driver.terminate()
        raise


class _Taker:
    """Hands lines to a sink, and after the sink refused some takes all that come.

    asyncpg would ask the server to cancel, and wait for an answer that never comes when the refused piece was the last.
    """

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def take(self, lines: bytes) -> None:
        """Some whole lines. Never raises."""
        if self.refused.done():
            return
        try:
            await self._sink(lines)
        # Whatever it is, the lane raises it.
        except Exception as error:  # noqa: BLE001
            self.refused.set_exception(error)


class _Parsing:
    """Gathers CSV, and has what came before parsed while the next one is gathered."""

    def __init__(self, job: Job, put: Put) -> None:
        self._put = put
        self._parse = _parser(job)
        self._gathered: list[bytes] = []
        self._size = 0
        self._parsed: asyncio.Future[Chunk] | None = None

    async def take(self, lines: bytes) -> None:
        """Some whole lines."""
        self._gathered.append(lines)
        self._size += len(lines)
        if self._size >= PARSED_BYTES:
            await self._go_on()

    async def finish(self) -> None:
        """The lines that are left."""
        if self._gathered:
            await self._go_on()
        await self._pass_on()

    async def settle(self) -> None:
        """Wait for a thread that was left alone: the writer it uses may be asked for a last record next."""
        if self._parsed is not None:
            await asyncio.wait({self._parsed})

    async def _go_on(self) -> None:
        await self._pass_on()
        gathered, self._gathered, self._size = b"".join(self._gathered), [], 0
        self._parsed = asyncio.ensure_future(asyncio.to_thread(self._parse, gathered))

    async def _pass_on(self) -> None:
        if self._parsed is not None:
            parsed, self._parsed = self._parsed, None
            await self._put(await asyncio.shield(parsed))


def _parser(job: Job) -> Callable[[bytes], Chunk]:
    """What makes a chunk of the job's format of whole lines of CSV."""
    import pyarrow as pa
    from pyarrow import csv

    writer = cast("BatchWriter", job.writer)
    fields = list(writer.arrow.schema)
    names = [str(number) for number in range(len(fields))]
    texts = writer.arrow.texts
    later = [None if number in texts else _made_later(job, place) for number, place in enumerate(job.written)]
    as_text = {pa.duration("us"): pa.int64()}
    parsed_as = [
        pa.string() if made else as_text.get(field.type, field.type)
        for field, made in zip(fields, later, strict=True)
    ]
    convert = csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    layout = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)

    def read(lines: bytes, types: dict[str, Any]) -> Any:
        whole = csv.ReadOptions(column_names=names, use_threads=False, block_size=len(lines) + 1)
        convert.column_types = types
        return csv.read_csv(
            pa.BufferReader(lines), read_options=whole, parse_options=layout, convert_options=convert
        )

    def unfit(lines: bytes) -> ValueNotRepresentableError | None:
        """The error for the first column whose values cannot be parsed; its own message would hold one of them."""
        as_texts = dict.fromkeys(names, pa.string())
        for number, type_ in enumerate(parsed_as):
            try:
                read(lines, {**as_texts, names[number]: type_})
            except pa.ArrowInvalid:
                return writer.arrow.unfit(number)
        return None

    def parse(lines: bytes) -> Chunk:
        try:
            table = read(lines, dict(zip(names, parsed_as, strict=True)))
        except pa.ArrowInvalid as error:
            raise unfit(lines) or error from error
        columns = []
        for number, (column, make) in enumerate(zip(table.columns, later, strict=True)):
            try:
                columns.append(_made(column, make))
            except ValueError as error:
                raise writer.arrow.unfit(number) from error
        return writer.batch(writer.arrow.batch_of_columns(columns))

    return parse


def _made(column: Any, make: Callable[[str], Any] | None) -> Any:
    if make is None:
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return [None if value is None else make(value) for value in column.to_pylist()]


def _made_later(job: Job, place: int) -> Callable[[str], Any] | None:
    """What makes a value of a text that pyarrow has no parser for."""
    column = job.columns[place]
    if column.encoding == "base64":
        return b64decode
    if not is_list(column):
        return None
    return _dates if column.describe()["items"] == "date" else orjson.loads


def _dates(text: str) -> list[date | None]:
    return [None if day is None else date.fromisoformat(day) for day in orjson.loads(text)]
