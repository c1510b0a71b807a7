"""Files that are written from a stream in another form: TSV from CSV, a JSON array from NDJSON, and compressed ones."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from dualsql_client.errors import import_extra

COMPRESSED = (".gz", ".zst")
REWRITTEN = {".tsv": ".csv", ".json": ".ndjson"}
"""Suffixes of files that no stream has, with that of the stream they are written from."""


def stream_suffix(path: Path) -> str:
    """The suffix of the stream that the file is written from."""
    suffix = _plain(path).suffix.lower()
    return REWRITTEN.get(suffix, suffix)


def is_rewritten(path: Path) -> bool:
    """Whether the file has other bytes than the stream. It cannot be continued then."""
    return path.suffix.lower() in COMPRESSED or _plain(path).suffix.lower() in REWRITTEN


def _plain(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED else path


@contextmanager
def rewriting(path: Path, file: IO[bytes]) -> Iterator[Callable[[bytes], Any]]:
    """A function that writes blocks of whole rows to the open file, in the form of the path's suffix."""
    with _compressing(path.suffix.lower(), file) as inner:
        suffix = _plain(path).suffix.lower()
        if suffix == ".json":
            rows = _Array(inner)
            yield rows.write
            rows.end()
        elif suffix == ".tsv":
            yield lambda data: inner.write(with_tabs(data))
        else:
            yield inner.write


@contextmanager
def _compressing(suffix: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    if suffix == ".gz":
        # Without a time, equal rows are equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            yield cast("IO[bytes]", packed)
    elif suffix == ".zst":
        module = import_extra("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", "zstd")
        with module.open(file, "wb") as packed:
            yield packed
    else:
        yield file


class _Array:
    """Lines of JSON as one array."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._is_first = True

    def write(self, data: bytes) -> None:
        lines = data.strip(b"\n").replace(b"\n", b",\n")
        if lines:
            self._file.write((b"[\n" if self._is_first else b",\n") + lines)
            self._is_first = False

    def end(self) -> None:
        self._file.write(b"[]\n" if self._is_first else b"\n]\n")


_FIELD = re.compile(rb'("(?:[^"]|"")*")|,|([^",\r\n]*\t[^",\r\n]*)')


def with_tabs(records: bytes) -> bytes:
    """Whole records of CSV, with tabs between the fields; a field with a tab is in quotes then."""

    def replaced(match: re.Match[bytes]) -> bytes:
        quoted, with_tab = match.groups()
        if quoted is not None:
            return cast("bytes", quoted)
        return b"\t" if with_tab is None else b'"' + cast("bytes", with_tab) + b'"'

    return _FIELD.sub(replaced, records)
