"""Asynchronous generators that wait for nothing, without an event loop; the rule: all of it runs where it is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

_END: Any = object()


async def each_of(items: Iterable[T]) -> AsyncGenerator[T, None]:
    """The items, for an `async for`."""
    for item in items:
        yield item


def stepped(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """What it yields, in the thread that asks, without an event loop: it awaits nothing but `each_of`."""
    try:
        while (item := _result(_next(items))) is not _END:
            yield item
    finally:
        _result(_close(items))


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items, _END)


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


def _result(step: Coroutine[Any, Any, T]) -> T:
    try:
        step.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("It awaits something else.")
