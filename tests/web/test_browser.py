"""The page of a result in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect
from sqlalchemy import select

from tests.web.browser import needs_chromium, tab
from tests.web.conftest import FLIGHTS, FLIGHTS_IN_ALL, HOSTILE, Site
from tests.web.hostile import CELLS

pytestmark = needs_chromium
BY_ID = select(FLIGHTS).order_by(FLIGHTS.c.id)


async def test_a_result_opens_as_a_grid(site: Site, browser: Browser) -> None:
    url = await site.create(BY_ID)
    async with tab(browser) as page:
        await page.goto(url)
        await expect(page.get_by_role("grid")).to_be_visible()
        await expect(page.locator("#total")).to_have_text("100,000 rows")
        await expect(page.locator("tbody tr").first.locator("td").first).to_have_text("1")
        await page.get_by_role("button", name="delay", exact=True).click()
        await expect(page.get_by_role("columnheader", name="delay")).to_have_attribute(
            "aria-sort", "ascending"
        )
        await page.get_by_label("Go to row").fill("90000")
        await page.keyboard.press("Enter")
        await expect(page.locator("tbody th").first).to_have_text("90,000")


@pytest.mark.long
class TestKeys:
    async def test_every_row_can_be_reached(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            active = page.locator("td.active")
            await page.locator("tbody td").first.click()
            await page.keyboard.press("Control+End")
            await expect(page.locator("tbody th").last).to_have_text(f"{FLIGHTS_IN_ALL:,}")
            await page.keyboard.press("Home")
            await expect(active).to_have_text(f"{FLIGHTS_IN_ALL:,}")
            for row in range(1, 30):
                await page.keyboard.press("ArrowUp")
                await expect(active).to_have_text(f"{FLIGHTS_IN_ALL - row:,}")
            await page.keyboard.press("Control+Home")
            await expect(active).to_have_text("1")
            await page.keyboard.press("PageDown")
            await expect(active).not_to_have_text("1")

    async def test_a_selection_is_copied(self, site: Site, browser: Browser) -> None:
        async with tab(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
            await page.goto(await site.create(BY_ID))
            await page.locator("tbody td").first.click()
            for key in ("Shift+ArrowDown", "Shift+ArrowRight", "Control+c"):
                await page.keyboard.press(key)
            await expect(page.locator("#message")).to_contain_text("Copied 2 rows")
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert copied == "id\tcarrier\n1\tAA\n2\tDL"


@pytest.mark.long
class TestQuestions:
    async def test_a_filter_counts_and_its_chip_removes_it(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            await page.get_by_role("button", name="Options of carrier").click()
            await page.get_by_label("Value").fill("UA")
            await page.keyboard.press("Enter")
            await expect(page.locator("#total")).to_have_text("20,000 rows")
            await page.reload()
            await expect(page.locator("#total")).to_have_text("20,000 rows")
            await page.get_by_role("button", name="Remove: carrier is UA").click()
            await expect(page.locator("#total")).to_have_text("100,000 rows")
            await page.go_back()
            await expect(page.locator("#total")).to_have_text("20,000 rows")

    async def test_groups_are_a_table_and_a_chart(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            await page.get_by_role("button", name="Group").click()
            await page.get_by_label("Group by").select_option("carrier")
            await page.get_by_role("dialog").get_by_role("button", name="Group").click()
            await expect(page.locator("#total")).to_have_text("5 groups")
            await expect(page.locator("#chart rect")).to_have_count(5)


@pytest.mark.long
async def test_the_wheel_moves_row_by_row_and_the_bar_reaches_the_end(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await page.goto(await site.create(BY_ID))
        await page.locator("tbody td").first.hover()
        await page.mouse.wheel(0, 29 * 5)
        await expect(page.locator("tbody th").first).to_have_text("6")
        await page.locator(".scrollbar").evaluate("bar => { bar.scrollTop = bar.scrollHeight; }")
        await expect(page.locator("tbody th").last).to_have_text(f"{FLIGHTS_IN_ALL:,}")
        assert await page.locator("tr").count() <= 60


@pytest.mark.long
@pytest.mark.parametrize("script", [True, False])
async def test_hostile_cells_are_text(site: Site, browser: Browser, script: bool) -> None:
    url = await site.create(
        select(HOSTILE).order_by(HOSTILE.c.id), name="<img src=x onerror=alert(1)> \u202evalues"
    )
    async with tab(browser, java_script_enabled=script) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        await page.goto(url)
        for start in range(1, len(CELLS), 15):
            if script:
                await page.get_by_label("Go to row").fill(str(start))
                await page.keyboard.press("Enter")
                await expect(page.locator("td.missing")).to_have_count(0)
            assert (
                await page.locator("main img, main iframe, main script, td *:not(bdi):not(span)").count() == 0
            )
        width = await page.locator("html").evaluate("element => element.scrollWidth")
        assert width <= 1280


@pytest.mark.long
async def test_a_shared_link_is_opened_by_its_button(site: Site, browser: Browser) -> None:
    url = await site.create(BY_ID)
    link = await site.server.links.create(url.rpartition("/")[2], None, single_use=True)
    async with tab(browser) as page:
        await page.goto(link)
        await expect(page.locator("table")).to_have_count(0)
        await page.get_by_role("button", name="Open").click()
        await expect(page.get_by_role("grid")).to_be_visible()
        assert "link=" not in page.url
        await expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    async with tab(browser) as page:
        await page.goto(link)
        await page.get_by_role("button", name="Open").click()
        await expect(page.get_by_role("heading")).to_contain_text("does not exist")


@pytest.mark.long
@pytest.mark.parametrize("width", [320, 1280, 2560])
async def test_nothing_is_wider_than_the_window(site: Site, browser: Browser, width: int) -> None:
    async with tab(browser, width=width) as page:
        await page.goto(await site.create(BY_ID))
        await expect(page.get_by_role("grid")).to_be_visible()
        wide = await page.locator("html").evaluate("element => element.scrollWidth")
        assert wide <= width


SERIOUS = ("serious", "critical")


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_serious_findings_of_axe(site: Site, browser: Browser, scheme: Any) -> None:
    async with tab(browser, bypass_csp=True, color_scheme=scheme) as page:
        url = await site.create(BY_ID)
        await page.goto(url)
        await expect(page.get_by_role("grid")).to_be_visible()
        await findings_are_none(page)
        for button in ("Options of carrier", "Group", "Columns", "Profile"):
            await page.get_by_role("button", name=button, exact=True).click()
            await expect(page.get_by_role("dialog")).to_be_visible()
            await findings_are_none(page)
            await page.keyboard.press("Escape")
        await page.goto(f"{url}x")
        await findings_are_none(page)
        link = await site.server.links.create(url.rpartition("/")[2], None)
        await page.goto(link)
        await findings_are_none(page)
    async with tab(browser, bypass_csp=True, color_scheme=scheme) as page:
        await page.route("**/result.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
        await page.goto(url)
        await findings_are_none(page)


async def findings_are_none(page: Page) -> None:
    results = await Axe().run(page)
    serious = [finding for finding in results.response["violations"] if finding["impact"] in SERIOUS]
    assert not serious, [(each["id"], each["nodes"][0]["html"][:200]) for each in serious]
