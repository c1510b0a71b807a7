"""What dualsql uses of SQLAlchemy that has no public name, as read in SQLAlchemy 2.1.9.

The only module that touches a private attribute of SQLAlchemy's objects; `tests/test_sqlalchemy_internals.py` checks
every one against the installed version, so that a new release that renames one fails with its name. Each function
is one read, call or assignment, and says what the value is and where SQLAlchemy sets it, below `sqlalchemy/`.

The tables in `dualsql/freeze/kinds_*.py` hold names of attributes too: there they are data, the description of an
element's state, and the proof that follows each writing compares what both statements compile to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack
from weakref import WeakKeyDictionary

from sqlalchemy import AsyncAdaptedQueuePool, BindParameter, ColumnElement, FromClause, NullPool
from sqlalchemy.orm import attributes, context, mapperlib, path_registry, strategies, strategy_options, util
from sqlalchemy.sql import elements, functions, selectable
from sqlalchemy.sql.cache_key import CacheKey
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import EMPTY_DICT

READ_IN = "2.1.9"
"""The version of SQLAlchemy whose source was read for this module."""

T = TypeVar("T")

# Classes ------------------------------------------------------------------------------------------------------

AnonymousLabel = elements._anonymous_label
"""A name that the compiler completes with a number: "%(seed body)s"."""
TruncatedLabel = elements._truncated_label
"""A name that the compiler may shorten to what the database allows."""
LabelReference = elements._label_reference
"""An expression in ORDER BY that may be written as the label of a column."""
TextualLabelReference = elements._textual_label_reference
"""The name of a column, given as a text to order_by() or group_by()."""
OffsetLimitParam = selectable._OffsetLimitParam
"""The bound parameter that limit() and offset() make of a number."""
CompoundSelectKeyword = selectable._CompoundSelectKeyword
"""UNION, EXCEPT, INTERSECT and their ALL forms."""
MemoizedSelectEntities = selectable._MemoizedSelectEntities
"""Columns and joins of a Select from before its with_only_columns()."""
CTEOptions = selectable._CTEOpts
"""(nesting,) of a CTE that add_cte() put on a statement."""

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
ORMJoin = util._ORMJoin
"""A join that follows a relationship."""
HybridNamespace = attributes._AdHocHasEntityNamespace
"""What stands for the entity in the annotations of a hybrid's expression."""
ORMCompileState = context._ORMCompileState
"""The ORM's work on a statement before it is compiled."""
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


# Statements ---------------------------------------------------------------------------------------------------


def compiles_as(cls: type, base: type) -> bool:
    """Whether the compiler treats `cls` as `base`, which it is made of: neither @compiles nor a name of its own."""
    # Visitable.__init_subclass__ makes a method for each class that names a __visit_name__ itself (sql/visitors.py);
    # @compiles replaces the method of its class (ext/compiler.py).
    return cls._compiler_dispatch is base._compiler_dispatch  # type: ignore[attr-defined]


def elements_of(statement: Any) -> Iterator[Any]:
    """A statement and the elements in it, each once.

    `visitors.iterate` visits a CTE for each path to it: 7 that read each other twice have 250,000.
    """
    waiting = [statement]
    seen: dict[int, Any] = {}  # an id is another element's once its own is gone
    while waiting:
        element = waiting.pop()
        if id(element) not in seen:
            seen[id(element)] = element
            yield element
            waiting += element.get_children()


def raw_columns(statement: Any) -> list[Any]:
    """What select() was given, coerced. Set in `sql/selectable.py`: Select.__init__()."""
    return statement._raw_columns


def all_selected_columns(selects: Any) -> Iterable[Any]:
    """All output columns, entities taken apart, repeats kept. In `sql/selectable.py`, for each SelectBase."""
    return selects._all_selected_columns


def where_criteria(select: Any) -> tuple[ColumnElement[Any], ...]:
    """The conditions that where() has collected, to be joined by AND."""
    return select._where_criteria


