"""How quick is a result's page in a browser?

Chromium without a window, a million flights in SQLite, `dualsql serve` in a process of its own. Each round is a new
profile. Datasette's table page, on the same table, is opened in the same rounds.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from benchmarks.flights import ROWS
from benchmarks.peers import datasette
from benchmarks.processes import dualsql_serve, result_of
from benchmarks.report import Report, Section, verdict
from benchmarks.timing import median_of

SCREENS = 100
FAR = 900_000
PATIENCE = 60_000  # milliseconds
CHROMIUM = "/usr/bin/chromium"


class Floor(NamedTuple):
    """What is measured, how the rounds become one figure, and the most that it may be."""

    meaning: str
    of: Callable[[list[float]], float]
    most: float
    unit: str


def p95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1] if len(values) > 1 else values[0]


FLOORS: Mapping[str, Floor] = {
    "first_rows": Floor("first rows painted after navigation, p50", median, 400, "ms"),
    "server": Floor("of these in the server, p50", median, 100, "ms"),
    "blank": Floor(f"longest time with a missing row in a scroll of {SCREENS} screens", max, 300, "ms"),
    "step": Floor("script time of a scroll step on cached pages, p95", p95, 8, "ms"),
    "jump": Floor(f"jump to row {FAR:,}, p50", median, 1000, "ms"),
    "dom_rows": Floor("rows in the DOM at 1,280 x 800", max, 60, ""),
    "memory": Floor("private memory of the page's process after the scroll", max, 150, "MB"),
    "weight": Floor("page and files as sent", max, 120, "KB"),
}
MEMORY: Mapping[str, str] = {
    "memory_blank": "private, about:blank",
    "memory_first": "private, first rows on the screen",
    "memory": "private, after the scroll",
    "memory_collected": "private, after the scroll and a collection of garbage",
    "memory_shared": "with its share of what processes share (Pss), after the scroll",
}
BESIDE: Mapping[str, str] = {
    "first_rows": "first rows",
    "end": "jump to the end",
    "sorted": "sort by a column without an index",
}


class Measurements:
    """The figures of all rounds, by what they mean."""

    def __init__(self) -> None:
        self.ours: dict[str, list[float]] = {}
        self.theirs: dict[str, list[float]] = {}


@dataclass(frozen=True)
class Figure:
    """What a table has in one of its lines.

    Attributes:
        most: its floor.
        datasette: the same of its page.
    """

    name: str
    value: float
    most: float | None = None
    datasette: float | None = None


async def measure(path: Path, say: Callable[[str], object], rounds: int, screens: int) -> Measurements:
    """So many rounds on either page, in turns, with a scroll of so many screens on ours."""
    measurements = Measurements()
    with dualsql_serve(path) as server, datasette(path) as peer:
        url = await result_of(server.url)
        async with async_playwright() as playwright:
            for number in range(rounds):
                say(f"round {number + 1}")
                await _one_round(playwright, url, measurements.ours, screens)
                await _beside(playwright, f"{peer.url}/{path.stem}/flights", measurements.theirs)
    return measurements


@asynccontextmanager
async def _page(playwright: Any) -> AsyncIterator[tuple[Browser, Page]]:
    browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    try:
        context = await browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE)
        yield browser, await context.new_page()
    finally:
        await browser.close()


async def _one_round(playwright: Any, url: str, measurements: dict[str, list[float]], screens: int) -> None:
    async with _page(playwright) as (browser, page):
        note(measurements, "memory_blank", (await _memory(browser, page)).private)
        await page.goto(url)
        await page.wait_for_selector("td.active")
        note(measurements, "memory_first", (await _memory(browser, page)).private)
        note(measurements, "first_rows", await _painted(page))
        note(measurements, "server", await page.evaluate(_SERVER))
        note(measurements, "weight", await page.evaluate(_WEIGHT) / 1024)
        note(measurements, "dom_rows", await page.locator("regular-table tr").count())
        await page.mouse.move(600, 400)
        height = 29 * await page.locator("regular-table tbody tr").count()
        await page.evaluate(_WATCH)
        for _ in range(screens):
            await page.mouse.wheel(0, height)
            await page.evaluate(_FRAME)
        await page.wait_for_function(_COMPLETE)
        note(measurements, "blank", await page.evaluate("window.longestBlank"))
        await _note_memory(browser, page, measurements)
        for value in await _cached_steps(page, height):
            note(measurements, "step", value)
        note(measurements, "jump", await _jump(page))
        note(measurements, "end", await _timed(page, lambda: page.keyboard.press("Control+End"), _AT_THE_END))
        sort = page.locator("button.sort", has_text="distance")
        note(measurements, "sorted", await _timed(page, sort.click, _SORTED))


async def _beside(playwright: Any, url: str, measurements: dict[str, list[float]]) -> None:
    """Datasette's table page: it has no way to its last rows but the opposite order."""
    pages = {
        "first_rows": "?_size=50",
        "end": "?_size=50&_sort_desc=id",
        "sorted": "?_size=50&_sort=distance",
    }
    for name, query in pages.items():
        async with _page(playwright) as (_, page):
            await page.goto(url + query)
            await page.wait_for_selector("table.rows-and-columns td")
            note(measurements, name, await _painted(page))


def note(measurements: dict[str, list[float]], name: str, value: float) -> None:
    measurements.setdefault(name, []).append(value)


