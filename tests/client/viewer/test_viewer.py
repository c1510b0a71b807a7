"""`dualsql view` by keyboard, on 80 by 24 characters: every row is found, shown and saved; cells have no effect."""

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
from rich.cells import cell_len
from rich.console import Console
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
    literal,
    select,
)
from sqlalchemy.schema import CreateTable
from textual.pilot import Pilot

from dualsql_client import DualResponseClient, ParsedDualResponse
from dualsql_client.cli.commands import view_command
from dualsql_client.view import pages
from dualsql_client.view.app import Viewer
from dualsql_client.view.pages import ROWS_OF_A_PAGE, AnswerLine, FullRow, TablePages
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
class ViewerSession:
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


Sit = Callable[..., AbstractAsyncContextManager[ViewerSession]]


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
def open_viewer(served: Served) -> Sit:
    """A function from a statement to a session in front of its result."""

    @asynccontextmanager
    async def open_viewer(
        statement: Select[Any] = ORDERED,
        prepare: Callable[[ParsedDualResponse], Any] = id,
        size: tuple[int, int] = (80, 24),
        **options: Any,
    ) -> AsyncIterator[ViewerSession]:
        async with DualResponseClient(served.base_url) as client:
            parsed = client.parse(await served.tool_result_of(statement, **options), strict=True)
            app = Viewer(parsed, await parsed.get_metadata())
            if isinstance(prepared := prepare(parsed), Awaitable):
                await prepared
            async with app.run_test(size=size) as pilot:
                session = ViewerSession(app, pilot, parsed)
                await session.settle()
                yield session

    return open_viewer


