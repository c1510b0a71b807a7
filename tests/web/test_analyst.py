"""What an analyst does on the page of a result: values, summaries, groups and their rows, files of what is seen."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.async_api import Browser, Page, Route, expect
from sqlalchemy import Float, Integer, case, cast, func, literal, select, text, type_coerce
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from dualsql import Pages, default_features
from dualsql.serve import Selection, build_server, serve_app
from tests.engines import sqlite_url_in
from tests.web.browser import needs_chromium, tab
from tests.web.conftest import FLIGHTS, FLIGHTS_IN_ALL, Site, listening, under_uvicorn
from tests.web.test_browser import BY_ID, findings_are_none, fits

pytestmark = needs_chromium


def shown(url: str, **state: Any) -> str:
    """The address of a result's page in a state."""
    return f"{url}#{urlencode({name: json.dumps(value) for name, value in state.items()})}"


async def opened(page: Page, address: str) -> None:
    await page.goto(address)
    await expect(page.get_by_role("grid")).to_be_visible()


async def patiently(route: Route) -> None:
    """Give the database more time than a page does, on a busy machine."""
    await route.continue_(post_data=json.dumps({**(route.request.post_data_json or {}), "budget": 30}))


@pytest.mark.long
async def test_headers_summarise_what_is_on_the_screen(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await page.route("**/profile", patiently)
        await opened(page, await site.create(BY_ID))
        carrier = page.get_by_role("button", name="Values of carrier", exact=False).and_(
            page.locator(".summary")
        )
        await expect(carrier).to_have_text(re.compile(r"^5 distinct · text\w\w 20%$"))
        await expect(carrier.locator("rect")).to_have_count(5)
        delay = page.get_by_role("button", name="Values of delay")
        await expect(delay).to_contain_text("5% NULL · 97 distinct")
        await expect(delay.locator("rect")).to_have_count(10)
        await carrier.click()
        await page.get_by_role("button", name="UA 20,000").click()
        await expect(page.locator("#total")).to_have_text("20,000 rows")
        await expect(carrier).to_have_text("1 distinct · textUA 100%")


@pytest.mark.long
async def test_values_filter_and_exclude(site: Site, browser: Browser) -> None:
    async with tab(browser, bypass_csp=True) as page:
        await opened(page, shown(await site.create(BY_ID), facets=[{"name": "note"}, {"name": "departure"}]))
        total = page.locator("#total")
        await expect(page.get_by_role("button", name="weather 14,285")).to_be_visible()
        await page.get_by_role("button", name="Exclude weather").click()
        await expect(total).to_have_text("85,715 rows")  # also those without a note
        await page.get_by_role("button", name="Remove: note is none of weather").click()
        await expect(total).to_have_text("100,000 rows")
        await page.get_by_role("button", name="NULL 85,715").click()
        await page.get_by_role("button", name="2013-02").click()
        await expect(total).to_have_text("6,912 rows")
        await expect(page.locator("#message")).to_be_empty()
        await page.reload()
        await expect(page.locator(".facets .value", has_text="2013-02")).to_have_attribute(
            "aria-pressed", "true"
        )
        await findings_are_none(page)


@pytest.mark.long
async def test_a_search_reads_texts_in_any_case_and_numbers(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        search = page.get_by_role("searchbox")
        assert "carrier, dest, note; numbers: id, delay" in (await search.get_attribute("aria-label") or "")
        await search.fill("WEATH")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("14,285 rows")
        await search.fill("99999")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("1 row")


@pytest.mark.long
async def test_a_chip_is_changed(site: Site, browser: Browser) -> None:
    filters = [{"column": "delay", "op": "gt", "value": 70}]
    async with tab(browser) as page:
        await opened(page, shown(await site.create(BY_ID), filters=filters))
        await page.get_by_role("button", name="Change: delay is above 70").click()
        await expect(page.get_by_label("Value", exact=True)).to_have_value("70")
        await page.get_by_label("Value", exact=True).fill("75")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Remove: delay is above 75")).to_be_visible()
        await expect(page.get_by_role("button", name="Remove: delay is above 70")).to_have_count(0)


@pytest.mark.long
async def test_several_groups_and_aggregates_and_their_rows(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("button", name="Group", exact=True).click()
        dialog = page.get_by_role("dialog")
        choices = {"by0": "carrier", "by1": "departure", "bucket1": "month"}
        choices |= {"function": "avg", "column": "delay", "function1": "max", "column1": "distance"}
        for name, value in choices.items():
            await dialog.locator(f"select[name={name}]").select_option(value)
        await dialog.get_by_role("button", name="Group").click()
        for name in ("carrier", "departure_month", "count", "avg_delay", "max_distance"):
            await expect(page.get_by_role("columnheader", name=name)).to_be_visible()
        count = await page.locator("tbody tr").first.locator("td").nth(2).inner_text()
        await page.locator("tbody td").first.click()
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text(f"{int(count.replace(',', '')):,} rows")
        await expect(page.get_by_role("button", name="Remove: carrier is AA")).to_be_visible()


@pytest.mark.long
async def test_the_selected_cells_are_summed(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, shown(await site.create(BY_ID), hidden=["carrier", "dest", "delay", "distance"]))
        await page.get_by_role("gridcell").first.click()
        for key in ("Shift+ArrowDown", "Shift+ArrowDown", "Shift+ArrowRight"):
            await page.keyboard.press(key)
        await expect(page.locator("#status")).to_contain_text(
            "3 rows × 2 columns: count 6, sum 7.86, mean 1.31"
        )
        await page.keyboard.press("Control+a")
        await page.get_by_role("button", name="Sum and mean of id").click()
        await expect(page.locator("#message")).to_contain_text("sum 5,000,050,000, mean 50,000.5")
        await page.locator("tbody th").nth(1).click()
        await expect(page.locator("td.selected")).to_have_count(5)


@pytest.mark.long
async def test_a_file_has_what_is_seen(site: Site, browser: Browser) -> None:
    filters = [{"column": "id", "op": "le", "value": 3}]
    state = {"filters": filters, "sorts": [{"field": "id", "order": "desc"}], "order": ["dest"]}
    hidden = ["cost", "distance", "delay", "note", "cancelled"]
    async with tab(browser) as page:
        await opened(page, shown(await site.create(BY_ID), **state, hidden=hidden))
        await page.get_by_text("Download", exact=True).click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="CSV for Excel").click()
        download = await downloading.value
        assert download.suggested_filename == "Flights.csv"
        content = (await download.path()).read_bytes()
        assert content.startswith(b"\xef\xbb\xbf")
        lines = content.decode("utf-8-sig").splitlines()
        assert lines[0] == "dest,id,carrier,departure"
        assert [line.split(",")[1] for line in lines[1:]] == ["3", "2", "1"]
        assert lines[3].endswith(",2013-01-01 00:05:00")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("link", name="CSV for Excel")).to_have_count(0)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["Parquet", "Arrow"])
