"""The home page of `dualsql serve`, and signing in to it."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect
from sqlalchemy import Column, Integer, MetaData, Table
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

from dualsql import Pages, Principal, default_features
from dualsql.serve import Selection, build_server, one_token, serve_app
from dualsql.web.home import TokenSession
from tests.engines import sqlite_url_in
from tests.servers import with_features
from tests.web.browser import needs_chromium, tab
from tests.web.conftest import under_uvicorn
from tests.web.forms import BROWSER, send_form, token_of
from tests.web.test_browser import findings_are_none

TOKEN = "a-token-of-this-test-0123456789"
BASE_URL = "http://127.0.0.1:8000/data/resources"
ANA = Principal(id="ana")


@asynccontextmanager
async def home(database: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A browser at the home page of a database's own tables."""
    dual, _ = await build_server(
        database, Selection(everything=True), base_url=BASE_URL, **with_features({"pages": True, **options})
    )
    app: Starlette = serve_app(dual, session=options.get("authenticate"))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        url = "http://127.0.0.1:8000/data/"
        async with httpx.AsyncClient(transport=transport, base_url=url, headers=BROWSER) as http:
            yield http


def session() -> TokenSession:
    return TokenSession(one_token(TOKEN), TOKEN, ANA, base_url=BASE_URL)


async def test_what_is_served_and_how_to_connect(institutions_url: str) -> None:
    async with home(institutions_url) as http:
        page = await http.get("")
        assert page.status_code == 200
        assert "institutions" in page.text
        assert "http://127.0.0.1:8000/data/mcp" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_sql_by_hand_lands_on_a_result(institutions_url: str) -> None:
    async with home(institutions_url) as http:
        answer = await send_form(
            http, "", "ask", {"sql": "SELECT state, count(*) AS n FROM institutions GROUP BY state"}
        )
        assert answer.status_code == 303
        result = await http.get(answer.headers["location"])
        assert "3 rows" in result.text
        wrong = await send_form(http, "", "ask", {"sql": "SELECT nothing FROM institutions"})
        assert wrong.status_code == 422
        assert "SELECT nothing FROM institutions" in wrong.text
        assert "no column" in wrong.text
        for forbidden in ("DROP TABLE institutions", "SELECT * FROM sqlite_master", ""):
            assert (await send_form(http, "", "ask", {"sql": forbidden})).status_code in {400, 403, 422}


async def test_every_page_of_serve_leads_home(institutions_url: str) -> None:
    async with home(institutions_url, authenticate=session()) as http:
        http.headers["Authorization"] = f"Bearer {TOKEN}"
        answer = await send_form(http, "", "ask", {"sql": "SELECT * FROM institutions"})
        result = str(http.base_url.join(answer.headers["location"]))
        for address in (result, f"{result}/view", f"{result}/view/profile", "resources/", "resources/none"):
            page = await http.get(address)
            match = re.search(r'<a class="brand" href="([^"]+)">Home</a>', page.text)
            assert match is not None, address
            assert page.url.join(match[1]) == http.base_url


async def test_other_sites_cannot_ask(institutions_url: str) -> None:
    async with home(institutions_url) as http:
        sql = {"sql": "SELECT * FROM institutions"}
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ):
            assert (await send_form(http, "", "ask", sql, headers=headers)).status_code == 403
        own = {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"}
        assert (await send_form(http, "", "ask", sql, headers=own)).status_code == 303
        as_json = await http.post("ask", json=sql)
        assert as_json.status_code == 415


async def test_a_site_that_may_read_cannot_ask(institutions_url: str) -> None:
    async with home(institutions_url, cors_origins=["https://app.example"]) as http:
        sql = {"sql": "SELECT * FROM institutions"}
        assert (
            await send_form(http, "", "ask", sql, headers={"Origin": "https://app.example"})
        ).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://[", "http://[::1", "null", "", "http://127.0.0.1:8000@evil.example"]
)
async def test_an_origin_that_is_none_is_another_site(institutions_url: str, origin: str) -> None:
    async with home(institutions_url, cors_origins=["*"]) as http:
        answer = await send_form(
            http, "", "ask", {"sql": "SELECT * FROM institutions"}, headers={"Origin": origin}
        )
        assert answer.status_code == 403


@pytest.mark.parametrize("is_signed_in", [False, True])
async def test_a_form_needs_the_token_of_its_page(institutions_url: str, *, is_signed_in: bool) -> None:
    """In a browser, too, that sends neither Origin nor Sec-Fetch-Site, and cookies of every site."""
    async with home(institutions_url, authenticate=session() if is_signed_in else None) as http:
        stranger = await http.get("sign-in" if is_signed_in else "")
        theirs, their_cookie = token_of(stranger), stranger.cookies["dualsql_form"]
        if is_signed_in:
            await send_form(http, "sign-in", "sign-in/", {"token": TOKEN})
        else:
            http.cookies.clear()
        ours = token_of(await http.get(""))
        sql = {"sql": "SELECT * FROM institutions"}
        for form_token in (None, "", theirs, ours[:-4], "é"):
            form = sql | ({} if form_token is None else {"form_token": form_token})
            assert (await http.post("ask", data=form)).status_code == 403, form_token
        # A site beside this one, which may set cookies for it, has a token of its own.
        if is_signed_in:
            http.cookies.set("dualsql_form", their_cookie, domain="127.0.0.1", path="/data/ask")
            planted = await http.post("ask", data=sql | {"form_token": theirs})
            assert planted.status_code == 403
        assert "recent results" not in (await http.get("")).text
        # A cookie more, of another path, changes nothing.
        assert (await http.post("ask", data=sql | {"form_token": ours})).status_code == 303


