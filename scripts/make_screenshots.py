"""Make the pictures of docs/pages.md: `python scripts/make_screenshots.py`. Needs Chromium and the dev group.

`--states FOLDER` makes others instead: of each state of the pages, light, dark, in 390 pixels and at 200 %. It compares
them with those that are there, and fails where parts of a page lie on each other or stick out.

A server of `dualsql serve` on the flights of `benchmarks.analyst`, looked at by a browser without a window. Look at the
pictures before you commit them.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from PIL import Image, ImageChops
from playwright.async_api import Browser, Page, Route, async_playwright
from starlette.requests import Request

from benchmarks.analyst import fill
from dualsql import Pages, Principal, default_features
from dualsql.serve import Selection, build_server, serve_app

FOLDER = Path(__file__).parent.parent / "docs" / "images"
ANA = Principal(id="ana")


async def anyone(_request: Request) -> Principal:
    """Everybody is Ana."""
    return ANA


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[tuple[Any, str]]:
    """A server and the address of its home page."""
    file = folder / "flights.sqlite"
    fill(file)
    url = f"sqlite+aiosqlite:///{file}"
    listener = socket.create_server(("127.0.0.1", 8765))
    home = "http://127.0.0.1:8765/"
    dual, _ = await build_server(
        url,
        Selection(everything=True),
        base_url=f"{home}resources",
        features=default_features(Pages()),
        authenticate=anyone,
    )
    server = uvicorn.Server(uvicorn.Config(serve_app(dual), log_config=None, access_log=False))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield dual, home
    finally:
        server.should_exit = True
        await serving


SUMMARISED = "() => [...document.querySelectorAll('button.summary')].every((each) => each.firstChild)"


async def take(page: Page, name: str) -> None:
    """Keep a picture with few colours: it is a tenth as large."""
    await page.wait_for_function(SUMMARISED)
    content = await page.screenshot()
    picture = Image.open(io.BytesIO(content)).convert("RGB").quantize(96)
    FOLDER.mkdir(exist_ok=True)
    picture.save(FOLDER / f"{name}.png", optimize=True)


async def patiently(route: Route) -> None:
    """Give the database more time for summaries than a page does: pictures are made on busy machines, too."""
    await route.continue_(post_data=json.dumps({**(route.request.post_data_json or {}), "budget": 30}))


async def look(browser: Browser, dual: Any, home: str, scheme: Any) -> None:
    """All pages in one colour scheme."""
    context = await browser.new_context(
        viewport={"width": 1200, "height": 720}, color_scheme=scheme, locale="en-US"
    )
    page = await context.new_page()
    await page.route("**/profile", patiently)
    query = dual.sql.resolve("SELECT * FROM flights ORDER BY id", principal=ANA)
    response = await dual.create_response(query.select, name="Flights from New York", principal=ANA)
    await page.goto(response.resource_url)
    await page.wait_for_selector("td.active")
    await page.locator("button.sort", has_text="distance").click()
    await page.wait_for_selector("th[aria-sort=ascending]")
    await page.get_by_label("Go to row").fill("200000")
    await page.keyboard.press("Enter")
    await page.wait_for_function("() => !document.querySelector('td.missing')")
    await page.wait_for_function("() => document.querySelector('tbody th').textContent === '200,000'")
    await take(page, f"result-{scheme}")
    await page.get_by_role("button", name="Options of departure").click()
    await page.get_by_label("Condition").select_option("between")
    await page.get_by_label("Value", exact=True).fill("2013-02-01T00:00:00")
    await page.get_by_label("and", exact=True).fill("2013-02-28T23:59:59")
    await take(page, f"filter-{scheme}")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Group", exact=True).click()
    await page.locator("select[name=by0]").select_option("destination")
    await page.locator("select[name=function]").select_option("avg")
    await page.locator("select[name=column]").select_option("delay")
    await page.get_by_role("dialog").get_by_role("button", name="Group").click()
    await page.wait_for_selector("#chart")
    await page.wait_for_function("() => document.querySelector('#message').textContent === ''")
    await take(page, f"groups-{scheme}")
    await page.goto(home)
    await page.get_by_label("SQL").fill("SELECT carrier, count(*) AS flights\nFROM flights\nGROUP BY carrier")
    await page.locator("details.table summary", has_text="flights").click()
    await take(page, f"home-{scheme}")
    await context.close()


FINDINGS = Path(__file__).with_name("page_findings.js").read_text(encoding="utf-8")

LOOKS: Mapping[str, Mapping[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 800}},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 800}},
    "twice": {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2},
}
"""The windows: "twice" is one of 1280 by 800 at 200 %."""

_FILTER = [
    {"column": "carrier", "op": "in", "value": ["UA", "DL"]},
    {"column": "delay", "op": "gt", "value": 30},
]
_GROUP = {
    "by": ["destination"],
    "aggregates": [{"function": "count"}, {"function": "avg", "column": "delay"}],
}
STATES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "rows": ({}, ""),
    "filters": ({"filters": _FILTER}, ""),
    "values": ({"facets": [{"name": "carrier"}, {"name": "departure"}]}, ""),
    "chart": ({"chart": {"mark": "line", "x": "departure", "bucket": "month"}}, ""),
    "values-chart": ({"facets": [{"name": "carrier"}], "chart": {"mark": "bar", "x": "carrier"}}, ""),
    "groups": ({"group": _GROUP}, ""),
    "frozen": ({"frozen": ["carrier"], "filters": _FILTER}, ""),
    "none": ({"filters": [{"column": "flight", "op": "lt", "value": 0}]}, ""),
    "options": ({}, "Options of carrier"),
    "columns": ({}, "Columns"),
    "group": ({"group": _GROUP}, "Change groups"),
    "profile": ({"filters": _FILTER}, "Profile"),
    "card": ({}, "Row as a card"),
    "download": ({}, "Download"),
    "delete": ({}, "Delete"),
}
"""What a result's page shows: its state, and the button or the menu that is pressed."""
SHOWN = """() => document.querySelector("#status span") || document.querySelector("#total").textContent === "0 rows" """
"""The rows are there, or none."""
_NOTICED = 0.001
"""The share of a picture from which a difference is said."""


