"""What `make test-kernel` runs needs no feature, and no package but those that dualsql and pytest require."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel import FEATURES, FILES, OF_FEATURES, TESTS, OnlyTheKernel, is_left_out
from tests.test_requirements import exists

ROOT = TESTS.parent
BESIDE_FEATURES = {"feature_list", "features", "mcp", "testing"}
"""Modules that the kernel may not import either, and that its tests need: `features` imports `mcp.options`."""
WALK = "docs/test_tour.py"


def test_features_and_optional_packages_cannot_be_imported() -> None:
    finder = OnlyTheKernel()
    for name in (
        "dualsql.query.select",
        "dualsql.kept",
        "pyarrow",
        "duckdb",
        "sqlglot.exp",
        "mcp",
        "uvicorn",
    ):
        with pytest.raises(ModuleNotFoundError):
            finder.find_spec(name, None)
    for name in ("dualsql.results.pages", "dualsql_client.wire", "sqlalchemy", "asyncpg", "orjson", "pytest"):
        assert finder.find_spec(name, None) is None, name


def test_the_features_are_those_that_the_kernel_may_not_import() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (kernel,) = (each for each in contracts if each["name"].startswith("The kernel imports no feature"))
    forbidden = {
        name.partition(".")[2] for name in kernel["forbidden_modules"] if name.startswith("dualsql.")
    }
    assert forbidden - BESIDE_FEATURES == FEATURES


def test_each_name_of_the_lists_exists() -> None:
    assert [name for name in FILES if not (TESTS / name).exists()] == []
    for name in OF_FEATURES:
        file, _, test = name.partition("::")
        assert exists(f"{file}::{test.rpartition('::')[2]}") if test else (TESTS / name).exists(), name


def test_files_of_features_and_of_other_folders_are_left_out() -> None:
    kernel, others = (
        ("results", "store/test_memory.py", WALK, "docs"),
        ("query", "http/test_openapi.py", "docs/test_site.py"),
    )
    assert [name for name in kernel if is_left_out(TESTS / name)] == []
    assert [name for name in others if not is_left_out(TESTS / name)] == []
    assert not is_left_out(TESTS)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, its tests and what these read."""
    folder = tmp_path_factory.mktemp("project")
    without = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("dualsql", "tests", "migrations", "docs", "examples", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=without)
    for name in ("pyproject.toml", "CONTRIBUTING.md", "README.md"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@contextmanager
def without(features: Iterable[str], folder: Path) -> Iterator[None]:
    """The copy without the folders of the features, or their files, during the block."""
    deleted = [
        path for name in features for path in (folder / "dualsql").glob(f"{name}*") if path.stem == name
    ]
    aside = folder / "aside"
    aside.mkdir()
    for path in deleted:
        path.rename(aside / path.name)
    try:
        yield
    finally:
        for path in deleted:
            (aside / path.name).rename(path)
        aside.rmdir()


def run_kernel_tests(folder: Path, *arguments: str) -> str:
    """The output of the kernel's tests in a copy; fails if they do."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.kernel",
        "-q",
        "-m",
        "not long",
        "-p",
        "no:cacheprovider",
    ]
    path = os.pathsep.join(map(str, (folder, ROOT / "client")))
    run = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.long
@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_without_the_folder_of_a_feature_the_kernel_creates_and_pages(copied: Path, feature: str) -> None:
    with without([feature], copied):
        assert not (copied / "dualsql" / feature).exists()
        assert "passed" in run_kernel_tests(copied, f"tests/{WALK}")


@pytest.mark.long
def test_without_all_features_every_test_of_the_kernel_is_collected(copied: Path) -> None:
    with without(FEATURES, copied):
        assert run_kernel_tests(copied, "--collect-only").count("::") > 2_000
        assert "passed" in run_kernel_tests(copied, f"tests/{WALK}")
