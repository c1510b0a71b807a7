"""Ten tasks of an analyst on flights: the page of a result by pointer and by keys alone, and Datasette's page of the table.

`python -m benchmarks.analyst` prints the table and writes it to `docs/pages.md`. A step is a click, a key, a choice in a
list or a text that is written, whatever its length; the characters stand beside. All begin on the page of all rows with
the pointer and the focus nowhere. Each way is the shortest one that the page has: where Datasette needs fewer steps by
SQL than by its forms, it takes SQL. A task is done when the answer, which SQLite computes beforehand, is on the screen.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3  # noqa: TID251 - it makes the data and knows the answers
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import Browser, Locator, Page, async_playwright, expect

from benchmarks.processes import Process, dualsql_serve, result_of

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 60_000  # milliseconds
ROWS = 250_000
DOCUMENT = Path("docs") / "pages.md"
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


Act = Callable[[Hand], Awaitable[None]]


@dataclass(frozen=True)
class Task:
    """What is to be found out.

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
    wall: float
    cpu: float


@dataclass
class Line:
    """A task on each page."""

    name: str
    pointer: Cost
    keys: Cost
    peer: Cost | None
    found: list[str] = field(default_factory=list)


def fill(path: Path, rows: int = ROWS) -> None:
    """Make the flights."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_FILL.format(rows=rows))


def tasks(path: Path) -> list[Task]:
    """The ten tasks, with the answers from the file."""
    with closing(sqlite3.connect(path)) as connection:
        one = lambda sql: connection.execute(sql).fetchone()  # noqa: E731 - eight times below
        number = one("SELECT flight FROM flights WHERE delay > 90 ORDER BY id LIMIT 1")[0]
        july = "departure >= '2013-07-01' AND departure < '2013-08-01'"
        worst = (
            "SELECT origin, destination, avg(delay) FROM flights WHERE "
            f"{july} GROUP BY origin, destination ORDER BY avg(delay) DESC"
        )
        share = "SELECT carrier, avg(delay IS NULL) FROM flights GROUP BY carrier"
        trips = f"SELECT * FROM flights WHERE flight={number} ORDER BY distance DESC"
        count = f"SELECT count(*) FROM flights WHERE flight={number}"
        mean = "SELECT avg(fare) FROM flights WHERE carrier='UA'"
        remarks = "SELECT count(*) FROM flights WHERE remark LIKE '%WEATHER%'"
        others = "SELECT count(*) FROM flights WHERE carrier!='UA'"
        route, longest = one(worst)[:2], one(trips)[0]
        top = one("SELECT destination, count(*) FROM flights GROUP BY 1 ORDER BY 2 DESC")
        texts = {name: one(sql)[0] for name, sql in {"trips": count, "remarks": remarks, "others": others}.items()}
        fare = one(mean)[0]
        nulls = dict(connection.execute(share).fetchall())
        airline = one("SELECT name FROM airlines WHERE code = (SELECT carrier FROM flights ORDER BY id LIMIT 1)")[0]

    ours = {
        "worst": r"\s+".join(map(re.escape, route)),
        "share": rf"\({_percent(nulls['UA'])} NULL\)",
        "mean": re.escape(f"{fare:.2f}"[:-1]),
    }
    total = {name: f"{rows:,} rows" for name, rows in texts.items()}

    def asked(text: str, done: Callable[[Page], Awaitable[None]]) -> tuple[Act, Act]:
        async def by_pointer(hand: Hand) -> None:
            await hand.write(text, hand.page.get_by_role("searchbox"))
            await hand.press("Enter")
            await done(hand.page)

        async def by_keys(hand: Hand) -> None:
            await hand.press("Control+k")
            await hand.write(text)
            await hand.press("Enter")
            await done(hand.page)

        return by_pointer, by_keys

    async def sql(hand: Hand, query: str) -> None:
        await hand.click(hand.page.get_by_role("link", name="View and edit SQL"))
        await hand.write(query, hand.page.locator(".cm-content"))
        await hand.click(hand.page.get_by_role("button", name="Run SQL"))

    def by_sql(query: str, done: Callable[[Page], Awaitable[None]]) -> Act:
        async def act(hand: Hand) -> None:
            await sql(hand, query)
            await done(hand.page)

        return act

    def first_row(pattern: str) -> Callable[[Page], Awaitable[None]]:
        return lambda page: expect(page.locator("tbody tr").first).to_have_text(re.compile(pattern))

    def total_is(name: str) -> Callable[[Page], Awaitable[None]]:
        return lambda page: expect(page.locator("#total")).to_have_text(total[name])

    def somewhere(selector: str, pattern: str) -> Callable[[Page], Awaitable[None]]:
        return lambda page: expect(page.locator(selector).first).to_have_text(re.compile(pattern))

    async def sorted_trips(page: Page) -> None:
        await total_is("trips")(page)
        await expect(page.locator("tbody tr").first.locator("td").first).to_have_text(f"{longest:,}" if longest > 9999 else str(longest))

    trips_text = f"flight={number} sort -distance"

    def saved(act: Act, finish: Act) -> Act:
        async def both(hand: Hand) -> None:
            await act(hand)
            async with hand.page.expect_download() as download:
                await finish(hand)
            file = await (await download.value).path()
            assert len(file.read_text().strip().splitlines()) == texts["trips"] + 1

        return both

    pointer_trips, keys_trips = asked(trips_text, sorted_trips)
    peer_trips = by_sql(trips, first_row(rf"^\s*{longest}\b"))
    save: Act = lambda hand: hand.press("Control+s")

    async def peer_save(hand: Hand) -> None:
        await sql(hand, trips)
        link = hand.page.locator(".export-links").get_by_role("link", name="CSV")
        await expect(link).to_be_visible()
        address = await link.get_attribute("href")
        hand.steps += 1  # the click: Chromium shows the text
        response = await hand.page.request.get(f"{hand.page.url.split('/flights')[0]}{address}")
        assert len((await response.text()).strip().splitlines()) == texts["trips"] + 1

    async def chart(hand: Hand) -> None:
        await hand.click(hand.page.get_by_role("button", name="Chart", exact=True))
        await expect(hand.page.locator("img.chart")).to_be_visible()

    async def no_step(hand: Hand) -> None:
        frequent = hand.page.get_by_role("button", name="Values of destination").locator(".frequent")
        await expect(frequent).to_have_text(re.compile(rf"^{top[0]} "))

    async def peer_frequent(hand: Hand) -> None:
        suggested = hand.page.locator(".suggested-facets").get_by_role("link", name="destination")
        if await suggested.count():
            await hand.click(suggested)
        else:
            await hand.click(hand.page.locator("th[data-column=destination] .dropdown-menu-icon"))
            await hand.click(hand.page.get_by_role("link", name="Facet by this"))
        await expect(hand.page.locator(".facet-info li").first).to_have_text(re.compile(rf"{top[0]}\s+{top[1]:,}"))

    async def airline_shown(page: Page) -> None:
        await expect(page.locator("tbody tr").first).to_contain_text(airline)

    see: Act = lambda hand: airline_shown(hand.page)

    return [
        Task("the route with the highest mean delay in July", *asked("departure=2013-07 by origin, destination avg delay", first_row(ours["worst"])), by_sql(worst, first_row(ours["worst"]))),
        Task("share of NULL delays of each carrier", *asked("by carrier count delay", somewhere("tbody", ours["share"])), by_sql(share, somewhere("tbody", rf"UA\s+{str(nulls['UA'])[:6]}"))),
        Task("the longest trips of one flight number", pointer_trips, keys_trips, peer_trips),
        Task("download only those", saved(pointer_trips, save), saved(keys_trips, save), peer_save),
        Task("a chart by month", chart, asked("chart by departure:month", somewhere_chart)[1], None),
        Task("the most frequent destination", no_step, no_step, peer_frequent),
        Task("remarks with a text in any case", *asked("WEATHER", total_is("remarks")), by_sql(remarks.replace("count(*)", "*"), somewhere("tbody", "Weather"))),
        Task("the name of the airline of a flight", see, see, see),
        Task("mean fare of one carrier", *asked("carrier=UA avg fare", somewhere("tbody", ours["mean"])), by_sql(mean, somewhere("tbody", ours["mean"]))),
        Task("all carriers but one", *asked("carrier!=UA", total_is("others")), by_sql(others.replace("count(*)", "*"), somewhere("tbody", "DL|AA|B6|WN"))),
    ]


async def somewhere_chart(page: Page) -> None:
    """The picture is drawn."""
    await expect(page.locator("img.chart")).to_be_visible()


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g}%"


async def measure(path: Path, say: Callable[[str], object] = print) -> list[Line]:
    """Each task on each page, in a new tab."""
    from benchmarks.peers import datasette  # noqa: PLC0415 - the tests of the page need no peers

    expect.set_options(timeout=PATIENCE)
    found: list[Line] = []
    with dualsql_serve(path) as server, datasette(path) as peer:
        url = await table_of(server.url)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for task in tasks(path):
                say(task.name)
                mine = [await cost(browser, server, url, act, "td.active") for act in (task.pointer, task.keys)]
                table = f"{peer.url}/{path.stem}/flights"
                theirs = task.peer and await cost(browser, peer, table, task.peer, "table.rows-and-columns td")
                found.append(Line(task.name, *mine, theirs))
            await browser.close()
    return found


async def table_of(origin: str) -> str:
    """The page of all flights, as Show rows of the home page opens it."""
    return await result_of(origin)


async def cost(browser: Browser, server: Process, url: str, act: Act, ready: str) -> Cost:
    """What it takes on the page, once that is there."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    context.set_default_timeout(PATIENCE)
    page = await context.new_page()
    try:
        await page.goto(url)
        await page.wait_for_selector(ready)
        hand = Hand(page)
        wall, cpu = time.perf_counter(), await _cpu(browser, server)
        await act(hand)
        return Cost(hand.steps, hand.characters, time.perf_counter() - wall, await _cpu(browser, server) - cpu)
    finally:
        await context.close()


