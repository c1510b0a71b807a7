"""A page beside the position of a row: seek predicates instead of OFFSET."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, false, or_, select, true, tuple_, union_all

from dualsql.capabilities import Capabilities, KeyForm
from dualsql.errors import NoTotalOrderError
from dualsql.freeze.document import AnyCompound, AnySelect
from dualsql.plan.keys import Key
from dualsql.plan.order import reads_row_by_row
from dualsql.plan.page import KeyedSelect, Ordered, whole
from dualsql.plan.shape import with_criteria_of

Condition = ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class KeyTerm:
    """A key and its value in a row; None for NULL."""

    key: Key
    form: KeyForm
    given: ColumnElement[Any] | None

    @classmethod
    def of(cls, key: Key, value: Any) -> KeyTerm:
        """The term of a key that can be read."""
        assert key.form is not None
        return cls(key, key.form, None if value is None else key.form.given(value))

    @property
    def nulls_follow(self) -> bool:
        """Whether rows with a NULL may come after this value."""
        return self.key.is_nullable and self.key.is_nulls_last and self.given is not None

    def equal(self) -> Condition:
        """The same value, or NULL as well."""
        return self.form.compared.is_(None) if self.given is None else self.form.compared == self.given

    def after(self, *, or_equal: bool = False) -> Condition | None:
        """The condition for rows that come later by this key alone; None if there are none."""
        parts: list[Condition] = []
        if self.given is not None:
            parts.append(self._past(self.given, or_equal=or_equal))
        elif not self.key.is_nulls_last:
            parts.append(self.form.compared.is_not(None))
        if self.nulls_follow or (self.given is None and or_equal):
            parts.append(self.form.compared.is_(None))
        return or_(*parts) if parts else None

    def bound(self) -> Condition | None:
        """A condition that an index can use, true for all rows that are equal or later; None if there is none."""
        if self.given is None or self.nulls_follow:
            return None
        return self._past(self.given, or_equal=True)

    def _past(self, given: ColumnElement[Any], *, or_equal: bool) -> Condition:
        compared = self.form.compared
        if self.key.is_descending:
            return compared <= given if or_equal else compared < given
        return compared >= given if or_equal else compared > given


class SeekRange(NamedTuple):
    """A part of the rows after a position: the condition (None for all), the keys that sort them, a limit."""

    condition: Condition | None
    keys: Sequence[Key]
    most: int | None = None


def all_equal(terms: Sequence[KeyTerm]) -> Condition:
    """The condition for rows with the same keys."""
    return and_(true(), *(term.equal() for term in terms))


def after(terms: Sequence[KeyTerm], capabilities: Capabilities, *, or_equal: bool) -> Condition:
    """The seek predicate: all rows after the position of these values; with `or_equal`, the row itself too.

    (k1, k2) > (v1, v2)                                where the database looks row values up in an index
    k1 >= v1 AND (k1 > v1 OR (k1 = v1 AND k2 > v2))    beside a NULL, or with ASC beside DESC
    """
    if not terms:
        # Rows without a key all have the same position.
        return true() if or_equal else false()
    if len(terms) > 1 and capabilities.searches_row_values and _run_one_way(terms):
        return _row_value(terms, or_equal=or_equal)
    first, *rest = terms
    if first.given is None and first.key.is_nulls_last:
        return and_(first.equal(), after(rest, capabilities, or_equal=or_equal))
    condition = or_(false(), *_alternatives(terms, or_equal=or_equal))
    bound = first.bound() if rest else None
    return condition if bound is None else and_(bound, condition)


def parts_after(terms: Sequence[KeyTerm], capabilities: Capabilities, *, or_equal: bool) -> list[SeekRange]:
    """The rows after a position in one or two parts, each of which can use an index on the first key.

    No index serves `k1 > v1 OR k1 IS NULL`, or an order with the NULLs at the other end: PostgreSQL takes as long for
    them as for an OFFSET.
    """
    if not terms:
        return [SeekRange(after(terms, capabilities, or_equal=or_equal), ())]
    first, *rest = terms
    keys = [term.key for term in terms]
    # NULLS LAST in the ORDER BY of a part without NULLs would keep PostgreSQL from using its index.
    known = [replace(first.key, is_nullable=False, written=None), *keys[1:]]
    # Only a stored column has an index that each part can use.
    is_split = capabilities.has_indexes and first.key.is_stored and first.key.is_nullable
    if first.given is not None and (is_split or not first.nulls_follow):
        values = replace(first, key=known[0])
        part = SeekRange(after([values, *rest], capabilities, or_equal=or_equal), known)
        return [part, SeekRange(first.form.compared.is_(None), keys[1:])] if first.nulls_follow else [part]
    # The position is among the NULLs, which come first: the rest of them, then all rows with a value.
    if first.given is None and is_split and not first.key.is_nulls_last:
        following = after(rest, capabilities, or_equal=or_equal)
        return [
            SeekRange(and_(first.equal(), following), keys[1:]),
            SeekRange(first.form.compared.is_not(None), known),
        ]
    return [SeekRange(after(terms, capabilities, or_equal=or_equal), keys)]


def _run_one_way(terms: Sequence[KeyTerm]) -> bool:
    is_descending = terms[0].key.is_descending
    return all(
        term.given is not None and not term.key.is_nullable and term.key.is_descending is is_descending
        for term in terms
    )


def _row_value(terms: Sequence[KeyTerm], *, or_equal: bool) -> Condition:
    compared = tuple_(*(term.form.compared for term in terms))
    given = tuple_(*(term.given for term in terms))
    if terms[0].key.is_descending:
        return compared <= given if or_equal else compared < given
    return compared >= given if or_equal else compared > given


def _alternatives(terms: Sequence[KeyTerm], *, or_equal: bool) -> list[Condition]:
    """Conditions: the first key is later; or it is equal and the second is later; and so on."""
    found: list[Condition] = []
    equal: list[Condition] = []
    for number, term in enumerate(terms, start=1):
        later = term.after(or_equal=or_equal and number == len(terms))
        if later is not None:
            found.append(and_(*equal, later))
        equal.append(term.equal())
    return found


Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysetPosition:
    """A gap between two rows, and the direction to read in.

    If rows can be equal in all keys, the gap can be between equal rows. Then it counts the equal rows before it or, if
    the direction was reversed, those after it.

    Attributes:
        values: the values of the row's keys, as their forms read them.
        is_backward: the rows before the gap are read, not those after it.
        passed: the number of rows with these values before the gap.
        left: the number of them after the gap, if only that is known; `passed` is then not used.
    """

    values: Values
    is_backward: bool = False
    passed: int = 1
    left: int | None = None

    @property
    def holds_itself(self) -> bool:
        """Whether the row of these values is after the gap, if there is only one."""
        return self.passed == 0 if self.left is None else self.left > 0

    def as_of_one(self) -> KeysetPosition:
        """The gap in its normal form if no two rows have the same values."""
        return replace(self, passed=0 if self.holds_itself else 1, left=None)

    def reversed(self) -> KeysetPosition:
        """The same gap, read in the other direction."""
        if self.left is None:
            return replace(self, is_backward=not self.is_backward, left=self.passed)
        return replace(self, is_backward=not self.is_backward, passed=self.left, left=None)


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
        # A page at an offset, all of equal rows: how many stand before the first of them is not known.
        if start is None and not is_begun:
            return None
        if start is not None and _same(start.values, last):
            # Rows that were inserted since make the run longer than what was left.
            if start.left is not None:
                return replace(start, left=max(start.left - run, 0))
            return replace(start, passed=start.passed + run)
    return KeysetPosition(values=last, is_backward=start is not None and start.is_backward, passed=run)


def position_behind(
    page: Sequence[Values], start: KeysetPosition | None, *, is_begun: bool
) -> KeysetPosition | None:
    """The gap before the first row of a page, for reading in the other direction; see `position_ahead`."""
    first = page[0]
    if start is None:
        return KeysetPosition(values=first, is_backward=True, left=0) if is_begun else None
    if _same(start.values, first):
        return start.reversed()
    return KeysetPosition(values=first, is_backward=not start.is_backward, left=0)


def _same(one: Values, other: Values) -> bool:
    # NaN is the one value that is not itself.
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))  # noqa: PLR0124


_HINT = "Page by offset, or sort by columns of the result."


def page_beside(rows: Ordered, position: KeysetPosition, *, limit: int | None) -> KeyedSelect:
    """At most `limit` rows (None for all) after `position`; backward, those before it, the nearest first.

    The condition is added to the author's WHERE if each row of the result is a row of its sources. If removing rows
    would change other rows (groups, windows, the author's LIMIT), it is added to an outer statement.

    Raises:
        NoTotalOrderError: the order cannot be continued from a row's keys.
    """
    statement, keys = _beside(rows, position, skip=0, limit=limit)
    return rows.with_keys(statement, keys)


def rows_beside(rows: Ordered, position: KeysetPosition, *, skip: int, limit: int | None) -> AnySelect:
    """As `page_beside`, but `skip` rows further, and with the result's columns only."""
    return _beside(rows, position, skip=skip, limit=limit)[0]


def _beside(
    rows: Ordered, position: KeysetPosition, *, skip: int, limit: int | None
) -> tuple[AnySelect, Sequence[Key]]:
    require_keyset(rows)
    keys = [key.reversed() for key in rows.order.keys] if position.is_backward else list(rows.order.keys)
    statement = rows.shape.select
    if rows.shape.is_cut or not reads_row_by_row(statement):
        statement, keys = carried_around(rows, keys)
    # No key distinguishes equal rows: those already shown are skipped by their number.
    passed = position.passed if position.left is None and not rows.order.is_unique else 0
    skipped = passed + skip
    most = None if limit is None else limit + skipped
    parts = _parts(rows, keys, position)
    if len(parts) > 1:
        pieces = [_carried(_cut(statement, part, rows, most), keys, rows).subquery("part") for part in parts]
        statement, keys = _around(union_all(*(select(*piece.c) for piece in pieces)), keys, rows)
        parts = [SeekRange(None, keys)]
    cut = _cut(statement, parts[0], rows, limit)
    return (cut.offset(skipped) if skipped else cut), keys


def _parts(rows: Ordered, keys: Sequence[Key], position: KeysetPosition) -> list[SeekRange]:
    terms = [KeyTerm.of(key, value) for key, value in zip(keys, position.values, strict=True)]
    if rows.order.is_unique:
        return parts_after(terms, rows.capabilities, or_equal=position.holds_itself)
    if position.left is None:
        return parts_after(terms, rows.capabilities, or_equal=True)
    later = parts_after(terms, rows.capabilities, or_equal=False)
    return [SeekRange(all_equal(terms), (), position.left), *later] if position.left else later


def require_keyset(rows: Ordered) -> None:
    """Raise NoTotalOrderError if the order has an obstacle."""
    if rows.order.obstacle:
        raise NoTotalOrderError(f"The result cannot be paged by cursor. {rows.order.obstacle}", hint=_HINT)


def _cut(statement: AnySelect, part: SeekRange, rows: Ordered, limit: int | None) -> AnySelect:
    clauses = [clause for key in part.keys for clause in key.clauses(rows.capabilities)]
    limits = [most for most in (limit, part.most) if most is not None]
    chosen = statement if part.condition is None else statement.where(part.condition)
    return chosen.order_by(None).order_by(*clauses).limit(min(limits, default=None))


def _carried(statement: AnySelect, keys: Sequence[Key], rows: Ordered) -> AnySelect:
    """The statement with its keys as columns, for an outer statement."""
    return statement.add_columns(*rows.key_positions(keys, lambda form: form.carried)[1])


def carried_around(rows: Ordered, keys: Sequence[Key], name: str = "result") -> tuple[AnySelect, list[Key]]:
    """An outer SELECT of the whole statement as a subquery of that name, and these keys under their names there."""
    return _around(_carried(whole(rows), keys, rows), keys, rows, name)


def _around(
    inner: AnySelect | AnyCompound, keys: Sequence[Key], rows: Ordered, name: str = "result"
) -> tuple[AnySelect, list[Key]]:
    """An outer SELECT of a statement that has its keys as columns, and the keys under their names there."""
    columns = list(inner.subquery(name).c)
    positions, _ = rows.key_positions(keys, lambda form: form.carried)
    width = len(rows.shape.columns)
    outer = with_criteria_of(rows.shape.select, select(*columns[:width]))
    return outer, [
        replace(
            key,
            expression=columns[number],
            form=rows.capabilities.key_form(columns[number], is_stored=False),
            # A column of a subquery has no index.
            is_stored=False,
            output=number if number < width else None,
            written=None,
        )
        for key, number in zip(keys, positions, strict=True)
    ]
