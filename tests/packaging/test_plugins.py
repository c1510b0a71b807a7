"""A package that adds a database, built and installed as a stranger does: its own tests are those of every database."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dualsql.databases.backends import Backend
from tests.packaging.conftest import ROOT, Environment, Wheels, wheel_of

PLUGIN = ROOT / "plugins" / "chdb"


def passed(environment: Environment, file: Path) -> int:
    """How many tests of the file passed in the environment, outside the checkout; none failed."""
    shutil.copy(file, environment.folder / file.name)
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore", f"--basetemp={environment.folder / 'tests'}")
    lines = environment.python("-m", "pytest", *options, environment.folder / file.name).splitlines()[-1]
    match = re.match(r"(\d+) passed", lines)
    assert match and "error" not in lines, lines
    return int(match[1])


def test_the_package_describes_its_database() -> None:
    assert isinstance(runpy.run_path(str(PLUGIN / "dualsql_chdb.py"))["BACKEND"], Backend)


@pytest.mark.long
def test_a_dialect_is_served_without_and_with_a_package_that_describes_it(
    wheels: Wheels, make_environment: Callable[..., Environment], tmp_path: Path
) -> None:
    installed = make_environment(
        str(wheels.server), str(wheels.client), "chdb-sqlalchemy>=0.2.1,<0.3", "pytest>=8", "anyio"
    )
    assert passed(installed, Path(__file__).with_name("other_dialect.py")) >= 30
    installed.install("--no-deps", wheel_of(PLUGIN, tmp_path))
    assert passed(installed, PLUGIN / "test_dualsql_chdb.py") >= 34
