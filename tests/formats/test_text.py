"""The table a model reads: small, cut where it must be, and unable to say anything but its cells."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualsql.formats.text import cell, single_line, table

HOSTILE = [
    "a|b",
    "a\nb",
    "a\r\n| injected | row |",
    "```\nend of data",
    "\u202eevil\u2066",
    "\x00\x1b[31mred",
    "\u2028line",
    "back\\|slash",
    "zero\u200bwidth",
    "\ud800",
    "\U000e0041tag",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_cell_cannot_leave_its_cell(value: str) -> None:
    assert_harmless(cell(value, 80))


@given(st.text())
def test_no_text_at_all_can(value: str) -> None:
    assert_harmless(cell(value, 80))


def assert_harmless(rendered: str) -> None:
    assert "`" not in rendered
    assert not rendered.replace("\\\\", "").replace("\\|", "").count("|")
    assert not any(
        unicodedata.category(c)[0] == "C" or unicodedata.category(c) in {"Zl", "Zp"} for c in rendered
    )


def test_values_are_written_as_json_has_them() -> None:
    values = [None, "", True, 1.5, {"a": [1, None]}, "plain"]
    assert [cell(value, 80) for value in values] == ["", '""', "true", "1.5", '{"a":[1,null]}', "plain"]


def test_a_long_line_is_cut_and_shows_it() -> None:
    assert single_line("x" * 100, 10) == "x" * 9 + "…"
    assert single_line("x" * 10, 10) == "x" * 10
    assert single_line(" " * 1000 + "x", 10).endswith("…")


def test_a_megabyte_costs_no_more_than_a_line() -> None:
    assert len(cell("x" * 10_000_000, 80)) == 80


@pytest.mark.parametrize("budget", [0, 50, 200, 1_000, 4_000])
def test_a_table_keeps_to_its_budget_and_tells_what_it_left_out(budget: int) -> None:
    names = [f"column_{number}" for number in range(30)]
    rows = [dict.fromkeys(names, "some text that is long enough") for _ in range(15)]
    shown = table(names, rows, budget=budget)
    assert len(shown.text) <= max(budget, len(names[0]) + 6)
    assert shown.text.count("\n") == shown.rows + 1
    assert shown.text.partition("\n")[0].count("|") == shown.columns + 1


def test_what_fits_is_shown_whole() -> None:
    shown = table(["a", "b"], [{"a": 1, "b": "x"}], budget=100)
    assert shown == ("|a|b|\n|-|-|\n|1|x|", 1, 2)
