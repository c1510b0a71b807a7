"""A real Chromium on a real server. A console message, an error or a violation of the content security policy fails."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

PATIENCE = 20_000
"""Milliseconds after which what a test waits for has not come; the machine may be busy."""

expect.set_options(timeout=PATIENCE)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian: apt-get install chromium)"
)

# The status of a page or of a request is no fault of its script.
_EXPECTED = (
    "Failed to load resource: the server responded with a status of",
    "Failed to load resource: net::ERR_INTERNET_DISCONNECTED",
    "Failed to load resource: net::ERR_INCOMPLETE_CHUNKED_ENCODING",  # of a stream that the server cuts off
    "Autofocus processing was blocked because a document's URL has a fragment",  # of a search's result
)


@dataclass
class Watched:
    """A page, and what it complained of."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))

    def _note(self, kind: str, text: str) -> None:
        if kind != "debug" and not text.startswith(_EXPECTED):  # AppBridge reports every message
            self.complaints.append(f"{kind}: {text}")


@asynccontextmanager
async def chromium(*arguments: str) -> AsyncIterator[Browser]:
    """A browser without a window, with these arguments of its command line."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", *arguments],
            ignore_default_args=["--hide-scrollbars"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def tab(
    browser: Browser,
    *,
    width: int = 1280,
    height: int = 800,
    locale: str = "en-US",
    cookies: Sequence[Any] = (),
    **options: Any,
) -> AsyncIterator[Page]:
    """A tab of a profile of its own; at its end, nothing may have been complained of."""
    context: BrowserContext = await browser.new_context(
        viewport={"width": width, "height": height}, locale=locale, **options
    )
    context.set_default_timeout(PATIENCE)
    await context.add_cookies(list(cookies))
    watched = Watched(await context.new_page())
    try:
        yield watched.page
    finally:
        await context.close()
    assert not watched.complaints, watched.complaints
