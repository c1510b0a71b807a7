"""Which figures a column can have; the rule: asked is only what every database answers for such a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, types
from sqlalchemy.dialects.postgresql import ranges

from dualsql.columns import ResultColumn, plain_type
from dualsql_client.figures import Figure

_GROUPED = frozenset({"integer", "float", "decimal", "boolean", "date", "time", "datetime", "uuid", "text"})
"""Encodings of values that can be told apart and shown: not documents, lists, bytes."""

_RANGED = frozenset({"integer", "float", "decimal", "date", "time", "datetime", "text"})


@dataclass(frozen=True, slots=True)
class Subject:
    """A column that is looked at.

    Attributes:
        value: the column of the rows that are looked at.
        is_masked: nothing may be said of it.
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
        """Whether its values have a length, and may be too long to be shown."""
        plain = self.column.shown
        is_text = isinstance(plain, types.String) and not isinstance(plain, types.Enum)
        return (
            is_text and self.column.meaning.is_same and isinstance(plain_type(self.column.type), types.String)
        )

    @property
    def is_grouped(self) -> bool:
        """Whether its values can be counted one by one."""
        if isinstance(self.column.shown, ranges.AbstractRange) or not self.column.meaning.keeps_equality:
            return False
        return self._encoding in _GROUPED or self._is_number

    @property
    def has_range(self) -> bool:
        """Whether there is a lowest and a highest."""
        # The order of an ENUM is another one in each database.
        if isinstance(self.column.shown, types.Enum | ranges.AbstractRange):
            return False
        return self.column.meaning.keeps_order and (self._encoding in _RANGED or self._is_number)

    @property
    def has_bins(self) -> bool:
        """Whether its range can be divided."""
        return self.column.meaning.is_same and (self._is_number or self._encoding in ("date", "datetime"))

    @property
    def figures(self) -> Iterator[Figure]:
        """All that can be known of it."""
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
