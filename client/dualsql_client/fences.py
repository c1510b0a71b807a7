"""Fenced code in Markdown (CommonMark 4.5); the rule: a fence ends at one as long as it began, others are text."""

from __future__ import annotations

import re
from typing import NamedTuple

_OPENING = re.compile(
    r"^(?P<indent> {0,3}(?:[-*+>]|\d{1,3}[.)])?\s{0,4})(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`\s]*)[^`]*$"
)


class Fence(NamedTuple):
    """A block of code: its language in small letters, and whether its end was there."""

    language: str
    text: str
    is_closed: bool


def split_fences(text: str) -> tuple[list[str], list[Fence]]:
    """The lines outside of all fences, and the fences."""
    prose: list[str] = []
    fences: list[Fence] = []
    opened: str | None = None
    language, held = "", list[str]()
    for line in text.splitlines():
        if opened is None:
            match = _OPENING.match(line[:200])
            if match is None:
                prose.append(line)
            else:
                opened, language, held = match["fence"], match["info"].lower(), []
        elif _closes(line, opened):
            fences.append(Fence(language, "\n".join(held), is_closed=True))
            opened = None
        else:
            held.append(line)
    if opened is not None:
        fences.append(Fence(language, "\n".join(held), is_closed=False))
    return prose, fences


def _closes(line: str, opened: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(opened) and set(mark) == {opened[0]}
