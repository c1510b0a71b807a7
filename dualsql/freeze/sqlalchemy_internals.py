"""What only freezing and thawing use of SQLAlchemy that has no public name; see `dualsql.sqlalchemy_internals`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter, methodcaller
from typing import Any

from sqlalchemy import BindParameter, ColumnElement
from sqlalchemy.orm import attributes, mapperlib, path_registry, strategy_options, util
from sqlalchemy.sql import functions, selectable
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine

from dualsql.sqlalchemy_internals import Reader

OffsetLimitParam = selectable._OffsetLimitParam
"""The bound parameter that limit() and offset() make of a number."""
CompoundSelectKeyword = selectable._CompoundSelectKeyword
"""UNION, EXCEPT, INTERSECT and their ALL forms."""
MemoizedSelectEntities = selectable._MemoizedSelectEntities
"""Columns and joins of a Select from before its with_only_columns()."""
CTEOptions = selectable._CTEOpts
"""(nesting,) of a CTE that add_cte() put on a statement."""
ORMJoin = util._ORMJoin
"""A join that follows a relationship."""
HybridNamespace = attributes._AdHocHasEntityNamespace
"""What stands for the entity in the annotations of a hybrid's expression."""
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


def compiles_as(cls: type, base: type) -> bool:
    """Whether the compiler treats `cls` as `base`, which it is made of: neither @compiles nor a name of its own."""
    # Visitable.__init_subclass__ makes a method for each class that names a __visit_name__ itself (sql/visitors.py);
    # @compiles replaces the method of its class (ext/compiler.py).
    return cls._compiler_dispatch is base._compiler_dispatch  # type: ignore[attr-defined]


is_compile_state_option: Reader[bool] = attrgetter("_is_compile_state")
"""Whether the option changes the SQL, and not only how a Session loads objects."""
non_default_options: Reader[Mapping[str, Any]] = attrgetter("_non_defaults")
"""Of `dialect_options`: the arguments for a dialect that were given. In `sql/base.py`: _DialectArgDict."""
orm_state: Reader[Mapping[str, Any]] = attrgetter("_propagate_attrs")
"""What a Select takes over from its columns: the ORM's plugin and its subject (`_propagate_attrs`)."""
labelled_element: Reader[ColumnElement[Any]] = attrgetter("_element")
"""What a Label names, without the parentheses that `Label.element` adds."""
scalar_type: Reader[TypeEngine[Any]] = methodcaller("_scalar_type")
"""The type of a scalar subquery: its first column's."""
has_column_expression: Reader[bool] = attrgetter("_has_column_expression")
"""Whether a type writes the SQL of the columns that a Select returns (`TypeEngine.column_expression`)."""


def is_implicitly_boolean(element: Any) -> bool:
    """Whether an operator makes a truth without a type that says so; False for what has no operator."""
    return getattr(element, "_is_implicitly_boolean", False)


def set_implicitly_boolean(element: Any, *, is_boolean: bool) -> None:
    """As `sql/elements.py` does in the constructors of UnaryExpression, BinaryExpression and ClauseList."""
    element._is_implicitly_boolean = is_boolean


text_parameters: Reader[dict[str, BindParameter[Any]]] = attrgetter("_bindparams")
"""The parameters of a text(), by name."""


def set_text_parameters(text: Any, parameters: dict[str, BindParameter[Any]]) -> None:
    """As TextClause.bindparams() does."""
    text._bindparams = parameters


def registered_function(name: str) -> Any:
    """The class that `func.<name>` makes an instance of, without a package; None if it is a plain Function."""
    # register_function() stores every name in lower case.
    return functions._registry["_default"].get(name.lower())


def set_original_name(alias: Any, name: str | None) -> None:
    """The name that alias() was given; None if SQLAlchemy is to make one (AliasedReturnsRows._init())."""
    alias._orig_name = name


table_value_type: Reader[TypeEngine[Any]] = attrgetter("_tableval_type")
"""The row type of a table-valued function's alias: TABLEVALUE, or a TableValueType."""


def columns_of_row_type(type_: Any) -> Sequence[Any]:
    """The columns of a TableValueType (`sql/sqltypes.py`); empty for any other type."""
    return getattr(type_, "_elements", ())


values_columns: Reader[Sequence[Any]] = attrgetter("_column_args")
"""The columns that values() was given."""
values_rows: Reader[tuple[Sequence[tuple[Any, ...]], ...]] = attrgetter("_data")
"""What each call of Values.data() was given: lists of rows."""


def set_values_rows(values: Any, rows: tuple[Sequence[tuple[Any, ...]], ...]) -> None:
    """As Values.data() does."""
    values._data = rows


def set_lateral(values: Any) -> None:
    """As Values.lateral() does."""
    values._is_lateral = True


def set_labelled_in_columns(column: Any) -> None:
    """As TableValuedColumn's class says: written with AS among the columns."""
    column._render_label_in_columns_clause = True


def registry_of(base: Any) -> Any:
    """The registry of a declarative base, SQLModel's among them; None for another object (`orm/decl_api.py`)."""
    return getattr(base, "_sa_registry", None)


def all_registries() -> Iterable[Any]:
    """The registries of mapped classes in this process. In `orm/mapper.py`."""
    return mapperlib._all_registries()


def mapped_in(registry: Any) -> list[Any]:
    """The mappers of a registry's classes that are mapped by now (`orm/decl_api.py`).

    An AbstractConcreteBase is mapped when its registry is configured. Until then, `registry.mappers` raises an error.
    """
    return [manager.mapper for manager in registry._managers if manager.is_mapped]


base_alias: Reader[Any] = methodcaller("_base_alias")
"""The alias that a part of with_polymorphic() belongs to; held by a weak reference (`orm/util.py`)."""
alias_target: Reader[Any] = attrgetter("_target")
"""What aliased() was given: a class or another AliasedClass."""
inspected_alias: Reader[util.AliasedInsp[Any]] = attrgetter("_aliased_insp")
"""The AliasedInsp of an AliasedClass."""
is_with_polymorphic: Reader[bool] = attrgetter("_is_with_polymorphic")
"""Whether an AliasedInsp is for several classes of one hierarchy."""
polymorphic_entities: Reader[Sequence[Any]] = attrgetter("_with_polymorphic_entities")
"""The AliasedInsps of the classes of with_polymorphic()."""


def keep_with_alias(entity: Any, name: str, value: Any) -> None:
    """Have the AliasedInsp hold `value`, in the dictionary where it keeps what it has computed."""
    entity._memoized_values[name] = value


parent_entity: Reader[Any] = attrgetter("_parententity")
"""The Mapper or AliasedInsp that a mapped attribute was read from (`orm/attributes.py`)."""
of_type: Reader[Any] = attrgetter("_of_type")
"""The entity that of_type() was given: of an attribute, or of a part of a loader option."""
hybrid_entity: Reader[Any] = attrgetter("_entity_namespace")
"""The entity that a HybridNamespace stands for."""
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
