"""Writes out the columns that mapped classes, bundles and loader options stand for.

In `select(User)`, the ORM decides which columns the rows have: it leaves out deferred columns, merges a column that is
named twice, and an eager load adds those of another table. Here every column is written out, once, as a plain execution
returns it. Eager loads are removed: they fill objects, and rows here are not objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from sqlalchemy import ColumnElement, CompoundSelect, Select, TextClause, and_
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ColumnProperty, RelationshipProperty, aliased
from sqlalchemy.sql.elements import ColumnClause, Label
from sqlalchemy.sql.lambdas import LambdaElement
from sqlalchemy.sql.selectable import SelectStatementGrouping

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.result import own_name, unique_names
from dualsql.errors import NotFreezableError
from dualsql.freeze.document import AnyCompound, AnySelect, Statement

# SQLAlchemy raises these for a statement that it cannot compile.
_UNCOMPILABLE = (SQLAlchemyError, LookupError, TypeError, ValueError, AttributeError, AssertionError)

_SPELL_OUT = (
    "Turn the eager load off with .options(lazyload(...)). If the joined table filters the rows, use join()."
)


def written_out(statement: Statement) -> Statement:
    """The statement with its columns written out, each under a unique name.

    Raises:
        NotFreezableError: SQLAlchemy cannot compile it, or no condition can express how an eager load filters it.
    """
    if isinstance(statement, CompoundSelect):
        return _written_compound(statement)
    return distinctly_named(_written_select(statement)) if isinstance(statement, Select) else statement


def distinctly_named(statement: AnySelect, *, labels_unnamed: bool = False) -> AnySelect:
    """The statement with a label on each column that has the name of an earlier one.

    Two equal labels cannot be wrapped in a subquery, and a type's own code must not meet the values of another column.

    Args:
        labels_unnamed: columns without a name get a label, too.
    """
    raw = _raw_columns(statement)
    # Bare text may be several columns: which output belongs to it cannot be known.
    if any(isinstance(column, TextClause) for column in raw):
        return statement
    items = list(statement.selected_columns.items())
    columns = [column for _, column in items]
    names = [
        name if _is_to_be_named(column, name) or (labels_unnamed and not _is_named(column)) else ""
        for column, name in zip(columns, unique_names(items), strict=True)
    ]
    if not any(names):
        return statement
    outputs = [output for column in raw for output in internals.select_iterable(column)]
    return _with_columns(
        statement,
        [
            (output.element if isinstance(output, Label) else output).label(name) if name else output
            for output, name in zip(outputs, names, strict=True)
        ],
    )


def _is_named(column: ColumnElement[Any]) -> bool:
    # Without a label, an outer statement would read the bare literal of `select(1)` as `result.1`.
    is_literal = getattr(column, "is_literal", False)
    return isinstance(column, ColumnClause | Label) and not is_literal


def _is_to_be_named(column: ColumnElement[Any], name: str) -> bool:
    """Whether it needs a label with the name, because it has another one or its source may rename it."""
    is_of_source = isinstance(column, ColumnClause) and _is_renamed_by_its_source(column.table)
    return own_name(column) not in ("", name) or is_of_source


def _is_renamed_by_its_source(source: Any) -> bool:
    """Whether it reads a subquery of a mapped class with a repeated column, which SQLAlchemy renders once."""
    inner = getattr(source, "element", None)
    if not isinstance(inner, Select) or not _is_open(inner):
        return False
    hashes = [hash(column) for column in internals.all_selected_columns(inner)]
    return len(set(hashes)) < len(hashes)


def _raw_columns(statement: Any) -> list[Any]:
    """What was passed to select(), lambdas resolved."""
    columns: list[Any] = []
    for column in internals.raw_columns(statement):
        value = internals.resolved_lambda(column) if isinstance(column, LambdaElement) else column
        columns += value if isinstance(value, list | tuple) else [value]
    return columns


def _with_columns(statement: AnySelect, columns: list[Any]) -> AnySelect:
    """The statement with these columns and no loader options, its joins as they are."""
    return internals.copy_with(
        statement,
        raw_columns=columns,
        with_options=criteria_options(statement),
        memoized_select_entities=tuple(map(_without_loaders, internals.earlier_selects(statement))),
    )


def criteria_options(part: Any) -> tuple[Any, ...]:
    """The with_loader_criteria() options of a statement, without its other options."""
    return tuple(
        option for option in internals.statement_options(part) if internals.is_criteria_option(option)
    )


def _without_loaders(earlier: Any) -> Any:
    if len(criteria_options(earlier)) == len(internals.statement_options(earlier)):
        return earlier
    copy = internals.copy_of(earlier)
    internals.set_statement_options(copy, criteria_options(earlier))
    return copy


def _written_compound(statement: AnyCompound) -> AnyCompound:
    selects = [_written_part(part) for part in statement.selects]
    has_loaders = len(criteria_options(statement)) < len(internals.statement_options(statement))
    if not has_loaders and all(one is other for one, other in zip(selects, statement.selects, strict=True)):
        return statement
    copy = internals.copy_with(statement, with_options=criteria_options(statement))
    copy.selects = selects
    return copy


def _written_part(part: Any) -> Any:
    """A part of a set operation. It renders as a subquery does: with deferred columns, without loader options."""
    if isinstance(part, SelectStatementGrouping):
        inner = _written_part(part.element)
        return part if inner is part.element else SelectStatementGrouping(inner)
    if isinstance(part, CompoundSelect):
        return _written_compound(part)
    if not isinstance(part, Select) or not _is_open(part):
        return part
    bare = _with_columns(part, _raw_columns(part))
    state = _compile_state(bare, _render_for_subquery=True, _enable_eagerloads=False)
    return _with_columns(bare, list(_outputs(state)))


def _written_select(statement: AnySelect) -> AnySelect:
    if not _is_open(statement):
        return statement
    # Eager loads that no option names are not joined. With eager loads disabled, SQLAlchemy would read no option.
    state = _compile_state(statement, _enable_eagerloads=_has_loaders(statement))
    select = _with_columns(statement, list(_outputs(state)))
    conditions = [
        condition
        for entity in internals.selected_entities(state)
        if isinstance(entity, internals.MapperEntity) and not entity.entity_zero.represents_outer_join
        for condition in _partners(entity.entity_zero.entity, _properties(entity), entity.path, state)
    ]
    if conditions and internals.nests_selectable(_compile_state(statement)):
        raise NotFreezableError(
            "An eager load with innerjoin=True removes rows from the result of a DISTINCT, GROUP BY or LIMIT.",
            hint=_SPELL_OUT,
        )
    return select.where(*conditions) if conditions else select


def _is_open(statement: Any) -> bool:
    """Whether the ORM decides which columns there are."""
    return _has_loaders(statement) or any(
        internals.annotations_of(column).get("bundle")
        or (column.is_selectable and "parententity" in internals.annotations_of(column))
        for column in _raw_columns(statement)
    )


def _has_loaders(statement: Any) -> bool:
    parts = (statement, *internals.earlier_selects(statement))
    return any(len(criteria_options(part)) < len(internals.statement_options(part)) for part in parts)


def _compile_state(statement: Any, **options: bool) -> Any:
    """The compile state that the ORM makes for a statement."""
    try:
        return internals.orm_compile_state(statement, **options)
    except _UNCOMPILABLE as error:
        raise NotFreezableError(
            f"The statement cannot be stored: SQLAlchemy cannot compile it ({type(error).__name__}).",
            hint="Run the statement on the database, and correct it until it works there.",
        ) from error


def _outputs(state: Any) -> Iterator[ColumnElement[Any]]:
    """The columns that the ORM selects, each as the expression that was passed or as the attribute that it fills."""
    # The ORM has already put its columns into this set: without emptying it, every one would be a repeat.
    state.dedupe_columns = set()
    for entity in _single(internals.selected_entities(state)):
        if isinstance(entity, internals.MapperEntity):
            yield from _loaded_columns(entity, state)
            continue
        count = len(state.primary_columns)
        entity.setup_compile_state(state)
        if len(state.primary_columns) > count:
            yield entity.column


def _single(entities: Any) -> Iterator[Any]:
    for entity in entities:
        if isinstance(entity, internals.BundleEntity):
            yield from _single(internals.selected_entities(entity))
        else:
            yield entity


def _loaded_columns(entity: Any, state: Any) -> Iterator[ColumnElement[Any]]:
    """The columns of a mapped class, as `sqlalchemy.orm.loading` sets them up."""
    owner, adapter = entity.entity_zero, internals.entity_adapter(entity, state)
    for property_ in _properties(entity):
        if not isinstance(property_, ColumnProperty):
            continue
        columns: list[Any] = []
        property_.setup(
            state,
            entity,
            entity.path,
            adapter,
            column_collection=columns,
            # The ORM would fill it with functions that read rows. Here only the columns are needed.
            memoized_populators={},
            check_for_adapt=adapter and owner.is_aliased_class,
        )
        is_expression = isinstance(property_.strategy, internals.ExpressionColumnLoader)
        for column in columns:
            yield column.label(property_.key) if is_expression else _attributed(column, owner, property_)
    discriminator = internals.polymorphic_discriminator(entity)
    if discriminator is not None and discriminator is not entity.mapper.polymorphic_on:
        yield _annotated(adapter.columns[discriminator] if adapter else discriminator, owner, None)


def _properties(entity: Any) -> Iterator[Any]:
    return iter(internals.polymorphic_properties(entity.mapper, internals.polymorphic_mappers(entity)))


def _attributed(column: Any, owner: Any, property_: ColumnProperty[Any]) -> ColumnElement[Any]:
    """The column as the attribute of its class, if the attribute stands for exactly this column."""
    attribute: Any = getattr(owner.entity, property_.key, None)
    if getattr(attribute, "property", None) is property_:
        expression = attribute.expression
        if hash(expression) == hash(column) or len(property_.columns) == 1:
            return cast("ColumnElement[Any]", expression)
    return _annotated(column, owner, property_.key)


def _annotated(column: Any, owner: Any, key: str | None) -> ColumnElement[Any]:
    """The column with the annotations of its entity, whose FROM and criteria the ORM then adds."""
    notes = {"parententity": owner, "parentmapper": owner.mapper, "entity_namespace": owner}
    if key is not None and key in owner.mapper.attrs and hasattr(owner.entity, key):
        notes["proxy_key"] = key
    return cast("ColumnElement[Any]", internals.annotated(column, notes))


def _partners(cls: Any, properties: Iterable[Any], path: Any, state: Any) -> Iterator[Any]:
    """Conditions that keep the rows of joined eager loads with innerjoin=True: those with a partner."""
    for property_ in properties:
        if not isinstance(property_, RelationshipProperty):
            continue
        option = internals.loader_option(property_, state, path)
        strategy = (
            internals.loader_strategy(property_, option.strategy)
            if option and option.strategy
            else property_.strategy
        )
        options = option.local_opts if option else {}
        if not isinstance(strategy, internals.JoinedLoader):
            continue
        further = path[property_]
        if "eager_from_alias" in options:  # contains_eager()
            yield from _beyond_join(property_, options["eager_from_alias"], further, state)
            continue
        if not options.get("innerjoin", property_.innerjoin) or _is_cycle(further, strategy, state):
            continue
        attribute = getattr(cls, property_.key, None)
        if (
            attribute is None
            or (option and internals.extra_criteria(option))
            or not property_.entity.is_mapper
        ):
            raise NotFreezableError(
                f"The eager load {property_} has innerjoin=True, which changes the rows of the statement.",
                hint=_SPELL_OUT,
            )
        # A new alias: SQLAlchemy adapts conditions within a tree of inheriting classes twice.
        partner = aliased(property_.mapper, flat=True)
        inner = list(
            _partners(
                partner, internals.polymorphic_properties(property_.mapper), further[property_.entity], state
            )
        )
        comparator = attribute.of_type(partner)
        yield (comparator.any if property_.uselist else comparator.has)(and_(*inner) if inner else None)


def _beyond_join(property_: Any, source: Any, path: Any, state: Any) -> Iterator[Any]:
    """Conditions of eager loads that start at rows joined for contains_eager()."""
    polymorphic = path.get(state.attributes, "path_with_polymorphic", None)
    mappers = polymorphic.with_polymorphic_mappers if polymorphic is not None else ()
    properties = internals.polymorphic_properties(property_.mapper, mappers)
    sub_entity: Any = None
    if source is None:
        sub_entity = property_.entity.entity
    elif polymorphic is not None and polymorphic.selectable is source:
        sub_entity = polymorphic.entity
    yield from _partners(sub_entity, properties, path[property_.entity], state)


def _is_cycle(path: Any, strategy: Any, state: Any) -> bool:
    """Whether the ORM stops here: it does not follow a relationship back, except by an option or join_depth."""
    if path.contains(state.attributes, "loader"):
        return False
    if strategy.join_depth:
        return bool(path.length / 2 > strategy.join_depth)
    return bool(path.contains_mapper(strategy.mapper))