async def test_signing_in_needs_the_token_of_its_page(institutions_url: str) -> None:
    async with home(institutions_url, authenticate=session()) as http:
        for form in ({}, {"form_token": "x"}):
            refused = await http.post("sign-in/", data={"token": TOKEN, **form})
            assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
            assert "Open the page again" in refused.text


async def test_without_callers_there_is_no_list_of_results(institutions_url: str) -> None:
    async with home(institutions_url) as http:
        listing = await http.get("resources/")
        assert listing.status_code == 404
        assert "<h1>There is no list of results" in listing.text
        assert "Open a result at the link" in listing.text
        gone = await http.get("resources/nothing")
        assert "<h1>This result does not exist, or it is not yours. Ask the question again" in gone.text


@pytest.mark.long
async def test_many_tables_are_listed(tmp_path: Path) -> None:
    url = sqlite_url_in(tmp_path)
    engine = create_async_engine(url)
    many = MetaData()
    for number in range(300):
        Table(f"part_{number:03}", many, Column("id", Integer, primary_key=True))
    async with engine.begin() as connection:
        await connection.run_sync(many.create_all)
    await engine.dispose()
    async with home(url) as http:
        page = await http.get("")
        assert "300 tables and views" in page.text
        assert page.text.count('class="table"') == 300
        [uri] = re.findall(r'value="([^"]+)" aria-label="Show the rows of default.part_299"', page.text)
        answer = await send_form(http, "", "ask", {"table": uri})
        assert answer.status_code == 303 and "/resources/" in answer.headers["location"]


@pytest.mark.long
async def test_wide_tables_are_listed_as_far_as_a_page_goes(tmp_path: Path) -> None:
    url = sqlite_url_in(tmp_path)
    engine = create_async_engine(url)
    wide = MetaData()
    for number in range(20):
        others = [Column(f"c{index:03}", Integer) for index in range(499)]
        Table(f"wide_{number:03}", wide, Column("id", Integer, primary_key=True), *others)
    async with engine.begin() as connection:
        await connection.run_sync(wide.create_all)
    await engine.dispose()
    async with home(url) as http:
        page = await http.get("")
        assert page.text.count('class="table"') == 20
        assert "wide_019" in page.text
        assert page.text.count("200 more columns are not listed.") == page.text.count("<details") > 5
        assert len(page.content) < 500_000


@needs_chromium
@pytest.mark.long
@pytest.mark.parametrize("width", [320, 1280, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_home_in_a_browser(institutions_url: str, browser: Browser, width: int, scheme: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    base_url = f"{origin}/data/resources"
    signed_in = TokenSession(one_token(TOKEN), TOKEN, ANA, base_url=base_url)
    dual, _ = await build_server(
        institutions_url,
        Selection(everything=True),
        base_url=base_url,
        features=default_features(Pages()),
        authenticate=signed_in,
    )
    app = serve_app(dual, session=signed_in)
    async with (
        under_uvicorn(app, listener),
        tab(browser, width=width, color_scheme=scheme, bypass_csp=True) as page,
    ):
        await page.goto(f"{origin}/data/")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await findings_are_none(page)
        await page.get_by_label("Token").fill("another token")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("not the token")
        await findings_are_none(page)
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Tables")).to_be_visible()
        await page.get_by_text("institutions", exact=True).click()
        await expect(page.get_by_text("enrollment", exact=True)).to_be_visible()
        await findings_are_none(page)
        assert await page.locator("html").evaluate("element => element.scrollWidth") <= width
        await page.get_by_label("SQL").fill("SELECT nothing FROM institutions")
        await page.get_by_role("button", name="Run").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await findings_are_none(page)
        await page.get_by_label("SQL").fill("SELECT state, count(*) AS n FROM institutions GROUP BY state")
        await page.get_by_role("button", name="Run").press("Enter")
        await expect(page.locator("#total")).to_have_text("3 rows")
        await page.get_by_role("link", name="Your results").click()
        await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_browser_signs_in(institutions_url: str) -> None:
    async with home(institutions_url, authenticate=session()) as http:
        refused = [
            await http.get(path) for path in ("", "resources/", "resources/nothing", "resources/else/view")
        ]
        assert {response.status_code for response in refused} == {303}
        assert {response.headers["location"] for response in refused} == {"/data/sign-in"}
        wrong = await send_form(http, "sign-in", "sign-in/", {"token": "another"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        right = await send_form(http, "sign-in", "sign-in/", {"token": TOKEN})
        assert right.status_code == 303
        cookie = right.headers["set-cookie"]
        assert TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        await send_form(http, "", "ask", {"sql": "SELECT * FROM institutions"})
        page = await http.get("")
        assert "recent results" in page.text


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "cookie", ["", "1.x", "99999999999.", f"99999999999.{'0' * 64}", "x.y", "²." + "0" * 64]
)
async def test_a_forged_session_is_none(institutions_url: str, cookie: str) -> None:
    async with home(institutions_url, authenticate=session()) as http:
        headers = httpx.Headers([(b"cookie", f"dualsql_session_8000={cookie}".encode())])
        assert (await http.get("", headers=headers)).status_code == 303
        assert (await http.post("resources/x", json={}, headers=headers)).status_code == 401
