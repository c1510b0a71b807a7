"""The figures as one picture for the README. Drawn from the kept results, never from hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks.report import FOLDER

PICTURE = Path(__file__).parent.parent / "docs" / "performance.svg"
OURS, OTHERS = "#1f6feb", "#9aa4b2"

Bar = tuple[str, float, str]
"""Its name, its length, its colour."""


def draw() -> list[Path]:
    """Draw what has been measured; nothing as long as a part is missing."""
    files = {part: FOLDER / f"{part}.json" for part in ("stream", "page")}
    if not all(path.exists() for path in files.values()):
        return []
    figures = {part: json.loads(path.read_text())["figures"] for part, path in files.items()}
    # Text stays text, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dualsql", "font.size": 9}):
        picture, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        _bars(left, "Rows a second, a million flights", _rows(figures["stream"]))
        _bars(right, "Pages of 100 rows a second", _pages(figures["page"]))
        picture.savefig(PICTURE, metadata={"Date": None})
        plt.close(picture)
    return [PICTURE]


def _rows(races: list[dict[str, Any]]) -> list[Bar]:
    bars: list[Bar] = []
    for race in races:
        if "tenant" in race["what"] or "every type" in race["what"]:
            continue
        own = (f"{race['what']}, {race['engine']}", race["rows"] / race["seconds"], OURS)
        other = (f"{race['against']}, {race['engine']}", race["rows"] / race["other_seconds"], OTHERS)
        bars += [bar for bar in (own, other) if bar[0] not in {bar_of_own[0] for bar_of_own in bars}]
    return bars


def _pages(figures: list[dict[str, Any]]) -> list[Bar]:
    speeds = [figure for figure in figures if "server" in figure]
    return [
        (speed["server"], speed["pages"], OURS if speed["server"].startswith("dualsql") else OTHERS)
        for speed in speeds
    ]


def _bars(axes: Axes, title: str, bars: list[Bar]) -> None:
    bars.reverse()  # matplotlib draws the first one at the bottom
    bar_marks = axes.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=[bar[2] for bar in bars])
    axes.bar_label(bar_marks, labels=[f"{bar[1]:,.0f}" for bar in bars], padding=3)
    axes.set_title(title, loc="left")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    axes.margins(x=0.2)