async def look_at_states(browser: Browser, dual: Any, home: str, folder: Path) -> list[str]:
    """Pictures of each state in each window, and what is wrong with them."""
    query = dual.sql.resolve("SELECT * FROM flights ORDER BY id", principal=ANA)
    response = await dual.create_response(query.select, name="Flights from New York", principal=ANA)
    findings = []
    for look_name, options in LOOKS.items():
        context = await browser.new_context(locale="en-US", **options)
        page = await context.new_page()
        await page.route("**/profile", patiently)
        for state_name, (state, button) in STATES.items():
            words = urlencode({name: json.dumps(value) for name, value in state.items()})
            await page.goto("about:blank")
            await page.goto(f"{response.resource_url}#{words}")
            await page.wait_for_function(SHOWN)
            if button:
                buttons = page.get_by_role("button", name=button, exact=True)
                await buttons.or_(page.locator("summary", has_text=button)).click()
                await page.wait_for_selector("dialog[open], details.menu[open]")
            await page.wait_for_load_state("networkidle")
            findings += await _keep(page, folder / f"{state_name}-{look_name}.png")
        for place in ("", "resources", "resources/none", f"resources/{response.resource_id}/view/profile"):
            await page.goto(home + place)
            await page.wait_for_load_state("networkidle")
            name = place.rpartition("/")[2] or "home"
            findings += await _keep(page, folder / f"{name}-page-{look_name}.png")
        gone = await dual.create_response(query.select, name="Flights from New York", principal=ANA)
        await page.goto(gone.resource_url)
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await page.wait_for_selector("#time-left[data-deleted]")
        findings += await _keep(page, folder / f"deleted-{look_name}.png")
        await context.close()
    return findings


async def _keep(page: Page, file: Path) -> list[str]:
    """Keep a picture; what is wrong with it."""
    _compare(file, await page.screenshot())
    return [f"{file.name}: {finding}" for finding in await page.evaluate(FINDINGS)]


def _compare(file: Path, content: bytes) -> None:
    """Write a picture, and say how much of it is another one than in the picture that was there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        one, other = Image.open(file).convert("L"), Image.open(io.BytesIO(content)).convert("L")
        difference = ImageChops.difference(one, other).histogram() if one.size == other.size else [0] * 17
        share = 1 - sum(difference[:16]) / max(1, sum(difference))
        if share > _NOTICED:
            print(f"{file.name}: {share:.1%} of it is another one")
    file.write_bytes(content)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--states", type=Path, metavar="FOLDER", help="pictures of each state, and their check"
    )
    folder_of_states = parser.parse_args().states
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        async with demo(Path(folder)) as (dual, home), async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            if folder_of_states:
                findings = await look_at_states(browser, dual, home, folder_of_states)
            else:
                for scheme in ("light", "dark"):
                    await look(browser, dual, home, scheme)
            await browser.close()
    sys.exit("\n".join(findings) or None)


if __name__ == "__main__":
    asyncio.run(main())
