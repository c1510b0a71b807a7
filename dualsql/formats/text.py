"""Values as text for a model, one line each. Escapes keep the text of a cell from ending its cell or line."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import takewhile
from typing import Any

INT64_BOUND = 2**63
"""Databases hold the integers from -INT64_BOUND up to it, and every JSON library reads them as numbers."""

LARGEST_EXACT_INTEGER = 2**53
"""Beyond it, readers that store numbers as doubles (JavaScript, many hosts of models) lose digits."""

NARROWEST = 12
"""Characters. Tables leave columns out before they cut cells further."""


def duration(value: timedelta) -> str:
    """An interval as ISO 8601, of days that have 24 hours each: -P1DT2H0M0.5S."""
    sign = "-" if value < timedelta() else ""
    size = abs(value)
    minutes, seconds = divmod(size.seconds, 60)
    fraction = f".{size.microseconds:06d}".rstrip("0") if size.microseconds else ""
    return f"{sign}P{size.days}DT{minutes // 60}H{minutes % 60}M{seconds}{fraction}S"


def widest(fits: Callable[[int], bool], least: int, most: int) -> int | None:
    """The width of cells, from `least` to `most`, at which all fits, within a twentieth of the largest.

    Returns None if nothing fits.
    """
    if not fits(least):
        return None
    if fits(most):
        return most
    while most - least > max(1, least // 20):
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return least


def cell(value: Any, width: int) -> str:
    """A cell of a Markdown table: at most `width` characters, not counting escapes."""
    plain = _plain(value, width)
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")


def csv_cell(value: Any, width: int) -> str:
    """A field of CSV (RFC 4180). NULL is an empty field, an empty text is a pair of quotes."""
    plain = _plain(value, width).replace("`", "'")
    if plain == '""' or not {",", '"'} & set(plain):
        return plain
    return '"' + plain.replace('"', '""') + '"'


def json_text(value: Any) -> str:
    """The JSON of a plain value, with invisible characters and backticks as escapes."""
    text = _json(value)
    if text.isascii() and not {"`", "\x7f"} & set(text):
        return text
    return "".join(map(_escaped, text))


def single_line(text: str, width: int) -> str:
    """`text` without line breaks, control and bidirectional characters, cut with an ellipsis."""
    # The text is cut first, because a cell can hold megabytes.
    head = text[: width * 4]
    if not (head.isascii() and head.isprintable()):
        head = visible_text(head)
    folded = " ".join(head.split())
    return folded if len(folded) <= width and len(text) <= width * 4 else folded[: width - 1] + "…"


def visible_text(text: str) -> str:
    """`text` without invisible characters, and with a space for each whitespace character."""
    return "".join(" " if c.isspace() else c for c in text if c.isspace() or _is_visible(c))


def _plain(value: Any, width: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return single_line(value or '""', width)
    return single_line(_json(beginning(value, width * 4)), width)


def _escaped(character: str) -> str:
    is_break = unicodedata.category(character) in {"Zl", "Zp"}
    if character != "`" and not is_break and _is_visible(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _is_visible(character: str) -> bool:
    # Cc control, Cf format (bidirectional overrides, zero-width), Co private, Cs surrogate, Cn unassigned.
    return not unicodedata.category(character).startswith("C")


# json.dumps() makes such an encoder in every call: half of the time of a number's cell.
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


_NESTED = frozenset({list, tuple, dict, set, frozenset})
"""By identity, which is much faster than isinstance: drivers and readers of JSON make no subclasses."""


def holds_more(values: Iterable[Any], most: int) -> bool:
    """Whether the lists and objects among the values have more than `most` elements in all. It counts no further."""
    waiting = [value for value in values if type(value) in _NESTED]
    while waiting:
        value = waiting.pop()
        most -= len(value) + 1
        if most < 0:
            return True
        parts = value.values() if isinstance(value, dict) else value
        waiting += [part for part in parts if type(part) in _NESTED]
    return False


def beginning(value: Any, most: int) -> Any:
    """The value; of one with more than `most` elements, a part whose JSON begins alike and is longer than `most`."""
    if not holds_more((value,), most):
        return value
    left = most + 1

    def copied(value: Any) -> Any:
        nonlocal left
        left -= 1
        if isinstance(value, dict):
            return {key: copied(value[key]) for key in takewhile(lambda _: left > 0, value)}
        if isinstance(value, list | tuple):
            return [copied(item) for item in takewhile(lambda _: left > 0, value)]
        return value

    try:
        return copied(value)
    except RecursionError:  # the writer of JSON goes deeper
        return value
