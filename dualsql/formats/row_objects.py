"""Objects of many rows with the same names."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from dualsql.formats.writer import Rows
from dualsql_client.wire import Row

_MOST_MAKERS, _LONGEST_NAMES = 10_000, 2_000
_NO_ATTRIBUTES = frozenset({"__class__", "__dict__"})
"""The names that are set in another way than others."""


@lru_cache(256)
def object_maker(names: tuple[str, ...]) -> Callable[[Rows], list[Row]] | None:
    """A function that makes dicts with these keys of rows; None if it cannot be made, or too many were.

    The rows are attributes of objects of one class, whose dicts share their keys. So a row of 20 values takes 0.2
    microseconds, a dict of its names and values 0.43, dict(zip(names, row)) 0.6, and a third of the memory.

    Python 3.12 and 3.13 keep the names of attributes for good, so they are limited.
    """
    size, made = sum(map(len, names)), object_maker.cache_info().misses
    if not 0 < size <= _LONGEST_NAMES or made > _MOST_MAKERS or not _NO_ATTRIBUTES.isdisjoint(names):
        return None
    code, own = _code(len(names)), {f"v{place}": str(name) for place, name in enumerate(names)}
    code = code.replace(co_names=tuple(own.get(name, name) for name in code.co_names))
    return FunctionType(code, {"Record": type("Record", (), {"__slots__": ("__dict__",)})})


@lru_cache(64)
def _code(width: int) -> CodeType:
    """The code of the function, with the names v0, v1, ...; its text depends on nothing but the width."""
    attributes = "".join(f"record.v{place}, " for place in range(width))
    scope: dict[str, Any] = {}
    exec(_TEXT.format(attributes), scope)  # noqa: S102 - as dataclasses and namedtuple do
    code: CodeType = scope["made"].__code__
    return code


_TEXT = """
def made(rows):
    records = []
    for row in rows:
        record = Record()
        {} = row
        records.append(record.__dict__)
    return records
"""
