"""Make the pictures of docs/pages.md: `python scripts/make_screenshots.py`. Needs Chromium and the dev group.

A server of `dualsql serve` on a small shop of its own, looked at by a browser without a window. Look at the pictures
before you commit them.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import socket
import sqlite3  # noqa: TID251 - it makes the demo data
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.async_api import Browser, Page, async_playwright
from starlette.requests import Request

from dualsql import Pages, Principal, default_features
from dualsql.serve import Selection, build_server, serve_app

FOLDER = Path(__file__).parent.parent / "docs" / "images"
ANA = Principal(id="ana")
FILL = """
CREATE TABLE airlines (code TEXT PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO airlines VALUES
    ('AA', 'American'), ('B6', 'JetBlue'), ('DL', 'Delta'), ('UA', 'United'), ('WN', 'Southwest');
CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT NOT NULL REFERENCES airlines (code),
    flight INTEGER NOT NULL, origin TEXT NOT NULL, destination TEXT NOT NULL, departure TIMESTAMP NOT NULL,
    delay INTEGER, distance REAL NOT NULL, fare DECIMAL(8, 2) NOT NULL, remark TEXT);
WITH RECURSIVE s (i, r) AS (
    SELECT 1, 7919 UNION ALL SELECT i + 1, (r * 16807) % 2147483647 FROM s WHERE i < 250000)
INSERT INTO flights SELECT i, substr('UADLAADLB6UAWNDLUAB6', 1 + 2 * (r % 10), 2), 100 + r % 4900,
    substr('JFKEWRLGA', 1 + 3 * (r / 10 % 3), 3), substr('BOSLAXSFOORDATLMIADENSEA', 1 + 3 * (r / 30 % 8), 3),
    datetime('2013-01-01 05:15:00', (i * 126) || ' seconds'),
    CASE WHEN i % 23 = 0 THEN NULL ELSE r / 77 % 140 + r / 30 % 8 * 5 - 45 END, 180 + r / 7 % 2400,
    60 + r / 11 % 54000 / 100.0, CASE i % 11 WHEN 0 THEN 'weather at the gate' WHEN 5 THEN 'late crew' END
FROM s;
"""


async def anyone(_request: Request) -> Principal:
    """Everybody is Ana."""
    return ANA


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[tuple[Any, str]]:
    """A server and the address of its home page."""
    file = folder / "flights.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(FILL)
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


async def take(page: Page, name: str) -> None:
    """Keep a picture with few colours: it is a tenth as large."""
    content = await page.screenshot()
    picture = Image.open(io.BytesIO(content)).convert("RGB").quantize(96)
    FOLDER.mkdir(exist_ok=True)
    picture.save(FOLDER / f"{name}.png", optimize=True)


async def look(browser: Browser, dual: Any, home: str, scheme: Any) -> None:
    """All pages in one colour scheme."""
    context = await browser.new_context(
        viewport={"width": 1200, "height": 720}, color_scheme=scheme, locale="en-US"
    )
    page = await context.new_page()
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


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with demo(Path(folder)) as (dual, home), async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for scheme in ("light", "dark"):
                await look(browser, dual, home, scheme)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
