"""Labelled values in prose: "- **Label:** value"; the rule: marks and pictures around either belong to neither."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

LONGEST_LINE = 2_000

# The colon may be an ideographic one, as Chinese and Japanese write it.
_COLON = "[:=\\uff1a]"
_LABELLED = re.compile(
    rf"^[\s>*+\-•·\d.)#]*(?P<label>[^\s:=|\uff1a][^:=|\uff1a]{{0,60}}?)[\s*_`]*{_COLON}[\s*_`]*(?P<value>[^|]*)$"
)
_TWO_CELLS = re.compile(r"^\s*\|\s*(?P<label>[^|]{1,60}?)\s*\|\s*(?P<value>[^|]*?)\s*\|\s*$")
_MARKS = " \t*_`'\"“”«»|,;\u2018\u2019"
# Symbols, modifiers, marks that combine, format signs and what Unicode has not assigned yet: emoji are made of these.
_PICTURES = frozenset({"So", "Sk", "Mn", "Cf", "Cn"})


def labels_in(prose: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Label, as `plain` has it, and value: of each line that has both, and of rows of two cells."""
    for line in prose:
        if len(line) <= LONGEST_LINE and (match := _TWO_CELLS.match(line) or _LABELLED.match(line)):
            yield plain(match["label"]), undecorated(match["value"])


def plain(label: str) -> str:
    """A label, or a word, as it is compared."""
    kept = "".join(c for c in unicodedata.normalize("NFKC", label) if c.isalnum() or c in " _'-/")
    return " ".join(kept.lower().split()).strip("_- ")


def compact(label: str) -> str:
    """A label as a program spells names: `Data Access ID`, `data_access_id` and `dataAccessId` are one."""
    return re.sub(r"[\s_'-]", "", label).lower()


def undecorated(value: str) -> str:
    """A value without the marks, and the pictures, before and behind it."""
    previous = None
    while value != previous:
        previous, value = value, value.strip(_MARKS)
        while value and unicodedata.category(value[0]) in _PICTURES:
            value = value[1:]
        while value and unicodedata.category(value[-1]) in _PICTURES:
            value = value[:-1]
    return value
