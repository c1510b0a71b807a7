"""Laws of the house that no linter knows; the rule: a limit is lowered when the code allows, never raised."""

from __future__ import annotations

import ast
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "dualsql", ROOT / "client" / "dualsql_client"]
MODULES = sorted(file for package in PACKAGES for file in package.rglob("*.py"))

LONGEST_MODULE = 700
LONGEST_FUNCTION = 60
MEANINGLESS_NAMES = {"utils", "util", "helpers", "common", "base", "core", "manager", "misc"}


def lengths_of_functions(file: Path) -> Iterator[tuple[str, int]]:
    """Lines of each function without its docstring, which is not what makes it hard to change."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            yield f"{file.name}:{node.name}", (node.end_lineno or 0) - body[0].lineno + 1


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_is_one_idea_with_a_docstring(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert file.stem not in MEANINGLESS_NAMES
    assert len(text.splitlines()) <= LONGEST_MODULE
    assert ast.get_docstring(ast.parse(text)), "a module says its purpose and the rule to keep"


def test_functions_are_short() -> None:
    lengths = {name: length for file in MODULES for name, length in lengths_of_functions(file)}
    assert [name for name, length in lengths.items() if length > LONGEST_FUNCTION] == []
    assert median(lengths.values()) <= 8
    assert quantiles(lengths.values(), n=10)[-1] <= 30


def test_the_synchronous_client_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_sync_client.py"))
    stale = [name for name, text in script["modules"]().items() if not script["is_written"](name, text)]
    assert stale == [], "run: python scripts/make_sync_client.py"


def test_nothing_tracked_names_a_machine_or_an_index() -> None:
    """Paths of one machine, hosts of package indexes, locks with either: none belong into the history."""
    patterns = ["/work/", "/root/", "/home/", "index-url", "find-links", "pythonhosted"]
    search = ["git", "grep", "-nIF", *(word for pattern in patterns for word in ("-e", pattern))]
    found = subprocess.run(
        [*search, "--", ".", ":!tests/test_house.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.stdout == ""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"uv.lock", ".python-version"} & set(listed.stdout.split())
