"""What SQLite calls back into Python: which functions, what they mean, and that their time is linear."""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import create_engine, func, select
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import DualResponseServer
from dualsql.capabilities import LONGEST_PATTERN, PatternError
from dualsql.databases.engines import new_engine, parsed_url
from dualsql.databases.sqlite.callbacks import FUNCTIONS, MATCH
from dualsql.databases.sqlite.connection import SQLiteGuard
from dualsql.databases.sqlite.file_reader import connect
from dualsql.databases.sqlite.patterns import LONGEST_TEXT, _overlapping, match, write_for_re2
from dualsql.errors import ConfigurationError, ForbiddenSQLError, InvalidSQLError, QueryExecutionError
from dualsql.freeze import Registry
from dualsql.sql import read_select
from tests.databases.conftest import fill_synchronously
from tests.schools import Base, School

BASE_URL = "http://127.0.0.1:8000/resources"


def functions_of(connection: Any) -> set[str]:
    """Those that are not SQLite's own."""
    connection.set_authorizer(None)
    return {name for (name,) in connection.execute("SELECT name FROM pragma_function_list WHERE NOT builtin")}


def is_linear(connection: Any) -> bool:
    """Whether `regexp` is ours, and not Python's `re`, which would take years."""
    return bool(connection.execute("SELECT ? REGEXP '(a+)+$'", ["a" * 99 + "!"]).fetchone() == (0,))


def test_connections_have_our_functions_and_no_other_in_python(tmp_path: Path) -> None:
    """SQLAlchemy's regexp is Python's `re`, whose time is exponential."""
    with closing(sqlite3.connect(":memory:")) as unprepared:
        plain = functions_of(unprepared)
    engine = create_engine(f"sqlite:///{tmp_path}/x.db")
    SQLiteGuard().prepare(engine)
    with engine.connect() as pooled:
        assert functions_of(pooled.connection.driver_connection) - plain == set(FUNCTIONS)
        assert is_linear(pooled.connection.driver_connection)
    own, _ = connect(engine)
    assert functions_of(own) - plain == set(FUNCTIONS)
    assert is_linear(own)
    own.close()
    engine.dispose()


