"""A dual response for a person: one screen of text or HTML, escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote

from dualsql_client.wire import Column, Row, TotalCountKind

if TYPE_CHECKING:
    from rich.console import Group


_UNSEEN = "\N{REPLACEMENT CHARACTER}"

# Persian, Hindi and families of emoji are spelled with them; they do nothing else.
_JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def printable(text: str, characters: int) -> str:
    """The text on one line; an ellipsis stands for what is more than so many characters.

    Line breaks and tabs are spaces. Control characters, so the escape sequences of terminals, characters that turn
    the direction of writing, and halves of surrogate pairs are shown as a replacement character.
    """
    if len(text) > characters:
        text = f"{text[: characters - 1]}…"
    if text.isprintable():
        return text
    return "".join(_seen(character) for character in text)


def _seen(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    return " " if character.isspace() else _UNSEEN


# MathJax, which notebooks run over what they show, makes links of \href{javascript:...} between dollars. It reads
# text, whatever its escapes; an element of its own around each mark keeps it from seeing a pair of them.
_MARKS = re.compile(r"[$\\]+")

# A long text wraps; one without spaces, too.
_STYLE = "text-align:left;vertical-align:top;white-space:normal;overflow-wrap:anywhere;min-width:4em;max-width:32em"
_NUMBER = "text-align:right;vertical-align:top;white-space:nowrap"


class Element(NamedTuple):
    """An element that holds texts and elements.

    Attributes:
        attributes: of this package's own; their values are escaped, but an address must be an http address.
    """

    name: str
    content: Sequence[str | Element]
    attributes: Mapping[str, str] = {}


def written(node: str | Element) -> str:
    """Its HTML."""
    if isinstance(node, str):
        return _MARKS.sub(lambda found: f"<span>{found[0]}</span>", escape(node))
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in node.attributes.items())
    return f"<{node.name}{attributes}>{''.join(map(written, node.content))}</{node.name}>"


def table_of(
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
    # Both words by which a page says that there are no formulas, too.
    return written(Element("div", parts, {"class": "dualsql tex2jax_ignore mathjax_ignore"}))


def _cell(name: str, value: str | Element | None, style: str) -> Element:
    content = Element("i", ["NULL"], {"style": "opacity:.5"}) if value is None else value
    # A text that is written from right to left turns its own cell and nothing beside it.
    return Element(name, [content], {"style": style, "dir": "auto"})


ROWS, COLUMNS, CELL_CHARACTERS = 20, 30, 200
"""The most that is shown of a sample; the rest is counted."""


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
    """A dual response in words, each of them printable and bounded.

    Attributes:
        columns: names of the columns shown, as they are; `headings` are printable. `numeric` says for each whether its
            values are numbers.
        rows: their values in words; None is NULL.
        left_out: a note on the part of the sample that is not shown, or an empty text.
        address: the URL of the rows; None if the client has no base_url (the tool result's own is untrusted).
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


def preview(seen: Previewable, *, is_configured: bool) -> Preview:
    """The words of a dual response."""
    names = list(dict.fromkeys([*(column["name"] for column in seen.columns), *_names(seen.sample)]))
    shown = names[:COLUMNS]
    types = {column["name"]: column["type"] for column in seen.columns}
    return Preview(
        name=printable(seen.name, 80) or "Result",
        columns=shown,
        headings=[printable(name, 60) for name in shown],
        numeric=[types.get(name) == "number" for name in shown],
        rows=[[cell(row.get(name)) for name in shown] for row in seen.sample[:ROWS]],
        count=f"{len(seen.sample):,} of {total_in_words(seen.total_count, seen.total_count_kind)}",
        left_out=_left_out(len(seen.sample) - ROWS, len(names) - COLUMNS),
        uri=printable(seen.resource_uri, 512),
        address=seen.resource_url if is_configured else None,
        expiry=expiry_in_words(seen.time_left()),
    )


_BESIDE = {"rel": "noreferrer", "target": "_blank"}
# In a URL, a comma separates the keys of an order, and a minus turns one around.
_SORTABLE = re.compile(r"(?![-+])[^,]{1,200}")


def html(seen: Preview) -> str:
    """An HTML table for a notebook, without scripts, foreign styles or formulas.

    Each heading leads to the page with all rows, sorted by its column: what is shown is only their beginning.
    """

    address = seen.address or ""
    link = Element("a", [address], {"href": address, **_BESIDE}) if address else "no base_url to fetch from"
    headings = [
        Element("a", [heading], {"href": f"{address}?sort={quote(name, safe='')}", **_BESIDE})
        if address and name.isprintable() and _SORTABLE.fullmatch(name)
        else heading
        for name, heading in zip(seen.columns, seen.headings, strict=True)
    ]
    facts = [f"{seen.count}", seen.left_out, seen.uri, link, seen.expiry]
    spaced = [part for fact in facts if fact for part in (" · ", fact)][1:]
    return table_of(seen.name, headings, seen.numeric, seen.rows, spaced)


def rich_group(seen: Preview) -> Group:
    """As its name, a table and a line of facts, for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table()
    # A Text is words; a str would be markup.
    for heading, is_number in zip(seen.headings, seen.numeric, strict=True):
        table.add_column(Text(heading), justify="right" if is_number else "left", overflow="ellipsis")
    for row in seen.rows:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(value) for value in row))
    facts = [seen.count, seen.left_out, seen.uri, seen.expiry]
    return Group(Text(seen.name, style="bold"), table, Text(" · ".join(fact for fact in facts if fact)))


def cell(value: Any, characters: int = CELL_CHARACTERS) -> str | None:
    """A value in one line of words; None for NULL."""
    if value is None:
        return None
    if isinstance(value, bool | dict | list):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return printable(value if isinstance(value, str) else str(value), characters)


def total_in_words(total: int | None, kind: TotalCountKind) -> str:
    """Such as `about 15,000 rows`."""
    if total is None:
        return "an unknown number of rows"
    before = {"estimated": "about ", "capped": "at least "}.get(kind, "")
    return f"{before}{total:,} {'row' if total == 1 else 'rows'}"


def expiry_in_words(left: timedelta | None) -> str:
    """Such as `expires in 14 min`; nothing of what has no end, or none that is known."""
    if left is None:
        return ""
    return "expired" if left <= timedelta(0) else f"expires in {span(left)}"


def span(length: timedelta) -> str:
    """Such as `45 s`, `14 min`, `3 h 20 min`, `5 d`."""
    seconds = int(length.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7_200:
        return f"{seconds // 60} min"
    if seconds < 172_800:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 86_400} d"


def _names(sample: Sequence[Row]) -> list[str]:
    return [name for row in sample[:1] for name in row]


def _left_out(rows: int, columns: int) -> str:
    parts = [
        f"{number:,} more {what}" for number, what in ((rows, "rows"), (columns, "columns")) if number > 0
    ]
    return f"{' and '.join(parts)} in the sample" if parts else ""
