"""The manifest of promises and the tests agree. Read from the sources, so that no run is needed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.requirements import BEYOND, PROMISES

TESTS = Path(__file__).parent

SUITES = {
    node.name: node
    for file in (TESTS.parent / "dualsql" / "testing").glob("*.py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef) and node.name.endswith("Tests")
}
"""Tests that ship, by their class: those of a class in a file of tests which derives from it."""

CITED = sorted({test for promises in PROMISES.values() for tests in promises.values() for test in tests})


@cache
def is_quick_by_test(file: Path) -> dict[str, bool]:
    """The names of a file's tests, and whether each is quick, or has quick cases."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    is_long = any(
        "pytestmark" in map(ast.unparse, node.targets) and _is_long(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
    )
    return dict(_tests_of(tree, is_long=is_long))


def _tests_of(tree: ast.Module | ast.ClassDef, *, is_long: bool) -> Iterator[tuple[str, bool]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            is_long_class = is_long or any(map(_is_long, node.decorator_list))
            for body in (node, *(SUITES[name] for name in map(ast.unparse, node.bases) if name in SUITES)):
                yield from _tests_of(body, is_long=is_long_class)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, not (is_long or any(map(_is_long, node.decorator_list)))


def _is_long(mark: ast.expr) -> bool:
    """Marks of single cases are not looked for: the others of such a test are quick."""
    return ast.unparse(mark) in ("pytest.mark.long", "pytest.mark.exhaustive")


def exists(node_id: str) -> bool:
    path, _, name = node_id.partition("::")
    file = TESTS / path
    return file.exists() and name in is_quick_by_test(file)


def test_every_clause_of_the_specification_is_listed_and_no_other() -> None:
    page = " ".join((TESTS.parent / "docs" / "specification.md").read_text(encoding="utf-8").split())
    clauses = re.findall(r"- \*\*(S\d+\.\d+)\*\* (.*?)(?= - \*\*S| ## |$)", page)
    listed = [promise for promises in PROMISES.values() for promise in promises]
    assert [f"{number} {text}" for number, text in clauses] == listed


def test_every_promise_is_held_by_a_test() -> None:
    unheld = [promise for promises in PROMISES.values() for promise, tests in promises.items() if not tests]
    assert unheld == []


def test_every_promise_has_a_quick_test() -> None:
    slow = [
        promise
        for promises in PROMISES.values()
        for promise, tests in promises.items()
        if not any(
            is_quick_by_test(TESTS / test.partition("::")[0])[test.partition("::")[2]] for test in tests
        )
    ]
    assert slow == []


def test_every_listed_test_exists() -> None:
    assert [node_id for node_id in CITED if not exists(node_id)] == []


def test_every_file_of_tests_is_accounted_for() -> None:
    files = {file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}
    cited = {node_id.partition("::")[0] for node_id in CITED}
    assert sorted(files - cited - set(BEYOND)) == [], "cite these in tests/requirements.py"
    assert sorted(set(BEYOND) - files) == [], "these are no more"
    assert sorted(cited & set(BEYOND)) == [], "these hold a promise"
