"""Only a database's own folder names an engine or a driver; all other code asks for a capability.

Comments and docstrings may name one: they say where a reason or a measured number comes from.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dualsql"
OWN_FILES = tuple(f"databases/{name}/" for name in ("sqlite", "postgresql", "mariadb", "duckdb", "spark"))

NAMES = re.compile(
    r"sqlite|postgres|(?<![a-z])pg_|psycopg|asyncpg|duckdb|mariadb|mysql|asyncmy|mssql|oracle|databricks|adbc|pyhive|"
    r"(?<![a-z])hive|(?<![a-z])spark(?!l)",
    re.IGNORECASE,
)

_FROZEN = "documents hold what SQLAlchemy has for one dialect, under SQLAlchemy's names, whichever database runs them"

EXCEPTIONS: dict[str, tuple[str, str]] = {
    "databases/backends.py": (
        "sqlite postgres mysql mariadb duckdb hive spark",
        "the table: the module of each database, by SQLAlchemy's names of the dialect",
    ),
    "sqlalchemy_dialects.py": ("postgres", "classes that SQLAlchemy has in one dialect's module, met on any"),
    "store/engines.py": ("sqlite postgres asyncpg pg_", "the store keeps resources in these two databases"),
    "store/fast_rows.py": ("sqlite postgres asyncpg pg_", "the same two"),
    "columns/instants.py": ("sqlite", "variants of types on the database that keeps instants as texts"),
    "log.py": ("sqlite", "a line of the log has the driver's code, and the log loads no database"),
    "conformance/checks.py": (
        "sqlite psycopg asyncpg",
        "words of databases, which no answer of a server may have",
    ),
    "freeze/fields.py": ("postgres", f"operators: {_FROZEN}"),
    "freeze/kinds_expression.py": ("postgres mysql", f"MATCH, ARRAY and aggregates with an order: {_FROZEN}"),
    "freeze/kinds_select.py": ("postgres", f"DISTINCT ON: {_FROZEN}"),
    "freeze/types.py": ("pg_ postgres", f"operators, and a function: {_FROZEN}"),
    "freeze/values.py": (
        "mssql mysql oracle postgres sqlite",
        f"ranges and bit strings: {_FROZEN}; names that any dialect reserves are quoted",
    ),
    "kept/": (
        "duckdb mariadb mysql postgres sqlite",
        "files of DuckDB, and what the operators and functions of each database's texts mean on them",
    ),
    "cli/": ("duckdb postgres sqlite", "help of options, and databases among the files that are served"),
    "databases/file_cache.py": ("duckdb", "what is kept of files is one of its databases"),
    "databases/file_selection.py": ("duckdb sqlite", "kinds of files: databases of one file are among them"),
    "databases/files.py": ("duckdb sqlite", "kinds of files: databases of one file are among them"),
    "databases/spellings.py": (
        "mssql oracle databricks",
        "what dialects without a file here write in their own way",
    ),
    "databases/workbooks.py": ("sqlite", "tables of its files are copied as sheets are"),
    "demo/": ("sqlite", "the demonstration brings a database of its own"),
    "testing/": ("sqlite", "the tests of a storage bring a database"),
}
"""Files that name engines: which ones, and why. What ends in a slash is a folder."""

_STARTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_LEFT_OUT = {tokenize.COMMENT, tokenize.NL}
_WORDS = {"NAME", "STRING", "FSTRING_MIDDLE"}


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Names of engines in the code of a module, in lower case, each with its line."""
    tokens = [
        token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _LEFT_OUT
    ]
    for before, token, after in zip(tokens[-1:] + tokens, tokens, tokens[1:], strict=False):
        is_docstring = before.type in _STARTS and after.type == tokenize.NEWLINE
        if tokenize.tok_name[token.type] in _WORDS and not (is_docstring and token.type == tokenize.STRING):
            for name in NAMES.findall(token.string):
                yield name.lower(), f"line {token.start[0]}: {token.string[:60]}"


@cache
def named() -> Mapping[str, list[tuple[str, str]]]:
    """The names of engines in each module of dualsql."""
    return {
        path.relative_to(PACKAGE).as_posix(): list(names_in(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def allowed_in(name: str) -> set[str]:
    """The names of engines that the module may have."""
    return {
        word for prefix, (words, _) in EXCEPTIONS.items() if name.startswith(prefix) for word in words.split()
    }


def test_names_are_those_of_code() -> None:
    text = '"""Of SQLite."""\nimport sqlite3  # not DuckDB\nx: int = f(\n    "mysql"\n)\n"""Of Spark."""\n'
    assert [name for name, _ in names_in(text)] == ["sqlite", "mysql"]


def test_a_file_names_no_engine() -> None:
    actual = {
        f"{module}, {where}"
        for module, names in named().items()
        for name, where in names
        if not module.startswith(OWN_FILES) and name not in allowed_in(module)
    }
    assert sorted(actual) == [], "ask for a capability instead, or say in EXCEPTIONS why not"


@pytest.mark.parametrize("prefix", EXCEPTIONS)
def test_an_exception_is_needed(prefix: str) -> None:
    actual = {name for module, names in named().items() if module.startswith(prefix) for name, _ in names}
    assert actual == set(EXCEPTIONS[prefix][0].split())
