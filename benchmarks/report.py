"""Figures -> a table, Markdown and JSON. Each figure stands beside the floor it must hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks import machine

FOLDER = Path(__file__).parent / "results"

Lines = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A table: its title, the words that explain it, headings and lines."""

    title: str
    explanation: str
    headings: Sequence[str]
    lines: Lines


@dataclass(frozen=True)
class Report:
    """What one part of the benchmarks found.

    Attributes:
        part: its name, and that of the files it is kept in.
        figures: dataclasses; the numbers behind the tables.
        holds: whether every floor held.
    """

    part: str
    title: str
    sections: Sequence[Section]
    figures: Sequence[Any]
    holds: bool


def verdict(*, holds: bool) -> str:
    """How a line says whether its floor held."""
    return "holds" if holds else "FAILS"


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    for section in report.sections:
        table = Table(title=section.title, caption=section.explanation, box=SIMPLE_HEAD, padding=(0, 1))
        for number, heading in enumerate(section.headings):
            table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True)
        for line in section.lines:
            table.add_row(*line)
        console.print(table)


def keep(report: Report) -> list[Path]:
    """Write the tables and the figures in place of those of the part's last run."""
    today = datetime.now(UTC).date().isoformat()
    figures = {"date": today, "machine": machine.describe(), "figures": list(map(asdict, report.figures))}
    FOLDER.mkdir(exist_ok=True)
    kept = [FOLDER / f"{report.part}.json", FOLDER / f"{report.part}.md"]
    kept[0].write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    kept[1].write_text(_markdown(report, today), encoding="utf-8")
    return kept


def _markdown(report: Report, today: str) -> str:
    where = "\n".join(f"| {name} | {value} |" for name, value in machine.describe().items())
    tables = "\n\n".join(
        f"## {section.title}\n\n{section.explanation}\n\n{_table(section)}" for section in report.sections
    )
    return (
        f'# {report.title}\n\nMeasured on {today}; `make bench ARGS="--only {report.part}"` repeats it.\n\n'
        f"{tables}\n\n## Where\n\n| | |\n|---|---|\n{where}\n"
    )


def _table(section: Section) -> str:
    rule = ["---", *["---:"] * (len(section.headings) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (section.headings, rule, *section.lines))
