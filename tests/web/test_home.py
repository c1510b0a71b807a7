"""The home page of `dualsql serve`, and signing in to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from dualsql import Principal
from dualsql.serve import Selection, build_server, one_token, serve_app
from dualsql.web.home import TokenSession
from tests.web.test_pages import BROWSER

TOKEN = "a-token-of-this-test-0123456789"
BASE_URL = "http://127.0.0.1:8000/data/resources"
ANA = Principal(id="ana")


@asynccontextmanager
async def home(database: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A browser at the home page of a database's own tables."""
    dual, _ = await build_server(
        database, Selection(everything=True), base_url=BASE_URL, pages=True, **options
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
        asked = await http.post(
            "ask", data={"sql": "SELECT state, count(*) AS n FROM institutions GROUP BY state"}
        )
        assert asked.status_code == 303
        result = await http.get(asked.headers["location"])
        assert "3 rows" in result.text
        wrong = await http.post("ask", data={"sql": "SELECT nothing FROM institutions"})
        assert wrong.status_code == 422
        assert "SELECT nothing FROM institutions" in wrong.text
        assert "no column" in wrong.text
        for forbidden in ("DROP TABLE institutions", "SELECT * FROM sqlite_master", ""):
            assert (await http.post("ask", data={"sql": forbidden})).status_code in {400, 403, 422}


async def test_other_sites_cannot_ask(institutions_url: str) -> None:
    async with home(institutions_url) as http:
        sql = {"sql": "SELECT * FROM institutions"}
        for origin in ("https://evil.example", "null"):
            assert (await http.post("ask", data=sql, headers={"Origin": origin})).status_code == 403


async def test_a_browser_signs_in(institutions_url: str) -> None:
    async with home(institutions_url, authenticate=session()) as http:
        refused = [
            await http.get(path) for path in ("", "resources/", "resources/nothing", "resources/else/view")
        ]
        assert {response.status_code for response in refused} == {303}
        assert {response.headers["location"] for response in refused} == {"/data/sign-in"}
        wrong = await http.post("sign-in/", data={"token": "another"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
        right = await http.post("sign-in/", data={"token": TOKEN})
        assert right.status_code == 303
        cookie = right.headers["set-cookie"]
        assert TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        await http.post("ask", data={"sql": "SELECT * FROM institutions"})
        page = await http.get("")
        assert "recent results" in page.text


@pytest.mark.parametrize(
    "cookie", ["", "1.x", "99999999999.", f"99999999999.{'0' * 64}", "x.y", "²." + "0" * 64]
)
async def test_a_forged_session_is_none(institutions_url: str, cookie: str) -> None:
    async with home(institutions_url, authenticate=session()) as http:
        sent = httpx.Headers([(b"cookie", f"dualsql_session_8000={cookie}".encode())])
        assert (await http.get("", headers=sent)).status_code == 303
        assert (await http.post("resources/x", json={}, headers=sent)).status_code == 401
