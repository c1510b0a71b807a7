"""Ten tasks of an analyst on flights: a result's page by pointer and by keys alone, and Datasette's page of the table.

`python -m benchmarks.analyst` prints the table and writes it to `docs/pages.md`. A step is a click, a key, a choice in
a list or a text that is written, whatever its length; the characters stand beside. All begin on the page of all rows,
without a focus. Each way is the shortest one that the page has: where Datasette needs fewer steps by
SQL than by its forms, it takes SQL. A task is done when the answer, which SQLite computes beforehand, is on the screen.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urljoin

import anyio
from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from benchmarks import machine
from benchmarks.peers import datasette
from benchmarks.processes import Process, dualsql_serve, result_of
from benchmarks.report import markdown_table, replace_after

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 60_000  # milliseconds
ROWS = 250_000
DOCUMENT = Path(__file__).parent.parent / "docs" / "pages.md"
MARK = "<!-- benchmarks.analyst -->"
_FILL = """
CREATE TABLE airlines (code TEXT PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO airlines VALUES
    ('AA', 'American'), ('B6', 'JetBlue'), ('DL', 'Delta'), ('UA', 'United'), ('WN', 'Southwest');
CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT NOT NULL REFERENCES airlines (code),
    flight INTEGER NOT NULL, origin TEXT NOT NULL, destination TEXT NOT NULL, departure TIMESTAMP NOT NULL,
    delay INTEGER, distance REAL NOT NULL, fare DECIMAL(8, 2) NOT NULL, remark TEXT);
WITH RECURSIVE s (i, r) AS (
    SELECT 1, 7919 UNION ALL SELECT i + 1, (r * 16807) % 2147483647 FROM s WHERE i < {rows})
INSERT INTO flights SELECT i, substr('UADLAADLB6UAWNDLUAB6', 1 + 2 * (r % 10), 2), 100 + r % 4900,
    substr('JFKEWRLGA', 1 + 3 * (r / 10 % 3), 3), substr('BOSLAXSFOORDATLMIADENSEABOS', 1 + 3 * (r / 30 % 9), 3),
    datetime('2013-01-01 05:15:00', (i * 31536000 / {rows}) || ' seconds'),
    CASE WHEN i % 23 = 0 THEN NULL ELSE r / 77 % 140 + r / 30 % 8 * 5 - 45 END, 180 + r / 7 % 2400,
    60 + r / 11 % 54000 / 100.0, CASE i % 11 WHEN 0 THEN 'Weather at the gate' WHEN 5 THEN 'late crew' END
FROM s;
"""


@dataclass
class Hand:
    """Does steps on a page, and counts them."""

    page: Page
    steps: int = 0
    characters: int = 0

    async def click(self, target: Locator) -> None:
        self.steps += 1
        await target.click()

    async def choose(self, target: Locator, value: str) -> None:
        self.steps += 1
        await target.select_option(value)

    async def press(self, key: str) -> None:
        self.steps += 1
        await self.page.keyboard.press(key)

    async def write(self, text: str, target: Locator | None = None) -> None:
        """Write a text, into a field that is clicked or that has the focus."""
        self.steps += 1
        self.characters += len(text)
        if target is None:
            await self.page.keyboard.insert_text(text)
        else:
            await target.fill(text)

    async def type(self, text: str) -> None:
        """Write a text key by key, wherever the focus is."""
        self.steps += 1
        self.characters += len(text)
        await self.page.keyboard.type(text)


Act = Callable[[Hand], Awaitable[None]]


@dataclass(frozen=True)
class Task:
    """A question, and the ways to its answer.

    Attributes:
        pointer, keys: how, on the page of a result.
        peer: how in Datasette; None where it cannot.
    """

    name: str
    pointer: Act
    keys: Act
    peer: Act | None


@dataclass
class Cost:
    """What a task took: steps, characters, and seconds of the clock and of the processors of browser and server."""

    steps: int
    characters: int
    seconds: float
    cpu_seconds: float


@dataclass
class Line:
    """A task on each page."""

    name: str
    pointer: Cost
    keys: Cost
    peer: Cost | None


def fill(path: Path, rows: int = ROWS) -> None:
    """Make the flights."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_FILL.format(rows=rows))


class Answers(NamedTuple):
    """What the tasks find out, by SQLite.

    Attributes:
        number: a flight number; `longest` is the id of its longest trip.
        route: origin and destination with the highest mean delay in July.
        nulls: the share of flights of UA without a delay.
        top: the most frequent destination, and how often it is.
        fare: the mean of UA.
        rows: how many rows there are of trips, remarks and others.
        airline: the name of that of the first flight.
    """

    number: int
    longest: int
    route: Sequence[str]
    nulls: float
    top: Sequence[Any]
    fare: float
    rows: dict[str, int]
    airline: str


