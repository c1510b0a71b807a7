"""The App inside the AppBridge of `@modelcontextprotocol/ext-apps`, in an environment of its own: `make test-apps`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from mcp.server.auth.provider import AccessToken
from playwright.async_api import expect

from dualsql.identity import principal_of_token
from tests.mcp.test_identity import fields_of
from tests.waiting import until
from tests.web.bridge.conftest import Bridge, Bridged
from tests.web.browser import needs_chromium
from tests.web.hostile import CELLS

ANA = principal_of_token(AccessToken(**(fields_of("token-of-ana") or {})))
AXE = Path(axe_playwright_python.__path__[0]) / "axe.min.js"

pytestmark = [pytest.mark.exhaustive, needs_chromium]


async def test_it_starts_and_shows_every_row(host: Bridged) -> None:
    async with host.opened() as bridge:
        started = await bridge.start("flights")
        assert started["uri"] == "ui://dualsql/result.html"
        assert started["mimeType"] == "text/html;profile=mcp-app"
        assert started["can"]["availableDisplayModes"] == ["inline", "fullscreen"]
        await expect(bridge.app.locator("#total")).to_have_text("100,000 rows")
        await expect(bridge.app.locator("tbody td").first).to_have_text("1")


async def test_rows_come_as_one_scrolls(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        await bridge.app.locator("tbody td").first.hover()
        for _ in range(10):
            await bridge.page.mouse.wheel(0, 29 * 100)
        await expect(bridge.app.locator("tbody th").first).to_have_text("1,001")
        await expect(bridge.app.locator("tbody td").first).to_have_text("1001")
        await bridge.app.locator("tbody td").first.click()
        await bridge.page.keyboard.press("Control+End")
        await expect(bridge.app.locator("tbody tr").last.locator("td").first).to_have_text("100,000")
        sizes = [call["arguments"]["request"]["limit"] for call in await bridge.log("calls")]
        assert max(sizes) <= 500


async def test_it_sorts_filters_and_groups(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        app = bridge.app
        for _ in range(2):  # ascending, descending
            await app.locator("button.sort", has_text="distance").click()
        await expect(app.get_by_role("columnheader", name="distance")).to_have_attribute(
            "aria-sort", "descending"
        )
        await app.get_by_role("button", name="Options of carrier").click()
        await app.get_by_label("Value", exact=True).fill("UA")
        await bridge.page.keyboard.press("Enter")
        await expect(app.locator("#total")).to_have_text("20,000 rows")
        await app.get_by_role("button", name="Group", exact=True).click()
        await app.get_by_label("Group by").select_option("dest")
        await app.get_by_role("dialog").get_by_role("button", name="Group").click()
        await expect(app.locator("#total")).to_have_text("4 groups")
        await expect(app.locator("#chart rect")).to_have_count(4)
        await app.get_by_role("button", name="Remove: Back to the rows").click()
        await app.get_by_role("button", name="Remove: carrier is UA").click()
        await expect(app.locator("#total")).to_have_text("100,000 rows")


async def test_fullscreen_and_back(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        await bridge.app.get_by_role("button", name="Fullscreen").click()
        await expect(bridge.app.locator("html")).to_have_class("fills app fullscreen filled")
        await expect(bridge.app.locator("tbody tr").nth(15)).to_be_visible()
        await bridge.app.get_by_role("button", name="Leave fullscreen").click()
        await expect(bridge.app.get_by_role("button", name="Fullscreen", exact=True)).to_be_visible()
        assert await bridge.log("modes") == ["fullscreen", "inline"]


async def test_the_model_hears_only_what_the_person_sends(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        await bridge.app.locator("button.sort", has_text="delay").click()
        await expect(bridge.app.get_by_role("columnheader", name="delay")).to_have_attribute(
            "aria-sort", "ascending"
        )
        assert await bridge.log("contexts") == []
        await bridge.app.get_by_role("button", name="Tell the model").click()
        await expect(bridge.app.locator("#message")).to_contain_text("next message")
        [context] = await bridge.log("contexts")
        assert "Sorted by delay asc" in context["content"][0]["text"]


async def test_the_browser_s_page_and_a_file(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("three")
        await bridge.app.get_by_role("button", name="Open in the browser").click()
        await bridge.app.get_by_role("button", name="Save as CSV").click()
        await expect(bridge.app.locator("#message")).to_have_text("Saved 3 rows.")
        [link] = await bridge.log("links")
        assert link.startswith(f"{host.origin}/resources/")
        [file] = await bridge.log("files")
        lines = file["resource"]["text"].split("\r\n")
        assert lines[0].startswith("id,carrier,dest,delay")
        assert (len(lines), lines[-1]) == (5, "")


async def test_a_small_result_takes_a_small_frame(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("three")
        await expect(bridge.app.locator("tbody tr")).to_have_count(3)
        await expect(bridge.app.locator(".scrollbar")).to_be_hidden()
        small = (await bridge.log("sizes"))[-1]["height"]
        assert small < 300
        await bridge.app.get_by_role("button", name="Group", exact=True).click()
        await expect(bridge.page.locator("iframe")).not_to_have_css("height", f"{small}px")
        await bridge.page.keyboard.press("Escape")
        await expect(bridge.page.locator("iframe")).to_have_css("height", f"{small}px")
    async with host.opened() as bridge:
        await bridge.start("flights", context={"containerDimensions": {"maxHeight": 400}})
        await expect(bridge.app.locator("tbody td").first).to_be_visible()
        assert 300 < (await bridge.log("sizes"))[-1]["height"] <= 400


async def test_the_host_s_theme_and_width_may_change(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        ground = bridge.app.locator("body")
        await expect(ground).to_have_css("background-color", "rgb(255, 255, 255)")
        await bridge.page.evaluate("setContext({ theme: 'dark' })")
        await expect(ground).to_have_css("background-color", "rgb(20, 23, 26)")
        for width in (320, 900):
            await bridge.page.evaluate(f"document.querySelector('iframe').style.width = '{width}px'")
            await expect(bridge.app.locator(".rows.grid")).to_have_css("width", f"{width - 24}px")
            wide = await bridge.app.locator("html").evaluate("element => element.scrollWidth")
            assert wide <= width


async def test_it_stops_when_the_host_ends_it(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        await expect(bridge.app.locator("tbody td").first).to_be_visible()
        assert await bridge.page.evaluate("tearDown()") == {}


@pytest.mark.parametrize("tool", ["columnar", "enveloped", "flights"])
@pytest.mark.parametrize("why", ["host", "server"])
async def test_without_its_tool_it_shows_the_rows_of_the_answer(
    host: Bridged, host_without_rows: Bridged, tool: str, why: str
) -> None:
    site = host if why == "host" else host_without_rows
    can: dict[str, Any] = {"openLinks": {}} if why == "host" else {"openLinks": {}, "serverTools": {}}
    async with site.opened() as bridge:
        await bridge.start(tool, capabilities=can)
        await expect(bridge.app.locator("#total")).to_have_text("100,000 rows")
        await expect(bridge.app.locator("tbody td").first).to_have_text("1")
        await expect(bridge.app.locator("#message")).to_contain_text("Open it in the browser to see all")
        await bridge.app.locator("button.sort", has_text="delay").click()
        await expect(bridge.app.locator("#message")).to_contain_text("Only some of its rows are here")
        assert await bridge.log("calls") == []


@pytest.mark.parametrize("can", [{"serverTools": {}}, {}])
async def test_no_number_is_shown_wrong(host: Bridged, can: dict[str, Any]) -> None:
    """Browsers read JSON's numbers as doubles, so one that a double would lose is a text, in pages and in answers."""
    async with host.opened() as bridge:
        await bridge.start("large", capabilities=can)
        await expect(bridge.app.locator("tbody td").first).to_have_text(f"{2**63 - 1:,}")


