"""The repository's Markdown as pages of the site: their addresses there, their links, their place in its contents."""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^( *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]*)(#[^)\s]*)?(?=\))")
PLACES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "client/README.md": "client-package.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Where files go that are elsewhere on the site; docs/ is its root."""
LANGUAGES = {
    ".py": "python",
    ".ts": "typescript",
    ".toml": "toml",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
}


class Site:
    """The Markdown of the site, written to `folder` from the files of the repository that lead to each other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.titles: dict[str, str] = {}
        """By page of the site, in the order in which they were found."""
        listing = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        self._files = {name for name in listing.stdout.splitlines() if (ROOT / name).exists()}

    def write(self) -> None:
        """README, docs/ and each file that they link to."""
        waiting = [
            "README.md",
            *sorted(name for name in self._files if re.match(r"docs/.*\.(md|png|svg)$", name)),
        ]
        names = set()
        while waiting:
            name = waiting.pop(0)
            if name not in names:
                names.add(name)
                waiting += self._write(name)

    def add(self, path: str, title: str, text: str) -> None:
        """A page that is made and not found; its links are those of docs/."""
        self.titles[path] = title
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        for link in re.findall(r"\]\(/([\w/.-]+)\)", text):
            text = text.replace(f"](/{link})", f"]({self._relative(path, self.path_of(link))})")
        target.write_text(text, encoding="utf-8")

    def _write(self, name: str) -> list[str]:
        """Write one file, and return the files that it links to."""
        path = self.path_of(name)
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            text, links = self._folder(name)
        elif name.endswith((".png", ".svg")):
            shutil.copyfile(ROOT / name, target)
            return []
        elif name.endswith(".md"):
            text, links = self._with_links(name, (ROOT / name).read_text(encoding="utf-8"))
        else:
            text, links = self._source(name), []
        self.titles[path] = _title(text)
        target.write_text(text, encoding="utf-8")
        return links

    def _with_links(self, name: str, text: str) -> tuple[str, list[str]]:
        """A page with its links as they are on the site, and the files they lead to."""
        links: list[str] = []

        def move(match: re.Match[str]) -> str:
            if not match[1]:
                return match[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[1]))
            if not (ROOT / target).exists():
                raise SystemExit(f"{name} links to {match[1]}, which does not exist.")
            if f"{target}/README.md" in self._files:
                target = f"{target}/README.md"
            links.append(target)
            return self._relative(self.path_of(name), self.path_of(target)) + (match[2] or "")

        pieces = FENCED.split(text)
        pieces[::2] = [LINK.sub(move, piece) for piece in pieces[::2]]
        return "".join(pieces), links

    def _folder(self, name: str) -> tuple[str, list[str]]:
        """A page with the files and folders of a folder that has no README."""
        inside = sorted(
            {
                file.removeprefix(f"{name}/").partition("/")[0]
                for file in self._files
                if file.startswith(f"{name}/")
            }
        )
        files = [f"{name}/{each}" for each in inside]
        path = self.path_of(name)
        lines = [f"- [{self._label(each)}]({self._relative(path, self.path_of(each))})\n" for each in files]
        return f"# {posixpath.basename(name).capitalize()}\n\n{''.join(lines)}", files

    @staticmethod
    def _label(name: str) -> str:
        return (
            _title((ROOT / name).read_text(encoding="utf-8"))
            if name.endswith(".md")
            else posixpath.basename(name)
        )

    def _source(self, name: str) -> str:
        """A program as a page."""
        code = (ROOT / name).read_text(encoding="utf-8")
        fence = "`" * 4
        language = LANGUAGES.get(PurePosixPath(name).suffix, "text")
        return f"# {posixpath.basename(name)}\n\n`{name}`\n\n{fence}{language}\n{code.rstrip()}\n{fence}\n"

    def path_of(self, name: str) -> str:
        """The address of a file or folder of the repository within the site."""
        path = PLACES.get(name) or name.removeprefix("docs/")
        if (ROOT / name).is_dir():
            return f"{path}/index.md"
        if name.endswith((".md", ".png", ".svg")):
            return path if path in PLACES.values() else re.sub(r"README\.md$", "index.md", path)
        return f"{path}.md"

    def is_detail(self, path: str) -> bool:
        """Whether a page is only reached from another: a program, a measurement, a decision, a folder."""
        return "/" in path and not path.startswith("guides/")

    @staticmethod
    def _relative(path: str, target: str) -> str:
        return posixpath.relpath(target, posixpath.dirname(path) or ".")


def _title(text: str) -> str:
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1] if heading else "Untitled"


def contents(text: str) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """The sections of docs/README.md; of each its parts, and the page that each of their rows is about."""
    for section in text.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        parts = []
        for part in f"\n{rest}".split("\n### "):
            heading, _, rows = part.partition("\n")
            pages = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\)", rows, re.MULTILINE)
            if pages:
                parts.append((heading, pages))
        yield title, parts
