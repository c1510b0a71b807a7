"""The packages under plugins/ on their engines: chDB of PyPI, Firebird of Debian (`make test-dialects`)."""

from __future__ import annotations

import re
import subprocess
from ctypes.util import find_library
from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".plugins" / "bin" / "python"


@pytest.mark.parametrize(
    "name", sorted(folder.name for folder in (ROOT / "plugins").iterdir() if folder.is_dir())
)
def test_a_plug_in_passes_the_tests_for_every_database(name: str, tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("make test-dialects prepares the environment")
    if name == "firebird" and find_library("fbclient") is None:
        pytest.skip("apt-get install firebird3.0-server-core libfbclient2")
    options = ("-q", "-p", "no:cacheprovider", "-W", "ignore", f"--basetemp={tmp_path / 'tests'}")
    file = ROOT / "plugins" / name / f"test_dualsql_{name}.py"
    ran = subprocess.run(
        [PYTHON, "-m", "pytest", *options, "--rootdir", file.parent, "-c", "/dev/null", file],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    match = re.search(r"^(\d+) passed", ran.stdout, re.MULTILINE)
    assert ran.returncode == 0 and match and int(match[1]) >= 55, ran.stdout[-4000:]


def test_a_plug_in_is_short() -> None:
    for file in ROOT.glob("plugins/*/dualsql_*.py"):
        assert len(file.read_text().splitlines()) <= 150, file
