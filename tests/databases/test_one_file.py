"""Only a database's own file names an engine or a driver; all other code asks for a capability.

Comments and docstrings may name one: they say where a reason or a measured number comes from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dualsql"
OWN_FILES = ("sqlite/", "postgresql/", "mariadb.py", "duckdb.py")

NAMES = re.compile(
    r"sqlite|postgres|(?<![a-z])pg_|psycopg|asyncpg|duckdb|mariadb|mysql|asyncmy|mssql|oracle|adbc",
    re.IGNORECASE,
)

EXCEPTIONS = {
    "databases/backends.py": "the registry: module of each built-in database by SQLAlchemy's names of the dialect",
    "demo/": "the demonstration brings a database of its own",
    "store/": "the store chooses the databases that it keeps resources in, and speaks to them itself",
    "cli/": "the help of the command line names databases to a person",
    "log/__init__.py": "a line of the log has the code that a driver gave, whichever it was; the log loads no database",
    "databases/files.py": "files are served by DuckDB, which reads them",
    "columns/dialect_types.py": "types that SQLAlchemy defines in a dialect's module, met on any database",
    "columns/result.py": "SQLAlchemy finds a variant of a type by the dialect's name",
    "freeze/": "documents name the types and constructs of all of SQLAlchemy's dialects, whichever database runs them",
}
"""Files and folders that name engines, and why."""


def names_in(tree: ast.AST) -> Iterator[str]:
    """Names of engines in the code of a module, each with its line."""
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        for word in words_of(node, docstrings):
            if NAMES.search(word):
                yield f"line {getattr(node, 'lineno', '?')}: {word[:60]}"


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


MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("name", [name for name in MODULES if not is_own_file(name)])
def test_a_file_names_no_engine(name: str) -> None:
    found = list(names_in(ast.parse((PACKAGE / name).read_text(encoding="utf-8"))))
    if name.startswith(tuple(EXCEPTIONS)):
        return
    assert found == [], "ask for a capability instead, or say in EXCEPTIONS why not"


@pytest.mark.parametrize("prefix", EXCEPTIONS)
def test_an_exception_is_needed(prefix: str) -> None:
    files = [name for name in MODULES if name.startswith(prefix)]
    assert any(list(names_in(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))) for name in files)
