"""Saves all rows of a result to a file, and reports what the file contains."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from zipfile import ZipFile

from dualsql_client.errors import ResourcePendingError
from dualsql_client.formats import FileFormat
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.progress import Bar, Progress
from dualsql_client.query import StreamOptions
from dualsql_client.streaming import PartialFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The content of the saved file.

    Attributes:
        rows: None for Parquet if pyarrow, which counts them, is not installed.
        bytes: the size of the file.
        sha256: of the file, as sha256sum prints it. For NDJSON and CSV, whose files have only the rows and the heading,
            it does not depend on how often the connection broke.
    """

    path: Path
    rows: int | None
    bytes: int
    seconds: float
    sha256: str


async def fetch(
    parsed: ParsedDualResponse,
    path: Path,
    file_format: FileFormat | None,
    *,
    bar: bool,
    options: StreamOptions,
    partial: PartialFile = "discard",
    guard_formulas: bool = False,
) -> Fetched:
    """Save all rows at `path`; waits for a query that still runs.

    Args:
        options: all but `progress`, which the bar uses.
        partial, guard_formulas: see `ParsedDualResponse.save`.

    Raises what `ParsedDualResponse.save` raises.
    """
    meter = _ProgressLine(Bar(parsed.name) if bar else None)
    started = time.monotonic()
    try:
        stream_options: StreamOptions = {**options, "progress": meter.update}
        save = functools.partial(
            parsed.save,
            path,
            file_format=file_format,
            partial=partial,
            guard_formulas=guard_formulas,
            **stream_options,
        )
        try:
            await save()
        except ResourcePendingError:
            await parsed.wait_until_ready()
            await save()
    finally:
        meter.stop()
    seconds = time.monotonic() - started
    size, digest, rows = await asyncio.to_thread(_read, path, meter.rows)
    return Fetched(path=path, rows=rows, bytes=size, seconds=seconds, sha256=digest)


def _read(path: Path, rows: int) -> tuple[int, str, int | None]:
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        # file_digest() reads to the end.
        size = file.tell()
        file.seek(0)
        begin = file.read(4)
    if begin == b"PAR1":
        rows_in_file = _rows_of_parquet(path)
    else:
        rows_in_file = _rows_of_workbook(path) if begin == b"PK\x03\x04" else rows
    return size, digest, rows_in_file


class _ProgressLine:
    """Draws the bar, and counts the rows."""

    def __init__(self, bar: Bar | None) -> None:
        self.rows = 0
        self._bar = bar
        if bar:
            bar.start()

    def update(self, progress: Progress) -> None:
        self.rows = progress.rows
        if self._bar:
            self._bar.show(progress)

    def stop(self) -> None:
        if self._bar:
            self._bar.stop()


def _rows_of_parquet(path: Path) -> int | None:
    try:
        from pyarrow import parquet
    except ImportError:  # the extra is not installed
        return None
    rows: int = parquet.read_metadata(path).num_rows
    return rows


def _rows_of_workbook(path: Path) -> int | None:
    """The number of rows in the properties of the workbook; None without it."""
    with ZipFile(path) as book, suppress(KeyError), book.open("docProps/custom.xml") as properties:
        match = re.search(rb'name="dualsql.rows"><vt:r8>([0-9]{1,15})<', properties.read(10_000))
        return int(match[1]) if match else None
    return None