def having_criteria(select: Any) -> tuple[ColumnElement[Any], ...]:
    """The conditions that having() has collected, to be joined by AND."""
    return select._having_criteria


def group_by_clauses(statement: Any) -> tuple[ColumnElement[Any], ...]:
    """What group_by() has collected."""
    return statement._group_by_clauses


def order_by_clauses(statement: Any) -> tuple[ColumnElement[Any], ...]:
    """What order_by() has collected."""
    return statement._order_by_clauses


def limit_clause(statement: Any) -> ColumnElement[Any] | None:
    """What limit() was given."""
    return statement._limit_clause


def offset_clause(statement: Any) -> ColumnElement[Any] | None:
    """What offset() was given."""
    return statement._offset_clause


def fetch_clause(statement: Any) -> ColumnElement[Any] | None:
    """What fetch() was given."""
    return statement._fetch_clause


def fetch_options(statement: Any) -> Mapping[str, bool]:
    """with_ties and percent of fetch(); empty without it."""
    # None before fetch() and after limit() (sql/selectable.py: GenerativeSelect).
    return statement._fetch_clause_options or {}


def has_row_limit(statement: Any) -> bool:
    """Whether limit(), offset() or fetch() was called."""
    return statement._has_row_limiting_clause


def distinct_word(select: Any) -> bool | str:
    """Whether distinct() was called; on MySQL, it may be the word to write instead of DISTINCT."""
    return select._distinct


def distinct_on(clause: Any) -> tuple[ColumnElement[Any], ...]:
    """The expressions of DISTINCT ON: of a Select, or of PostgreSQL's DistinctOnClause; empty for anything else."""
    return getattr(clause, "_distinct_on", ())


def prefixes(select: Any) -> tuple[tuple[Any, str], ...]:
    """(text, dialect) of prefix_with()."""
    return select._prefixes


def suffixes(select: Any) -> tuple[tuple[Any, str], ...]:
    """(text, dialect) of suffix_with()."""
    return select._suffixes


def statement_hints(select: Any) -> tuple[tuple[str, str], ...]:
    """(dialect, text) of with_statement_hint()."""
    return select._statement_hints


def table_hints(select: Any) -> Mapping[tuple[FromClause, str], str]:
    """(table, dialect) -> text of with_hint()."""
    return select._hints


def syntax_extensions(select: Any) -> tuple[Any, Any, Any]:
    """What ext() put before the columns, right after SELECT, and after LIMIT; each None without one."""
    return select._pre_columns_clause, select._post_select_clause, select._post_body_clause


def extension_before_columns(select: Any) -> Any:
    """What ext() put before the columns, such as PostgreSQL's DISTINCT ON."""
    return select._pre_columns_clause


def extension_after_criteria(select: Any) -> Any:
    """What ext() put behind WHERE, GROUP BY and HAVING, such as QUALIFY."""
    return select._post_criteria_clause


def setup_joins(select: Any) -> tuple[tuple[Any, Any, Any, Mapping[str, bool]], ...]:
    """(target, ON, left side or None, {"isouter", "full"}) of join() and its kin."""
    return select._setup_joins


def earlier_selects(select: Any) -> tuple[Any, ...]:
    """A MemoizedSelectEntities for each with_only_columns() that followed a join(); empty for other statements."""
    return getattr(select, "_memoized_select_entities", ())


def explicit_froms(select: Any) -> tuple[FromClause, ...]:
    """What select_from() was given."""
    return select._from_obj


def final_froms(select: Any) -> Sequence[FromClause]:
    """The sources of a Select when all joins are made, as `get_final_froms()` gives them.

    That method first writes the statement in SQL of no database, which fails for a slice of an array, for example.
    """
    dialect = select._default_dialect()
    compiler = dialect.statement_compiler(dialect, None)
    return select._compile_state_factory(select, compiler)._get_display_froms()


