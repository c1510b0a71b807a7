"""A total order for any Select; the rule: two rows that differ never tie, so pages joined equal the query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Join, TableSample, TextClause, null
from sqlalchemy.sql import operators
from sqlalchemy.sql.elements import ColumnClause, _textual_label_reference

from dualsql.columns import ResultColumn
from dualsql.dialects import Capabilities
from dualsql.errors import BadParameterError, UnknownColumnError
from dualsql.plan.constancy import is_random, tells_time
from dualsql.plan.keys import Key, Order, column_identity, plain, split_modifiers, unlabelled, without_repeats
from dualsql.plan.shape import Shape
from dualsql.plan.ties import distinct_on, is_constant, is_table, leaves_of, reads_row_by_row, tie_breaker
from dualsql.statement import AnySelect
from dualsql_client.wire import SortKey

IsMasked = Callable[[Any], bool]
"""Whether a table's column may hold other values than the table, NULL among them."""


def never(_column: Any) -> bool:
    """No column is masked."""
    return False


_MOST_KEYS = 100

_MOVES = "Its order is another one at every reading."
CLOCK = "Its order depends on the time of day."
_UNREADABLE = "Its ORDER BY is text, or names what cannot be found."
_HIDDEN = "It orders DISTINCT rows by what is not among their columns."
INEXACT = "It is ordered by values that this database does not take back as it gave them."
_TOO_MANY = "It is ordered by too many columns."


def order_of(
    shape: Shape,
    capabilities: Capabilities,
    *,
    sort: Sequence[SortKey] = (),
    is_masked: IsMasked = never,
) -> Order:
    """The requested keys, then the author's ORDER BY, then whatever makes it total.

    Raises:
        UnknownColumnError: a requested key names no column of the result.
        BadParameterError: a requested key's column has no order that the database knows.
    """
    reader = _KeyReader(shape, capabilities, is_masked)
    ties, is_unique = tie_breaker(shape, capabilities)
    asked = [*reader.requested(sort), *reader.authored()]
    # An index that is read backward puts its ties backward too.
    is_descending = bool(asked) and asked[-1].is_descending
    listed = [*asked, *(reader.key(tie, is_descending=is_descending) for tie in ties)]
    keys = tuple(without_repeats(listed))
    is_total = not _is_sampled(shape.select) and not any(is_random(key.expression) for key in keys)
    return Order(keys, is_unique, is_total, _obstacle(shape.select, keys) if is_total else _MOVES)


def require_order(column: ResultColumn) -> None:
    """Raises BadParameterError for a column that is stored in another order than it is shown in."""
    meaning = column.meaning
    if not meaning.keeps_order:
        raise BadParameterError(
            f"Rows cannot be sorted by {column.name[:80]!r}: the database has its values in another form "
            f"({meaning.name}), whose order may be another one.",
            hint="Sort by another column, or sort the rows once they are fetched.",
            details={"column": column.name},
        )


