"""Where an element is in a statement, for the message of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dualsql.freeze.fields import NodeKind

_MOST = 20


KindOf = Callable[[Any], NodeKind | None]


def path(element: Any, parents: Mapping[int, Any], node_kind_of: KindOf) -> str:
    """The path to an element: `select > where > subquery "x" > select > columns > function "lower"`.

    Args:
        parents: id of an element -> the element that it is a part of.
        node_kind_of: the kind of an element, or None if documents cannot hold it.
    """
    steps: list[str] = []
    while element is not None and len(steps) < _MOST:
        kind = node_kind_of(element)
        word = kind.tag if kind else type(element).__name__
        name = getattr(element, "__dict__", {}).get("name")
        is_short = type(name) is str and len(name) < 60 and "%(" not in name
        steps.append(f'{word} "{name}"' if is_short else word)
        parent = parents.get(id(element))
        field = None if parent is None else _field_holding(node_kind_of(parent), parent, element)
        if field is not None:
            steps.append(field)
        element = parent
    return " > ".join(reversed(steps)) or "statement"


def _field_holding(kind: NodeKind | None, parent: Any, element: Any) -> str | None:
    """The field of `parent` that holds `element`."""
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