@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize(
    "more", [[], [func.printf("%0600d", FLIGHTS.c.id).label("padding")]], ids=["", "wide"]
)
async def test_a_value_late_in_a_file_that_its_type_does_not_hold(
    site: Site, browser: Browser, kind: str, is_filtered: bool, more: list[Any]
) -> None:
    odd = case((FLIGHTS.c.id == FLIGHTS_IN_ALL // 2, literal("abc")), else_=FLIGHTS.c.id)
    late = select(FLIGHTS.c.id, type_coerce(odd, Integer).label("late, a"), *more).order_by(FLIGHTS.c.id)
    filters = [{"column": "id", "op": "ge", "value": 1}] if is_filtered else []
    async with tab(browser) as page:
        await opened(page, shown(await site.create(late), filters=filters))
        await page.get_by_text("Download", exact=True).click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name=kind).click()
        path = await (await downloading.value).path()
        table = pq.read_table(path) if kind == "Parquet" else pa.ipc.open_stream(path).read_all()
        assert (str(table.schema.field("late, a").type), table.num_rows) == ("string", FLIGHTS_IN_ALL)
        await expect(page.get_by_text("Saved as text: late, a")).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["NDJSON", "CSV, for", "Parquet"])
async def test_a_file_that_breaks_off_is_not_saved(flights: AsyncEngine, browser: Browser, kind: str) -> None:
    filters = [{"column": "id", "op": "ge", "value": 1}]
    async with listening(flights, maximum_stream_rows=60_000) as site, tab(browser) as page:
        downloads: list[object] = []
        page.on("download", lambda download: downloads.append(download))  # noqa: PLW0108 - no handler of Playwright is built in
        await opened(page, shown(await site.create(BY_ID), filters=filters))
        await page.get_by_text("Download", exact=True).click()
        await page.get_by_role("link", name=kind).click()
        await expect(page.get_by_text("The stream reached this server's limit of rows")).to_be_visible()
        assert not downloads


