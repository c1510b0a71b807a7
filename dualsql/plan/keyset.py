"""Cut a page out of a Select beside the place of a row; the rule: what comes next is asked for, never counted.

The condition stands beside the author's own where each row of the result is a row of its sources. It stands around
the statement where taking rows away would change the others: groups, windows, the author's own LIMIT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select, types, union_all

from dualsql.errors import NoTotalOrderError
from dualsql.keyforms import KeyForm
from dualsql.plan.beyond import Part, Term, all_equal, parts_after
from dualsql.plan.keys import Key
from dualsql.plan.options import with_criteria_of
from dualsql.plan.page import Ordered, page, whole
from dualsql.plan.places import Place
from dualsql.plan.ties import reads_row_by_row
from dualsql.statement import AnyCompound, AnySelect

_HINT = "Page by offset, or sort by columns of the result."


class KeyedSelect(NamedTuple):
    """A Select whose rows tell their place.

    Attributes:
        select: the result's columns, and behind them what else it takes to tell a place.
        keys: None where the order has an obstacle.
        positions: where in a row the value of each key is.
        added: how many columns stand behind the result's.
    """

    select: AnySelect
    keys: Sequence[Key] | None
    positions: Sequence[int]
    added: int = 0

    @property
    def is_keyed(self) -> bool:
        """Whether its rows tell their place."""
        return self.keys is not None

    def values_of(self, row: Sequence[Any]) -> tuple[Any, ...] | None:
        """The values of the row's keys; None where one could not be given back."""
        if self.keys is None:
            return None
        values = tuple(row[position] for position in self.positions)
        for key, value in zip(self.keys, values, strict=True):
            if key.form is None or not (value is None or key.form.comes_back(value)):
                return None
        return values


def keyed_page(rows: Ordered, *, offset: int, limit: int | None) -> KeyedSelect:
    """As `page`, from an offset on, with rows that tell their place."""
    cut = page(rows, offset=offset, limit=limit)
    return KeyedSelect(cut, None, ()) if rows.order.obstacle else _read(cut, rows.order.keys, rows)


def page_beside(rows: Ordered, place: Place, *, limit: int | None) -> KeyedSelect:
    """At most `limit` rows (None for all) after `place`; backward, those before it, the nearest first.

    Raises:
        NoTotalOrderError: in this order no place can be told.
    """
    statement, keys = _beside(rows, place, skip=0, limit=limit)
    return _read(statement, keys, rows)


def rows_beside(rows: Ordered, place: Place, *, skip: int, limit: int | None) -> AnySelect:
    """As `page_beside`, but `skip` rows further on, and the result's columns alone."""
    return _beside(rows, place, skip=skip, limit=limit)[0]


def _beside(rows: Ordered, place: Place, *, skip: int, limit: int | None) -> tuple[AnySelect, Sequence[Key]]:
    require_keyset(rows)
    keys = [key.reversed() for key in rows.order.keys] if place.is_backward else list(rows.order.keys)
    statement = rows.shape.select
    if rows.shape.is_cut or not reads_row_by_row(statement):
        statement, keys = carried_around(rows, keys)
    # Past the equal rows that were shown; no key tells them from those that were not.
    passed = place.passed if place.left is None and not rows.order.is_unique else 0
    skipped = passed + skip
    most = None if limit is None else limit + skipped
    parts = _parts(rows, keys, place)
    if len(parts) > 1:
        pieces = [_carried(_cut(statement, part, rows, most), keys, rows).subquery("part") for part in parts]
        statement, keys = _around(union_all(*(select(*piece.c) for piece in pieces)), keys, rows)
        parts = [Part(None, keys)]
    cut = _cut(statement, parts[0], rows, limit)
    return (cut.offset(skipped) if skipped else cut), keys


