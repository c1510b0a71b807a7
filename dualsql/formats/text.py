"""A sample as a small Markdown table for a model; the rule: cells are data, and every cut is said."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from dualsql_client.wire import Row

_CELL_WIDTHS = (80, 40, 20, 12)


class Table(NamedTuple):
    """A rendered table and how much of the sample is in it."""

    text: str
    rows: int
    columns: int


def table(names: Sequence[str], rows: Sequence[Row], *, budget: int) -> Table:
    """The largest rendering within `budget` characters: cells shrink first, then columns go, then rows."""
    for width in _CELL_WIDTHS:
        text = _render(names, rows, width)
        if len(text) <= budget:
            return Table(text, len(rows), len(names))
    width = _CELL_WIDTHS[-1]
    columns = len(names)
    while columns > 1 and len(_render(names[:columns], rows, width)) > budget:
        columns -= 1
    kept = len(rows)
    while kept and len(_render(names[:columns], rows[:kept], width)) > budget:
        kept -= 1
    return Table(_render(names[:columns], rows[:kept], width), kept, columns)


def _render(names: Sequence[str], rows: Sequence[Row], width: int) -> str:
    lines = [_line(names, width), "|" + "-|" * len(names)]
    lines += (_line([row[name] for name in names], width) for row in rows)
    return "\n".join(lines)


def _line(values: Sequence[Any], width: int) -> str:
    return "|" + "|".join(cell(value, width) for value in values) + "|"


def cell(value: Any, width: int) -> str:
    """One value on one line, at most `width` characters, unable to end its cell or its line."""
    if value is None:
        return ""
    plain = single_line(_words(value), width)
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")


def single_line(text: str, width: int) -> str:
    """`text` without line breaks, control and bidirectional characters, cut with an ellipsis."""
    # A slice first: a cell can hold megabytes.
    visible = "".join(" " if c.isspace() else c for c in text[: width * 4] if c.isspace() or _is_visible(c))
    folded = " ".join(visible.split())
    return folded if len(folded) <= width and len(text) <= width * 4 else folded[: width - 1] + "…"


def _is_visible(character: str) -> bool:
    # Cc control, Cf format (bidirectional overrides, zero-width), Co private, Cs surrogate, Cn unassigned.
    return not unicodedata.category(character).startswith("C")


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
