"""How tables are rendered under the rules; the rule: a form holds names of values, never a value.

A form depends on the rules alone, so the compiled statements made under it serve every principal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Alias, BindParameter, ColumnElement, Select, select
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import visitors
from sqlalchemy.sql.elements import False_
from sqlalchemy.sql.selectable import CTE, TableClause

from dualsql.errors import ConfigurationError
from dualsql.narrowing.compiler import narrowing_dialect

Table = Any
"""A Table or lightweight table of the registry."""


class Form:
    """What each table of a registry is replaced by when SQL is written.

    Attributes:
        names: of the tables, registered or read by a predicate, which no CTE may take; empty without rules.
        is_open: no rule at all: text may be rendered where the registry allows it.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        conditions: Mapping[int, Sequence[ColumnElement[bool]]],
        masks: Mapping[int, Mapping[str, ColumnElement[Any]]],
        is_open: bool,
    ) -> None:
        self._known = {id(table) for table in tables}
        self._conditions = conditions
        self._masks = masks
        self._selects: dict[int, Select[Any]] = {}
        self._dialects: dict[Dialect, Dialect] = {}
        self.is_open = is_open
        self.names = frozenset() if is_open else frozenset(_names_in([*tables, *chain(*conditions.values())]))

    def knows(self, table: Table) -> bool:
        """Whether the table may be read at all."""
        return id(table) in self._known

    def narrows(self, table: Table) -> bool:
        """Whether the table is read through a SELECT of its own."""
        return id(table) in self._conditions or id(table) in self._masks

    def hides(self, column: Any) -> bool:
        """Whether a mask stands in the place of this column of a table, or of its alias."""
        table = getattr(column, "table", None)
        while isinstance(table, Alias):
            table = table.element
        return column.key in self._masks.get(id(getattr(table, "_Annotated__element", table)), ())

    def filters(self, table: Table) -> bool:
        """Whether rows of the table are kept back."""
        return id(table) in self._conditions

    def empties(self, table: Table) -> bool:
        """Whether every row of the table is kept back, by a condition that says so."""
        return any(isinstance(condition, False_) for condition in self._conditions.get(id(table), ()))

    def hidden(self, table: Table) -> frozenset[str]:
        """Keys of the columns that a mask stands in the place of."""
        return frozenset(self._masks.get(id(table), ()))

    def select_of(self, table: Table) -> Select[Any]:
        """The SELECT that a narrowed table is read through: its rows and columns under the rules."""
        if id(table) not in self._selects:
            self._selects[id(table)] = self._select(table)
        return self._selects[id(table)]

    def dialect(self, base: Dialect) -> Dialect:
        """`base` with a compiler that knows this form."""
        if base not in self._dialects:
            self._dialects[base] = narrowing_dialect(base, self)
        return self._dialects[base]

    def _select(self, table: Table) -> Select[Any]:
        masks = self._masks.get(id(table), {})
        columns = [masks.get(key, column) for key, column in table.c.items()]
        found = select(*columns).select_from(table).where(*self._conditions.get(id(table), ()))
        froms = found.get_final_froms()
        if len(froms) != 1 or any(isinstance(part, CTE) for part in visitors.iterate(found)):
            raise ConfigurationError(
                f"A rule for the table {table.name!r} reads other tables beside it.",
                hint="Read them in a subquery: column.in_(select(...)), or exists().",
            )
        return found


def _names_in(elements: Iterable[Any]) -> Iterator[str]:
    for element in elements:
        for part in visitors.iterate(element):
            if isinstance(part, TableClause):
                yield part.name.casefold()


def with_named_values(expression: Any, names: Mapping[int, str]) -> Any:
    """The expression with its values left open: each bound one becomes a parameter that must be given.

    Args:
        names: of the new parameters, by the id of the old ones.
    """

    def replace(element: Any, **_: Any) -> Any:
        if not isinstance(element, BindParameter):
            return None
        return BindParameter(
            names[id(element)],
            type_=element.type,
            required=True,
            expanding=element.expanding,
            literal_execute=element.literal_execute,
        )

    return visitors.replacement_traverse(expression, {}, replace)
