"""Rows whose cells hold many elements: they are written in a thread, and of them no more than is shown."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_ELEMENTS = 20_000
"""Of lists and objects; so many are written in 5 ms, or in 20 ms if each is an integer beyond 64 bits."""

_NESTED = (list, tuple, dict, set, frozenset)


def holds_more(values: Iterable[Any], most: int) -> bool:
    """Whether the lists and objects among the values have more than `most` elements in all. It counts no further."""
    waiting = [value for value in values if isinstance(value, _NESTED)]
    while waiting:
        value = waiting.pop()
        most -= len(value) + 1
        if most < 0:
            return True
        parts = value.values() if isinstance(value, dict) else value
        waiting += [part for part in parts if isinstance(part, _NESTED)]
    return False


@contextmanager
def without_collector() -> Iterator[None]:
    """Turn garbage collection off in the block, in all threads, and on again if it was on.

    Python searches new objects for cycles every few hundred of them. A batch has tens of thousands of objects and no
    cycles: the search takes up to two fifths of the time of a stream.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def in_thread(is_heavy: bool, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:  # noqa: FBT001
    """Call `work`, in a thread if it takes long: the event loop runs in between."""
    if not is_heavy:
        return work(*args, **options)
    # A search among a million new lists holds Python's lock for half a second.
    return await asyncio.to_thread(without_collector()(work), *args, **options)


def beginning(value: Any, most: int) -> Any:
    """The value; of one with more than `most` elements, a part whose JSON begins alike and is longer than `most`."""
    if not holds_more((value,), most):
        return value
    try:
        return _Beginning(most).of(value)
    except RecursionError:  # the writer of JSON goes deeper
        return value


class _Beginning:
    """Copies a value up to a number of elements."""

    def __init__(self, most: int) -> None:
        self._left = most + 1

    def of(self, value: Any) -> Any:
        self._left -= 1
        if isinstance(value, dict):
            return dict(self._pairs(value))
        if isinstance(value, list | tuple):
            return list(map(self.of, self._counted(value)))
        return value

    def _pairs(self, value: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
        for key in self._counted(value):
            yield key, self.of(value[key])

    def _counted(self, values: Collection[Any]) -> Iterable[Any]:
        for value in values:
            if self._left <= 0:
                return
            yield value
