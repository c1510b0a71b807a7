"""Reads the legitimate queries. A text stands in its file as a person would type it.

`-- what it is about` stands before each text, `;` ends it, and `-- not sqlite, mariadb: why` after it names engines
whose own SQL does not take it, or does not say what its rows are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "legitimate"
ENGINES = ("sqlite", "postgresql", "mariadb", "duckdb")

_ENTRY = re.compile(
    r"^-- (?P<title>[^\n]+)\n(?P<sql>(?!--|\n)[^;]+(?:;[^\n]+)*);\n(?:-- not (?P<without>[a-z, ]+):[^\n]*\n)?",
    re.MULTILINE,
)


class Text(NamedTuple):
    """One query.

    Attributes:
        engines: those it is for.
    """

    title: str
    sql: str
    engines: tuple[str, ...]

    @property
    def is_ordered(self) -> bool:
        """Whether it says how its rows follow each other; the orders of the corpus are total."""
        depth = 0
        for word in re.findall(r"'[^']*'|\(|\)|ORDER BY", self.sql):
            depth += (word == "(") - (word == ")")
            if word == "ORDER BY" and depth == 0:
                return True
        return False


def texts() -> Iterator[Text]:
    """All of them; a file called after an engine is for that engine alone."""
    for file in sorted(FOLDER.glob("*.sql")):
        own = (file.stem,) if file.stem in ENGINES else ENGINES
        for match in _ENTRY.finditer(file.read_text()):
            without = [name.strip() for name in (match["without"] or "").split(",")]
            engines = tuple(name for name in own if name not in without)
            yield Text(f"{file.stem}: {match['title']}", match["sql"], engines)


def texts_for(engine: str) -> list[Text]:
    """Those that an engine's own SQL takes."""
    return [text for text in texts() if engine in text.engines]
