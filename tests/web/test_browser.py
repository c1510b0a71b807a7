"""The page of a result in a real browser."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from axe_playwright_python.async_playwright import Axe
from openpyxl import load_workbook
from playwright.async_api import Browser, Locator, Page, expect
from sqlalchemy import case, func, literal, select
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dualsql import PageRequest, Principal
from dualsql.errors import DatabaseBusyError
from dualsql.web.words import visible
from tests.results.pending.conftest import FOREVER, MOMENT
from tests.web.browser import needs_chromium, tab
from tests.web.conftest import FLIGHTS, FLIGHTS_IN_ALL, HOSTILE, Site, listening
from tests.web.hostile import CELLS

pytestmark = needs_chromium
BY_ID = select(FLIGHTS).order_by(FLIGHTS.c.id)
_A, _B = FLIGHTS.alias(), FLIGHTS.alias()
ANA = Principal(id="ana")
ENDLESS_TO_SORT = (
    select(_A.c.id, _B.c.id.label("other"), ((_A.c.id * 7919 + _B.c.id * 104729) % 1000003).label("mixed"))
    .select_from(_A.join(_B, _A.c.id + _B.c.id > 0))
    .order_by(_A.c.id, _B.c.id)
)
"""Ten thousand million rows, of which the first come at once."""


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


class TestGoToRow:
    """In a result whose rows were not counted, the grid knows the end of what it has read."""

    @pytest.mark.long
    async def test_a_row_behind_the_known_ones(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID, count="none"))
            await expect(page.get_by_role("grid")).to_be_visible()
            await expect(page.locator("#total")).to_have_text("rows not counted")
            await go_to(page, "5000")
            await expect(page.locator("tbody th").first).to_have_text("5,000")
            await expect(page.locator("td.active")).to_have_text("5000")
            await page.wait_for_url("**#row=5000")
            await page.reload()
            await expect(page.locator("tbody th").first).to_have_text("5,000")

    @pytest.mark.long
    @pytest.mark.parametrize("count", ["none", "exact"])
    async def test_a_row_that_is_not_there(
        self, site: Site, browser: Browser, count: Literal["none", "exact"]
    ) -> None:
        few = select(FLIGHTS).where(FLIGHTS.c.id <= 1000).order_by(FLIGHTS.c.id)
        async with tab(browser) as page:
            url = await site.create(few, count=count)
            await page.goto(url)
            await expect(page.get_by_role("grid")).to_be_visible()
            await go_to(page, "5000")
            await expect(page.locator("#message")).to_have_text("There is no row 5,000.")
            await expect(page.locator("tbody th").first).to_have_text("1")
            await page.goto("about:blank")
            await page.goto(f"{url}#row=5000")
            await expect(page.locator("#message")).to_have_text("There is no row 5,000.")
            await expect(page.locator("tbody th").first).to_have_text("1")
            await go_to(page, "1000")
            await expect(page.locator("#message")).to_be_empty()
            await expect(page.locator("tbody th").last).to_have_text("1,000")
            await expect(page.locator("#total")).to_have_text("1,000 rows")

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("locale", "row"), [("ar-EG", "٩٠٬٠٠٠"), ("ar-EG", "90000"), ("fr-FR", "90 000")]
    )
    async def test_a_row_as_the_reader_writes_it(
        self, site: Site, browser: Browser, locale: str, row: str
    ) -> None:
        async with tab(browser, locale=locale) as page:
            await page.goto(await site.create(BY_ID))
            await expect(page.get_by_role("grid")).to_be_visible()
            await go_to(page, row)
            await page.wait_for_url("**#row=90000")
            await go_to(page, "last")
            await expect(page.locator("#message")).to_contain_text("Write the number of a row")


async def go_to(page: Page, row: str) -> None:
    await page.get_by_label("Go to row").fill(row)
    await page.keyboard.press("Enter")


@pytest.mark.long
class TestKeys:
    async def test_every_row_can_be_reached(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            active = page.locator("td.active")
            await page.get_by_role("gridcell").first.click()
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
            await page.get_by_role("gridcell").first.click()
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
            await page.get_by_label("Value", exact=True).fill("UA")
            await page.keyboard.press("Enter")
            await expect(page.locator("#total")).to_have_text("20,000 rows")
            await page.reload()
            await expect(page.locator("#total")).to_have_text("20,000 rows")
            await page.get_by_role("button", name="Remove: carrier is UA").click()
            await expect(page.locator("#total")).to_have_text("100,000 rows")
            await page.go_back()
            await expect(page.locator("#total")).to_have_text("20,000 rows")

    async def test_groups_are_a_table_and_a_chart(self, site: Site, browser: Browser) -> None:
        url = await site.create(BY_ID)
        async with tab(browser) as page:
            await page.goto(url)
            await page.get_by_role("button", name="Group").click()
            await page.get_by_label("Group by").select_option("carrier")
            await page.get_by_role("dialog").get_by_role("button", name="Group").click()
            await expect(page.locator("#total")).to_have_text("5 groups")
            await expect(page.locator("#chart rect")).to_have_count(5)
            await page.goto("about:blank")
            await page.goto(f'{url}#group={{"by":[],"aggregates":["count"]}}')
            await expect(page.locator("#total")).to_have_text("1 group")

    async def test_a_group_without_a_value_has_no_bar(self, site: Site, browser: Browser) -> None:
        kind = (FLIGHTS.c.id % 2).label("kind")
        delay = case((FLIGHTS.c.id % 2 == 0, FLIGHTS.c.delay)).label("delay")
        url = await site.create(select(FLIGHTS.c.id, kind, delay).order_by(FLIGHTS.c.id))
        async with tab(browser) as page:
            await page.goto(
                f'{url}#group={{"by":["kind"],"aggregates":[{{"function":"avg","column":"delay"}}]}}'
            )
            await expect(page.locator("#chart rect")).to_have_count(2)
            heights = [
                float(await bar.get_attribute("height") or 0)
                for bar in await page.locator("#chart rect").all()
            ]
            assert sorted(height > 0 for height in heights) == [False, True]
            await expect(page.locator("#chart text", has_text="NULL")).to_have_count(1)
            await expect(page.locator("#chart")).not_to_contain_text(re.compile(r"\b0: 0"))

    async def test_a_filter_that_nothing_meets(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(
                f'{await site.create(BY_ID)}#filters=[{{"column":"carrier","op":"eq","value":"none"}}]'
            )
            await expect(page.locator("#total")).to_have_text("0 rows")
            await expect(page.locator("#message")).to_have_text("No rows.")
            await page.get_by_role("button", name="Remove: carrier is none").click()
            await expect(page.locator("#total")).to_have_text("100,000 rows")
            await expect(page.locator("#message")).to_be_empty()

    async def test_a_filter_of_times_has_a_field_for_times(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            await page.get_by_role("button", name="Options of departure").click()
            await page.get_by_label("Condition").select_option("between")
            field = page.get_by_label("Value", exact=True)
            assert await field.get_attribute("type") == "datetime-local"
            await field.fill("2013-01-02T00:00:00")
            await page.get_by_label("and", exact=True).fill("2013-01-02T00:59:59")
            await page.keyboard.press("Enter")
            await expect(page.locator("#total")).to_have_text("12 rows")

    async def test_what_a_database_cannot_do_is_said_with_a_way_back(
        self, site: Site, browser: Browser
    ) -> None:
        async with tab(browser) as page:
            url = await site.create(BY_ID)
            await page.goto(f'{url}#group={{"by":["carrier"],"aggregates":["nothing"]}}')
            await expect(page.locator("#message")).not_to_be_empty()
            await page.get_by_role("button", name="Show all rows").click()
            await expect(page.locator("#total")).to_have_text("100,000 rows")
            await expect(page.locator("#message")).to_be_empty()


@pytest.mark.long
class TestMemory:
    """The grid keeps the pages used last, up to 200,000 cells, of which the beginning of a long text takes several."""

    @pytest.mark.parametrize(("characters", "pages"), [(1, 70), (2_000, 150)])
    async def test_what_is_kept_is_bounded(
        self, site: Site, browser: Browser, characters: int, pages: int
    ) -> None:
        texts = [
            literal("x" * characters).label(f"text{number}") for number in range(20 if characters == 1 else 1)
        ]
        url = await site.create(select(FLIGHTS.c.id, *texts).order_by(FLIGHTS.c.id))
        async with tab(browser) as page:
            await page.goto(url)
            await expect(page.get_by_role("grid")).to_be_visible()
            kept = await page.evaluate(_READ_PAGES, [url, pages])
        assert kept["cells"] == kept["counted"] <= max(200_000, 2 * 200 * (characters // 100 + 2))
        assert (kept["first"], kept["last"]) == (False, True)

    async def test_a_wide_result_is_read_in_short_pages(self, site: Site, browser: Browser) -> None:
        columns = [(FLIGHTS.c.id + number).label(f"c{number}") for number in range(400)]
        url = await site.create(select(FLIGHTS.c.id, *columns).order_by(FLIGHTS.c.id))
        async with tab(browser) as page:
            requests = []
            page.on("request", lambda request: requests.append(request.post_data_json))
            await page.goto(url)
            await expect(page.get_by_role("grid")).to_be_visible()
            await go_to(page, "90000")
            await expect(page.locator("tbody th").first).to_have_text("90,000")
            await page.keyboard.press("PageDown")
            await expect(page.locator("td.missing")).to_have_count(0)
        # Requests of summaries of columns have a kind; they come when the grid stands still, and read no pages.
        bodies = [body for body in requests if body and "kind" not in body]
        assert {body["limit"] for body in bodies} == {49}
        assert len(bodies) < 20


_READ_PAGES = """async ([url, pages]) => {
    const { Rows } = await import(document.querySelector("script[src]").src.replace("result.js", "rows.js"));
    const question = { sort: [], filters: [], group: null };
    const rows = new Rows(url, question, { limit: 200, format: (values) => values, changed() {}, failed() {} });
    for (let number = 0; number < pages; number += 1) await rows.read(number);
    const counted = [...rows.pages.values()].reduce((sum, { cells }) => sum + cells, 0);
    const has = (index) => rows.row(index) !== undefined;
    return { cells: rows.cells, counted, first: has(0), last: has(pages * 200 - 1) };
}"""


@pytest.mark.long
async def test_the_profile_tells_an_empty_text_from_null(site: Site, browser: Browser) -> None:
    note = func.coalesce(FLIGHTS.c.note, "").label("note")
    url = await site.create(select(FLIGHTS.c.id, note).order_by(FLIGHTS.c.id))
    async with tab(browser) as page:
        await page.goto(url)
        await page.get_by_role("button", name="Profile", exact=True).click()
        row = page.get_by_role("dialog").get_by_role("row").filter(has=page.get_by_text("note", exact=True))
        await expect(row.get_by_role("cell")).to_contain_text(["0", "2", "empty", "weather", "empty ("])
        await page.goto(f"{url}/view/profile")
        row = page.get_by_role("row").filter(has=page.get_by_text("note", exact=True))
        await expect(row.get_by_role("cell")).to_contain_text(["0", "2", "empty", "weather", "empty ("])


@pytest.mark.long
async def test_a_chart_of_what_is_on_the_screen(site: Site, browser: Browser) -> None:
    url = await site.create(BY_ID)
    group = json.dumps({"by": ["carrier"], "aggregates": ["count", {"function": "avg", "column": "delay"}]})
    filters = json.dumps([{"column": "dest", "op": "eq", "value": "BOS"}])
    async with tab(browser) as page:
        await page.goto(f"{url}#{urlencode({'group': group, 'filters': filters})}")
        await expect(page.locator("#total")).to_have_text("5 groups")
        await page.get_by_role("button", name="Chart", exact=True).click()
        dialog = page.get_by_role("complementary", name="Chart")
        picture = dialog.get_by_role("img")
        await expect(picture).to_be_visible()
        await expect(dialog.get_by_role("status")).to_have_text("")
        assert await picture.evaluate("image => image.naturalWidth") > 300
        drawn = await page.evaluate(
            "async (address) => (await fetch(address)).text()", await picture.get_attribute("src")
        )
        assert "Average delay by carrier" in drawn and drawn.count('aria-roledescription="bar"') == 4
        assert "Not drawn: 1 bar whose average delay is NULL" in drawn
        await dialog.locator("select[name=mark]").select_option("histogram")
        await expect(dialog.get_by_role("status")).to_contain_text("A histogram of 'carrier' is not possible")
        await dialog.locator("select[name=x]").select_option("distance")
        await expect(dialog.get_by_role("status")).to_have_text("")
        await expect(picture).to_be_visible()
        async with page.expect_download() as downloading:
            await dialog.get_by_role("link", name="Save as PNG").click()
        assert (await (await downloading.value).path()).read_bytes().startswith(b"\x89PNG")
        await fits(page, 1280)


@pytest.mark.long
async def test_the_profile_is_of_what_is_on_the_screen(site: Site, browser: Browser) -> None:
    url = await site.create(BY_ID)
    filters = json.dumps([{"column": "carrier", "op": "eq", "value": "AA"}])
    async with tab(browser) as page:
        await page.goto(f"{url}#{urlencode({'filters': filters, 'hidden': json.dumps(['note'])})}")
        await expect(page.locator("#total")).to_have_text("20,000 rows")
        await page.get_by_role("button", name="Profile", exact=True).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("All 20,000 rows that the filters keep.")
        row = dialog.get_by_role("row").filter(has=page.get_by_text("carrier", exact=True))
        await expect(row.get_by_role("cell")).to_contain_text(["0", "1", "AA", "AA", "AA (20,000)"])
        await expect(dialog.get_by_role("rowheader", name="note")).to_have_count(0)
        await page.keyboard.press("Escape")
        group = json.dumps({"by": ["carrier"], "aggregates": ["count"]})
        await page.goto(f"{url}#{urlencode({'group': group})}")
        await expect(page.locator("#total")).to_have_text("5 groups")
        await page.get_by_role("button", name="Profile", exact=True).click()
        await expect(dialog).to_contain_text("All 5 groups.")
        await page.reload()
        await expect(page.locator("#total")).to_have_text("5 groups")
        await page.get_by_role("button", name="Change groups").click()
        await expect(dialog.get_by_label("Group by").first).to_contain_text("carrier")


@pytest.mark.long
async def test_a_profile_for_which_time_ran_out_is_of_a_sample(
    flights: AsyncEngine, browser: Browser
) -> None:
    budget = timedelta(milliseconds=300)
    async with listening(flights, profile_sample=10, profile_budget=budget) as site, tab(browser) as page:
        await page.goto(await site.create(ENDLESS_TO_SORT, count="none"))
        await expect(page.get_by_role("grid")).to_be_visible()
        await page.get_by_role("button", name="Profile", exact=True).click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("A sample: the first 10 rows, since all take longer.")
        await dialog.get_by_role("button", name="Try all of them").click()
        await expect(page.locator("#message")).to_have_text("")
        await expect(dialog).to_contain_text("A sample: the first 10 rows")


@pytest.mark.long
class TestColumns:
    async def test_a_width_is_kept(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            header = page.get_by_role("columnheader", name="carrier")
            await drag(page, header.locator(".rt-column-resize"), x=100)
            width = await width_of(header)
            assert width > 150
            await page.get_by_role("button", name="delay", exact=True).click()
            await expect(page.get_by_role("columnheader", name="delay")).to_have_attribute(
                "aria-sort", "ascending"
            )
            assert abs(await width_of(header) - width) < 1
            await page.reload()
            await expect(page.get_by_role("grid")).to_be_visible()
            assert abs(await width_of(header) - width) < 1

    async def test_a_width_is_set_by_keys(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            await page.get_by_role("button", name="Options of carrier").press("Enter")
            await page.get_by_label("Width in pixels").fill("300")
            await page.get_by_role("button", name="Set width").press("Enter")
            await expect(page.get_by_role("dialog")).to_have_count(0)
            await page.wait_for_url("**widths=**")
            await expect(page.get_by_role("columnheader", name="carrier")).to_have_css("max-width", "300px")


async def drag(page: Page, handle: Locator, *, x: float = 0, y: float = 0) -> None:
    """With the mouse, from the middle of an element."""
    box = await handle.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await page.mouse.move(*middle)
    await page.mouse.down()
    await page.mouse.move(middle[0] + x, middle[1] + y, steps=8)
    await page.mouse.up()


async def width_of(element: Locator) -> float:
    box = await element.bounding_box()
    assert box is not None
    return box["width"]


@pytest.mark.long
async def test_the_scroll_bar_is_dragged(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await page.goto(await site.create(BY_ID))
        await expect(page.get_by_role("grid")).to_be_visible()
        bar = await page.locator(".scrollbar").bounding_box()
        assert bar is not None
        await page.mouse.move(bar["x"] + 7, bar["y"] + 20)
        await page.mouse.down()
        await page.mouse.move(bar["x"] + 7, bar["y"] + bar["height"] / 2, steps=10)
        await page.mouse.up()
        await expect(page.locator("td.missing")).to_have_count(0)
        first = await page.locator("tbody tr").first.locator("td").first.inner_text()
        assert 30_000 < int(first.replace(",", "")) < 70_000


@pytest.mark.long
class TestFailures:
    """Each is a sentence that says what to do."""

    async def test_the_server_is_away_and_back(self, site: Site, browser: Browser) -> None:
        async with tab(browser) as page:
            await page.goto(await site.create(BY_ID))
            await expect(page.get_by_role("grid")).to_be_visible()
            await page.context.set_offline(True)
            await page.get_by_label("Go to row").fill("50000")
            await page.keyboard.press("Enter")
            await expect(page.locator("#message")).to_contain_text("cannot be reached")
            await page.context.set_offline(False)
            await page.get_by_role("button", name="Try again").click()
            await expect(page.locator("tbody tr").first.locator("td").first).to_have_text("50,000")
            await expect(page.locator("#message")).to_be_empty()

    async def test_it_expires_while_it_is_open(self, site: Site, browser: Browser) -> None:
        async with tab(browser, bypass_csp=True) as page:
            await page.goto(await site.create(BY_ID, expiration=timedelta(seconds=4)))
            await expect(page.locator("#message")).to_contain_text("has expired")
            await expect(page.locator("#time-left")).to_have_text("expired")
            await page.reload()
            await expect(page.get_by_role("heading")).to_contain_text("has expired")
            await findings_are_none(page)

    async def test_it_is_deleted_while_it_is_open(self, site: Site, browser: Browser) -> None:
        url = await site.create(BY_ID)
        async with tab(browser) as page:
            await page.goto(url)
            await expect(page.get_by_role("grid")).to_be_visible()
            await site.server.unchecked.delete(url.rpartition("/")[2])
            await page.get_by_role("button", name="delay", exact=True).click()
            await expect(page.locator("#message")).to_contain_text("does not exist any more")

    async def test_cancelling_ends_the_query(self, flights: AsyncEngine, browser: Browser) -> None:
        async with listening(
            flights, maximum_concurrent_queries=1, queue_timeout=timedelta(seconds=2)
        ) as site:
            url = await site.create(ENDLESS_TO_SORT, count="none")
            async with tab(browser) as page:
                await page.goto(url)
                await expect(page.get_by_role("grid")).to_be_visible()
                await page.get_by_role("button", name="mixed", exact=True).click()
                await expect(page.locator("#message")).to_contain_text("Reading")
                with pytest.raises(DatabaseBusyError):  # it runs, and there is room for one
                    await site.server.read_page(url.rpartition("/")[2], None)
                await page.get_by_role("button", name="Cancel").click()
                await expect(page.locator("#message")).to_contain_text("Cancelled")
                # It would run for 30 seconds, and a query waits for 2.
                assert (await site.server.read_page(url.rpartition("/")[2], None)).rows

    async def test_a_busy_database(self, flights: AsyncEngine, browser: Browser) -> None:
        options: dict[str, Any] = {"maximum_concurrent_queries": 1, "maximum_queued_queries": 0}
        async with listening(flights, **options) as site:
            endless = await site.create(ENDLESS_TO_SORT, count="none")
            async with tab(browser) as page:
                await page.goto(await site.create(BY_ID, count="exact"))
                await expect(page.get_by_role("grid")).to_be_visible()
                await page.wait_for_load_state("networkidle")  # the page behind is read, too
                wanted = PageRequest(sort=[{"field": "mixed"}])
                other = asyncio.create_task(site.server.read_page(endless.rpartition("/")[2], None, wanted))
                await asyncio.wait([other], timeout=0.1)
                assert not other.done()
                await page.get_by_label("Go to row").fill("50000")
                await page.keyboard.press("Enter")
                await expect(page.locator("#message")).to_contain_text("busy")
                other.cancel()
                await asyncio.wait([other])
                await page.get_by_role("button", name="Try again").click()
                await expect(page.locator("td.missing")).to_have_count(0)
                await expect(page.locator("#message")).to_be_empty()


@pytest.mark.long
async def test_a_workbook_is_downloaded(
    site: Site, flights: AsyncEngine, browser: Browser, tmp_path: Path
) -> None:
    few = select(FLIGHTS).where(FLIGHTS.c.id <= 1_000).order_by(FLIGHTS.c.id)
    url = await site.create(few)
    async with tab(browser) as page:
        await page.goto(url)
        await page.get_by_text("Download", exact=True).click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Excel", exact=True).click()
        download = await downloading.value
        assert download.suggested_filename == "Flights.xlsx"
        await download.save_as(tmp_path / "rows.xlsx")
    names, *rows = load_workbook(tmp_path / "rows.xlsx", read_only=True).worksheets[0].values
    async with flights.connect() as connection:
        expected = [(*row[:5], float(row.cost), *row[6:]) for row in await connection.execute(few)]
    assert (names, rows) == (tuple(FLIGHTS.c.keys()), expected)


@pytest.mark.long
async def test_a_result_is_renewed_pinned_and_deleted(site: Site, browser: Browser) -> None:
    url = await site.create(BY_ID, expiration=timedelta(minutes=5))
    async with tab(browser) as page:
        await page.goto(url)
        until = page.locator("#time-left")
        before = await until.get_attribute("data-expires")
        await page.get_by_role("button", name="Renew").click()
        await expect(page.locator("#message")).to_contain_text("Renewed: the result expires in")
        await expect(until).not_to_have_attribute("data-expires", before or "")
        await page.get_by_role("button", name="Pin").click()
        await expect(until).to_contain_text("pinned")
        await expect(page.get_by_role("button", name="Renew")).to_have_count(0)
        await page.get_by_role("button", name="Unpin").click()
        await expect(until).to_contain_text("expires in")
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.locator("#message")).to_contain_text("is deleted")
        await page.reload()
        await expect(page.get_by_role("heading")).to_contain_text("does not exist")


@pytest.mark.long
async def test_a_query_that_runs_is_cancelled_or_fails(flights: AsyncEngine, browser: Browser) -> None:
    async with listening(flights, pending_timeout=timedelta(seconds=8)) as site:
        url = await site.create(FOREVER, name="Forever", wait=MOMENT)
        async with tab(browser, bypass_csp=True) as page:
            await page.goto(url)
            await expect(page.get_by_text("The query still runs")).to_be_visible()
            await findings_are_none(page)
            await page.get_by_role("button", name="Cancel the query").click()
            await expect(page.locator("#message")).to_contain_text("Cancelled")
            assert await site.server.get_resource(url.rpartition("/")[2]) is None
            await page.goto(await site.create(FOREVER, name="Forever", wait=MOMENT))
            await expect(page.get_by_role("alert")).to_contain_text("The query failed")
            await findings_are_none(page)


@pytest.mark.long
async def test_a_reader_who_is_signed_out_is_told_so(flights: AsyncEngine, browser: Browser) -> None:
    """An application's own `authenticate` redirects to its login, whose page is no answer to a script."""
    signed_in = [ANA]

    async def authenticate(request: Request) -> Principal:
        if not signed_in:
            raise HTTPException(303, headers={"Location": "/login"})
        return signed_in[0]

    async with listening(flights, authenticate=authenticate) as site, tab(browser) as page:
        url = await site.create(BY_ID, principal=ANA)
        for address, button in ((url, "carrier"), (f"{site.origin}/data/resources/", "Pin Flights")):
            await page.goto(address)
            await expect(page.get_by_role("button", name=button, exact=True)).to_be_visible()
            signed_in.clear()
            await page.get_by_role("button", name=button, exact=True).click()
            await expect(page.locator("#message")).to_contain_text("You are not signed in any more. Sign in")
            await page.reload()
            assert page.url.partition("#")[0] == f"{site.origin}/login"
            signed_in.append(ANA)


