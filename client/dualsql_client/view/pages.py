"""The pages of a result in the viewer, and their widgets."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.containers import Lines
from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import DataTable, Footer, Input, Static

from dualsql_client.answers import FetchResult
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.preview import FLAG_LETTERS, REST_OF_SIGN, cell_text, cut_to, end_of_signs, printable
from dualsql_client.query import OrderKey
from dualsql_client.wire import Column, Profile, Row, SortKey, TotalCountKind
from dualsql_client.wire_requests import Operator

ROWS_OF_A_PAGE = 100
PAGES_IN_MEMORY = 20


class CellPosition(NamedTuple):
    """A cell: the number of its page, its row there and its column, all from 0."""

    page: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one column, as JSON and as text."""

    column: str
    condition: Mapping[str, Any]
    text: str


_OPERATORS: Mapping[str, Operator] = {"!=": "ne", ">=": "ge", "<=": "le", "=": "eq", ">": "gt", "<": "lt"}
_NULLS = {"null": True, "not null": False}


def read_filter(column: Column, answer: str) -> Filter:
    """The filter for an answer: `> 5`, `= NJ`, `null`, `not null`, or a part of a text."""
    name = column["name"]
    if (is_null := _NULLS.get(answer.lower())) is not None:
        condition = {"column": name, "op": "is_null", "value": is_null}
        return Filter(name, condition, f"{printable(name, 40)} is {answer.upper()}")
    sign = next((sign for sign in _OPERATORS if answer.startswith(sign)), "")
    operator = _OPERATORS.get(sign, "contains" if column["encoding"] == "text" else "eq")
    value = answer.removeprefix(sign).strip()
    text = f"{printable(name, 40)} {sign or ('contains' if operator == 'contains' else '=')} {printable(value, 60)}"
    return Filter(name, {"column": name, "op": operator, "value": _value_of(column, value)}, text)


def filter_of(column: Column, value: Any) -> Filter:
    """The filter of a value as an answer has it."""
    name = column["name"]
    if value is None:
        return Filter(
            name, {"column": name, "op": "is_null", "value": True}, f"{printable(name, 40)} is NULL"
        )
    text = f"{printable(name, 40)} = {cell_text(value, 60)}"
    return Filter(name, {"column": name, "op": "eq", "value": value}, text)


def _value_of(column: Column, text: str) -> Any:
    if column["encoding"] == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    # Any other number stays a text, which the server reads exactly.
    is_number = column["type"] == "number" and re.fullmatch(r"-?\d{1,15}(\.\d{1,6})?", text, re.ASCII)
    # A number of JSON does not begin with 0 and another digit.
    return json.loads(text) if is_number and not re.match(r"-?0\d", text) else text


