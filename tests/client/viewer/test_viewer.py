"""Can a person with a keyboard and 80 by 24 characters find, see and keep every row, and does none of them do harm?"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import (
    JSON,
    Column,
    Executable,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    create_engine,
    delete,
    insert,
    select,
)
from sqlalchemy.schema import CreateTable
from textual.pilot import Pilot

from dualsql_client import DualResponseClient, ParsedDualResponse
from dualsql_client.cli.commands import view_command
from dualsql_client.view import pages
from dualsql_client.view.app import Viewer
from dualsql_client.view.pages import ROWS_OF_A_PAGE, AnswerLine, FullRow, Pages
from tests.client.reading import until
from tests.client.served import Served, serving_results

METADATA = MetaData()
SCHOOLS = Table(
    "schools",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text),
    Column("size", Integer),
    Column("extra", JSON),
)
HOSTILE = {
    4: "[bold red]not markup[/] [link=file:///etc/passwd]x[/link] [@click=app.quit]y[/]",
    5: "\x1b[2J\x1b]0;title\x07\x9b31m",
    6: "one\ntwo\tthree\r\nfour",
    7: "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
}
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "name": HOSTILE.get(number, f"School {number}"),
        "size": None if number % 10 == 0 else number * 37 % 1009,
        "extra": {"tags": [number, "é"]},
    }
    for number in range(1, 851)
]
ORDERED = select(SCHOOLS).order_by(SCHOOLS.c.id)
LAST = 9


@dataclass
class Seat:
    """In front of the screen."""

    app: Viewer
    pilot: Pilot[None]
    parsed: ParsedDualResponse

    async def press(self, *keys: str) -> str:
        """What is on the screen once all that came of it is over."""
        await self.pilot.press(*keys)
        await self.settle()
        return self.screen

    async def answer(self, key: str, text: str) -> str:
        """Press a key that asks, and answer."""
        await self.pilot.press(key)
        self.app.query_one(AnswerLine).value = text  # as if it had been pasted: typing takes its time
        return await self.press("enter")

    async def settle(self) -> None:
        # A worker that ends may have messages handled that begin another one.
        for _ in range(2):
            await self.app.workers.wait_for_complete()
            await self.pilot.pause()

    @property
    def screen(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def ids(self) -> list[int]:
        rows = self.app.rows
        return [int(rows.get_row_at(at)[0].plain) for at in range(rows.row_count)]

    @property
    def row(self) -> int:
        """The id in the cursor's row."""
        return self.ids[self.app.rows.cursor_row]


Sit = Callable[..., AbstractAsyncContextManager[Seat]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('schools') / 'schools.sqlite'}"
    change(url, CreateTable(SCHOOLS), insert(SCHOOLS).values(ROWS))
    return url


@pytest.fixture(scope="module")
async def served(anyio_backend: str, database: str) -> AsyncIterator[Served]:
    async with serving_results(database, METADATA, ORDERED) as served:
        yield served


def change(database: str, *statements: Executable) -> None:
    engine = create_engine(database)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(statement)
    engine.dispose()


@pytest.fixture
def sit(served: Served) -> Sit:
    """A function from a statement to a seat in front of its result."""

    @asynccontextmanager
    async def sit(
        statement: Select[Any] = ORDERED,
        prepare: Callable[[ParsedDualResponse], Any] = id,
        size: tuple[int, int] = (80, 24),
        **options: Any,
    ) -> AsyncIterator[Seat]:
        async with DualResponseClient(served.base_url) as client:
            parsed = client.parse(await served.tool_result_of(statement, **options), strict=True)
            app = Viewer(parsed, await parsed.get_metadata())
            if isinstance(prepared := prepare(parsed), Awaitable):
                await prepared
            async with app.run_test(size=size) as pilot:
                seat = Seat(app, pilot, parsed)
                await seat.settle()
                yield seat

    return sit


