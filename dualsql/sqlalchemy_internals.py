"""What dualsql uses of SQLAlchemy that has no public name, as read in SQLAlchemy 2.1.9.

Only this module, `freeze.sqlalchemy_internals` and `plan.sqlalchemy_internals` touch private attributes of SQLAlchemy's
objects; these two have what freezing alone and `plan.entities` alone use. `tests/test_sqlalchemy_internals.py` checks
every one against the installed version, so that a new release that renames one fails with its name. Each name is one
read, call or assignment, and says what the value is and where SQLAlchemy sets it, below `sqlalchemy/`.

The tables in `dualsql/freeze/kinds_*.py` hold names of attributes too: there they are data, the description of an
element's state, and the proof that follows each writing compares what both statements compile to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, methodcaller
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, FromClause
from sqlalchemy.engine.default import StrCompileDialect
from sqlalchemy.orm import context
from sqlalchemy.sql import elements, selectable
from sqlalchemy.sql.cache_key import CacheKey
from sqlalchemy.types import TypeEngine
from sqlalchemy.util import EMPTY_DICT

READ_IN = "2.1.9"
"""The version of SQLAlchemy whose source was read for this module."""

T = TypeVar("T")
Reader = Callable[[Any], T]
"""Reads an attribute of an object."""

AnonymousLabel = elements._anonymous_label
"""A name that the compiler completes with a number: "%(seed body)s"."""
TruncatedLabel = elements._truncated_label
"""A name that the compiler may shorten to what the database allows."""
LabelReference = elements._label_reference
"""An expression in ORDER BY that may be written as the label of a column."""
TextualLabelReference = elements._textual_label_reference
"""The name of a column, given as a text to order_by() or group_by()."""

ORMCompileState = context._ORMCompileState
"""The ORM's work on a statement before it is compiled."""


# Statements ---------------------------------------------------------------------------------------------------


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


raw_columns: Reader[list[Any]] = attrgetter("_raw_columns")
"""What select() was given, coerced. Set in `sql/selectable.py`: Select.__init__()."""
all_selected_columns: Reader[Iterable[Any]] = attrgetter("_all_selected_columns")
"""All output columns, entities taken apart, repeats kept. In `sql/selectable.py`, for each SelectBase."""


def outputs_of(select: Any) -> list[ColumnElement[Any]]:
    """The columns of `selected_columns`, without the keys that it makes for them."""
    return [column for column in all_selected_columns(select) if column._is_column_element]


# What the method of that name was given, or has collected: conditions are joined by AND.
where_criteria: Reader[tuple[ColumnElement[Any], ...]] = attrgetter("_where_criteria")
having_criteria: Reader[tuple[ColumnElement[Any], ...]] = attrgetter("_having_criteria")
group_by_clauses: Reader[tuple[ColumnElement[Any], ...]] = attrgetter("_group_by_clauses")
order_by_clauses: Reader[tuple[ColumnElement[Any], ...]] = attrgetter("_order_by_clauses")
limit_clause: Reader[ColumnElement[Any] | None] = attrgetter("_limit_clause")
offset_clause: Reader[ColumnElement[Any] | None] = attrgetter("_offset_clause")
fetch_clause: Reader[ColumnElement[Any] | None] = attrgetter("_fetch_clause")


def fetch_options(statement: Any) -> Mapping[str, bool]:
    """with_ties and percent of fetch(); empty without it."""
    # None before fetch() and after limit() (sql/selectable.py: GenerativeSelect).
    return statement._fetch_clause_options or {}


has_row_limit: Reader[bool] = attrgetter("_has_row_limiting_clause")
"""Whether limit(), offset() or fetch() was called."""
distinct_word: Reader[bool | str] = attrgetter("_distinct")
"""Whether distinct() was called; on MySQL, it may be the word to write instead of DISTINCT."""


def distinct_on(clause: Any) -> tuple[ColumnElement[Any], ...]:
    """The expressions of DISTINCT ON: of a Select, or of PostgreSQL's DistinctOnClause; empty for anything else."""
    return getattr(clause, "_distinct_on", ())


prefixes: Reader[tuple[tuple[Any, str], ...]] = attrgetter("_prefixes")
"""(text, dialect) of prefix_with()."""
suffixes: Reader[tuple[tuple[Any, str], ...]] = attrgetter("_suffixes")
"""(text, dialect) of suffix_with()."""
statement_hints: Reader[tuple[tuple[str, str], ...]] = attrgetter("_statement_hints")
"""(dialect, text) of with_statement_hint()."""
table_hints: Reader[Mapping[tuple[FromClause, str], str]] = attrgetter("_hints")
"""(table, dialect) -> text of with_hint()."""
syntax_extensions: Reader[tuple[Any, Any, Any]] = attrgetter(
    "_pre_columns_clause", "_post_select_clause", "_post_body_clause"
)
"""What ext() put before the columns, right after SELECT, and after LIMIT; each None without one."""
extension_before_columns: Reader[Any] = attrgetter("_pre_columns_clause")
"""What ext() put before the columns, such as PostgreSQL's DISTINCT ON."""
extension_after_criteria: Reader[Any] = attrgetter("_post_criteria_clause")
"""What ext() put behind WHERE, GROUP BY and HAVING, such as QUALIFY."""
setup_joins: Reader[tuple[tuple[Any, Any, Any, Mapping[str, bool]], ...]] = attrgetter("_setup_joins")
"""(target, ON, left side or None, {"isouter", "full"}) of join() and its kin."""


