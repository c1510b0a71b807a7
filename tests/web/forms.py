"""Forms of the pages, sent as a browser sends them: the page is opened first, and its hidden fields go along."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def token_of(page: httpx.Response) -> str:
    """The token in the forms of a page, of which all have the same."""
    tokens = set(re.findall(r'name="form_token" value="([^"]+)"', page.text))
    assert len(tokens) == 1, page.text
    return str(tokens.pop())


async def send_form(
    http: httpx.AsyncClient,
    page: str,
    action: str,
    fields: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Open a page, and send its form with these fields and headers."""
    opened = await http.get(page, headers=BROWSER)
    return await http.post(action, data={**fields, "form_token": token_of(opened)}, headers=headers)


async def open_link(
    http: httpx.AsyncClient, path: str, token: str, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """Open the page of a signed link for the result at `path`, and press its button."""
    return await send_form(http, f"{path}?link={token}", f"{path}/view", {"link": token}, headers)