LISTED = 30


@pytest.mark.long
@pytest.mark.parametrize("width", [320, 1280, 2560])
async def test_the_list_of_results(site: Site, browser: Browser, width: int) -> None:
    who = Principal(id=f"reader {width}")
    for number in range(LISTED):
        await site.create(BY_ID, name=f"Flights {number}", principal=who)
    headers = {"X-User": who.id}
    async with tab(browser, width=width, extra_http_headers=headers, bypass_csp=True) as page:
        await page.goto(f"{site.origin}/data/resources/?limit=20")
        await expect(page.locator("tbody tr")).to_have_count(20)
        await expect(page.locator("tbody tr").first).to_contain_text(f"Flights {LISTED - 1}")
        await findings_are_none(page)
        assert await page.locator("html").evaluate("element => element.scrollWidth") <= width
        await page.get_by_role("button", name=f"Pin Flights {LISTED - 1}").click()
        await expect(page.locator("tbody tr").first).to_contain_text("pinned")
        await page.get_by_role("button", name=f"Delete Flights {LISTED - 1}").press("Enter")
        await page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
        await expect(page.locator("tbody tr").first).to_contain_text(f"Flights {LISTED - 2}")
        await page.get_by_role("link", name="Older").click()
        await expect(page.locator("tbody tr").last).to_contain_text("Flights 0")
        await page.get_by_role("link", name="Flights 0", exact=True).click()
        await expect(page.get_by_role("grid")).to_be_visible()
        await page.get_by_role("link", name="Your results").click()
        await expect(page.get_by_role("heading", name="Your results")).to_be_visible()


