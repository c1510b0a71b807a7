"""A profile's statistics by column, and notes on them for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.formats import cells, json
from dualsql.formats.text import cell
from dualsql.profiles.columns import ProfiledColumn
from dualsql_client.wire import ColumnProfile, Covered, Profile, ProfileKind, ProfileNotes, StatisticName

_VALUES = ("minimum", "maximum")

_LONGEST_EXCERPT = 100


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column, with the values of the database."""

    profiled: ProfiledColumn
    statistics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> list[StatisticName]:
        """The statistics of the column that were not computed, because time ran out."""
        if self.profiled.is_masked:
            return []
        return [name for name in self.profiled.statistic_names if name not in self.statistics]

    @property
    def is_partial(self) -> bool:
        """Whether a statistic is missing or an estimate."""
        return bool(self.missing) or "estimated" in self.statistics

    def to_wire(self, covers: Covered, dialect: Dialect) -> ColumnProfile:
        """The statistics in the shape of the wire; values are written as in rows."""
        write = _writer(self.profiled, dialect)
        profile = ColumnProfile(
            name=self.profiled.name,
            type=self.profiled.column.describe()["type"],
            covers=covers,
            masked=self.profiled.is_masked,
            missing=self.missing,
        )
        statistics = self.statistics
        plain = {name: value for name, value in statistics.items() if name not in _VALUES}
        values = {name: write(statistics[name]) for name in _VALUES if name in statistics}
        frequent = [{**value, "value": write(value["value"])} for value in plain.pop("most_frequent", ())]
        most_frequent = {"most_frequent": frequent} if "most_frequent" in statistics else {}
        return ColumnProfile(**{**profile, **plain, **values, **most_frequent})  # type: ignore[typeddict-item]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileResult:
    """A profile. `rows` is None if the rows could not be counted in time."""

    kind: ProfileKind
    rows: int | None
    columns: Sequence[ColumnStatistics]
    left_out: int
    most: int | None

    @property
    def is_complete(self) -> bool:
        """Whether no statistic of any column is missing or estimated."""
        return not self.left_out and not any(column.is_partial for column in self.columns)

    @property
    def covers(self) -> Covered:
        """The rows that were profiled."""
        is_all = self.most is None or (self.rows is not None and self.rows < self.most)
        return Covered(rows=self.rows, of="all" if is_all else "sample")

    def to_wire(self, dialect: Dialect) -> Profile:
        """The profile in the wire's shape, its values plain JSON."""
        profile = Profile(
            kind=self.kind,
            covers=self.covers,
            complete=self.is_complete,
            left_out=self.left_out,
            columns=[column.to_wire(self.covers, dialect) for column in self.columns],
        )
        plain: Profile = json.loads(json.dumps(profile))
        return plain


def _writer(profiled: ProfiledColumn, dialect: Dialect) -> json.Converter:
    """A function that writes a value of the column as its rows do, shortened to what is shown."""
    converters = cells.converters([profiled.column], dialect)

    def write(value: Any) -> Any:
        text = json.with_words(cells.converted([[value]], converters)[0][0])
        if isinstance(text, str) and len(text) > _LONGEST_EXCERPT:
            return text[:_LONGEST_EXCERPT] + "…"
        return text

    return write


_LONGEST_NOTE = 32
_NOTE_NAME_WIDTH = 16

NOTE_WIDTH = 40
"""Characters of one note on a column, with the column's name, not counting escapes."""


def text_of_notes(notes: ProfileNotes) -> str:
    """The notes as lines of a result's text; empty without notes."""
    if not notes["notes"]:
        return ""
    covers = notes["covers"]
    extent = "all" if covers["of"] == "all" else "the first"
    each = "; ".join(
        f"{cell(name, min(_NOTE_NAME_WIDTH, NOTE_WIDTH - len(note) - 1))} {note}"
        for name, note in notes["notes"].items()
    )
    return f"In {extent} {covers['rows']:,} rows: {each}."


def sample_notes(
    result: ProfileResult, columns: Sequence[ResultColumn], sample: Sequence[Sequence[Any]]
) -> dict[str, str]:
    """Notes on the columns that the sample misrepresents, by name.

    Args:
        sample: rows of all `columns`, with the values of the database.
    """
    if result.rows is None or result.rows <= len(sample):
        return {}
    positions = {column.name: position for position, column in enumerate(columns)}
    notes = {
        column.profiled.name: _note(
            column, result.rows, [row[positions[column.profiled.name]] for row in sample]
        )
        for column in result.columns
    }
    return {name: note for name, note in notes.items() if note}


def _note(column: ColumnStatistics, rows: int, values: Sequence[Any]) -> str:
    statistics = column.statistics
    if "nulls" not in statistics:
        return ""
    non_null = rows - statistics["nulls"]
    if non_null == 0:
        return "all NULL"
    if _has_one_value(column):
        frequent = statistics.get("most_frequent")
        only = _text_of(frequent[0]["value"] if frequent else statistics["minimum"])
        return f"always {only}" if non_null == rows else f"{only} or NULL"
    ranged = _beyond(statistics.get("minimum"), statistics.get("maximum"), values)
    if statistics["nulls"] * 2 > rows:
        share = statistics["nulls"] * 100 // rows
        both = f"{share}% NULL, {ranged}"
        return both if ranged and len(both) <= _LONGEST_NOTE else f"{share}% NULL"
    return ranged


def _has_one_value(column: ColumnStatistics) -> bool:
    statistics = column.statistics
    if statistics.get("distinct_kind") == "exact":
        return bool(statistics["distinct"] == 1)
    # Only the beginning of a text is read, so two long texts may look equal.
    is_short = not column.profiled.is_text or statistics.get("longest", 0) <= NOTE_WIDTH
    return is_short and "minimum" in statistics and bool(statistics["minimum"] == statistics["maximum"])


def _beyond(lowest: Any, highest: Any, values: Sequence[Any]) -> str:
    """The range, if values outside the sample's range exist."""
    if isinstance(lowest, bool) or not isinstance(lowest, int | float | Decimal | date):
        return ""
    comparable: list[Any] = [value for value in values if isinstance(value, type(lowest))]
    if comparable and bool(min(comparable) <= lowest and max(comparable) >= highest):
        return ""
    return f"{_text_of(lowest)} to {_text_of(highest)}"


def _text_of(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d")
    if isinstance(value, Decimal | float):
        return f"{value:.6g}" if json.is_finite(value) else json.number_word(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**12 else f"{value:.3g}"
    return cell(value if isinstance(value, str | bool) else str(value), 12)
