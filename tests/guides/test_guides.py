"""Each guide is followed to the letter: its files are written, its servers run, its programs print what it says."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.guides.page import File, Session, is_as_printed, steps
from tests.quick import case_of

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = [DOCS / "tutorial.md", *sorted((DOCS / "guides").glob("*.md"))]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A reader with an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return Session(tmp_path)


@pytest.fixture
def synchronous_url(request: pytest.FixtureRequest) -> str:
    """A PostgreSQL database for the driver of the guide to synchronous engines."""
    url: str = request.getfixturevalue("postgresql_url")
    return url.replace("+asyncpg", "+psycopg")


@pytest.mark.parametrize(
    "guide",
    [case_of(guide, is_long=guide.stem != "starlette") for guide in GUIDES],
    ids=lambda guide: guide.stem,
)
def test_a_reader_who_follows_it_sees_what_it_says(
    guide: Path, session: Session, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.has_processes = guide.stem == "sqlmodel"  # which has one metadata in a process
    if guide.stem == "testing":
        monkeypatch.setenv("SHOP_DATABASE", request.getfixturevalue("postgresql_url"))
    if guide.stem == "synchronous":
        monkeypatch.setenv("DATABASE_URL", request.getfixturevalue("synchronous_url"))
    assert session.run(guide.read_text(encoding="utf-8")) > 0


@pytest.mark.parametrize("last", ["```python\ny = 2\n```\n", "- In a list:\n\n  ```python\n  y = 2\n  ```\n"])
def test_code_that_nothing_runs_is_refused(last: str) -> None:
    page = f"```python\n# app.py\nx = 1\n```\n\n{last}"
    found = steps(page)
    assert next(found) == File("app.py", "# app.py\nx = 1\n")
    with pytest.raises(ValueError, match="y = 2"):
        next(found)


@pytest.mark.parametrize(
    ("output", "is_right"), [("a 1 z\n", True), ("a 1\n2 z", True), ("a z", False), ("b a 1 z", False)]
)
def test_dots_stand_for_any_text(output: str, is_right: bool) -> None:
    assert is_as_printed(output, "a ... z") is is_right


@pytest.mark.parametrize(("printed", "is_right"), [("3", True), ("2", False), ("3\n4", False)])
def test_what_a_page_says_is_compared(session: Session, printed: str, is_right: bool) -> None:
    page = f"```python\n# add.py\nprint(1 + 2)\n```\n\n```console\n$ python add.py\n{printed}\n```\n"
    with contextlib.nullcontext() if is_right else pytest.raises(AssertionError, match="the page says"):
        assert session.run(page) == 1


def test_a_program_that_fails_fails_the_page(session: Session) -> None:
    with pytest.raises(AssertionError, match="no_such_program failed"):
        session.run("```console\n$ no_such_program\n```\n")