@pytest.mark.long
async def test_the_wheel_moves_row_by_row_and_the_bar_reaches_the_end(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await page.goto(await site.create(BY_ID))
        await page.get_by_role("gridcell").first.hover()
        await page.mouse.wheel(0, 29 * 5)
        await expect(page.locator("tbody th").first).to_have_text("6")
        await page.locator(".scrollbar").evaluate("bar => { bar.scrollTop = bar.scrollHeight; }")
        await expect(page.locator("tbody th").last).to_have_text(f"{FLIGHTS_IN_ALL:,}")
        assert await page.locator("tr").count() <= 60


@pytest.mark.long
@pytest.mark.parametrize("script", [True, False])
async def test_hostile_cells_are_text(site: Site, browser: Browser, script: bool) -> None:
    written = [visible(cell[:500]) if cell else cell for cell in CELLS]
    url = await site.create(
        select(HOSTILE).order_by(HOSTILE.c.id), name="<img src=x onerror=alert(1)> \u202evalues"
    )
    async with tab(browser, java_script_enabled=script) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        await page.goto(url)
        for start in range(1, len(CELLS), 15):
            await page.get_by_role("textbox", name="Go to row").fill(str(start))
            await page.keyboard.press("Enter")
            row = page.locator("td.active") if script else page.locator("tbody td").first
            await expect(row).to_have_text(str(start))
            await expect(page.locator("td.missing")).to_have_count(0)
            assert_same_texts(await texts_of(page), written)
            assert (
                await page.locator("main img, main iframe, main script, td *:not(bdi):not(span)").count() == 0
            )
        width = await page.locator("html").evaluate("element => element.scrollWidth")
        assert width <= 1280


async def texts_of(page: Page) -> Sequence[tuple[str, str]]:
    """The first and the second column, row by row."""
    actual: Sequence[tuple[str, str]] = await page.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent.trim()))"
    )
    return actual


