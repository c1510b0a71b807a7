"""The columns of a result that refer to rows of other tables, and the names of those rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sqlalchemy import Column, FromClause, Select, bindparam, select
from sqlalchemy.types import TypeEngine

from dualsql.catalogue.addresses import Address
from dualsql.catalogue.catalogue import CatalogueView
from dualsql.catalogue.feature import Tables
from dualsql.errors import BadParameterError, DualResponseError
from dualsql.formats.cells import integer_columns
from dualsql.resource import CountMethod, Principal, Resource
from dualsql.web.tables import catalogue_address

if TYPE_CHECKING:
    from dualsql.server import ResultServer

_SECONDS = 3
"""After which no further table is asked for names."""
_MOST_LABELS = 100
"""Rows of a table whose names one request looks up."""
_LONGEST_LABEL = 100
"""Characters of a name that are shown."""
_LONGEST_KEY = 200
"""Characters of a value whose row has a name."""
_LABELS = frozenset({"name", "title"})
"""Names of columns that name a row."""


def references(server: ResultServer, resource: Resource, principal: Principal | None) -> Mapping[str, Any]:
    """The columns of a result that hold keys of tables that the caller sees.

    Returns:
        By column name: `uri`, `table` and `column` of the key, and `has_labels`: its rows have names to look up.
    """
    view = server.features.get(Tables).catalogue().view_for(principal)
    live = server.parts.views.live(resource, principal)
    return {
        column.name: target
        for column in live.shape.columns
        if (target := _target(column.expression, view, live.source.name)) is not None
    }


def _target(element: Any, view: CatalogueView, source: str) -> Mapping[str, Any] | None:
    """The table that a plain column refers to; None for any other expression."""
    origins: Sequence[Any] = [*getattr(element, "base_columns", ())]
    if len(origins) != 1 or not isinstance(origins[0], Column):
        return None
    for key in sorted(origins[0].foreign_keys, key=lambda key: str(key.target_fullname)):
        table = view.catalogue.placed_table(key.column.table)
        if table is not None and table.at(source) in view.tables:
            uri = view.catalogue.addressing.write(table.at(source))
            masked = view.visible[source].masked.get(table.key, ())
            label = _label_column(key.column.table, str(key.column.name), masked)
            # One of several columns of a key is of rows of several names.
            is_alone = key.constraint is None or len(key.constraint.elements) == 1
            return {
                "uri": uri,
                "table": table.name,
                "column": str(key.column.name),
                "has_labels": label is not None and is_alone,
            }
    return None


def _label_column(table: FromClause, key: str, masked: Collection[str] = ()) -> Any:
    """The column that names a row to a person: `name` or `title`, or the only one beside the key; None if masked."""
    others = [column for column in table.columns if column.name != key]
    named = [column for column in others if str(column.name).lower() in _LABELS]
    label = named[0] if named else others[0] if len(others) == 1 else None
    return None if label is None or label.key in masked else label


async def row_labels(
    server: ResultServer, principal: Principal | None, keys: Sequence[Any]
) -> Sequence[Sequence[Sequence[Any]]]:
    """For each key, the names of rows that the caller sees, as pairs of a value and its name.

    Args:
        keys: each with `table`, which is a URI of the catalogue, `column` and `values`. The first ones are looked up
            until the time is over; the others, and those that cannot be read, have no pairs.

    Raises:
        BadParameterError: a key has another shape, or the caller sees no such table.
    """
    view, answers = server.features.get(Tables).catalogue().view_for(principal), []
    lookups = [
        _KeysOfTable(*_table_and_column(view, key), values=key["values"][:_MOST_LABELS]) for key in keys
    ]
    ends_at = time.monotonic() + _SECONDS
    for each in lookups:
        statement = each.statement(view) if time.monotonic() < ends_at else None
        pairs: Sequence[Sequence[Any]] = []
        if statement is not None:
            with suppress(DualResponseError):  # the rows are there without it
                source = server.parts.sources[each.address.source]
                opened = server.parts.views.open(source, source.freeze(statement), principal)
                sample = await opened.sample(_MOST_LABELS, CountMethod("none"))
                # Whole numbers as texts: a double of JavaScript could be the key of another row.
                records = opened.record_maker(integer_columns(opened.columns)).records(sample.rows)
                pairs = [[row["row_key"], _short(row["row_label"])] for row in records]
        answers.append(pairs)
    return answers


class _KeysOfTable(NamedTuple):
    address: Address
    column: str
    values: Sequence[Any]

    def statement(self, view: CatalogueView) -> Select[Any] | None:
        """The Select of the names; None where the table has none, or no value can be one of its keys."""
        placed = view.tables[self.address]
        by_name = {str(column.name): column for column in placed.table.columns}
        masked = view.visible[self.address.source].masked.get(placed.key, ())
        label = _label_column(placed.table, self.column, masked)
        if label is None or self.column not in by_name:
            return None
        key = by_name[self.column]
        values = _typed(self.values, key.type)
        if not values:
            return None
        # A name of its own: that of the column may have characters that no parameter has.
        among = key.in_(bindparam("row_keys", values, type_=key.type, expanding=True, unique=True))
        return select(key.label("row_key"), label.label("row_label")).where(among)


def _table_and_column(view: CatalogueView, key: Any) -> tuple[Address, str]:
    match key:
        case {"table": str(uri), "column": str(column), "values": list()}:
            return catalogue_address(view, uri), column
    raise BadParameterError("A key has a table, a column and a list of values.")


def _typed(values: Sequence[Any], kind: TypeEngine[Any]) -> list[Any]:
    """The values that can be in a column, as Python has them; JSON has some of them as texts."""
    try:
        read = _READERS[kind.python_type]
    except (KeyError, NotImplementedError):
        return []
    typed = []
    for value in values:
        if type(value) in {str, int, float} and len(str(value)) <= _LONGEST_KEY:
            with suppress(ValueError, ArithmeticError):
                typed.append(read(value))
    return typed


def _whole(value: Any) -> int:
    number = int(value)
    if abs(number) >= 2**63:
        raise ValueError("No column has it.")
    return number


def _text(value: Any) -> str:
    if "\0" in str(value):
        raise ValueError("Some databases have no such text.")
    return str(value)


_READERS: Mapping[type, Callable[[Any], Any]] = {
    int: _whole,
    str: _text,
    Decimal: lambda value: Decimal(str(value)),
    UUID: lambda value: UUID(str(value)),
    date: lambda value: date.fromisoformat(str(value)),
}


def _short(label: Any) -> str | None:
    """A name as a line of a cell; none of a value that is no text and no number."""
    if isinstance(label, bool) or not isinstance(label, str | int | float):
        return None
    text = str(label)
    return text if len(text) <= _LONGEST_LABEL else f"{text[:_LONGEST_LABEL]}…"
