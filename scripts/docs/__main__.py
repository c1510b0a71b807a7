"""Build the documentation as a site: `python scripts/docs [FOLDER]`, by default .docs; its pages are in FOLDER/site.

README.md and docs/ with the files they link to, the reference of the code, and llms.txt. A link without its target, an
anchor without its heading, or a page without a place in docs/README.md ends the build with status 1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from commands import command_line, rest_api
from llms import write_llms
from pages import Site, contents
from reference import pages as reference_pages

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REFERENCE = "Reference"
Nav = list[dict[str, "str | Nav"]]


def main() -> None:
    folder = (Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".docs").resolve()
    for part in ("pages", "site", ".cache"):
        shutil.rmtree(folder / part, ignore_errors=True)
    site = Site(folder / "pages")
    site.write()
    for name in ("favicon.svg", "site.css"):
        shutil.copyfile(HERE / name, folder / "pages" / ("images" if name.endswith(".svg") else "") / name)
    nav = _nav(site, _generated(site))
    _require_every_page(site, nav)
    config = folder / "zensical.toml"
    config.write_text(_config(nav), encoding="utf-8")
    zensical = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(config)]
    process = subprocess.run(
        zensical, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(process.stdout + process.stderr)
    write_llms(folder / "pages", folder / "site", nav)
    print(f"{len(list((folder / 'site').rglob('*.html')))} pages in {folder / 'site'}")


def _generated(site: Site) -> Nav:
    """The pages that are made of code, and their places."""
    python: Nav = []
    for name, (title, text) in reference_pages().items():
        site.add(f"reference/{name}.md", title, text)
        python.append({title: f"reference/{name}.md"})
    site.add("reference/command-line.md", "Commands", command_line())
    site.add("reference/rest.md", "REST", rest_api())
    outside: Nav = [{"Commands": "reference/command-line.md"}, {"REST": "reference/rest.md"}]
    return [{"Python": python}, {"Commands and REST": outside}]


def _nav(site: Site, generated: Nav) -> Nav:
    """The sections of docs/README.md, with the generated pages among the reference, and the decisions at the end."""
    nav: Nav = [{"Start": [{"dualsql": "index.md"}, {"All pages": "contents.md"}]}]
    for section, parts in contents((ROOT / "docs" / "README.md").read_text(encoding="utf-8")):
        entries: Nav = []
        for heading, names in parts:
            paths = [site.path_of(os.path.normpath(f"docs/{name}")) for name in names]
            rows: Nav = [{site.titles[path]: path} for path in paths]
            entries += [{heading: rows}] if heading else rows
        if section == REFERENCE:
            entries = [*generated, {"Behaviour": entries}]
        nav.append({section: entries})
    return nav


def _require_every_page(site: Site, nav: Nav) -> None:
    """Each page of docs/ stands in its contents; what only explains a page (programs, results, decisions) needs not."""
    paths = set(_paths(nav))
    missing = [path for path in site.titles if path not in paths and not site.is_detail(path)]
    if missing:
        raise SystemExit(f"No section of docs/README.md lists {', '.join(missing)}.")


def _paths(nav: Nav) -> list[str]:
    return [
        path
        for entry in nav
        for value in entry.values()
        for path in ([value] if isinstance(value, str) else _paths(value))
    ]


def _config(nav: Nav) -> str:
    """zensical.toml with the pages."""
    text = (HERE / "zensical.toml").read_text(encoding="utf-8")
    head = f'[project]\ndocs_dir = "pages"\nsite_dir = "site"\nnav = {_toml(nav)}\n'
    return text.replace("[project]\n", head, 1)


def _toml(nav: Nav) -> str:
    entries = [(title, value) for entry in nav for title, value in entry.items()]
    values = [
        (title, json.dumps(value) if isinstance(value, str) else _toml(value)) for title, value in entries
    ]
    return f"[{', '.join(f'{{ {json.dumps(title, ensure_ascii=False)} = {value} }}' for title, value in values)}]"


if __name__ == "__main__":
    main()