@pytest.mark.long
@pytest.mark.parametrize(
    ("keys", "chart"),
    [
        (["carrier"], "mark=bar&x=carrier&aggregate=max&y=mean"),
        (["carrier", "dest"], "mark=heatmap&x=carrier&aggregate=max&y=dest&color=mean"),
    ],
)
async def test_the_first_chart_of_groups_shows_their_figure(
    site: Site, browser: Browser, keys: list[str], chart: str
) -> None:
    columns = [FLIGHTS.c[key] for key in keys]
    groups = select(*columns, func.count().label("n"), func.avg(FLIGHTS.c.delay).label("mean"))
    async with tab(browser) as page:
        await opened(page, await site.create(groups.group_by(*columns)))
        await page.get_by_role("button", name="Chart", exact=True).click()
        await expect(page.locator("img.chart")).to_be_visible()
        await expect(page.locator("img.chart")).to_have_attribute("src", re.compile(re.escape(chart)))
        size = await page.locator("img.chart").bounding_box()
        panel = await page.locator(".chart-panel").bounding_box()
        assert size and panel and size["y"] + size["height"] <= panel["y"] + panel["height"]


@pytest.mark.long
async def test_keys_reach_the_last_of_sixty_columns(site: Site, browser: Browser) -> None:
    wide = select(FLIGHTS.c.id, *((FLIGHTS.c.id * 1000 + n).label(f"a_long_name_{n}") for n in range(60)))
    async with tab(browser) as page:
        await opened(page, await site.create(wide.order_by(FLIGHTS.c.id)))
        active = page.locator("td.active")
        await page.get_by_role("gridcell").first.click()
        await page.keyboard.press("End")
        await expect(active).to_have_text("1059")
        await expect(active).to_be_in_viewport(ratio=1)
        await page.keyboard.press("ArrowLeft")
        await expect(active).to_have_text("1058")
        await page.keyboard.press("Home")
        await expect(active).to_have_text("1")


@pytest.mark.long
async def test_a_frozen_column_stays_in_sight(site: Site, browser: Browser) -> None:
    async with tab(browser, width=500, bypass_csp=True) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("button", name="Options of carrier").click()
        await page.get_by_role("button", name="Freeze", exact=True).click()
        first = page.locator("tbody tr").first.locator("th, td")
        await expect(first.nth(1)).to_have_text("AA")
        await page.get_by_role("gridcell").nth(1).click()
        await page.keyboard.press("Control+End")
        await expect(page.locator(".active")).to_have_text("true")
        await expect(page.locator(".active")).to_be_in_viewport(ratio=0.99)
        await expect(first.nth(1)).to_be_in_viewport(ratio=1)
        await expect(page.get_by_role("columnheader", name="carrier").first).to_be_in_viewport(ratio=1)
        await findings_are_none(page)
        await page.keyboard.press("Home")
        await expect(page.locator("th.active")).to_have_text("UA")
        await page.reload()
        await page.get_by_role("button", name="Options of carrier").click()
        await page.get_by_role("button", name="Unfreeze").click()
        await expect(page.locator("th.frozen")).to_have_count(0)


async def columns_of(page: Page) -> list[str]:
    return [
        title or ""
        for title in await page.locator("thead .sort").evaluate_all("all => all.map(each => each.title)")
    ]