@dataclass(slots=True)
class TablePages:
    """The pages of one result, in one order and with one filter.

    Attributes:
        sort: the order; None for the result's own.
        filter: None for all rows.
        number: of the open page, from 0.
        total: the number of rows, of the kind `kind`, from the last page.
    """

    parsed: ParsedDualResponse
    sort: SortKey | None = None
    filter: Filter | None = None
    number: int = 0
    total: int | None = None
    kind: TotalCountKind = "none"
    _pages: OrderedDict[int, FetchResult] = field(default_factory=OrderedDict)

    @property
    def open(self) -> FetchResult | None:
        """The open page; None before the first one is open."""
        return self._pages.get(self.number)

    @property
    def in_memory(self) -> int:
        """The number of pages in memory."""
        return len(self._pages)

    @property
    def last(self) -> int | None:
        """The number of the last page; None when it is unknown."""
        if self.kind != "exact" or self.total is None:
            return None
        return max(0, self.total - 1) // ROWS_OF_A_PAGE

    async def turn_to(self, number: int) -> FetchResult | None:
        """Open a page, or the last one for a number beyond it. Returns None for an empty page whose total is unknown.

        Raises:
            FetchError: see `dualsql_client.errors`; the open page stays open.
        """
        if self.last is not None:
            number = min(number, self.last)
        page = self._pages.get(number) or await self._fetch(number)
        if number and not page.data:
            return None
        self.number = number
        # The answer to a query has no total: the counted total stays.
        if self.filter is None or page.total_count is not None:
            self.total, self.kind = page.total_count, page.total_count_kind
        self._hold(number, page)
        return page

    async def sort_by(self, sort: SortKey | None) -> FetchResult | None:
        """Open the first page in another order.

        Raises:
            FetchError: the request failed; the order stays.
        """
        return await self._begin(sort, self.filter)

    async def filter_by(self, condition: Filter | None) -> FetchResult | None:
        """Open the first page with another filter, in the same order.

        Raises:
            FetchError: the request failed; the filter stays.
        """
        return await self._begin(self.sort, condition)

    async def refine(self) -> ParsedDualResponse:
        """The result, or with a filter a new result of the filtered rows."""
        if self.filter is None:
            return self.parsed
        return await self.parsed.refine(
            name=f"{self.parsed.name} filtered"[:200], filters=[self.filter.condition]
        )

    async def profile(self) -> Profile:
        """Statistics of the columns of the rows that the filter leaves: of all, or of the first ones in time.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        filters = [self.filter.condition] if self.filter else None
        profile = await self.parsed.profile("full", filters=filters)
        if profile["covers"]["rows"] is None:
            profile = await self.parsed.profile("sample", filters=filters)
        return profile

    async def count_values(self, column: str) -> list[Row]:
        """The most frequent values of a column, with their numbers of rows, of the rows that the filter leaves.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self.parsed.query(
            filters=[self.filter.condition] if self.filter else [],
            group_by=[{"column": column, "as": "value"}],
            aggregates=[{"function": "count", "as": "rows"}],
            order_by=[OrderKey(column="rows", order="desc")],
            limit=ROWS_OF_A_PAGE,
        )
        return answer.data

    async def _begin(self, sort: SortKey | None, condition: Filter | None) -> FetchResult | None:
        # Separate pages: if the request fails, the open pages stay.
        other = TablePages(self.parsed, sort, condition)
        page = await other.turn_to(0)
        if condition is not None and other.total is None:
            count = await self.parsed.query(filters=[condition.condition], aggregates=["count"])
            other.total, other.kind = count.data[0]["count"], "exact"
        self.sort, self.filter, self.number, self._pages = sort, condition, 0, other._pages
        self.total, self.kind = other.total, other.kind
        return page

    def find(self, text: str, after: CellPosition) -> CellPosition | None:
        """The next cell in memory that contains `text`, whatever its case; after the last one, the first."""
        part = text.casefold()
        positions = [position for position, value in self._cells() if part in value.casefold()]
        return next(
            (position for position in positions if position > after), positions[0] if positions else None
        )

    def _cells(self) -> list[tuple[CellPosition, str]]:
        return [
            (CellPosition(number, row_number, column_number), text)
            for number, page in sorted(self._pages.items())
            for row_number, row in enumerate(page.data)
            for column_number, column in enumerate(page.columns)
            if (text := cell_text(row.get(column["name"]), 100_000)) is not None
        ]

    async def _fetch(self, number: int) -> FetchResult:
        before, after = self._pages.get(number - 1), self._pages.get(number + 1)
        # Next to a page in memory, by its cursor: inserted and deleted rows do not shift the page.
        cursor = (before and before.next_cursor) or (after and after.previous_cursor)
        offset = 0 if cursor else number * ROWS_OF_A_PAGE
        window: dict[str, Any] = {"cursor": cursor or None, "offset": offset, "limit": ROWS_OF_A_PAGE}
        if self.filter is None:
            return await self.parsed.fetch(**window, sort=self.sort)
        order = (
            [OrderKey(column=self.sort["field"], order=self.sort.get("order", "asc"))] if self.sort else []
        )
        return await self.parsed.query(**window, filters=[self.filter.condition], order_by=order)

    def _hold(self, number: int, page: FetchResult) -> None:
        self._pages[number] = page
        self._pages.move_to_end(number)
        while len(self._pages) > PAGES_IN_MEMORY:
            self._pages.popitem(last=False)


CELL_CHARACTERS = 40
"""The width of a cell on a screen that is too narrow for all."""

WIDE_CHARACTERS = 400
FULL_CHARACTERS = 100_000
_PADDING = 2


