"""The list of mutants: each changes one place of the code as it is now, and names tests that exist."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]


def test_each_mutant_changes_one_place() -> None:
    assert [one.name for one in MUTANTS if (ROOT / one.file).read_text().count(one.text) != 1] == []
    assert [one.name for one in MUTANTS if one.changed == one.text] == []
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)


def test_its_tests_exist() -> None:
    for mutant in MUTANTS:
        for test in mutant.tests:
            file, *names = test.split("::")
            path = ROOT / "tests" / file
            assert path.exists(), (mutant.name, test)
            assert all(
                f"{name}(" in path.read_text() or f"class {name}:" in path.read_text() for name in names
            )
