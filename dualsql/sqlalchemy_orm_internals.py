"""What loader options and entities of the ORM have without a public name; see `dualsql.sqlalchemy_internals`.

`dualsql.freeze.kinds_options` and `dualsql.plan.entities` use it, which few servers load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter, methodcaller
from typing import Any, TypeVar

from sqlalchemy.orm import context, path_registry, strategies, strategy_options
from sqlalchemy.sql.elements import ClauseElement

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

AttributeLoad = strategy_options._AttributeStrategyLoad
"""The part of a loader option that is for an attribute."""
ClassLoad = strategy_options._ClassStrategyLoad
"""The part of a loader option that is for a class: selectin_polymorphic()."""
TokenLoad = strategy_options._TokenStrategyLoad
"""The part of a loader option that is for a wildcard: defaultload("*")."""
LoadElement = strategy_options._LoadElement
"""Any part of a loader option."""
WildcardLoad = strategy_options._WildcardLoad
"""A loader option that is for a wildcard as a whole."""


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


is_merged_option: Reader[bool | None] = attrgetter("_reconcile_to_other")
"""How a part of a loader option meets a statement of other entities (`orm/strategy_options.py`)."""
polymorphic_path: Reader[Any] = attrgetter("_path_with_polymorphic_path")
"""The path of a part of a loader option that was given of_type()."""


def fill_option(part: Any, criteria: tuple[Any, ...], *, is_merged: bool | None) -> None:
    """Set what `extra_criteria` and `is_merged_option` read."""
    part._extra_criteria = criteria
    part._reconcile_to_other = is_merged


def fill_typed_option(part: Any, of_type: Any, path: Any) -> None:
    """Set what `of_type` and `polymorphic_path` read."""
    part._of_type = of_type
    part._path_with_polymorphic_path = path


def path_token(text: str) -> path_registry.PathToken:
    """The token of a wildcard; KeyError for any text that is none (`orm/path_registry.py`)."""
    return path_registry.PathToken._intern[text]


mappers_of_criteria: Reader[Iterable[Any]] = methodcaller("_all_mappers")
"""The mappers that a with_loader_criteria() is for."""


def criteria_for(lambda_: Any, cls: Any) -> ClauseElement:
    """What the function of a with_loader_criteria() returns for a class."""
    return lambda_._resolve_with_args(cls)
