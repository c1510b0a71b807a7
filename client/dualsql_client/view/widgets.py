"""What the viewer is made of; the rule: a cell is a Text, never a str, so that no markup in it is read."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from dualsql_client.answers import FetchResult
from dualsql_client.glance import cell
from dualsql_client.plain import printable
from dualsql_client.wire import Column, Row, SortKey

CELL_CHARACTERS = 40
FULL_CHARACTERS = 100_000


class Rows(DataTable[Text]):
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


class Answer(Input):
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