def earlier_selects(select: Any) -> tuple[Any, ...]:
    """A MemoizedSelectEntities for each with_only_columns() that followed a join(); empty for other statements."""
    return getattr(select, "_memoized_select_entities", ())


explicit_froms: Reader[tuple[FromClause, ...]] = attrgetter("_from_obj")
"""What select_from() was given."""


_NO_DATABASE: Any = StrCompileDialect()


def final_froms(select: Any, *, anew: bool = False) -> Sequence[FromClause]:
    """The sources of a Select and its joins, as `get_final_froms()` gives them, or of `note_froms`, unless `anew`.

    That method first writes the statement in SQL of no database, which fails for a slice of an array, for example.
    """
    if not anew and (kept := noted(select, FROMS)):
        return kept
    compiler = _NO_DATABASE.statement_compiler(_NO_DATABASE, None)
    return select._compile_state_factory(select, compiler)._get_display_froms()


FROMS, PLAIN, COMPUTED = "dualsql_froms", "dualsql_plain", "dualsql_computed"
NOTES = (FROMS, PLAIN, COMPUTED)
"""What is noted of a Select: its sources; whether its document is plain (`freeze.is_plain`), so that `plan` need not
look for what it rewrites; what `plan.shape` finds that is not a plain column."""

note: Callable[[Any, str, Any], None] = selectable.Select._set_memoized_attribute
"""Keep what is known of a statement, under one of `NOTES`. Changed copies do not have it (`util/langhelpers.py`)."""


def note_froms(statement: Any, compiled: Any = None) -> None:
    """Keep the sources of a Select, which may be compiled."""
    if isinstance(statement, selectable.Select):
        froms = compiled.compile_state._get_display_froms() if compiled else final_froms(statement)
        note(statement, FROMS, froms)


def noted(statement: Any, name: str) -> Any:
    """What `note` has kept; None without it."""
    return vars(statement).get(name)


def statement_options(statement: Any) -> tuple[Any, ...]:
    """What options() was given; empty for what has no options."""
    return getattr(statement, "_with_options", ())


is_criteria_option: Reader[bool] = attrgetter("_is_criteria_option")
"""Whether the option is a with_loader_criteria(). On `sql/base.py`: ExecutableOption."""


def copy_with(statement: T, **state: Any) -> T:
    """The statement with these attributes, named without the underscore.

    It is copied, as its own methods such as where() copy it (`_generate`), unless it has all of them.
    """
    if all(getattr(statement, f"_{name}") is value for name, value in state.items()):
        return statement
    copied: Any = statement._generate()  # type: ignore[attr-defined]
    for name, value in state.items():
        setattr(copied, f"_{name}", value)
    return copied


cache_key: Reader[CacheKey | None] = methodcaller("_generate_cache_key")
"""What tells the element's SQL from any other, and its bound values; None if it cannot be cached."""


# Expressions --------------------------------------------------------------------------------------------------


def annotations_of(element: Any) -> Mapping[str, Any]:
    """What the ORM and others have noted on an element or Bundle (`sql/annotation.py`); empty for anything else."""
    return getattr(element, "_annotations", EMPTY_DICT)


def annotated(element: T, notes: Mapping[str, Any]) -> T:
    """A copy of the element with these notes besides its own."""
    return element._annotate(notes)  # type: ignore[attr-defined]


def unannotated(element: Any) -> Any:
    """The element that an annotated one is a copy of; any other element itself."""
    # `self.__element` of the class Annotated (sql/annotation.py), as Python mangles the name.
    return getattr(element, "_Annotated__element", element)


def table_under(source: Any) -> Any:
    """The table of an alias, or of an alias of one, without annotations; another element without annotations."""
    while isinstance(source, selectable.Alias):
        source = source.element
    return unannotated(source)


from_objects: Reader[list[FromClause]] = attrgetter("_from_objects")
"""What an expression brings into FROM, or the parts that a FROM clause consists of."""
select_iterable: Reader[Iterable[Any]] = attrgetter("_select_iterable")
"""The columns that an element is in a list of columns: those of a table, those of a list, or itself."""


def table_qualified_label(column: Any) -> str | None:
    """The label "table_column" of a column; None for what belongs to no table."""
    return getattr(column, "_tq_label", None)


named_label: Reader[str | None] = attrgetter("_non_anon_label")
"""The name of a column or label that is not made by the compiler; None without one."""
resolved_lambda: Reader[Any] = attrgetter("_resolved")
"""What a LambdaElement's function returned (`sql/lambdas.py`)."""


cte_alias: Reader[Any] = attrgetter("_cte_alias")
"""The CTE that this one is an alias of; None without one."""


def restated_cte(cte: Any) -> Any:
    """The CTE that union() made this one of; None without one, and for what is no CTE."""
    return getattr(cte, "_restates", None)


