"""Who asks, and in which form; the rule: pure functions of headers, and no header is malformed enough to fail.

seeds/001: `X-Response-Format: json|markdown`, `X-Execution-Context: chat|code`. Code gets data and nothing to look at,
whatever format it names; without either header an answer has both halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal, NamedTuple, TypeVar, cast, get_args

from dualsql.envelope.shapes import DualModeAnswer

FORMAT_HEADER = "X-Response-Format"
CONTEXT_HEADER = "X-Execution-Context"
VARY = f"{FORMAT_HEADER}, {CONTEXT_HEADER}"
"""What an HTTP answer that was negotiated says in Vary, or a cache hands one caller's form to another."""

ResponseFormat = Literal["json", "markdown"]
ExecutionContext = Literal["chat", "code"]

Headers = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]
"""Starlette's, httpx's, a dict, or the pairs of an ASGI scope."""

_MOST_HEADERS = 500
_LONGEST = 64

Word = TypeVar("Word", bound=str)


class Wanted(NamedTuple):
    """What a caller asked for; by default a person in a chat."""

    format: ResponseFormat = "markdown"
    context: ExecutionContext = "chat"

    @property
    def is_structured(self) -> bool:
        """Whether the answer is for a program alone."""
        return self.format == "json" or self.context == "code"


def wanted(headers: Headers | None) -> Wanted:
    """What these headers ask for. An unknown word, or two that contradict each other, ask for nothing."""
    found: dict[str, set[str]] = {}
    for name, value in _pairs(headers):
        found.setdefault(name, set()).add(value)
    return Wanted(
        format=_word(found, FORMAT_HEADER, get_args(ResponseFormat), "markdown"),
        context=_word(found, CONTEXT_HEADER, get_args(ExecutionContext), "chat"),
    )


def present(answer: DualModeAnswer, wanted: Wanted) -> DualModeAnswer:
    """The halves of an answer that its caller wants; the answer itself is not changed."""
    if not wanted.is_structured:
        return answer
    return cast(DualModeAnswer, {name: value for name, value in answer.items() if name != "display"})


def _pairs(headers: Headers | None) -> Iterable[tuple[str, str]]:
    """Names and values in lower case."""
    if headers is None:
        return
    pairs: Iterable[tuple[str | bytes, str | bytes]] = (
        headers.items() if isinstance(headers, Mapping) else headers
    )
    for name, value in islice(pairs, _MOST_HEADERS):
        yield _text(name), _text(value)


def _text(value: str | bytes) -> str:
    head = value[:_LONGEST]
    return (head if isinstance(head, str) else head.decode("latin-1")).strip().lower()


def _word(found: Mapping[str, set[str]], header: str, words: tuple[Word, ...], default: Word) -> Word:
    values = found.get(header.lower(), set())
    return next((word for word in words if values == {word}), default)
