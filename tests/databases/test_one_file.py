"""Only a database's own file names an engine or a driver; all other code asks for a capability.

Comments and docstrings may name one: they say where a reason or a measured number comes from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dualsql"
OWN_FILES = ("sqlite/", "postgresql/", "mariadb.py", "mariadb_text.py", "duckdb.py", "spark/")

NAMES = re.compile(
    r"sqlite|postgres|(?<![a-z])pg_|psycopg|asyncpg|duckdb|mariadb|mysql|asyncmy|mssql|oracle|adbc|pyhive|(?<![a-z])hive(?!_)|(?<![a-z])spark(?!l)",
    re.IGNORECASE,
)

_FROZEN = "documents hold what SQLAlchemy has for one dialect, under SQLAlchemy's names, whichever database runs them"
_KEPT = "the store keeps resources in SQLite or PostgreSQL, and speaks to them itself"

EXCEPTIONS: dict[str, tuple[str, str]] = {
    "databases/backends.py": (
        "sqlite postgres mysql mariadb duckdb hive spark",
        "the registry: the module of each built-in database, by SQLAlchemy's names of the dialect",
    ),
    "databases/files.py": ("duckdb", "DuckDB reads the files that are served"),
    "kept/files.py": ("duckdb", "the rows of kept results are in files of DuckDB"),
    "testing/stores.py": ("sqlite", "the tests of a storage need a database, and bring one"),
    "demo/": ("sqlite postgres pg_", "the demonstration brings a database of its own"),
    "cli/commands.py": ("sqlite", "help: which database is used without --database"),
    "cli/options.py": ("postgres", "help: which database has roles"),
    "log/__init__.py": ("sqlite", "a line of the log has the driver's code, and the log loads no database"),
    "columns/dialect_types.py": (
        "postgres",
        "types of a dialect's module of SQLAlchemy, met on any database",
    ),
    "columns/instants.py": ("sqlite", "the database that keeps instants as texts, of several spellings"),
    "kept/translation/": (
        "duckdb mariadb mysql postgres sqlite",
        "tables of what the operators and functions of each database's texts mean on kept rows",
    ),
    "sql/infix.py": ("postgres", "arrays, which SQLAlchemy has in one dialect's module"),
    "store/engines.py": ("sqlite postgres asyncpg", _KEPT),
    "store/migrations.py": ("sqlite postgres pg_", _KEPT),
    "store/sql.py": ("sqlite postgres", _KEPT),
    "freeze/fields.py": ("postgres mysql", f"operators and their options: {_FROZEN}"),
    "freeze/kinds_expression.py": ("postgres mysql", f"MATCH, ARRAY and aggregates with an order: {_FROZEN}"),
    "freeze/kinds_select.py": ("postgres", f"DISTINCT ON: {_FROZEN}"),
    "freeze/names.py": (
        "mssql mysql oracle postgres sqlite",
        "names that any dialect of SQLAlchemy reserves are quoted",
    ),
    "freeze/types.py": ("mssql mysql oracle pg_ postgres sqlite", f"types: {_FROZEN}"),
    "freeze/values.py": ("postgres", f"ranges and bit strings: {_FROZEN}"),
}
"""Files that name engines: which ones, and why. What ends in a slash is a folder."""


def names_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names of engines in the code of a module, in lower case, each with its line."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        for word in words_of(node, docstrings):
            for name in NAMES.findall(word):
                yield name.lower(), f"line {getattr(node, 'lineno', '?')}: {word[:60]}"


def words_of(node: ast.AST, docstrings: set[int]) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)) if id(node) not in docstrings:
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases):
            yield from (alias.name for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases):
            yield from (f"{module}.{alias.name}" for alias in aliases)


def is_own_file(name: str) -> bool:
    return name.startswith(tuple(f"databases/{own}" for own in OWN_FILES))


@cache
def named() -> Mapping[str, list[tuple[str, str]]]:
    """The names of engines in each module of dualsql."""
    return {
        path.relative_to(PACKAGE).as_posix(): list(names_in(ast.parse(path.read_text(encoding="utf-8"))))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def allowed_in(name: str) -> set[str]:
    """The names of engines that the module may have."""
    return {
        word for prefix, (words, _) in EXCEPTIONS.items() if name.startswith(prefix) for word in words.split()
    }


def test_a_file_names_no_engine() -> None:
    found = {
        f"{module}, {where}"
        for module, names in named().items()
        for name, where in names
        if not is_own_file(module) and name not in allowed_in(module)
    }
    assert sorted(found) == [], "ask for a capability instead, or say in EXCEPTIONS why not"


@pytest.mark.parametrize("prefix", EXCEPTIONS)
def test_an_exception_is_needed(prefix: str) -> None:
    found = {name for module, names in named().items() if module.startswith(prefix) for name, _ in names}
    assert found == set(EXCEPTIONS[prefix][0].split())
