"""Laws of the house that no linter knows. A limit is lowered when the code allows, never raised."""

from __future__ import annotations

import ast
import inspect
import runpy
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "dualsql", ROOT / "client" / "dualsql_client"]
MODULES = sorted(file for package in PACKAGES for file in package.rglob("*.py"))

LONGEST_MODULE = 700
"""Lines of code, as code_lines() counts them; also for SHORTEST_MODULE."""
SHORTEST_MODULE = 30
SMALL_MODULES = {
    "client/dualsql_client/notebook.py": "imported by IPython alone",
    "dualsql/threads.py": "read by formats and kept",
    "dualsql/formats/bind_values.py": "read by `sql` and `query`",
    "dualsql/formats/json_array.py": "a format of streams has a file of its own",
    "dualsql/formats/ndjson.py": "a format of streams has a file of its own",
    "dualsql/databases/expressions.py": "read by most databases and by queries",
    "dualsql/http/cors.py": "loaded where scripts of other origins may read",
    "dualsql/formats/cell_limit.py": "loaded with the first page whose cells are cut",
    "dualsql/plan/requested.py": "reads `derived`, which is loaded with the first query of a result",
    "dualsql/plan/texts.py": "loaded with the first text of an author",
    "dualsql/formats/ranges.py": "loaded with the first range",
    "dualsql/formats/unfit_cells.py": "loaded with the first cell that does not fit",
    "dualsql/formats/memory_file.py": "read by two formats",
    "dualsql/openapi/service.py": "loaded before the server is, over stdio",
    "dualsql/tenancy/functions.py": "for servers with functions among their hooks",
    "dualsql/tenancy/grouping.py": "for databases whose GROUP BY is strict",
    "dualsql/store/eviction.py": "loaded with a store in memory that is almost full",
    "dualsql/store/health.py": "loaded with the first readiness check",
    "dualsql/kept/translation/ordering.py": "a table of its own, read by the others",
    "dualsql/freeze/row_number.py": "one kind of column, read by `plan` and `databases`, too",
    **dict.fromkeys(
        (f"dualsql/{name}/feature.py" for name in ("charts", "profiles", "query", "sql", "web")),
        "the object that a server gets",
    ),
    **dict.fromkeys(
        (f"dualsql/{name}/settings.py" for name in ("kept", "profiles", "query", "web")),
        "the arguments of a feature, read by its services",
    ),
    "dualsql/results/described.py": "loaded for the databases that describe types",
    "dualsql/mcp/options.py": "read by the decorators and by what publishes results",
    "dualsql/databases/refused_columns.py": "loaded with the first statement that returns other columns",
    "dualsql/databases/text_threads.py": "loaded with the first large SQL text",
    "dualsql/databases/duckdb/constraints.py": "asked once, at the start; no part of the kernel",
    "dualsql/databases/mariadb/constraints.py": "asked once, at the start; no part of the kernel",
    "dualsql/databases/sqlite/constraints.py": "asked once, at the start; no part of the kernel",
    "dualsql/databases/sqlite/callbacks.py": "functions that the database calls",
    "dualsql/cli/process.py": "read by the commands and by workers",
    "dualsql/feature.py": "what all features are",
    "dualsql/sqlalchemy_dialects.py": "names that SQLAlchemy defines in the module of one dialect",
    "dualsql/arguments.py": "loaded with the mistake that it names",
    "dualsql/packages.py": "read by all features that need an optional package",
    "dualsql/http/conditional.py": "read by the routes of results and by streams",
}
"""Modules with less code, apart from `__init__`, and the reason for each."""
LONGEST_FUNCTION = 60
ON_BOTH_SIDES_OF_THE_WIRE = {
    "ResourceExpiredError", "ResourceFailedError", "ResourceNotFoundError", "ResourcePendingError",
}  # fmt: skip
"""Errors that the server sends and the client raises again: one meaning, but the packages do not import each other."""

MEANINGLESS_NAMES = {"utils", "util", "helpers", "common", "base", "core", "manager", "misc"}


@cache
def tree_of(file: Path) -> ast.Module:
    """The parsed module; once for all tests, since all modules take half a second."""
    return ast.parse(file.read_text(encoding="utf-8"))


