"""Leave columns out of a SELECT; the rule: the rows, their number and their order stay what they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import ColumnClause, Label, _textual_label_reference
from sqlalchemy.sql.util import extract_first_column_annotation

from dualsql.plan.ties import is_distinct
from dualsql.statement import AnySelect


def projected(statement: AnySelect, places: Sequence[int]) -> AnySelect | None:
    """The statement with the columns at `places` alone, in their order; None where the rest must stay.

    DISTINCT compares what it selects; a function may make rows, and an aggregate makes one of all: only plain columns
    of tables can be left out.
    """
    outputs = list(statement.selected_columns)
    left_out = [output for place, output in enumerate(outputs) if place not in set(places)]
    if is_distinct(statement) or not all(map(_is_plain, left_out)):
        return None
    if _orders_by_name(statement) or _guesses_a_join(statement):
        return None
    return with_outputs(statement, [outputs[place] for place in places])


def with_outputs(statement: AnySelect, outputs: Iterable[ColumnElement[Any]]) -> AnySelect:
    """The statement with these columns, from the tables that its own columns come from."""
    entities = [found for column in statement._raw_columns for found in _entity_of(column)]
    return statement.select_from(*entities).with_only_columns(*outputs, maintain_column_froms=True)


def _entity_of(column: Any) -> list[Any]:
    """The class that the ORM takes an expression from, which may have more tables than the expression reads.

    As `sqlalchemy.orm.context._ORMColumnEntity` has it; SQLAlchemy's own `maintain_column_froms` sees plain columns
    alone, and leaves the joins of inheritance out.
    """
    if "parententity" in column._annotations:
        return []
    entity: Any = extract_first_column_annotation(column, "parententity")  # type: ignore[no-untyped-call]
    if entity is None or not set(column._from_objects).intersection(entity.selectable._from_objects):
        return []
    return [entity.__clause_element__()]


def _is_plain(output: Any) -> bool:
    while isinstance(output, Label):
        output = output.element
    return isinstance(output, ColumnClause) and not output.is_literal


def _orders_by_name(statement: Any) -> bool:
    """Whether its ORDER BY or GROUP BY names a column by a text, which has to be there then."""
    clauses = (*statement._order_by_clauses, *statement._group_by_clauses)
    return any(
        isinstance(part, _textual_label_reference) for clause in clauses for part in visitors.iterate(clause)
    )


def _guesses_a_join(statement: Any) -> bool:
    """Whether the left side of a join is to be found among what the columns come from."""
    return any(left is None for _, _, left, _ in statement._setup_joins)
