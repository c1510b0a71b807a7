"""Resumes a broken stream with exactly the bytes that are missing; loaded with the first stream that is resumed."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from dualsql.errors import BadCursorError, BadParameterError, ResultChangedError
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Chunk, FirstRow, Format
from dualsql.freeze import Seal
from dualsql_client.wire import row_digest

if TYPE_CHECKING:
    from dualsql.results.streams import Resumption, StreamRun


_LONGEST = 100
"""Characters of a text that is decoded."""


def require_resumable(
    seal: Seal, request: Resumption, parts: Sequence[str | bytes | None], output: Format
) -> None:
    """Check that the token belongs to this stream.

    Raises:
        BadCursorError: the token is of another stream.
        BadParameterError: streams of this format cannot be resumed, or its rows have no digest.
    """
    # First: who has no valid token learns nothing about formats either.
    signature = b""
    with suppress(ValueError):
        signature = urlsafe_b64decode(request.token + "=") if len(request.token) < _LONGEST else b""
    # Python skips characters outside the alphabet.
    is_plain = urlsafe_b64encode(signature).decode() == request.token + "="
    if not is_plain or not seal.verify(signature, *parts):
        hint = "Repeat the request that gave it, as the same caller, or start again without resume."
        raise BadCursorError("resume token", hint=hint)
    if output.resuming is None:
        resumed = [name for name, each in FORMATS.items() if each.resuming is not None]
        raise BadParameterError(
            f"A stream of {output.name} cannot be resumed.",
            hint=f"Start a new stream, or use one of these formats: {', '.join(resumed)}.",
            details={"name": "resume"},
        )
    if request.last is not None and output.resuming.first_row is None:
        raise BadParameterError(
            f"Rows of {output.name} have no digest.", hint="Leave last out.", details={"name": "last"}
        )


async def rest_of(
    stream: StreamRun, resumption: Resumption, batches: AsyncGenerator[Chunk, None]
) -> AsyncGenerator[Chunk, None]:
    """The rows after those that the caller has, at least one.

    Args:
        batches: from the caller's last row if its digest is known, otherwise from the first missing row.

    Raises:
        ResultChangedError: the caller's last row has changed.
    """
    resuming, view = FORMATS[stream.request.format].resuming, stream.target.view
    assert resuming is not None, "checked by require_resumable"
    async with aclosing(batches):
        if resumption.last is None:
            # Without a digest, the caller's last row must still exist.
            last = stream.select_rows(resumption.after - 1, 1)
            if not await view.answer(last):
                raise _changed()
        first = await anext(batches, None)
        if resumption.last is not None and resuming.first_row is not None:
            first = _after_last(first, resumption.last, resuming.first_row)
        # Between the caller's last row and the first missing one; the writer puts it between later rows.
        elif first is not None and resuming.separator:
            first = Chunk(resuming.separator + first.data, first.rows)
        if first is not None:
            yield first
        async for chunk in batches:
            yield chunk


def _after_last(first: Chunk | None, digest: str, first_row: FirstRow) -> Chunk:
    row, rest = first_row(b"" if first is None else first.data)
    if first is None or row_digest(row) != digest:
        raise _changed()
    return Chunk(rest, first.rows - 1)


def _changed() -> ResultChangedError:
    return ResultChangedError("The rows have changed since the stream broke.")
