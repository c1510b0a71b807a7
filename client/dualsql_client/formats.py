"""The formats a client asks for, with their media types, suffixes and framers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dualsql_client.arrow_ipc import ArrowFramer
from dualsql_client.framing import Framer, LineFramer, RecordFramer, WholeFileFramer
from dualsql_client.wire import StreamFormat


@dataclass(frozen=True, slots=True)
class DownloadFormat:
    """A format of streams.

    Attributes:
        framer: makes what finds its rows, of at most so many bytes each.
    """

    name: StreamFormat
    media_type: str
    suffixes: tuple[str, ...]
    framer: Callable[[int], Framer]


NDJSON = DownloadFormat("ndjson", "application/x-ndjson", (".ndjson", ".jsonl"), LineFramer)
CSV = DownloadFormat("csv", "text/csv", (".csv",), RecordFramer)
ARROW = DownloadFormat("arrow", "application/vnd.apache.arrow.stream", (".arrows", ".arrow"), ArrowFramer)
PARQUET = DownloadFormat(
    "parquet", "application/vnd.apache.parquet", (".parquet",), lambda _: WholeFileFramer()
)

_FORMATS = (NDJSON, CSV, ARROW, PARQUET)
BY_NAME = {found.name: found for found in _FORMATS}
BY_SUFFIX = {suffix: found for found in _FORMATS for suffix in found.suffixes}
