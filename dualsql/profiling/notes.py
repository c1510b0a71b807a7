"""What a model should hear of a profile; the rule: forty characters a column, of what the sample does not show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dualsql.columns import ResultColumn
from dualsql.formats.text import cell
from dualsql.profiling.figures import ColumnFound, Found

LONGEST = 40
_LONGEST_NAME = 16
_LONGEST_NOTE = 32


def notes_of(
    found: Found, columns: Sequence[ResultColumn], sample: Sequence[Sequence[Any]]
) -> dict[str, str]:
    """A note for each column of which the sample gives a wrong picture, by its name.

    Args:
        sample: rows of all `columns`, as the database gave them.
    """
    if found.rows is None or found.rows <= len(sample):
        return {}
    places = {column.name: place for place, column in enumerate(columns)}
    notes = {
        column.subject.name: _note(column, found.rows, [row[places[column.subject.name]] for row in sample])
        for column in found.columns
    }
    return {name: note for name, note in notes.items() if note}


def spoken(name: str, note: str) -> str:
    """A note with its column's name, in at most forty characters and what it takes to escape them."""
    return f"{cell(name, min(_LONGEST_NAME, LONGEST - len(note) - 1))} {note}"


def _note(column: ColumnFound, rows: int, shown: Sequence[Any]) -> str:
    figures = column.figures
    if "nulls" not in figures:
        return ""
    known = rows - figures["nulls"]
    if known == 0:
        return "all NULL"
    if _has_one_value(column):
        only = _written(_the_value(column))
        return f"always {only}" if known == rows else f"{only} or NULL"
    ranged = _beyond(figures.get("minimum"), figures.get("maximum"), shown)
    if figures["nulls"] * 2 > rows:
        share = figures["nulls"] * 100 // rows
        both = f"{share}% NULL, {ranged}"
        return both if ranged and len(both) <= _LONGEST_NOTE else f"{share}% NULL"
    return ranged


def _has_one_value(column: ColumnFound) -> bool:
    figures = column.figures
    if figures.get("distinct_kind") == "exact":
        return bool(figures["distinct"] == 1)
    # Two long texts may begin alike.
    is_short = not column.subject.is_text or figures.get("longest", 0) <= LONGEST
    return is_short and "minimum" in figures and bool(figures["minimum"] == figures["maximum"])


def _the_value(column: ColumnFound) -> Any:
    frequent = column.figures.get("most_frequent")
    return frequent[0]["value"] if frequent else column.figures["minimum"]


def _beyond(lowest: Any, highest: Any, shown: Sequence[Any]) -> str:
    """The range, where it goes beyond the values that are shown."""
    if isinstance(lowest, bool) or not isinstance(lowest, int | float | Decimal | date):
        return ""
    known: list[Any] = [value for value in shown if isinstance(value, type(lowest))]
    if known and bool(min(known) <= lowest and max(known) >= highest):
        return ""
    return f"{_written(lowest)} to {_written(highest)}"


def _written(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d")
    if isinstance(value, Decimal | float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**12 else f"{value:.3g}"
    return cell(value if isinstance(value, str | bool) else str(value), 12)
