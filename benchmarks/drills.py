"""The tables of docs/reliability.md, with the result of the last run in which each drill and each soak held."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.report import FOLDER, replace_after

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
RESULTS = FOLDER / "drills.json"


@dataclass(frozen=True)
class Drill:
    """The result of a drill, in words.

    Attributes:
        lost: rows or resources.
        effect: what callers saw.
        database: if the drill is run on several.
    """

    name: str
    lost: str
    effect: str
    recovery: str
    database: str | None = None


@dataclass(frozen=True)
class Use:
    """What the workers hold when nobody asks."""

    megabytes: float
    descriptors: int
    connections: int
    files: int


@dataclass(frozen=True)
class Soak:
    """The result of a soak.

    Attributes:
        answers: the number of each kind.
        before, after: use at the middle, and at the end.
    """

    database: str
    minutes: float
    answers: Mapping[str, int]
    before: Use
    after: Use


def record(results: Sequence[Drill | Soak], commit: str) -> None:
    """Write results over those of the last runs of the same drills, and the tables into the page.

    Args:
        commit: the code that ran.
    """
    rows = (
        json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"drills": [], "soaks": []}
    )
    today = datetime.now(UTC).date().isoformat()
    for result in results:
        table = rows["soaks" if isinstance(result, Soak) else "drills"]
        row = {**asdict(result), "date": today, "commit": commit}
        positions = {_key(each): position for position, each in enumerate(table)}
        position = positions.get(_key(row), len(table))
        table[position : position + 1] = [row]
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def with_tables(page: str) -> str:
    """The page with the tables of the results."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    tables = {"make drills": drill_lines(rows["drills"]), "make soak": soak_lines(rows["soaks"])}
    for command, lines in tables.items():
        page = replace_after(f"<!-- printed by {command} -->", "\n".join(lines), page)
    return page


def drill_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each drill."""
    yield "| drill | lost | effect on callers | recovery | measured |"
    yield "|---|---|---|---|---|"
    for name, group in groupby(rows, key=lambda row: row["name"]):
        runs = list(group)
        effect = "; ".join(
            f"on {run['database']} {run['effect']}" if run["database"] else run["effect"] for run in runs
        )
        last = runs[-1]
        yield f"| {name} | {last['lost']} | {effect} | {last['recovery']} | {_when(last)} |"


def soak_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each soak."""
    yield (
        "| database | minutes | creations, pages, streams | memory of both workers, before and after | "
        "descriptors | connections | files of kept rows | measured |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        answers = ", ".join(f"{row['answers'].get(kind, 0):,}" for kind in ("create", "page", "stream"))
        before, after = row["before"], row["after"]
        pairs = (f"{before[name]}, {after[name]}" for name in ("descriptors", "connections", "files"))
        memory = f"{before['megabytes']:.0f} MB, {after['megabytes']:.0f} MB"
        cells = [row["database"], f"{row['minutes']:.0f}", answers, memory, *pairs, _when(row)]
        yield f"| {' | '.join(cells)} |"


def _key(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The name of the drill, which soaks do not have, and the database."""
    return row.get("name"), row["database"]


def _when(row: Mapping[str, Any]) -> str:
    return f"{row['date']}, {row['commit']}"