def lengths_of_functions(file: Path) -> Iterator[tuple[str, int]]:
    """Lines of each function without its docstring, which is not what makes it hard to change."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            yield f"{file.name}:{node.name}", (node.end_lineno or 0) - body[0].lineno + 1


def code_lines(text: str, tree: ast.Module | None = None) -> int:
    """The lines of a module that hold code: no blank ones, comments or docstrings."""
    documented: set[int] = set()
    quoted: set[int] = set()
    for node in ast.walk(tree or ast.parse(text)):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            documented |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif _is_text(node) or isinstance(node, ast.JoinedStr):
            quoted |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    written = {
        number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"
    }
    return len((written | quoted) - documented)


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_code_lines_are_those_that_hold_code() -> None:
    lines = ['"""A module."""', "", "# A comment.", 'x = """a', "", 'b"""  # beside code', "", "def f():"]
    text = "\n".join([*lines, '    """It."""', "    return (", "        1", "    )", ""])
    assert code_lines(text) == 7


def test_a_module_has_one_purpose_a_docstring_and_a_bearable_length() -> None:
    names = {file: str(file.relative_to(ROOT)) for file in MODULES}
    assert [name for name in names.values() if Path(name).stem in MEANINGLESS_NAMES] == []
    assert [name for file, name in names.items() if not ast.get_docstring(tree_of(file))] == []
    lengths = {
        name: code_lines(file.read_text(encoding="utf-8"), tree_of(file)) for file, name in names.items()
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
    small = {name for name, length in lengths.items() if length < SHORTEST_MODULE and "__init__" not in name}
    assert sorted(small - set(SMALL_MODULES)) == [], "merge a small module, or list it with its reason"


def test_a_request_passes_through_few_modules() -> None:
    """See MOST_MODULES of the script. It runs in a process of its own, because it installs a profiler."""
    script = [sys.executable, str(ROOT / "scripts" / "count_modules.py")]
    counted = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert counted.returncode == 0, f"{counted.stdout}{counted.stderr}list them with: {script[1]} --names"


def test_functions_are_short() -> None:
    lengths = {name: length for file in MODULES for name, length in lengths_of_functions(file)}
    assert [name for name, length in lengths.items() if length > LONGEST_FUNCTION] == []
    assert median(lengths.values()) <= 8
    assert quantiles(lengths.values(), n=10)[-1] <= 30


def module_name(file: Path) -> str:
    """`dualsql.plan` for dualsql/plan/__init__.py."""
    root = ROOT if file.is_relative_to(ROOT / "dualsql") else ROOT / "client"
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(file): file for file in MODULES}

# (importing module, imported module) -> why the loop that this import closes is wanted.
WANTED_LOOPS: dict[tuple[str, str], str] = {
    ("dualsql.capabilities", "dualsql.databases.backends"): (
        "plan, tenancy and formats ask what a database can do; its file says so, and is loaded when it is asked for"
    ),
    ("dualsql.databases.backends", "dualsql.databases.plugins"): (
        "the databases of other packages, which are loaded when they are asked for"
    ),
}


def imports_at_run_time(node: ast.AST) -> Iterator[str]:
    """The modules that code may import when it runs: in functions too, not under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from imports_at_run_time(ast.Module(child.orelse, []))
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            full_names = (f"{child.module}.{alias.name}" for alias in child.names)
            yield from (name if name in NAMES else child.module for name in full_names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and "." in child.value:
            yield child.value  # perhaps what import_module() is given
        yield from imports_at_run_time(child)


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        name: {
            other
            for other in imports_at_run_time(tree_of(file))
            if other in NAMES and other != name and (name, other) not in WANTED_LOOPS
        }
        for name, file in NAMES.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        loop = " <- ".join(error.args[1])
        pytest.fail(f"an import loop, to be broken by design and not by an import in a function: {loop}")


def test_a_class_name_has_one_meaning() -> None:
    found: dict[str, list[str]] = {}
    for file in MODULES:
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(file.relative_to(ROOT)))
    assert {
        name: files for name, files in found.items() if len(files) > 1
    }.keys() == ON_BOTH_SIDES_OF_THE_WIRE


@pytest.mark.parametrize("name", ["dualsql", "dualsql.mcp", "dualsql_client"])
def test_types_and_run_time_export_the_same_names(name: str) -> None:
    """Such a package imports a name on first use, by its table, and its stub shows type checkers an import."""
    module = import_module(name)
    stub = Path(inspect.getfile(module)).with_suffix(".pyi").read_text(encoding="utf-8")
    shown = {
        (alias.asname, node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert shown == set(module._MODULES.items())
    assert module.__all__ == sorted(module._MODULES)


def test_the_synchronous_client_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_sync_client.py"))
    stale = [name for name, text in script["modules"]().items() if not script["is_written"](name, text)]
    assert stale == [], "run: python scripts/make_sync_client.py"


def test_nothing_tracked_names_a_machine_or_an_index() -> None:
    """Paths of one machine, hosts of package indexes, locks with either: none belong into the history."""
    patterns = ["/work/", "/root/", "/home/", "index-url", "find-links", "pythonhosted"]
    search = ["git", "grep", "-nIF", *(word for pattern in patterns for word in ("-e", pattern))]
    process = subprocess.run(
        [*search, "--", ".", ":!tests/test_house.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert process.stdout == ""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"uv.lock", ".python-version"} & set(listed.stdout.split())
