"""HTML out of text; the rule: all text is escaped in one place, and no page's typesetter finds a formula in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

# MathJax, which notebooks run over what they show, makes links of \href{javascript:...} between dollars. It reads
# text, whatever its escapes; an element of its own around each mark keeps it from seeing a pair of them.
_MARKS = re.compile(r"[$\\]+")

_STYLE = "text-align:left;vertical-align:top;white-space:nowrap"
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
    headings: Sequence[str],
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


def _cell(name: str, value: str | None, style: str) -> Element:
    content = Element("i", ["NULL"], {"style": "opacity:.5"}) if value is None else value
    # A text that is written from right to left turns its own cell and nothing beside it.
    return Element(name, [content], {"style": style, "dir": "auto"})
