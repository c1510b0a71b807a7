"""The dialogs of a page offer what the server's tables have; no script has a list of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from sqlalchemy import func, select

from dualsql import web
from dualsql.charts.chart import MARKS
from dualsql.query import read_result_query
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.conditions import OPERATOR_KINDS
from dualsql.query.model import BUCKETS, OPERATORS
from dualsql.web.mcp import app_html
from dualsql.web.words import vocabulary
from dualsql_client.wire import ENCODINGS
from tests.http.application import Application
from tests.web.browser import needs_chromium, tab
from tests.web.conftest import FLIGHTS, Site

STATIC = Path(web.__file__).with_name("static")
VALUES: dict[str, Any] = {"one": 1, "several": [1, 2], "two": [1, 2]}


def vocabulary_of(html: str) -> Any:
    match = re.search(r'data-vocabulary="([^"]*)"', html)
    assert match
    return json.loads(unescape(match[1]))


def test_each_row_of_the_tables_is_offered() -> None:
    document = json.loads(vocabulary())
    assert {choice["op"] for choice in document["conditions"]} >= set(OPERATORS)
    assert [bucket["name"] for bucket in document["buckets"]] == list(BUCKETS)
    assert [mark["name"] for mark in document["marks"]] == list(MARKS)
    assert document["aggregates"] == [name for name, known in AGGREGATES.items() if not known.takes_fraction]
    assert {
        name: tuple(kinds) for name, kinds in document["kinds"].items() if name in OPERATOR_KINDS
    } == OPERATOR_KINDS
    assert set(document["kinds"]) == ENCODINGS - {"json", "array"}


def test_each_choice_is_a_condition_and_none_means_another() -> None:
    choices = json.loads(vocabulary())["conditions"]
    conditions = [
        {"column": "a", "op": choice["op"], "value": choice.get("value", VALUES.get(choice["takes"]))}
        for choice in choices
    ]
    queries = [read_result_query({"filters": [condition]}) for condition in conditions]
    assert len(set(queries)) == len({choice["name"] for choice in choices}) == len(choices)


def test_no_script_lists_names_of_the_tables() -> None:
    for table in (OPERATORS, AGGREGATES, BUCKETS):
        quoted = re.compile(rf"""["'](?:{"|".join(table)})["']""")
        for script in STATIC.glob("*.js"):
            lines = script.read_text(encoding="utf-8").splitlines()
            listed = [line for line in lines if len(set(quoted.findall(line))) > 1]
            assert listed == [], f"{script.name}: dualsql/web/words.py has the names"


async def test_both_pages_have_the_vocabulary(pages: Application) -> None:
    page = await pages.http.get(f"{await pages.create()}/view", headers={"x-user": "ada"})
    for html in (page.text, app_html(has_pages=True, page_size=10)):
        assert vocabulary_of(html) == json.loads(vocabulary())


@pytest.mark.long
@needs_chromium
async def test_a_row_of_a_table_is_offered_in_a_dialog(
    site: Site, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added is offered, sent, answered and named; what a column cannot have is not offered."""
    like: Any = "same_letters"
    actual = replace(
        OPERATORS["contains"],
        name=like,
        words="is in any case",
        negations=(),
        negation="",
        find=lambda _, text, part: func.lower(text) == part.lower(),
    )
    monkeypatch.setitem(OPERATORS, like, actual)
    spread = replace(
        AGGREGATES["avg"],
        name="value_range",
        write=lambda call: func.max(call.values) - func.min(call.values),
    )
    monkeypatch.setitem(AGGREGATES, "value_range", spread)
    async with tab(browser) as page:
        await page.goto(await site.create(select(FLIGHTS).order_by(FLIGHTS.c.id)))
        for column, offered in (("carrier", 1), ("delay", 0), ("departure", 0)):
            await page.get_by_role("button", name=f"Options of {column}").click()
            await expect(page.locator(f'option[value="{like}"]')).to_have_count(offered)
            await expect(page.locator('option[value="lt"]')).to_have_text(
                "is before" if column == "departure" else "is below"
            )
            await page.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Options of carrier").click()
        await page.get_by_label("Condition").select_option(like)
        await page.get_by_label("Value", exact=True).fill("ua")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("20,000 rows")
        await expect(page.get_by_role("button", name="Remove: carrier is in any case ua")).to_be_visible()
        await page.get_by_role("button", name="Group").click()
        await page.get_by_label("Compute").select_option(label="value range")
        await page.locator('select[name="column"]').select_option("id")
        await page.get_by_role("dialog").get_by_role("button", name="Group").click()
        await expect(page.locator("#total")).to_have_text("1 group")
        await expect(page.locator("#rows")).to_contain_text("99,995")


@pytest.mark.long
@needs_chromium
async def test_conditions_of_each_kind_are_sent_and_named(site: Site, browser: Browser) -> None:
    asked = [
        ("delay", "is_null", "", "Remove: delay has no value", "5,000 rows"),
        ("delay", "not_null", "", "Remove: delay has a value", "95,000 rows"),
        ("carrier", "not_in", "UA\nAA\nDL", "Remove: carrier is none of UA, AA, DL", "40,000 rows"),
        ("carrier", "not_contains", "A", "Remove: carrier does not contain A", "60,000 rows"),
        ("cancelled", "eq", "true", "Remove: cancelled is true", "2,000 rows"),
    ]
    url = await site.create(select(FLIGHTS).order_by(FLIGHTS.c.id))
    async with tab(browser) as page:
        await page.goto(url)
        for column, name, value, words, total in asked:
            await page.get_by_role("button", name=f"Options of {column}").click()
            await page.get_by_label("Condition").select_option(name)
            if "\n" in value:
                await page.get_by_label("Values, one a line").fill(value)
            elif column == "cancelled":
                await page.locator('select[name="value"]').select_option(value)
            elif value:
                await page.get_by_label("Value", exact=True).fill(value)
            await page.get_by_role("dialog").get_by_role("button", name="Filter").click()
            await expect(page.locator("#total")).to_have_text(total)
            await page.get_by_role("button", name=words).click()
            await expect(page.locator("#total")).to_have_text("100,000 rows")
