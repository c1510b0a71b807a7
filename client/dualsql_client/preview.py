"""A preview of a dual response for a person: a screen of text, or escaped HTML."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from urllib.parse import quote

from dualsql_client.wire import Column, Row, TotalCountKind

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Persian, Hindi and groups of emoji need them.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"

# The flag of a region, such as England, is a black flag with a few tags. That of a country is two letters of its own.
_FLAG = re.compile("(\U0001f3f4[\U000e0030-\U000e007a]{1,8}\U000e007f)")
FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
# What belongs to the sign before it: accents, selectors, tones of skin, joiners and tags.
_JOINED = re.compile(
    "[\u0300-\u036f\u200d\u20d0-\u20ff\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
REST_OF_SIGN = re.compile(f" ?(?:\u200d.|{_JOINED.pattern})+")
"""What is left of a sign whose beginning was cut off; of a wide one, a blank may stand before it."""
_LONGEST_SIGN = 32
"""Characters of a sign that are looked at; joined families have 11."""


def printable(text: str, characters: int) -> str:
    """The text on one line, cut with an ellipsis to so many characters.

    Line breaks and tabs become spaces. Control characters, such as those of terminal escape sequences, characters that
    change the direction of writing, and halves of surrogate pairs become a replacement character.
    """
    if len(text) > characters:
        text = f"{text[: _end_within(text, characters - 1)]}…"
    if text.isprintable():
        return text
    return "".join(
        part if number % 2 else "".join(map(_printable_character, part))
        for number, part in enumerate(_FLAG.split(text))
    )


def _end_within(text: str, end: int) -> int:
    """The end of the last whole sign before `end`: flags, joined emoji and letters with accents are not cut."""
    for index in range(end, max(0, end - _LONGEST_SIGN), -1):
        before = text[:index]
        is_joined = _JOINED.match(text, index) or before.endswith("\N{ZERO WIDTH JOINER}")
        halves = text[index] in FLAG_LETTERS and len(before) - len(before.rstrip(FLAG_LETTERS))
        if not is_joined and not halves % 2:
            return index
    return end if end > _LONGEST_SIGN else 0


def _printable_character(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else _REPLACEMENT


# The MathJax of notebooks turns \href{javascript:...} between dollars into a link, also in escaped text. With an
# element around each mark, it finds no pair of them.
_MARKS = re.compile(r"[$\\]+")

# One line a row: a long text is cut, and shown whole where a mouse points at it.
_STYLE = (
    "text-align:left;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;min-width:4em;max-width:24em"
)
_NUMBER = "text-align:right;white-space:nowrap"
_WIDE = 24
"""Characters of a cell that may not be seen whole."""


class Element(NamedTuple):
    """An element with texts and elements.

    Attributes:
        attributes: from this package only; their values are escaped, but an address must be an http address.
    """

    name: str
    content: Sequence[str | Element]
    attributes: Mapping[str, str] = {}


def _to_html(node: str | Element) -> str:
    if isinstance(node, str):
        return _MARKS.sub(lambda match: f"<span>{match[0]}</span>", escape(node))
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in node.attributes.items())
    return f"<{node.name}{attributes}>{''.join(map(_to_html, node.content))}</{node.name}>"


def html_table(
    title: str,
    headings: Sequence[str | Element],
    numeric: Sequence[bool],
    rows: Sequence[Sequence[str | None]],
    facts: Sequence[str | Element],
) -> str:
    """A table with its title above and facts about it below."""
    styles = [_NUMBER if is_number else _STYLE for is_number in numeric]
    head = Element("tr", [_cell("th", name, style) for name, style in zip(headings, styles, strict=True)])
    body = [
        Element("tr", [_cell("td", value, style) for value, style in zip(row, styles, strict=True)])
        for row in rows
    ]
    table = Element("table", [Element("thead", [head]), Element("tbody", body)])
    parts = [Element("b", [title]), table, Element("small", facts)]
    # The classes by which MathJax 2 and MathJax 3 skip an element.
    return _to_html(Element("div", parts, {"class": "dualsql tex2jax_ignore mathjax_ignore"}))


def _cell(name: str, value: str | Element | None, style: str) -> Element:
    content = Element("i", ["NULL"], {"style": "opacity:.5"}) if value is None else value
    # A text written from right to left changes the direction of its own cell only.
    whole = {"title": value} if isinstance(value, str) and len(value) > _WIDE else {}
    return Element(name, [content], {"style": style, "dir": "auto", **whole})


ROWS, COLUMNS, CELL_CHARACTERS = 20, 30, 200
"""The most that is shown of a sample; the rest is given as a number."""


class Previewable(Protocol):
    """A ParsedDualResponse or its synchronous form."""

    @property
    def name(self) -> str: ...
    @property
    def sample(self) -> list[Row]: ...
    @property
    def total_count(self) -> int | None: ...
    @property
    def total_count_kind(self) -> TotalCountKind: ...
    @property
    def resource_uri(self) -> str: ...
    @property
    def resource_url(self) -> str | None: ...
    @property
    def columns(self) -> list[Column]: ...
    def time_left(self) -> timedelta | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The texts of a preview, printable and bounded.

    Attributes:
        columns: the names of the columns shown; `headings` are the printable names, `numeric` is True for columns of
            numbers.
        rows: the values of these columns as texts; None is NULL.
        left_out: the number of rows and columns of the sample that are not shown; empty if all are.
        address: the URL of the rows; None if the client has no base_url (a URL in a tool result is untrusted).
    """

    name: str
    columns: list[str]
    headings: list[str]
    numeric: list[bool]
    rows: list[list[str | None]]
    count: str
    left_out: str
    uri: str
    address: str | None
    expiry: str


