"""Which tests a run takes: the quick cases of many, and the thirds of the long tests.

A test is quick, `long` (`make test-all`) or `exhaustive` (`make test-exhaustive`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import pytest

THIRDS = range(3)


def third_of(node_id: str) -> int:
    """The third of the long tests that holds this one. A new test moves no other one to another third."""
    return crc32(node_id.encode()) % len(THIRDS)


def beyond_their_number(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of tests with `@pytest.mark.quick(number, *databases)` that are not among so many for each database.

    Where databases are named, the cases of others are long: what is theirs alone has quick tests elsewhere. A whole
    module may be marked; its tests without a database are quick.
    """
    groups: defaultdict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("long") is None:
            groups[item.nodeid.partition("[")[0]].append(item)
    for group in groups.values():
        if not hasattr(group[0], "callspec"):
            continue  # its only case
        marker = group[0].get_closest_marker("quick")
        quick = {id(call) for call in _quick_calls(group[0], [item.callspec for item in group], marker)}
        yield from (item for item in group if id(item.callspec) not in quick)


IN_TURN = {"tests/mcp/": "host", "tests/client/": "library"}
"""Fixtures with several values of one kind, by folder: a test is quick with one of them, another test with another."""


def _quick_calls(test: pytest.Function, calls: list[Any], marker: pytest.Mark | None) -> list[Any]:
    """Of the calls of a test that are not long by themselves, the quick ones."""
    fixture = _fixture_in_turn(test)
    if values := sorted({call.indices[fixture] for call in calls if fixture in call.indices}):
        chosen = values[crc32(test.nodeid.partition("[")[0].encode()) % len(values)]
        calls = [call for call in calls if call.indices[fixture] == chosen]
    if marker is not None:
        quick = _quick_places([call.id for call in calls], *marker.args)
        calls = [call for place, call in enumerate(calls) if place in quick]
    return calls


def _fixture_in_turn(test: pytest.Function) -> str:
    fixture = next((name for folder, name in IN_TURN.items() if test.nodeid.startswith(folder)), "")
    values = [mark.args[0] for mark in test.iter_markers("parametrize")]
    return "" if any(fixture in names for names in values) else fixture


def leave_out_long_cases(metafunc: pytest.Metafunc) -> None:
    """Make no tests of a test's long cases; of a test without quick ones, the first case alone, which `-m` deselects.

    10,000 of 18,000 cases are long: to make their tests and to deselect them is a third of a quick run's collection.
    """
    calls = [call for call in metafunc._calls if not LONG & {mark.name for mark in call.marks}]
    test = metafunc.definition
    calls = _quick_calls(test, calls, test.get_closest_marker("quick"))
    # pytest makes one test without parameters of a list without cases (_pytest/python.py, _genfunctions).
    metafunc._calls[:] = calls or metafunc._calls[:1]


LONG = {"long", "exhaustive"}
_LONG_FILE = re.compile(r"pytestmark = .*pytest\.mark\.(long|exhaustive)")
_LONG_TEST = re.compile(r"@pytest\.mark\.(long|exhaustive)$")
_TEST = re.compile(r"(async )?def test_")
_OTHER = re.compile(r"(async )?def |class |Test")


def is_long_as_a_whole(source: str) -> bool:
    """Whether a file of tests has no quick one, by its text: parsing every file would take 2 s."""
    is_long = has_tests = False
    for line in source.splitlines():
        if _LONG_FILE.match(line):
            return True
        if _LONG_TEST.match(line):
            is_long = True
        elif _TEST.match(line):
            if not is_long:
                return False
            is_long, has_tests = False, True
        elif _OTHER.match(line):
            if line.startswith(("class Test", "Test")):
                return False  # classes may hold tests of their bases
            is_long = False
    return has_tests


def _quick_places(cases: list[str], number: int, *databases: str) -> set[int]:
    """Of these cases of one test, the places of so many for each database."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        groups[_database_of(case)].append(place)
    return {
        group[chosen]
        for database, group in groups.items()
        if not databases or database in ("", *databases)
        for chosen in _evenly(number, len(group), start=_DATABASES.index(database))
    }


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


def one_in(step: int, cases: Iterable[Any], *, start: int = 0) -> list[pytest.ParameterSet]:
    """The cases as parameters; all but each `step`-th, counted from `start`, are long."""
    return [case_of(case, is_long=number % step != start) for number, case in enumerate(cases)]


def case_of(case: Any, *, is_long: bool = False, is_exhaustive: bool = False) -> pytest.ParameterSet:
    """One case as a parameter; a tuple is several values."""
    values = case if isinstance(case, tuple) else (case,)
    marks = [pytest.mark.exhaustive] if is_exhaustive else [pytest.mark.long] if is_long else []
    return pytest.param(*values, marks=marks)
