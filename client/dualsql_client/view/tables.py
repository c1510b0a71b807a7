"""A table over the rows of the viewer: what the columns hold, or the values of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer

from dualsql_client.preview import cell_text, printable
from dualsql_client.wire import ColumnProfile, Profile

_CHARACTERS = 24


class TableScreen(ModalScreen[int | None]):
    """Lines with a heading. It closes with the number of a line that was picked, or with None.

    Args:
        picks: Enter picks the line of the cursor.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Back", key_display="esc"),
    ]
    CSS = """
    TableScreen DataTable { background: $surface; border: solid $primary; height: 1fr; }
    """

    def __init__(
        self, title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], *, picks: bool = False
    ) -> None:
        super().__init__()
        self._title, self._headings, self._lines, self._picks = title, headings, lines, picks

    def compose(self) -> ComposeResult:
        """The table."""
        yield DataTable(cursor_type="row")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Fill it."""
        table: DataTable[Text] = self.query_one(DataTable)
        table.border_title = self._title
        table.border_subtitle = "⏎ filters by it" if self._picks else "↑↓ scroll"
        for heading in self._headings:
            table.add_column(Text(heading))
        for line in self._lines:
            table.add_row(*map(Text, line))

    def on_data_table_row_selected(self, message: DataTable.RowSelected) -> None:
        """Close with the line, if lines are picked."""
        message.stop()
        if self._picks:
            self.dismiss(message.cursor_row)


def covered_rows(profile: Profile) -> str:
    """The rows that a profile is of."""
    rows = profile["covers"]["rows"] or 0
    return f"{'all' if profile['covers']['of'] == 'all' else 'the first'} {rows:,} rows"


def summary_lines(profile: Profile) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The headings, and a line for each column: NULLs, distinct values, lowest, highest and most frequent ones."""
    headings = ("column", "NULL", "distinct", "lowest", "highest", "most frequent")
    rows = profile["covers"]["rows"] or 0
    return headings, [tuple(_summary(column, rows)) for column in profile["columns"]]


def _summary(column: ColumnProfile, rows: int) -> Iterator[str]:
    figures: dict[str, Any] = dict(column)
    yield printable(column["name"], _CHARACTERS)
    if column["masked"]:
        yield from ("masked", "", "", "", "")
        return
    yield (
        f"{100 * figures['nulls'] / rows:.2g}%"
        if figures.get("nulls") and rows
        else str(figures.get("nulls", ""))
    )
    about = "~" if figures.get("distinct_kind") == "approximate" else ""
    yield f"{about}{figures['distinct']:,}" if "distinct" in figures else ""
    for name in ("minimum", "maximum"):
        yield cell_text(figures.get(name), _CHARACTERS) or ""
    frequent = figures.get("most_frequent", [])[:3]
    yield ", ".join(
        f"{cell_text(each['value'], _CHARACTERS) or 'NULL'} ({each['count']:,})" for each in frequent
    )
