"""The tour of docs/architecture.md: a creation and a page call the functions that it lists, in its order."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import dualsql
from tests.engines import opened, sqlite_url_in
from tests.http.application import fill, running

PACKAGE = Path(dualsql.__file__).parent
PAGE = PACKAGE.parent / "docs" / "architecture.md"

Call = tuple[str, str]
"""A file below dualsql/, and the qualified name of a function in it."""


def listed(table: int) -> list[Call]:
    """The calls of a table of the tour."""
    tour = PAGE.read_text(encoding="utf-8").partition("\n## A tour")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", tour.split("| file |")[table], re.MULTILINE)


@contextmanager
def calls() -> Iterator[list[Call]]:
    """The functions of dualsql that this thread calls in the block."""
    seen: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            file = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            seen.append((file, frame.f_code.co_qualname))

    before: Callable[..., object] | None = sys.getprofile()
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(before)


def missing(tour: list[Call], seen: list[Call]) -> list[Call]:
    """The first call of the tour that was not seen after those before it, and all after it."""
    rest = iter(seen)
    return next((tour[place:] for place, call in enumerate(tour) if call not in rest), [])


async def test_a_creation_and_a_page_are_as_the_tour_says(tmp_path: Path) -> None:
    async with opened(sqlite_url_in(tmp_path)) as engine:
        await fill(engine)
        async with running(engine, features=[]) as application:
            with calls() as seen:
                path = await application.create(sample_size=5)
            assert missing(listed(1), seen) == []
            with calls() as seen:
                page = await application.http.get(path, params={"limit": 5, "offset": 10})
            assert page.json()["data"][0]["id"] == 11
            assert missing(listed(2), seen) == []


@pytest.mark.parametrize("table", [1, 2])
def test_a_step_in_another_place_is_noticed(table: int) -> None:
    tour = listed(table)
    assert len(tour) > 15
    assert missing(tour, tour) == []
    assert missing(tour, [*tour[1:], tour[0]]) != []
    assert missing(tour, tour[:-1]) == [tour[-1]]