class RowsTable(DataTable[Text]):
    """One page of rows. A cursor that leaves it opens the next page or the page before.

    Cells share the width of the screen. If it is too narrow for all columns, the first column does not scroll.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Row", key_display="⏎")]

    class Left(Message):
        """The cursor has passed the last row, or the first."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    _headings: Sequence[Text] = ()
    _lines: Sequence[Sequence[Text]] = ()
    _widths: Sequence[int] = ()

    def show(self, page: FetchResult, sort: SortKey | None) -> None:
        """Show another page; the cursor stays in its column."""
        cursor_column = self.cursor_column
        self._headings = [_heading(column, sort) for column in page.columns]
        self._lines = [
            [_cell(row.get(column["name"]), column) for column in page.columns] for row in page.data
        ]
        self._lay_out(self._best_widths())
        self.move_cursor(row=0, column=cursor_column)

    def on_resize(self) -> None:
        """Adapt the columns to another width; the cursor stays."""
        widths = self._best_widths()
        if widths != self._widths:
            cursor = self.cursor_coordinate
            self._lay_out(widths)
            self.move_cursor(row=cursor.row, column=cursor.column)

    def _lay_out(self, widths: Sequence[int]) -> None:
        self.clear(columns=True)
        self._widths = widths
        self.fixed_columns = int(len(widths) > 1 and sum(widths) + _PADDING * len(widths) > self._free)
        for heading, width in zip(self._headings, widths, strict=True):
            self.add_column(heading, width=width)
        self.add_rows(self._lines)

    @property
    def _free(self) -> int:
        """Cells of the terminal from the left to the scroll bar."""
        has_bar = len(self._lines) + 1 > self.size.height
        return self.size.width - (self.styles.scrollbar_size_vertical if has_bar else 0)

    def _best_widths(self) -> list[int]:
        columns = list(zip(self._headings, *self._lines, strict=True))
        lengths = [max(text.cell_len for text in column) for column in columns]
        return widths_within(self._free - _PADDING * len(lengths), lengths)

    def render_line(self, y: int) -> Strip:
        """A line of the screen, whose edges show no part of a flag or of joined emoji."""
        strip = super().render_line(y)
        if strip.text.isascii():
            return strip
        left = sum(column.get_render_width(self) for column in self.ordered_columns[: self.fixed_columns])
        right = self.scrollable_content_region.width
        return Strip.join([strip.crop(0, left), _without_halves(strip.crop(left, right)), strip.crop(right)])

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
    """The line for the answer to a question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "OK", key_display="⏎"),
        Binding("escape", "app.leave", "Leave", key_display="esc"),
    ]


class FullRow(ModalScreen[None]):
    """One row with its full values."""

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
        """A line for each column."""
        with VerticalScroll() as scroll:
            scroll.border_title, scroll.border_subtitle = self._title, "↑↓ scroll"
            for column in self._columns:
                yield Static(_WholeSigns(in_full(column, self._row.get(column["name"]))))
        yield Footer(compact=True, show_command_palette=False)


def in_full(column: Column, value: Any) -> Text:
    """The name and encoding of a column, and the value on as many lines as it has."""
    content = Text(printable(column["name"], 200), style="bold")
    content.append(f"  {column['encoding']}\n", style="dim")
    if value is None:
        return content.append("NULL\n", style="dim")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    lines = [printable(line, FULL_CHARACTERS) for line in text[:FULL_CHARACTERS].splitlines()]
    if len(text) > FULL_CHARACTERS:
        lines.append(f"… {len(text) - FULL_CHARACTERS:,} more characters")
    return content.append("\n".join(lines) + "\n")


def widths_within(free: int, lengths: Sequence[int]) -> list[int]:
    """The widths of columns with texts of these lengths: at most CELL_CHARACTERS, and wider if `free` allows it.

    The columns with longer texts share the remaining width. If none remains, the columns are wider than the screen, and
    the first one, which does not scroll, takes at most a third of it.
    """
    widths = [min(length, CELL_CHARACTERS) for length in lengths]
    remaining = free - sum(widths)
    if remaining < 0:
        return [max(1, min(widths[0], free // 3)), *widths[1:]]
    # The smallest need first: the rest of its share goes to the others.
    by_need = sorted(range(len(lengths)), key=lambda column: lengths[column] - widths[column])
    for number, column in enumerate(by_need):
        more = min(lengths[column] - widths[column], remaining // (len(lengths) - number))
        widths[column] += more
        remaining -= more
    return widths


def _heading(column: Column, sort: SortKey | None) -> Text:
    heading = _align(printable(column["name"], CELL_CHARACTERS), column)
    if sort is not None and sort["field"] == column["name"]:
        heading.append(" ▼" if sort.get("order") == "desc" else " ▲")
    return heading


def _cell(value: Any, column: Column) -> Text:
    text = cell_text(value, WIDE_CHARACTERS)
    return _align("NULL", column, style="dim") if text is None else _align(text, column)


def _align(text: str, column: Column, *, style: str = "") -> Text:
    justify: Literal["left", "right"] = "right" if column["type"] == "number" else "left"
    return _Line(text, style=style, justify=justify, overflow="ellipsis", no_wrap=True)


def _without_halves(strip: Strip) -> Strip:
    """The strip with blanks for parts of signs at its edges."""
    text = strip.text
    if (len(text) - len(text.rstrip(FLAG_LETTERS))) % 2:
        strip = Strip.join([strip.crop(0, strip.cell_length - 1), Strip([Segment(" ")])])
    half = (len(text) - len(text.lstrip(FLAG_LETTERS))) % 2
    rest = REST_OF_SIGN.match(text)
    if not half and not rest:
        return strip
    first, *others = strip
    end = rest.end() if rest else half
    kept = [Segment(" " * cell_len(text[:end]), first.style), Segment(first.text[end:], first.style)]
    return Strip([*kept, *others])


class _WholeSigns:
    """A text on as many lines as the width demands, broken between whole signs; other lines break between words."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._text.split(allow_blank=True):
            if any(letter in line.plain for letter in FLAG_LETTERS):
                yield from map(Text, _pieces(line.plain, options.max_width))
            else:
                yield line


def _pieces(text: str, width: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        some = text[start : start + width * _CHARACTERS_OF_A_SIGN]
        end = max(1, end_of_signs(some, width, cell_len))
        if end < len(some):
            end = some.rfind(" ", 0, end) + 1 or end
        yield some[:end]
        start += end


_CHARACTERS_OF_A_SIGN = 8
"""For a cell of the terminal; more of them make a line shorter."""


class _Line(Text):
    """A text on one line that is cut between whole signs; rich cuts between the two letters of a flag."""

    def wrap(self, console: Console, width: int, **options: Any) -> Lines:
        """The line, as long as the width has room for."""
        line = self.copy()
        line.plain = cut_to(self.plain, width, cell_len)
        return line.wrap(console, width, **options)
