"""Splits the bytes of a stream into whole rows."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from dualsql_client.errors import FetchError, fetch_error
from dualsql_client.wire import PROBLEM_KEY, SUMMARY_KEY, row_digest

_MARKS = tuple(f'{{"{key}":'.encode() for key in (SUMMARY_KEY, PROBLEM_KEY))


class Block(NamedTuple):
    """Some whole rows, as the server sent them."""

    data: bytes
    rows: int


class Framer(Protocol):
    """Finds the rows in one format."""

    def feed(self, data: bytes) -> list[Block]:
        """The rows that are complete by now.

        Raises:
            FetchError: the bytes are not of this format, or a row is too large.
        """
        ...

    def finish(self, rows: int) -> list[Block]:
        """The rows that the end of the body completes.

        Args:
            rows: the number of rows returned so far, by this framer and earlier ones.

        Raises:
            FetchError: the stream ended early (then without a status), or with a problem.
        """
        ...

    def forget(self) -> None:
        """Drop an incomplete row after the connection broke."""
        ...

    def last_digest(self) -> str | None:
        """`wire.row_digest` of the last row returned; None if the format has none."""
        ...


class LineFramer:
    """NDJSON: one row a line; the last line is the summary."""

    def __init__(self, maximum_bytes: int) -> None:
        self._pending = _PartialRow(maximum_bytes)
        self._last = b""

    def feed(self, data: bytes) -> list[Block]:
        """See `Framer`. It does not return the last line so far, which may be the summary."""
        pieces = self._pending
        if b"\n" not in data:
            pieces.add(data)
            return []
        pending = pieces.take() + data
        end = pending.rfind(b"\n", 0, pending.rfind(b"\n")) + 1
        pieces.add(pending[end:])
        if not end:
            return []
        self._last = pending[:end]
        return [Block(self._last, self._last.count(b"\n"))]

    def finish(self, rows: int) -> list[Block]:
        """See `Framer`."""
        last = self._pending.take()
        if not (last.startswith(_MARKS) and last.endswith(b"\n")):
            raise ended_early()
        record = _record(last)
        check_end(record.get(SUMMARY_KEY), record.get(PROBLEM_KEY), rows)
        return []

    def forget(self) -> None:
        """See `Framer`."""
        self._pending.take()

    def last_digest(self) -> str | None:
        """See `Framer`."""
        return row_digest(self._last[self._last.rfind(b"\n", 0, -1) + 1 : -1]) if self._last else None


class RecordFramer:
    """CSV: a first record of names, then a row each; a line break inside quotes is part of a value."""

    def __init__(self, maximum_bytes: int) -> None:
        self._pending = _PartialRow(maximum_bytes)
        self._is_quoted = False
        self._has_names = False
        self._records = 0
        self._last = b""

    def feed(self, data: bytes) -> list[Block]:
        """See `Framer`."""
        pending_size = self._pending.size
        end = self._scan(data)
        # Returned with the first row: if the stream breaks before that, the next attempt begins with the names.
        if end is None or self._records + self._has_names < 2:
            self._pending.add(data)
            return []
        whole = self._pending.take() + data
        self._pending.add(whole[pending_size + end :])
        return [self._block(whole[: pending_size + end])]

    def finish(self, rows: int) -> list[Block]:
        """See `Framer`. CSV has no summary: the stream is complete if the body ends with a record."""
        pending = self._pending.take()
        if self._has_names and not pending:
            return []
        if self._has_names or self._is_quoted or not pending.endswith(b"\r\n"):
            raise ended_early()
        return [Block(pending, 0)]

    def forget(self) -> None:
        """See `Framer`."""
        self._pending.take()
        self._is_quoted, self._records = False, 0

    def last_digest(self) -> str | None:
        """See `Framer`."""
        return row_digest(_last_record(self._last)) if self._last else None

    def _scan(self, data: bytes) -> int | None:
        """Count the records that end in `data`, and return the end of the last of them."""
        # The network may cut a line break in two: its first half is the end of the piece before.
        if self._pending.ends_in_return and data.startswith(b"\n") and not self._is_quoted:
            self._records, end = self._records + 1, 1
        else:
            end = None
        position = 0
        for piece in data.split(b'"'):
            if position:
                # A doubled quote, which is one quote of a value, inverts it twice (RFC 4180, section 2, rule 7).
                self._is_quoted = not self._is_quoted
            if not self._is_quoted and (records := piece.count(b"\r\n")):
                self._records += records
                end = position + piece.rfind(b"\r\n") + 2
            position += len(piece) + 1
        return end

    def _block(self, data: bytes) -> Block:
        rows = self._records - (not self._has_names)
        self._has_names, self._records, self._last = True, 0, data
        return Block(data, rows)


class WholeFileFramer:
    """Parquet and Excel: the file can be read only when it is complete, so a broken stream cannot resume.

    Args:
        mark: the beginning of the last bytes of the file.
        size: the number of these last bytes.
    """

    def __init__(self, mark: bytes, size: int) -> None:
        self._mark = mark
        self._size = size
        self._tail = b""

    def feed(self, data: bytes) -> list[Block]:
        """See `Framer`."""
        self._tail = (self._tail + data[-self._size :])[-self._size :]
        return [Block(data, 0)]

    def finish(self, rows: int) -> list[Block]:
        """See `Framer`."""
        if len(self._tail) < self._size or not self._tail.startswith(self._mark):
            raise ended_early()
        return []

    def forget(self) -> None:
        """See `Framer`."""

    def last_digest(self) -> str | None:
        """See `Framer`."""
        return None


class _PartialRow:
    """Bytes of an incomplete row."""

    def __init__(self, maximum_bytes: int) -> None:
        self._maximum_bytes = maximum_bytes
        self._pieces: list[bytes] = []
        self.size = 0

    @property
    def ends_in_return(self) -> bool:
        return bool(self._pieces) and self._pieces[-1].endswith(b"\r")

    def add(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)
        if self.size > self._maximum_bytes:
            raise row_too_large(self._maximum_bytes)

    def take(self) -> bytes:
        pieces, self._pieces, self.size = self._pieces, [], 0
        return b"".join(pieces)


def check_end(summary: Any, problem: Any, rows: int) -> None:
    """Check that the last record says "complete" and has the number of rows that arrived.

    Raises:
        FetchError: the record is a problem, is missing, or has another number of rows.
    """
    if isinstance(problem, dict):
        details = problem.get("details")
        details = {**(details if isinstance(details, dict) else {}), "rows": rows}
        raise fetch_error(200, {**problem, "details": details})
    if not isinstance(summary, dict) or summary.get("complete") is not True:
        raise ended_early()
    # By class, too: true equals 1, and 5.0 equals 5.
    if type(count := summary.get("rows")) is not int or count != rows:
        raise FetchError(
            f"The stream ended with another number of rows than the {rows:,} received.",
            status=200,
            details={"rows": rows},
        )


def ended_early() -> FetchError:
    """The error for a body that ends before the stream does."""
    return FetchError("The stream ended too early.")


def row_too_large(maximum_bytes: int) -> FetchError:
    """The error for a row that is larger than the client reads."""
    return FetchError(
        f"A row of the stream is larger than {maximum_bytes:,} bytes.",
        status=200,
        hint="Leave out its columns, or raise the client's maximum_response_bytes.",
    )


def _record(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        raise ended_early() from None


def _last_record(data: bytes) -> bytes:
    start = end = quotes = 0
    while (position := data.find(b"\r\n", end, -1)) >= 0:
        quotes += data.count(b'"', end, position)
        end = position + 2
        if quotes % 2 == 0 and end < len(data):
            start = end
    return data[start:-2]
