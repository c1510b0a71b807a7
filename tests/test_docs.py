"""The documents agree with what they describe. A link leads somewhere, a table names all there is."""

from __future__ import annotations

import re
import runpy
import subprocess
from pathlib import Path

import pytest

from dualsql.http.problems import KINDS

ROOT = Path(__file__).parents[1]
PAGES = subprocess.run(
    ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()

LONGEST_README = 210


def prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_found_from_the_readme_which_stays_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"docs/README.md", "docs/tutorial.md", "CONTRIBUTING.md"} <= set(re.findall(r"\(([^)#]+)", readme))
    contents = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\)", contents, re.MULTILINE)
    pages = [name.removeprefix("docs/") for name in PAGES if re.match(r"docs/(?!decisions|README)", name)]
    assert [page for page in pages if rows.count(page) != 1] == [], "each page has one row in docs/README.md"
    assert len(readme.splitlines()) <= LONGEST_README


def test_the_reference_of_settings_is_what_its_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_settings_page.py"))
    is_current = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == script["page"]()
    assert is_current, "run: python scripts/make_settings_page.py"


def test_every_room_of_the_server_is_in_the_architecture_and_no_other() -> None:
    rows = re.findall(
        r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {room for row in rows for room in re.findall(r"`(\w+)`", row)} - {"dualsql_client"}
    folder = ROOT / "dualsql"
    packages = {file.parent.name for file in folder.glob("*/__init__.py")}
    assert named == {file.stem for file in folder.glob("*.py")} - {"__init__"} | packages


def test_every_error_code_is_in_its_table_with_its_status() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "dualsql").rglob("*.py"))
    codes = set(re.findall(r'^    code(?:: ClassVar\[str\])? = "([A-Z_]+)"$', sources, re.MULTILINE))
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", text, re.MULTILINE))
    assert len(codes) > 25
    assert codes <= listed
    assert all(f'"{code}"' in sources for code in listed)
    statuses = {
        code: int(status) for code, status in re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", text, re.MULTILINE)
    }
    assert statuses == {code: KINDS[code].status for code in statuses}
    assert set(KINDS) == set(statuses)


def test_each_door_of_the_threat_model_has_tests_that_exist() -> None:
    text = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    doors = re.findall(r"^\| (?!door|---)(.*?) \|.*\| (.*) \|$", text.split("## Attacks")[0], re.MULTILINE)
    assert len(doors) > 20
    for door, tests in doors:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, door
        for file, test in named:
            assert re.search(rf"def {test}\(", (ROOT / file).read_text(encoding="utf-8")), (door, file, test)


def test_decisions_are_numbered_without_a_gap() -> None:
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for number, file in enumerate(files, start=1):
        assert file.read_text(encoding="utf-8").startswith(f"# {number}. ")
