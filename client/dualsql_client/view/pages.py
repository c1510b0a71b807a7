"""The pages of a result in the viewer, and their widgets."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from dualsql_client.answers import FetchResult
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.preview import cell, printable
from dualsql_client.wire import Column, Row, SortKey, TotalCountKind

ROWS_OF_A_PAGE = 100
PAGES_HELD = 20


class CellPosition(NamedTuple):
    """A cell: the number of its page, its row there and its column, all from 0."""

    page: int
    row: int
    column: int


@dataclass(slots=True)
class Pages:
    """One result in one order.

    Attributes:
        sort: the order asked for; None for the result's own.
        number: of the page that is open, from 0.
        total: the number of rows, of the kind `kind`, as the last page reported it.
    """

    parsed: ParsedDualResponse
    sort: SortKey | None = None
    number: int = 0
    total: int | None = None
    kind: TotalCountKind = "none"
    _held: OrderedDict[int, FetchResult] = field(default_factory=OrderedDict)

    @property
    def open(self) -> FetchResult | None:
        """The page at `number`; None before the first one."""
        return self._held.get(self.number)

    @property
    def held(self) -> int:
        """How many pages are in memory."""
        return len(self._held)

    @property
    def last(self) -> int | None:
        """The number of the last page, if it is known."""
        if self.kind != "exact" or self.total is None:
            return None
        return max(0, self.total - 1) // ROWS_OF_A_PAGE

    async def turn_to(self, number: int) -> FetchResult | None:
        """Open a page, or the last one for a number beyond it; None if the page is empty and the last one unknown.

        Raises:
            FetchError: see `dualsql_client.errors`; the page that was open still is.
        """
        if self.last is not None:
            number = min(number, self.last)
        page = self._held.get(number) or await self._fetch(number)
        if number and not page.data:
            return None
        self.number, self.total, self.kind = number, page.total_count, page.total_count_kind
        self._hold(number, page)
        return page

    async def sort_by(self, sort: SortKey | None) -> FetchResult | None:
        """Begin anew in another order.

        Raises:
            FetchError: it cannot be had; the order stays.
        """
        other = Pages(self.parsed, sort)
        page = await other.turn_to(0)
        self.sort, self.number, self._held = sort, 0, other._held
        return page

    def find(self, text: str, after: CellPosition) -> CellPosition | None:
        """The next cell that holds `text`, in capitals or not, on the pages held; from the last on to the first."""
        wanted = text.casefold()
        places = [place for place, words in self._cells() if wanted in words.casefold()]
        return next((place for place in places if place > after), places[0] if places else None)

    def _cells(self) -> list[tuple[CellPosition, str]]:
        return [
            (CellPosition(number, at, column), words)
            for number, page in sorted(self._held.items())
            for at, row in enumerate(page.data)
            for column, described in enumerate(page.columns)
            if (words := cell(row.get(described["name"]), 100_000)) is not None
        ]

    async def _fetch(self, number: int) -> FetchResult:
        before, after = self._held.get(number - 1), self._held.get(number + 1)
        cursor = (before and before.next_cursor) or (after and after.previous_cursor)
        if cursor:
            return await self.parsed.fetch(cursor=cursor, limit=ROWS_OF_A_PAGE, sort=self.sort)
        return await self.parsed.fetch(offset=number * ROWS_OF_A_PAGE, limit=ROWS_OF_A_PAGE, sort=self.sort)

    def _hold(self, number: int, page: FetchResult) -> None:
        self._held[number] = page
        self._held.move_to_end(number)
        while len(self._held) > PAGES_HELD:
            self._held.popitem(last=False)


CELL_CHARACTERS = 40
FULL_CHARACTERS = 100_000


class RowsTable(DataTable[Text]):
    """One page of rows; beyond its edges lie other pages."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Row", key_display="⏎")]

    class Left(Message):
        """The cursor goes past the last row, or before the first."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def show(self, page: FetchResult, sort: SortKey | None) -> None:
        """Show another page; the cursor stays in its column."""
        column = self.cursor_column
        self.clear(columns=True)
        for described in page.columns:
            self.add_column(_heading(described, sort))
        self.add_rows([_cells(row, page.columns) for row in page.data])
        self.move_cursor(row=0, column=column)

    def action_cursor_down(self) -> None:
        """Down a row, or to the next page."""
        if self._is_at(self.row_count - 1):
            self.post_message(self.Left(1))
        else:
            super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Up a row, or to the page before."""
        if self._is_at(0):
            self.post_message(self.Left(-1))
        else:
            super().action_cursor_up()

    def action_page_down(self) -> None:
        """Down a screen, or to the next page."""
        if self._is_at(self.row_count - 1):
            self.post_message(self.Left(1))
        else:
            super().action_page_down()

    def action_page_up(self) -> None:
        """Up a screen, or to the page before."""
        if self._is_at(0):
            self.post_message(self.Left(-1))
        else:
            super().action_page_up()

    def _is_at(self, row: int) -> bool:
        return self.row_count > 0 and self.cursor_row == row


class AnswerLine(Input):
    """The line on which a question is answered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "OK", key_display="⏎"),
        Binding("escape", "app.leave", "Leave", key_display="esc"),
    ]


class FullRow(ModalScreen[None]):
    """One row, every value whole."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Back", key_display="esc"),
    ]
    CSS = """
    FullRow VerticalScroll { background: $surface; border: solid $primary; }
    """

    def __init__(self, title: str, row: Row, columns: list[Column]) -> None:
        super().__init__()
        self._title, self._row, self._columns = title, row, columns

    def compose(self) -> ComposeResult:
        """The values below each other."""
        with VerticalScroll() as scroll:
            scroll.border_title, scroll.border_subtitle = self._title, "↑↓ scroll"
            for column in self._columns:
                yield Static(in_full(column, self._row.get(column["name"])))
        yield Footer(compact=True, show_command_palette=False)


def in_full(column: Column, value: Any) -> Text:
    """A column's name, how its values are written, and the value on as many lines as it has."""
    shown = Text(printable(column["name"], 200), style="bold")
    shown.append(f"  {column['encoding']}\n", style="dim")
    if value is None:
        return shown.append("NULL\n", style="dim")
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    lines = [printable(line, FULL_CHARACTERS) for line in written[:FULL_CHARACTERS].splitlines()]
    if len(written) > FULL_CHARACTERS:
        lines.append(f"… {len(written) - FULL_CHARACTERS:,} more characters")
    return shown.append("\n".join(lines) + "\n")


def _heading(column: Column, sort: SortKey | None) -> Text:
    heading = Text(printable(column["name"], CELL_CHARACTERS))
    if sort is not None and sort["field"] == column["name"]:
        heading.append(" ▼" if sort.get("order") == "desc" else " ▲")
    return heading


def _cells(row: Row, columns: list[Column]) -> list[Text]:
    return [_cell(row.get(column["name"]), column) for column in columns]


def _cell(value: Any, column: Column) -> Text:
    words = cell(value, CELL_CHARACTERS)
    if words is None:
        return Text("NULL", style="dim")
    return Text(words, justify="right" if column["type"] == "number" else "left")
