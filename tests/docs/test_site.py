"""The site that `make docs` builds: whole, without other hosts, and refused when a link or a page is missing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import dualsql
import dualsql_client
from tests.docs.blocks import ROOT
from tests.web.browser import chromium, needs_chromium, tab

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
"""What a browser fetches by itself, by element."""


# `make docs`, a step of CI, builds the same site and refuses pages and links that are missing.
pytestmark = pytest.mark.long


class Page(HTMLParser):
    """The addresses and anchors of one page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = {"", "__top"}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag in LOADED and (address := given.get(LOADED[tag])):
            self.loaded.append(address)
        if tag == "a" and (address := given.get("href")):
            self.links.append(address)


def build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts" / "docs"), str(folder)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file.resolve(): Page(file) for file in site.rglob("*.html")}


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 80
    lost = []
    for file, page in pages.items():
        for address in page.links + page.loaded:
            path, anchor = urldefrag(address)
            if re.match(r"[a-z]+:", address) or file.name == "404.html":
                continue  # another host, of which the next test knows; the 404 page is shown at any address
            target = (file.parent / unquote(path)).resolve() if path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (target in pages and unquote(anchor) not in pages[target].anchors):
                lost.append((file.name, address))
    assert lost == []


def test_nothing_is_fetched_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    fetched = {address for page in pages.values() for address in page.loaded}
    assert len(fetched) > 5
    assert {address for address in fetched if re.match(r"([a-z]+:)?//", address)} == set()
    for style in site.rglob("*.css"):
        addresses = re.findall(r"url\(['\"]?([^'\")]+)|@import", style.read_text(encoding="utf-8"))
        assert [address for address in addresses if not address.startswith(("data:", "#"))] == [], style


def test_no_path_of_this_machine_is_published(site: Path) -> None:
    paths = {str(ROOT), str(Path.home()) + "/", str(site.parent), sys.prefix}
    for file in site.rglob("*"):
        if file.suffix in {".html", ".md", ".txt", ".json", ".xml"}:
            text = file.read_text(encoding="utf-8")
            assert [path for path in paths if path in text] == [], file


def test_every_public_name_is_explained_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    explained: set[str] = set()
    references = [file.read_text(encoding="utf-8") for file in (site / "reference").glob("*.md")]
    assert [re.findall(r".* at 0x.*", text) for text in references] == [[]] * len(references)
    for file in (site / "reference").glob("*.md"):
        assert file.with_suffix(".html").resolve() in pages
        for section in file.read_text(encoding="utf-8").split("\n## ")[1:]:
            name, _, text = section.partition("\n")
            assert re.sub(r"```.*?```", "", text, flags=re.DOTALL).strip(), f"{name} has no docstring"
            explained.add(name)
    assert {*dualsql.__all__, *dualsql_client.__all__, "BearerTokens", "add_catalogue", "thaw"} <= explained


def test_models_get_an_index_and_the_whole(site: Path) -> None:
    index, full = ((site / name).read_text(encoding="utf-8") for name in ("llms.txt", "llms-full.txt"))
    assert index.startswith("# dualsql\n\n> ")
    places = re.findall(r"^- \[.+\]\((.+\.md)\): .+$", index, re.MULTILINE)
    assert len(places) > 50
    assert {"tutorial.md", "errors.md", "reference/server.md", "guides/fastapi.md"} <= set(places)
    for place in places:
        assert (site / place).read_text(encoding="utf-8").strip() in full, place
    assert "async def create_response(" in full


@pytest.fixture
def origin(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@needs_chromium
async def test_a_browser_asks_no_other_host_and_finds_words(origin: str) -> None:
    requests: list[str] = []
    async with chromium() as browser, tab(browser, width=400) as page:
        page.on("request", lambda request: requests.append(request.url))
        for path in ("index", "tutorial", "reference/server", "types", "settings"):
            await page.goto(f"{origin}/{path}.html", wait_until="networkidle")
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        await page.keyboard.press("Control+k")
        await page.get_by_placeholder("Search").fill("TenantFilter")
        await page.locator("a[href*='reference/rules.html?h=']").first.click()
        await page.wait_for_url("**/reference/rules.html?h=TenantFilter#tenantfilter")
    assert [url for url in requests if not url.startswith((origin, "data:", "blob:"))] == []


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("charts.md", "[gone](nowhere.md)", "docs/charts.md links to nowhere.md"),
        ("charts.md", "[gone](errors.md#nowhere)", "anchor does not exist"),
        ("orphan.md", "# Orphan\n", "No section of docs/README.md lists orphan.md"),
    ],
)
def test_a_site_with_a_fault_is_not_built(page: str, text: str, said: str, tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / "root" / name)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "root", check=True)
    with (tmp_path / "root" / "docs" / page).open("a", encoding="utf-8") as file:
        file.write(text)
    built = build(tmp_path / "root", tmp_path / "built")
    assert built.returncode == 1
    assert said in built.stdout + built.stderr
