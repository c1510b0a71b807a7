"""A run takes the tests that its options name: each long test is in one third, and an exhaustive one in none."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.quick import THIRDS, is_long_as_a_whole, third_of
from tests.test_requirements import is_quick_by_test

ROOT = Path(__file__).parents[1]

SUITE = """
import pytest

def test_quick(): ...

@pytest.mark.long
@pytest.mark.parametrize("number", range(60))
def test_long(number): ...

@pytest.mark.exhaustive
def test_exhaustive(): ...

@pytest.mark.quick(2)
@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("engine", ["sqlite", "mariadb"])
def test_cases(engine, number): ...
"""
CONFTEST = """
from tests.conftest import *
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few tests, selected by the options of these."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(SUITE)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    quick(number)\n    long\n    exhaustive\n")
    return folder


def selected(suite: Path, *options: str) -> list[str]:
    """The names of the tests that pytest would run."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
        str(suite),
    ]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line.rpartition("::")[2] for line in process.stdout.splitlines() if "::" in line]


@pytest.mark.long
def test_each_long_test_is_in_one_third(suite: Path) -> None:
    thirds = [selected(suite, "-m", "long and not exhaustive", "--third", str(third)) for third in THIRDS]
    together = [name for third in thirds for name in third]
    assert sorted(name for name in together if name.startswith("test_long")) == sorted(
        f"test_long[{number}]" for number in range(60)
    )
    assert len({name for name in together if name.startswith("test_cases")}) == len(together) - 60 == 12
    assert min(len(third) for third in thirds) > 10


@pytest.mark.long
def test_the_quick_run_takes_neither_long_nor_exhaustive_tests(suite: Path) -> None:
    report = selected(suite, "-m", "not long", "--third", "0")
    assert [name for name in report if not name.startswith("test_cases")] == ["test_quick"]
    cases = [name for name in report if name.startswith("test_cases")]
    assert len(cases) == 4
    assert len([name for name in cases if "mariadb" in name]) == 2, "as many for each database"
    assert len({name.partition("-")[2] for name in cases}) == 4, "other ones"


def test_files_that_a_quick_run_does_not_import_have_no_quick_test() -> None:
    files = [*Path(__file__).parent.rglob("test_*.py")]
    left_out = [file for file in files if is_long_as_a_whole(file.read_text(encoding="utf-8"))]
    assert len(left_out) > 10
    # A list of marks is read by neither; its file is one of tests that are all exhaustive.
    assert [file.name for file in left_out if any(is_quick_by_test(file).values())] == ["test_bridge.py"]


def test_a_third_depends_on_the_name_alone() -> None:
    """A process hashes texts with a seed of its own; workers and runs must agree."""
    assert [third_of(name) for name in ("tests/a.py::test_it[1]", "tests/a.py::test_it[2]")] == [1, 0]
    sizes = Counter(third_of(f"tests/room/test_it.py::test_it[{number}]") for number in range(3000))
    assert min(sizes.values()) > 900


@pytest.mark.long
def test_a_run_with_interrupts_ignored_is_like_any_other() -> None:
    """As under nohup, or in a shell's background."""
    test = "tests/client/test_sync.py::test_an_interrupt_ends_the_request"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    run = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert run.returncode == 0, run.stdout
