"""The rows that a profile looks at; the rule: they are those of the result, and each statement reads the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import FromClause, select

from dualsql import plan
from dualsql.columns import ResultColumn
from dualsql.dialects import Capabilities
from dualsql.instants import instant, is_instant
from dualsql.plan import Ordered
from dualsql.profiling.hidden import Hides, is_hidden
from dualsql.profiling.subjects import Subject
from dualsql.statement import AnySelect


@dataclass(frozen=True)
class Data:
    """Rows to be looked at, as a subquery.

    Attributes:
        rows: the statement whose rows they are.
        result: all its columns.
        columns: those of them that are looked at; `left_out` more were asked for.
        most: how many rows at most; None for all.
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
    def subjects(self) -> Sequence[Subject]:
        """The columns that are looked at."""
        values = dict(zip(self.result, self.source.c, strict=True))
        return [
            Subject(column, self._compared(values[column]), is_hidden(column.expression, self.hides))
            for column in self.columns
        ]

    def _compared(self, value: Any) -> Any:
        return instant(value) if self.capabilities.spells_instants and is_instant(value) else value

    def asked(self, *outputs: Any) -> AnySelect:
        """A SELECT of these outputs over the rows."""
        return plan.with_criteria_of(self.rows, select(*outputs).select_from(self.source))

    def around(self, inner: Any) -> AnySelect:
        """A SELECT of all that `inner`, which reads the rows, gives."""
        return plan.with_criteria_of(self.rows, select(*inner.subquery("asked").c))


def all_rows(ordered: Ordered, columns: Sequence[ResultColumn], hides: Hides) -> Data:
    """Every row of the result."""
    rows = plan.whole(ordered)
    return Data(rows, ordered.shape.columns, columns, ordered.capabilities, hides, None)


def first_rows(ordered: Ordered, columns: Sequence[ResultColumn], hides: Hides, *, most: int) -> Data:
    """The first rows of the result, in its own order."""
    rows = plan.page(ordered, offset=0, limit=most)
    return Data(rows, ordered.shape.columns, columns, ordered.capabilities, hides, most)
