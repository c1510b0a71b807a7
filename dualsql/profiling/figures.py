"""What was found of each column; the rule: a figure nobody had the time for is named, never left to be guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Dialect

from dualsql.formats import json
from dualsql.profiling.data import Data
from dualsql.profiling.subjects import Subject
from dualsql_client.figures import ColumnFigures, Figure, Profile, ProfileKind
from dualsql_client.wire import Covered

_VALUES = ("minimum", "maximum")

_LONGEST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ColumnFound:
    """The figures of one column, their values as the database gave them."""

    subject: Subject
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def missing(self) -> list[Figure]:
        """The figures it could have, and has not."""
        if self.subject.is_masked:
            return []
        return [figure for figure in self.subject.figures if figure not in self.figures]

    def to_wire(self, covers: Covered, dialect: Dialect) -> ColumnFigures:
        """The figures in the wire's shape, values as rows have them."""
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
class Found:
    """A profile; `rows` is None where time ran out before they were counted."""

    kind: ProfileKind
    rows: int | None
    columns: Sequence[ColumnFound]
    left_out: int
    most: int | None

    @property
    def is_complete(self) -> bool:
        """Whether there is every figure of every column."""
        return not self.left_out and not any(column.missing for column in self.columns)

    @property
    def covers(self) -> Covered:
        """Of which rows the figures are."""
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


def found(data: Data, kind: ProfileKind, rows: int | None, figures: Mapping[str, Mapping[str, Any]]) -> Found:
    """A profile of these rows; `figures` by the name of the column."""
    columns = [ColumnFound(subject, figures.get(subject.name, {})) for subject in data.subjects]
    return Found(kind=kind, rows=rows, columns=columns, left_out=data.left_out, most=data.most)


def _writer(subject: Subject, dialect: Dialect) -> json.Converter:
    """How a value of the column is written: as in its rows, and no longer than what is shown."""
    converters = json.converters([subject.column], dialect)

    def write(value: Any) -> Any:
        written = json.converted([[value]], converters)[0][0]
        if isinstance(written, str) and len(written) > _LONGEST_SHOWN:
            return written[:_LONGEST_SHOWN] + "…"
        return written

    return write