WORST = (
    "SELECT origin, destination, avg(delay) FROM flights WHERE departure >= '2013-07-01' AND departure < '2013-08-01' "
    "GROUP BY origin, destination ORDER BY avg(delay) DESC"
)
SHARES = "SELECT carrier, avg(delay IS NULL) FROM flights GROUP BY carrier"
TRIPS = "SELECT * FROM flights WHERE flight={} ORDER BY distance DESC"
MEAN = "SELECT avg(fare) FROM flights WHERE carrier='UA'"
REMARKS = "SELECT * FROM flights WHERE remark LIKE '%WEATHER%'"
OTHERS = "SELECT * FROM flights WHERE carrier!='UA'"
_FIRST_AIRLINE = "SELECT name FROM airlines JOIN flights ON code = carrier ORDER BY id LIMIT 1"


def answers(path: Path) -> Answers:
    """Ask SQLite."""
    with closing(sqlite3.connect(path)) as connection:

        def first(sql: str) -> Any:
            return connection.execute(sql).fetchone()

        number = first("SELECT flight FROM flights WHERE delay > 90 ORDER BY id LIMIT 1")[0]
        lists = {"trips": TRIPS.format(number), "remarks": REMARKS, "others": OTHERS}
        return Answers(
            number=number,
            longest=first(TRIPS.format(number))[0],
            route=first(WORST)[:2],
            nulls=dict(connection.execute(SHARES).fetchall())["UA"],
            top=first("SELECT destination, count(*) FROM flights GROUP BY 1 ORDER BY 2 DESC"),
            fare=first(MEAN)[0],
            rows={name: first(f"SELECT count(*) FROM ({sql})")[0] for name, sql in lists.items()},
            airline=first(_FIRST_AIRLINE)[0],
        )


def tasks(path: Path) -> list[Task]:
    """The ten tasks, with the answers from the file."""
    answer = answers(path)
    route = has("tbody tr", r"\s*".join(answer.route))
    fare = has("tbody", re.escape(f"{answer.fare:.2f}"[:-1]))
    share = f"{float(f'{100 * answer.nulls:.2g}'):g}%"
    trips = by_question(
        f"flight={answer.number} sort -distance",
        has("tbody tr td", f"^{answer.longest:,}$|^{answer.longest}$"),
    )
    peer_trips = by_sql(TRIPS.format(answer.number), has("tbody tr", rf"^\s*{answer.longest}\b"))
    total = {name: has("#total", f"^{rows:,} rows$") for name, rows in answer.rows.items()}
    airline = look(has("tbody tr", answer.airline))
    frequent = look(has("[aria-label^='Values of destination'] .frequent", f"^{answer.top[0]} "))
    count = answer.rows["trips"]
    return [
        Task(
            "the route with the highest mean delay in July",
            *by_question("departure=2013-07 by origin, destination avg delay", route),
            by_sql(WORST, route),
        ),
        Task(
            "share of NULL delays of each carrier",
            *by_question("by carrier count delay", has("tbody", rf"\({share} NULL\)")),
            by_sql(SHARES, has("tbody", rf"UA\s+{str(answer.nulls)[:6]}")),
        ),
        Task("the longest trips of one flight number", *trips, peer_trips),
        Task(
            "download only those",
            and_save(trips[0], count),
            and_save(trips[1], count),
            and_save_by_peer(peer_trips, count),
        ),
        Task("a chart by month", chart, by_question("chart by departure:month", has_picture)[1], None),
        Task("the most frequent destination", frequent, frequent, facet_of_peer(*answer.top)),
        Task(
            "remarks with a text in any case",
            *by_question("WEATHER", total["remarks"]),
            by_sql(REMARKS, has("tbody", "Weather")),
        ),
        Task("the name of the airline of a flight", airline, airline, airline),
        Task("mean fare of one carrier", *by_question("carrier=UA avg fare", fare), by_sql(MEAN, fare)),
        Task(
            "all carriers but one",
            *by_question("carrier!=UA", total["others"]),
            by_sql(OTHERS, has("tbody", "AA|B6|DL|WN")),
        ),
    ]


Check = Callable[[Page], Awaitable[None]]


def has(selector: str, pattern: str) -> Check:
    """Wait for a text in the first of these elements."""

    async def check(page: Page) -> None:
        await expect(page.locator(selector).first).to_have_text(re.compile(pattern))

    return check


async def has_picture(page: Page) -> None:
    """Wait for the chart."""
    await expect(page.locator("img.chart")).to_be_visible()


def look(check: Check) -> Act:
    """Do nothing: the page shows it."""

    async def act(hand: Hand) -> None:
        await check(hand.page)

    return act


def by_question(text: str, check: Check) -> tuple[Act, Act]:
    """Write into the search field, by pointer and by keys."""

    async def by_pointer(hand: Hand) -> None:
        await hand.write(text, hand.page.get_by_role("searchbox"))
        await hand.press("Enter")
        await check(hand.page)

    async def by_keys(hand: Hand) -> None:
        await hand.type(text)  # which goes to the search while nothing has the focus
        await hand.press("Enter")
        await check(hand.page)

    return by_pointer, by_keys


