"""The viewer of a result in the terminal. The screen lists every key, and shows every error as a line."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, Literal

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from dualsql_client.answers import FetchResult, ResourceMetadata
from dualsql_client.errors import DualResponseClientError
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.preview import expiry_in_words, printable, total_in_words
from dualsql_client.progress import Progress, progress_text
from dualsql_client.view.pages import AnswerLine, CellPosition, FullRow, Pages, RowsTable, read_filter
from dualsql_client.wire import Column, SortKey

Question = Literal["page", "find", "filter", "save"]

_QUESTIONS: dict[Question, str] = {
    "page": "Go to which page?",
    "find": "Search the loaded pages for what?",
    "filter": "",  # of the cursor's column
    "save": "Save all rows as? (.csv .ndjson .parquet .arrow .xlsx .duckdb .sqlite)",
}


class Viewer(App[None]):
    """Pages, sorts, searches, saves and pins one result.

    Args:
        metadata: as the server just told it.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { background: $primary; color: $text; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #status { height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
    AnswerLine { height: 1; border: none; padding: 0 1; display: none; }
    AnswerLine.asked { display: block; }
    RowsTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "turn(1)", "Next"),
        Binding("p", "turn(-1)", "Prev"),
        Binding("g", "ask('page')", "Page"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "ask('find')", "Find", key_display="/"),
        Binding("f", "ask('filter')", "Filter"),
        Binding("w", "ask('save')", "Save"),
        Binding("k", "pin", "Pin"),
        Binding("q", "quit", "Quit"),
        Binding("escape", "leave", "Leave", show=False),
    ]

    def __init__(self, parsed: ParsedDualResponse, metadata: ResourceMetadata) -> None:
        super().__init__()
        self._parsed = parsed
        self._pages = Pages(parsed)
        self._called = printable(metadata.name, 60) or "Result"
        self._is_pinned = metadata.status == "pinned"
        self._question: Question = "page"
        self._found = ""
        self._replaces: Path | None = None

    def compose(self) -> ComposeResult:
        """A line about the result, its rows, a line about what is open, a line to answer on, and the keys."""
        yield Static(id="title")
        yield RowsTable(cursor_type="cell", zebra_stripes=True)
        yield Static(id="status")
        yield AnswerLine(id="answer")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Open the first page."""
        self.rows.focus()
        self._tell_title()
        self.set_interval(1, self._tell_title)
        self._begin(self._turn_to(0))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the other keys while the line for input is open."""
        return action != "ask" or not isinstance(self.focused, AnswerLine)

    @property
    def rows(self) -> RowsTable:
        """The table."""
        return self.query_one(RowsTable)

    @property
    def _column(self) -> Column | None:
        """The cursor's; None without rows."""
        page = self._pages.open
        return page.columns[self.rows.cursor_column] if page and page.columns else None

    def action_turn(self, pages: int) -> None:
        """Go on, or back, by so many pages."""
        number = self._pages.number + pages
        if number < 0:
            self._say("This is the first page.")
        elif pages > 0 and self._pages.open and not self._pages.open.has_next:
            self._say("This is the last page.")
        else:
            self._begin(self._turn_to(number, at_end=False))

    def action_ask(self, question: Question) -> None:
        """Ask for a page, a text, a filter or a file's name on the line above the keys."""
        if question == "filter" and self._column is None:
            return
        self._question, self._replaces = question, None
        answer = self.query_one(AnswerLine)
        answer.value = self._answer_at_first()
        answer.add_class("asked")
        answer.focus()
        self._say(_QUESTIONS[question] or self._question_of_filter())

    def action_leave(self) -> None:
        """Back to the rows: without an answer, without the file that is being written."""
        self.query_one(AnswerLine).remove_class("asked")
        self.rows.focus()
        self._tell_status()
        if self.workers.cancel_group(self, "save"):
            self._say("Not saved.")

    def action_sort(self) -> None:
        """Sort by the cursor's column: up, down, and as it was."""
        self._sort_by(self.rows.cursor_column)

    def action_pin(self) -> None:
        """Keep the result until it is deleted; once more, and it expires again."""
        self._begin(self._pin())

    def on_rows_table_left(self, message: RowsTable.Left) -> None:
        """The cursor went over an edge."""
        if message.pages < 0 and self._pages.number:
            self._begin(self._turn_to(self._pages.number - 1, at_end=True))
        else:
            self.action_turn(message.pages)

    def on_data_table_header_selected(self, message: DataTable.HeaderSelected) -> None:
        """A heading was clicked."""
        self._sort_by(message.column_index)

    def on_data_table_cell_selected(self, message: DataTable.CellSelected) -> None:
        """Show the cursor's row in full."""
        page = self._pages.open
        if page and page.data:
            row = message.coordinate.row
            title = f"Row {page.offset + row + 1:,}"
            self.push_screen(FullRow(title, page.data[row], page.columns))

    def on_data_table_cell_highlighted(self) -> None:
        """The cursor moved."""
        self._tell_status()

    def on_input_submitted(self, message: AnswerLine.Submitted) -> None:
        """An answer was given."""
        answer = message.value.strip()
        if self._question == "save" and answer and not self._may_write(Path(answer)):
            return
        self.action_leave()
        if answer or self._question == "filter":
            self._answered(answer)

    def _answered(self, answer: str) -> None:
        match self._question:
            case "page":
                self._go_to(answer)
            case "find":
                self._find(answer)
            case "filter":
                self._filter(answer)
            case "save":
                self._save(answer)

    def _question_of_filter(self) -> str:
        name = printable(self._column["name"], 30) if self._column else ""
        return f"Rows whose {name} is? (> 5, = NJ, != 0, null, not null, part of a text; empty for all rows)"

    def _filter(self, answer: str) -> None:
        if self._column is not None:
            found = read_filter(self._column, answer) if answer else None
            self._begin(self._show_anew(self._pages.filter_by(found)))

    def _answer_at_first(self) -> str:
        if self._question == "save":
            return (re.sub(r"[^\w.-]+", "-", self._called).strip("-.").lower() or "rows") + ".csv"
        return self._found if self._question == "find" else ""

    def _go_to(self, answer: str) -> None:
        written = answer.replace(",", "")
        if not (written.isascii() and written.isdigit() and 0 < len(written) < 16 and int(written)):
            self._say("The page must be a number from 1.")
        else:
            self._begin(self._turn_to(int(written) - 1))

    def _find(self, answer: str) -> None:
        self._found = answer
        at = self.rows.cursor_coordinate
        place = self._pages.find(answer, CellPosition(self._pages.number, at.row, at.column))
        if place is None:
            self._say(f"Not found on the {self._pages.held} loaded pages: {printable(answer, 40)}")
        else:
            self._begin(self._turn_to(place.page, place=place))

    def _may_write(self, path: Path) -> bool:
        """Whether no file is in the way, or it was said twice that it may go."""
        if not path.exists() or path == self._replaces:
            return True
        self._replaces = path
        self._say("The file exists. Press Enter again to replace it, or Esc to cancel.")
        return False

    def _save(self, answer: str) -> None:
        self.run_worker(self._guarded(self._write(Path(answer))), group="save", exclusive=True)

    def _sort_by(self, column: int) -> None:
        page = self._pages.open
        if page and page.columns:
            order = _next_order(self._pages.sort, page.columns[column]["name"])
            self._begin(self._show_anew(self._pages.sort_by(order)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        # One at a time: whoever presses a key again does not want the page before it any more.
        self.run_worker(self._guarded(work), group="page", exclusive=True)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (DualResponseClientError, ValueError) as error:
            self._say(str(error))
        except OSError as error:
            self._say(f"{error.filename}: {error.strerror}")

    async def _turn_to(self, number: int, *, at_end: bool = False, place: CellPosition | None = None) -> None:
        page = await self._pages.turn_to(number)
        if page is None:
            self._say(f"There is no page {number + 1:,}.")
            return
        self.rows.show(page, self._pages.sort)
        if at_end:
            self.rows.move_cursor(row=len(page.data) - 1)
        if place:
            self.rows.move_cursor(row=place.row, column=place.column)
        self._tell_title()
        self._tell_status()

    async def _show_anew(self, asked: Awaitable[FetchResult | None]) -> None:
        page = await asked
        if page is not None:
            self.rows.show(page, self._pages.sort)
        self._tell_title()
        self._tell_status()

    async def _pin(self) -> None:
        if self._is_pinned:
            self._is_pinned = not await self._parsed.unpin()
        else:
            self._is_pinned = await self._parsed.pin()
        self._tell_title()
        self._say("Pinned: it does not expire." if self._is_pinned else "Unpinned: it expires.")

    async def _write(self, path: Path) -> None:
        def tell(progress: Progress) -> None:
            self._say(f"Saving {progress_text(progress)} (Esc to cancel)")

        shown = await self._pages.refined()
        saved = await shown.save(path, sort=self._pages.sort, progress=tell)
        self._say(f"Saved {saved}.")

    def _tell_title(self) -> None:
        expiry = "pinned" if self._is_pinned else expiry_in_words(self._parsed.time_left())
        total = total_in_words(self._pages.total, self._pages.kind)
        where = f" where {self._pages.filter.words}" if self._pages.filter else ""
        facts = [self._called, total + where, expiry]
        self._write_line("#title", " · ".join(fact for fact in facts if fact))

    def _tell_status(self) -> None:
        page = self._pages.open
        if page is None:
            return
        last = self._pages.last
        of = "" if last is None else f" of {last + 1:,}"
        at = f"page {self._pages.number + 1:,}{of} · row {page.offset + self.rows.cursor_row + 1:,}"
        self._say(at if page.data else "No rows.")

    def _say(self, words: str) -> None:
        self._write_line("#status", printable(words, 400))

    def _write_line(self, line: str, words: str) -> None:
        # None is there any more when the clock ticks while the screen is taken down.
        for found in self.query(line).results(Static):
            found.update(Text(words))


def _next_order(sort: SortKey | None, name: str) -> SortKey | None:
    if sort is None or sort["field"] != name:
        return {"field": name, "order": "asc"}
    return {"field": name, "order": "desc"} if sort.get("order") != "desc" else None