sampling_method: Reader[Any] = methodcaller("_get_method")
"""The function of TABLESAMPLE, such as system(10)."""


extra_criteria: Reader[tuple[ColumnElement[bool], ...]] = attrgetter("_extra_criteria")
"""What and_() was given: of an attribute, or of a part of a loader option."""


# Types --------------------------------------------------------------------------------------------------------


type_affinity: Reader[Any] = attrgetter("_type_affinity")
"""The generic class that a type is of: Integer for BIGINT (`sql/type_api.py`)."""
type_variants: Reader[Mapping[str, TypeEngine[Any]]] = attrgetter("_variant_mapping")
"""What with_variant() was given, by the name of the dialect."""
type_key: Reader[Any] = attrgetter("_static_cache_key")
"""A type's part of a cache key: its class and arguments, or NO_CACHE."""


def bind_processor(type_: Any, dialect: Any) -> Any:
    """What SQLAlchemy does to a value for the driver, kept by the dialect; None for nothing."""
    return type_._cached_bind_processor(dialect)


def result_processor(type_: Any, dialect: Any, code: Any) -> Any:
    """What SQLAlchemy does to a driver's value, kept by the dialect; None for nothing."""
    return type_._cached_result_processor(dialect, code)


# Compiling and executing --------------------------------------------------------------------------------------


def compiled_with_cache(statement: Any, dialect: Any, cache: Any, names: Sequence[str]) -> Any:
    """The statement compiled for parameters of these sorted names, or found in `cache`, and what `bound` needs."""
    return statement._compile_w_cache(
        dialect=dialect, compiled_cache=cache, column_keys=names, schema_translate_map=None
    )


def bound(entry: Any, values: Any) -> tuple[str, Any]:
    """The SQL and the parameters for the driver, as an execution context makes them (`engine/default.py`)."""
    compiled, extracted, collected, _ = entry
    bound: dict[str, Any] = compiled.construct_params(
        values, extracted_parameters=extracted, escape_names=False, _collected_params=collected
    )
    state, sql, processors = compiled, compiled.string, compiled._bind_processors
    if compiled.literal_execute_params or compiled.post_compile_params:
        state = compiled._process_parameters_for_postcompile(bound)
        sql, processors = state.statement, {**processors, **state.processors}
    names = state.positiontup if compiled.positional else list(bound)
    read = [processors[name](bound[name]) if name in processors else bound[name] for name in names]
    if compiled.positional:
        return sql, tuple(read)
    escaped = compiled.escaped_bind_names
    return sql, dict(zip([escaped.get(name, name) for name in names], read, strict=True))


def places_of(compiled: Any, values: Any) -> Sequence[tuple[int, str, Any]] | None:
    """Where the parameters of `bound` have these values: position, name and processor. None if others may change."""
    is_fixed = not (compiled.literal_execute_params or compiled.post_compile_params)
    if not (is_fixed and compiled.positional) or any(bind.callable for bind in compiled.bind_names):
        return None
    keys = {name: bind.key if bind.key in values else name for bind, name in compiled.bind_names.items()}
    places = [(place, keys[name], name) for place, name in enumerate(compiled.positiontup)]
    return [(place, key, compiled._bind_processors.get(name)) for place, key, name in places if key in values]


def result_columns_of(compiled: Any) -> Sequence[Any]:
    """(keyname, name, objects, type) of each column of the result; empty for what returns no rows."""
    return compiled._result_columns or ()


def has_columns_by_position(compiled: Any) -> bool:
    """Whether the columns of the result are found by their position, not by their name."""
    return compiled._ordered_columns or compiled._textual_ordered_columns


has_events: Reader[bool] = attrgetter("_has_events")
"""Whether something listens to the events of an Engine, Dialect or Connection (`engine/events.py`)."""
logs: Reader[bool] = methodcaller("_should_log_info")
"""Whether an engine logs its statements, by `echo` or by the level of its logger (`log.py`)."""


def json_reader(dialect: Any) -> Any:
    """What create_engine(json_deserializer=...) was given; None without it, and for a dialect that has none."""
    return getattr(dialect, "_json_deserializer", None)


def set_json_reader(dialect: Any, reader: Any) -> None:
    """As create_engine(json_deserializer=...) does."""
    dialect._json_deserializer = reader


def set_type_memos(dialect: Any, memos: WeakKeyDictionary[Any, Any]) -> None:
    """What the dialect keeps of its types: their implementation and processors (`engine/default.py`)."""
    dialect._type_memos = memos


statement_name: Reader[Any] = methodcaller("_prepared_statement_name_func")
"""A name for a prepared statement of asyncpg; None if asyncpg is to choose (`dialects/postgresql/asyncpg.py`)."""


def prepared(adapted: Any, sql: str, dialect: Any) -> Any:
    """A statement that asyncpg's connection prepares once, and its columns, awaitable."""
    return adapted._prepare(sql, dialect._invalidate_schema_cache_asof)


forget_prepared: Reader[None] = methodcaller("_invalidate_schema_cache")
"""All connections of a dialect prepare their statements anew."""
