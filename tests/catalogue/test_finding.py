"""Tables by name and by words, long lists in pieces."""

from __future__ import annotations

import sys
from base64 import urlsafe_b64encode

import pytest
from sqlalchemy import Column, Integer, MetaData, Table

from dualsql import BadParameterError, ConfigurationError, UnknownTableError
from dualsql.catalogue import page_of
from dualsql.catalogue.catalogue import find_tables, tables_of
from dualsql.catalogue.definitions import search_all
from dualsql.catalogue.search import LONGEST_TERM, MOST_TERMS
from dualsql.freeze import Registry
from tests.catalogue.library import ANA, BOB, POSTGRESQL, RULES, SQLITE, catalogue


@pytest.mark.parametrize("name", ["books", "default.books", " books ", "BOOKS", "Default.Books"])
def test_a_table_is_found_by_its_name(name: str) -> None:
    assert [at.name for at in find_tables(catalogue().view_for(ANA), name)] == ["books"]


def test_a_view_is_found_too() -> None:
    assert [at.kind for at in find_tables(catalogue().view_for(ANA), "best sellers", schema="reports")] == [
        "view"
    ]


def test_a_name_that_fits_letter_by_letter_wins() -> None:
    metadata = MetaData()
    for name in ("Events", "events", "EVENTS"):
        Table(name, metadata, Column("id", Integer))
    seen = catalogue(of=Registry(metadata)).view_for(ANA)
    assert [at.name for at in find_tables(seen, "EVENTS")] == ["EVENTS"]
    assert {at.name for at in find_tables(seen, "eVents")} == {"Events", "events", "EVENTS"}


def test_tables_of_one_name_are_described_together_unless_they_are_many() -> None:
    metadata = MetaData()
    schemas = [f"s{number}" for number in range(6)]
    for schema in schemas:
        Table("t", metadata, Column("id", Integer), schema=schema)
        if schema != "s5":
            Table("u", metadata, Column("id", Integer), schema=schema)
    seen = catalogue(of=Registry(metadata)).view_for(ANA)
    assert [at.schema for at in find_tables(seen, "u")] == schemas[:5]
    with pytest.raises(BadParameterError, match="Several") as error:
        find_tables(seen, "t")
    assert "s0.t, s1.t" in error.value.hint
    assert [at.schema for at in find_tables(seen, "t", schema="s2")] == ["s2"]
    assert [at.schema for at in find_tables(seen, "s2.t")] == ["s2"]


def test_a_denied_table_and_an_unknown_one_are_refused_alike() -> None:
    seen = catalogue(RULES).view_for(BOB)
    messages = []
    for name in ("wages", "wagez"):
        with pytest.raises(UnknownTableError) as error:
            find_tables(seen, name)
        assert "wages" not in error.value.hint
        messages.append((error.value.message.replace(name, ""), error.value.hint))
    assert messages[0] == messages[1]
    with pytest.raises(BadParameterError) as refused:
        tables_of(seen, schema="staff")
    assert "staff" not in refused.value.hint


def test_a_misspelt_name_is_answered_with_a_near_one() -> None:
    with pytest.raises(UnknownTableError) as error:
        find_tables(catalogue().view_for(ANA), "athors")
    assert error.value.hint == "Did you mean 'authors'?"
    assert error.value.details["suggestions"] == ["authors"]


def test_sources_are_told_apart() -> None:
    seen = catalogue(sources={"files": SQLITE, "house": POSTGRESQL}).view_for(ANA)
    assert [at.source for at in find_tables(seen, "books")] == ["files"]
    assert [at.source for at in find_tables(seen, "books", source="house")] == ["house"]
    assert len(tables_of(seen)) == 10
    with pytest.raises(BadParameterError):
        tables_of(seen, source="elsewhere")


@pytest.mark.parametrize(
    ("term", "name", "columns"),
    [
        ("athors", "authors", []),
        ("Book", "books", []),
        ("sellers best", "best sellers", []),
        ("salry", "authors", ["salary"]),
        ("euros", "authors", ["salary"]),
        ("edition", "books", []),
        ("ISBN", "books", ["isbn"]),
        ("authorId", "books", ["author_id"]),
    ],
)
def test_words_find_names_columns_and_comments(term: str, name: str, columns: list[str]) -> None:
    matches = search_all(catalogue().view_for(ANA), [term], limit=5)
    best = {match["name"]: match for match in matches[:2]}
    assert name in best
    assert best[name].get("columns", [])[:1] == columns[:1]


def test_several_terms_in_one_call() -> None:
    matches = search_all(catalogue().view_for(ANA), ["books", "xyzzy", "wages"], limit=1)
    assert [(match["term"], match["name"]) for match in matches] == [("books", "books"), ("wages", "wages")]
    assert matches[1]["schema"] == "staff"


def test_a_search_finds_only_what_is_seen() -> None:
    for who, is_seen in ((ANA, True), (BOB, False)):
        matches = search_all(catalogue(RULES).view_for(who), ["wages"], limit=10)
        assert ("wages" in {match["name"] for match in matches}) is is_seen


@pytest.mark.parametrize(
    "terms", [[], ["a"] * (MOST_TERMS + 1), ["x" * (LONGEST_TERM + 1)], [""], ["  "], ["%%__--"], ["\x00"]]
)
def test_terms_are_bounded(terms: list[str]) -> None:
    with pytest.raises(BadParameterError):
        search_all(catalogue().view_for(ANA), terms, limit=5)


def test_a_search_without_terms_is_told_how_to_write_them() -> None:
    with pytest.raises(BadParameterError) as error:
        search_all(catalogue().view_for(ANA), [], limit=5)
    assert error.value.hint == 'Such as ["enrollment", "tuition fees"].'


def test_without_rapidfuzz_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(ConfigurationError, match=r"dualsql\[mcp\]"):
        search_all(catalogue().view_for(ANA), ["books"], limit=5)


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 100])
def test_pieces_joined_are_the_list(limit: int) -> None:
    items: list[str] = []
    cursor = None
    whole = [f"catalog://main/schema/é{number:02}" for number in range(7)]
    for _ in range(20):
        page, cursor = page_of(whole, str, cursor=cursor, limit=limit)
        items += page
        if cursor is None:
            break
    assert items == whole


def test_what_comes_and_goes_between_two_pages_moves_nothing_else() -> None:
    _, cursor = page_of(["a", "b", "c", "d"], str, cursor=None, limit=2)
    page, _ = page_of(["aa", "c", "d"], str, cursor=cursor, limit=2)
    assert page == ["c", "d"]


@pytest.mark.parametrize(
    "cursor", ["", "=", "nonsense!", "YQ==", "é", "A" * 10_000, urlsafe_b64encode(b"\xff\xff").decode(), "YR"]
)
def test_a_forged_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadParameterError):
        page_of(["a"], str, cursor=cursor, limit=1)


def test_a_well_forged_cursor_shows_only_what_is_seen() -> None:
    entries = catalogue(RULES).view_for(BOB).entries
    forged = urlsafe_b64encode(b"catalog://main/schema/staff/table/wage").rstrip(b"=").decode()
    page, _ = page_of(entries, lambda entry: entry.uri, cursor=forged, limit=100)
    assert not any("staff" in entry.uri for entry in page)
