"""llms.txt and llms-full.txt (https://llmstxt.org), and the Markdown of each page beside it: the site for models."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

SUMMARY = (
    "dualsql implements the dual response pattern for SQLAlchemy and MCP. A tool returns a Select; the model gets a "
    "sample, the total and a link; the application follows the link over REST and gets every row."
)


def write_llms(pages: Path, site: Path, nav: list[dict[str, Any]]) -> None:
    """Copy the Markdown beside the pages, and write both files; both follow the site's contents."""
    for page in pages.rglob("*.md"):
        target = site / page.relative_to(pages)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, target)
    index, full = [f"# dualsql\n\n> {SUMMARY}\n"], [f"# dualsql\n\n> {SUMMARY}\n"]
    for entry in nav:
        for section, entries in entry.items():
            index.append(f"\n## {section}\n\n")
            for title, path in _flat(entries):
                text = (pages / path).read_text(encoding="utf-8")
                index.append(f"- [{title}]({path}): {_first_sentence(text)}\n")
                full.append(f"\n\n<!-- {path} -->\n\n{text.strip()}\n")
    (site / "llms.txt").write_text("".join(index), encoding="utf-8")
    (site / "llms-full.txt").write_text("".join(full), encoding="utf-8")


def _flat(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        each
        for entry in entries
        for title, value in entry.items()
        for each in ([(title, value)] if isinstance(value, str) else _flat(value))
    ]


def _first_sentence(text: str) -> str:
    """The first sentence of a page's prose, without the addresses of its links."""
    for paragraph in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n"):
        line = " ".join(paragraph.split())
        if line and line[0] not in "#|-!<>":
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).replace("**", "")
            return re.split(r"(?<=[.?!]) ", plain)[0]
    return "Names and their meaning."