@pytest.mark.long
async def test_columns_are_moved_by_mouse_and_keys(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        headers = page.locator("thead tr").first.locator("th")
        await headers.nth(4).locator(".sort").drag_to(headers.nth(1))
        await page.wait_for_url("**order=**")
        assert (await columns_of(page))[:3] == ["delay", "id", "carrier"]
        await expect(page.locator("th[aria-sort=ascending]")).to_have_count(0)
        await page.get_by_role("gridcell").first.click()
        await page.keyboard.press("End")
        await page.keyboard.press("Alt+ArrowDown")
        await expect(page.get_by_role("dialog", name="cancelled")).to_be_visible()
        await page.get_by_label("Position").fill("2")
        await page.keyboard.press("Enter")
        await expect(headers.nth(2).locator(".sort")).to_have_text("cancelled")
        await expect(page.locator("td.active")).to_have_attribute(
            "aria-colindex", "3"
        )  # it goes with its column
        await page.locator("tbody th").nth(1).drag_to(page.locator("tbody th").nth(4))
        await expect(page.locator("#status")).to_contain_text("4 rows × 9 columns")


@pytest.mark.long
async def test_the_focus_stays_where_rows_are_read(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("button", name="delay", exact=True).press("Enter")
        await expect(page.locator("th[aria-sort=ascending]")).to_have_count(1)
        await expect(page.get_by_role("button", name="delay ▲")).to_be_focused()
        await page.get_by_role("searchbox").fill("carrier=UA")
        await page.keyboard.press("Enter")
        await expect(page.locator("#total")).to_have_text("20,000 rows")
        await expect(page.get_by_role("searchbox")).to_be_focused()


@pytest.mark.long
async def test_the_last_row_is_seen_on_a_phone(site: Site, browser: Browser) -> None:
    async with tab(browser, width=390) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("gridcell").first.click()
        await page.keyboard.press("Control+End")
        await expect(page.locator("tbody th").last).to_have_text("100,000")
        grid, status = [await page.locator(name).bounding_box() for name in ("#rows", "#status")]
        assert grid and status and grid["y"] + grid["height"] <= status["y"]
        assert status["y"] + status["height"] <= 800


@pytest.mark.long
async def test_a_table_that_is_pushed_glides(site: Site, browser: Browser) -> None:
    async with tab(browser, width=390, has_touch=True, is_mobile=True) as page:
        await opened(page, await site.create(BY_ID))
        finger = await page.context.new_cdp_session(page)

        async def touch(kind: str, *ys: int) -> None:
            points = [{"x": 200, "y": y} for y in ys]
            await finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        await touch("touchStart", 700)
        for y in range(680, 540, -20):  # the height of five rows
            await touch("touchMove", y)
        await touch("touchEnd")
        await expect(page.locator("tbody th").first).not_to_have_text(re.compile("^[1-6]$"))


@pytest.mark.long
async def test_a_dialog_closes_by_a_click_beside_it(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        options, dialog = page.get_by_role("button", name="Options of carrier"), page.get_by_role("dialog")
        await options.click()
        await page.mouse.click(5, 790)
        await expect(dialog).to_have_count(0)
        await options.click()
        await page.get_by_label("Value", exact=True).fill("U")  # what was written is not lost
        await page.mouse.click(5, 790)
        await expect(dialog).to_be_visible()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_panels_fit_and_have_no_findings(site: Site, browser: Browser, scheme: Any) -> None:
    state = {"facets": [{"name": "carrier"}], "chart": {"mark": "bar", "x": "carrier"}}
    for width in (390, 1280):
        async with tab(browser, width=width, color_scheme=scheme, bypass_csp=True) as page:
            await opened(page, shown(await site.create(BY_ID), **state))
            await expect(page.get_by_role("img")).to_be_visible()
            assert ("theme=dark" in (await page.get_by_role("img").get_attribute("src") or "")) == (
                scheme == "dark"
            )
            await fits(page, width)
            await findings_are_none(page)


@pytest.mark.long
async def test_fractions_among_whole_numbers_and_infinities_keep_their_digits(
    site: Site, browser: Browser
) -> None:
    number = FLIGHTS.c.id
    few = case((number % 10 == 0, number / 3.0), else_=cast(number, Float)).label("few")
    rare = case((number % 4 == 0, number / 7.0), else_=number * 1e308 * 10.0).label("rare")
    async with tab(browser) as page:
        await opened(page, await site.create(select(number, few, rare).order_by(number)))
        rows = page.get_by_role("row")
        await expect(rows.filter(has_text="Infinity").first.get_by_role("gridcell")).to_have_text(
            ["1", "1.00", "Infinity"]
        )
        await expect(page.get_by_role("gridcell", name="3.33", exact=True)).to_have_attribute(
            "title", "3.3333333333333335"
        )
        await expect(page.get_by_role("gridcell", name="0.5714", exact=True)).to_be_visible()


@pytest.mark.long
async def test_paper_says_what_is_printed(site: Site, browser: Browser) -> None:
    filters = [{"column": "id", "op": "le", "value": 3}]
    async with tab(browser) as page:
        await opened(page, shown(await site.create(BY_ID), filters=filters))
        await expect(page.locator("#status span").first).to_have_text("Rows 1 to 3")
        await page.emulate_media(media="print")
        words = "getComputedStyle(document.getElementById('status'), '::before').content"
        assert await page.evaluate(words) == '"Flights; 3 rows; id is at most 3."'
        await expect(page.locator("#tools")).to_be_hidden()
        await expect(page.get_by_role("grid")).to_be_visible()


@pytest.mark.long
async def test_after_delete_the_head_says_so(site: Site, browser: Browser) -> None:
    async with tab(browser) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.locator("#time-left")).to_have_text("deleted")
        await expect(page.locator("#total")).to_have_text("no rows any more")
        await expect(page.locator(".facts")).not_to_contain_text(re.compile("live|whoever"))


SHOP = """
CREATE TABLE airlines (code TEXT PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE trips (id INTEGER PRIMARY KEY, carrier TEXT REFERENCES airlines (code), fare REAL);
INSERT INTO airlines VALUES ('UA', 'United'), ('O''K', 'Okay');
INSERT INTO trips VALUES (1, 'O''K', 10.5), (2, 'UA', 20.25), (3, 'UA', 1.5);
CREATE TABLE odd (id INTEGER PRIMARY KEY, x REAL, label TEXT);
INSERT INTO odd VALUES (1, 9e999, ''), (2, -9e999, 'a'), (3, 1.5, NULL), (4, 9e999, 'null');
CREATE TABLE prices (id INTEGER PRIMARY KEY, price DECIMAL(8, 2));
INSERT INTO prices VALUES (1, 97.71), (2, 97.71000000000001);
"""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[str]:
    """The address of the home page of a served database."""
    url = sqlite_url_in(tmp_path)
    engine: AsyncEngine = create_async_engine(url)
    async with engine.begin() as connection:
        for statement in SHOP.split(";")[:-1]:
            await connection.execute(text(statement))
    await engine.dispose()
    listener = socket.create_server(("127.0.0.1", 0))
    home = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    pages = Pages(pages_show_sql=True, pages_show_values=True)
    dual, _ = await build_server(
        url, Selection(everything=True), base_url=f"{home}resources", features=default_features(pages)
    )
    async with under_uvicorn(serve_app(dual), listener):
        yield home


@pytest.mark.long
async def test_a_browser_remembers_its_results(served: str, browser: Browser) -> None:
    async with tab(browser) as page:
        recent, field = page.locator("#recent"), page.get_by_label("SQL: one SELECT")
        for sql in ("SELECT * FROM airlines", "SELECT fare FROM trips"):
            await page.goto(served)
            await field.fill(sql)
            await field.press("Control+Enter")
            await expect(page.get_by_role("grid")).to_be_visible()
        await page.get_by_role("button", name="Pin").click()
        await expect(page.locator("#time-left")).to_contain_text("pinned")
        address = page.url
        await page.goto(served)
        await expect(recent.get_by_role("listitem")).to_have_text(["Trips: fare pinned", "Airlines"])
        await recent.get_by_role("link", name="Trips: fare").click()
        await expect(page).to_have_url(address)
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.locator("#time-left")).to_have_text("deleted")
        await page.goto(served)
        await expect(recent.get_by_role("listitem")).to_have_text(["Airlines"])


@pytest.mark.long
async def test_tables_references_and_the_editor(served: str, browser: Browser) -> None:
    async with tab(browser, bypass_csp=True) as page:
        await page.goto(served)
        trips = page.locator("details.table", has_text="trips")
        await expect(trips.locator("summary")).to_contain_text("3 rows")
        await trips.locator("summary").click()
        await findings_are_none(page)
        await page.get_by_role("button", name="Show the rows of trips").click()
        await expect(page.get_by_role("heading", name="Trips")).to_be_visible()
        await expect(page.locator("td .follow", has_text="O'K")).to_have_text("O'K Okay")
        await page.locator("td .follow", has_text="O'K").click()
        await expect(page.locator("tbody td").nth(1)).to_have_text("Okay")
        await page.go_back()
        await page.locator("tbody td").nth(3).click()
        await page.keyboard.press("Space")
        card = page.get_by_role("dialog")
        await expect(card).to_contain_text("20.25")
        await card.get_by_role("button", name="Row of airlines").click()
        await expect(page.locator("tbody td").nth(1)).to_have_text("United")
        await page.get_by_text("SQL", exact=True).click()
        await page.get_by_role("link", name="Edit and run").click()
        field = page.get_by_label("SQL: one SELECT")
        await expect(field).to_have_value(re.compile(r"FROM airlines[^']+WHERE airlines.code = 'UA'"))
        await expect(page.get_by_role("link", name="Airlines (filtered)").first).to_be_visible()
        await field.fill("")
        await field.press_sequentially("SELECT far")
        await expect(page.get_by_role("option", name="fare")).to_be_visible()
        await field.press("Tab")
        await field.press_sequentially(" FROM trips ")
        await field.press("Escape")
        await field.press("Control+Enter")
        await expect(page.get_by_role("heading", name="Trips: fare")).to_be_visible()


@pytest.mark.long
async def test_odd_values_filter_by_a_click(served: str, browser: Browser) -> None:
    async with tab(browser, bypass_csp=True) as page:
        await page.goto(served)
        field = page.get_by_label("SQL: one SELECT")
        await field.fill("SELECT * FROM odd WHERE lab")
        await field.press("e")
        await expect(page.get_by_role("option")).to_contain_text("label")
        await findings_are_none(page)
        await field.fill("SELECT * FROM odd")
        await field.press("Control+Enter")
        await expect(page.get_by_role("grid")).to_be_visible()
        address = page.url
        clicks = {"Infinity": ("x", "2 rows", "x is Infinity"), "-Infinity": ("x", "1 row", "x is -Infinity")}
        clicks["empty"] = ("label", "1 row", "label is an empty text")
        for value, (column, total, chip) in clicks.items():
            await page.goto("about:blank")
            await opened(page, shown(address, facets=[{"name": column}]))
            await page.get_by_role("button", name=re.compile(f"^{value} [0-9]")).click()
            await expect(page.locator("#total")).to_have_text(total)
            await expect(page.get_by_role("button", name=f"Remove: {chip}", exact=True)).to_be_visible()
            await findings_are_none(page)


@pytest.mark.long
@pytest.mark.parametrize(("width", "height"), [(390, 800), (640, 400)])
async def test_a_chart_is_seen_where_its_button_is_pressed(
    site: Site, browser: Browser, width: int, height: int
) -> None:
    async with tab(browser, width=width, height=height) as page:
        await opened(page, await site.create(BY_ID))
        await page.get_by_role("button", name="Chart", exact=True).click()
        await expect(page.get_by_role("complementary", name="Chart")).to_be_in_viewport(ratio=0.2)
        close = await page.get_by_role("button", name="Close the chart").bounding_box()
        assert close is not None
        assert min(close["width"], close["height"]) >= 24


@pytest.mark.long
async def test_a_column_whose_type_does_not_hold_its_values_is_saved_as_text(
    served: str, browser: Browser
) -> None:
    async with tab(browser) as page:
        await page.goto(served)
        await page.get_by_label("SQL: one SELECT").fill("SELECT * FROM prices")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_role("grid")).to_be_visible()
        await page.get_by_text("Download", exact=True).click()
        async with page.expect_download() as downloading:
            await page.get_by_role("link", name="Parquet").click()
        table = pq.read_table(await (await downloading.value).path())
        assert table.column("price").to_pylist() == ["97.71", "97.71000000000001"]
        await expect(page.get_by_text("Saved as text: price")).to_be_visible()
