"""The tables of docs/reliability.md, made of what each drill and each soak found when it last ran and held."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.report import FOLDER

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
KEPT = FOLDER / "drills.json"
_END = "<!-- end -->"


@dataclass(frozen=True)
class Drill:
    """What a drill found.

    Attributes:
        database: if the drill is run on several.
    """

    name: str
    lost: str
    told: str
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
    """What a soak found.

    Attributes:
        answers: how many of each kind.
        before, after: at the middle, and at the end.
    """

    database: str
    minutes: float
    answers: Mapping[str, int]
    before: Use
    after: Use


def keep(found: Sequence[Drill | Soak], commit: str) -> None:
    """Keep what was found, in place of what the same drills found before, and write the page.

    Args:
        commit: the code that ran.
    """
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"drills": [], "soaks": []}
    today = datetime.now(UTC).date().isoformat()
    for each in found:
        rows = kept["soaks" if isinstance(each, Soak) else "drills"]
        row = {**asdict(each), "date": today, "commit": commit}
        places = {(known.get("name"), known["database"]): place for place, known in enumerate(rows)}
        place = places.get((row.get("name"), row["database"]), len(rows))
        rows[place : place + 1] = [row]
    KEPT.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def written(page: str) -> str:
    """The page with the tables of what is kept."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    tables = {"make drills": drill_lines(kept["drills"]), "make soak": soak_lines(kept["soaks"])}
    for command, lines in tables.items():
        begin = f"<!-- printed by {command} -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(_END)
        page = "\n".join([f"{head}{begin}", *lines, f"{_END}{tail}"])
    return page


def drill_lines(kept: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each drill."""
    yield "| drill | lost | told | recovery | measured |"
    yield "|---|---|---|---|---|"
    for name, runs in groupby(kept, key=lambda each: each["name"]):
        every = list(runs)
        told = "; ".join(
            f"on {each['database']} {each['told']}" if each["database"] else each["told"] for each in every
        )
        last = every[-1]
        yield f"| {name} | {last['lost']} | {told} | {last['recovery']} | {_when(last)} |"


def soak_lines(kept: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each soak."""
    yield (
        "| database | minutes | creations, pages, streams | memory of both workers, before and after | "
        "descriptors | connections | files of kept rows | measured |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for each in kept:
        answers = ", ".join(f"{each['answers'].get(kind, 0):,}" for kind in ("create", "page", "stream"))
        before, after = each["before"], each["after"]
        pairs = (f"{before[name]}, {after[name]}" for name in ("descriptors", "connections", "files"))
        memory = f"{before['megabytes']:.0f} MB, {after['megabytes']:.0f} MB"
        cells = [each["database"], f"{each['minutes']:.0f}", answers, memory, *pairs, _when(each)]
        yield f"| {' | '.join(cells)} |"


def _when(kept: Mapping[str, Any]) -> str:
    return f"{kept['date']}, {kept['commit']}"