async def _cpu(browser: Browser, server: Process) -> float:
    """Seconds that the browser's processes and the server's have worked."""
    session = await browser.new_browser_cdp_session()
    processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    await session.detach()
    ticks = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(float(each["cpuTime"]) for each in processes) + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def table(found: Sequence[Line]) -> str:
    """The tasks as Markdown: steps with the characters that are written, seconds of the clock, and of the processors."""

    def cells(each: Cost | None) -> list[str]:
        if each is None:
            return ["needs a plug-in", ""]
        written = f" ({each.characters} characters)" if each.characters else ""
        return [f"{each.steps}{written}", f"{each.wall:.1f} / {each.cpu:.1f}"]

    head = ["task", "page", "s", "page, by keys alone", "s", "Datasette", "s"]
    lines = [[line.name, *cells(line.pointer), *cells(line.keys), *cells(line.peer)] for line in found]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] + ["---:"] * 6, *lines))


def losses(found: Sequence[Line]) -> list[str]:
    """The tasks in which Datasette needs as few steps or fewer."""
    return [line.name for line in found if line.peer and line.pointer.steps >= line.peer.steps]


def main() -> None:
    """Measure, print, and write the document."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "flights.sqlite"
        fill(path)
        found = asyncio.run(measure(path))
    text = table(found)
    print(text)
    before = DOCUMENT.read_text(encoding="utf-8")
    begin, end = "<!-- benchmarks.analyst -->\n", "\n<!-- end -->"
    head, _, rest = before.partition(begin)
    DOCUMENT.write_text(f"{head}{begin}{text}{end}{rest.partition(end)[2]}", encoding="utf-8")
    if names := losses(found):
        sys.exit(f"No fewer steps than Datasette: {', '.join(names)}")


if __name__ == "__main__":
    main()
