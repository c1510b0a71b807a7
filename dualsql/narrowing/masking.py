"""Columns whose values are hidden; the rule: a masked value is gone before anything can compare it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, cast, literal_column, null, types
from sqlalchemy.sql.visitors import iterate

from dualsql.errors import ConfigurationError
from dualsql.freeze import Registry
from dualsql.narrowing.rules import Mask
from dualsql.resource import Principal

_REDACTED = "'***'"


@dataclass(frozen=True, slots=True)
class ActiveMask:
    """A mask whose column was found, and the expression that stands in its place."""

    rule: Mask
    column: Any
    expression: ColumnElement[Any]

    def is_lifted_for(self, principal: Principal | None) -> bool:
        """Whether this principal sees the column as it is."""
        return self.rule.unless is not None and principal is not None and self.rule.unless(principal) is True


def resolved_masks(registry: Registry, rules: Sequence[Mask]) -> list[ActiveMask]:
    """The masks with their columns and expressions.

    Raises:
        ConfigurationError: a column is not registered, is a key, or cannot be masked like that.
    """
    masks: list[ActiveMask] = []
    for rule in rules:
        column = _column(registry, rule.column)
        if any(mask.column is column for mask in masks):
            raise ConfigurationError(f"The column {column} is masked twice.")
        masks.append(ActiveMask(rule, column, _expression(rule, column)))
    return masks


def masks_by_table(masks: Iterable[ActiveMask]) -> Mapping[int, Mapping[str, ColumnElement[Any]]]:
    """id of a table -> key of a column -> what is selected in its place."""
    found: dict[int, dict[str, ColumnElement[Any]]] = {}
    for mask in masks:
        found.setdefault(id(mask.column.table), {})[mask.column.key] = mask.expression
    return found


def _column(registry: Registry, named: Any) -> Any:
    element = named.__clause_element__() if hasattr(named, "__clause_element__") else named
    name = registry.name_of(getattr(getattr(element, "table", None), "_Annotated__element", None))
    name = name or registry.name_of(getattr(element, "table", None))
    if name is None:
        raise ConfigurationError(f"A mask names {named!r}, no column of a registered table."[:200])
    table = registry.tables[name]
    column: Any = table.c[element.key] if element.key in table.c else table.c[element.name]
    if column.primary_key:
        raise ConfigurationError(
            f"The column {column} is a primary key, by which pages are cut.",
            hint="Leave the column out of the tables that may be queried, or give the table another key.",
        )
    return column


def _expression(rule: Mask, column: Any) -> ColumnElement[Any]:
    masked = _masked(rule, column)
    for element in iterate(masked):
        if isinstance(element, ColumnElement) and getattr(element, "table", None) not in (None, column.table):
            raise ConfigurationError(f"The mask of {column} reads another table.")
    return masked.label(column.name)


def _masked(rule: Mask, column: Any) -> ColumnElement[Any]:
    if rule.how == "null":
        return cast(null(), column.type)
    if rule.how == "redact":
        if not isinstance(column.type, types.String) or isinstance(column.type, types.Enum):
            raise ConfigurationError(f"Only text can be redacted, which {column} is not.", hint='how="null"')
        return literal_column(_REDACTED, column.type)
    if not callable(rule.how):
        raise ConfigurationError(
            f"A mask does not know {rule.how!r}.", hint='"null", "redact" or a function.'
        )
    found: Any = rule.how(column)
    if not isinstance(found, ColumnElement) or found.type._type_affinity is not column.type._type_affinity:
        raise ConfigurationError(f"The mask of {column} does not give an expression of the column's type.")
    return found
