"""The formats of streams and files, with their media types, suffixes and framers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dualsql_client.arrow_ipc import ArrowFramer
from dualsql_client.framing import Framer, LineFramer, RecordFramer, WholeFileFramer
from dualsql_client.wire import StreamFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadFormat:
    """A format of streams; `dualsql.formats.table` is the server's table of them.

    Attributes:
        suffixes: of files, with the dot; the first is the usual one.
        framer: creates a Framer for rows of at most so many bytes.
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
    """A format whose readers begin at the last `size` bytes, which start with `mark`."""
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
BY_NAME: Mapping[str, DownloadFormat] = {each.name: each for each in _FORMATS}
BY_SUFFIX = {suffix: each for each in _FORMATS for suffix in each.suffixes}

DatabaseFormat = Literal["duckdb", "sqlite"]
FileFormat = Literal["ndjson", "csv", "arrow", "parquet", "xlsx", "duckdb", "sqlite"]
"""The format of a file: a stream as the server sends it, or a database that the client builds from one."""

DATABASES: Mapping[DatabaseFormat, tuple[str, ...]] = {
    "duckdb": (".duckdb",),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
}
"""Suffixes of files, with the dot; the first is the usual one."""