def statement_options(statement: Any) -> tuple[Any, ...]:
    """What options() was given; empty for what has no options."""
    return getattr(statement, "_with_options", ())


def is_criteria_option(option: Any) -> bool:
    """Whether the option is a with_loader_criteria(). On `sql/base.py`: ExecutableOption."""
    return option._is_criteria_option


def is_compile_state_option(option: Any) -> bool:
    """Whether the option changes the SQL, and not only how a Session loads objects."""
    return option._is_compile_state


def non_default_options(options: Any) -> Mapping[str, Any]:
    """Of `dialect_options`: the arguments for a dialect that were given. In `sql/base.py`: _DialectArgDict."""
    return options._non_defaults


class PrivateState(TypedDict, total=False):
    """Attributes of a statement that `copy_with` may set, without the underscore that their names begin with."""

    raw_columns: list[Any]
    with_options: tuple[Any, ...]
    memoized_select_entities: tuple[Any, ...]
    order_by_clauses: tuple[Any, ...]
    group_by_clauses: tuple[Any, ...]
    fetch_clause: None
    for_update_arg: None
    prefixes: tuple[Any, ...]
    compile_options: Any


def copy_with(statement: T, **state: Unpack[PrivateState]) -> T:
    """A copy of the statement, as its own methods such as where() make one (`_generate`), with this state."""
    found: Any = statement
    copied = found._generate()
    for name, value in state.items():
        setattr(copied, f"_{name}", value)
    return copied


def copy_of(element: T) -> T:
    """A shallow copy of an element (`sql/elements.py`: ClauseElement._clone())."""
    found: Any = element
    return found._clone()


def set_statement_options(statement: Any, options: tuple[Any, ...]) -> None:
    """Put these options on a statement that is a copy already."""
    statement._with_options = options


def cache_key(element: Any) -> CacheKey | None:
    """What tells the element's SQL from any other, and its bound values; None if it cannot be cached."""
    return element._generate_cache_key()


# Expressions --------------------------------------------------------------------------------------------------


def annotations_of(element: Any) -> Mapping[str, Any]:
    """What the ORM and others have noted on an element or Bundle (`sql/annotation.py`); empty for anything else."""
    return getattr(element, "_annotations", EMPTY_DICT)


def annotated(element: T, notes: Mapping[str, Any]) -> T:
    """A copy of the element with these notes besides its own."""
    found: Any = element
    return found._annotate(notes)


def unannotated(element: Any) -> Any:
    """The element that an annotated one is a copy of; any other element itself."""
    # `self.__element` of the class Annotated (sql/annotation.py), as Python mangles the name.
    return getattr(element, "_Annotated__element", element)


def table_under(source: Any) -> Any:
    """The table of an alias, or of an alias of one, without annotations; another element without annotations."""
    while isinstance(source, selectable.Alias):
        source = source.element
    return unannotated(source)


def orm_state(element: Any) -> Mapping[str, Any]:
    """What a Select takes over from its columns: the ORM's plugin and its subject (`_propagate_attrs`)."""
    return element._propagate_attrs


def from_objects(element: Any) -> list[FromClause]:
    """What an expression brings into FROM, or the parts that a FROM clause consists of."""
    return element._from_objects


def select_iterable(element: Any) -> Iterable[Any]:
    """The columns that an element is in a list of columns: those of a table, those of a list, or itself."""
    return element._select_iterable


def labelled_element(label: Any) -> ColumnElement[Any]:
    """What a Label names, without the parentheses that `Label.element` adds."""
    return label._element


def table_qualified_label(column: Any) -> str | None:
    """The label "table_column" of a column; None for what belongs to no table."""
    return getattr(column, "_tq_label", None)


def named_label(column: Any) -> str | None:
    """The name of a column or label that is not made by the compiler; None without one."""
    return column._non_anon_label


