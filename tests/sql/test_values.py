"""The values of every text of `values/` are those of the database itself, also over rows that are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from sqlglot import exp

from dualsql.errors import DualResponseError
from dualsql.freeze import Registry
from dualsql.sql import read_select
from dualsql.sql.constructs import NAMES
from dualsql.sql.functions import allowed_functions
from dualsql.sql.parse import parse_text
from dualsql.sql.relations import _READERS
from dualsql.sql.scope import WorkBudget
from dualsql.sql.translate import _HANDLERS
from tests.engines import PostgreSQL, text_of
from tests.mariadb import MariaDB
from tests.quick import case_of
from tests.schools import Base
from tests.sql.value_checks import faults, faults_over_kept_rows, fill
from tests.sql.value_texts import ENGINES, texts_of, value_texts

PARTS = 16
DIALECTS = {"mariadb": "mysql"}


@pytest.fixture(scope="module", params=ENGINES)
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """The name of a database, and the URL of one that holds the rows."""
    name: str = request.param
    if name in ("sqlite", "duckdb"):
        url = f"{name}:///{tmp_path_factory.mktemp('values')}/values.{name}"
        fill(url)
        yield name, url
        return
    server: PostgreSQL | MariaDB = request.getfixturevalue(f"{name}_server")
    with server.database() as found:
        url = found.replace("+asyncpg", "+psycopg").replace("+asyncmy", "+pymysql")
        fill(url)
        yield name, url


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("part", [case_of(part, is_long=part > 0) for part in range(PARTS)])
async def test_every_text_has_the_values_of_the_database(
    database: tuple[str, str], part: int, tmp_path: Path
) -> None:
    name, url = database
    assert await faults(url, name, texts_of(name)[part::PARTS], tmp_path) == {}


@pytest.mark.long
@pytest.mark.parametrize("part", [case_of(part, is_long=part > 0) for part in range(PARTS)])
async def test_every_text_has_the_same_values_over_kept_rows(
    database: tuple[str, str], part: int, tmp_path: Path
) -> None:
    name, url = database
    assert await faults_over_kept_rows(url, name, texts_of(name)[part::PARTS], tmp_path) == {}


@pytest.mark.parametrize("name", ENGINES)
def test_every_function_has_a_text(name: str) -> None:
    texts = " ".join(text.sql.lower() for text in texts_of(name) if name not in text.refusals)
    named = set(re.findall(r"\b([a-z_0-9]+)\s*\(", texts))
    # Written without parentheses; and names that SQLAlchemy writes as another name.
    named |= {"localtimestamp", "current_date"} & set(texts.split()) | {"string_agg", "char_length"}
    functions = set(allowed_functions(text_of(DIALECTS.get(name, name))))
    assert functions - named == set()


_OF_POSTGRESQL = """Array ArrayContainedBy ArrayContainsAll ArrayOverlaps AtTimeZone Bracket JSONBContainsAllTopKeys
    JSONBContainsAnyTopKeys JSONBContainsTopKey JSONBExtract JSONBExtractScalar Overlaps Overlay Pow RegexpILike
    SimilarTo Sqrt Unnest"""
LACKING = {
    # REGEXP is not SQLite's own, ILIKE and extract() are read but not there, and the rest the parser takes for others.
    "sqlite": f"""{_OF_POSTGRESQL} All Any BitwiseXor Extract ILike IntDiv Interval Lateral Localtimestamp RegexpLike
        StrPosition WithinGroup Xor""",
    "postgresql": "Glob IntDiv Xor",
    "mariadb": f"""{_OF_POSTGRESQL} All Any DPipe Filter Glob ILike JSONExtract JSONExtractScalar Lateral NullSafeNEQ
        Values""",
    "duckdb": f"{_OF_POSTGRESQL} BitwiseXor Xor",
}
"""Operators that a database does not have, or writes as another one."""


@pytest.mark.quick(1, "sqlite")
@pytest.mark.parametrize("name", ENGINES)
def test_every_operator_has_a_text(name: str) -> None:
    dialect, nodes = text_of(DIALECTS.get(name, name)), set()
    for text in texts_of(name):
        if name not in text.refusals:
            nodes |= {type(node) for node in parse_text(text.sql, dialect, WorkBudget()).walk()}
    known = {kind.__name__ for kind in {*_HANDLERS, *_READERS} - {exp.Placeholder} - nodes}
    assert known == set(LACKING[name].split())  # these texts have no parameters


@pytest.mark.parametrize("name", ENGINES)
def test_every_function_of_rows_collation_and_unit_has_a_text(name: str) -> None:
    dialect = text_of(DIALECTS.get(name, name))
    texts = " ".join(text.sql.lower() for text in texts_of(name) if name not in text.refusals)
    assert [one for one in dialect.table_functions if f"{one}(" not in texts] == []
    collated = re.findall(r"collate \"?(\w+)", texts)
    assert {one.lower() for one in dialect.collations} - set(collated) == set()
    moved = set(re.findall(r"timestamp(?:add|diff)\((\w+)|interval [^ ]+ (\w+)", texts))
    # SQLite has no intervals of its own to compare with: tests/sql/test_foreign.py.
    assert name == "sqlite" or set(dialect.units) <= {one for pair in moved for one in pair}
    assert set(dialect.lacks) <= NAMES


@pytest.mark.parametrize("name", ENGINES)
def test_every_construct_that_is_lacking_is_refused_by_a_text(name: str) -> None:
    words_of_all = " ".join(words for text in texts_of(name) for words in text.refusals.values())
    missing = [one for one in text_of(DIALECTS.get(name, name)).lacks if f"has no {one}" not in words_of_all]
    assert missing == []


def test_there_are_as_many_as_were_promised() -> None:
    assert len({text.sql for text in value_texts()}) >= 400
    assert all(len(texts_of(name)) >= 400 for name in ENGINES)


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
def test_a_function_of_any_number_of_arguments_is_read_or_refused(name: str) -> None:
    dialect = DIALECTS.get(name, name)
    for function, most in product(allowed_functions(text_of(dialect)), range(5)):
        arguments = ", ".join(["name", "'a'", "1", "2"][:most])
        with suppress(DualResponseError):
            read_select(f"SELECT {function}({arguments}) AS x FROM schools", Registry(Base), dialect)
