"""The formats a client asks for, with their media types, suffixes and framers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dualsql_client.arrow_ipc import ArrowFramer
from dualsql_client.framing import Framer, LineFramer, RecordFramer, WholeFileFramer
from dualsql_client.wire import StreamFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFormat:
    """A format of streams, as `dualsql.formats.table` has it on the server.

    Attributes:
        suffixes: of files, with the dot; the first is the usual one.
        framer: makes what finds its rows, of at most so many bytes each.
        is_resumable: whether a broken stream of this format resumes where it stopped.
    """

    name: StreamFormat
    media_type: str
    suffixes: tuple[str, ...]
    framer: Callable[[int], Framer]
    is_resumable: bool = True


NDJSON = DownloadFormat(
    name="ndjson", media_type="application/x-ndjson", suffixes=(".ndjson", ".jsonl"), framer=LineFramer
)
CSV = DownloadFormat(name="csv", media_type="text/csv", suffixes=(".csv",), framer=RecordFramer)
ARROW = DownloadFormat(
    name="arrow",
    media_type="application/vnd.apache.arrow.stream",
    suffixes=(".arrows", ".arrow"),
    framer=ArrowFramer,
)


def _whole_file(name: StreamFormat, media_type: str, *, mark: bytes, size: int) -> DownloadFormat:
    """A format whose last `size` bytes begin with `mark`, and which is read from them."""
    return DownloadFormat(
        name=name,
        media_type=media_type,
        suffixes=(f".{name}",),
        framer=lambda _: WholeFileFramer(mark, size),
        is_resumable=False,
    )


PARQUET = _whole_file("parquet", "application/vnd.apache.parquet", mark=b"PAR1", size=4)
XLSX = _whole_file(
    "xlsx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    mark=b"PK\x05\x06",
    size=22,
)

_FORMATS = (NDJSON, CSV, ARROW, PARQUET, XLSX)
BY_NAME: Mapping[str, DownloadFormat] = {found.name: found for found in _FORMATS}
BY_SUFFIX = {suffix: found for found in _FORMATS for suffix in found.suffixes}

DatabaseFormat = Literal["duckdb", "sqlite"]
FileFormat = Literal["ndjson", "csv", "arrow", "parquet", "xlsx", "duckdb", "sqlite"]
"""What a file can be: a stream as the server sends it, or a database that the client makes of one."""

DATABASES: Mapping[DatabaseFormat, tuple[str, ...]] = {
    "duckdb": (".duckdb",),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
}
"""Suffixes of files, with the dot; the first is the usual one."""