def scalar_type(select: Any) -> TypeEngine[Any]:
    """The type of a scalar subquery: its first column's."""
    return select._scalar_type()


def resolved_lambda(element: Any) -> Any:
    """What a LambdaElement's function returned (`sql/lambdas.py`)."""
    return element._resolved


def is_implicitly_boolean(element: Any) -> bool:
    """Whether an operator makes a truth without a type that says so; False for what has no operator."""
    return getattr(element, "_is_implicitly_boolean", False)


def set_implicitly_boolean(element: Any, *, is_boolean: bool) -> None:
    """As `sql/elements.py` does in the constructors of UnaryExpression, BinaryExpression and ClauseList."""
    element._is_implicitly_boolean = is_boolean


def text_parameters(text: Any) -> dict[str, BindParameter[Any]]:
    """The parameters of a text(), by name."""
    return text._bindparams


def set_text_parameters(text: Any, parameters: dict[str, BindParameter[Any]]) -> None:
    """As TextClause.bindparams() does."""
    text._bindparams = parameters


def registered_function(name: str) -> Any:
    """The class that `func.<name>` makes an instance of, without a package; None if it is a plain Function."""
    # register_function() stores every name in lower case.
    return functions._registry["_default"].get(name.lower())


# FROM ---------------------------------------------------------------------------------------------------------


def set_original_name(alias: Any, name: str | None) -> None:
    """The name that alias() was given; None if SQLAlchemy is to make one (AliasedReturnsRows._init())."""
    alias._orig_name = name


def cte_alias(cte: Any) -> Any:
    """The CTE that this one is an alias of; None without one."""
    return cte._cte_alias


def restated_cte(cte: Any) -> Any:
    """The CTE that union() made this one of; None without one, and for what is no CTE."""
    return getattr(cte, "_restates", None)


def table_value_type(alias: Any) -> TypeEngine[Any]:
    """The row type of a table-valued function's alias: TABLEVALUE, or a TableValueType."""
    return alias._tableval_type


def columns_of_row_type(type_: Any) -> Sequence[Any]:
    """The columns of a TableValueType (`sql/sqltypes.py`); empty for any other type."""
    return getattr(type_, "_elements", ())


def values_columns(values: Any) -> Sequence[Any]:
    """The columns that values() was given."""
    return values._column_args


def values_rows(values: Any) -> tuple[Sequence[tuple[Any, ...]], ...]:
    """What each call of Values.data() was given: lists of rows."""
    return values._data


def set_values_rows(values: Any, rows: tuple[Sequence[tuple[Any, ...]], ...]) -> None:
    """As Values.data() does."""
    values._data = rows


def set_lateral(values: Any) -> None:
    """As Values.lateral() does."""
    values._is_lateral = True


def set_labelled_in_columns(column: Any) -> None:
    """As TableValuedColumn's class says: written with AS among the columns."""
    column._render_label_in_columns_clause = True


def sampling_method(tablesample: Any) -> Any:
    """The function of TABLESAMPLE, such as system(10)."""
    return tablesample._get_method()


# The ORM ------------------------------------------------------------------------------------------------------


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


def base_alias(entity: Any) -> Any:
    """The alias that a part of with_polymorphic() belongs to; held by a weak reference (`orm/util.py`)."""
    return entity._base_alias()


def alias_target(entity: Any) -> Any:
    """What aliased() was given: a class or another AliasedClass."""
    return entity._target


def inspected_alias(aliased: Any) -> util.AliasedInsp[Any]:
    """The AliasedInsp of an AliasedClass."""
    return aliased._aliased_insp


def is_with_polymorphic(entity: Any) -> bool:
    """Whether an AliasedInsp is for several classes of one hierarchy."""
    return entity._is_with_polymorphic


def polymorphic_entities(entity: Any) -> Sequence[Any]:
    """The AliasedInsps of the classes of with_polymorphic()."""
    return entity._with_polymorphic_entities