def ids(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


async def test_the_first_screen_says_what_there_is_and_which_keys(sit: Sit) -> None:
    async with sit() as seat:
        lines = seat.screen.splitlines()
    assert len(lines) == 24 and max(map(len, lines)) <= 80
    assert re.fullmatch(r" Schools · 850 rows · expires in 1[45] min", lines[0])
    assert lines[1].split() == ["id", "name", "size", "extra"]
    assert "page 1 of 9 · row 1" in lines[-2]
    for key in (
        "⏎ Row",
        "n Next",
        "p Prev",
        "g Page",
        "s Sort",
        "/ Find",
        "f Filter",
        "w Save",
        "k Pin",
        "q Quit",
    ):
        assert key in lines[-1]


@pytest.mark.long
async def test_pages_both_ways_without_holding_everything(sit: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES_HELD", 3)
    async with sit() as seat:
        seen = seat.ids
        for number in range(2, LAST + 1):
            screen = await seat.press("n")
            assert f"page {number} of {LAST}" in screen
            seen += seat.ids
        assert seen == ids(1, len(ROWS))
        assert seat.app._pages.held == 3
        assert "This is the last page." in await seat.press("n")
        for number in range(LAST - 1, 0, -1):
            await seat.press("p")
            assert seat.ids == ids(number * 100 - 99, number * 100)
        assert "This is the first page." in await seat.press("p")


async def test_the_cursor_leads_over_the_edges(sit: Sit) -> None:
    async with sit() as seat:
        await seat.press("up")
        assert seat.row == 1
        await seat.press("end", "ctrl+end", "down")
        assert (seat.row, seat.app._pages.number) == (101, 1)
        await seat.press("up")
        assert (seat.row, seat.app._pages.number) == (100, 0)
        for _ in range(4):
            await seat.press("pagedown")
        assert seat.app._pages.number == 1


async def test_pages_beside_each_other_are_asked_for_by_cursor(served: Served, database: str) -> None:
    """The last page then costs what the first does, and rows that come meanwhile move nothing."""
    async with DualResponseClient(served.base_url) as client:
        leafing = Pages(client.parse(await served.tool_result_of(ORDERED), strict=True))
        await leafing.turn_to(4)
        change(database, delete(SCHOOLS).where(SCHOOLS.c.id <= 3))
        after, before = await leafing.turn_to(5), await leafing.turn_to(3)
        change(database, insert(SCHOOLS).values(ROWS[:3]))
    assert after and [row["id"] for row in after.data] == ids(501, 600)
    assert before and [row["id"] for row in before.data] == ids(301, 400)


@pytest.mark.long
async def test_jumps_to_a_page(sit: Sit) -> None:
    async with sit() as seat:
        assert "page 7 of 9" in await seat.answer("g", "7")
        assert seat.ids == ids(601, 700)
        assert "page 9 of 9" in await seat.answer("g", "1,000,000")
        assert seat.ids == ids(801, 850)
        for wrong in ("0", "abc", "9" * 40):
            assert "The page must be a number" in await seat.answer("g", wrong)
        assert seat.ids == ids(801, 850)


@pytest.mark.long
async def test_sorts_by_the_cursor_s_column(sit: Sit) -> None:
    async with sit() as seat:
        await seat.answer("g", "3")
        screen = await seat.press("right", "right", "s")
        assert "size ▲" in screen and "page 1 of 9" in screen
        sizes = {row["id"]: row["size"] for row in ROWS}
        shown = [sizes[number] for number in seat.ids if sizes[number] is not None]
        assert shown == sorted(shown)
        assert "size ▼" in await seat.press("s")
        await seat.press("n")
        shown = [sizes[number] for number in seat.ids if sizes[number] is not None]
        assert shown == sorted(shown, reverse=True)
        screen = await seat.press("s")
        assert "▲" not in screen and "▼" not in screen
        assert seat.ids == ids(1, ROWS_OF_A_PAGE)


async def test_sorts_by_the_heading_that_is_clicked(sit: Sit) -> None:
    async with sit() as seat:
        await seat.pilot.click("RowsTable", offset=(2, 0))
        await seat.settle()
        await seat.pilot.click("RowsTable", offset=(2, 0))
        await seat.settle()
        assert seat.ids == list(range(850, 750, -1))


@pytest.mark.long
async def test_finds_in_what_is_loaded(sit: Sit) -> None:
    async with sit() as seat:
        assert "Not found on the 1 loaded pages" in await seat.answer("slash", "School 150")
        await seat.press("n")
        await seat.press("p")
        await seat.answer("slash", "sCHOOL 150")
        assert (seat.app._pages.number, seat.row) == (1, 150)
        await seat.answer("slash", "School 11")
        assert seat.row == 11, "round to the beginning"
        await seat.press("slash", "enter")
        assert seat.row == 110, "the same again is the next one"


async def test_numbers_and_their_nulls_stand_on_the_right(sit: Sit) -> None:
    thousands = (SCHOOLS.c.size * 100_000).label("size")
    async with sit(select(SCHOOLS.c.id, SCHOOLS.c.name, thousands).order_by(SCHOOLS.c.id)) as seat:
        heading, *lines = seat.screen.splitlines()[1:12]
    end = heading.index("size") + len("size")
    sizes = ["NULL" if row["size"] is None else str(row["size"] * 100_000) for row in ROWS[:10]]
    assert [line[:end].split()[-1] for line in lines] == sizes
    assert [len(line[:end].rstrip()) for line in lines] == [end] * 10


LONG = select(SCHOOLS.c.id, (SCHOOLS.c.name + " " + "x" * 100 + "end").label("long"), SCHOOLS.c.size)


@pytest.mark.quick(2)
async def test_cells_use_the_width_of_the_screen(sit: Sit) -> None:
    async with sit(LONG.order_by(SCHOOLS.c.id), size=(200, 24)) as seat:
        assert "xend" in seat.screen and "…" not in seat.screen
        await seat.press("down", "right")
        await seat.pilot.resize_terminal(80, 24)
        screen = await seat.press()
        assert "xend" not in screen and "x…" in screen
        line = screen.splitlines()[3]
        assert line.index("…") > 60, "what is free is used"
        assert "row 2" in screen and seat.app.rows.cursor_column == 1, "the cursor stays"
        assert seat.app.rows.fixed_columns == 0


async def test_the_first_column_stays_on_a_narrow_screen(sit: Sit) -> None:
    wide = [(SCHOOLS.c.name + f" of column {number}").label(f"c{number}") for number in range(8)]
    async with sit(select(SCHOOLS.c.id, *wide).order_by(SCHOOLS.c.id)) as seat:
        assert "column 7" not in seat.screen
        screen = await seat.press(*["right"] * 8)
        assert "column 7" in screen and "column 0" not in screen
        first = [line.split()[0] for line in screen.splitlines()[1:6]]
        assert first == ["id", "1", "2", "3", "4"]


def test_widths() -> None:
    assert pages.widths_within(100, [3, 10, 20]) == [3, 10, 20]
    assert pages.widths_within(100, [3, 400, 400]) == [3, 48, 49]
    assert pages.widths_within(100, [3, 45, 400]) == [3, 45, 52]
    assert pages.widths_within(50, [400, 40, 30]) == [16, 40, 30]
    assert pages.widths_within(0, [5]) == [1]


@pytest.mark.quick(2)
async def test_filters_by_the_cursor_s_column(sit: Sit, tmp_path: Path) -> None:
    sizes = {row["id"]: row["size"] for row in ROWS}
    large = [number for number, size in sizes.items() if size is not None and size > 800]
    async with sit() as seat:
        seat.app.rows.move_cursor(column=2)
        screen = await seat.answer("f", ">800")
        assert f"Schools · {len(large)} rows where size > 800" in screen.splitlines()[0]
        assert "page 1 of 2" in screen
        shown = seat.ids
        await seat.press("n")
        assert shown + seat.ids == large
        await seat.press("s")
        assert [sizes[number] for number in seat.ids] == sorted(sizes[number] for number in large)[:100]
        await seat.answer("w", str(tmp_path / "large.ndjson"))
        saved = [json.loads(line)["id"] for line in (tmp_path / "large.ndjson").read_text().splitlines()]
        assert saved == sorted(large, key=lambda number: sizes[number] or 0)
        await seat.press("s", "s")
        assert "Schools · 850 rows ·" in await seat.answer("f", "")
        assert seat.ids == ids(1, 100)


FILTERS = [
    (0, "= 7", [7]), (0, "7", [7]), (0, "<=3", [1, 2, 3]), (0, "!=1", ids(2, 101)),
    (1, "School 84", [84, *range(840, 850)]), (1, "=School 12", [12]), (1, "= [bold", []),
    (2, "null", list(range(10, 851, 10))), (2, "not null", [at for at in ids(1, 111) if at % 10][:100]),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("column", "written", "expected"), FILTERS)
async def test_what_a_filter_finds(sit: Sit, column: int, written: str, expected: list[int]) -> None:
    async with sit() as seat:
        seat.app.rows.move_cursor(column=column)
        await seat.answer("f", written)
        assert seat.ids == expected


async def test_a_filter_that_does_not_fit_leaves_the_rows(sit: Sit) -> None:
    async with sit() as seat:
        seat.app.rows.move_cursor(column=2)
        assert "no integer" in await seat.answer("f", "> many")
        assert seat.ids == ids(1, 100) and "850 rows ·" in seat.screen


async def test_shows_a_row_in_full(sit: Sit) -> None:
    long = select(SCHOOLS.c.id, (SCHOOLS.c.name + "x" * 500).label("long"), SCHOOLS.c.size, SCHOOLS.c.extra)
    async with sit(long.order_by(SCHOOLS.c.id)) as seat:
        assert "xxx…" in seat.screen
        seat.app.rows.move_cursor(row=9)
        screen = await seat.press("enter")
        assert isinstance(seat.app.screen, FullRow)
        assert "Row 10" in screen and "esc Back" in screen
        assert screen.count("x") >= 500
        assert "NULL" in screen and '"tags": [' in screen
        assert "page 1 of 9" in await seat.press("escape")
        assert seat.row == 10


async def test_no_cell_does_anything(sit: Sit) -> None:
    async with sit() as seat:
        screens = {0: seat.screen}
        for number in HOSTILE:
            seat.app.rows.move_cursor(row=number - 1)
            screens[number] = await seat.press("enter")
            await seat.pilot.press("escape")
    for screen in screens.values():
        assert all(character.isprintable() or character == "\n" for character in screen)
    assert "[bold red]not markup[/] [link=file:///etc/passwd]x[/link]" in screens[4]
    assert "[2J" in screens[5]
    assert [word in screens[6] for word in ("one", "two three", "four")] == [True] * 3


@pytest.mark.long
async def test_saves_all_rows_in_the_order_that_is_shown(sit: Sit, tmp_path: Path) -> None:
    target = tmp_path / "schools.ndjson"
    async with sit() as seat:
        await seat.press("s")
        await seat.press("s")
        saved = await seat.answer("w", str(target))
        assert "Saved" in saved and "schools.ndjson." in saved.replace("\n ", "")  # it wraps
        lines = target.read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == list(range(850, 0, -1))
        target.write_text("mine")
        assert "Press Enter again to replace it" in await seat.answer("w", str(target))
        assert target.read_text() == "mine"
        await seat.press("escape")
        assert target.read_text() == "mine"
        await seat.answer("w", str(target))
        await seat.press("enter")
        assert len(target.read_text().splitlines()) == len(ROWS)
        assert "suffix must be one of" in await seat.answer("w", str(tmp_path / "schools.ods"))
        assert "There is no such folder" in await seat.answer("w", str(tmp_path / "no" / "schools.csv"))
        screen = await seat.press("w")
        assert seat.app.query_one(AnswerLine).value == "schools.csv"
        assert screen.splitlines()[-1].strip() == "⏎ OK esc Leave"
        await seat.press("ctrl+u", "slash", "n", "q", "question_mark")
        assert seat.app.query_one(AnswerLine).value == "/nq?"


async def test_pins(sit: Sit) -> None:
    async with sit() as seat:
        screen = await seat.press("k")
        assert "Schools · 850 rows · pinned" in screen and "does not expire" in screen
        assert (await seat.parsed.get_metadata()).status == "pinned"
        screen = await seat.press("k")
        assert "expires in" in screen.splitlines()[0] and "Unpinned" in screen
        assert (await seat.parsed.get_metadata()).status == "ready"


async def test_tells_that_the_time_is_over(sit: Sit) -> None:
    def end(parsed: ParsedDualResponse) -> None:
        parsed.expires_at = datetime(2026, 1, 1, tzinfo=UTC)

    async with sit(prepare=end) as seat:
        # The first page brought the server's word for it, which is later.
        assert re.search(r"expires in 1[45] min", seat.screen)
        end(seat.parsed)
        seat.app._tell_title()
        await seat.settle()
        assert "expired" in seat.screen


async def test_a_failure_is_a_line_and_the_page_stays(sit: Sit) -> None:
    async with sit() as seat:
        await seat.parsed.delete()
        assert "Run the query again" in await seat.press("n")
        assert seat.ids == ids(1, 100)
        assert "Run the query again" in await seat.press("s")
        assert "▲" not in seat.screen
        assert "page 1 of 9" in await seat.press("down")


async def test_nothing_is_there_to_be_shown(sit: Sit) -> None:
    async with sit(select(SCHOOLS).where(SCHOOLS.c.id < 0), prepare=lambda parsed: parsed.delete()) as seat:
        assert "Run the query again" in seat.screen
        await seat.press("enter", "s", "n", "p", "slash", "enter", "down", "up")
    async with sit(select(SCHOOLS).where(SCHOOLS.c.id < 0)) as seat:
        assert "Schools · 0 rows" in seat.screen and "No rows." in seat.screen
        await seat.press("enter", "down", "up", "pagedown", "n", "p")


@pytest.mark.long
async def test_a_total_nobody_counted(sit: Sit) -> None:
    async with sit(count="none") as seat:
        assert "an unknown number of rows" in seat.screen and "page 1 ·" in seat.screen
        assert "There is no page 99." in await seat.answer("g", "99")
        assert seat.ids == ids(1, 100)
        await seat.answer("g", "9")
        assert seat.ids == ids(801, 850)
        assert "This is the last page." in await seat.press("n")


@pytest.mark.long
async def test_the_command_in_a_terminal(served: Served) -> None:
    """A process of its own with a real terminal, as over ssh."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from dualsql_client.cli import main; main()", "view", served.url,
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
    )  # fmt: skip
    os.close(theirs)
    await until(ours, b"Quit")
    os.write(ours, b"n")
    await until(ours, b"School 101")
    os.write(ours, b"q")
    await until(ours, b"\x1b[?1049l")  # the screen is given back
    assert await process.wait() == 0
    os.close(ours)


def test_without_textual_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("textual", "dualsql_client.view"))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(typer.Exit):
        view_command("http://127.0.0.1:1/resources/abc")
    assert 'pip install "dualsql-client[view]"' in capsys.readouterr().err
