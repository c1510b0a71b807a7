"""The manifest of promises and the tests agree. Read from the sources, so that no run is needed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.requirements import BEYOND, PROMISES

TESTS = Path(__file__).parent

CITED = sorted({test for promises in PROMISES.values() for tests in promises.values() for test in tests})


def names_of_tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def exists(node_id: str) -> bool:
    path, _, name = node_id.partition("::")
    file = TESTS / path
    return file.exists() and name in names_of_tests_in(file)


def test_every_clause_of_the_specification_is_listed_and_no_other() -> None:
    page = " ".join((TESTS.parent / "docs" / "specification.md").read_text(encoding="utf-8").split())
    clauses = re.findall(r"- \*\*(S\d+\.\d+)\*\* (.*?)(?= - \*\*S| ## |$)", page)
    listed = [promise for promises in PROMISES.values() for promise in promises]
    assert [f"{number} {text}" for number, text in clauses] == listed


def test_every_promise_is_held_by_a_test() -> None:
    unheld = [promise for promises in PROMISES.values() for promise, tests in promises.items() if not tests]
    assert unheld == []


def test_every_listed_test_exists() -> None:
    assert [node_id for node_id in CITED if not exists(node_id)] == []


def test_every_file_of_tests_is_accounted_for() -> None:
    files = {file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}
    cited = {node_id.partition("::")[0] for node_id in CITED}
    assert sorted(files - cited - set(BEYOND)) == [], "cite these in tests/requirements.py"
    assert sorted(set(BEYOND) - files) == [], "these are no more"
    assert sorted(cited & set(BEYOND)) == [], "these hold a promise"
