"""Where an element is in a statement, for the message of a refusal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dualsql.freeze.codec import kind_of

_MOST = 20


def path(element: Any, parents: Mapping[int, Any]) -> str:
    """The path to an element: `select > where > subquery "x" > select > columns > function "lower"`.

    Args:
        parents: id of an element -> the element that it is a part of.
    """
    steps: list[str] = []
    while element is not None and len(steps) < _MOST:
        kind = kind_of(element)
        word = kind.tag if kind else type(element).__name__
        name = getattr(element, "__dict__", {}).get("name")
        is_short = type(name) is str and len(name) < 60 and "%(" not in name
        steps.append(f'{word} "{name}"' if is_short else word)
        parent = parents.get(id(element))
        field = None if parent is None else _field_holding(parent, element)
        if field is not None:
            steps.append(field)
        element = parent
    return " > ".join(reversed(steps)) or "statement"


def _field_holding(parent: Any, element: Any) -> str | None:
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
