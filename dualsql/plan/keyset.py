"""A page beside the position of a row: seek predicates instead of OFFSET."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, false, or_, select, true, tuple_, union_all

from dualsql.capabilities import Capabilities
from dualsql.columns.result import with_criteria_of
from dualsql.errors import NoTotalOrderError
from dualsql.freeze.document import AnyCompound, AnySelect
from dualsql.plan.keys import Key, clauses_of
from dualsql.plan.page import KeyedSelect, Ordered, all_rows, smallest
from dualsql.plan.shape import reads_row_by_row

Condition = ColumnElement[bool]


class KeyTerm(NamedTuple):
    """A key, what it compares in conditions, and its value in a row; None for NULL."""

    key: Key
    compared: ColumnElement[Any]
    value: ColumnElement[Any] | None

    @property
    def nulls_follow(self) -> bool:
        """Whether rows with a NULL may come after this value."""
        return self.key.is_nullable and self.key.is_nulls_last and self.value is not None

    def equal(self) -> Condition:
        """The same value, or NULL as well."""
        return self.compared.is_(None) if self.value is None else self.compared == self.value

    def after(self, *, or_equal: bool = False) -> Condition | None:
        """The condition for rows that come later by this key alone; None if there are none."""
        parts: list[Condition] = []
        if self.value is not None:
            parts.append(_past(self.compared, self.value, self.key, or_equal=or_equal))
        elif not self.key.is_nulls_last:
            parts.append(self.compared.is_not(None))
        if self.nulls_follow or (self.value is None and or_equal):
            parts.append(self.compared.is_(None))
        return or_(*parts) if parts else None


def _past(compared: Any, value: Any, key: Key, *, or_equal: bool) -> Condition:
    """`compared` comes after `value` in the direction of the key."""
    compare = (le if or_equal else lt) if key.is_descending else (ge if or_equal else gt)
    condition: Condition = compare(compared, value)
    return condition


class SeekRange(NamedTuple):
    """A part of the rows after a position: the condition (None for all), the keys that sort them, a limit."""

    condition: Condition | None
    keys: Sequence[Key]
    most: int | None = None


def after(terms: Sequence[KeyTerm], capabilities: Capabilities, *, or_equal: bool) -> Condition:
    """The seek predicate: all rows after the position of these values; with `or_equal`, the row itself too.

    (k1, k2) > (v1, v2)                                where the database looks row values up in an index
    k1 >= v1 AND (k1 > v1 OR (k1 = v1 AND k2 > v2))    beside a NULL, or with ASC beside DESC
    """
    if not terms:
        # Rows without a key all have the same position.
        return true() if or_equal else false()
    first, *rest = terms
    runs_one_way = all(
        term.value is not None
        and not term.key.is_nullable
        and term.key.is_descending is first.key.is_descending
        for term in terms
    )
    if rest and capabilities.searches_row_values and runs_one_way:
        compared, values = tuple_(*(term.compared for term in terms)), tuple_(*(term.value for term in terms))
        return _past(compared, values, first.key, or_equal=or_equal)
    if first.value is None and first.key.is_nulls_last:
        return and_(first.equal(), after(rest, capabilities, or_equal=or_equal))
    # The first key is later; or it is equal and the second is later; and so on.
    alternatives: list[Condition] = [false()]
    equal: list[Condition] = []
    for term in terms:
        later = term.after(or_equal=or_equal and term is terms[-1])
        if later is not None:
            alternatives.append(and_(*equal, later))
        equal.append(term.equal())
    condition = or_(*alternatives)
    # True for all these rows, and an index can use it.
    has_bound = bool(rest) and first.value is not None and not first.nulls_follow
    bound = first.after(or_equal=True) if has_bound else None
    return condition if bound is None else and_(bound, condition)


def parts_after(terms: Sequence[KeyTerm], capabilities: Capabilities, *, or_equal: bool) -> list[SeekRange]:
    """The rows after a position in one or two parts, each of which can use an index on the first key.

    No index supports `k1 > v1 OR k1 IS NULL`, or an order with the NULLs at the other end: PostgreSQL takes as long for
    them as for an OFFSET.
    """
    if not terms:
        return [SeekRange(after(terms, capabilities, or_equal=or_equal), ())]
    first, *rest = terms
    keys = [term.key for term in terms]
    # NULLS LAST in the ORDER BY of a part without NULLs would keep PostgreSQL from using its index.
    without_nulls = [first.key._replace(is_nullable=False, author_clause=None), *keys[1:]]
    # Only a stored column has an index that each part can use.
    is_split = capabilities.has_indexes and first.key.is_stored and first.key.is_nullable
    if first.value is not None and (is_split or not first.nulls_follow):
        not_null = first._replace(key=without_nulls[0])
        part = SeekRange(after([not_null, *rest], capabilities, or_equal=or_equal), without_nulls)
        return [part, SeekRange(first.compared.is_(None), keys[1:])] if first.nulls_follow else [part]
    # The position is among the NULLs, which come first: the rest of them, then all rows with a value.
    if first.value is None and is_split and not first.key.is_nulls_last:
        following = after(rest, capabilities, or_equal=or_equal)
        return [
            SeekRange(and_(first.equal(), following), keys[1:]),
            SeekRange(first.compared.is_not(None), without_nulls),
        ]
    nulls = takewhile(lambda term: term.value is None and term.key.is_nulls_last, terms)  # of all rows after
    return [SeekRange(after(terms, capabilities, or_equal=or_equal), keys[len([*nulls]) :])]


Values = tuple[Any, ...]


class KeysetPosition(NamedTuple):
    """A gap between two rows, and the direction to read in.

    If rows can be equal in all keys, the gap can be between equal rows. Then it counts the equal rows before it or, if
    the direction was reversed, those after it.

    Attributes:
        values: the values of the row's keys, as their forms read them.
        is_backward: the rows before the gap are read, not those after it.
        equal_before: the number of rows with these values before the gap.
        equal_after: the number of them after the gap, if only that is known. `equal_before` is then not used.
    """

    values: Values
    is_backward: bool = False
    equal_before: int = 1
    equal_after: int | None = None

    @property
    def includes_own_row(self) -> bool:
        """Whether the row of these values is after the gap, if there is only one."""
        return self.equal_before == 0 if self.equal_after is None else self.equal_after > 0

    def reversed(self) -> KeysetPosition:
        """The same gap, read in the other direction."""
        turned = self._replace(is_backward=not self.is_backward)
        if self.equal_after is None:
            return turned._replace(equal_after=self.equal_before)
        return turned._replace(equal_before=self.equal_after, equal_after=None)


def position_ahead(
    page: Sequence[Values], start: KeysetPosition | None, *, is_begun: bool
) -> KeysetPosition | None:
    """The gap after the last row of a page, in the direction of reading.

    Args:
        page: the values of its rows, at least one.
        start: the position that the page was read from; None for an offset.
        is_begun: no row before the first one can be equal to it; for an offset.

    Returns None if the number of equal rows before the gap is unknown.
    """
    last = page[-1]
    # How many rows at the end of the page are equal in all keys: the gap after them counts them.
    run = next((number for number, values in enumerate(reversed(page)) if not _same(values, last)), len(page))
    if run == len(page):
        # A page at an offset, all of equal rows: the number of equal rows before it is unknown.
        if start is None and not is_begun:
            return None
        if start is not None and _same(start.values, last):
            # Rows inserted since can make the run longer than the number in the position.
            if start.equal_after is not None:
                return start._replace(equal_after=max(start.equal_after - run, 0))
            return start._replace(equal_before=start.equal_before + run)
    return KeysetPosition(values=last, is_backward=start is not None and start.is_backward, equal_before=run)


def position_behind(
    page: Sequence[Values], start: KeysetPosition | None, *, is_begun: bool
) -> KeysetPosition | None:
    """The gap before the first row of a page, for reading in the other direction; see `position_ahead`."""
    first = page[0]
    if start is None:
        return KeysetPosition(values=first, is_backward=True, equal_after=0) if is_begun else None
    if _same(start.values, first):
        return start.reversed()
    return KeysetPosition(values=first, is_backward=not start.is_backward, equal_after=0)


def _same(one: Values, other: Values) -> bool:
    # NaN is the only value that does not equal itself.
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))  # noqa: PLR0124


def page_beside(rows: Ordered, position: KeysetPosition, *, limit: int | None) -> KeyedSelect:
    """At most `limit` rows (None for all) after `position`; backward, those before it, the nearest first.

    The condition is added to the author's WHERE if each row of the result is a row of its sources. If removing rows
    would change other rows (groups, windows, the author's LIMIT), it is added to an outer statement.
    """
    return rows.with_keys(*rows_beside(rows, position, skip=0, limit=limit))


def rows_beside(
    rows: Ordered, position: KeysetPosition, *, skip: int, limit: int | None
) -> tuple[AnySelect, Sequence[Key]]:
    """As `page_beside`, but `skip` rows further, with the result's columns only, and the keys apart."""
    require_keyset(rows)
    keys = [key.reversed() for key in rows.order.keys] if position.is_backward else list(rows.order.keys)
    statement = rows.shape.select
    if rows.shape.is_cut or not reads_row_by_row(statement):
        statement, keys = carried_around(rows, keys)
    # No key distinguishes equal rows: those already shown are skipped by their number.
    counts_equal = position.equal_after is None and not rows.order.is_unique
    skipped = skip + (position.equal_before if counts_equal else 0)
    most = None if limit is None else limit + skipped
    if most is not None and rows.is_numbered:  # see `Ordered.part`
        here = position.values[0]
        statement = statement.where(rows.order.keys[0].expression.between(here - most, here + most))
    parts = _parts(rows, keys, position)
    if len(parts) > 1:
        pieces = [_carried(_cut(statement, part, rows, most), keys, rows).subquery("part") for part in parts]
        statement, keys = _around(union_all(*(select(*piece.c) for piece in pieces)), keys, rows)
        parts = [SeekRange(None, keys)]
    rest = _cut(statement, parts[0], rows, limit)
    return (rest.offset(skipped) if skipped else rest), keys


def _parts(rows: Ordered, keys: Sequence[Key], position: KeysetPosition) -> list[SeekRange]:
    terms = []
    for key, value in zip(keys, position.values, strict=True):
        assert key.form is not None  # otherwise the order has an obstacle
        terms.append(KeyTerm(key, key.form.compared, None if value is None else key.form.bind(value)))
    if rows.order.is_unique:
        return parts_after(terms, rows.capabilities, or_equal=position.includes_own_row)
    if position.equal_after is None:
        return parts_after(terms, rows.capabilities, or_equal=True)
    later = parts_after(terms, rows.capabilities, or_equal=False)
    if not position.equal_after:
        return later
    equal = and_(true(), *(term.equal() for term in terms))
    return [SeekRange(equal, (), position.equal_after), *later]


def require_keyset(rows: Ordered) -> None:
    """Raise NoTotalOrderError if the order has an obstacle."""
    if rows.order.obstacle:
        raise NoTotalOrderError(
            f"The result cannot be paged by cursor. {rows.order.obstacle}",
            hint="Page by offset, or sort by columns of the result.",
        )


def _cut(statement: AnySelect, part: SeekRange, rows: Ordered, limit: int | None) -> AnySelect:
    clauses = clauses_of(part.keys, rows.capabilities)
    part_rows = statement if part.condition is None else statement.where(part.condition)
    return part_rows.order_by(None).order_by(*clauses).limit(smallest(limit, part.most))


def _carried(statement: AnySelect, keys: Sequence[Key], rows: Ordered) -> AnySelect:
    """The statement with its keys as columns, for an outer statement."""
    return statement.add_columns(*rows.key_positions(keys, lambda form: form.carried)[1])


def carried_around(rows: Ordered, keys: Sequence[Key], name: str = "result") -> tuple[AnySelect, list[Key]]:
    """An outer SELECT of the whole statement as a subquery of that name, and these keys under their names there."""
    return _around(_carried(all_rows(rows), keys, rows), keys, rows, name)


def _around(
    inner: AnySelect | AnyCompound, keys: Sequence[Key], rows: Ordered, name: str = "result"
) -> tuple[AnySelect, list[Key]]:
    """An outer SELECT of a statement that has its keys as columns, and the keys under their names there."""
    columns = list(inner.subquery(name).c)
    positions, _ = rows.key_positions(keys, lambda form: form.carried)
    width = len(rows.shape.columns)
    outer = with_criteria_of(rows.shape.select, select(*columns[:width]))
    return outer, [
        key._replace(
            expression=columns[number],
            form=rows.capabilities.key_form(columns[number], is_stored=False),
            # A column of a subquery has no index.
            is_stored=False,
            output=number if number < width else None,
            author_clause=None,
        )
        for key, number in zip(keys, positions, strict=True)
    ]
