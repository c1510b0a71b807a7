"""What an author's text calls, which only its database interprets: `literal_column()` and `text()`."""

from __future__ import annotations

import re
from collections.abc import Collection

from dualsql.freeze.types import ROW_FUNCTIONS

_STRING, _IDENTIFIER = re.compile(r"'(?:[^']|'')*'"), re.compile(r"\"[^\"]*\"|`[^`]*`")
# With comments, escapes and other quotes, a string may end elsewhere. Nothing is taken out of such a text.
_ODD = re.compile(r"[\\$#]|--|/\*")
_CALL = re.compile(r"(\w+)\s*\(")
_WITHOUT_PARENTHESES = frozenset(
    """current_date current_time current_timestamp localtime localtimestamp sysdate utc_date utc_time
    utc_timestamp""".split()
)
_OF_ROWS = frozenset({"distinct", "over", "select"})
_BEFORE_PARENTHESES = frozenset("and as between case cast else in is like not on or then when".split())


def names_in(text: str, *, clocks: Collection[str], words: Collection[str]) -> set[str]:
    """The names of functions that may be called; now, if one of the `clocks` is, or a string is one of the `words`."""
    code = _code(text).lower()
    names = {*_CALL.findall(code), *_WITHOUT_PARENTHESES.intersection(re.findall(r"\w+", code))}
    strings = {string[1:-1].strip().lower() for string in _STRING.findall(text)}
    return names if names.isdisjoint(clocks) and strings.isdisjoint(words) else {*names, "now"}


def may_change_rows(text: str) -> bool:
    """Whether it may have DISTINCT, an aggregate, a window or a function of several rows."""
    code = _code(text).lower()
    called = set(_CALL.findall(code)) - _BEFORE_PARENTHESES
    return not called <= ROW_FUNCTIONS or not _OF_ROWS.isdisjoint(re.findall(r"\w+", code))


def _code(text: str) -> str:
    """The text without its strings, and with one name in place of quoted ones."""
    return text if _ODD.search(text) else _IDENTIFIER.sub("quoted", _STRING.sub("''", text))