def ids(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


async def test_the_first_screen_says_what_there_is_and_which_keys(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        lines = session.screen.splitlines()
    assert len(lines) == 24 and max(map(len, lines)) <= 80
    assert re.fullmatch(r" Schools · 850 rows · expires in 1[45] min", lines[0])
    assert lines[1].split() == ["id", "name", "size", "extra"]
    assert "page 1 of 9 · row 1" in lines[-2]
    for key in (
        "⏎ Row",
        "n/p Page",
        "g Go",
        "s Sort",
        "/ Find",
        "f Filter",
        "i Info",
        "v Values",
        "w Save",
        "k Pin",
        "q Quit",
    ):
        assert key in lines[-1]


@pytest.mark.long
async def test_pages_both_ways_without_holding_everything(
    open_viewer: Sit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGES_IN_MEMORY", 3)
    async with open_viewer() as session:
        seen = session.ids
        for number in range(2, LAST + 1):
            screen = await session.press("n")
            assert f"page {number} of {LAST}" in screen
            seen += session.ids
        assert seen == ids(1, len(ROWS))
        assert session.app._pages.in_memory == 3
        assert "This is the last page." in await session.press("n")
        for number in range(LAST - 1, 0, -1):
            await session.press("p")
            assert session.ids == ids(number * 100 - 99, number * 100)
        assert "This is the first page." in await session.press("p")


@pytest.mark.long
async def test_the_cursor_leads_over_the_edges(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        await session.press("up")
        assert session.row == 1
        await session.press("end", "ctrl+end", "down")
        assert (session.row, session.app._pages.number) == (101, 1)
        await session.press("up")
        assert (session.row, session.app._pages.number) == (100, 0)
        for _ in range(4):
            await session.press("pagedown")
        assert session.app._pages.number == 1


async def test_pages_beside_each_other_are_asked_for_by_cursor(served: Served, database: str) -> None:
    """The last page then costs what the first does, and rows that come meanwhile move nothing."""
    async with DualResponseClient(served.base_url) as client:
        leafing = TablePages(client.parse(await served.tool_result_of(ORDERED), strict=True))
        await leafing.turn_to(4)
        change(database, delete(SCHOOLS).where(SCHOOLS.c.id <= 3))
        after, before = await leafing.turn_to(5), await leafing.turn_to(3)
        change(database, insert(SCHOOLS).values(ROWS[:3]))
    assert after and [row["id"] for row in after.data] == ids(501, 600)
    assert before and [row["id"] for row in before.data] == ids(301, 400)


@pytest.mark.long
async def test_jumps_to_a_page(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        assert "page 7 of 9" in await session.answer("g", "7")
        assert session.ids == ids(601, 700)
        assert "page 9 of 9" in await session.answer("g", "1,000,000")
        assert session.ids == ids(801, 850)
        for wrong in ("0", "abc", "9" * 40):
            assert "The page must be a number" in await session.answer("g", wrong)
        assert session.ids == ids(801, 850)


@pytest.mark.long
async def test_sorts_by_the_cursor_s_column(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        await session.answer("g", "3")
        screen = await session.press("right", "right", "s")
        assert "size ▲" in screen and "page 1 of 9" in screen
        sizes = {row["id"]: row["size"] for row in ROWS}
        shown = [sizes[number] for number in session.ids if sizes[number] is not None]
        assert shown == sorted(shown)
        assert "size ▼" in await session.press("s")
        await session.press("n")
        shown = [sizes[number] for number in session.ids if sizes[number] is not None]
        assert shown == sorted(shown, reverse=True)
        screen = await session.press("s")
        assert "▲" not in screen and "▼" not in screen
        assert session.ids == ids(1, ROWS_OF_A_PAGE)


@pytest.mark.long
async def test_sorts_by_the_heading_that_is_clicked(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        await session.pilot.click("RowsTable", offset=(2, 0))
        await session.settle()
        await session.pilot.click("RowsTable", offset=(2, 0))
        await session.settle()
        assert session.ids == list(range(850, 750, -1))


@pytest.mark.long
async def test_finds_in_what_is_loaded(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        assert "Not found on the 1 loaded pages" in await session.answer("slash", "School 150")
        await session.press("n")
        await session.press("p")
        await session.answer("slash", "sCHOOL 150")
        assert (session.app._pages.number, session.row) == (1, 150)
        await session.answer("slash", "School 11")
        assert session.row == 11, "round to the beginning"
        await session.press("slash", "enter")
        assert session.row == 110, "the same again is the next one"


async def test_numbers_and_their_nulls_stand_on_the_right(open_viewer: Sit) -> None:
    thousands = (SCHOOLS.c.size * 100_000).label("size")
    async with open_viewer(select(SCHOOLS.c.id, SCHOOLS.c.name, thousands).order_by(SCHOOLS.c.id)) as session:
        heading, *lines = session.screen.splitlines()[1:12]
    end = heading.index("size") + len("size")
    sizes = ["NULL" if row["size"] is None else str(row["size"] * 100_000) for row in ROWS[:10]]
    assert [line[:end].split()[-1] for line in lines] == sizes
    assert [len(line[:end].rstrip()) for line in lines] == [end] * 10


LONG = select(SCHOOLS.c.id, (SCHOOLS.c.name + " " + "x" * 100 + "end").label("long"), SCHOOLS.c.size)


@pytest.mark.long
async def test_cells_use_the_width_of_the_screen(open_viewer: Sit) -> None:
    async with open_viewer(LONG.order_by(SCHOOLS.c.id), size=(200, 24)) as session:
        assert "xend" in session.screen and "…" not in session.screen
        await session.press("down", "right")
        await session.pilot.resize_terminal(80, 24)
        screen = await session.press()
        assert "xend" not in screen and "x…" in screen
        line = screen.splitlines()[3]
        assert line.index("…") > 60, "what is free is used"
        assert "row 2" in screen and session.app.rows.cursor_column == 1, "the cursor stays"
        assert session.app.rows.fixed_columns == 0


@pytest.mark.long
async def test_the_first_column_stays_on_a_narrow_screen(open_viewer: Sit) -> None:
    wide = [(SCHOOLS.c.name + f" of column {number}").label(f"c{number}") for number in range(8)]
    async with open_viewer(select(SCHOOLS.c.id, *wide).order_by(SCHOOLS.c.id)) as session:
        assert "column 7" not in session.screen
        screen = await session.press(*["right"] * 8)
        assert "column 7" in screen and "column 0" not in screen
        first = [line.split()[0] for line in screen.splitlines()[1:6]]
        assert first == ["id", "1", "2", "3", "4"]


def test_widths() -> None:
    assert pages.widths_within(100, [3, 10, 20]) == [3, 10, 20]
    assert pages.widths_within(100, [3, 400, 400]) == [3, 48, 49]
    assert pages.widths_within(100, [3, 45, 400]) == [3, 45, 52]
    assert pages.widths_within(50, [400, 40, 30]) == [16, 40, 30]
    assert pages.widths_within(0, [5]) == [1]


FAMILY, FLAG = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1fa\U0001f1f8"


@pytest.mark.parametrize("sign", [FLAG, FAMILY, "e\u0301"])
@pytest.mark.parametrize("width", range(1, 12))
def test_a_cell_is_cut_between_whole_signs(sign: str, width: int) -> None:
    cell = pages._cell(sign * 20, {"name": "sign", "type": "string", "encoding": "text"})
    console = Console(width=width)
    [line] = console.render_lines(cell, console.options)
    text = "".join(segment.text for segment in line)
    assert text.rstrip() == sign * ((width - 1) // cell_len(sign)) + "…"
    assert cell_len(text) == width


def halves_in(screen: str) -> list[str]:
    """The lines with half a flag, of which a blank or the frame stands at one side, or with flags of other letters."""
    lines = [line.replace(FLAG, "") for line in screen.splitlines()]
    return [line for line in lines if re.search("[\U0001f1e6-\U0001f1ff]", line)]


@pytest.mark.long
@pytest.mark.parametrize("width", [60, 61])
async def test_a_narrow_screen_shows_whole_signs(open_viewer: Sit, width: int) -> None:
    signs = select(SCHOOLS.c.id, literal(FLAG * 300).label("flags"), literal(FAMILY * 30).label("families"))
    signs = signs.add_columns(literal(FLAG * 15).label("more"), literal("end").label("last"))
    async with open_viewer(signs.order_by(SCHOOLS.c.id), size=(width, 24)) as session:
        assert FLAG in session.screen and not halves_in(session.screen)
        for _ in range(4):
            screen = await session.press("right")
            assert not halves_in(screen)
            assert not screen.replace(FAMILY, "").count("\u200d")
        screen = await session.press("enter")
        assert screen.count(FLAG) > 100 and not halves_in(screen)


@pytest.mark.long
async def test_filters_by_the_cursor_s_column(open_viewer: Sit, tmp_path: Path) -> None:
    sizes = {row["id"]: row["size"] for row in ROWS}
    large = [number for number, size in sizes.items() if size is not None and size > 800]
    async with open_viewer() as session:
        session.app.rows.move_cursor(column=2)
        screen = await session.answer("f", ">800")
        assert f"Schools · {len(large)} rows where size > 800" in screen.splitlines()[0]
        assert "page 1 of 2" in screen
        shown = session.ids
        await session.press("n")
        assert shown + session.ids == large
        await session.press("s")
        assert [sizes[number] for number in session.ids] == sorted(sizes[number] for number in large)[:100]
        await session.answer("w", str(tmp_path / "large.ndjson"))
        saved = [json.loads(line)["id"] for line in (tmp_path / "large.ndjson").read_text().splitlines()]
        assert saved == sorted(large, key=lambda number: sizes[number] or 0)
        await session.press("s", "s")
        assert "Schools · 850 rows ·" in await session.answer("f", "")
        assert session.ids == ids(1, 100)


FILTERS = [
    (0, "= 7", [7]), (0, "7", [7]), (0, "<=3", [1, 2, 3]), (0, "!=1", ids(2, 101)),
    (1, "School 84", [84, *range(840, 850)]), (1, "=School 12", [12]), (1, "= [bold", []),
    (2, "null", list(range(10, 851, 10))), (2, "not null", [at for at in ids(1, 111) if at % 10][:100]),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("column", "written", "expected"), FILTERS)
async def test_what_a_filter_finds(open_viewer: Sit, column: int, written: str, expected: list[int]) -> None:
    async with open_viewer() as session:
        session.app.rows.move_cursor(column=column)
        await session.answer("f", written)
        assert session.ids == expected


@pytest.mark.long
async def test_a_filter_that_does_not_fit_leaves_the_rows(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        session.app.rows.move_cursor(column=2)
        assert "no integer" in await session.answer("f", "> many")
        assert session.ids == ids(1, 100) and "850 rows ·" in session.screen


@pytest.mark.long
async def test_what_the_columns_hold_and_the_values_of_one(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        screen = await session.press("i")
        assert "Columns of all" in screen and "most frequent" in screen
        assert len({name for name in ("id", "name", "size") if name in screen}) == 3
        await session.press("escape")
        session.app.rows.move_cursor(row=0, column=2)
        screen = await session.press("v")
        assert "Values of size" in screen and "filters by it" in screen
        await session.press("enter")
        assert "where size" in session.screen
        assert "Columns of" in await session.press("i")  # of the rows that the filter leaves


async def test_shows_a_row_in_full(open_viewer: Sit) -> None:
    long = select(SCHOOLS.c.id, (SCHOOLS.c.name + "x" * 500).label("long"), SCHOOLS.c.size, SCHOOLS.c.extra)
    async with open_viewer(long.order_by(SCHOOLS.c.id)) as session:
        assert "xxx…" in session.screen
        session.app.rows.move_cursor(row=9)
        screen = await session.press("enter")
        assert isinstance(session.app.screen, FullRow)
        assert "Row 10" in screen and "esc Back" in screen
        assert screen.count("x") >= 500
        assert "NULL" in screen and '"tags": [' in screen
        assert "page 1 of 9" in await session.press("escape")
        assert session.row == 10


@pytest.mark.long
async def test_no_cell_does_anything(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        screens = {0: session.screen}
        for number in HOSTILE:
            session.app.rows.move_cursor(row=number - 1)
            screens[number] = await session.press("enter")
            await session.pilot.press("escape")
    for screen in screens.values():
        assert all(character.isprintable() or character == "\n" for character in screen)
    assert "[bold red]not markup[/] [link=file:///etc/passwd]x[/link]" in screens[4]
    assert "[2J" in screens[5]
    assert [word in screens[6] for word in ("one", "two three", "four")] == [True] * 3


@pytest.mark.long
async def test_saves_all_rows_in_the_order_that_is_shown(open_viewer: Sit, tmp_path: Path) -> None:
    target = tmp_path / "schools.ndjson"
    async with open_viewer() as session:
        await session.press("s")
        await session.press("s")
        saved = await session.answer("w", str(target))
        assert "Saved" in saved and "schools.ndjson." in saved.replace("\n ", "")  # it wraps
        lines = target.read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == list(range(850, 0, -1))
        target.write_text("mine")
        assert "Press Enter again to replace it" in await session.answer("w", str(target))
        assert target.read_text() == "mine"
        await session.press("escape")
        assert target.read_text() == "mine"
        await session.answer("w", str(target))
        await session.press("enter")
        assert len(target.read_text().splitlines()) == len(ROWS)
        assert "suffix must be one of" in await session.answer("w", str(tmp_path / "schools.ods"))
        screen = await session.answer("w", str(tmp_path / "no" / "schools.csv"))
        assert "There is no such folder" in " ".join(screen.split())  # it wraps
        screen = await session.press("w")
        assert session.app.query_one(AnswerLine).value == "schools.csv"
        assert screen.splitlines()[-1].strip() == "⏎ OK esc Leave"
        await session.press("ctrl+u", "slash", "n", "q", "question_mark")
        assert session.app.query_one(AnswerLine).value == "/nq?"


@pytest.mark.long
async def test_pins(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        screen = await session.press("k")
        assert "Schools · 850 rows · pinned" in screen and "does not expire" in screen
        assert (await session.parsed.get_metadata()).status == "pinned"
        screen = await session.press("k")
        assert "expires in" in screen.splitlines()[0] and "Unpinned" in screen
        assert (await session.parsed.get_metadata()).status == "ready"


@pytest.mark.long
async def test_tells_that_the_time_is_over(open_viewer: Sit) -> None:
    def end(parsed: ParsedDualResponse) -> None:
        parsed.expires_at = datetime(2026, 1, 1, tzinfo=UTC)

    async with open_viewer(prepare=end) as session:
        # The first page brought the server's word for it, which is later.
        assert re.search(r"expires in 1[45] min", session.screen)
        end(session.parsed)
        session.app._show_title()
        await session.settle()
        assert "expired" in session.screen


@pytest.mark.long
async def test_a_failure_is_a_line_and_the_page_stays(open_viewer: Sit) -> None:
    async with open_viewer() as session:
        await session.parsed.delete()
        assert "Run the query again" in await session.press("n")
        assert session.ids == ids(1, 100)
        assert "Run the query again" in await session.press("s")
        assert "▲" not in session.screen
        assert "page 1 of 9" in await session.press("down")


@pytest.mark.long
async def test_nothing_is_there_to_be_shown(open_viewer: Sit) -> None:
    async with open_viewer(
        select(SCHOOLS).where(SCHOOLS.c.id < 0), prepare=lambda parsed: parsed.delete()
    ) as session:
        assert "Run the query again" in session.screen
        await session.press("enter", "s", "n", "p", "slash", "enter", "down", "up")
    async with open_viewer(select(SCHOOLS).where(SCHOOLS.c.id < 0)) as session:
        assert "Schools · 0 rows" in session.screen and "No rows." in session.screen
        await session.press("enter", "down", "up", "pagedown", "n", "p")


@pytest.mark.long
async def test_a_total_nobody_counted(open_viewer: Sit) -> None:
    async with open_viewer(count="none") as session:
        assert "an unknown number of rows" in session.screen and "page 1 ·" in session.screen
        assert "There is no page 99." in await session.answer("g", "99")
        assert session.ids == ids(1, 100)
        await session.answer("g", "9")
        assert session.ids == ids(801, 850)
        assert "This is the last page." in await session.press("n")


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
