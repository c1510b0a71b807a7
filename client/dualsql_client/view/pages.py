"""The pages of a result in the viewer, and their widgets."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

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
from dualsql_client.query import OrderKey
from dualsql_client.wire import Column, Operator, Row, SortKey, TotalCountKind

ROWS_OF_A_PAGE = 100
PAGES_HELD = 20


class CellPosition(NamedTuple):
    """A cell: the number of its page, its row there and its column, all from 0."""

    page: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one column, as it is sent and in words."""

    column: str
    condition: Mapping[str, Any]
    words: str


_OPERATORS: Mapping[str, Operator] = {"!=": "ne", ">=": "ge", "<=": "le", "=": "eq", ">": "gt", "<": "lt"}
_NULLS = {"null": True, "not null": False}


def read_filter(column: Column, written: str) -> Filter:
    """The filter that a person writes for a column: `> 5`, `= NJ`, `null`, `not null`, or a part of a text."""
    name = column["name"]
    if (is_null := _NULLS.get(written.lower())) is not None:
        return Filter(
            name, _condition(name, "is_null", is_null), f"{printable(name, 40)} is {written.upper()}"
        )
    sign = next((sign for sign in _OPERATORS if written.startswith(sign)), "")
    operator = _OPERATORS.get(sign, "contains" if column["encoding"] == "text" else "eq")
    wanted = written.removeprefix(sign).strip()
    said = f"{printable(name, 40)} {sign or ('contains' if operator == 'contains' else '=')} {printable(wanted, 60)}"
    return Filter(name, _condition(name, operator, _value_of(column, wanted)), said)


def _condition(column: str, operator: Operator, value: Any) -> dict[str, Any]:
    return {"column": column, "op": operator, "value": value}


def _value_of(column: Column, written: str) -> Any:
    if column["encoding"] == "boolean" and written.lower() in ("true", "false"):
        return written.lower() == "true"
    # What is no number of this form stays a text: the server reads it exactly, or says what it expects.
    is_number = column["type"] == "number" and re.fullmatch(r"-?\d{1,15}(\.\d{1,6})?", written, re.ASCII)
    # JSON has no numbers that begin with 0 before another digit.
    return json.loads(written) if is_number and not re.match(r"-?0\d", written) else written


@dataclass(slots=True)
class Pages:
    """One result in one order, or its rows that a filter leaves.

    Attributes:
        sort: the order asked for; None for the result's own.
        filter: which rows; None for all.
        number: of the page that is open, from 0.
        total: the number of rows, of the kind `kind`, as the last page reported it.
    """

    parsed: ParsedDualResponse
    sort: SortKey | None = None
    filter: Filter | None = None
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
        self.number = number
        # An answer to a question has no total: the one that was counted stays.
        if self.filter is None or page.total_count is not None:
            self.total, self.kind = page.total_count, page.total_count_kind
        self._hold(number, page)
        return page

    async def sort_by(self, sort: SortKey | None) -> FetchResult | None:
        """Begin anew in another order.

        Raises:
            FetchError: it cannot be had; the order stays.
        """
        return await self._begin(sort, self.filter)

    async def filter_by(self, found: Filter | None) -> FetchResult | None:
        """Begin anew with other rows, in the same order.

        Raises:
            FetchError: they cannot be had; the rows stay.
        """
        return await self._begin(self.sort, found)

    async def refined(self) -> ParsedDualResponse:
        """What is shown as a result: all of its rows, or a new one of those that the filter leaves."""
        if self.filter is None:
            return self.parsed
        return await self.parsed.refine(
            name=f"{self.parsed.name} filtered"[:200], filters=[self.filter.condition]
        )

    async def _begin(self, sort: SortKey | None, found: Filter | None) -> FetchResult | None:
        # Fetched apart: if the server refuses, the pages that are shown stay as they are.
        other = Pages(self.parsed, sort, found)
        page = await other.turn_to(0)
        if found is not None and other.total is None:
            counted = await self.parsed.query(filters=[found.condition], aggregates=["count"])
            other.total, other.kind = counted.data[0]["count"], "exact"
        self.sort, self.filter, self.number, self._held = sort, found, 0, other._held
        self.total, self.kind = other.total, other.kind
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
        # Beside a page that is held, by its cursor: rows that come or go move no row to the next page.
        cursor = (before and before.next_cursor) or (after and after.previous_cursor)
        offset = 0 if cursor else number * ROWS_OF_A_PAGE
        place: dict[str, Any] = {"cursor": cursor or None, "offset": offset, "limit": ROWS_OF_A_PAGE}
        if self.filter is None:
            return await self.parsed.fetch(**place, sort=self.sort)
        order = (
            [OrderKey(column=self.sort["field"], order=self.sort.get("order", "asc"))] if self.sort else []
        )
        return await self.parsed.query(**place, filters=[self.filter.condition], order_by=order)

    def _hold(self, number: int, page: FetchResult) -> None:
        self._held[number] = page
        self._held.move_to_end(number)
        while len(self._held) > PAGES_HELD:
            self._held.popitem(last=False)


