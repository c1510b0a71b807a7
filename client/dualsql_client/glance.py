"""What a person sees of a dual response at a glance; the rule: what a cell says is shown, and never does anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from dualsql_client.plain import printable
from dualsql_client.wire import Column, Row, TotalCountKind

if TYPE_CHECKING:
    from rich.console import Group

ROWS, COLUMNS, CELL_CHARACTERS = 20, 30, 200
"""The most that is shown of a sample; the rest is counted."""


class Seen(Protocol):
    """What is looked at: a ParsedDualResponse or its synchronous form."""

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
class Glance:
    """A dual response in words, each of them printable and bounded.

    Attributes:
        headings: names of the columns shown; `numeric` says for each whether its values are numbers.
        rows: their values in words; None is NULL.
        left_out: what of the sample is not shown, or an empty text.
        address: where the rows are; None when the client has no base_url, and whose word would it be then?
    """

    name: str
    headings: list[str]
    numeric: list[bool]
    rows: list[list[str | None]]
    count: str
    left_out: str
    uri: str
    address: str | None
    expiry: str


def glance(seen: Seen, *, is_configured: bool) -> Glance:
    """The words of a dual response."""
    names = list(dict.fromkeys([*(column["name"] for column in seen.columns), *_names(seen.sample)]))
    shown = names[:COLUMNS]
    types = {column["name"]: column["type"] for column in seen.columns}
    return Glance(
        name=printable(seen.name, 80) or "Result",
        headings=[printable(name, 60) for name in shown],
        numeric=[types.get(name) == "number" for name in shown],
        rows=[[cell(row.get(name)) for name in shown] for row in seen.sample[:ROWS]],
        count=f"{len(seen.sample):,} of {total_in_words(seen.total_count, seen.total_count_kind)}",
        left_out=_left_out(len(seen.sample) - ROWS, len(names) - COLUMNS),
        uri=printable(seen.resource_uri, 512),
        address=seen.resource_url if is_configured else None,
        expiry=expiry_in_words(seen.time_left()),
    )


def html(seen: Glance) -> str:
    """As a table of HTML for a notebook: no scripts, no styles of strangers, no formulas."""
    from dualsql_client.markup import Element, table_of

    address = seen.address or ""
    link = (
        Element("a", [address], {"href": address, "rel": "noreferrer"})
        if address
        else "no base_url to fetch from"
    )
    facts = [f"{seen.count}", seen.left_out, seen.uri, link, seen.expiry]
    spaced = [part for fact in facts if fact for part in (" · ", fact)][1:]
    return table_of(seen.name, seen.headings, seen.numeric, seen.rows, spaced)


def rich_group(seen: Glance) -> Group:
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
