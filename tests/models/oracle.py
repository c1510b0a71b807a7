"""What SQLAlchemy itself gives for a statement: names, rows and order; nothing of dualsql is asked.

A statement of entities is executed on a connection, which gives the columns that it selects, one by one. Loads that
the mapping adds (`lazy="joined"`) fill objects, not rows: they are set aside, as far as they do not decide which rows
there are; how many there are is what a Session says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, TextClause, inspect
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session, lazyload
from sqlalchemy.sql.elements import (
    BinaryExpression,
    Label,
    UnaryExpression,
    _anonymous_label,
    _label_reference,
    _textual_label_reference,
)
from sqlalchemy.sql.operators import distinct_op

from tests.models.values import Plain, plain

Row = tuple[Plain, ...]


@dataclass(frozen=True)
class Expected:
    """The result of plain execution.

    Attributes:
        names: as SQLAlchemy gives them; a name of its own making is None.
        rows: in the order they came.
        places: for each row, which rows it may change places with: those that tie with it in the ORDER BY.
    """

    names: Sequence[str | None]
    rows: Sequence[Row]
    places: Sequence[int]

    def blocks(self, rows: Sequence[Row]) -> list[Counter[Row]]:
        """Rows that came in some order, cut where this order has no ties."""
        actual: list[Counter[Row]] = [Counter() for _ in set(self.places)]
        for place, row in zip(self.places, rows, strict=True):
            actual[place][row] += 1
        return actual


def expected(connection: Connection, statement: Any) -> Expected:
    """What `statement` gives."""
    alone, width = _with_its_order(_without_loads(statement), connection)
    result = connection.execute(alone)
    names = list(result.keys())[:width]
    actual = list(result)
    with Session(connection) as session:
        try:
            is_whole = len(session.execute(statement).all()) == len(actual)
        except InvalidRequestError:  # a collection among the loads: the same parent in several rows
            is_whole = len(session.execute(statement).unique().all()) == len(
                {repr(tuple(row)) for row in actual}
            )
    if not is_whole:
        # A load by an inner join keeps those alone that have a partner.
        kept = {_identity(row, statement) for row in connection.execute(statement)}
        actual = [row for row in actual if _identity(row, statement) in kept]
    rows = [tuple(map(plain, row[:width])) for row in actual]
    keys = (
        [row[width:] for row in actual] if len(result.keys()) > width else _named_keys(statement, names, rows)
    )
    return Expected(list(map(_own, names, _outputs(statement, width))), rows, list(_places(keys)))


def _identity(row: Any, statement: Any) -> tuple[Any, ...]:
    """The keys of the objects that a row of a statement of entities is of."""
    entities = [inspect(part["entity"]) for part in statement.column_descriptions if _is_entity(part)]
    return tuple(
        row._mapping[entity.selectable.corresponding_column(key)]
        for entity in entities
        for key in entity.mapper.primary_key
    )


def _without_loads(statement: Any) -> Any:
    """The statement of entities without loads of related ones; which columns are deferred stays."""
    if not isinstance(statement, Select) or not any(map(_is_entity, statement.column_descriptions)):
        return statement
    copy = statement._generate()
    copy._with_options = tuple(option for option in statement._with_options if not _loads_related(option))
    return copy.options(lazyload("*"))


def _is_entity(part: Any) -> bool:
    return part.get("entity") is not None and part["expr"] is part["entity"]


def _loads_related(option: Any) -> bool:
    strategies = [element.strategy for element in getattr(option, "context", ())]
    return any(key == "lazy" for strategy in strategies for key, _ in strategy or ())


def _with_its_order(statement: Any, connection: Connection) -> tuple[Any, int]:
    """The statement with what it is ordered by behind its columns, and how many columns it has without."""
    width = len(connection.execute(statement).keys())
    if isinstance(statement, Select):
        keys = [_bare(clause) for clause in statement._order_by_clauses]
        if all(key is not None for key in keys):
            return statement.add_columns(*(key.label(f"order_{n}") for n, key in enumerate(keys))), width
    return statement, width


def _bare(clause: Any) -> Any:
    """What a clause of an ORDER BY puts in order, without its direction; None for a name."""
    while isinstance(clause, _label_reference) or getattr(clause, "modifier", None) is not None:
        clause = clause.element
    if isinstance(clause, _textual_label_reference | TextClause):
        return None
    return clause.element if isinstance(clause, Label) else clause


def _named_keys(statement: Any, names: Sequence[str], rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The values of the columns that an ORDER BY gives by their names."""
    clauses = [_stripped(clause) for clause in getattr(statement, "_order_by_clauses", ())]
    positions = [
        int(clause.text) - 1 if isinstance(clause, TextClause) else names.index(_name_of(clause))
        for clause in clauses
    ]
    return [tuple(row[position] for position in positions) for row in rows]


def _name_of(clause: Any) -> str:
    name = clause.element if isinstance(clause, _textual_label_reference) else clause.name
    return str(name)


def _stripped(clause: Any) -> Any:
    while isinstance(clause, _label_reference) or getattr(clause, "modifier", None) is not None:
        clause = clause.element
    return clause


def _places(keys: Sequence[tuple[Any, ...]]) -> Iterator[int]:
    place, last = -1, None
    for key in keys:
        if place < 0 or key != last:
            place, last = place + 1, key
        yield place


def _outputs(statement: Any, width: int) -> list[Any]:
    """What each column was written as, where there is one for each."""
    actual = list(statement.selected_columns) if isinstance(statement, Select) else []
    return actual if len(actual) == width else [None] * width


def _own(key: str, output: Any) -> str | None:
    """The name of a column; None for one that SQLAlchemy makes up for an expression."""
    if getattr(output, "_tq_label", None) == key:
        return str(output.name)  # under set_label_style(): the table's name is for SQL
    if isinstance(output, UnaryExpression | BinaryExpression) and output.operator is not distinct_op:
        return None
    is_made = isinstance(getattr(output, "name", None), _anonymous_label)
    return None if is_made or re.search(r"(^|_)anon_\d+$|^_no_label|%\(", key) else key
