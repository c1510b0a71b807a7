"""The lowest versions that both packages declare, in an environment of their own: commands and the kernel's tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.conftest import ROOT, Environment, Wheels
from tests.packaging.test_release import PYPROJECTS

# Packages older than a Python have no wheels for it.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="the lowest Python"),
]

OF_TESTS = (
    "pytest>=9", "pytest-timeout", "pytest-xdist", "hypothesis", "openpyxl>=3.1", "fonttools>=4.60", "fastapi>=0.115",
    "psycopg[binary]>=3.2", "pymysql>=1.1",
)  # fmt: skip
FEATURES = (
    "sql", "catalogue", "charts", "envelope", "http/test_request_log.py", "identity", "mcp",
    "serve/test_dirty_files.py", "serve/test_files.py", "serve/test_in_place.py",
)  # fmt: skip
"""The quick tests of features that run then, of tests/."""
OPTIONS = (
    "-q", "-n", "2", "-p", "no:cacheprovider",
    "-o", "anyio_mode=auto",  # of anyio 4.12
    "--tb=native",  # does not parse the source again
    "-W", "ignore::DeprecationWarning",  # of packages that are newer than the lowest ones
    "-m", "not long",
)  # fmt: skip


def floors() -> dict[str, str]:
    """The lowest version of each package that a dependency or an extra declares; all declarations have the same."""
    lowest: dict[str, set[str]] = {}
    for project in (each["project"] for each in PYPROJECTS):
        extras = project["optional-dependencies"].values()
        for line in [*project["dependencies"], *(each for extra in extras for each in extra)]:
            wanted = Requirement(line)
            if not wanted.name.startswith("dualsql"):
                versions = {each.version for each in wanted.specifier if each.operator == ">="}
                lowest.setdefault(wanted.name, set()).update(versions)
    assert [name for name, versions in lowest.items() if len(versions) != 1] == []
    return {name: versions.pop() for name, versions in lowest.items()}


def test_the_lowest_versions_run(
    wheels: Wheels, make_environment: Callable[..., Environment], tmp_path: Path
) -> None:
    constraints = tmp_path / "floors.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in floors().items()))
    extras = ",".join(set(PYPROJECTS[0]["project"]["optional-dependencies"]))
    of_client = ",".join(set(PYPROJECTS[1]["project"]["optional-dependencies"]))
    lowest = make_environment(
        f"dualsql-client @ {wheels.client.as_uri()}",  # pip looks for it in the index otherwise
        f"dualsql[{extras}] @ {wheels.server.as_uri()}",
        f"dualsql-client[{of_client}] @ {wheels.client.as_uri()}",
        *OF_TESTS,
        constraints=constraints,
    )
    assert "serve" in lowest.run("dualsql", "--help")
    assert "--tables" in lowest.run("dualsql", "serve", "--help")
    assert "15,191" in lowest.run("dualsql", "demo", "--port", "0")
    # The kernel: 70 seconds of CPU; the features: 140.
    for tests in (["-p", "tests.kernel"], [f"tests/{name}" for name in FEATURES]):
        tested = subprocess.run(
            [lowest.programs / "python", "-m", "pytest", *OPTIONS, *tests],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert tested.returncode == 0, tested.stdout[-4_000:] + tested.stderr[-2_000:]
