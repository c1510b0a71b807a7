"""Resuming a broken stream: the rest is byte for byte what was missing, or the request is refused."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from dualsql.errors import BadCursorError, BadParameterError, ResultChangedError
from dualsql.formats.writer import Chunk, WriterOptions
from dualsql.freeze import Seal
from dualsql.results.cursors import CursorScope
from dualsql_client.wire import row_digest

TOKEN_LENGTH = 43
"""Characters: 32 bytes in base64."""

_LABEL = "dualsql.resume/1"
_JSON_SEPARATOR = b",\n"
_RESUMED = ("ndjson", "json", "csv", "arrow")
"""Formats of a head, rows and an end, whose bytes can follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A request to go on.

    Attributes:
        token: as the broken stream announced it.
        after: how many complete rows there are already.
        last: `row_digest` of the last of them.
    """

    token: str
    after: int
    last: str | None = None

    @property
    def skipped(self) -> int:
        """Rows that are not read again: all that are there already, but the one that is compared."""
        return self.after - (self.last is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeScope:
    """All that a token is good for; the format is not part of it.

    Attributes:
        scope: resource, order and principal.
        columns: names, in the order they are written.
        start: the cursor that the stream began at.
    """

    scope: CursorScope
    columns: Sequence[str]
    options: WriterOptions
    start: str | None = None


def obstacle_to_resuming(written: str, *, is_ordered: bool) -> str | None:
    """Why a stream cannot be gone on with, as `NO_RESUME_HEADER` says it; None if it can be."""
    if written not in _RESUMED:
        return "FORMAT"
    return None if is_ordered else "NO_TOTAL_ORDER"


def resume_token(seal: Seal, stretch: ResumeScope) -> str:
    """The text that opens this stretch, and no other."""
    return urlsafe_b64encode(seal.sign(_LABEL, *_parts(stretch))).rstrip(b"=").decode()


def require_resumable(seal: Seal, asked: Resumption, stretch: ResumeScope, written: str) -> None:
    """Refuse what is not a stretch that was begun here.

    Raises:
        BadCursorError: the token is of another one.
        BadParameterError: streams of this format do not go on, or its rows have no digest.
    """
    if not _is_token_of(seal, asked.token, stretch):
        raise BadCursorError
    if written not in _RESUMED:
        raise BadParameterError(
            f"A stream of {written} cannot be gone on with.",
            hint=f"Begin again, or take one of: {', '.join(_RESUMED)}.",
            details={"name": "resume"},
        )
    if asked.last is not None and written not in _SPLITTERS:
        raise BadParameterError(
            f"A row of {written} has no digest.", hint="Leave last out.", details={"name": "last"}
        )


def _is_token_of(seal: Seal, token: str, stretch: ResumeScope) -> bool:
    try:
        signature = urlsafe_b64decode(token + "=") if len(token) == TOKEN_LENGTH else b""
    except (binascii.Error, ValueError):
        return False
    return seal.verify(signature, _LABEL, *_parts(stretch))


def _parts(stretch: ResumeScope) -> list[str | bytes | None]:
    scope, options = stretch.scope, stretch.options
    who = scope.principal
    texts = repr(options.text_columns) if options.text_columns else ""
    flags = f"{options.integer_strings:d}{options.guard_formulas:d}{texts}"
    return [
        scope.resource_id,
        None if who is None else who.id,
        None if who is None else who.tenant,
        scope.order,
        stretch.start,
        flags,
        *stretch.columns,
    ]


async def rest_of(
    batches: AsyncGenerator[Chunk, None], resumption: Resumption, written: str
) -> AsyncGenerator[Chunk, None]:
    """What follows the rows that the caller has.

    Args:
        batches: from the last row that the caller has when its digest is known, else from the first one it lacks.

    Raises:
        ResultChangedError: the last row that the caller has is another one by now.
    """
    async with aclosing(batches):
        first = await anext(batches, None)
        if resumption.last is not None:
            first = _after_known(first, resumption.last, written)
        elif first is not None and written == "json":
            first = Chunk(_JSON_SEPARATOR + first.data, first.rows)
        if first is not None:
            yield first
        async for chunk in batches:
            yield chunk


def _after_known(first: Chunk | None, digest: str, written: str) -> Chunk:
    row, rest = _SPLITTERS[written](b"" if first is None else first.data)
    if first is None or row_digest(row) != digest:
        raise result_changed()
    return Chunk(rest, first.rows - 1)


def result_changed() -> ResultChangedError:
    """The refusal to go on with other data than what was begun with."""
    return ResultChangedError("The result changed after the stream broke.")


def _split_line(data: bytes) -> tuple[bytes, bytes]:
    row, _, rest = data.partition(b"\n")
    return row, rest


def _split_object(data: bytes) -> tuple[bytes, bytes]:
    end = data.find(_JSON_SEPARATOR)
    return (data, b"") if end < 0 else (data[:end], data[end:])


def _split_record(data: bytes) -> tuple[bytes, bytes]:
    start = quotes = 0
    while (end := data.find(b"\r\n", start)) >= 0:
        quotes += data.count(b'"', start, end)
        if quotes % 2 == 0:
            return data[:end], data[end + 2 :]
        start = end + 2  # inside quotes, where a line break belongs to the value
    return data, b""


_SPLITTERS: dict[str, Callable[[bytes], tuple[bytes, bytes]]] = {
    "ndjson": _split_line,
    "json": _split_object,
    "csv": _split_record,
}
"""By format: the first row of a batch, as its digest is made, and what follows it."""