async def test_what_nobody_waits_for_is_cancelled(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        await expect(bridge.app.locator("tbody td").first).to_be_visible()
        header = bridge.app.locator("button.sort", has_text="delay")
        await header.evaluate("button => { button.click(); button.click(); button.click(); }")
        await expect(bridge.app.locator("#message")).to_be_empty()
        cancelled = await bridge.log("cancelled")
        assert [call["arguments"]["request"]["sort"][0]["field"] for call in cancelled][:1] == ["delay"]


async def test_rows_appear_once_a_query_has_finished(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("slow")
        await expect(bridge.app.locator("tbody td")).to_have_text("1,000,000", timeout=20_000)


@pytest.mark.parametrize(
    ("tool", "words"),
    [("failing", "failed"), ("wrong", "out of the range of its type"), ("none", "There are no rows")],
)
async def test_a_sentence_where_there_are_no_rows(host: Bridged, tool: str, words: str) -> None:
    async with host.opened() as bridge:
        await bridge.start(tool)
        await expect(bridge.app.locator("#message")).to_contain_text(words, timeout=20_000)
        assert "overflow" not in await bridge.app.locator("#message").inner_text()


async def test_somebody_else_s_result_is_not_read(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights", readAs="token-of-bob")
        await expect(bridge.app.locator("#message")).to_contain_text("There is no such resource")
        assert await bridge.app.locator("tbody tr").count() <= 10  # those of the answer


async def test_a_result_that_is_deleted_or_expires_while_it_is_open(host: Bridged) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights")
        await expect(bridge.app.locator("tbody td").first).to_be_visible()
        await host.dual.delete_resource(await id_of(bridge), ANA)
        await bridge.app.locator("button.sort", has_text="delay").click()
        await expect(bridge.app.locator("#message")).to_contain_text("There is no such resource")
        await expect(bridge.app.get_by_role("button", name="Try again")).to_be_visible()
    async with host.opened() as bridge:
        await bridge.start("short")
        await expect(bridge.app.locator("tbody td").first).to_be_visible()
        resource_id = await id_of(bridge)
        await until(lambda: host.dual.unchecked.get(resource_id), lambda actual: actual is None)
        await bridge.app.locator("button.sort", has_text="delay").click()
        await expect(bridge.app.locator("#message")).to_contain_text("expired")


async def id_of(bridge: Bridge) -> str:
    uri: str = (await bridge.result())["structuredContent"]["resource"]["uri"]
    return uri.partition("://")[2]


@pytest.mark.parametrize(("sends", "words"), [("text", "rows"), ("cancelled", "cancelled")])
async def test_an_answer_without_a_result(host: Bridged, sends: str, words: str) -> None:
    async with host.opened() as bridge:
        await bridge.start("flights", sends=sends)
        await expect(bridge.app.locator("#message")).to_contain_text(words)


async def test_hostile_cells_are_text(host: Bridged) -> None:
    async with host.opened() as bridge:
        bridge.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        await bridge.start("hostile")
        await bridge.app.locator("tbody td").first.click()
        for _ in CELLS:
            await bridge.page.keyboard.press("ArrowDown")
        await expect(bridge.app.locator("td.active")).to_be_visible()
        strange = "main img, main iframe, main script, td *:not(bdi):not(span)"
        assert await bridge.app.locator(strange).count() == 0
        assert "\u202e" not in await bridge.app.locator("#name").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
async def test_no_serious_findings_of_axe(host: Bridged, theme: str, width: int) -> None:
    async with host.opened(width=width) as bridge:
        await bridge.start("flights", context={"theme": theme})
        await expect(bridge.app.locator("tbody td").first).to_be_visible()
        await findings_are_none(bridge)
        for button in ("Options of carrier", "Group"):
            await bridge.app.get_by_role("button", name=button, exact=True).click()
            await expect(bridge.app.get_by_role("dialog")).to_be_visible()
            await findings_are_none(bridge)
            await bridge.page.keyboard.press("Escape")


async def findings_are_none(bridge: Bridge) -> None:
    frame = bridge.page.frames[-1]
    await frame.evaluate(AXE.read_text())
    actual = await frame.evaluate("axe.run({ iframes: false })")
    serious = [each for each in actual["violations"] if each["impact"] in ("serious", "critical")]
    assert not serious, [(each["id"], each["nodes"][0]["html"][:200]) for each in serious]
