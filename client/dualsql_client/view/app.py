"""The viewer of a result in the terminal."""

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
from dualsql_client.preview import cell_text, expiry_in_words, printable, total_in_words
from dualsql_client.progress import Progress, progress_text
from dualsql_client.view.pages import (
    AnswerLine,
    CellPosition,
    FullRow,
    RowsTable,
    TablePages,
    filter_of,
    read_filter,
)
from dualsql_client.view.tables import TableScreen, covered_rows, summary_lines
from dualsql_client.wire import Column, SortKey

Question = Literal["page", "find", "filter", "save"]

_QUESTIONS: dict[Question, str] = {
    "page": "Go to which page?",
    "find": "Search the loaded pages for what?",
    "filter": "",  # depends on the cursor's column
    "save": "Save all rows as? (.csv .ndjson .parquet .arrow .xlsx .duckdb .sqlite)",
}


class Viewer(App[None]):
    """Pages, sorts, searches, saves and pins one result.

    Args:
        metadata: the current metadata of the result.
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
        # All keys fit into a line of 80 characters.
        Binding("n", "turn(1)", "Page", key_display="n/p"),
        Binding("p", "turn(-1)", "Prev", show=False),
        Binding("g", "ask('page')", "Go"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "ask('find')", "Find", key_display="/"),
        Binding("f", "ask('filter')", "Filter"),
        Binding("i", "summarise", "Info"),
        Binding("v", "count_values", "Values"),
        Binding("w", "ask('save')", "Save"),
        Binding("k", "pin", "Pin"),
        Binding("q", "quit", "Quit"),
        Binding("escape", "leave", "Leave", show=False),
    ]

    def __init__(self, parsed: ParsedDualResponse, metadata: ResourceMetadata) -> None:
        super().__init__()
        self._parsed = parsed
        self._pages = TablePages(parsed)
        self._result_name = printable(metadata.name, 60) or "Result"
        self._is_pinned = metadata.status == "pinned"
        self._question: Question = "page"
        self._search_text = ""
        self._replaces: Path | None = None

    def compose(self) -> ComposeResult:
        """The title, the rows, the status, the line for answers and the keys."""
        yield Static(id="title")
        yield RowsTable(cursor_type="cell", zebra_stripes=True)
        yield Static(id="status")
        yield AnswerLine(id="answer")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Open the first page."""
        self.rows.focus()
        self._show_title()
        self.set_interval(1, self._show_title)
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
        """The column of the cursor; None without rows."""
        page = self._pages.open
        return page.columns[self.rows.cursor_column] if page and page.columns else None

    def action_turn(self, pages: int) -> None:
        """Move so many pages forwards, or back."""
        number = self._pages.number + pages
        if number < 0:
            self._show_message("This is the first page.")
        elif pages > 0 and self._pages.open and not self._pages.open.has_next:
            self._show_message("This is the last page.")
        else:
            self._begin(self._turn_to(number, at_end=False))

    def action_ask(self, question: Question) -> None:
        """Ask for a page, a text, a filter or a file's name on the line above the keys."""
        if question == "filter" and self._column is None:
            return
        self._question, self._replaces = question, None
        answer = self.query_one(AnswerLine)
        answer.value = self._default_answer()
        answer.add_class("asked")
        answer.focus()
        self._show_message(_QUESTIONS[question] or self._question_of_filter())

    def action_leave(self) -> None:
        """Close the line for answers, and cancel the file that is being written."""
        self.query_one(AnswerLine).remove_class("asked")
        self.rows.focus()
        self._show_status()
        if self.workers.cancel_group(self, "save"):
            self._show_message("Not saved.")

    def action_sort(self) -> None:
        """Sort by the cursor's column: ascending, then descending, then in the result's own order."""
        self._sort_by(self.rows.cursor_column)

    def action_summarise(self) -> None:
        """Show what each column holds, of the rows that the filter leaves."""
        self._begin(self._summarise())

    def action_count_values(self) -> None:
        """Show the values of the cursor's column with their numbers of rows. Enter filters by one."""
        if self._column is not None:
            self._begin(self._count_values(self._column))

    def action_pin(self) -> None:
        """Pin the result; unpin it if it is pinned."""
        self._begin(self._pin())

    def on_rows_table_left(self, message: RowsTable.Left) -> None:
        """Open the next page, or the page before, when the cursor leaves this one."""
        if message.pages < 0 and self._pages.number:
            self._begin(self._turn_to(self._pages.number - 1, at_end=True))
        else:
            self.action_turn(message.pages)

    def on_data_table_header_selected(self, message: DataTable.HeaderSelected) -> None:
        """Sort by a column when its heading is clicked."""
        self._sort_by(message.column_index)

    def on_data_table_cell_selected(self, message: DataTable.CellSelected) -> None:
        """Show the cursor's row in full."""
        page = self._pages.open
        if page and page.data:
            row = message.coordinate.row
            title = f"Row {page.offset + row + 1:,}"
            self.push_screen(FullRow(title, page.data[row], page.columns))

    def on_data_table_cell_highlighted(self) -> None:
        """Update the status when the cursor moves."""
        self._show_status()

    def on_input_submitted(self, message: AnswerLine.Submitted) -> None:
        """Use the answer to the question."""
        answer = message.value.strip()
        if self._question == "save" and answer and not self._may_write(Path(answer)):
            return
        self.action_leave()
        if answer or self._question == "filter":
            actions = {"page": self._go_to, "find": self._find, "filter": self._filter, "save": self._save}
            actions[self._question](answer)

    def _question_of_filter(self) -> str:
        name = printable(self._column["name"], 30) if self._column else ""
        return f"Rows whose {name} is? (> 5, = NJ, != 0, null, not null, part of a text; empty for all rows)"

    def _filter(self, answer: str) -> None:
        if self._column is not None:
            condition = read_filter(self._column, answer) if answer else None
            self._begin(self._reload(self._pages.filter_by(condition)))

    def _default_answer(self) -> str:
        if self._question == "save":
            return (re.sub(r"[^\w.-]+", "-", self._result_name).strip("-.").lower() or "rows") + ".csv"
        return self._search_text if self._question == "find" else ""

    def _go_to(self, answer: str) -> None:
        number = answer.replace(",", "")
        if not (number.isascii() and number.isdigit() and len(number) < 16 and int(number)):
            self._show_message("The page must be a number from 1.")
        else:
            self._begin(self._turn_to(int(number) - 1))

    def _find(self, answer: str) -> None:
        self._search_text = answer
        cursor = self.rows.cursor_coordinate
        position = self._pages.find(answer, CellPosition(self._pages.number, cursor.row, cursor.column))
        if position is None:
            self._show_message(
                f"Not found on the {self._pages.in_memory} loaded pages: {printable(answer, 40)}"
            )
        else:
            self._begin(self._turn_to(position.page, position=position))

    def _may_write(self, path: Path) -> bool:
        """Whether no file exists at the path, or the person has confirmed that it may be replaced."""
        if not path.exists() or path == self._replaces:
            return True
        self._replaces = path
        self._show_message("The file exists. Press Enter again to replace it, or Esc to cancel.")
        return False

    def _save(self, answer: str) -> None:
        self.run_worker(self._show_errors(self._write(Path(answer))), group="save", exclusive=True)

    def _sort_by(self, column: int) -> None:
        page = self._pages.open
        if page and page.columns:
            order = _next_order(self._pages.sort, page.columns[column]["name"])
            self._begin(self._reload(self._pages.sort_by(order)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        # One at a time: another key cancels the page before.
        self.run_worker(self._show_errors(work), group="page", exclusive=True)

    async def _show_errors(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (DualResponseClientError, ValueError) as error:
            self._show_message(str(error))
        except OSError as error:
            self._show_message(f"{error.filename}: {error.strerror}")

    async def _turn_to(
        self, number: int, *, at_end: bool = False, position: CellPosition | None = None
    ) -> None:
        page = await self._pages.turn_to(number)
        if page is None:
            self._show_message(f"There is no page {number + 1:,}.")
            return
        self.rows.show(page, self._pages.sort)
        if at_end:
            self.rows.move_cursor(row=len(page.data) - 1)
        if position:
            self.rows.move_cursor(row=position.row, column=position.column)
        self._show_title()
        self._show_status()

    async def _reload(self, request: Awaitable[FetchResult | None]) -> None:
        page = await request
        if page is not None:
            self.rows.show(page, self._pages.sort)
        self._show_title()
        self._show_status()

    async def _summarise(self) -> None:
        self._show_message("Reading the columns…")
        profile = await self._pages.profile()
        self._show_status()
        self.push_screen(TableScreen(f"Columns of {covered_rows(profile)}", *summary_lines(profile)))

    async def _count_values(self, column: Column) -> None:
        name = column["name"]
        counts = await self._pages.count_values(name)
        lines = [
            (
                "NULL" if row["value"] is None else cell_text(row["value"], 60) or "(empty)",
                f"{int(row['rows']):,}",
            )
            for row in counts
        ]

        def filter_by(number: int | None) -> None:
            if number is not None:
                self._begin(self._reload(self._pages.filter_by(filter_of(column, counts[number]["value"]))))

        title = f"Values of {printable(name, 40)}: the most frequent first"
        self.push_screen(TableScreen(title, [printable(name, 40), "rows"], lines, picks=True), filter_by)

    async def _pin(self) -> None:
        if self._is_pinned:
            self._is_pinned = not await self._parsed.unpin()
        else:
            self._is_pinned = await self._parsed.pin()
        self._show_title()
        self._show_message("Pinned: it does not expire." if self._is_pinned else "Unpinned: it expires.")

    async def _write(self, path: Path) -> None:
        def show_progress(progress: Progress) -> None:
            self._show_message(f"Saving {progress_text(progress)} (Esc to cancel)")

        result = await self._pages.refine()
        file = await result.save(path, sort=self._pages.sort, progress=show_progress)
        self._show_message(f"Saved {file}.")

    def _show_title(self) -> None:
        expiry = "pinned" if self._is_pinned else expiry_in_words(self._parsed.time_left())
        total = total_in_words(self._pages.total, self._pages.kind)
        condition = f" where {self._pages.filter.text}" if self._pages.filter else ""
        facts = [self._result_name, total + condition, expiry]
        self._write_line("#title", " · ".join(fact for fact in facts if fact))

    def _show_status(self) -> None:
        page = self._pages.open
        if page is None:
            return
        last = self._pages.last
        pages = "" if last is None else f" of {last + 1:,}"
        status = f"page {self._pages.number + 1:,}{pages} · row {page.offset + self.rows.cursor_row + 1:,}"
        self._show_message(status if page.data else "No rows.")

    def _show_message(self, text: str) -> None:
        self._write_line("#status", printable(text, 400))

    def _write_line(self, selector: str, text: str) -> None:
        # The timer may run when the line has already been removed.
        for line in self.query(selector).results(Static):
            line.update(Text(text))


def _next_order(sort: SortKey | None, name: str) -> SortKey | None:
    if sort is None or sort["field"] != name:
        return {"field": name, "order": "asc"}
    return {"field": name, "order": "desc"} if sort.get("order") != "desc" else None
