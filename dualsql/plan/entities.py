"""Writes out the columns that mapped classes, bundles and loader options stand for.

In `select(User)`, the ORM decides which columns the rows have: it leaves out deferred columns, merges a column that is
named twice, and an eager load adds those of another table. Here every column is written out, once, as a plain execution
returns it. Eager loads are removed: they fill objects, and rows here are not objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from sqlalchemy import ColumnElement, CompoundSelect, Select, and_
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import ColumnProperty, RelationshipProperty, aliased
from sqlalchemy.sql.selectable import SelectStatementGrouping

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.result import criteria_options, has_loaders, is_open, selected_items
from dualsql.errors import NotFreezableError
from dualsql.freeze.document import AnyCompound, AnySelect, Statement
from dualsql.plan import sqlalchemy_internals as private

# SQLAlchemy raises these for a statement that it cannot compile.
_UNCOMPILABLE = (SQLAlchemyError, LookupError, TypeError, ValueError, AttributeError, AssertionError)

_SPELL_OUT = (
    "Turn the eager load off with .options(lazyload(...)). If the joined table filters the rows, use join()."
)


def with_columns(statement: Statement) -> Statement:
    """A statement of which the ORM decides the columns (see `is_open`) with its columns written out.

    Raises:
        NotFreezableError: SQLAlchemy cannot compile it, or no condition can express how an eager load filters it.
    """
    if isinstance(statement, CompoundSelect):
        return _write_out_compound(statement)
    assert isinstance(statement, Select)
    return _write_out_select(statement)


def _write_out_compound(statement: AnyCompound) -> AnyCompound:
    copy = internals.copy_with(statement, with_options=criteria_options(statement))
    copy.selects = [_write_out_part(part) for part in statement.selects]
    return copy


def _write_out_part(part: Any) -> Any:
    """A part of a set operation. It renders as a subquery does: with deferred columns, without loader options."""
    if not is_open(part):
        return part
    if isinstance(part, SelectStatementGrouping):
        return SelectStatementGrouping(_write_out_part(part.element))
    if isinstance(part, CompoundSelect):
        return _write_out_compound(part)
    bare = _with_columns(part, selected_items(part))
    state = _compile_state(bare, _render_for_subquery=True, _enable_eagerloads=False)
    return _with_columns(bare, list(_outputs(state)))


def _write_out_select(statement: AnySelect) -> AnySelect:
    # Eager loads that no option names are not joined. With eager loads disabled, SQLAlchemy would read no option.
    state = _compile_state(statement, _enable_eagerloads=has_loaders(statement))
    select = _with_columns(statement, list(_outputs(state)))
    conditions = [
        condition
        for entity in private.selected_entities(state)
        if isinstance(entity, private.MapperEntity) and not entity.entity_zero.represents_outer_join
        for condition in _partners(entity.entity_zero.entity, _properties(entity), entity.path, state)
    ]
    if conditions and private.nests_selectable(_compile_state(statement)):
        raise NotFreezableError(
            "An eager load with innerjoin=True removes rows from the result of a DISTINCT, GROUP BY or LIMIT.",
            hint=_SPELL_OUT,
        )
    return select.where(*conditions) if conditions else select


def _with_columns(statement: AnySelect, columns: list[Any]) -> AnySelect:
    """The statement with these columns and no loader options, its joins as they are."""
    return internals.copy_with(
        statement,
        raw_columns=columns,
        with_options=criteria_options(statement),
        memoized_select_entities=tuple(
            private.with_options(earlier, criteria_options(earlier))
            for earlier in internals.earlier_selects(statement)
        ),
    )


def _compile_state(statement: Any, **options: bool) -> Any:
    """The compile state that the ORM makes for a statement."""
    try:
        return private.orm_compile_state(statement, **options)
    except _UNCOMPILABLE as error:
        raise NotFreezableError(
            f"The statement cannot be stored: SQLAlchemy cannot compile it ({type(error).__name__}).",
            hint="Run the statement on the database, and correct it until it works there.",
        ) from error


def _outputs(state: Any) -> Iterator[ColumnElement[Any]]:
    """The columns that the ORM selects, each as the expression that was passed or as the attribute that it fills."""
    # The ORM has already put its columns into this set: without emptying it, every one would be a repeat.
    state.dedupe_columns = set()
    for entity in _single(private.selected_entities(state)):
        if isinstance(entity, private.MapperEntity):
            yield from _loaded_columns(entity, state)
            continue
        count = len(state.primary_columns)
        entity.setup_compile_state(state)
        if len(state.primary_columns) > count:
            yield entity.column


def _single(entities: Any) -> Iterator[Any]:
    for entity in entities:
        if isinstance(entity, private.BundleEntity):
            yield from _single(private.selected_entities(entity))
        else:
            yield entity


def _loaded_columns(entity: Any, state: Any) -> Iterator[ColumnElement[Any]]:
    """The columns of a mapped class, as `sqlalchemy.orm.loading` sets them up."""
    owner, adapter = entity.entity_zero, private.entity_adapter(entity, state)
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
        is_expression = isinstance(property_.strategy, private.ExpressionColumnLoader)
        for column in columns:
            yield column.label(property_.key) if is_expression else _attributed(column, owner, property_)
    discriminator = private.polymorphic_discriminator(entity)
    if discriminator is not None and discriminator is not entity.mapper.polymorphic_on:
        yield _annotated(adapter.columns[discriminator] if adapter else discriminator, owner, None)


def _properties(entity: Any) -> Iterator[Any]:
    return iter(private.polymorphic_properties(entity.mapper, private.polymorphic_mappers(entity)))


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
        option = private.loader_option(property_, state, path)
        strategy = (
            private.loader_strategy(property_, option.strategy)
            if option and option.strategy
            else property_.strategy
        )
        options = option.local_opts if option else {}
        if not isinstance(strategy, private.JoinedLoader):
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
                partner, private.polymorphic_properties(property_.mapper), further[property_.entity], state
            )
        )
        comparator = attribute.of_type(partner)
        yield (comparator.any if property_.uselist else comparator.has)(and_(*inner) if inner else None)


def _beyond_join(property_: Any, source: Any, path: Any, state: Any) -> Iterator[Any]:
    """Conditions of eager loads that start at rows joined for contains_eager()."""
    polymorphic = path.get(state.attributes, "path_with_polymorphic", None)
    mappers = polymorphic.with_polymorphic_mappers if polymorphic is not None else ()
    properties = private.polymorphic_properties(property_.mapper, mappers)
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