def preview(response: Previewable, *, is_configured: bool) -> Preview:
    """The preview of a dual response."""
    sample = response.sample
    types = {column["name"]: column["type"] for column in response.columns}
    names = list(dict.fromkeys([*types, *(sample[0] if sample else ())]))
    columns = names[:COLUMNS]
    return Preview(
        name=printable(response.name, 80) or "Result",
        columns=columns,
        headings=[printable(name, 60) for name in columns],
        numeric=[types.get(name) == "number" for name in columns],
        rows=[[cell_text(row.get(name)) for name in columns] for row in sample[:ROWS]],
        count=f"{len(sample):,} of {total_in_words(response.total_count, response.total_count_kind)}",
        left_out=_left_out(len(sample) - ROWS, len(names) - COLUMNS),
        uri=printable(response.resource_uri, 512),
        address=response.resource_url if is_configured else None,
        expiry=expiry_in_words(response.time_left()),
    )


_NEW_TAB = {"rel": "noreferrer", "target": "_blank"}
# In a URL, a comma separates the keys of an order, and a minus means descending.
_SORTABLE = re.compile(r"(?![-+])[^,]{1,200}")


def html(content: Preview) -> str:
    """An HTML table for a notebook, without scripts, style sheets or formulas.

    Each heading links to the page with all rows, sorted by its column: the preview has only the first rows.
    """
    address = content.address or ""
    link = Element("a", [address], {"href": address, **_NEW_TAB}) if address else "no base_url to fetch from"
    headings = [
        Element("a", [heading], {"href": f"{address}?sort={quote(name, safe='')}", **_NEW_TAB})
        if address and name.isprintable() and _SORTABLE.fullmatch(name)
        else heading
        for name, heading in zip(content.columns, content.headings, strict=True)
    ]
    facts = [content.count, content.left_out, content.uri, link, content.expiry]
    parts = [part for fact in facts if fact for part in (" · ", fact)][1:]
    return html_table(content.name, headings, content.numeric, content.rows, parts)


@dataclass(frozen=True, slots=True)
class TerminalPreview:
    """The name, a table with a line for each row, and a line of facts: as many columns as the terminal has room for."""

    content: Preview

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        content, columns = self.content, max(1, options.max_width // _NARROWEST)
        lengths = [
            max(cell_len("NULL" if text is None else text) for text in column)
            for column in zip(
                content.headings[:columns], *(row[:columns] for row in content.rows), strict=True
            )
        ]
        widest = _widest(lengths, options.max_width - _BORDER * len(lengths) - 1)
        table = Table()
        # rich reads a str as markup, and a Text as it is.
        for heading, is_number in zip(content.headings[:columns], content.numeric, strict=False):
            justify: Literal["left", "right"] = "right" if is_number else "left"
            table.add_column(Text(cut_to(heading, widest, cell_len)), justify=justify, no_wrap=True)
        for row in content.rows:
            texts = (None if value is None else cut_to(value, widest, cell_len) for value in row[:columns])
            table.add_row(*(Text("NULL", style="dim") if each is None else Text(each) for each in texts))
        hidden = len(content.headings) - columns
        narrow = f"{hidden:,} more columns in a wider terminal" if hidden > 0 else ""
        view = f"dualsql-client view {content.address}" if content.address else ""
        facts = [content.count, content.left_out, narrow, content.uri, view, content.expiry]
        yield Text(content.name, style="bold")
        yield table
        yield Text(" · ".join(fact for fact in facts if fact))


_NARROWEST = 11
"""Width of a column of a terminal, with its border."""

_BORDER = 3
"""Width of the border and the blanks of a column."""


def cut_to(text: str, width: int, length: Callable[[str], int]) -> str:
    """The text, or as many of its whole signs as the width has room for."""
    return text if length(text) <= width else f"{text[: end_of_signs(text, width - 1, length)]}…"


def end_of_signs(text: str, width: int, length: Callable[[str], int]) -> int:
    """How many characters of whole signs the width has room for."""
    end = bisect_right(range(len(text)), width, key=lambda place: length(text[: place + 1]))
    return end if end == len(text) else _end_within(text, end)


def _widest(lengths: Sequence[int], room: int) -> int:
    """The width at which long columns are cut, so that all of them fit; rich would cut the short ones to nothing."""
    widest = max(lengths, default=1)
    while widest > 1 and sum(min(length, widest) for length in lengths) > room:
        widest -= 1
    return widest


def cell_text(value: Any, characters: int = CELL_CHARACTERS) -> str | None:
    """A value as a text of one line; None for NULL."""
    if value is None:
        return None
    if isinstance(value, bool | dict | list):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return printable(value if isinstance(value, str) else str(value), characters)


def total_in_words(total: int | None, kind: TotalCountKind) -> str:
    """Such as `about 15,000 rows`."""
    if total is None:
        return "an unknown number of rows"
    prefix = {"estimated": "about ", "capped": "at least "}.get(kind, "")
    return f"{prefix}{total:,} {'row' if total == 1 else 'rows'}"


def expiry_in_words(lifetime: timedelta | None) -> str:
    """Such as `expires in 14 min`; empty when the end is unknown, or there is none."""
    if lifetime is None:
        return ""
    return "expired" if lifetime <= timedelta(0) else f"expires in {duration_in_words(lifetime)}"


def duration_in_words(length: timedelta) -> str:
    """Such as `45 s`, `14 min`, `3 h 20 min`, `5 d`."""
    seconds = int(length.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7_200:
        return f"{seconds // 60} min"
    if seconds < 172_800:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400} d"


def _left_out(rows: int, columns: int) -> str:
    parts = [
        f"{number:,} more {unit}" for number, unit in ((rows, "rows"), (columns, "columns")) if number > 0
    ]
    return f"{' and '.join(parts)} in the sample" if parts else ""
