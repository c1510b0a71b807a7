"""Where in a statement an element stands, in words; the rule: only for people, and only once something is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dualsql.freeze.kinds import kind_of

_MOST = 20


def path(element: Any, parents: Mapping[int, Any]) -> str:
    """From the statement to the element: `select > where > subquery "x" > select > columns > function "lower"`."""
    steps: list[str] = []
    while element is not None and len(steps) < _MOST:
        steps.append(_called(element))
        parent = parents.get(id(element))
        place = None if parent is None else _place(parent, element)
        if place is not None:
            steps.append(place)
        element = parent
    return " > ".join(reversed(steps))


def _called(element: Any) -> str:
    kind = kind_of(element)
    word = kind.tag if kind else type(element).__name__
    name = getattr(element, "__dict__", {}).get("name")
    plain = type(name) is str and len(name) < 60 and "%(" not in name
    return f'{word} "{name}"' if plain else word


def _place(parent: Any, element: Any) -> str | None:
    """The field of `parent` that holds `element`."""
    kind = kind_of(parent)
    state = getattr(parent, "__dict__", {})
    for field in () if kind is None else kind.fields:
        if any(item is element for item in _items(state.get(field.attribute))):
            return field.name
    return None


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _items(item)
    else:
        yield value
