"""The manifest of promises and the tests agree; the rule: read from the sources, so that no run is needed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.requirements import BEYOND, PROMISES

TESTS = Path(__file__).parent

CITED = [
    pytest.param(node_id, id=f"{section}: {promise}: {node_id}")
    for section, promises in PROMISES.items()
    for promise, node_ids in promises.items()
    for node_id in node_ids
]


def names_of_tests_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def cited_files() -> set[str]:
    return {str(param.values[0]).partition("::")[0] for param in CITED}


@pytest.mark.parametrize("node_id", CITED)
def test_a_listed_test_exists(node_id: str) -> None:
    file, _, name = node_id.partition("::")
    assert name in names_of_tests_in(TESTS / file)


def test_every_promise_is_held_by_a_test() -> None:
    unheld = [promise for promises in PROMISES.values() for promise, tests in promises.items() if not tests]
    assert not unheld


def test_every_file_of_tests_is_accounted_for() -> None:
    files = {file.relative_to(TESTS).as_posix() for file in TESTS.rglob("test_*.py")}
    assert files - cited_files() - set(BEYOND) == set(), "cite it in tests/requirements.py"
    assert set(BEYOND) - files == set(), "these are no more"
    assert cited_files() & set(BEYOND) == set(), "these hold a promise"
