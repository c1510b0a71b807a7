"""A total order for any Select: two different rows never tie.

The keys are the requested ones, then the author's ORDER BY, then a tie-breaker: the primary keys of the tables, the
GROUP BY keys, or all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, FromClause, Join, Select, TextClause, null, type_coerce, types
from sqlalchemy.sql import elements, operators, selectable
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import iterate

from dualsql import sqlalchemy_internals as internals
from dualsql.capabilities import Capabilities
from dualsql.columns.kinds import function_name
from dualsql.columns.result import ResultColumn
from dualsql.errors import UnknownColumnError
from dualsql.freeze.document import AnySelect
from dualsql.freeze.row_number import row_number
from dualsql.freeze.types import FUNCTIONS, SET_FUNCTIONS
from dualsql.plan.keys import (
    Key,
    Order,
    calls_in_text,
    column_identity,
    depends_on_time,
    is_random,
    split_modifiers,
)
from dualsql.plan.shape import (
    Expressions,
    Shape,
    distinct_on,
    is_distinct,
    is_table,
    leaves_of,
    merges_rows,
    reads_row_by_row,
    unlabelled,
)
from dualsql_client.wire import SortKey

_OF_ONE_ROW = (FUNCTIONS | {"if", "quote"}) - SET_FUNCTIONS - {"rollup", "cube", "grouping_sets"}


def row_identity(
    select: AnySelect,
    sources: Sequence[FromClause],
    row_number_of: Callable[[Any], str | None] = lambda _: None,
    identities: dict[int, Expressions] | None = None,
) -> Expressions:
    """What identifies the rows of all its sources, if each row of the result is one row of each; otherwise nothing.

    `sources` are its own, from `final_froms`, which prepares a compilation for each answer. `identities` are those of
    subqueries, by id: CTEs that read each other twice have exponentially many paths.
    """
    identities = {} if identities is None else identities
    if is_distinct(select) or merges_rows(select):
        return []
    leaves = list(leaves_of(sources))
    keys = [_identity_in(leaf, row_number_of, identities) for leaf in leaves]
    if not all(keys) or _is_renewed(leaves, select):
        return []
    return [part for key in keys for part in key]


def _identity_in(
    leaf: FromClause, row_number_of: Callable[[Any], str | None], identities: dict[int, Expressions]
) -> Expressions:
    """What identifies the rows of a source: the primary key of a table, and the number of its row if that may be NULL.

    Of a subquery that reads rows of tables, it is their identity, as far as it selects that.
    """
    if is_table(leaf):
        keys: Expressions = [*leaf.primary_key]
        name = row_number_of(internals.table_under(leaf))
        if name is None:
            return keys
        return [*keys, row_number(leaf, name)] if name else []  # no name for the number is free
    inner = getattr(leaf, "element", None)
    is_subquery = isinstance(leaf, selectable.Subquery | selectable.CTE)
    if not is_subquery or getattr(leaf, "recursive", False) or not isinstance(inner, Select):
        return []
    if id(inner) not in identities:
        identities[id(inner)] = row_identity(inner, internals.final_froms(inner), row_number_of, identities)
    outputs: dict[Any, Any] = {column_identity(unlabelled(each)): each for each in inner.selected_columns}
    inner_keys = [column_identity(key) for key in identities[id(inner)]]
    outside = [leaf.corresponding_column(outputs[key]) for key in inner_keys if key in outputs]
    columns: Expressions = [column for column in outside if column is not None]
    return columns if len(columns) == len(inner_keys) else []


def _is_renewed(leaves: Sequence[FromClause], select: AnySelect) -> bool:
    """Whether one of these is an alias that SQLAlchemy makes at each compilation, so that no ORDER BY can name it.

    It makes one for the secondary table of a relationship.
    """
    aliases = [leaf for leaf in leaves if isinstance(leaf, selectable.Alias)]
    is_unnamed = any(isinstance(alias.name, internals.AnonymousLabel) for alias in aliases)
    return is_unnamed and set(leaves) != set(leaves_of(internals.final_froms(select, anew=True)))


def _group_identity(select: AnySelect) -> Expressions:
    """The GROUP BY keys, if they distinguish the rows: in ROLLUP a NULL is ambiguous; unnest() multiplies groups."""
    groups = internals.group_by_clauses(select)
    parts = (*groups, *internals.outputs_of(select), *internals.order_by_clauses(select))
    nodes = [node for part in parts for node in iterate(part)]
    # A function that is not known could be anything, and bare text.
    names = {function_name(node) for node in nodes if isinstance(node, FunctionElement)}
    is_text = any(isinstance(node, TextClause) for group in groups for node in iterate(group))
    if is_distinct(select) or is_text or any(map(calls_in_text, nodes)) or not names <= _OF_ONE_ROW:
        return []
    return [part for group in groups for part in _parts(group)]


def _parts(group: Any) -> Iterator[Any]:
    """The expressions of a group: SQLAlchemy keeps a function in GROUP BY as a list of one."""
    if isinstance(group, elements.ClauseList):
        for clause in group.clauses:
            yield from _parts(clause)
    else:
        yield group


def _whole_row(shape: Shape, capabilities: Capabilities) -> Expressions:
    """All outputs: rows that are equal in all of them cannot be distinguished."""
    expressions = [column.expression for column in shape.columns if not is_constant(column.expression)]
    if internals.distinct_word(shape.select) and not distinct_on(shape.select):
        # DISTINCT has merged values that compare equal, and PostgreSQL refuses other expressions in this ORDER BY.
        return expressions
    return [key for expression in expressions for key in capabilities.distinguishing(expression)]


_CONSTANTS = (elements.BindParameter, elements.Null, elements.True_, elements.False_)


def is_constant(expression: ColumnElement[Any]) -> bool:
    """Whether it is a bound value, NULL, TRUE or FALSE, with a label or without."""
    # ORDER BY of a bare value is an error on PostgreSQL and DuckDB, and orders nothing anywhere.
    value = expression if type(expression) is Column else getattr(expression, "element", expression)
    return isinstance(value, _CONSTANTS)


IsMasked = Callable[[Any], bool]
"""Whether a mask may replace the values of a table's column, also by NULL."""


