"""What comes after a place, as conditions; the rule: of two rows, exactly one comes after the other.

(k1, k2) > (v1, v2)                                 where the database looks that up in an index
k1 >= v1 AND (k1 > v1 OR (k1 = v1 AND k2 > v2))     beside a NULL, or ASC beside DESC
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, false, or_, true, tuple_

from dualsql.dialects import Capabilities
from dualsql.keyforms import KeyForm
from dualsql.plan.keys import Key

Condition = ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class Term:
    """One key and the row's value of it, None when that is NULL."""

    key: Key
    form: KeyForm
    given: ColumnElement[Any] | None

    @classmethod
    def of(cls, key: Key, value: Any) -> Term:
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
        """What comes later by this key alone; None where nothing does."""
        parts: list[Condition] = []
        if self.given is not None:
            parts.append(self._past(self.given, or_equal=or_equal))
        elif not self.key.is_nulls_last:
            parts.append(self.form.compared.is_not(None))
        if self.nulls_follow or (self.given is None and or_equal):
            parts.append(self.form.compared.is_(None))
        return or_(*parts) if parts else None

    def bound(self) -> Condition | None:
        """A condition that an index finds its way by, true of all that is equal or later; None without one."""
        if self.given is None or self.nulls_follow:
            return None
        return self._past(self.given, or_equal=True)

    def _past(self, given: ColumnElement[Any], *, or_equal: bool) -> Condition:
        compared = self.form.compared
        if self.key.is_descending:
            return compared <= given if or_equal else compared < given
        return compared >= given if or_equal else compared > given


class Part(NamedTuple):
    """Some of the rows after a place: which (None for all), the keys that put them in order, and how many at most."""

    condition: Condition | None
    keys: Sequence[Key]
    most: int | None = None


def all_equal(terms: Sequence[Term]) -> Condition:
    """The rows that no key tells from this one."""
    return and_(true(), *(term.equal() for term in terms))


def after(terms: Sequence[Term], capabilities: Capabilities, *, or_equal: bool) -> Condition:
    """All rows after the place of these values; with `or_equal`, the row itself too."""
    if not terms:
        # Rows without a key are all one place.
        return true() if or_equal else false()
    if len(terms) > 1 and capabilities.searches_row_values and _run_one_way(terms):
        return _row_value(terms, or_equal=or_equal)
    first, *rest = terms
    if first.given is None and first.key.is_nulls_last:
        return and_(first.equal(), after(rest, capabilities, or_equal=or_equal))
    condition = or_(false(), *_alternatives(terms, or_equal=or_equal))
    bound = first.bound() if rest else None
    return condition if bound is None else and_(bound, condition)


def parts_after(terms: Sequence[Term], capabilities: Capabilities, *, or_equal: bool) -> list[Part]:
    """The same rows in one part or two, in each of which an index may stand for the first key.

    No index knows `k1 > v1 OR k1 IS NULL`, nor an order of its values with the NULLs at the other end: PostgreSQL
    takes as long for either as for an OFFSET.
    """
    if not terms:
        return [Part(after(terms, capabilities, or_equal=or_equal), ())]
    first, *rest = terms
    keys = [term.key for term in terms]
    # In the order of a part that has no NULLs, nothing is said of them.
    known = [replace(first.key, is_nullable=False, written=None), *keys[1:]]
    is_split = first.key.is_stored and first.key.is_nullable
    if first.given is not None and (is_split or not first.nulls_follow):
        values = replace(first, key=known[0])
        part = Part(after([values, *rest], capabilities, or_equal=or_equal), known)
        return [part, Part(first.form.compared.is_(None), keys[1:])] if first.nulls_follow else [part]
    if first.given is None and is_split and not first.key.is_nulls_last:
        following = after(rest, capabilities, or_equal=or_equal)
        return [
            Part(and_(first.equal(), following), keys[1:]),
            Part(first.form.compared.is_not(None), known),
        ]
    return [Part(after(terms, capabilities, or_equal=or_equal), keys)]


def _run_one_way(terms: Sequence[Term]) -> bool:
    is_descending = terms[0].key.is_descending
    return all(
        term.given is not None and not term.key.is_nullable and term.key.is_descending is is_descending
        for term in terms
    )


def _row_value(terms: Sequence[Term], *, or_equal: bool) -> Condition:
    compared = tuple_(*(term.form.compared for term in terms))
    given = tuple_(*(term.given for term in terms))
    if terms[0].key.is_descending:
        return compared <= given if or_equal else compared < given
    return compared >= given if or_equal else compared > given


def _alternatives(terms: Sequence[Term], *, or_equal: bool) -> list[Condition]:
    """First key later; or equal there, and the second later; and so on."""
    found: list[Condition] = []
    equal: list[Condition] = []
    for number, term in enumerate(terms, start=1):
        later = term.after(or_equal=or_equal and number == len(terms))
        if later is not None:
            found.append(and_(*equal, later))
        equal.append(term.equal())
    return found