async def test_those_of_a_url_too(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as unprepared:
        plain = functions_of(unprepared)
    engine = new_engine(parsed_url(f"sqlite+aiosqlite:///{tmp_path}/x.db"))
    SQLiteGuard().prepare(engine.sync_engine)
    async with engine.connect() as pooled:
        raw = await pooled.get_raw_connection()
        driver: Any = raw.driver_connection
        actual = await driver._execute(functions_of, driver._conn)
        assert await driver._execute(is_linear, driver._conn)
    assert actual - plain == set(FUNCTIONS)
    await engine.dispose()


ATOMS = (
    "a", "b", ".", r"\w", r"\W", r"\d", r"\s", r"\S", "[ab]", "[^a]", r"[\dx-z]", "K", "s", "é", "ß", "1", "_", r"\n",
)  # fmt: skip
LETTERS = "abABKkſsxyzıiİIKßẞ١1 \n\t\u2003é_-"


def random_pattern(random: Random, depth: int = 3) -> str:
    kind = random.randrange(7) if depth else 0
    inner = [random_pattern(random, depth - 1) for _ in range(2)] if kind else []
    if kind in (1, 2):
        return "".join(inner)
    if kind == 3:
        return f"(?:{inner[0]}|{inner[1]})"
    if kind == 4:
        return f"(?:{inner[0]}){random.choice(('*', '+', '?', '*?', '+?', '{2}', '{1,3}', '{0,2}?'))}"
    if kind == 5:
        return f"({inner[0]})"
    if kind == 6:
        return f"(?{random.choice('is')}:{inner[0]})"
    return random.choice(ATOMS)


@pytest.mark.quick(1)
@pytest.mark.parametrize("seed", range(12))
def test_a_pattern_means_what_it_means_in_python(seed: int) -> None:
    random = Random(seed)
    for _ in range(100):
        edges = random.choice((("", ""), ("^", ""), ("", "$"), ("^", "$"), (r"\A", r"\Z"), ("(?m)^", "$")))
        pattern = edges[0] + random_pattern(random) + edges[1]
        for _ in range(20):
            text = "".join(random.choice(LETTERS) for _ in range(random.randrange(7)))
            assert match(pattern, text) == bool(re.search(pattern, text)), (pattern, text)


COSTLY = (
    r"(?:\w\W\S\D){90}",
    r"(?:\W){1000}",
    r"(?:\D){600,}",
    r"(?:(?:[^a]|\D)\w?){50}",
    r"(?:(?:(?:\W){30}){5}){6}",
    "(?i)" + "".join(f"[{chr(first)}-{chr(0xFFFF - first)}]" for first in range(256, 430)),
)
"""Of few characters. RE2 would compile them for a second, with Python's lock."""


@pytest.mark.parametrize("pattern", COSTLY)
def test_a_pattern_is_read_soon(pattern: str) -> None:
    match(r"(?i)\D\w\S", "é")  # Python's classes are asked for once
    taken = []
    for _ in range(3):  # a refusal is not cached; Python's garbage collection may fall into one of them
        begun = time.thread_time()
        with pytest.raises(PatternError, match="too many characters"):
            match(pattern, "é")
        taken.append(time.thread_time() - begun)
    assert min(taken) < 0.05


UNSUITED = (
    r"(a)\1",
    "(?=a)b",
    "(?<!a)b",
    r"\bword\b",
    "(a$)b",
    "(",
    "a" * (LONGEST_PATTERN + 1),
    "((a{900}){900}){9}",
)


@pytest.mark.parametrize("pattern", UNSUITED)
def test_what_has_no_such_meaning_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as refusal:
        match(pattern, "aa")
    assert str(refusal.value).endswith((".", "Z.", "letters."))


HOSTILE = (
    "(a+)+$",
    "(a|a)*$",
    "(a|aa)+b",
    "(x+x+)+y",
    "(a*)*b",
    r"(\w+\s?)*$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "a.*b.*c.*d",
)
MATCHES: list[Callable[[int], tuple[Any, ...]]] = [
    lambda size, pattern=pattern, letter=letter: (pattern, letter * (size - 1) + "!")  # type: ignore[misc]
    for pattern in HOSTILE
    for letter in "ax"
]
CALLS: dict[str, list[Callable[[int], tuple[Any, ...]]]] = {
    MATCH: MATCHES,
    "regexp": MATCHES,
    "floor": [lambda size: (10.0 ** (size % 300),), lambda size: (-(2**62) + size,)],
}


def seconds(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    taken = []
    for _ in range(3):
        begun = time.thread_time()
        function(*arguments)
        taken.append(time.thread_time() - begun)
    return min(taken)


@pytest.mark.parametrize(
    "pattern", [r"^\w{3,40}$", r"(?i)^[\w.]+@\w+\.\w+", r"\S{1,80}", r"(?i)(k|\w)\s\d{2,9}"]
)
def test_what_people_write_is_read(pattern: str) -> None:
    for text in ("kelvin@x.org", "K é 12", "ééé"):
        assert match(pattern, text) == bool(re.search(pattern, text)), text


def test_each_function_is_linear() -> None:
    """A new function needs its hostile calls here."""
    assert set(CALLS) == set(FUNCTIONS)
    slow = []
    for name, calls in CALLS.items():
        function = FUNCTIONS[name][1]
        for call in calls:
            half, whole = (seconds(function, call(size)) for size in (LONGEST_TEXT // 2, LONGEST_TEXT))
            if whole > 0.02 or whole > 3 * half + 0.002:
                slow.append((name, call(9), half, whole))
    assert slow == []


def test_a_pattern_that_is_large_for_the_text_is_refused() -> None:
    for pattern in ("(?:a|b)*a(?:a|b){400}c", r"(\w\W){9}"):
        with pytest.raises(PatternError, match=r"too (large|many)"):
            match(pattern, "é" + "ab" * (LONGEST_TEXT // 2 - 1))
    with pytest.raises(PatternError, match="too long"):
        match("a", "a" * (LONGEST_TEXT + 1))


WORST = (
    "(?:a|b)*a(?:a|b){14}c",
    "(?:a|b)*a(?:a|b){400}c",
    "[ab]*a[ab]{7}c",
    "a" * 900 + "c",
    "(?:" + "ab" * 50 + ")*c",
    "(?:(?:a?){30}){30}c",
    "(?:.*a){10}c",
    "(?s).*é.{3}\n\n",
    "(?s).*é.{20}\n\n",
    r"(?s).*[à-ÿ].{90}\n\n",
    r"(?:\w|é)*é(?:\w|a){20}\n\n",
    r"\w{3,40}\n\n",
    r"(?:\W*é){30}\n\n",
    r"(?:\w+ ?)*é(?:\w+ ?){8}\n\n",
)
"""Nested repetitions, large classes, and automata that double with each place."""


@pytest.mark.quick(1)
@pytest.mark.parametrize("letters", ["ab", "a", "éa", "éàüö漢字", "ab é1\n漢字кирила"])
def test_the_worst_patterns_are_bounded(letters: str) -> None:
    """In the longest texts that are searched, however few characters make them slow."""
    random, slow = Random(1), []
    whole = "".join(random.choice(letters) for _ in range(LONGEST_TEXT))
    for pattern in WORST:
        text = whole
        while is_refused(pattern, text):
            text = text[: len(text) * 4 // 5]
        assert len(text) > 300, pattern
        taken = min(seconds(match, (pattern, text)) for _ in range(2))
        if taken > 0.04:  # twice the 20 ms: other tests run beside it
            slow.append((pattern, len(text), taken))
    assert slow == []


def is_refused(pattern: str, text: str) -> bool:
    try:
        match(pattern, text)
    except PatternError:
        return True
    return False


def test_a_word_counts_its_prefixes_that_a_text_can_end_with() -> None:
    random = Random(1)
    for _ in range(300):
        word = "".join(random.choice("ab") for _ in range(random.randrange(1, 12)))
        ends = [word[:end] for end in range(1, len(word) + 1)]
        assert _overlapping(word) == max(sum(map(end.endswith, ends)) for end in ends), word


@pytest.mark.parametrize(
    ("one", "other"), [("aAaA", "aaaa"), ("kK\u212ak", "kkkk"), ("\u01c4\u01c5\u01c6", "\u01c4" * 3)]
)
def test_letters_that_differ_in_their_case_are_the_same_places(one: str, other: str) -> None:
    assert write_for_re2(f"(?i){one}") == write_for_re2(f"(?i){other}")
    assert write_for_re2(f"(?i){one}")[1] == len(one)


@pytest.mark.parametrize(
    "pattern",
    ["connection refused by the peer", r"error: timed out after \d+ ms", r"(?i)[\w.]+@\w+\.\w+", "abab" * 2],
)
def test_what_people_look_for_is_looked_for_in_long_texts(pattern: str) -> None:
    """Of a word, however long, few prefixes are open at once."""
    assert match(pattern, "xé " * (LONGEST_TEXT // 3)) is False


TEXTS = (
    *(f"SELECT id FROM schools WHERE '{'a' * 60}!' REGEXP '{pattern}'" for pattern in HOSTILE),
    "SELECT id FROM schools WHERE name || 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' REGEXP '(a+)+$'",
    "SELECT id FROM schools WHERE 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!' REGEXP substr('(a+)+$', 1)",
)


@pytest.mark.parametrize("is_own", [False, True])
async def test_no_pattern_holds_the_server(is_own: bool, tmp_path: Path) -> None:
    fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite")
    url = f"sqlite+aiosqlite:///{tmp_path}/schools.sqlite"
    database: Any = create_async_engine(url) if is_own else url
    registry = Registry(Base, functions=["regexp"])
    async with DualResponseServer(database, base_url=BASE_URL, tables=registry) as server:
        for text in TEXTS:
            begun = time.process_time()
            resolved = server.sql.resolve(text)
            await server.create_response(resolved.select, name="x", is_text=True)
            assert time.process_time() - begun < 2
        own = select(School.id).where(School.name.regexp_match("^.*[1-3]$"))
        expected = select(School.id).where(func.substr(School.name, -1).in_(["1", "2", "3"]))
        actual = [await server.create_response(one, name="x", count="exact") for one in (own, expected)]
        assert actual[0].total_count == actual[1].total_count
        assert actual[0].total_count
        operator = select(School.id).where(School.name.op("REGEXP")("[1-3]$"))
        assert (await server.create_response(operator, name="x", count="exact")).total_count == actual[
            0
        ].total_count
        called = select(School.id).where(func.regexp("[1-3]$", School.name))
        assert (await server.create_response(called, name="x", count="exact")).total_count == actual[
            0
        ].total_count
        with pytest.raises(QueryExecutionError):
            await server.create_response(
                select(School.id).where(School.name.regexp_match("(a)\\1")), name="x"
            )
    if is_own:
        await database.dispose()


async def test_a_text_beyond_the_limit_says_so(tmp_path: Path) -> None:
    fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite")
    with closing(sqlite3.connect(tmp_path / "schools.sqlite")) as connection, connection:
        connection.execute("UPDATE schools SET name = ?", ["a" * (LONGEST_TEXT + 1)])
    async with DualResponseServer(
        f"sqlite+aiosqlite:///{tmp_path}/schools.sqlite", base_url=BASE_URL, tables=Base
    ) as server:
        resolved = server.sql.resolve("SELECT id FROM schools WHERE name REGEXP 'b'")
        with pytest.raises(QueryExecutionError, match="REGEXP") as failure:
            await server.create_response(resolved.select, name="x", is_text=True)
        assert "at most a million characters" in (failure.value.hint or "")


async def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fill_synchronously(f"sqlite:///{tmp_path}/schools.sqlite")
    monkeypatch.setitem(sys.modules, "re2", None)  # as where it is not installed
    async with DualResponseServer(
        f"sqlite+aiosqlite:///{tmp_path}/schools.sqlite", base_url=BASE_URL, tables=Base
    ) as server:
        with pytest.raises(ForbiddenSQLError) as refusal:
            server.sql.resolve("SELECT id FROM schools WHERE name REGEXP 'a'")
        assert "dualsql[regexp]" in (refusal.value.hint or "")
        with pytest.raises(ConfigurationError) as own:
            await server.create_response(select(School.id).where(School.name.regexp_match("a")), name="x")
        assert "dualsql[regexp]" in (own.value.hint or "")


PATTERNS = {
    "sqlite": ["SELECT id FROM schools WHERE name REGEXP {}"],
    "postgresql": [
        "SELECT id FROM schools WHERE name ~ {}",
        "SELECT regexp_replace(name, {}, '') FROM schools",
    ],
    "mysql": ["SELECT id FROM schools WHERE name REGEXP {}"],
    "duckdb": [
        "SELECT id FROM schools WHERE regexp_matches(name, {})",
        "SELECT regexp_extract(name, {}) FROM schools",
    ],
}


@pytest.mark.parametrize("dialect", PATTERNS)
def test_patterns_are_bounded(dialect: str) -> None:
    registry = Registry(Base)
    for text in PATTERNS[dialect]:
        read_select(text.format(f"'{'a' * LONGEST_PATTERN}'"), registry, dialect)
        with pytest.raises(InvalidSQLError, match="longer than"):
            read_select(text.format(f"'{'a' * (LONGEST_PATTERN + 1)}'"), registry, dialect)
