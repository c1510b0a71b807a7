"""The formats a client asks for; the rule: one table of names, media types, suffixes and framers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dualsql_client.framing import Framer, Lines, Records, Whole
from dualsql_client.messages import Messages
from dualsql_client.wire import StreamFormat


@dataclass(frozen=True, slots=True)
class Format:
    """A format of streams.

    Attributes:
        framer: makes what finds its rows, of at most so many bytes each.
    """

    name: StreamFormat
    media_type: str
    suffixes: tuple[str, ...]
    framer: Callable[[int], Framer]


NDJSON = Format("ndjson", "application/x-ndjson", (".ndjson", ".jsonl"), Lines)
CSV = Format("csv", "text/csv", (".csv",), Records)
ARROW = Format("arrow", "application/vnd.apache.arrow.stream", (".arrows", ".arrow"), Messages)
PARQUET = Format("parquet", "application/vnd.apache.parquet", (".parquet",), lambda _: Whole())

_FORMATS = (NDJSON, CSV, ARROW, PARQUET)
BY_NAME = {found.name: found for found in _FORMATS}
BY_SUFFIX = {suffix: found for found in _FORMATS for suffix in found.suffixes}
