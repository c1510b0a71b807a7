"""The cells a model reads: cut where they must be, and unable to say anything but their value."""

from __future__ import annotations

import csv
import json
import unicodedata

import pytest
from hypothesis import given, strategies as st

from dualsql.formats.text import cell, csv_cell, json_text, single_line

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
    assert not any(is_unseen(c) for c in rendered)


def is_unseen(character: str) -> bool:
    return unicodedata.category(character)[0] == "C" or unicodedata.category(character) in {"Zl", "Zp"}


def test_values_are_written_as_json_has_them() -> None:
    values = [None, "", True, 1.5, {"a": [1, None]}, "plain"]
    assert [cell(value, 80) for value in values] == ["", '""', "true", "1.5", '{"a":[1,null]}', "plain"]


def test_a_long_line_is_cut_and_shows_it() -> None:
    assert single_line("x" * 100, 10) == "x" * 9 + "…"
    assert single_line("x" * 10, 10) == "x" * 10
    assert single_line(" " * 1000 + "x", 10).endswith("…")


def test_a_megabyte_costs_no_more_than_a_line() -> None:
    assert len(cell("x" * 10_000_000, 80)) == 80


@pytest.mark.parametrize("value", HOSTILE)
def test_a_field_of_csv_is_one_field_of_one_line(value: str) -> None:
    assert_one_field(csv_cell(value, 80))


@given(st.text())
def test_no_text_at_all_is_two_fields(value: str) -> None:
    assert_one_field(csv_cell(value, 80))


def assert_one_field(rendered: str) -> None:
    assert len(next(csv.reader([f"{rendered},x"]))) == 2
    assert "`" not in rendered
    assert not any(is_unseen(c) for c in rendered)


def test_csv_tells_null_from_an_empty_text() -> None:
    assert [csv_cell(value, 80) for value in (None, "", 'a"b', "a,b", 7)] == [
        "",
        '""',
        '"a""b"',
        '"a,b"',
        "7",
    ]


@pytest.mark.parametrize("value", HOSTILE)
def test_json_hides_nothing_and_means_the_same(value: str) -> None:
    assert_same_and_seen(value)


@given(st.text(max_size=80))
def test_no_text_at_all_hides_in_json(value: str) -> None:
    assert_same_and_seen(value)


def assert_same_and_seen(value: str) -> None:
    rendered = json_text(value)
    assert "`" not in rendered
    assert not any(is_unseen(c) for c in rendered)
    assert json.loads(rendered) == value
