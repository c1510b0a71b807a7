"""The mappings inside anything an SDK hands over; the rule: bounded, and no attribute is computed.

Attributes are read from where an object stores them, so no property and no `__getattr__` of an SDK is run.
Kinds are told by `type`, because isinstance() asks the object for its `__class__`.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

MAXIMUM_NODES = 100_000
MAXIMUM_DEPTH = 32
MAXIMUM_JSON_NESTING = 4
MAXIMUM_JSON_CHARACTERS = 16 * 1024 * 1024

Fields = Mapping[Any, Any]

_LISTS = (list, tuple, set, frozenset, deque)
_LEAVES = (int, float, bytes, bytearray, memoryview, type, ModuleType, type(None))


def fields_of(value: object) -> Fields | None:
    """Names and values of a mapping, dataclass, pydantic model or any other object that keeps attributes."""
    kind = type(value)
    if issubclass(kind, Mapping):
        return cast(Fields, value)
    if issubclass(kind, (str, *_LISTS, *_LEAVES)):
        return None
    slots = {name: item for name in _slots(kind) if (item := _stored(value, name)) is not None}
    # pydantic keeps what a model does not declare (extra="allow") beside its fields.
    stored = (slots, _stored(value, "__dict__"), _stored(value, "__pydantic_extra__"))
    return {name: item for part in stored if part for name, item in part.items() if not name.startswith("_")}


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _stored(value: object, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


class Walk:
    """Visits the mappings inside a value, the shallowest first, each once; `descend` is the visitor's choice.

    True as long as there is something left to visit.
    """

    def __init__(self, root: object) -> None:
        self._queue: deque[tuple[object, int, int]] = deque([(root, 0, 0)])
        # The values are kept, not their ids alone: the id of a freed value is given to another one.
        self._seen: dict[int, object] = {}
        self._characters = MAXIMUM_JSON_CHARACTERS
        self._depth = self._nesting = 0

    def __bool__(self) -> bool:
        return bool(self._queue) and len(self._seen) < MAXIMUM_NODES

    def step(self) -> Fields | None:
        """Visit the next value; its fields, or None when it is no mapping or was visited before."""
        value, self._depth, self._nesting = self._queue.popleft()
        if id(value) in self._seen:
            return None
        self._seen[id(value)] = value
        kind = type(value)
        if issubclass(kind, str):
            self._open(cast(str, value))
        elif issubclass(kind, _LISTS):
            self._push_all(cast("Iterable[object]", value))
        else:
            return fields_of(value)
        return None

    def descend(self, fields: Fields) -> None:
        """Visit what the mapping just given holds, too."""
        self._push_all(fields.values())

    def _push_all(self, values: Iterable[object]) -> None:
        self._depth += 1
        if self._depth <= MAXIMUM_DEPTH:
            self._queue.extend(
                (value, self._depth, self._nesting) for value in values if _may_hold_more(value)
            )

    def _open(self, text: str) -> None:
        self._characters -= len(text)
        if self._characters < 0 or self._nesting >= MAXIMUM_JSON_NESTING:
            return
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        self._nesting += 1
        self._push_all([value])


def _may_hold_more(value: object) -> bool:
    kind = type(value)
    if issubclass(kind, str):
        return cast(str, value).lstrip()[:1] in ("{", "[")
    return not issubclass(kind, _LEAVES)