def _parts(rows: Ordered, keys: Sequence[Key], place: Place) -> list[Part]:
    terms = [Term.of(key, value) for key, value in zip(keys, place.values, strict=True)]
    if rows.order.is_unique:
        return parts_after(terms, rows.capabilities, or_equal=place.holds_itself)
    if place.left is None:
        return parts_after(terms, rows.capabilities, or_equal=True)
    later = parts_after(terms, rows.capabilities, or_equal=False)
    return [Part(all_equal(terms), (), place.left), *later] if place.left else later


def require_keyset(rows: Ordered) -> None:
    """Raises NoTotalOrderError where the order has an obstacle."""
    if rows.order.obstacle:
        raise NoTotalOrderError(f"Its rows cannot be paged by cursor. {rows.order.obstacle}", hint=_HINT)


def _cut(statement: AnySelect, part: Part, rows: Ordered, limit: int | None) -> AnySelect:
    clauses = [clause for key in part.keys for clause in key.clauses(rows.capabilities)]
    limits = [most for most in (limit, part.most) if most is not None]
    chosen = statement if part.condition is None else statement.where(part.condition)
    return chosen.order_by(None).order_by(*clauses).limit(min(limits, default=None))


def _read(statement: AnySelect, keys: Sequence[Key], rows: Ordered) -> KeyedSelect:
    """The statement with the values of its keys."""
    positions, added = _places(keys, rows, lambda form: form.read)
    return KeyedSelect(statement.add_columns(*added), keys, positions, len(added))


def _carried(statement: AnySelect, keys: Sequence[Key], rows: Ordered) -> AnySelect:
    """The statement with its keys themselves, for a statement around it."""
    return statement.add_columns(*_places(keys, rows, lambda form: form.carried)[1])


def carried_around(rows: Ordered, keys: Sequence[Key]) -> tuple[AnySelect, list[Key]]:
    """A SELECT around the whole statement, and these keys of its order as they are called there."""
    return _around(_carried(whole(rows), keys, rows), keys, rows)


def _around(
    inner: AnySelect | AnyCompound, keys: Sequence[Key], rows: Ordered
) -> tuple[AnySelect, list[Key]]:
    """A SELECT of the same rows from a statement that carries its keys, and the keys as they are called there."""
    columns = list(inner.subquery("result").c)
    positions, _ = _places(keys, rows, lambda form: form.carried)
    width = len(rows.shape.columns)
    outer = with_criteria_of(rows.shape.select, select(*columns[:width]))
    return outer, [
        replace(
            key,
            expression=columns[position],
            form=rows.capabilities.key_form(columns[position], is_stored=False),
            is_stored=False,
            output=position if position < width else None,
            written=None,
        )
        for key, position in zip(keys, positions, strict=True)
    ]


def _places(
    keys: Sequence[Key], rows: Ordered, column: Callable[[KeyForm], ColumnElement[Any]]
) -> tuple[list[int], list[ColumnElement[Any]]]:
    """Where each key is in a row, and the columns to be added for those that are no output."""
    positions: list[int] = []
    added: list[ColumnElement[Any]] = []
    prefix = _free_prefix(output.name for output in rows.shape.columns)
    for key in keys:
        if key.output is not None and _is_shown_as_it_is(key.expression):
            positions.append(key.output)
        else:
            assert key.form is not None  # or the order would have an obstacle
            positions.append(len(rows.shape.columns) + len(added))
            added.append(column(key.form).label(f"{prefix}{len(added) + 1}"))
    return positions, added


def _free_prefix(taken: Iterable[str]) -> str:
    """How no name of the result begins: a label that SQLAlchemy makes, such as id_2, may be the name of a column."""
    prefix = "key_"
    while any(name.lower().startswith(prefix) for name in taken):
        prefix += "_"
    return prefix


def _is_shown_as_it_is(expression: ColumnElement[Any]) -> bool:
    """Whether the column's value, as the result has it, is the driver's own."""
    type_ = expression.type
    return isinstance(type_, types.Integer | types.String) and not isinstance(type_, types.Enum)