def assert_same_texts(shown: Sequence[tuple[str, str]], written: Sequence[str | None]) -> None:
    """What a script draws is what the server writes: the signs for what is not seen, and NULL."""
    for number, text in shown:
        cell = written[int(number) - 1]
        wanted = "NULL" if cell is None else cell.strip() or "empty"
        assert text.partition("…")[0].strip() == wanted, (number, text[:80])


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
async def test_every_tool_works_at_every_width(site: Site, browser: Browser, width: int) -> None:
    async with tab(browser, width=width) as page:
        await page.goto(await site.create(BY_ID))
        await expect(page.get_by_role("grid")).to_be_visible()
        await fits(page, width)
        await page.get_by_role("button", name="Options of carrier").click()
        await fits(page, width)
        await page.get_by_label("Value", exact=True).fill("UA")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("20,000 rows")
        await page.get_by_role("searchbox").fill("weather")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).not_to_have_text("20,000 rows")
        await page.get_by_role("button", name="Columns", exact=True).press("Enter")
        await page.get_by_role("checkbox", name="carrier").uncheck()
        await page.get_by_role("button", name="Apply").press("Enter")
        await expect(page.get_by_role("columnheader", name="carrier")).to_have_count(0)
        await page.get_by_role("button", name="Group", exact=True).click()
        await page.get_by_label("Group by").select_option("dest")
        await page.get_by_role("dialog").get_by_role("button", name="Group").click()
        await expect(page.locator("#chart")).to_be_visible()
        await fits(page, width)
        await page.get_by_role("button", name="Profile", exact=True).click()
        await expect(page.get_by_role("dialog")).to_be_visible()
        await fits(page, width)


