"""Code blocks of the documents, and the one thing each language is held to. A guide adds no mechanism of its own.

python         test_types.py: each page is a module to mypy; names that no page defines are in names.py
bash, console  test_blocks.py: each command exists, with these options
json, toml, ini, sql  test_blocks.py: it is such data, or such a statement
ts             tests/http/typescript compiles docs/openapi.md, tests/javascript the pages of the JavaScript client
text           neither a program nor data

The tutorial and docs/guides are sessions that tests/guides follows, so their programs and commands are run instead.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        name
        for name in subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        if not name.startswith("benchmarks/")
    }
)
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: str
    """Its path from the root of the repository."""
    line: int
    """Where its code begins, from 1."""
    language: str
    """The word behind the fence; empty without one."""
    code: str

    @property
    def is_run(self) -> bool:
        """Whether tests/guides follows its page, and so runs its programs and commands."""
        return self.page.startswith(("docs/guides/", "docs/tutorial"))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in its order."""
    return blocks_in((ROOT / page).read_text(encoding="utf-8"), page)


def blocks_in(text: str, page: str = "") -> list[Block]:
    """The blocks of a page's text."""
    return [
        Block(
            page,
            text.count("\n", 0, match.start("code")) + 1,
            match["language"].strip(),
            textwrap.dedent(match["code"]),
        )
        for match in FENCE.finditer(text)
    ]


@cache
def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def in_language(*languages: str) -> list[Block]:
    return [block for block in all_blocks() if block.language in languages]