def keep_with_alias(entity: Any, name: str, value: Any) -> None:
    """Have the AliasedInsp hold `value`, in the dictionary where it keeps what it has computed."""
    entity._memoized_values[name] = value


def parent_entity(attribute: Any) -> Any:
    """The Mapper or AliasedInsp that a mapped attribute was read from (`orm/attributes.py`)."""
    return attribute._parententity


def of_type(part: Any) -> Any:
    """The entity that of_type() was given: of an attribute, or of a part of a loader option."""
    return part._of_type


def extra_criteria(part: Any) -> tuple[ColumnElement[bool], ...]:
    """What and_() was given: of an attribute, or of a part of a loader option."""
    return part._extra_criteria


def is_merged_option(part: Any) -> bool | None:
    """How a part of a loader option meets a statement of other entities (`orm/strategy_options.py`)."""
    return part._reconcile_to_other


def polymorphic_path(part: Any) -> Any:
    """The path of a part of a loader option that was given of_type()."""
    return part._path_with_polymorphic_path


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


def mappers_of_criteria(option: Any) -> Iterable[Any]:
    """The mappers that a with_loader_criteria() is for."""
    return option._all_mappers()


def criteria_for(lambda_: Any, cls: Any) -> ClauseElement:
    """What the function of a with_loader_criteria() returns for a class."""
    return lambda_._resolve_with_args(cls)


def hybrid_entity(namespace: Any) -> Any:
    """The entity that a HybridNamespace stands for."""
    return namespace._entity_namespace


def orm_compile_state(statement: Any, **options: bool) -> Any:
    """What the ORM makes of a Select, with these compile options besides the statement's own (`orm/context.py`)."""
    given = ORMCompileState.default_compile_options.safe_merge(statement._compile_options)
    draft = copy_with(statement, compile_options=given + options)
    return ORMSelectCompileState._create_orm_context(draft, toplevel=True, compiler=None)


def nests_selectable(state: Any) -> bool:
    """Whether eager joins would go around the statement as a subquery: it has DISTINCT, GROUP BY or LIMIT."""
    return state._should_nest_selectable


def selected_entities(state: Any) -> Sequence[Any]:
    """What a compile state or a BundleEntity selects, one entity for each column or class."""
    return state._entities


def entity_adapter(entity: Any, state: Any) -> Any:
    """What turns a MapperEntity's columns into those of its alias; None without one."""
    return entity._get_entity_clauses(state)


def polymorphic_discriminator(entity: Any) -> Any:
    """The column that tells the classes of a MapperEntity apart; None without one."""
    return entity._polymorphic_discriminator


def polymorphic_mappers(entity: Any) -> Sequence[Any]:
    """The mappers of a MapperEntity that are loaded together; empty for one class."""
    return entity._with_polymorphic_mappers


def polymorphic_properties(mapper: Any, mappers: Sequence[Any] = ()) -> Iterable[Any]:
    """The properties that one query loads: of these mappers, or of those that the mapping says (`orm/mapper.py`)."""
    return mapper._iterate_polymorphic_properties(mappers) if mappers else mapper._polymorphic_properties


def loader_option(property_: Any, state: Any, path: Any) -> Any:
    """The part of a loader option for the property at this path; None without one."""
    return property_._get_context_loader(state, path)


def loader_strategy(property_: Any, key: Any) -> Any:
    """The strategy of the property for the key of a loader option."""
    return property_._get_strategy(key)


# Types --------------------------------------------------------------------------------------------------------


def type_affinity(type_: Any) -> Any:
    """The generic class that a type is of: Integer for BIGINT (`sql/type_api.py`)."""
    return type_._type_affinity


def type_variants(type_: Any) -> Mapping[str, TypeEngine[Any]]:
    """What with_variant() was given, by the name of the dialect."""
    return type_._variant_mapping


