"""Every statement that a server sends, compiled by the dialects of databases that cannot run here (docs/databases.md).

`make test-dialects` prepares their packages in an environment of its own. Each text is read back by sqlglot, as SQL of
that database, and each function in it is in the database's manual (tests/dialects/functions.py). That a database
answers it, and answers it right, is not proved.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import sqlglot

from tests.dialects.functions import FUNCTIONS, ONLY_MANUALS, TYPES

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".dialects" / "bin" / "python"
PARSERS = {
    "bigquery": "bigquery",
    "snowflake": "snowflake",
    "databricks": "databricks",
    "trino": "trino",
    "clickhouse": "clickhouse",
    "redshift": "redshift",
    "mssql": "tsql",
    "oracle": "oracle",
}
"""sqlglot's names of the dialects."""

STEPS = {
    "sample and count", "sample tail", "sample spread", "page", "page after a cursor", "stream", "profile",
    "question of words", "question of beginnings", "question of numbers", "question of groups", "question of distinct",
}  # fmt: skip

KNOWN = {
    "databricks": [(8, r"TypeError: String.__init__\(\) got an unexpected keyword argument '_enums'")],
    "mssql": [(2, "CompileError: MSSQL requires an order_by when using an OFFSET or a non-simple LIMIT")],
}
"""By dialect: how many statements do not compile with which error; docs/databases.md says so."""


@pytest.fixture(scope="module")
def texts() -> dict[str, dict[str, list[str]]]:
    """By dialect and step: the statements, or `!` and an error."""
    if not PYTHON.exists():
        pytest.skip("make test-dialects prepares the environment")
    process = subprocess.run(
        [PYTHON, "-m", "tests.dialects.compile_all"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    document: dict[str, dict[str, list[str]]] = json.loads(process.stdout)
    return document


def as_bound(text: str) -> str:
    """The text with one form of parameter: sqlglot knows neither psycopg's nor SQLAlchemy's own."""
    text = re.sub(r"__\[POSTCOMPILE_\w+\]", "1", text)
    return re.sub(r"%\((\w+)(:[^)]*)?\)s", r":\1", text).replace("%%", "%")


def test_every_step_sends_statements(texts: dict[str, dict[str, list[str]]]) -> None:
    assert texts.keys() == PARSERS.keys()
    for name, steps in texts.items():
        statements = {step.partition(": ")[2] for step, each in steps.items() if each}
        assert statements >= STEPS, name
        assert sum(map(len, steps.values())) > 400


@pytest.mark.parametrize("name", PARSERS)
def test_each_statement_compiles_and_is_grammatical(
    texts: dict[str, dict[str, list[str]]], name: str
) -> None:
    actual = [text for each in texts[name].values() for text in each]
    errors = Counter(text for text in actual if text.startswith("!"))
    for number, error in KNOWN.get(name, ()):
        known = [text for text in errors if re.search(error, text)]
        assert sum(errors.pop(text) for text in known) == number, error
    assert errors == {}
    for text in actual:
        if not text.startswith("!"):
            assert sqlglot.parse_one(as_bound(text), dialect=PARSERS[name])


@pytest.mark.parametrize("name", PARSERS)
def test_each_table_stands_under_the_rule(texts: dict[str, dict[str, list[str]]], name: str) -> None:
    for step, found in texts[name].items():
        for text in found:
            if "schools" in text and not text.startswith("!"):
                assert re.search(r"WHERE \S*schools\S*\.\S*state\S* = \S*dualsql_tenant_0", text), (
                    step,
                    text,
                )


@pytest.mark.parametrize("name", PARSERS)
def test_the_database_has_each_function(texts: dict[str, dict[str, list[str]]], name: str) -> None:
    assert len(texts[name]["words"]) == 17
    actual = [text for each in texts[name].values() for text in each if not text.startswith("!")]
    functions = {word.lower() for text in actual for word in re.findall(r"\b([A-Za-z]\w*)\(", text)}
    own_names = {"numbers"}  # of a recursive query
    assert functions - own_names <= FUNCTIONS[name]


@pytest.mark.parametrize("name", PARSERS)
def test_sqlglot_knows_each_function_of_the_manual(name: str) -> None:
    parser = sqlglot.Dialect.get_or_raise(PARSERS[name]).parser_class
    known = {word.lower() for words in (parser.FUNCTIONS, parser.FUNCTION_PARSERS) for word in words}
    assert FUNCTIONS[name] - TYPES - known == ONLY_MANUALS.get(name, frozenset())
