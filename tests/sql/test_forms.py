"""Any text is a document, or is refused in our words, within 50 ms of the event loop."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from time import thread_time
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.dialects import mysql, postgresql, sqlite

from dualsql import Registry
from dualsql.errors import DualResponseError
from dualsql.freeze import freeze
from dualsql.sql import read_select
from dualsql.sql.expansion import Expansion
from dualsql.sql.parse import parse_text
from dualsql.sql.scope import WorkBudget
from dualsql.sql.translate import _HANDLERS
from tests.engines import text_of
from tests.quiet_core import on_a_quiet_core
from tests.sql.corpus import texts_for
from tests.sql.forms import (
    NESTED,
    QUERIES,
    RELATIONS,
    SQLGLOT,
    TIMES,
    converted,
    listed,
    long_texts,
    of_the_dialect,
)
from tests.sql.value_texts import texts_of
from tests.sql.warehouse import METADATA

MOST = 0.050
"""Seconds of a quiet core."""
ATTEMPTS = 4
REGISTRY = Registry(METADATA)
ENGINES = {
    "sqlite": sqlite.dialect(),
    "postgresql": postgresql.dialect(),
    "mysql": mysql.dialect(),
    "duckdb": create_engine("duckdb://").dialect,
}
assert ENGINES.keys() == SQLGLOT.keys()

Named = Iterable[tuple[str, str]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The garbage of a whole test suite is not the text's."""
    gc.collect()
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's own, of pairs of tables that nothing joins
        yield
    gc.enable()


def lasting(sql: str, dialect: str) -> float:
    """Seconds from the text to its document, or to its refusal; whatever else is raised fails the test."""
    begun = thread_time()
    with suppress(DualResponseError):
        freeze(read_select(sql, REGISTRY, dialect), REGISTRY, dialect=ENGINES[dialect])
    return thread_time() - begun


def faults(named: Named, dialect: str) -> dict[str, Any]:
    """The texts that take too long, or raise what nobody foresaw."""
    found: dict[str, Any] = {}
    for name, sql in named:
        try:
            lasted = min(attempts(sql, dialect))
        except Exception as error:  # noqa: BLE001 - what it is stands in the test's report
            found[name] = f"{type(error).__name__}: {error}"[:200]
        else:
            if lasted > MOST:
                found[name] = lasted
    return found


def attempts(sql: str, dialect: str) -> Iterator[float]:
    """Seconds of a quiet core: those above MOST are compared with what the reference takes at the same time."""
    for _ in range(ATTEMPTS):
        lasted = lasting(sql, dialect)
        yield lasted if lasted <= MOST else on_a_quiet_core(lasted)
        if lasted <= MOST:
            return


def forms(times: Iterable[int]) -> Named:
    for count in times:
        for form in (*NESTED, *QUERIES, *RELATIONS):
            yield f"{form.opening} {form.closing} x {count}", form.text(count)
        yield from ((f"{name} x {count}", sql) for name, sql in listed(count).items())


def first_faults(named: Named, dialect: str) -> dict[str, Any]:
    lasting("SELECT 1", dialect)  # what is made once for a process
    return faults(named, dialect)


@pytest.mark.long
@pytest.mark.parametrize(("dialect", "times"), [("sqlite", 40), ("postgresql", 12)])
def test_each_form_of_the_grammar_repeated_and_nested(dialect: str, times: int) -> None:
    assert first_faults(forms([times]), dialect) == {}


@pytest.mark.long
def test_a_list_that_is_as_long_as_a_text_may_be() -> None:
    assert first_faults(listed(740).items(), "sqlite") == {}


@pytest.mark.long
def test_a_list_of_constants_may_be_long() -> None:
    sql = f"SELECT c_name FROM customer WHERE c_custkey IN ({', '.join(map(str, range(1_400)))})"
    statement: Any = read_select(sql, REGISTRY, "postgresql")
    [members] = statement.compile().params.values()
    assert members == list(range(1_400))
    assert first_faults([("constants", sql)], "postgresql") == {}


def test_brackets_are_no_work_of_their_own() -> None:
    condition = "c_custkey = 0"
    for number in range(1, 20):
        condition = f"c_custkey = {number} {'OR' if number % 2 else 'AND'} ({condition})"
    statement = read_select(f"SELECT c_name FROM customer WHERE {condition}", REGISTRY, "postgresql")
    assert len(statement.compile().params) == 20


@pytest.mark.long
def test_texts_of_64_kib() -> None:
    assert first_faults(long_texts(), "duckdb") == {}


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_what_python_cannot_convert(dialect: str) -> None:
    assert first_faults(islice(converted(), 0, None, 7), dialect) == {}


@pytest.mark.long
@pytest.mark.parametrize("dialect", ENGINES)
def test_every_form_as_often_as_it_may_be(dialect: str) -> None:
    assert first_faults([*forms((*TIMES, 2_000)), *long_texts(), *converted()], dialect) == {}


@pytest.mark.long
@pytest.mark.parametrize("dialect", ENGINES)
def test_every_list_of_every_length(dialect: str) -> None:
    named = [(f"{name} x {n}", sql) for n in (300, 600, 980, 1_490, 6_000) for name, sql in listed(n).items()]
    assert first_faults(named, dialect) == {}


@pytest.mark.long
@pytest.mark.parametrize("dialect", ENGINES)
def test_every_word_that_the_parser_knows(dialect: str) -> None:
    named = [(f"{name} x {n}", sql) for n in TIMES for name, sql in of_the_dialect(dialect, n)]
    assert first_faults(named, dialect) == {}


@pytest.mark.long
def test_each_kind_of_node_that_is_read_is_among_the_forms_or_the_legitimate_texts() -> None:
    """A new handler wants a text that repeats it."""
    met: set[type] = set()
    for dialect in ENGINES:
        name = "mariadb" if dialect == "mysql" else dialect
        corpus = [text.sql for text in texts_for(name)[::4]] + [text.sql for text in texts_of(name)]
        for sql in [sql for _, sql in forms([1])] + corpus:
            try:
                met.update(type(node) for node in parse_text(sql, text_of(dialect), WorkBudget()).walk())
            except DualResponseError:
                continue
    assert {kind.__name__ for kind in _HANDLERS} <= {kind.__name__ for kind in met}


@pytest.mark.parametrize("name", ["commas", "OR", "SELECT list", "GROUP BY"])
def test_names_are_written_out_in_steps_that_grow_with_the_text(name: str) -> None:
    """Counted in calls, and not in seconds: four times as long a list takes four times as many."""
    few, many = (_calls(name, count) for count in (40, 160))
    assert many < 6 * few


def _calls(name: str, count: int) -> int:
    """The calls of functions while the elements of the statement are counted."""
    statement = read_select(listed(count)[name], REGISTRY, "sqlite")
    calls = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        Expansion().of(statement)
    finally:
        sys.setprofile(None)
    return calls