def type_key(type_: Any) -> Any:
    """A type's part of a cache key: its class and arguments, or NO_CACHE."""
    return type_._static_cache_key


def bind_processor(type_: Any, dialect: Any) -> Any:
    """What SQLAlchemy does to a value for the driver, kept by the dialect; None for nothing."""
    return type_._cached_bind_processor(dialect)


def result_processor(type_: Any, dialect: Any, code: Any) -> Any:
    """What SQLAlchemy does to a driver's value, kept by the dialect; None for nothing."""
    return type_._cached_result_processor(dialect, code)


# Compiling and executing --------------------------------------------------------------------------------------


class CompiledStatement(NamedTuple):
    """What SQLAlchemy's compilation cache gives for a statement."""

    compiled: Any
    extracted_parameters: Any
    collected_parameters: Any
    cache_hit: Any


def compiled_with_cache(statement: Any, dialect: Any, cache: Any, names: Sequence[str]) -> CompiledStatement:
    """The statement compiled, or found in `cache` (`sql/elements.py`).

    Args:
        names: of the parameters that are given at execution, sorted.
    """
    return CompiledStatement(
        *statement._compile_w_cache(
            dialect=dialect, compiled_cache=cache, column_keys=names, schema_translate_map=None
        )
    )


def unsent_context(
    context_class: Any, connection: Any, *, statement: Any, found: CompiledStatement, values: Any
) -> Any:
    """The execution context of a compiled statement, its values bound (`engine/default.py`)."""
    return context_class._init_compiled(
        connection.dialect,
        connection,
        connection,
        statement._execution_options,
        found.compiled,
        values,
        statement,
        found.extracted_parameters,
        cache_hit=found.cache_hit,
        param_dict=found.collected_parameters,
    )


def result_columns_of(compiled: Any) -> Sequence[Any]:
    """(keyname, name, objects, type) of each column of the result; empty for what returns no rows."""
    return compiled._result_columns or ()


def has_columns_by_position(compiled: Any) -> bool:
    """Whether the columns of the result are found by their position, not by their name."""
    return compiled._ordered_columns or compiled._textual_ordered_columns


def has_events(target: Any) -> bool:
    """Whether something listens to the events of an Engine, Dialect or Connection (`engine/events.py`)."""
    return target._has_events


def json_reader(dialect: Any) -> Any:
    """What create_engine(json_deserializer=...) was given; None without it, and for a dialect that has none."""
    return getattr(dialect, "_json_deserializer", None)


def has_json_reader(dialect: Any) -> bool:
    """Whether the dialect takes create_engine(json_deserializer=...)."""
    return hasattr(dialect, "_json_deserializer")


def set_json_reader(dialect: Any, reader: Any) -> None:
    """As create_engine(json_deserializer=...) does."""
    dialect._json_deserializer = reader


def set_type_memos(dialect: Any, memos: WeakKeyDictionary[Any, Any]) -> None:
    """What the dialect keeps of its types: their implementation and processors (`engine/default.py`)."""
    dialect._type_memos = memos


def statement_name(adapted: Any) -> Any:
    """A name for a prepared statement of asyncpg; None if asyncpg is to choose (`dialects/postgresql/asyncpg.py`)."""
    return adapted._prepared_statement_name_func()


def open_for_each_use(engine: Any) -> None:
    """Let an AsyncEngine open a connection for each use, as one with `poolclass=NullPool`, if it keeps several.

    A pool of its own class is made as `Pool.recreate` does (`pool/impl.py`), with the events of the former one.
    """
    pool = engine.pool
    if isinstance(pool, AsyncAdaptedQueuePool):
        engine.sync_engine.pool = NullPool(
            pool._creator,
            recycle=pool._recycle,
            echo=pool.echo,
            logging_name=pool._orig_logging_name,
            reset_on_return=pool._reset_on_return,
            pre_ping=pool._pre_ping,
            _dispatch=pool.dispatch,
            dialect=pool._dialect,
        )
