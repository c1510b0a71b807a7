"""The masks of a server: which column each hides, and what replaces it. Loaded with the first mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, cast, literal_column, null, types
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import ConfigurationError
from dualsql.freeze import Registry
from dualsql.resource import Principal
from dualsql.tenancy.rules import Mask

_REDACTED = "'***'"


@dataclass(frozen=True, slots=True)
class ActiveMask:
    """A mask with its column and the expression that replaces it."""

    rule: Mask
    column: Any
    expression: ColumnElement[Any]

    def is_lifted_for(self, principal: Principal | None) -> bool:
        """Whether this principal sees the column unmasked."""
        # `is True`: the coroutine of a function that is async by mistake is truthy and would lift each mask.
        return self.rule.unless is not None and principal is not None and self.rule.unless(principal) is True


def resolve_masks(registry: Registry, rules: Sequence[Mask]) -> list[ActiveMask]:
    """The masks with their columns and expressions.

    Raises:
        ConfigurationError: a column is not registered, is part of a key, or cannot be masked in this way.
    """
    masks: list[ActiveMask] = []
    for rule in rules:
        column = _column(registry, rule.column)
        if any(mask.column is column for mask in masks):
            raise ConfigurationError(f"Two masks name the column {column}.")
        masks.append(ActiveMask(rule, column, _expression(rule, column)))
    return masks


def _column(registry: Registry, target: Any) -> Any:
    element = target.__clause_element__() if hasattr(target, "__clause_element__") else target
    # A mask may name an attribute of a mapped class, whose table is annotated, or a column of a table.
    name = registry.name_of(internals.unannotated(getattr(element, "table", None)))
    name = name or registry.name_of(getattr(element, "table", None))
    if name is None:
        raise ConfigurationError(
            f"A mask names {target!r}, which is not a column of a registered table."[:200]
        )
    table = registry.tables[name]
    column: Any = table.c[element.key] if element.key in table.c else table.c[element.name]
    if column.primary_key:
        raise ConfigurationError(
            f"The column {column} cannot be masked: it is part of a primary key, and pages are sorted by it.",
            hint="Remove the column from the registered table, or give the table another key.",
        )
    return column


def _expression(rule: Mask, column: Any) -> ColumnElement[Any]:
    masked = _masked(rule, column)
    # Inside the rule of this table, another table would be read without its own rule.
    for element in iterate(masked):
        if isinstance(element, ColumnElement) and getattr(element, "table", None) not in (None, column.table):
            raise ConfigurationError(f"The mask of {column} must not read another table.")
    return masked.label(column.name)


def _masked(rule: Mask, column: Any) -> ColumnElement[Any]:
    if rule.how == "null":
        # To PostgreSQL, a bare NULL in a subquery is a text.
        return cast(null(), column.type)
    if rule.how == "redact":
        if not isinstance(column.type, types.String) or isinstance(column.type, types.Enum):
            raise ConfigurationError(
                f"Only text can be redacted; {column} is not text.", hint='Use how="null".'
            )
        return literal_column(_REDACTED, column.type)
    if not callable(rule.how):
        raise ConfigurationError(f"how must not be {rule.how!r}.", hint='Use "null", "redact" or a function.')
    # Another affinity would change the column's JSON type and the operators it allows.
    expression: Any = rule.how(column)
    if not isinstance(expression, ColumnElement) or internals.type_affinity(
        expression.type
    ) is not internals.type_affinity(column.type):
        raise ConfigurationError(f"The mask of {column} must return an expression of the column's type.")
    return expression
