"""The guide's tests, literally, by each plugin of pytest that runs coroutines, and with fixtures of other scopes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest

from tests.guides.page import File, steps
from tests.guides.test_guides import DOCS

MARK = "pytestmark = pytest.mark.anyio\n"
BACKEND = '@pytest.fixture\ndef anyio_backend() -> str:\n    return "asyncio"\n'
RUNNERS = {
    "anyio": ([], MARK, BACKEND),
    "auto": (["-o", "asyncio_mode=auto"], "", ""),
    "strict": (
        ["-o", "asyncio_mode=strict"],
        "pytestmark = pytest.mark.asyncio\n",
        "",
    ),
    "session loop": (
        ["-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"],
        "",
        "",
    ),
}
"""Options, and what the guide's mark and fixture of anyio are replaced by."""

ANA, BEN = (
    'app=app, headers=headers_of("ana", "acme")',
    'app=app, headers=headers_of("ben", "bolt"), scope="session"',
)
FIXTURES = {
    "as printed": {},
    "function": {BEN: BEN.replace(', scope="session"', "")},
    "session": {ANA: f'{ANA}, scope="session"'},
    "in memory": {ANA: ANA.removeprefix("app=app, "), BEN: BEN.removeprefix("app=app, ")},
}
"""What is replaced in the guide's fixtures, and by what."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("fixtures", "runner"),
    [
        ("as printed", "auto"),
        *(case for case in product(FIXTURES, RUNNERS) if case != ("as printed", "auto")),
    ],
)
def test_the_guide_by_every_runner(postgresql_url: str, tmp_path: Path, fixtures: str, runner: str) -> None:
    if runner != "anyio" and find_spec("pytest_asyncio") is None:
        pytest.skip("pytest-asyncio is not installed")
    options, mark, backend = RUNNERS[runner]
    replaced = {MARK: mark, BACKEND: backend, **FIXTURES[fixtures]}
    page = (DOCS / "guides" / "testing.md").read_text(encoding="utf-8")
    files = {step.path: step.text for step in steps(page) if isinstance(step, File)}
    for old in replaced:
        assert any(old in text for text in files.values()), f"the guide does not have: {old}"
    for name, text in files.items():
        for old, new in replaced.items():
            text = text.replace(old, new)
        (tmp_path / name).write_text(text, encoding="utf-8")
    program = [sys.executable, "-m", "pytest", "-q", "-W", "error::RuntimeWarning", *options]
    run = subprocess.run(
        program,
        cwd=tmp_path,
        env={**os.environ, "SHOP_DATABASE": postgresql_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0 and "6 passed" in run.stdout, run.stdout[-4000:]
