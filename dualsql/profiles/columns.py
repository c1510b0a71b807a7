"""The rows and columns that a profile reads. Nothing is computed of masked columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, FromClause, select, types
from sqlalchemy.sql.elements import ColumnClause

from dualsql import plan
from dualsql.capabilities import Capabilities
from dualsql.columns.instants import is_instant, normalized_instant
from dualsql.columns.result import ResultColumn, with_criteria_of
from dualsql.freeze.document import AnySelect
from dualsql.kept.cells import Use
from dualsql.plan import Ordered
from dualsql.sqlalchemy_dialects import ranges
from dualsql_client.wire import StatisticName

Hides = Callable[[Any], bool]
"""Whether a column of a table is masked."""


def is_hidden(expression: ColumnElement[Any], hides: Hides) -> bool:
    """Whether the expression depends on a masked column, also through subqueries."""
    waiting: list[Any] = [expression]
    ids: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in ids:
            continue
        ids.add(id(part))
        if isinstance(part, ColumnClause) and hides(part):
            return True
        waiting += part.get_children()
        if isinstance(part, ColumnElement):
            waiting += part.proxy_set  # the columns behind a column of a subquery
    return False


_GROUPED = frozenset({"integer", "float", "decimal", "boolean", "date", "time", "datetime", "uuid", "text"})
"""Encodings of values that can be grouped and shown; documents, lists and bytes cannot."""

_RANGED = frozenset({"integer", "float", "decimal", "date", "time", "datetime", "text"})


@dataclass(frozen=True, slots=True)
class ProfiledColumn:
    """A profiled column.

    Attributes:
        value: the column of the profiled rows.
        is_masked: whether it depends on a masked column. None of its statistics is shown.
    """

    column: ResultColumn
    value: ColumnElement[Any]
    is_masked: bool

    @property
    def name(self) -> str:
        """The column's name."""
        return self.column.name

    @property
    def is_text(self) -> bool:
        """Whether its values are texts, which may be too long to be shown."""
        plain = self.column.shown
        is_text = isinstance(plain, types.String) and not isinstance(plain, types.Enum)
        return is_text and self.column.meaning.is_same and isinstance(self.column.stored, types.String)

    @property
    def is_grouped(self) -> bool:
        """Whether its values can be counted one by one."""
        if isinstance(self.column.shown, ranges.AbstractRange) or not self.column.meaning.keeps_equality:
            return False
        return self._encoding in _GROUPED or self._is_number

    @property
    def has_range(self) -> bool:
        """Whether it has a lowest and a highest value."""
        # Each database orders ENUMs differently.
        if isinstance(self.column.shown, types.Enum | ranges.AbstractRange):
            return False
        return self.column.meaning.keeps_order and (self._encoding in _RANGED or self._is_number)

    @property
    def has_bins(self) -> bool:
        """Whether its range can be divided into bins."""
        return self.column.meaning.is_same and (self._is_number or self._encoding in ("date", "datetime"))

    @property
    def uses(self) -> Iterator[Use]:
        """The uses that its statistics make of kept cells."""
        yield "nulls"
        if self.has_range or self.is_grouped:
            # Which of two texts comes first is known where the database compares code points.
            yield "compared"
            if self.is_text:
                yield "sorted"
        if self.has_bins:
            yield "grouped"

    @property
    def statistic_names(self) -> Iterator[StatisticName]:
        """The statistics that the column can have."""
        yield "nulls"
        if self.has_range:
            yield from ("minimum", "maximum")
        if self.is_text:
            yield "longest"
        if self.is_grouped:
            yield from ("distinct", "most_frequent")
        if self.has_bins:
            yield "histogram"

    @property
    def _encoding(self) -> str:
        return self.column.encoding

    @property
    def _is_number(self) -> bool:
        return self.column.describe()["type"] == "number"


@dataclass(frozen=True)
class ProfiledRows:
    """The profiled rows, as a subquery.

    Attributes:
        rows: the statement that selects them.
        result: all of its columns.
        columns: the profiled ones. `left_out` is the number of further requested columns.
        most: the largest number of rows; None for all.
    """

    rows: AnySelect
    result: Sequence[ResultColumn]
    columns: Sequence[ResultColumn]
    capabilities: Capabilities
    hides: Hides
    most: int | None
    left_out: int = 0

    @cached_property
    def source(self) -> FromClause:
        """The rows as a subquery."""
        return self.rows.subquery("result")

    @cached_property
    def profiled(self) -> Sequence[ProfiledColumn]:
        """The profiled columns."""
        values = dict(zip(self.result, self.source.c, strict=True))
        return [
            ProfiledColumn(column, self._comparable(values[column]), is_hidden(column.expression, self.hides))
            for column in self.columns
        ]

    def _comparable(self, value: Any) -> Any:
        return normalized_instant(value) if self.capabilities.spells_instants and is_instant(value) else value

    def statement_of(self, *outputs: Any) -> AnySelect:
        """A SELECT of these outputs over the rows."""
        return with_criteria_of(self.rows, select(*outputs).select_from(self.source))

    def around(self, inner: Any) -> AnySelect:
        """A SELECT of all columns of `inner`, which reads the rows."""
        return with_criteria_of(self.rows, select(*inner.subquery("asked").c))


def profiled_rows(
    ordered: Ordered, columns: Sequence[ResultColumn], hides: Hides, *, most: int | None = None
) -> ProfiledRows:
    """Every row of the result, or the first ones in its own order."""
    rows = plan.all_rows(ordered) if most is None else plan.page(ordered, offset=0, limit=most)
    return ProfiledRows(rows, ordered.shape.columns, columns, ordered.capabilities, hides, most)
