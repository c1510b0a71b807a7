"""How a value, a list and a table are written for their reader; the rule: no value ever becomes markup.

A style knows how one cell is escaped and what is put around it; how much of the data there is room for, `writing` says.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from html import escape
from typing import Any

from dualsql.formats.text import cell, single_line

NAME_WIDTH = 80


class Text:
    """Plain text for a model: names and values, tables with bars. A cell ends neither its line nor its column."""

    between = "\n\n"

    def cell(self, value: Any, width: int) -> str:
        return cell(value, width)

    def prose(self, text: str) -> str:
        return "\n".join("".join(filter(_is_shown, line)) for line in text.splitlines())

    def heading(self, title: str) -> str:
        return f"{self.cell(title, NAME_WIDTH)}:\n"

    def note(self, text: str) -> str:
        return f"({text})"

    def pair(self, name: str, value: str) -> str:
        return f"{name}: {value}"

    def pairs(self, pairs: Sequence[str]) -> str:
        return "\n".join(pairs)

    def line(self, value: str) -> str:
        return f"- {value}"

    def lines(self, lines: Sequence[str]) -> str:
        return "\n".join(lines)

    def row(self, cells: Sequence[str]) -> str:
        return f"|{'|'.join(cells)}|"

    def table(self, names: Sequence[str], rows: Sequence[str]) -> str:
        return "\n".join([self.row(names), self.row(["-"] * len(names)), *rows])


def _is_shown(character: str) -> bool:
    # Control characters, bidirectional overrides, what has no width, halves of pairs.
    return character == "\t" or not unicodedata.category(character).startswith("C")


# All that begins a link, an image, HTML, an entity, emphasis or a formula. An image would be fetched, and so tell
# whoever serves it what else is on the screen.
_MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "[]<>*_~&$#!(){}"})
_BEGINNINGS = ("-", "+", "=")


class Markdown(Text):
    """Markdown for the screen of a chat."""

    def cell(self, value: Any, width: int) -> str:
        text = super().cell(value, width).translate(_MARKUP)
        # At the start of a line these begin a list, a rule or a heading.
        return f"\\{text}" if text.startswith(_BEGINNINGS) else text

    def prose(self, text: str) -> str:
        return "  \n".join(self.cell(line, len(line)) if line else "" for line in text.splitlines())

    def heading(self, title: str) -> str:
        return f"**{self.cell(title, NAME_WIDTH)}**\n\n"

    def note(self, text: str) -> str:
        return f"*{text}*"

    def pair(self, name: str, value: str) -> str:
        return f"- **{name}:** {value}"


class HTML(Text):
    """HTML of bare elements: no attribute, no script, no style."""

    between = "\n"

    def cell(self, value: Any, width: int) -> str:
        if value is None:
            return ""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return escape(single_line(text, width))

    def prose(self, text: str) -> str:
        return f"<p>{'<br>'.join(self.cell(line, len(line)) for line in text.splitlines())}</p>"

    def heading(self, title: str) -> str:
        return f"<h4>{self.cell(title, NAME_WIDTH)}</h4>\n"

    def note(self, text: str) -> str:
        return f"<p><em>{text}</em></p>"

    def pair(self, name: str, value: str) -> str:
        return f"<dt>{name}</dt><dd>{value}</dd>"

    def pairs(self, pairs: Sequence[str]) -> str:
        return f"<dl>{''.join(pairs)}</dl>"

    def line(self, value: str) -> str:
        return f"<li>{value}</li>"

    def lines(self, lines: Sequence[str]) -> str:
        return f"<ul>{''.join(lines)}</ul>"

    def row(self, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<td>{each}</td>' for each in cells)}</tr>"

    def table(self, names: Sequence[str], rows: Sequence[str]) -> str:
        head = "".join(f"<th>{name}</th>" for name in names)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