CLOCK = "Its order depends on the time of day."
INEXACT = "It is ordered by values that this database cannot compare exactly when they are sent back."
_MOST_KEYS = 100
"""A seek predicate compares each key and those before it: 5,050 comparisons."""


def order_of(
    shape: Shape,
    capabilities: Capabilities,
    sort: Sequence[SortKey] = (),
    is_masked: IsMasked = lambda _: False,
) -> Order:
    """The requested keys, then the author's ORDER BY, then the keys that make the order total.

    Raises:
        UnknownColumnError: a requested key names no column of the result.
        BadParameterError: the database cannot sort by the column of a requested key.
    """
    sources = internals.final_froms(shape.select)
    reader = _KeyReader(shape, capabilities, is_masked, sources)
    identity = row_identity(shape.select, sources, capabilities.row_number) or _group_identity(shape.select)
    # Without an identity, two rows may be equal in all columns. No key distinguishes them.
    ties = identity or _whole_row(shape, capabilities)
    is_unique = bool(identity) or is_distinct(shape.select)
    sorting = [*reader.requested_keys(sort), *reader.authored()]
    # A backward scan of an index returns its ties, and their NULLs, backward, too.
    is_descending = bool(sorting) and sorting[-1].is_descending
    breaking = (reader.key(tie, is_descending=is_descending, is_nulls_last=not is_descending) for tie in ties)
    # A repeated column cannot break a tie, and a constant orders nothing.
    by_column: dict[Any, Key] = {}
    for key in (*sorting, *breaking):
        if key.is_text or not is_constant(key.expression):
            by_column.setdefault(column_identity(key.expression) or id(key), key)
    keys = tuple(by_column.values())
    if not capabilities.nulls_last and is_distinct(shape.select) and internals.group_by_clauses(shape.select):
        from dualsql.plan.refused_orders import require_whole_groups

        require_whole_groups(shape.select, keys, capabilities)
    # With a seed (REPEATABLE), TABLESAMPLE takes the same rows each time.
    samples = [leaf for leaf in leaves_of(sources) if isinstance(leaf, selectable.TableSample)]
    is_random_key = any(is_random(key.author_clause if key.is_text else key.expression) for key in keys)
    if is_random_key or any(sample.seed is None for sample in samples):
        return Order(keys, is_unique, is_total=False, obstacle="Its order changes with every read.")
    return Order(keys, is_unique, obstacle=_obstacle(shape.select, keys))


def require_order(column: ResultColumn) -> None:
    """Raise BadParameterError for a column whose stored values sort differently from the shown ones."""
    if not column.meaning.keeps_order:
        from dualsql.plan.refused_orders import unsortable

        raise unsortable(column)


_NULLS = {operators.nulls_last_op: True, operators.nulls_first_op: False}


