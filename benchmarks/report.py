"""Figures -> a table, Markdown and JSON. Each figure stands beside the floor it must hold."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.timing import Rounds

FOLDER = Path(__file__).parent / "results"
END = "<!-- end -->"

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
        holds: whether every floor held; None if it has none.
        document: it has the tables too, each between `<!-- TITLE: benchmarks.PART -->` and `<!-- end -->`.
    """

    part: str
    title: str
    sections: Sequence[Section]
    figures: Sequence[Any]
    holds: bool | None
    document: Path | None = None


def verdict(*, holds: bool) -> str:
    """How a line says whether its floor held."""
    return "holds" if holds else "FAILS"


def floors(report: Report) -> str:
    """How a report says whether its floors held."""
    verdicts = {True: "All floors hold.", False: "A FLOOR DOES NOT HOLD.", None: "It has no floors."}
    return verdicts[report.holds]


def show(report: Report, console: Console) -> None:
    """Print the tables."""
    for section in report.sections:
        show_section(section, console)


def show_section(section: Section, console: Console) -> None:
    """Print one table."""
    table = Table(title=section.title, caption=section.explanation, box=SIMPLE_HEAD, padding=(0, 1))
    for number, heading in enumerate(section.headings):
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True)
    for line in section.lines:
        table.add_row(*line)
    console.print(table)


def keep(report: Report, rounds: Sequence[Rounds] = (), beside: str = "") -> list[Path]:
    """Write the tables and the figures in place of those of the part's last run.

    Args:
        rounds: of all figures.
        beside: what other processes took; empty if nothing watched them.
    """
    today = datetime.now(UTC).date().isoformat()
    figures = {
        "date": today,
        "holds": report.holds,
        "beside": beside,
        "machine": machine.describe(),
        "figures": list(map(asdict, report.figures)),
        "rounds": list(map(asdict, rounds)),
    }
    FOLDER.mkdir(exist_ok=True)
    files = [FOLDER / f"{report.part}.json", FOLDER / f"{report.part}.md"]
    files[0].write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    files[1].write_text(markdown(report, rounds, beside, today), encoding="utf-8")
    if report.document is not None:
        text = report.document.read_text(encoding="utf-8")
        report.document.write_text(filled(text, report), encoding="utf-8")
        files.append(report.document)
    return files


def filled(document: str, report: Report) -> str:
    """The document with the tables in their places.

    Raises:
        KeyError: it has a place for a table that the report has not.
    """
    sections = {section.title: section for section in report.sections}

    def table(match: re.Match[str]) -> str:
        section = sections[match[2]]
        lines = markdown_table(section.headings, section.lines)
        return f"{match[1]}{fill(section.explanation, 140)}\n\n{lines}\n\n{match[3]}"

    place = rf"(<!-- ([\w ]+): benchmarks\.{re.escape(report.part)} -->\n).*?(<!-- end -->)"
    return re.sub(place, table, document, flags=re.DOTALL)


def replace_after(mark: str, text: str, document: str) -> str:
    """The document with this text between the mark and the next `<!-- end -->`.

    Raises:
        ValueError: the mark is not there once.
    """
    head, rest = document.split(mark)
    return f"{head}{mark}\n{text}\n{END}{rest.partition(END)[2]}"


def spread(rounds: Sequence[Rounds]) -> Section:
    """The rounds behind the figures."""
    return Section(
        "Rounds",
        "The median of each figure, and its spread: lowest and highest of up to five rounds, else the quartiles.",
        ("figure", "rounds", "median", "low", "high", "spread"),
        [
            (r.what, str(r.rounds), f"{r.median:.4g}", f"{r.low:.4g}", f"{r.high:.4g}", f"{r.spread:.0%}")
            for r in rounds
        ],
    )


def markdown(report: Report, rounds: Sequence[Rounds], beside: str, today: str) -> str:
    """The page of one part."""
    where = "\n".join(f"| {name} | {value} |" for name, value in machine.describe().items())
    tables = "\n\n".join(
        f"## {section.title}\n\n{section.explanation}\n\n{markdown_table(section.headings, section.lines)}"
        for section in (*report.sections, *([spread(rounds)] if rounds else []))
    )
    meanwhile = f" Meanwhile, {beside}." if beside else ""
    return (
        f"# {report.title}\n\nMeasured on {today} at commit {machine.commit()}; "
        f'`make bench ARGS="--only {report.part}"` repeats it. {floors(report)}{meanwhile}\n\n'
        f"{tables}\n\n## Where\n\n| | |\n|---|---|\n{where}\n"
    )


def markdown_table(headings: Sequence[str], lines: Lines) -> str:
    """Markdown, with all columns but the first to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (headings, rule, *lines))
