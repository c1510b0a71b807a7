"""What only `dualsql.plan.entities` uses of SQLAlchemy that has no public name; see `dualsql.sqlalchemy_internals`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from sqlalchemy.orm import context, strategies

from dualsql.sqlalchemy_internals import ORMCompileState, Reader, copy_with

T = TypeVar("T")

ORMSelectCompileState = context._ORMSelectCompileState
"""As ORMCompileState, for a Select."""
BundleEntity = context._BundleEntity
"""In a compile state: a Bundle that is selected."""
MapperEntity = context._MapperEntity
"""In a compile state: a mapped class that is selected."""
ExpressionColumnLoader = strategies._ExpressionColumnLoader
"""Loads an attribute made by query_expression()."""
JoinedLoader = strategies._JoinedLoader
"""Loads a relationship by a join: joinedload() and lazy="joined"."""


def with_options(element: T, options: tuple[Any, ...]) -> T:
    """A shallow copy (`sql/elements.py`: ClauseElement._clone()) with these options instead of its own."""
    copied: Any = element._clone()  # type: ignore[attr-defined]
    copied._with_options = options
    return copied


def orm_compile_state(statement: Any, **options: bool) -> Any:
    """What the ORM makes of a Select, with these compile options besides the statement's own (`orm/context.py`)."""
    defaults = ORMCompileState.default_compile_options.safe_merge(statement._compile_options)
    draft = copy_with(statement, compile_options=defaults + options)
    return ORMSelectCompileState._create_orm_context(draft, toplevel=True, compiler=None)


nests_selectable: Reader[bool] = attrgetter("_should_nest_selectable")
"""Whether eager joins would go around the statement as a subquery: it has DISTINCT, GROUP BY or LIMIT."""
selected_entities: Reader[Sequence[Any]] = attrgetter("_entities")
"""What a compile state or a BundleEntity selects, one entity for each column or class."""


def entity_adapter(entity: Any, state: Any) -> Any:
    """The adapter of a MapperEntity's columns to those of its alias; None without one."""
    return entity._get_entity_clauses(state)


polymorphic_discriminator: Reader[Any] = attrgetter("_polymorphic_discriminator")
"""The column that distinguishes the classes of a MapperEntity; None without one."""
polymorphic_mappers: Reader[Sequence[Any]] = attrgetter("_with_polymorphic_mappers")
"""The mappers of a MapperEntity that are loaded together; empty for one class."""


def polymorphic_properties(mapper: Any, mappers: Sequence[Any] = ()) -> Iterable[Any]:
    """The properties that one query loads: of these mappers, or of those that the mapping says (`orm/mapper.py`)."""
    return mapper._iterate_polymorphic_properties(mappers) if mappers else mapper._polymorphic_properties


def loader_option(property_: Any, state: Any, path: Any) -> Any:
    """The part of a loader option for the property at this path; None without one."""
    return property_._get_context_loader(state, path)


def loader_strategy(property_: Any, key: Any) -> Any:
    """The strategy of the property for the key of a loader option."""
    return property_._get_strategy(key)