class _KeyReader:
    """Makes keys from the expressions of one statement."""

    def __init__(
        self, shape: Shape, capabilities: Capabilities, is_masked: IsMasked, sources: Sequence[FromClause]
    ) -> None:
        self._shape = shape
        self._capabilities = capabilities
        self._is_masked = is_masked
        self._is_row_by_row = reads_row_by_row(shape.select)
        self._sources = sources
        self._has_null_rows = dict(side for source in sources for side in _sides(source))
        self._outputs = {
            _identity(column.expression): position for position, column in enumerate(shape.columns)
        }

    def requested_keys(self, sort: Sequence[SortKey]) -> Iterator[Key]:
        """The requested keys; NULLs come last in both directions."""
        by_name = {column.name: column for column in self._shape.columns}
        # PostgreSQL sorts DISTINCT rows by selected columns only, not by expressions of them.
        is_merged = bool(internals.distinct_word(self._shape.select))
        for sort_key in sort:
            column = by_name.get(sort_key["field"])
            if column is None:
                raise UnknownColumnError(sort_key["field"], list(by_name))
            require_order(column)
            is_plain = is_merged or is_constant(column.expression)
            expression = column.expression if is_plain else self._sortable(column)
            yield self.key(expression, is_descending=sort_key.get("order") == "desc", is_nulls_last=True)

    def _sortable(self, column: ResultColumn) -> ColumnElement[Any]:
        """Its expression, or what rows are sorted by where the database cannot sort by its type."""
        expression = column.expression
        # SQLAlchemy has no type for lag(x) and the lower bound of a range; the column has.
        is_untyped = isinstance(expression.type, types.NullType)
        with_type = type_coerce(expression, column.type) if is_untyped else expression
        sortable = self._capabilities.sortable(with_type)
        return expression if sortable is with_type else sortable

    def authored(self) -> Iterator[Key]:
        """The author's ORDER BY, or the keys of DISTINCT ON, which also order the rows."""
        select = self._shape.select
        for clause in list(internals.order_by_clauses(select)) or distinct_on(select):
            expression, modifiers = split_modifiers(clause)
            yield self.key(
                expression,
                is_descending=operators.desc_op in modifiers,
                is_nulls_last=next((_NULLS[each] for each in modifiers if each in _NULLS), None),
                author_clause=clause,
            )

    def key(
        self,
        expression: ColumnElement[Any],
        *,
        is_descending: bool,
        is_nulls_last: bool | None,
        author_clause: Any = None,
    ) -> Key:
        """The key of an expression. NULLs come in the database's own position unless the clause states another.

        If that position is unknown, they come last, and first in a descending order.
        """
        base = self._resolve(expression)
        if base is None:
            return _bare_text(expression if author_clause is None else author_clause)
        value = unlabelled(base)
        side = self._has_null_rows.get(id(internals.unannotated(getattr(value, "table", None))))
        is_stored = side is not None and not self._is_masked(value)
        default = (self._capabilities.nulls_last_by_default or (True, False))[is_descending]
        # Under ROLLUP a column that is NOT NULL has NULLs too.
        is_column = is_stored and self._is_row_by_row
        is_nullable = not (is_column and not side and self._capabilities.is_filled(value))
        is_unknown = is_nullable and is_nulls_last is None and not self._capabilities.nulls_last_by_default
        return Key(
            expression=base,
            form=self._capabilities.key_form(value, is_stored=is_stored),
            is_descending=is_descending,
            is_nulls_last=default if is_nulls_last is None else is_nulls_last,
            is_nullable=is_nullable,
            is_stored=is_column,
            output=self._output(base),
            author_clause=None if is_unknown else author_clause,
        )

    def _resolve(self, base: Any) -> ColumnElement[Any] | None:
        """The expression that a name stands for; None for text that only the database can interpret."""
        if isinstance(base, internals.TextualLabelReference):
            return self._output_named(base.element)
        # A bare number is the position of a column.
        is_text = isinstance(base, TextClause) or (
            isinstance(base, elements.ColumnClause) and base.is_literal and base.name.strip().isdigit()
        )
        return None if is_text else base

    def _output_named(self, name: str) -> ColumnElement[Any] | None:
        for output in self._shape.select.selected_columns:
            if name in (getattr(output, "name", None), internals.table_qualified_label(output)):
                return output
        return next((leaf.c[name] for leaf in leaves_of(self._sources) if name in leaf.c), None)

    def _output(self, expression: ColumnElement[Any]) -> int | None:
        position = self._outputs.get(_identity(expression))
        if position is not None or not internals.distinct_word(self._shape.select):
            return position
        value = unlabelled(expression)
        outputs = enumerate(unlabelled(column.expression) for column in self._shape.columns)
        return next((position for position, output in outputs if output.compare(value)), None)


def _bare_text(clause: Any) -> Key:
    return Key(expression=null(), is_nulls_last=True, author_clause=clause, is_text=True)


def _identity(expression: Any) -> Any:
    value = expression if type(expression) is Column else unlabelled(expression)
    return column_identity(value) or id(value)


def _obstacle(select: AnySelect, keys: Sequence[Key]) -> str:
    """Why there are no cursors; empty if there are."""
    if len(keys) > _MOST_KEYS:
        return "It has too many sort columns."
    # DISTINCT merges rows: only selected columns can be read. DISTINCT ON keeps whole rows.
    is_merged = bool(internals.distinct_word(select)) and not distinct_on(select)
    for key in keys:
        if key.is_text:
            return "Its ORDER BY is text or refers to an unknown column."
        if is_merged and key.output is None:
            return "It orders DISTINCT rows by an expression that is not selected."
        if key.form is None:
            return INEXACT
        if depends_on_time(key.expression):
            return CLOCK
    return ""


def _sides(source: FromClause, *, has_null_rows: bool = False) -> Iterator[tuple[int, bool]]:
    """Each table in a source, and whether an outer join may make its columns NULL."""
    # A subquery copies the NOT NULL of its first SELECT; only a table's own constraint can be relied on.
    if isinstance(source, Join):
        is_full = has_null_rows or source.full
        yield from _sides(source.left, has_null_rows=is_full)
        yield from _sides(source.right, has_null_rows=is_full or source.isouter)
    elif is_table(source):
        yield id(internals.unannotated(source)), has_null_rows