class _KeyReader:
    """Makes keys of expressions, with all that is known of them in one statement."""

    def __init__(self, shape: Shape, capabilities: Capabilities, is_masked: IsMasked) -> None:
        self._shape = shape
        self._capabilities = capabilities
        self._is_masked = is_masked
        self._is_row_by_row = reads_row_by_row(shape.select)
        self._has_null_rows = dict(_sides(shape.select.get_final_froms()))
        self._outputs = {
            _identity(column.expression): position for position, column in enumerate(shape.columns)
        }

    def requested(self, sort: Sequence[SortKey]) -> Iterator[Key]:
        """The keys a reader asked for; NULLs come last in both directions."""
        named = {column.name: column for column in self._shape.columns}
        # PostgreSQL puts DISTINCT rows in order by what they show, and by nothing made of it.
        is_merged = bool(self._shape.select._distinct)
        for wanted in sort:
            column = named.get(wanted["field"])
            if column is None:
                raise UnknownColumnError(wanted["field"], list(named))
            require_order(column)
            if not is_constant(column.expression):
                shown = column.expression
                expression = shown if is_merged else self._capabilities.sortable(shown)
                yield self.key(expression, is_descending=wanted.get("order") == "desc", is_nulls_last=True)

    def authored(self) -> Iterator[Key]:
        """The author's ORDER BY, or the keys of DISTINCT ON, which put rows in order too."""
        select = self._shape.select
        for clause in list(select._order_by_clauses) or distinct_on(select):
            base, modifiers = split_modifiers(clause)
            expression = self._resolved(base)
            if expression is None:
                yield _bare_text(clause)
            elif not is_constant(expression):
                yield self.key(
                    expression,
                    is_descending=operators.desc_op in modifiers,
                    is_nulls_last=_stated(modifiers),
                    written=clause,
                )

    def key(
        self,
        expression: ColumnElement[Any],
        *,
        is_descending: bool = False,
        is_nulls_last: bool | None = None,
        written: Any = None,
    ) -> Key:
        """The key of an expression; NULLs stand where the database puts them, unless it is said."""
        resolved = self._resolved(expression)
        if resolved is None:
            return _bare_text(expression)
        value = unlabelled(resolved)
        side = self._has_null_rows.get(id(plain(getattr(value, "table", None))))
        is_stored = side is not None and not self._is_masked(value)
        default = self._capabilities.nulls_last_by_default[is_descending]
        return Key(
            expression=resolved,
            form=self._capabilities.key_form(value, is_stored=is_stored),
            is_descending=is_descending,
            is_nulls_last=default if is_nulls_last is None else is_nulls_last,
            # Under ROLLUP a column that is NOT NULL has NULLs too.
            is_nullable=not (is_stored and self._is_row_by_row)
            or side is True
            or value.nullable is not False,
            is_stored=is_stored and self._is_row_by_row,
            output=self._output(resolved),
            written=written,
        )

    def _resolved(self, base: Any) -> ColumnElement[Any] | None:
        """The expression itself where a name stands for it; None for text that only a database reads."""
        if isinstance(base, _textual_label_reference):
            return self._named(base.element)
        # A bare number is the position of a column.
        is_text = isinstance(base, TextClause) or (
            isinstance(base, ColumnClause) and base.is_literal and base.name.strip().isdigit()
        )
        return None if is_text else base

    def _named(self, name: str) -> ColumnElement[Any] | None:
        for output in self._shape.select.selected_columns:
            if name in (getattr(output, "name", None), getattr(output, "_tq_label", None)):
                return output
        found = (leaf.c[name] for leaf in leaves_of(self._shape.select) if name in leaf.c)
        return next(found, None)

    def _output(self, expression: ColumnElement[Any]) -> int | None:
        position = self._outputs.get(_identity(expression))
        if position is not None or not self._shape.select._distinct:
            return position
        value = unlabelled(expression)
        same = (
            position
            for position, column in enumerate(self._shape.columns)
            if unlabelled(column.expression).compare(value)
        )
        return next(same, None)


def _bare_text(clause: Any) -> Key:
    return Key(expression=null(), is_nulls_last=True, written=clause, is_text=True)


def _identity(expression: Any) -> Any:
    value = unlabelled(expression)
    return column_identity(value) or id(value)


def _stated(modifiers: Sequence[Any]) -> bool | None:
    if operators.nulls_last_op in modifiers:
        return True
    return False if operators.nulls_first_op in modifiers else None


def _obstacle(select: AnySelect, keys: Sequence[Key]) -> str:
    """Why the place of a row cannot be told by its keys; empty when it can."""
    if len(keys) > _MOST_KEYS:
        return _TOO_MANY
    is_merged = bool(select._distinct) and not distinct_on(select)
    for key in keys:
        if key.is_text:
            return _UNREADABLE
        if is_merged and key.output is None:
            return _HIDDEN
        if key.form is None:
            return INEXACT
        if tells_time(key.expression):
            return CLOCK
    return ""


def _is_sampled(select: AnySelect) -> bool:
    return any(isinstance(leaf, TableSample) and leaf.seed is None for leaf in leaves_of(select))


def _sides(sources: Sequence[FromClause], *, has_null_rows: bool = False) -> Iterator[tuple[int, bool]]:
    """Each table that is read, and whether an outer join may fill its columns with NULLs."""
    # A subquery copies the NOT NULL of its first SELECT; only a table's own constraint can be relied on.
    for source in sources:
        if isinstance(source, Join):
            left, right = (has_null_rows or source.full, has_null_rows or source.full or source.isouter)
            yield from _sides([source.left], has_null_rows=left)
            yield from _sides([source.right], has_null_rows=right)
        elif is_table(source):
            yield id(plain(source)), has_null_rows
