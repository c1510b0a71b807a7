"""Resuming a broken stream: the rest is byte for byte what was missing, or the request is refused."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from dualsql.errors import BadCursorError, BadParameterError, ResultChangedError
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Chunk, FirstRow, Format, WriterOptions
from dualsql.freeze import Seal
from dualsql.results.cursors import CursorScope
from dualsql_client.wire import row_digest

TOKEN_LENGTH = 43
"""Characters: 32 bytes in base64."""

_LABEL = "dualsql.resume/1"


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


TokenParts = Sequence[str | bytes | None]
"""All that a token is good for; the format is not part of it."""


def obstacle_to_resuming(written: Format, *, is_ordered: bool) -> str | None:
    """Why a stream cannot be gone on with, as `NO_RESUME_HEADER` says it; None if it can be."""
    if written.resuming is None:
        return "FORMAT"
    return None if is_ordered else "NO_TOTAL_ORDER"


def resume_token(seal: Seal, parts: TokenParts) -> str:
    """The token of one stream."""
    return urlsafe_b64encode(seal.sign(_LABEL, *parts)).rstrip(b"=").decode()


def require_resumable(seal: Seal, asked: Resumption, parts: TokenParts, written: Format) -> None:
    """Refuse a token that was not made for this stream.

    Raises:
        BadCursorError: the token is of another stream.
        BadParameterError: streams of this format do not go on, or its rows have no digest.
    """
    if not _is_token_of(seal, asked.token, parts):
        raise BadCursorError
    if written.resuming is None:
        resumed = [name for name, known in FORMATS.items() if known.resuming is not None]
        raise BadParameterError(
            f"A stream of {written.name} cannot be resumed.",
            hint=f"Start a new stream, or use one of these formats: {', '.join(resumed)}.",
            details={"name": "resume"},
        )
    if asked.last is not None and written.resuming.first_row is None:
        raise BadParameterError(
            f"Rows of {written.name} have no digest.", hint="Leave last out.", details={"name": "last"}
        )


def _is_token_of(seal: Seal, token: str, parts: TokenParts) -> bool:
    try:
        signature = urlsafe_b64decode(token + "=") if len(token) == TOKEN_LENGTH else b""
    except (binascii.Error, ValueError):
        return False
    return seal.verify(signature, _LABEL, *parts)


def token_parts(
    scope: CursorScope, columns: Sequence[str], options: WriterOptions, start: str | None
) -> TokenParts:
    """What a token is good for: a stream of one resource, order and principal, with these columns, from `start` on.

    Args:
        columns: names, in the order they are written.
        start: the cursor that the stream began at.
    """
    who = scope.principal
    texts = repr(options.text_columns) if options.text_columns else ""
    flags = f"{options.integer_strings:d}{options.guard_formulas:d}{texts}"
    return [
        scope.resource_id,
        None if who is None else who.id,
        None if who is None else who.tenant,
        scope.order,
        start,
        flags,
        *columns,
    ]


async def rest_of(
    batches: AsyncGenerator[Chunk, None], resumption: Resumption, written: Format
) -> AsyncGenerator[Chunk, None]:
    """What follows the rows that the caller has.

    Args:
        batches: from the last row that the caller has when its digest is known, else from the first one it lacks.

    Raises:
        ResultChangedError: the last row that the caller has is another one by now.
    """
    resuming = written.resuming
    assert resuming is not None, "require_resumable was asked"
    async with aclosing(batches):
        first = await anext(batches, None)
        if resumption.last is not None and resuming.first_row is not None:
            first = _after_known(first, resumption.last, resuming.first_row)
        elif first is not None and resuming.separator:
            first = Chunk(resuming.separator + first.data, first.rows)
        if first is not None:
            yield first
        async for chunk in batches:
            yield chunk


def _after_known(first: Chunk | None, digest: str, first_row: FirstRow) -> Chunk:
    row, rest = first_row(b"" if first is None else first.data)
    if first is None or row_digest(row) != digest:
        raise result_changed()
    return Chunk(rest, first.rows - 1)


def result_changed() -> ResultChangedError:
    """The refusal to go on with other data than what was begun with."""
    return ResultChangedError("The rows have changed since the stream broke.")