async def fits(page: Page, width: int) -> None:
    assert await page.locator("html").evaluate("element => element.scrollWidth") <= width


@pytest.mark.long
async def test_a_cell_in_full(site: Site, browser: Browser) -> None:
    async with tab(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        await page.goto(await site.create(select(HOSTILE).order_by(HOSTILE.c.id)))
        await expect(page.get_by_role("grid")).to_be_visible()
        longest = 1 + CELLS.index("x" * 1_000_000)
        for number in (1, longest, 1 + CELLS.index("\u202eevil\u202c")):
            await page.get_by_label("Go to row").fill(str(number))
            await page.keyboard.press("Enter")
            await expect(page.locator("td.active")).to_have_text(str(number))
            await page.keyboard.press("ArrowRight")
            await page.keyboard.press("Enter")
            cell = CELLS[number - 1] or ""
            await expect(page.get_by_role("dialog")).to_contain_text(f"{len(cell):,} characters")
            await page.get_by_role("button", name="Copy").click()
            await expect(page.get_by_role("button", name="Copied")).to_be_visible()
            assert await page.evaluate("navigator.clipboard.readText()") == cell
            await fits(page, 1280)
            await page.keyboard.press("Escape")
            await page.keyboard.press("Home")


@pytest.mark.long
async def test_a_cell_of_megabytes(site: Site, browser: Browser) -> None:
    """The grid reads beginnings; the dialog lays out a part, and Copy and Download give all."""
    size = 900_000
    long = func.replace(func.hex(func.zeroblob(size // 2)), "0", "漢").label("long")
    numbers = select(FLIGHTS.c.id, long).where(FLIGHTS.c.id <= 20).order_by(FLIGHTS.c.id)
    url = await site.create(numbers, name="Long", sample_size=1)
    async with tab(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        sizes: list[int] = []

        async def weigh(response: Any) -> None:
            if response.request.method == "POST":
                sizes.append(len(await response.body()))

        page.on("response", weigh)
        await page.goto(url)
        await expect(page.get_by_role("grid")).to_be_visible()
        cell = page.locator("tbody tr").first.locator("td").nth(1)
        await expect(cell).to_have_text("漢" * 500 + "…")
        assert sizes and max(sizes) < 200_000
        page.remove_listener(
            "response", weigh
        )  # a response that is read when the tab closes fails the next test
        await cell.dblclick()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("900,000 characters, of which the first 10,000 are shown")
        await expect(dialog.locator("pre")).to_have_text("漢" * 10_000)
        await dialog.get_by_role("button", name="Copy").click()
        await expect(dialog.get_by_role("button", name="Copied")).to_be_visible()
        assert await page.evaluate("async () => (await navigator.clipboard.readText()).length") == size
        async with page.expect_download() as downloading:
            await dialog.get_by_role("button", name="Download this cell").click()
        download = await downloading.value
        assert download.suggested_filename == "long, row 1.txt"
        assert (await download.path()).read_text(encoding="utf-8") == "漢" * size
        await page.keyboard.press("Escape")
        await page.keyboard.press("Shift+ArrowDown")
        await page.keyboard.press("Control+c")
        await expect(page.locator("#message")).to_have_text("Copied 2 rows with their header.")
        copied = "long\n" + "\n".join(["漢" * size] * 2)
        assert await page.evaluate("async () => await navigator.clipboard.readText()") == copied


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_findings_of_axe(site: Site, browser: Browser, scheme: Any) -> None:
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
        await page.mouse.move(600, 400)
        await page.mouse.wheel(0, 5_000)  # the active cell is out of sight
        await expect(page.locator("td.active")).to_have_count(0)
        await findings_are_none(page)
        empty = await site.create(select(FLIGHTS).where(FLIGHTS.c.id < 0))
        await page.goto(empty)
        await expect(page.locator("#message")).to_have_text("No rows.")
        await findings_are_none(page)
        for shown in (
            f'{url}#group={{"by":["carrier"],"aggregates":["count"]}}',
            await site.create(select(HOSTILE).order_by(HOSTILE.c.id), name="\u202e<h1>"),
        ):
            await page.goto("about:blank")
            await page.goto(shown)
            await expect(page.get_by_role("grid")).to_be_visible()
            await findings_are_none(page)
        await page.goto(f"{url}x")
        await findings_are_none(page)
        link = await site.server.links.create(url.rpartition("/")[2], None)
        await page.goto(link)
        await findings_are_none(page)
        await page.goto(f"{site.server.base_url}/openapi.html")
        await findings_are_none(page)
    async with tab(browser, bypass_csp=True, color_scheme=scheme) as page:
        await page.route("**/result.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
        await page.goto(url)
        await findings_are_none(page)
        await page.get_by_role("link", name="Profile").click()
        await expect(page.get_by_role("heading")).to_contain_text("Profile of")
        await findings_are_none(page)


async def findings_are_none(page: Page) -> None:
    results = await Axe().run(page)
    findings = results.response["violations"]
    assert not findings, [(each["id"], each["nodes"][0]["html"][:200]) for each in findings]
