"""Finds the mappings inside any object that an SDK returns, with a bounded search.

It reads stored attributes only, so no property and no `__getattr__` of an SDK runs. It compares `type` and does not
call isinstance(), which reads the object's `__class__`."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, cast

MAXIMUM_NODES = 100_000
MAXIMUM_HIDDEN_NODES = 20_000
MAXIMUM_DEPTH = 32
MAXIMUM_JSON_NESTING = 4
MAXIMUM_JSON_CHARACTERS = 16 * 1024 * 1024
MAXIMUM_TEXTS = 1_000

Fields = Mapping[Any, Any]

_LISTS = (list, tuple, set, frozenset, deque)
_TEXTS = (str, bytes, bytearray)
_LEAVES = (int, float, memoryview, type, ModuleType, type(None))
# Compared first, by identity: most values of a large result have these types.
_PLAIN_LEAVES = frozenset({int, float, bool, type(None)})
_PLAIN_CONTAINERS = frozenset({dict, list})

_SHORTEST_TEXT = 24
"""A URI with a generated id and the JSON of a dual response are longer."""

_TEXT_NAMES = frozenset({"text", "content", "output", "result", "value", "message"})
"""Names under which SDKs keep the text for a model. A column of a table may have the same name: see `is_handle`."""

_BEGINS_JSON = re.compile(r"\s{0,64}(?:\{|\[\s{0,64}(?:[\[{\"\]\d-]|true|false|null))")
_EVENT_LINES = ("data:", "event:", "id:", ":")


def fields_of(value: object, *, hidden: bool = False) -> Fields | None:
    """Names and values of a mapping, dataclass, pydantic model or any other object that keeps attributes.

    Args:
        hidden: with the attributes whose names begin with one underscore.
    """
    kind = type(value)
    if kind is dict or issubclass(kind, Mapping):
        return cast(Fields, value)
    if issubclass(kind, (*_TEXTS, *_LISTS, *_LEAVES)):
        return None
    slots = {name: item for name in _slots(kind) if (item := _stored(value, name)) is not None}
    # pydantic stores undeclared values (extra="allow") apart from the fields.
    stored = (slots, _stored(value, "__dict__"), _stored(value, "__pydantic_extra__"))
    private = "__" if hidden else "_"
    return {
        name: item for part in stored if part for name, item in part.items() if not name.startswith(private)
    }


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
    """Visits the mappings inside a value, the shallowest first, each once; the caller decides where to `descend`.

    True while values remain to be visited.

    Args:
        hidden: visit private attributes, too, and fewer values in all: private attributes lead to many more.

    Attributes:
        texts: strings under `_TEXT_NAMES` that contain a URI and are no JSON.
        met_objects: whether a visited value has attributes.
    """

    def __init__(self, root: object, *, hidden: bool = False) -> None:
        self.texts: list[str] = []
        self.met_objects = False
        self._hidden = hidden
        self._maximum = MAXIMUM_HIDDEN_NODES if hidden else MAXIMUM_NODES
        self._queue: deque[tuple[object, int, int, bool]] = deque()
        # The values are stored with their ids: another value may get the id of a freed one.
        self._seen: dict[int, object] = {}
        self._characters = MAXIMUM_JSON_CHARACTERS
        self._depth = self._nesting = 0
        self._push(root, is_text=True)

    def __bool__(self) -> bool:
        return bool(self._queue) and len(self._seen) < self._maximum

    def step(self) -> Fields | None:
        """Visit the next value. Returns its fields; None when it is no mapping or was visited before."""
        value, self._depth, self._nesting, is_text = self._queue.popleft()
        if id(value) in self._seen:
            return None
        self._seen[id(value)] = value
        kind = type(value)
        if kind is dict:
            return value  # type: ignore[return-value]  # a cast would cost time for each row
        if issubclass(kind, _TEXTS):
            self._open(cast("str | bytes | bytearray", value))
        elif issubclass(kind, _LISTS):
            self._push_all(cast("Iterable[object]", value), is_text=is_text)
        else:
            self.met_objects = True
            return fields_of(value, hidden=self._hidden)
        return None

    def descend(self, fields: Fields) -> None:
        """Visit the values of a mapping, too."""
        self._depth += 1
        if self._depth <= MAXIMUM_DEPTH:
            for name, value in fields.items():
                kind = type(value)
                if kind is dict:
                    self._queue.append((value, self._depth, self._nesting, False))
                elif kind not in _PLAIN_LEAVES:
                    self._push(value, is_text=type(name) is str and name in _TEXT_NAMES)

    def _push_all(self, values: Iterable[object], *, is_text: bool) -> None:
        self._depth += 1
        if self._depth <= MAXIMUM_DEPTH:
            for value in values:
                kind = type(value)
                if kind not in _PLAIN_LEAVES:
                    # A list within a list is a row of a table.
                    self._push(value, is_text=is_text and kind is not list)

    def _push(self, value: object, *, is_text: bool) -> None:
        kind = type(value)
        if kind not in _PLAIN_CONTAINERS:
            if issubclass(kind, _TEXTS):
                if not self._may_be_json(cast("str | bytes | bytearray", value), is_text=is_text):
                    return
            elif issubclass(kind, _LEAVES):
                return
        self._queue.append((value, self._depth, self._nesting, is_text))

    def _may_be_json(self, text: str | bytes | bytearray, *, is_text: bool) -> bool:
        if len(text) < _SHORTEST_TEXT:
            return False
        if not isinstance(text, str):
            return text[:64].lstrip()[:1] in (b"{", b"[")
        if _BEGINS_JSON.match(text) or text.startswith(_EVENT_LINES):
            return True
        if is_text and "://" in text and len(self.texts) < MAXIMUM_TEXTS:
            self.texts.append(text)
        return False

    def _open(self, text: str | bytes | bytearray) -> None:
        self._characters -= len(text)
        if self._characters < 0 or self._nesting >= MAXIMUM_JSON_NESTING or not _may_hold_result(text):
            return
        values = list(_json_in(text))
        self._nesting += 1
        self._push_all(values, is_text=True)


def _may_hold_result(text: str | bytes | bytearray) -> bool:
    """Whether the text may contain evidence, each kind of which contains one of these words."""
    return ("resource" in text or "://" in text) if isinstance(text, str) else b"resource" in text


def _json_in(text: str | bytes | bytearray) -> Iterator[Any]:
    """The JSON that a text is: one value, a value on each line, or the data of server-sent events."""
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        lines = text.splitlines() if isinstance(text, str) else []
        if len(lines) < 2 and not (lines and lines[0].startswith("data:")):
            return
    else:
        return
    for line in lines[:MAXIMUM_TEXTS]:
        try:
            yield json.loads(line.removeprefix("data:"))
        except (ValueError, RecursionError):
            continue
