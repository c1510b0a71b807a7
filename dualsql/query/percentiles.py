"""Percentiles of groups for databases without ordered-set aggregates, computed of rows that are numbered first.

As PostgreSQL's percentile_cont: with n values, the value at the place fraction * (n - 1), counted from 0; between two
places, in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Double, FromClause, case, func, literal, select

from dualsql.capabilities import Capabilities
from dualsql.columns.own_types import Element
from dualsql.columns.result import ResultColumn
from dualsql.freeze.document import AnySelect
from dualsql.plan.derived import as_subquery
from dualsql.plan.keys import Key


@dataclass(frozen=True, slots=True)
class RankedValues:
    """The values of one column, numbered within each group.

    Attributes:
        value: as a double.
        position: the number of its row, from 0; NULLs come last.
        size: the number of values of the group.
    """

    value: Element
    position: Element
    size: Element

    def at(self, fraction: float) -> Element:
        """The aggregate of a group."""
        position: Element = literal(fraction, Double()) * (self.size - 1)
        is_below = self.position <= position
        lower = func.max(case((is_below, self.value)), type_=Double())
        upper = func.min(case((self.position >= position, self.value)), type_=Double())
        share = func.max(position, type_=Double()) - func.max(
            case((is_below, self.position)), type_=BigInteger()
        )
        # The difference of two infinities is no number.
        return case((lower == upper, lower), else_=lower + (upper - lower) * share)


def with_ranks(
    relation: FromClause,
    columns: Sequence[ResultColumn],
    keys: Sequence[Element],
    values: Mapping[str, Element],
    capabilities: Capabilities,
) -> tuple[FromClause, list[ResultColumn], list[Element], dict[str, RankedValues]]:
    """The relation with numbered values, its columns and its keys there, and the values by name.

    Args:
        keys: columns of the relation that make the groups.
        values: of the columns to rank, as doubles.
    """
    outputs = [*(column.expression for column in columns), *keys]
    ranks = [part for value in values.values() for part in _rank(value, keys, capabilities)]
    labels = [part.label(f"ranked_{number}") for number, part in enumerate(ranks)]
    statement: AnySelect = select(*outputs, *labels).select_from(relation)
    inner = as_subquery(statement, "ranked")
    elements: list[Element] = list(inner.c)
    width, rest = len(columns), elements[len(outputs) :]
    relocated = [column.moved(element) for column, element in zip(columns, elements[:width], strict=True)]
    by_name = {name: RankedValues(*rest[3 * n : 3 * n + 3]) for n, name in enumerate(values)}
    return inner, relocated, elements[width : len(outputs)], by_name


def _rank(value: Element, keys: Sequence[Element], capabilities: Capabilities) -> list[Element]:
    """The parts of `RankedValues`."""
    groups = list(keys) or None
    order = Key(expression=value, is_nulls_last=True).clauses(capabilities)
    position = func.row_number(type_=BigInteger()).over(partition_by=groups, order_by=order) - 1
    return [value, position, func.count(value, type_=BigInteger()).over(partition_by=groups)]
