"""A profile's statistics by column, and the notes that a model reads of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.formats import json
from dualsql.formats.text import cell
from dualsql.profiles.subjects import ProfiledColumn, ProfiledRows
from dualsql.response import NOTE_WIDTH
from dualsql_client.wire import ColumnFigures, Covered, Figure, Profile, ProfileKind

_VALUES = ("minimum", "maximum")

_LONGEST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column, values as the database gave them."""

    subject: ProfiledColumn
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> list[Figure]:
        """The statistics that the column could have, and that there was no time for."""
        if self.subject.is_masked:
            return []
        return [figure for figure in self.subject.figures if figure not in self.figures]

    def to_wire(self, covers: Covered, dialect: Dialect) -> ColumnFigures:
        """The statistics in the shape of the wire; values are written as in rows."""
        write = _writer(self.subject, dialect)
        found = ColumnFigures(
            name=self.subject.name,
            type=self.subject.column.describe()["type"],
            covers=covers,
            masked=self.subject.is_masked,
            missing=self.missing,
        )
        figures = {figure: value for figure, value in self.figures.items() if figure not in _VALUES}
        values = {figure: write(self.figures[figure]) for figure in _VALUES if figure in self.figures}
        frequent = [{**value, "value": write(value["value"])} for value in figures.pop("most_frequent", ())]
        shown = {"most_frequent": frequent} if "most_frequent" in self.figures else {}
        return ColumnFigures(**{**found, **figures, **values, **shown})  # type: ignore[typeddict-item]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileResult:
    """A profile; `rows` is None if there was no time to count them."""

    kind: ProfileKind
    rows: int | None
    columns: Sequence[ColumnStatistics]
    left_out: int
    most: int | None

    @property
    def is_complete(self) -> bool:
        """Whether no statistic of any column is missing."""
        return not self.left_out and not any(column.missing for column in self.columns)

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


def profile_result(
    data: ProfiledRows, kind: ProfileKind, rows: int | None, figures: Mapping[str, Mapping[str, Any]]
) -> ProfileResult:
    """A profile of these rows; `figures` has the statistics of each column by its name."""
    columns = [ColumnStatistics(subject, figures.get(subject.name, {})) for subject in data.subjects]
    return ProfileResult(kind=kind, rows=rows, columns=columns, left_out=data.left_out, most=data.most)


def _writer(subject: ProfiledColumn, dialect: Dialect) -> json.Converter:
    """A function that writes a value of the column as its rows do, shortened to what is shown."""
    converters = json.converters([subject.column], dialect)

    def write(value: Any) -> Any:
        written = json.converted([[value]], converters)[0][0]
        if isinstance(written, str) and len(written) > _LONGEST_SHOWN:
            return written[:_LONGEST_SHOWN] + "…"
        return written

    return write


_LONGEST_NOTE = 32


def notes_of(
    found: ProfileResult, columns: Sequence[ResultColumn], sample: Sequence[Sequence[Any]]
) -> dict[str, str]:
    """Notes on the columns that the sample misrepresents, by name.

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


def _note(column: ColumnStatistics, rows: int, shown: Sequence[Any]) -> str:
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


def _has_one_value(column: ColumnStatistics) -> bool:
    figures = column.figures
    if figures.get("distinct_kind") == "exact":
        return bool(figures["distinct"] == 1)
    # Only the beginning of a text is read, and two long texts may begin alike.
    is_short = not column.subject.is_text or figures.get("longest", 0) <= NOTE_WIDTH
    return is_short and "minimum" in figures and bool(figures["minimum"] == figures["maximum"])


def _the_value(column: ColumnStatistics) -> Any:
    frequent = column.figures.get("most_frequent")
    return frequent[0]["value"] if frequent else column.figures["minimum"]


def _beyond(lowest: Any, highest: Any, shown: Sequence[Any]) -> str:
    """The range, if values outside the sample's range exist."""
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