_SERVER = """() => {
    const [entry] = performance.getEntriesByType("navigation");
    return entry.responseStart - entry.requestStart;
}"""
_WORK = "() => { const end = performance.now() + 300; while (performance.now() < end); }"
_WEIGHT = """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((entry) => entry.initiatorType !== "fetch").reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""
_FRAME = "() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
_COMPLETE = """() => !document.querySelector("td.missing") && document.querySelector("td")"""
_WATCH = """() => {
    window.longestBlank = 0;
    let since = null;
    const look = (now) => {
        if (!document.querySelector("td.missing")) since = null;
        else window.longestBlank = Math.max(window.longestBlank, now - (since ??= now));
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""
_AT_THE_END = f"""() => [...document.querySelectorAll("regular-table tbody th")].at(-1)?.textContent === "{ROWS:,}"
    && !document.querySelector("td.missing")"""
_SORTED = """() => document.querySelector("th[aria-sort=ascending]") && !document.querySelector("td.missing")
    && document.querySelector("#message").textContent === "" """


async def _painted(page: Page) -> float:
    """The first paint: the table is in the page as it comes from the server."""
    entry = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime"""
    await page.wait_for_function(entry)
    value: float = await page.evaluate(entry)
    return value


async def _timed(page: Page, act: Callable[[], Any], until: str) -> float:
    start = time.perf_counter()
    await act()
    await page.wait_for_function(until)
    return (time.perf_counter() - start) * 1000


async def _jump(page: Page) -> float:
    field = page.get_by_label("Go to row")
    await field.fill(str(FAR))
    there = f"""() => document.querySelector("regular-table tbody th")?.textContent === "{FAR:,}"
        && !document.querySelector("td.missing")"""
    return await _timed(page, lambda: field.press("Enter"), there)


async def _cached_steps(page: Page, height: int) -> list[float]:
    """Milliseconds of script of each step back over pages that are here."""
    session: CDPSession = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")
    await page.mouse.move(600, 400)
    figures = []
    for _ in range(50):
        before = await _script_seconds(session)
        await page.mouse.wheel(0, -height / 4)
        await page.evaluate(_FRAME)
        figures.append((await _script_seconds(session) - before) * 1000)
    return figures


async def _script_seconds(session: CDPSession) -> float:
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "ScriptDuration")


class Memory(NamedTuple):
    """Megabytes of a process: those that no other process has, and these with its share of the others (Pss)."""

    private: float
    with_share: float


async def _note_memory(browser: Browser, page: Page, measurements: dict[str, list[float]]) -> None:
    after = await _memory(browser, page)
    note(measurements, "memory", after.private)
    note(measurements, "memory_shared", after.with_share)
    session: CDPSession = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    await session.detach()
    note(measurements, "memory_collected", (await _memory(browser, page)).private)


async def _memory(browser: Browser, page: Page) -> Memory:
    """Of the process that draws the page: the one that works while the page's script does."""
    session = await browser.new_browser_cdp_session()
    before = await _renderers(session)
    await page.evaluate(_WORK)
    after = await _renderers(session)
    await session.detach()
    return _memory_of(max(after, key=lambda process: after[process] - before.get(process, 0)))


async def _renderers(session: CDPSession) -> dict[int, float]:
    """Seconds that each process that draws pages has worked."""
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    return {each["id"]: each["cpuTime"] for each in processes if each["type"] == "renderer"}


def _memory_of(process: int) -> Memory:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in lines)}
    return Memory(sizes["Private_Clean"] + sizes["Private_Dirty"] + sizes["Swap"], sizes["Pss"])


def report(measurements: Measurements) -> Report:
    """Three tables, the first beside its floors."""
    for name, values in measurements.ours.items():
        median_of(_MEANINGS[name], values)
    floors = [Figure(name, floor.of(measurements.ours[name]), floor.most) for name, floor in FLOORS.items()]
    memory = [Figure(name, max(measurements.ours[name])) for name in MEMORY]
    beside = [
        Figure(name, median(measurements.ours[name]), datasette=median(measurements.theirs[name]))
        for name in BESIDE
    ]
    sections = [_limited(floors), _held(memory), _compared(beside)]
    holds = all(figure.value <= FLOORS[figure.name].most for figure in floors)
    return Report("browser", "A result's page in a browser", sections, [*floors, *memory, *beside], holds)


_MEANINGS = {**MEMORY, **BESIDE, **{name: f"{floor.meaning}, {floor.unit}" for name, floor in FLOORS.items()}}


def _limited(figures: Sequence[Figure]) -> Section:
    lines = []
    for figure in figures:
        meaning, _, most, unit = FLOORS[figure.name]
        lines.append(
            (meaning, f"{figure.value:,.1f} {unit}", f"{most:,} {unit}", verdict(holds=figure.value <= most))
        )
    return Section(
        "The page of a result",
        f"{ROWS:,} rows in SQLite, `dualsql serve` with its defaults, Chromium without a window; each round is a new "
        "profile.",
        ("what", "measured", "at most", ""),
        lines,
    )


def _held(figures: Sequence[Figure]) -> Section:
    return Section(
        "Memory of the page's process",
        "The most of all rounds.",
        ("memory", "MB"),
        [(MEMORY[figure.name], f"{figure.value:,.0f}") for figure in figures],
    )


def _compared(figures: Sequence[Figure]) -> Section:
    return Section(
        "Beside Datasette's table page",
        "Milliseconds, p50. Datasette has no way to its last rows but the opposite order.",
        ("what", "dualsql", "Datasette"),
        [(BESIDE[figure.name], f"{figure.value:,.0f}", f"{figure.datasette:,.0f}") for figure in figures],
    )
