"""Pages as they are without JavaScript: who gets one, what it shows, and its headers."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from sqlalchemy import literal, select
from sqlalchemy.ext.asyncio import create_async_engine

from dualsql import OpenAPI, web
from dualsql.formats.table import FORMATS
from dualsql.resource import Principal
from dualsql.settings import Action
from dualsql.web.assets import compressed_asset, script_of
from dualsql.web.mcp import app_html
from dualsql.web.routes import MOST_CELLS
from tests.http.application import INSTITUTIONS, Application, by_header, running
from tests.results.pending.conftest import FOREVER, MOMENT
from tests.web.forms import BROWSER, open_link, token_of

ANA = Principal(id="ana")
AS_ANA = {"X-User": "ana"}
TEMPLATES = Path(web.__file__).parent / "templates"


def is_page(response: httpx.Response) -> bool:
    return response.headers["content-type"].startswith("text/html")


def cells_of(response: httpx.Response) -> list[list[str]]:
    """The text of each cell of the table."""
    body = response.text.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [
        [
            unescape(re.sub(r"<[^>]*>", "", cell)).strip()
            for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)
        ]
        for row in rows
    ]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (BROWSER["Accept"], True),
        ("text/html", True),
        ("*/*", False),
        ("application/json", False),
        ("text/html, application/json", False),
        ("text/html;q=0.5, application/json;q=0.4", True),
    ],
)
async def test_html_only_where_accept_prefers_it(pages: Application, accept: str, expected: bool) -> None:
    path = await pages.create()
    response = await pages.http.get(path, headers={"Accept": accept})
    assert response.status_code == 200
    assert is_page(response) == expected
    assert {"Accept", "Cookie"} <= set(response.headers["vary"].split(", "))


async def test_the_first_rows_and_the_neighbouring_pages(pages: Application) -> None:
    path = await pages.create(select(INSTITUTIONS).order_by(INSTITUTIONS.c.id))
    first = await pages.http.get(path, headers=BROWSER)
    assert "60 rows" in first.text
    rows = cells_of(first)
    assert [row[0] for row in rows] == [str(number) for number in range(1, 51)]
    assert rows[0][4] == "9007199254740995"
    assert rows[3][3] == "NULL"
    following = re.search(r'rel="next" href="([^"]*)"', first.text)
    assert following is not None
    second = await pages.http.get(path + unescape(following[1]), headers=BROWSER)
    assert [row[0] for row in cells_of(second)] == [str(number) for number in range(51, 61)]
    assert 'rel="next"' not in second.text
    assert 'rel="prev"' in second.text


@pytest.mark.long
async def test_a_wide_result_has_fewer_rows_on_a_page_and_all_of_them_on_its_pages(
    pages: Application,
) -> None:
    """No GET keeps the server busy with cells without end, whatever limit it names."""
    columns = [literal("\u200b" * 600).label(f"c{index}") for index in range(499)]
    few = select(INSTITUTIONS.c.id, *columns).where(INSTITUTIONS.c.id <= 20).order_by(INSTITUTIONS.c.id)
    path = await pages.create(few)
    actual, following = [], "?limit=10000"
    while following:
        page = await pages.http.get(path + following, headers=BROWSER)
        rows = cells_of(page)
        assert len(rows) * 500 <= MOST_CELLS
        assert len(page.content) < 5_000_000
        assert re.search(r"5[05]0 more characters$", rows[0][1])
        actual += [row[0] for row in rows]
        link = re.search(r'rel="next" href="([^"]*)"', page.text)
        following = unescape(link[1]) if link else ""
    assert actual == [str(number) for number in range(1, 21)]
    back = await pages.http.get(f"{path}?offset=15", headers=BROWSER)
    previous = re.search(r'rel="prev" href="([^"]*)"', back.text)
    assert previous is not None
    before = await pages.http.get(path + unescape(previous[1]), headers=BROWSER)
    assert [row[0] for row in cells_of(before)] == [str(number) for number in range(6, 16)]
    assert (await pages.http.get(f"{path}?limit=10001", headers=BROWSER)).status_code == 400


async def test_a_page_where_the_operator_allows_few_rows(institutions_url: str) -> None:
    engine = create_async_engine(institutions_url)
    async with running(engine, pages=True, maximum_page_size=7) as shop:
        page = await shop.http.get(await shop.create(), headers=BROWSER)
        assert (page.status_code, len(cells_of(page))) == (200, 7)
    await engine.dispose()


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (None, ""),
        ({"read", "delete"}, "Not allowed here: pin, renew."),
        ({"read", "pin"}, "Not allowed here: delete."),
        ({"read"}, "Not allowed here: pin, renew, delete."),
    ],
)
async def test_the_page_says_what_is_not_allowed(
    institutions_url: str, actions: set[Action] | None, sentence: str
) -> None:
    options = {} if actions is None else {"anonymous_actions": frozenset(actions)}
    async with running(institutions_url, pages=True, authenticate=by_header, **options) as application:
        page = (await application.http.get(await application.create(), headers=BROWSER)).text
        buttons = {name: f'data-{name}="yes"' in page for name in ("pin", "delete")}
        assert buttons == {name: actions is None or name in actions for name in buttons}
        assert ("Not allowed here" in page, sentence in page) == (bool(sentence), True)
        own = await application.create(principal=Principal(id="ann"))
        assert (
            "Not allowed" not in (await application.http.get(own, headers=BROWSER | {"X-User": "ann"})).text
        )


async def test_a_header_sorts(pages: Application) -> None:
    path = await pages.create()
    for query, expected in (("?sort=name", "Institution 001"), ("?sort=-name", "Institution 060")):
        page = await pages.http.get(path + query, headers=BROWSER)
        assert cells_of(page)[0][1] == expected
        assert 'aria-sort="' in page.text


async def test_a_page_from_a_row_on(pages: Application) -> None:
    path = await pages.create(select(INSTITUTIONS).order_by(INSTITUTIONS.c.id))
    page = await pages.http.get(f"{path}?row=58", headers=BROWSER)
    assert [row[0] for row in cells_of(page)] == ["58", "59", "60"]
    sorted_page = await pages.http.get(f"{path}?row=59&sort=-id", headers=BROWSER)
    assert [row[0] for row in cells_of(sorted_page)] == ["2", "1"]
    for wrong in ("0", "-1", "x", "1e9", "9" * 13, "²"):
        refused = await pages.http.get(path, params={"row": wrong}, headers=BROWSER)
        assert refused.status_code == 400, wrong
    assert (await pages.http.get(f"{path}?row=3")).status_code == 400  # of pages alone


async def test_what_is_not_seen_is_a_sign(pages: Application) -> None:
    written = {
        "a\u200bb": "a⟨U+200B⟩b",
        "\u202eevil": "⟨U+202E⟩evil",
        "line\nbreak": "line↵break",
        "a\u200db": "a⟨U+200D⟩b",
        "👩\u200d👧": "👩\u200d👧",
        "می\u200cخواهم": "می\u200cخواهم",
        "🏴\U000e0067\U000e007f": "🏴\U000e0067\U000e007f",
        "x\U000e0067": "x⟨U+E0067⟩",
        "  ": "␣␣",
    }
    columns = [literal(text).label(f"c{index}") for index, text in enumerate(written)]
    path = await pages.create(select(INSTITUTIONS.c.id, *columns))
    page = await pages.http.get(path, headers=BROWSER)
    assert cells_of(page)[0][1:] == list(written.values())


async def test_the_profile_is_a_table(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    page = await pages.http.get(path, headers=BROWSER | AS_ANA)
    assert f"{path.rpartition('/')[2]}/view/profile" in page.text
    profile = await pages.http.get(f"{path}/view/profile", headers=BROWSER | AS_ANA)
    assert (profile.status_code, is_page(profile)) == (200, True)
    assert "Institution 060" in profile.text
    assert "assets/" in profile.text
    assert profile.text.count('href="../../') > 0
    full = await pages.http.get(f"{path}/view/profile?kind=full", headers=BROWSER | AS_ANA)
    assert "All 60 rows" in full.text
    assert (await pages.http.get(f"{path}/view/profile", headers=BROWSER)).status_code == 404


async def test_the_question_that_a_result_answers(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    refined = await pages.http.post(
        f"{path}/refine", json={"filters": [{"column": "state", "op": "eq", "value": "NJ"}]}, headers=AS_ANA
    )
    child = f"/resources/{refined.json()['resource']['uri'].partition('://')[2]}"
    page = await pages.http.get(child, headers=BROWSER | AS_ANA)
    assert f'href="./{path.rpartition("/")[2]}"' in page.text
    assert "state is" in page.text
    await pages.http.delete(path, headers=AS_ANA)
    alone = await pages.http.get(child, headers=BROWSER | AS_ANA)
    assert "an earlier result, which is gone" in alone.text
    assert "<pre" not in alone.text


async def test_the_sql_where_the_operator_shows_it(institutions_url: str) -> None:
    statement = select(INSTITUTIONS.c.name).where(INSTITUTIONS.c.state == "a secret")
    engine = create_async_engine(institutions_url)
    async with running(
        engine, pages=True, pages_show_sql=True, signed_links=True, authenticate=by_header
    ) as shop:
        path = await shop.create(statement, principal=ANA)
        page = await shop.http.get(path, headers=BROWSER | AS_ANA)
        assert "FROM institutions" in page.text
        assert "a secret" not in page.text
        link = await shop.server.links.create(path.rpartition("/")[2], ANA)
        await open_link(shop.http, path, link.partition("link=")[2])
        shared = await shop.http.get(path, headers=BROWSER)
        assert shared.status_code == 200
        assert "FROM institutions" not in shared.text
    await engine.dispose()


async def test_what_rows_hold_is_text(pages: Application) -> None:
    hostile = "</td><script>alert(1)</script>"
    path = await pages.create(select(INSTITUTIONS.c.id, literal(hostile).label("<img src=x>")))
    page = await pages.http.get(path, headers=BROWSER)
    assert "<script>alert" not in page.text
    assert "<img" not in page.text
    assert cells_of(page)[0][1] == hostile


async def test_the_headers_of_a_page(pages: Application) -> None:
    page = await pages.http.get(await pages.create(), headers=BROWSER)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page.text)


async def test_where_there_is_no_home_nothing_leads_there(pages: Application) -> None:
    assert "Home" not in (await pages.http.get(await pages.create(), headers=BROWSER)).text


async def test_errors_are_pages(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    foreign = await pages.http.get(path, headers=BROWSER)
    missing = await pages.http.get("/resources/nothing", headers=BROWSER)
    assert is_page(foreign)
    assert foreign.status_code == missing.status_code == 404
    assert foreign.text == missing.text
    bad = await pages.http.get(f"{path}?sort=nothing", headers=BROWSER | AS_ANA)
    assert (bad.status_code, is_page(bad)) == (422, True)


async def test_the_listing(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    await pages.create()
    page = await pages.http.get("/resources/", headers=BROWSER | AS_ANA)
    assert is_page(page)
    assert re.findall(r'data-url="\./([^"]*)"', page.text) == [path.rpartition("/")[2]]


async def test_assets_are_kept_for_ever_and_only_there(pages: Application) -> None:
    page = await pages.http.get(await pages.create(), headers=BROWSER)
    match = re.search(r'href="\./(assets/[^"]*style\.css)"', page.text)
    assert match is not None
    style = await pages.http.get(f"/resources/{match[1]}", headers={"Accept-Encoding": "gzip"})
    assert style.headers["content-type"].startswith("text/css")
    assert "immutable" in style.headers["cache-control"]
    assert style.headers["content-encoding"] == "gzip"
    old = await pages.http.get("/resources/assets/0123456789abcdef/style.css")
    assert old.headers["cache-control"] == "no-store"
    assert (await pages.http.get("/resources/assets/0123456789abcdef/secrets")).status_code == 404


async def test_a_caller_who_takes_no_coding_of_an_asset_is_told_which_there_are(pages: Application) -> None:
    refused = await pages.http.get(
        "/resources/assets/x/style.css", headers={"Accept-Encoding": "identity;q=0"}
    )
    assert refused.status_code == 406
    assert "gzip" in refused.json()["hint"]


async def test_a_page_compresses_no_assets(pages: Application) -> None:
    """Brotli takes 200 ms for all of them: the first page of a server would wait for it."""
    compressed_asset.cache_clear()
    assert (await pages.http.get(f"{await pages.create()}/view")).status_code == 200
    assert compressed_asset.cache_info().currsize == 0


def assets_of(template: str) -> set[str]:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    names = set(re.findall(r"\{\{ assets \}\}([\w./-]+)", text))
    assert text.count("<script") == sum(name.endswith(".js") for name in names)
    return names


@pytest.mark.parametrize("template", [path.name for path in sorted(TEMPLATES.glob("*.html"))])
def test_all_that_a_page_loads_is_small(template: str) -> None:
    """At most 64 KB of gzip for one load of a page: its script with all that it imports, the styles and the icon.

    The document, rows and charts are not counted; nor are the scripts of other pages, which this load does not ask for.
    The App, which hosts let load no file, is a document with its script and the styles.
    """
    if template == "app.html":
        size = len(gzip.compress(app_html(has_pages=True, page_size=1_000).encode()))
    else:
        names = assets_of("base.html") | assets_of(template)
        for name in names:
            content = script_of(name) if name.endswith(".js") else ""
            assert not re.search(r"^import |\bimport\(", content, re.MULTILINE), "it loads more"
        size = sum(len(compressed_asset(name, "gzip")) for name in names)
    assert 0 < size <= 64 * 1024


@pytest.mark.parametrize("single_use", [False, True])
async def test_a_signed_link_is_opened_by_a_button(pages: Application, single_use: bool) -> None:
    path = await pages.create(principal=ANA)
    resource_id = path.rpartition("/")[2]
    link = await pages.server.links.create(
        resource_id, ANA, single_use=single_use, expires_in=timedelta(minutes=5)
    )
    for _ in range(3):  # previews of chats and mails
        preview = await pages.http.get(link, headers=BROWSER)
        assert preview.status_code == 200
        assert "Institution" not in preview.text
    token = link.partition("link=")[2]
    opened = await open_link(pages.http, path, token)
    assert opened.status_code == 303
    cookie = opened.headers["set-cookie"]
    assert "path=" not in cookie.lower()  # so it is that of the form, below whatever path this is mounted
    assert {kept.path for kept in pages.http.cookies.jar if kept.name == "dualsql_link"} == {path}
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    page = await pages.http.get(f"{path}/view", headers=BROWSER)
    assert cells_of(page)[0][1] == "Institution 001"
    assert "format=json" in page.text
    assert "format=csv" not in page.text  # the link is for JSON
    assert (await pages.http.post(path, json={"limit": 1})).status_code == 200
    again = await open_link(pages.http, path, token)
    assert again.status_code == (404 if single_use else 303)


async def test_a_single_use_link_of_a_pending_result_is_exchanged_once(pages: Application) -> None:
    """The token that it is exchanged for reads the rows once they are there."""
    pending = await pages.server.create_response(FOREVER, name="Slow", principal=ANA, wait=MOMENT)
    assert pending.resource_id is not None
    link = await pages.server.links.create(pending.resource_id, ANA, single_use=True)
    token = link.partition("link=")[2]
    path = f"/resources/{pending.resource_id}"
    answers = [await open_link(pages.http, path, token) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [303, 404, 404]


@pytest.mark.parametrize("single_use", [False, True])
async def test_a_link_that_is_revoked_ends_for_the_browser_that_opened_it(
    pages: Application, single_use: bool
) -> None:
    path = await pages.create(principal=ANA)
    link = await pages.server.links.create(path.rpartition("/")[2], ANA, single_use=single_use)
    await open_link(pages.http, path, link.partition("link=")[2])
    assert (await pages.http.get(path, headers=BROWSER)).status_code == 200
    assert await pages.server.links.revoke(link)
    assert (await pages.http.get(path, headers=BROWSER)).status_code == 404
    assert not await pages.server.links.revoke(link)


async def test_the_cookie_of_a_link_takes_nothing_from_who_owns_the_result(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    link = await pages.server.links.create(path.rpartition("/")[2], ANA)
    await open_link(pages.http, path, link.partition("link=")[2])
    assert (await pages.http.get(f"{path}/rows?format=csv")).status_code == 404  # the link is for JSON
    assert (await pages.http.get(f"{path}/rows?format=csv", headers=AS_ANA)).status_code == 200
    await pages.server.links.revoke(link)
    assert (await pages.http.get(path, headers=BROWSER)).status_code == 404
    own = await pages.http.get(path, headers=BROWSER | AS_ANA)
    assert (own.status_code, 'data-delete="yes"' in own.text) == (200, True)
    for response in (
        await pages.http.get(path, headers=AS_ANA),
        await pages.http.post(path, json={}, headers=AS_ANA),
    ):
        assert response.status_code == 200
    in_address = await pages.http.get(link, headers=AS_ANA)
    assert in_address.status_code == 404


async def test_a_link_s_cookie_only_reads(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    link = await pages.server.links.create(path.rpartition("/")[2], ANA)
    await open_link(pages.http, path, link.partition("link=")[2])
    assert (await pages.http.put(path)).status_code == 404
    assert (await pages.http.get(f"{path}/profile")).status_code == 404
    assert (await pages.http.post(f"{path}/query", json={})).status_code == 404
    assert (await pages.http.delete(path)).status_code == 404


async def test_a_link_that_is_not_good_opens_nothing(pages: Application) -> None:
    path = await pages.create(principal=ANA)
    other = await pages.create(principal=ANA)
    link = await pages.server.links.create(path.rpartition("/")[2], ANA)
    token = link.partition("link=")[2]
    for target, given in ((other, token), (path, token[:-2]), (path, "")):
        refused = await open_link(pages.http, target, given)
        assert refused.status_code == 404
        assert "set-cookie" not in refused.headers
    json_body = await pages.http.post(f"{path}/view", json={"link": token})
    assert json_body.status_code == 415


async def test_a_name_does_not_change_its_direction(pages: Application) -> None:
    statement = select(INSTITUTIONS.c.id.label("a\u202eb")).order_by(INSTITUTIONS.c.id)
    response = await pages.server.create_response(statement, principal=ANA, name="Sales \u202efdp.exe")
    path = f"/resources/{response.resource_id}"
    for page in (path, f"{path}/view/profile", "/resources/"):
        shown = (await pages.http.get(page, headers=BROWSER | AS_ANA)).text
        assert "Sales ⟨U+202E⟩fdp.exe" in shown
        assert "\u202e" not in shown


async def test_every_format_can_be_downloaded(pages: Application) -> None:
    page = (await pages.http.get(await pages.create(), headers=BROWSER)).text
    offered = re.findall(r"rows\?format=(\w+)", page)
    assert set(offered) == set(FORMATS) and len(offered) == len(FORMATS) + 1
    assert offered[:3] == ["xlsx", "csv", "csv"]
    assert re.findall(r"rows\?format=csv([^\"]*)", page) == ["&amp;excel=true", "&amp;guard_formulas=true"]


async def test_a_link_is_opened_by_the_form_of_its_page_alone(pages: Application) -> None:
    """By a browser, too, that sends neither Origin nor Sec-Fetch-Site, and cookies of every site."""
    path = await pages.create(principal=ANA)
    token = (await pages.server.links.create(path.rpartition("/")[2], ANA)).partition("link=")[2]
    theirs = token_of(await pages.http.get(f"{path}?link={token}", headers=BROWSER))
    pages.http.cookies.clear()
    ours = token_of(await pages.http.get(f"{path}?link={token}", headers=BROWSER))
    for form_token in (None, "", theirs, ours[:-4], ours.swapcase(), "é", "=" * 99):
        form = {"link": token} | ({} if form_token is None else {"form_token": form_token})
        refused = await pages.http.post(f"{path}/view", data=form)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False), form_token
        assert "Open the page again" in refused.text
    assert (await pages.http.get(path, headers=BROWSER)).status_code == 404
    opened = await pages.http.post(f"{path}/view", data={"link": token, "form_token": ours})
    assert opened.status_code == 303


async def test_other_sites_change_nothing(pages: Application) -> None:
    """A form of another site sends no JSON, no PUT and no DELETE without a preflight, and always its Origin."""
    path = await pages.create(principal=ANA)
    link = (await pages.server.links.create(path.rpartition("/")[2], ANA)).partition("link=")[2]
    for origin in ("https://evil.example", "null", "http://127.0.0.1:8001"):
        foreign = AS_ANA | {"Origin": origin}
        for method, below in (
            ("PUT", ""),
            ("DELETE", ""),
            ("DELETE", "/pin"),
            ("POST", "/query"),
            ("POST", "/refine"),
        ):
            refused = await pages.http.request(method, path + below, headers=foreign)
            assert refused.status_code == 403, (method, below, origin)
        assert (await open_link(pages.http, path, link, foreign)).status_code == 403
    for below in ("", "/query", "/refine"):
        form = await pages.http.post(path + below, data={"limit": "1"}, headers=AS_ANA)
        assert form.status_code == 415, below
    fetched = {"Sec-Fetch-Site": "cross-site"}
    refused = await open_link(pages.http, path, link, fetched)
    assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
    assert (await pages.http.get(path, headers=AS_ANA)).status_code == 200


async def test_the_reference_shows_the_whole_document_without_scripts(pages: Application) -> None:
    answer = await pages.http.get("/resources/openapi.html")
    assert answer.status_code == 200 and is_page(answer)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in answer.text and "http:" not in answer.text.replace(pages.server.base_url, "")
    document = pages.server.features.get(OpenAPI).document()
    text = unescape(re.sub(r"<[^>]*>", "", answer.text))
    for path, item in document["paths"].items():
        for method in item.keys() - {"parameters"}:
            assert f"{method.upper()} {path}" in text
            for parameter in item[method].get("parameters", ()):
                assert parameter["name"] in text and parameter["description"] in text
    targets = set(re.findall(r' id="([^"]*)"', answer.text))
    for link in re.findall(r'href="#([^"]*)"', answer.text):
        assert unquote(unescape(link)) in targets, link
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= targets
    assert (await pages.http.get("/resources/openapi.html?x=1")).status_code == 400
    assert (await pages.http.head("/resources/openapi.html")).status_code == 200