CELL_CHARACTERS = 40
"""Of a cell that has to share a screen with too many others."""

WIDE_CHARACTERS = 400
FULL_CHARACTERS = 100_000
_PADDING = 2


class RowsTable(DataTable[Text]):
    """One page of rows; beyond its edges lie other pages.

    Cells share the width of the screen. If it is too narrow for all columns, the first one stays when it scrolls.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Row", key_display="⏎")]

    class Left(Message):
        """The cursor goes past the last row, or before the first."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    _headings: Sequence[Text] = ()
    _lines: Sequence[Sequence[Text]] = ()
    _laid: Sequence[int] = ()

    def show(self, page: FetchResult, sort: SortKey | None) -> None:
        """Show another page; the cursor stays in its column."""
        column = self.cursor_column
        self._headings = [_heading(described, sort) for described in page.columns]
        self._lines = [_cells(row, page.columns) for row in page.data]
        self._lay_out(self._widths())
        self.move_cursor(row=0, column=column)

    def on_resize(self) -> None:
        """The screen has another width; the cursor stays."""
        widths = self._widths()
        if widths != self._laid:
            at = self.cursor_coordinate
            self._lay_out(widths)
            self.move_cursor(row=at.row, column=at.column)

    def _lay_out(self, widths: Sequence[int]) -> None:
        self.clear(columns=True)
        self._laid = widths
        self.fixed_columns = int(len(widths) > 1 and sum(widths) + _PADDING * len(widths) > self._free)
        for heading, width in zip(self._headings, widths, strict=True):
            self.add_column(heading, width=width)
        self.add_rows(self._lines)

    @property
    def _free(self) -> int:
        """Cells of the terminal from the left to the scroll bar."""
        has_bar = len(self._lines) + 1 > self.size.height
        return self.size.width - (self.styles.scrollbar_size_vertical if has_bar else 0)

    def _widths(self) -> list[int]:
        columns = list(zip(self._headings, *self._lines, strict=True))
        wanted = [max(text.cell_len for text in column) for column in columns]
        return widths_within(self._free - _PADDING * len(wanted), wanted)

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


def widths_within(free: int, wanted: Sequence[int]) -> list[int]:
    """The widths of columns: as wide as is wanted where `free` is enough, or else up to CELL_CHARACTERS.

    What is then left is shared by the cells that are cut. If nothing is, the columns are wider than the screen, and the
    first one, which stays when it scrolls, takes at most a third of it.
    """
    widths = [min(width, CELL_CHARACTERS) for width in wanted]
    left = free - sum(widths)
    if left < 0:
        return [max(1, min(widths[0], free // 3)), *widths[1:]]
    # Those that need least first: what they leave of their share goes to the others.
    by_need = sorted(range(len(wanted)), key=lambda at: wanted[at] - widths[at])
    for place, at in enumerate(by_need):
        more = min(wanted[at] - widths[at], left // (len(wanted) - place))
        widths[at] += more
        left -= more
    return widths


def _heading(column: Column, sort: SortKey | None) -> Text:
    heading = _aligned(printable(column["name"], CELL_CHARACTERS), column)
    if sort is not None and sort["field"] == column["name"]:
        heading.append(" ▼" if sort.get("order") == "desc" else " ▲")
    return heading


def _cells(row: Row, columns: list[Column]) -> list[Text]:
    return [_cell(row.get(column["name"]), column) for column in columns]


def _cell(value: Any, column: Column) -> Text:
    words = cell(value, WIDE_CHARACTERS)
    return _aligned("NULL", column, style="dim") if words is None else _aligned(words, column)


def _aligned(words: str, column: Column, *, style: str = "") -> Text:
    justify: Literal["left", "right"] = "right" if column["type"] == "number" else "left"
    return Text(words, style=style, justify=justify, overflow="ellipsis", no_wrap=True)
