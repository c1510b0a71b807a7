"""Whether two statements consist of equal elements: then they compile to the same on every database.

Two graphs of objects are compared. Each attribute counts that is not a memo of SQLAlchemy's, also those that its cache
keys leave out, and so does which elements are one object. What is not surely equal is different.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from sqlalchemy.sql.elements import BindParameter, ClauseElement, conv, quoted_name
from sqlalchemy.sql.type_api import TypeEngine
from sqlalchemy.util import PopulateDict, immutabledict

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.fields import MEMOS
from dualsql.freeze.types import is_memoized
from dualsql.freeze.values import ANONYMOUS, EXACT

_NAMES = (quoted_name, conv, internals.TruncatedLabel, internals.AnonymousLabel)
_SEED_AND_BODY = "_anon_map_key"
"""The attribute of a parameter that has the inside of its anonymous name."""
_CLONE = "_is_clone_of"

_ABSENT, _IGNORED, _COMPUTED = object(), object(), object()

_MOST = 300
"""Elements. To compile many of them costs no more than to compare them."""


class Twins:
    """Compares one statement with another one."""

    def __init__(self) -> None:
        # Elements by id, and seeds of anonymous names: what stands for what, both ways.
        self._others: dict[object, object] = {}
        self._ones: dict[object, object] = {}
        self._waiting: list[tuple[Any, Any]] = []
        self._compared = 0

    def are_equal(self, one: Any, other: Any) -> bool:
        """Whether the statements are equal element by element; False if that is not sure."""
        waiting = self._waiting
        waiting.append((one, other))
        try:
            while waiting:
                if self._compared > _MOST or not self._have_equal_heads(*waiting.pop()):
                    return False
        except Exception:  # noqa: BLE001 - of an element in no good state, which is compiled next
            return False
        return True

    def _have_equal_heads(self, one: Any, other: Any) -> bool:
        """Whether both are equal but for their parts, which are to be compared."""
        cls = type(one)
        if one is other:
            # Its twin may be nothing else elsewhere. Types and what is no element may have several.
            return not issubclass(cls, ClauseElement) or self._are_paired(id(one), id(other))
        if cls is not type(other):
            return False
        if cls in EXACT:
            return repr(one) == repr(other)
        if cls in _NAMES:
            return one.quote is other.quote and self._are_paired_names(one, other)
        if cls in (tuple, list):
            return self._wait(one, other)
        if cls in (dict, immutabledict):
            is_plain = all(type(key) is str for key in one) and [*one] == [*other]
            return is_plain and self._wait(one.values(), other.values())
        if cls in (set, PopulateDict):
            return not one and not other
        # The state of an application's own class may be anywhere.
        return _are_sqlalchemys(cls.__mro__) and self._are_equal_objects(cls, one, other)

    def _are_equal_objects(self, cls: type, one: Any, other: Any) -> bool:
        self._compared += 1
        if issubclass(cls, TypeEngine):  # which of them are one object does not matter
            return self._have_equal_attributes(cls, one, other)
        is_known = id(one) in self._others or id(other) in self._ones
        is_paired = issubclass(cls, ClauseElement) and self._are_paired(id(one), id(other))
        return is_paired and (is_known or self._have_equal_attributes(cls, one, other))

    def _wait(self, ones: Iterable[Any], others: Iterable[Any]) -> bool:
        pairs = [*zip(ones, others, strict=False)]
        self._waiting += pairs
        return len([*ones]) == len(pairs) == len([*others])

    def _have_equal_attributes(self, cls: type, one: Any, other: Any) -> bool:
        ours, theirs = one.__dict__, other.__dict__
        # SQLAlchemy takes an element and its clones for one. That of a parameter may be outside of the statement.
        if cls is BindParameter:
            if not self._are_paired(("origin", id(_origin(one))), ("origin", id(_origin(other)))):
                return False
        elif _CLONE in ours or _CLONE in theirs:
            return False
        for name in {*_own(ours), *_own(theirs)}:
            default = _default(cls, name)
            if default is _IGNORED:
                continue
            if default is _COMPUTED:
                value, twin = getattr(one, name), getattr(other, name)
            else:
                value, twin = ours.get(name, default), theirs.get(name, default)
            if value is twin and not isinstance(value, ClauseElement):
                continue
            if name == _SEED_AND_BODY:
                value, twin = (internals.AnonymousLabel(f"%({inside})s") for inside in (value, twin))
            self._waiting.append((value, twin))
        # Its columns may have been changed since they were made.
        return "_columns" not in ours or self._wait(one.c, other.c)

    def _are_paired_names(self, one: str, other: str) -> bool:
        ours, theirs = ANONYMOUS.split(one), ANONYMOUS.split(other)
        # Of three pieces, the second one is a seed.
        seeds = [*zip(ours[1::3], theirs[1::3], strict=False)]
        del ours[1::3], theirs[1::3]
        return ours == theirs and all(self._are_paired(*pair) for pair in seeds)

    def _are_paired(self, one: object, other: object) -> bool:
        """Whether one stands for the other, and for no other one."""
        return self._others.setdefault(one, other) == other and self._ones.setdefault(other, one) == one


def _origin(element: Any) -> Any:
    """The element that it is a clone of, or a clone of a clone; itself if it is none."""
    while (earlier := element.__dict__.get(_CLONE)) is not None:
        element = earlier
    return element


@cache
def _are_sqlalchemys(classes: tuple[type, ...]) -> bool:
    return all(cls.__module__.partition(".")[0] in ("sqlalchemy", "builtins", "typing") for cls in classes)


def _own(state: Mapping[str, Any]) -> Iterable[str]:
    """The names of attributes that were set, and not memoized."""
    memos = state.get("_memoized_keys")
    return state if memos is None else state.keys() - memos


@cache
def _default(cls: type, name: str) -> Any:
    """What an object of the class has that lacks the attribute."""
    # What an element is annotated of is equal to it. The role is for texts that are appended to a list.
    if (name in MEMOS and name != "_Annotated__element") or name == "_text_converter_role":
        return _IGNORED
    if is_memoized(cls, name):
        # An element may have set it, such as its type.
        return _IGNORED if issubclass(cls, TypeEngine) else _COMPUTED
    return getattr(cls, name, _ABSENT)