def by_sql(query: str, check: Check) -> Act:
    """Write SQL into Datasette's editor."""

    async def act(hand: Hand) -> None:
        await hand.click(hand.page.get_by_role("link", name="View and edit SQL"))
        # What is needed to replace the text that is there counts as one text.
        await hand.page.locator(".CodeMirror").click()
        await hand.page.keyboard.press("Control+a")
        await hand.write(query)
        await hand.click(hand.page.get_by_role("button", name="Run SQL"))
        await check(hand.page)

    return act


def and_save(act: Act, rows: int) -> Act:
    """Then save what is seen as CSV."""

    async def both(hand: Hand) -> None:
        await act(hand)
        async with hand.page.expect_download() as download:
            await hand.press("Control+s")
        text = await anyio.Path(await (await download.value).path()).read_text()
        assert len(text.strip().splitlines()) == rows + 1

    return both


def and_save_by_peer(act: Act, rows: int) -> Act:
    """Then click CSV, of which Chromium shows the text."""

    async def both(hand: Hand) -> None:
        await act(hand)
        address = await hand.page.get_by_role("link", name="CSV").first.get_attribute("href")
        hand.steps += 1
        response = await hand.page.request.get(urljoin(hand.page.url, address or ""))
        assert len((await response.text()).strip().splitlines()) == rows + 1

    return both


def facet_of_peer(value: str, count: int) -> Act:
    """The facet that Datasette suggests, or the menu of the column where it suggests none."""

    async def act(hand: Hand) -> None:
        suggested = hand.page.locator(".suggested-facets").get_by_role("link", name="destination")
        if await suggested.count():
            await hand.click(suggested)
        else:
            await hand.click(hand.page.locator("th[data-column=destination] .dropdown-menu-icon"))
            await hand.click(hand.page.get_by_role("link", name="Facet by this"))
        await has(".facet-info li", rf"{value}\s+{count:,}")(hand.page)

    return act


async def chart(hand: Hand) -> None:
    """The button of the chart."""
    await hand.click(hand.page.get_by_role("button", name="Chart", exact=True))
    await has_picture(hand.page)


async def measure(path: Path) -> list[Line]:
    """Each task on each page, in a new tab."""
    expect.set_options(timeout=PATIENCE)
    lines: list[Line] = []
    with dualsql_serve(path) as server, datasette(path) as peer:
        url = await result_of(server.url)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for task in tasks(path):
                print(task.name)
                pointer, keys = [
                    await cost(browser, server, url, act, "td.active") for act in (task.pointer, task.keys)
                ]
                table = f"{peer.url}/{path.stem}/flights"
                peer_cost = task.peer and await cost(
                    browser, peer, table, task.peer, "table.rows-and-columns td"
                )
                lines.append(Line(task.name, pointer, keys, peer_cost))
            await browser.close()
    return lines


async def cost(browser: Browser, server: Process, url: str, act: Act, ready: str) -> Cost:
    """What it takes on the page, once that is there."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    try:
        await page.goto(url)
        await page.wait_for_selector(ready)
        hand = Hand(page)
        began, cpu_before = time.perf_counter(), await _cpu_seconds(browser, server)
        await act(hand)
        seconds = time.perf_counter() - began
        return Cost(hand.steps, hand.characters, seconds, await _cpu_seconds(browser, server) - cpu_before)
    finally:
        await context.close()


async def _cpu_seconds(browser: Browser, server: Process) -> float:
    """Seconds that the browser's processes and the server's have worked."""
    session = await browser.new_browser_cdp_session()
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    await session.detach()
    return sum(float(each["cpuTime"]) for each in processes) + machine.process(server.pid).own


def table(lines: Sequence[Line]) -> str:
    """The tasks as Markdown: steps, characters that are written, seconds of the clock / of the processors."""

    def cells(each: Cost | None) -> list[str]:
        if each is None:
            return ["needs a plug-in", ""]
        length = f" ({each.characters} characters)" if each.characters else ""
        return [f"{each.steps}{length}", f"{each.seconds:.1f} / {each.cpu_seconds:.1f}"]

    headings = ["task", "page", "s", "page, by keys alone", "s", "Datasette", "s"]
    rows = [[line.name, *cells(line.pointer), *cells(line.keys), *cells(line.peer)] for line in lines]
    return markdown_table(headings, rows)


def losses(lines: Sequence[Line]) -> list[str]:
    """The tasks in which Datasette needs as few steps or fewer; none is needed where it needs none."""
    return [
        line.name
        for line in lines
        if line.peer and max(line.pointer.steps, line.keys.steps) >= line.peer.steps > 0
    ]


def main() -> None:
    """Measure, print, and write the document."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "flights.sqlite"
        fill(path)
        lines = asyncio.run(measure(path))
    text = table(lines)
    print(text)
    document = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(replace_after(MARK, text, document), encoding="utf-8")
    if names := losses(lines):
        sys.exit(f"No fewer steps than Datasette: {', '.join(names)}")


if __name__ == "__main__":
    main()
