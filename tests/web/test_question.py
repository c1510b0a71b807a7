"""Short questions in the search field of a result's page, its keys, and the names behind foreign keys."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from playwright.async_api import Browser, Download, expect

from tests.web.browser import needs_chromium, tab
from tests.web.conftest import Site
from tests.web.test_analyst import opened
from tests.web.test_browser import BY_ID

pytestmark = needs_chromium

QUESTIONS = [
    ("carrier=UA,AA", "40,000 rows", ["carrier is one of UA, AA"]),
    ("carrier = UA delay is_null", "5,000 rows", ["carrier is UA", "delay has no value"]),
    ("departure=2013-02", "8,064 rows", ["departure from 2013-02-01T00:00:00 to before 2013-03-01T00:00:00"]),
    ("delay between 70, 75 sort -delay", "5,872 rows", ["delay is between 70 and 75"]),
    ("by carrier, dest avg delay", "20 groups", []),
    ("note has weather by CARRIER", "5 groups", ["note contains weather"]),
    ("by departure:month max distance", "12 groups", []),
]


@pytest.mark.long
@pytest.mark.parametrize(("text", "total", "chips"), QUESTIONS)
async def test_a_question_is_asked(
    site: Site, browser: Browser, text: str, total: str, chips: list[str]
) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        await page.keyboard.press("Control+k")
        await page.keyboard.insert_text(text)
        await page.keyboard.press("Enter")
        for words in chips:
            await expect(page.get_by_role("button", name=f"Remove: {words}")).to_be_visible()
        await expect(page.locator("#total")).to_have_text(total)
        await expect(page.locator("#message")).to_be_empty()
        if ":month" in text:
            await expect(page.get_by_role("gridcell").first).to_have_text("2013-01")


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("by carrier, nothing", "There is no column “nothing”."),
        ("by departure:decade", "“decade” is none of year, quarter, month, week, day, hour."),
        ("delay >", "A value is missing."),
        ("carrier=UA, chart", "Before “chart” is no value."),
        ("cancelled=maybe", "cancelled is true or false."),
        ("id=1,000", "Write numbers without commas between their digits."),
        ('id=5"', "A double quote has no second one."),
        ("departure=2013-02-30", "There is no day “2013-02-30”."),
        ("delay > 3, 4", "“is above” takes one value."),
        ("delay > 3 carrier", "After carrier, write a condition, such as =, <, >= or has."),
        ("by carrier sort -delay", re.compile("Groups are ordered by their last aggregate. Leave sort out")),
    ],
)
async def test_what_is_wrong_in_a_question_is_said(
    site: Site, browser: Browser, text: str, words: Any
) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("searchbox").fill(text)
        await page.keyboard.press("Enter")
        await expect(page.locator("#message")).to_contain_text(words)
        await expect(page.locator("#total")).to_have_text("100,000 rows")


@pytest.mark.long
async def test_another_text_is_searched_for(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        for text in ("by the weather", "note after rain", "note in transit", "max 10:30", '"carrier=UA"'):
            await page.get_by_role("searchbox").fill(text)
            await page.keyboard.press("Enter")
            words = text.strip('"')
            await expect(
                page.get_by_role("button", name=f"Remove: one of 3 columns has “{words}”")
            ).to_be_visible()


async def lines_of(download: Download) -> list[str]:
    """The lines of a file that the browser saved."""
    return (await anyio.Path(await download.path()).read_text(encoding="utf-8")).splitlines()


@pytest.mark.long
async def test_keys_save_what_is_seen_and_groups_say_the_share_of_nulls(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        search = page.get_by_role("searchbox")
        await search.fill("id<4 sort -id")
        await search.press("Enter")
        await expect(page.locator("#total")).to_have_text("3 rows")
        async with page.expect_download() as download:
            await page.keyboard.press("Control+s")
        lines = await lines_of(await download.value)
        assert [line.split(",")[0] for line in lines] == ["id", "3", "2", "1"]
        await page.get_by_role("button", name="Remove: id is below 4").click()
        await page.get_by_role("searchbox").fill("by carrier count delay")
        await page.keyboard.press("Enter")
        # A flight in 20 has no delay; its number, and so its carrier, is one of five.
        await expect(page.get_by_role("gridcell", name="15,000 (25% NULL)")).to_be_visible()
        await expect(page.get_by_role("gridcell", name="20,000 (0% NULL)")).to_have_count(4)


@pytest.mark.long
async def test_what_is_written_on_the_grid_goes_to_the_search(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        search = page.get_by_role("searchbox")
        await page.keyboard.type("id<4")
        await expect(search).to_have_value("id<4")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("3 rows")
        await page.get_by_role("gridcell").first.click()
        await page.keyboard.press("ArrowDown")
        await page.keyboard.type("id>2")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("1 row")
        # The grid's own key, and what is written into another field.
        await page.get_by_role("gridcell").first.click()
        await page.keyboard.press("Space")
        await page.get_by_role("dialog").get_by_role("button", name="Close").click()
        await page.get_by_label("Go to row").click()
        await page.keyboard.type("1")
        await expect(search).to_have_value("")
