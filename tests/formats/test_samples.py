"""A sample as text and as rows: within its budget, and honest about what was cut."""

from __future__ import annotations

import csv
import json
from typing import Any, Literal

import pytest

from dualsql.formats.excerpts import fit, table

Format = Literal["markdown", "csv"]
FORMATS: tuple[Format, ...] = ("markdown", "csv")
NAMES = [f"column_{number}" for number in range(30)]


def rows_of(text: str, text_format: Format) -> list[dict[str, Any]]:
    """What a reader of the text makes of it."""
    lines = text.split("\n")
    if text_format == "csv":
        return list(csv.DictReader(lines))
    names, values = lines[0].strip("|").split("|"), lines[2:]
    return [dict(zip(names, line.strip("|").split("|"), strict=True)) for line in values]


@pytest.mark.parametrize("text_format", FORMATS)
@pytest.mark.parametrize("budget", [60, 200, 1_000, 4_000])
def test_a_text_keeps_to_its_budget_and_tells_what_it_left_out(budget: int, text_format: Format) -> None:
    rows = [dict.fromkeys(NAMES, "some text that is long enough") for _ in range(15)]
    shown = table(NAMES, rows, budget=budget, text_format=text_format)
    assert len(shown.text) <= budget
    read = rows_of(shown.text, text_format)
    assert len(read) == shown.rows
    assert not read or len(read[0]) == shown.columns
    assert (shown.width is not None) == ("…" in shown.text)


@pytest.mark.parametrize("text_format", FORMATS)
def test_no_budget_at_all_leaves_next_to_nothing(text_format: Format) -> None:
    shown = table(NAMES, [dict.fromkeys(NAMES, 1)] * 3, budget=0, text_format=text_format)
    assert (shown.rows, shown.columns) in {(0, 1), (0, 30)}
    assert len(shown.text) <= len(NAMES[0]) + 6


@pytest.mark.parametrize(
    ("text_format", "text"),
    [
        ("markdown", "|a|b|\n|-|-|\n|1|x|"),
        ("csv", "a,b\n1,x"),
    ],
)
def test_what_fits_is_shown_whole(text_format: Format, text: str) -> None:
    assert table(["a", "b"], [{"a": 1, "b": "x"}], budget=100, text_format=text_format) == (text, 1, 2, None)


def test_rows_go_before_cells_are_cut() -> None:
    rows = [{"a": "x" * 50} for _ in range(15)]
    assert table(["a"], rows, budget=700)[1:] == (13, 1, None)
    assert table(["a"], rows, budget=450)[1:] == (10, 1, 40)


@pytest.mark.parametrize("text_format", FORMATS)
@pytest.mark.parametrize("length", [81, 1_000, 3_900])
def test_a_cell_is_cut_only_if_it_does_not_fit(length: int, text_format: Format) -> None:
    rows = [{"a": "x" * length}]
    assert table(["a"], rows, budget=4_000, text_format=text_format)[1:] == (1, 1, None)
    assert fit(rows, 4_000) == (rows, None)
    long = [{"a": "x" * 20_000, "b": "…"}]
    shown = table(["a", "b"], long, budget=4_000, text_format=text_format)
    for width, text in (
        (shown.width, shown.text),
        (fit(long, 4_000).width, json.dumps(fit(long, 4_000).rows)),
    ):
        assert width is not None
        assert 3_700 < width <= text.count("x") + 1 < 4_000


@pytest.mark.parametrize("text_format", FORMATS)
def test_all_rows_are_shown_where_their_beginnings_fit(text_format: Format) -> None:
    rows = [{"a": number, "b": "x" * 2_000} for number in range(15)]
    shown = table(["a", "b"], rows, budget=4_000, text_format=text_format)
    assert shown.rows == 15
    assert shown.width is not None
    assert 200 < shown.width < 270
    fitted = fit(rows, 4_000)
    assert len(fitted.rows) == 15
    assert fitted.width is not None
    assert 200 < fitted.width < 270


def test_an_ellipsis_of_the_data_is_no_cut() -> None:
    assert table(["a"], [{"a": "and so on…"}], budget=100).width is None


def test_rows_that_fit_are_untouched() -> None:
    rows: list[dict[str, Any]] = [{"a": "x" * 5_000}, {"a": None}]
    assert fit(rows, 6_000) == (rows, None)


def test_rows_of_a_structure_go_before_its_cells_are_cut() -> None:
    rows = [{"a": "x" * 500, "b": [1, "y" * 500]} for _ in range(10)]
    assert fit(rows, 4_000) == (rows[:3], None)
    fitted = fit(rows, 1_500)
    assert fitted.width == pytest.approx(235, abs=12)
    assert len(fitted.rows) == 3
    assert all(len(value) == fitted.width for row in fitted.rows for value in row.values())


def test_megabytes_do_not_reach_a_model() -> None:
    fitted = fit([{"a": {"b": "x" * 10_000_000}, "c": 10**15}], 16_000)
    assert fitted.width is not None
    assert 15_000 < fitted.width < 16_000
    assert len(json.dumps(fitted.rows, ensure_ascii=False, separators=(",", ":"))) <= 16_000
    assert fitted.rows[0]["c"] == 10**15
    assert fitted.rows[0]["a"].endswith("…")
    assert fit([dict.fromkeys(NAMES, "x" * 100)], 100).rows == []
