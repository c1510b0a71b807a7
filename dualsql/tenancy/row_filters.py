"""The conditions of row filters for one principal. Loaded with the first such rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, ColumnElement
from sqlalchemy.sql import visitors

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class RowCondition:
    """The condition of a row filter.

    Attributes:
        key: equal for conditions that differ only in their values.
        values: by the names of the parameters that `named` has.
    """

    predicate: ColumnElement[bool]
    key: Any
    values: Mapping[str, Any]
    _names: Mapping[int, str]

    def named(self) -> ColumnElement[bool]:
        """The condition with a named, required parameter in place of each bound value."""

        # required=True: without a value, the statement fails. It never runs with an earlier value.
        def replace(element: Any, **_: Any) -> Any:
            if not isinstance(element, BindParameter):
                return None
            return BindParameter(
                self._names[id(element)],
                type_=element.type,
                required=True,
                expanding=element.expanding,
                literal_execute=element.literal_execute,
            )

        predicate: ColumnElement[bool] = visitors.replacement_traverse(self.predicate, {}, replace)
        return predicate


def row_conditions(predicates: Iterable[Any]) -> list[RowCondition]:
    """What the predicates of row filters returned, as conditions.

    Raises:
        ConfigurationError: one is no condition, or SQLAlchemy cannot cache it.
    """
    conditions = []
    for number, predicate in enumerate(map(_condition, predicates)):
        key = internals.cache_key(predicate)
        if key is None:
            raise ConfigurationError(
                "The predicate of a row filter contains a construct that SQLAlchemy cannot cache.",
                hint="Use SQLAlchemy's own constructs.",
            )
        values: dict[str, Any] = {}
        names: dict[int, str] = {}
        for position, bound in enumerate(key.bindparams):
            name = f"dualsql_row_{number}_{position}"
            values[name] = bound.effective_value
            # SQLAlchemy's cache key lists a parameter twice if a predicate uses it twice.
            names.setdefault(id(bound), name)
        conditions.append(RowCondition(predicate, key.key, values, names))
    return conditions


def _condition(predicate: Any) -> ColumnElement[bool]:
    """The predicate as a plain expression; mapped attributes need a conversion."""
    element = predicate.__clause_element__() if hasattr(predicate, "__clause_element__") else predicate
    if not isinstance(element, ColumnElement):
        raise ConfigurationError(
            f"The predicate of a row filter must return a condition, and returned a {type(predicate).__name__}.",
            hint="For example table.c.region == principal.tenant.",
        )
    return element
