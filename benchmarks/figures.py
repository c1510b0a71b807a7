"""The figures of docs/performance.md, made of the kept results, so that no old figure stays on the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import is_current
from benchmarks.plan import MINUTES
from benchmarks.report import FOLDER, replace_after

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
BEGIN = "<!-- made by python -m benchmarks.figures -->"

Figures = Sequence[Mapping[str, Any]]


def table() -> str:
    """The table: a line for each part that has been measured."""
    lines = ["| part | measured | figures |", "|---|---|---|"]
    for part, say in _SAID.items():
        path = FOLDER / f"{part}.json"
        if not path.exists():
            lines.append(f"| {part} | not yet | |")
            continue
        document = json.loads(path.read_text(encoding="utf-8"))
        when = f"{document['date']}, {document['machine']['commit']}"
        link = f"[{part}](../benchmarks/results/{part}.md)"
        lines.append(f"| {link} | {when} | {'<br>'.join(say(document['figures']))} |")
    return "\n".join(lines)


def outdated() -> list[str]:
    """The parts whose results are older than the code, with the day of each."""
    results = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
    return [
        f"{part} ({results[part]['date']})"
        for part in MINUTES
        if part in results and not is_current(results[part]["machine"]["commit"])
    ]


def written(page: str) -> str:
    """The page with the table of the kept results."""
    return replace_after(BEGIN, f"\n{table()}\n", page)


def write() -> None:
    """Write the table into the page."""
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _stream(figures: Figures) -> list[str]:
    return [
        f"{each['what']} ({each['engine']}) {each['other_seconds'] / each['seconds']:.2f} of {each['against']}"
        for each in figures
        if "tenant" not in each["what"]
    ]


def _page(figures: Figures) -> list[str]:
    speeds = [
        f"{each['server']}: {each['pages']:,.0f} pages/s at {each['cpu'] * 1e6:,.0f} µs of CPU"
        for each in figures
        if "pages" in each
    ]
    last = [
        f"last page ({each['engine']}) {each['last'] / each['first']:.2f} of the first"
        for each in figures
        if "last" in each
    ]
    more = [
        f"a page ({each['engine']}) {(each['page'] - each['bare']) * 1000:.2f} ms more than its query"
        for each in figures
        if "bare" in each
    ]
    return [*speeds, *last, *more]


def _memory(figures: Figures) -> list[str]:
    def most(formats: Sequence[Mapping[str, Any]]) -> str:
        return f"{max(each['above_idle'] for each in formats) / 2**20:.0f} MiB"

    parquet = [each for each in figures if each["format"] == "parquet"]
    rest = [each for each in figures if each["format"] != "parquet"]
    return [f"at most {most(rest)} above the idle server, Parquet {most(parquet)}"]


def _times(of: str, by: str) -> Callable[[Figures], list[str]]:
    def say(figures: Figures) -> list[str]:
        ratios = [each[of] / each[by] for each in figures]
        return [f"{min(ratios):.2f} to {max(ratios):.2f} times as long as by hand"]

    return say


def _create(figures: Figures) -> list[str]:
    new = [each for each in figures if each.get("is_new", "engine" in each)]
    known = _times("create_response", "by_hand")([each for each in figures if each not in new])
    if not new:
        return known
    ratios = [each["create_response"] / each["by_hand"] for each in new]
    return [*known, f"new forms {min(ratios):.2f} to {max(ratios):.2f}"]


def _kept(figures: Figures) -> list[str]:
    return [
        f"{each['what']}: {each['seconds'] / each['other_seconds']:.2f} of the time of {each['against']}"
        for each in figures
    ]


def _profile(figures: Figures) -> list[str]:
    lines = []
    for each in figures:
        lines.append(
            f"{each['engine']}: {each['seconds']:.1f} s, {each['seconds'] / each['by_hand']:.2f} of by hand"
        )
        if "budgeted" in each:
            lines.append(f"within its budget {each['budgeted']:.1f} s, {each['estimated']} columns estimated")
    return lines


def _adapter(figures: Figures) -> list[str]:
    return [
        f"{each['sdk']}: {each['overhead'] * 1000:.2f} ms more than create_response ({each['alone'] * 1000:.2f} ms)"
        for each in figures
    ]


def _flows(figures: Figures) -> list[str]:
    lines = [
        f"{each['completed']:,} of {each['flows']:,} complete, {each['failed']} of {each['steps']:,} steps failed; a"
        f" query takes {each['overhead_p50'] * 1000:.0f} ms (p50) and {each['overhead_p95'] * 1000:.0f} ms (p95) more"
        for each in figures
    ]
    return lines + [
        f"a tool call {each['alone_p50'] * 1000:.1f} ms" for each in figures if "alone_p50" in each
    ]


def _scale(figures: Figures) -> list[str]:
    return [
        *(
            f"{each['format']}, {each['rows']:,} rows: {each['rows'] / each['seconds']:,.0f} rows/s"
            for each in figures
            if "above_idle" in each
        ),
        *(
            f"{each['workers']} workers: {each['pages']:,.0f} pages/s"
            for each in figures
            if "workers" in each
        ),
        *(
            f"over the link: {each['seconds']:.1f} s for {each['rows']:,} rows"
            for each in figures
            if "sent" in each
        ),
    ]


def _start(figures: Figures) -> list[str]:
    imported, served, *stdio = figures
    return [
        f"import {imported['seconds'] / imported['others']:.2f} times that of the other packages it needs",
        f"`dualsql serve --all` on {served['tables']:,} tables answers after {served['answered']:.1f} s",
        *(
            f"over stdio, tools are listed after {each['listed'] / each['bare']:.2f} times the time of a bare server"
            for each in stdio
        ),
    ]


def _store_load(figures: Figures) -> list[str]:
    return [
        f"{each['store']}: {each['created']:,.0f} created, {each['read']:,.0f} pages read a second"
        for each in figures
    ]


def _browser(figures: Figures) -> list[str]:
    return [
        f"{each['name'].replace('_', ' ')}: {each['value']:,.0f} ms, Datasette {each['datasette']:,.0f}"
        for each in figures
        if each["datasette"] is not None
    ]


def _crowd(figures: Figures) -> list[str]:
    return [
        f"{each['pages']:,} pages: half within {each['half'] * 1e3:,.0f} ms, 99 % within {each['most'] * 1e3:,.0f} ms, "
        f"the longest {each['longest'] * 1e3:,.0f} ms"
        for each in figures
    ]


_SAID: Mapping[str, Callable[[Figures], list[str]]] = {
    "stream": _stream,
    "page": _page,
    "memory": _memory,
    "start": _start,
    "create": _create,
    "ask": _times("asked", "by_hand"),
    "kept": _kept,
    "profile": _profile,
    "adapter": _adapter,
    "flows": _flows,
    "scale": _scale,
    "store_load": _store_load,
    "browser": _browser,
    "crowd": _crowd,
}


if __name__ == "__main__":
    write()
