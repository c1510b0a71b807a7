"""A page in the browser that takes too long: the person waits while the rows are kept, and is told so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, expect
from sqlalchemy import func, select

from dualsql.settings import ALL_ACTIONS
from tests.kept.test_late_pages import SLOW_TO_SORT, Hasty, hasty_server
from tests.kept.test_results import ROWS, sales
from tests.web.browser import chromium, needs_chromium, tab

pytestmark = needs_chromium


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


def in_order(served: Hasty, resource_id: str) -> str:
    """The address of a result in the order of the column that is slow to sort by."""
    sort = quote(json.dumps([{"field": "n", "order": "desc"}]))
    return f"{served.http.base_url}{resource_id}#sorts={sort}"


COPIES = 160
_copy, _a, _b = (sales.alias(name) for name in ("copy", "a", "b"))
_EACH = (
    select(func.count())
    .select_from(_a.join(_b, _b.c.id < 10))
    .where(_a.c.id + _b.c.id != sales.c.id)
    .scalar_subquery()
)
LATE = {
    **SLOW_TO_SORT,
    "select": select(sales.c.id, _copy.c.id.label("copy"), _EACH.label("n"))
    .join(_copy, _copy.c.id < COPIES)
    .order_by(sales.c.id, _copy.c.id),
}
"""Many rows, each of which takes little: the first hundreds come at once on a busy machine, too."""

OPEN: dict[str, Any] = {"pages": True, "authenticate": None, "anonymous_actions": ALL_ACTIONS}


@pytest.mark.long
async def test_the_page_waits_until_the_rows_are_kept(tmp_path: Path, browser: Browser) -> None:
    async with hasty_server(tmp_path, **OPEN) as served, tab(browser) as page:
        response = await served.kept.make(None, **LATE)
        await page.goto(in_order(served, response.resource_id))
        message = page.locator("#message")
        await expect(message).to_contain_text("its rows are kept")
        await expect(page.locator("#rows td").first).to_be_visible()
        await expect(message).to_be_empty()
        await expect(page.locator(".facts").first).to_contain_text("rows as of")
        counts = [int(text) for text in await page.locator("#rows td:nth-child(4)").all_inner_texts()]
        assert len(counts) > 5 and counts == sorted(counts, reverse=True)
        await expect(page.locator("#total")).to_contain_text(f"{COPIES * ROWS:,}")


@pytest.mark.long
async def test_rows_that_cannot_be_kept_are_said_with_a_way_back(tmp_path: Path, browser: Browser) -> None:
    async with hasty_server(tmp_path, **OPEN, keep_rows=10) as served, tab(browser) as page:
        response = await served.kept.make(None, **LATE)
        await page.goto(in_order(served, response.resource_id))
        await expect(page.locator("#message")).to_contain_text("more than 10 rows")
        await page.get_by_role("button", name="Show all rows").click()
        await expect(page.locator("#rows td").first).to_be_visible()


@pytest.mark.long
async def test_who_may_not_refresh_reads_what_to_do(tmp_path: Path, browser: Browser) -> None:
    async with hasty_server(tmp_path, pages=True, authenticate=None) as served, tab(browser) as page:
        response = await served.kept.make(None, **LATE)
        await page.goto(in_order(served, response.resource_id))
        await expect(page.locator("#message")).to_contain_text("The database took too long.")


@pytest.mark.long
async def test_waiting_can_be_cancelled_and_tried_again(tmp_path: Path, browser: Browser) -> None:
    async with hasty_server(tmp_path, **OPEN) as served, tab(browser) as page:
        response = await served.kept.make(None, **LATE)
        await page.goto(in_order(served, response.resource_id))
        await expect(page.locator("#message")).to_contain_text("its rows are kept")
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator("#message")).to_contain_text("Cancelled.")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator("#rows td").first).to_be_visible()
        assert len(served.kept.files()) == 1


@pytest.mark.long
async def test_values_that_take_long_are_said_to_be_read(tmp_path: Path, browser: Browser) -> None:
    async with hasty_server(tmp_path, **OPEN) as served, tab(browser) as page:
        response = await served.kept.make(None, **LATE)
        facets = quote(json.dumps([{"name": "n"}]))
        await page.goto(f"{served.http.base_url}{response.resource_id}#facets={facets}")
        values = page.get_by_role("region", name="Values of n").locator("li")
        await expect(values).to_have_text("Reading…")
        await expect(values).to_contain_text("The database took too long.")
