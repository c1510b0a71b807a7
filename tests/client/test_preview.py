"""What notebooks and terminals show of a dual response is right, and no cell has an effect there."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from dualsql_client import DualResponseClient, ParsedDualResponse, SyncDualResponseClient
from dualsql_client.preview import ROWS, expiry_in_words, html, preview, printable
from dualsql_client.progress import Meter, progress_text
from tests.client.hosting import RESOURCE_ID, structured

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table><iframe src=javascript:alert(1)>",
    r"$\href{javascript:alert(1)}{x}$ \(y\) \begin{equation}",
    "[bold red]not markup[/] [link=file:///etc/passwd]x[/link] :smile:",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
    "&lt;b&gt; &amp; &#36;",
    "line\nbreak\ttab\r",
    "\ud800 half",
]
TAGS = {"div", "b", "small", "table", "thead", "tbody", "tr", "th", "td", "i", "span", "a"}


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.runs: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.runs.append(data)

    def assert_harmless(self) -> None:
        assert {tag for tag, _ in self.tags} <= TAGS
        for tag, attributes in self.tags:
            assert attributes.keys() <= {
                "style",
                "dir",
                "class",
                "title",
                *(("href", "rel", "target") if tag == "a" else ()),
            }
            assert str(attributes.get("href", "http://127.0.0.1/")).startswith("http://127.0.0.1")
        for run in self.runs:
            # A formula is a pair of marks within one run of text: no run has more than marks.
            assert not ({"$", "\\"} & set(run)) or set(run) <= {"$", "\\"}


def response(
    rows: list[dict[str, Any]], name: str = "Schools", base_url: str | None = None, **more: Any
) -> Any:
    content: Any = structured(url="javascript:alert(1)")
    content["results"], content["resource"]["name"] = rows, name
    content["metadata"] |= {"sample_count": len(rows), "columns": [], **more}
    parsed = DualResponseClient(base_url).parse_structured(content)
    assert parsed is not None
    return parsed


def on_terminal(parsed: ParsedDualResponse, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, force_terminal=False, width=width, legacy_windows=False).print(parsed)
    return file.getvalue()


def test_a_notebook_shows_sample_total_link_and_expiry() -> None:
    soon = (datetime.now(UTC) + timedelta(minutes=14, seconds=30)).isoformat()
    parsed = response(
        [{"id": 1, "name": None}, {"id": 2, "name": "Ada"}],
        base_url="http://127.0.0.1:8000/resources",
        total_count=15_191,
        expires_at=soon,
        columns=[
            {"name": "id", "type": "number", "encoding": "integer"},
            {"name": "name", "type": "string", "encoding": "text"},
        ],
    )
    page = Page(parsed._repr_html_())
    page.assert_harmless()
    text = "".join(page.runs)
    for part in (
        "Schools",
        "2 of 15,191 rows",
        f"resource://{RESOURCE_ID}",
        "expires in 14 min",
        "NULL",
        "Ada",
    ):
        assert part in text
    *headings, link = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert link == f"http://127.0.0.1:8000/resources/{RESOURCE_ID}"
    assert all(str(heading).startswith(f"{link}?sort=") for heading in headings)
    assert len(headings) == 2
    assert [tag for tag, _ in page.tags].count("td") == 4
    [first, second] = [attributes["style"] for tag, attributes in page.tags if tag == "th"]
    assert "right" in str(first) and "left" in str(second)


def test_the_link_opens_beside_the_notebook() -> None:
    """In a browser, a server with pages answers it with one."""
    page = Page(response([{"id": 1}], base_url="http://127.0.0.1:8000/resources")._repr_html_())
    heading, link = [attributes for tag, attributes in page.tags if tag == "a"]
    for each in (heading, link):
        assert (each["target"], each["rel"]) == ("_blank", "noreferrer")


def test_headings_lead_to_all_rows_in_that_order() -> None:
    """But not one whose name would be other keys in a URL; and the rest of a hostile name does nothing."""
    row = {"a b&c=d#e": 1, "-a": 2, "a,b": 3, '"><script>': 4, "/../x?": 5}
    page = Page(response([row], base_url="http://127.0.0.1:8000/resources")._repr_html_())
    page.assert_harmless()
    hrefs = [urlsplit(str(attributes["href"])) for tag, attributes in page.tags if tag == "a"]
    assert {each.path for each in hrefs} == {f"/resources/{RESOURCE_ID}"}
    values = [parse_qs(each.query)["sort"] for each in hrefs[:-1]]
    assert values == [["a b&c=d#e"], ['"><script>'], ["/../x?"]]


def test_a_row_is_one_line_and_its_long_cells_are_shown_whole_where_one_points() -> None:
    columns = [
        {"name": "note", "type": "string", "encoding": "text"},
        {"name": "size", "type": "number", "encoding": "integer"},
    ]
    parsed = response([{"note": "word " * 30, "size": 1}] * 3, columns=columns, base_url="http://127.0.0.1/r")
    page = Page(parsed._repr_html_())
    cells = [attributes for tag, attributes in page.tags if tag == "td"]
    assert all("nowrap" in str(cell["style"]) for cell in cells)
    assert [cell.get("title") for cell in cells[:2]] == ["word " * 30, None]
    for width in (40, 80, 200):
        lines = on_terminal(parsed, width).splitlines()
        assert sum("word" in line for line in lines) == 3
        assert max(map(len, lines)) <= width
    assert f"dualsql-client view http://127.0.0.1/r/{RESOURCE_ID}" in on_terminal(parsed, 300)
    wide = on_terminal(response([{f"column_{number}": number for number in range(30)}]))
    assert "column_6" in wide and "23 more columns in a wider terminal" in wide


SIGNS = [
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "🇩🇪",
    "👩‍👩‍👧‍👦",
    "e\u0301",
    "👍🏽",
    "❤\ufe0f",
]


@pytest.mark.parametrize("sign", SIGNS)
def test_flags_joined_emoji_and_accents_stay_whole(sign: str) -> None:
    assert printable(sign, 40) == sign
    for characters in range(2, 40):
        shown = printable(sign * 20, characters)
        assert len(shown) <= characters
        whole = shown.removesuffix("…")
        assert whole == sign * (len(whole) // len(sign)), (characters, shown)


def test_tags_without_a_flag_are_no_text() -> None:
    """They would be words that nobody sees."""
    for text in ("a\U000e0061\U000e007f", "\U0001f3f4" + "\U000e0061" * 20 + "\U000e007f"):
        assert "\U000e0061" not in printable(text, 100)


def test_progress_is_never_beyond_its_total() -> None:
    meter = Meter("x", progress=False)
    meter.__enter__()
    assert progress_text(meter._progress(1_200, 5_000, 0)).startswith("1,200/5,000 rows (24%)")
    assert progress_text(meter._progress(6, 5, 0)).startswith("6 rows ")
    assert progress_text(meter._progress(0, 0, 0)).startswith("0/0 rows (100%)")
    assert progress_text(meter._progress(4_999, 5_000, 0)).startswith("4,999/5,000 rows (99%)")


def test_an_address_nobody_configured_is_no_link() -> None:
    text = response([{"id": 1}])._repr_html_()
    assert "javascript:" not in text
    assert "<a" not in text
    assert "no base_url" in text


@pytest.mark.quick(3)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_cell_does_anything(text: str) -> None:
    parsed = response([{text: text, "nested": {text: [text]}}], name=text, base_url="http://127.0.0.1")
    Page(parsed._repr_html_()).assert_harmless()
    shown = on_terminal(parsed, width=200)
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert "not markup" not in text or "[bold red]not markup[/]" in shown


def any_text() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from([*HOSTILE, "<", ">", '"', "'", "&", "$", "\\", "a"]) | st.text()).map(
        "".join
    )


@given(any_text(), any_text())
def test_no_text_becomes_markup(name: str, value: str) -> None:
    page = Page(html(preview(response([{name: value}], name=name), is_configured=False)))
    page.assert_harmless()
    assert [tag for tag, _ in page.tags if tag == "td"] == ["td"]
    # All of it is shown, in its place.
    assert printable(value, 200) in "".join(page.runs)


def test_a_large_sample_is_counted_instead() -> None:
    wide = {f"c{number}": "x" * 10_000 for number in range(100)}
    parsed = response([wide] * 1000)
    text = parsed._repr_html_()
    assert len(text) < 350_000
    assert f"{1000 - ROWS} more rows and 70 more columns in the sample" in text


def test_a_terminal_shows_the_same() -> None:
    parsed = response([{"id": 7, "note": None}], total_count=9, total_count_kind="capped", expires_at=None)
    shown = on_terminal(parsed)
    assert max(map(len, shown.splitlines())) <= 80
    for part in ("Schools", "1 of at least 9 rows", "7", "NULL", f"resource://{RESOURCE_ID}"):
        assert part in shown
    assert "expire" not in shown


def test_the_synchronous_one_shows_the_same() -> None:
    [parsed] = SyncDualResponseClient().find(structured())
    [awaited] = DualResponseClient().find(structured())
    assert parsed._repr_html_() == awaited._repr_html_()
    assert on_terminal(parsed) == on_terminal(awaited)  # type: ignore[arg-type]
    assert repr(parsed).startswith("SyncParsedDualResponse(name='Institutions'")


SPANS = [
    (timedelta(seconds=-1), "expired"),
    (timedelta(seconds=45), "expires in 45 s"),
    (timedelta(minutes=3), "expires in 3 min"),
    (timedelta(hours=3, minutes=20), "expires in 3 h 20 min"),
    (timedelta(days=5), "expires in 5 d"),
]


@pytest.mark.parametrize(("left", "said"), SPANS)
def test_the_time_left(left: timedelta, said: str) -> None:
    assert expiry_in_words(left) == said
    assert expiry_in_words(None) == ""


@pytest.mark.parametrize("width", [40, 57, 80, 100])
def test_long_texts_leave_room_for_short_ones_and_are_cut_behind_whole_signs(width: int) -> None:
    flags = "\U0001f1fa\U0001f1f8" * 90
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    rows = [{"id": 4711, "flags": flags, "families": family * 40, "long": "word " * 90}]
    lines = on_terminal(response(rows), width=width).splitlines()
    [row] = [line for line in lines if "4711" in line]
    _, identity, of_flags, of_families, *_ = [cell.strip() for cell in row.split("│")]
    assert identity == "4711"
    assert of_flags.removesuffix("…").count("\U0001f1fa") == of_flags.count("\U0001f1f8") > 0
    assert of_families.removesuffix("…") == family * of_families.count("\U0001f468") != ""
