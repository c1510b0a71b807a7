"""Which tests a run takes: the quick cases of many, and the thirds of the long tests.

A test is quick, `long` (`make test-all`) or `exhaustive` (`make test-exhaustive`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import pytest
from _pytest.mark import ParameterSet

THIRDS = range(3)


def third_of(node_id: str) -> int:
    """The third of the long tests that holds this one. A new test moves no other one to another third."""
    return crc32(node_id.encode()) % len(THIRDS)


def beyond_their_number(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of tests with `@pytest.mark.quick(number, *databases)` that are not among so many for each database.

    Where databases are named, the cases of others are long: what is theirs alone has quick tests elsewhere. A whole
    module may be marked; its tests without a database are quick.
    """
    groups: defaultdict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("quick")
        if marker is not None and item.get_closest_marker("long") is None:
            test, _, case = item.nodeid.partition("[")
            groups[test, _database_of(case)].append(item)
    for (_, database), group in groups.items():
        marker = group[0].get_closest_marker("quick")
        assert marker is not None
        number, *databases = marker.args
        is_quick = not databases or database in ("", *databases)
        quick = set(_evenly(number, len(group), start=_DATABASES.index(database))) if is_quick else set()
        yield from (item for number, item in enumerate(group) if number not in quick)


_DATABASES = ("", "sqlite", "postgresql", "mariadb", "duckdb")
_DRIVERS = {
    **{name: name for name in _DATABASES[1:]},
    **dict.fromkeys(("aiosqlite", "sqlite3"), "sqlite"),
    **dict.fromkeys(("asyncpg", "psycopg", "psycopg2"), "postgresql"),
    **dict.fromkeys(("asyncmy", "pymysql"), "mariadb"),
}


def _database_of(case: str) -> str:
    """The database that a case names, or the driver of; "" where it names none."""
    words = (part.partition(" ")[0].lower() for part in case.rstrip("]").split("-"))
    return next((_DRIVERS[word] for word in words if word in _DRIVERS), "")


def _evenly(number: int, length: int, *, start: int) -> Iterator[int]:
    """`number` places among `length`, at even distances; other ones for another `start`."""
    for place in range(min(number, length)):
        yield (
            (place * length + start * length // len(_DATABASES)) // number % length
            if number < length
            else place
        )


def one_in(step: int, cases: Iterable[Any], *, start: int = 0) -> list[ParameterSet]:
    """The cases as parameters; all but each `step`-th, counted from `start`, are long."""
    return [case_of(case, is_long=number % step != start) for number, case in enumerate(cases)]


def case_of(case: Any, *, is_long: bool = False, is_exhaustive: bool = False) -> ParameterSet:
    """One case as a parameter; a tuple is several values."""
    values = case if isinstance(case, tuple) else (case,)
    marks = [pytest.mark.exhaustive] if is_exhaustive else [pytest.mark.long] if is_long else []
    return pytest.param(*values, marks=marks)
