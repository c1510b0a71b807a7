"""What a caller may write in a URL or a body, and that everything else is refused before anything is read."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import given, strategies as st

from dualsql.errors import BadParameterError
from dualsql.http.parameters import (
    MAXIMUM_NAME_LENGTH,
    MAXIMUM_QUERY_BYTES,
    PAGE_BODY,
    PAGE_QUERY,
    body_values,
    parse_page,
    query_values,
    refuse_query,
    split_query,
)
from dualsql.results.pages import PageRequest
from dualsql_client.wire import SortKey

ASCENDING_NAME: SortKey = {"field": "name", "order": "asc"}
DESCENDING_SIZE: SortKey = {"field": "size", "order": "desc"}


def parse_query(query: bytes) -> PageRequest | None:
    values = query_values(split_query(query), PAGE_QUERY)
    return parse_page(values) if values else None


def parse_body(text: bytes) -> PageRequest:
    return parse_page(body_values(text, PAGE_BODY))


def body(**values: Any) -> bytes:
    return json.dumps(values).encode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", None),
        (b"limit=10", PageRequest(limit=10)),
        (b"limit=0", PageRequest(limit=0)),
        (b"skip=20", PageRequest(offset=20)),
        (b"offset=20", PageRequest(offset=20)),
        (b"skip=20&offset=20", PageRequest(offset=20)),
        (b"sort=name", PageRequest(sort=(ASCENDING_NAME,))),
        (b"sort=-size,name", PageRequest(sort=(DESCENDING_SIZE, ASCENDING_NAME))),
        (b"sort=-size%2Cname", PageRequest(sort=(DESCENDING_SIZE, ASCENDING_NAME))),
        (b"sort=h%C3%B6he", PageRequest(sort=({"field": "höhe", "order": "asc"},))),
        (b"big_integers=string", PageRequest(integer_strings=True)),
        (b"big_integers=number", PageRequest()),
        (b"cell_limit=500", PageRequest(cell_limit=500)),
    ],
)
def test_a_url_asks_for_a_page(query: bytes, expected: PageRequest | None) -> None:
    assert parse_query(query) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, PageRequest()),
        ({"offset": 20, "limit": 10}, PageRequest(offset=20, limit=10)),
        ({"sort": None}, PageRequest()),
        ({"sort": []}, PageRequest()),
        ({"sort": {"field": "name"}}, PageRequest(sort=(ASCENDING_NAME,))),
        (
            {"sort": [DESCENDING_SIZE, {"field": "name"}]},
            PageRequest(sort=(DESCENDING_SIZE, ASCENDING_NAME)),
        ),
        ({"sort": {"field": "-size,name"}}, PageRequest(sort=({"field": "-size,name", "order": "asc"},))),
        ({"big_integers": "string"}, PageRequest(integer_strings=True)),
        ({"cell_limit": 500}, PageRequest(cell_limit=500)),
    ],
)
def test_a_body_asks_for_a_page(values: dict[str, Any], expected: PageRequest) -> None:
    assert parse_body(body(**values)) == expected


@pytest.mark.parametrize(
    "query",
    [
        b"skip=1&offset=2",
        b"limit=1&limit=1",
        b"sort=a&sort=b",
        b"limit=%FF",
        b"limit=\xff",
        b"sort=",
        b"sort=-",
        b"sort=a,,b",
        b"sort=a,-a",
        b"sort=" + b"a" * (MAXIMUM_NAME_LENGTH + 1),
        b"big_integers=yes",
        b"limit=1&" + b"a" * MAXIMUM_QUERY_BYTES,
    ],
)
def test_a_malformed_url_is_refused(query: bytes) -> None:
    with pytest.raises(BadParameterError):
        parse_query(query)


@pytest.mark.quick(30)
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "+1",
        "1.0",
        "1e3",
        "0x10",
        "1_000",
        " 1",
        "1 ",
        "1\n",
        "01",
        "٣",
        "²",
        "true",
        "null",
        "9" * 17,
    ],
)
@pytest.mark.parametrize("name", ["limit", "skip", "offset"])
def test_a_number_in_a_url_is_plain_digits(name: str, text: str) -> None:
    with pytest.raises(BadParameterError, match=name):
        parse_query(urlencode({name: text}).encode())


@pytest.mark.parametrize("text", ["-1", "1.0", "1e3", "true", '"1"', "[1]", "{}", "1" + "0" * 16, "1" * 300])
@pytest.mark.parametrize("name", ["limit", "offset"])
def test_a_number_in_a_body_is_a_json_integer(name: str, text: str) -> None:
    with pytest.raises(BadParameterError, match=name):
        parse_body(f'{{"{name}": {text}}}'.encode())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"text"',
        b"{} {}",
        b'{"limit": NaN}',
        b'{"limit": Infinity}',
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b'{"sort": {"field": "\xff"}}',
        b'{"sort": {"field": "\\ud800"}}',
        b"[" * 60_000,
        b'{"sort":' * 8_000,
        b"[" * 30_000 + b"]" * 30_000,
    ],
)
def test_a_body_that_is_no_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(BadParameterError):
        parse_body(text)


@pytest.mark.parametrize(
    "sort",
    [
        "name",
        1,
        True,
        [None],
        ["name"],
        [[]],
        {},
        {"field": ""},
        {"field": None},
        {"field": 1},
        {"field": ["name"]},
        {"field": "x" * (MAXIMUM_NAME_LENGTH + 1)},
        {"field": "name", "order": "DESC"},
        {"field": "name", "order": None},
        {"field": "name", "order": ["asc"]},
        {"field": "name", "nulls": "last"},
        [{"field": "name"}, {"field": "name", "order": "desc"}],
    ],
)
def test_a_malformed_sort_is_refused(sort: Any) -> None:
    with pytest.raises(BadParameterError):
        parse_body(body(sort=sort))


@pytest.mark.parametrize("value", [True, 1, "yes", ["string"], {"string": 1}])
def test_a_malformed_form_of_integers_is_refused(value: Any) -> None:
    with pytest.raises(BadParameterError, match="big_integers"):
        parse_body(body(big_integers=value))


def test_an_unknown_name_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(BadParameterError, match="Did you mean 'limit'"):
        parse_query(b"limits=10")
    with pytest.raises(BadParameterError, match="Did you mean 'offset'"):
        parse_body(body(offst=10))
    with pytest.raises(BadParameterError, match="Did you mean 'order'"):
        parse_body(body(sort={"field": "name", "ordr": "asc"}))
    with pytest.raises(BadParameterError, match="Write asc or desc"):
        parse_body(body(sort={"field": "name", "order": "DESC"}))


def test_an_unknown_name_without_a_likeness_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        BadParameterError, match="offset, skip, cursor, limit, sort, big_integers, cell_limit"
    ):
        parse_query(b"%00%00=1")


def test_a_huge_unknown_name_is_neither_compared_nor_repeated_in_full() -> None:
    with pytest.raises(BadParameterError) as error:
        parse_body(body(**{"l" * 60_000: 1}))
    assert len(str(error.value)) < 300
    assert len(error.value.details["name"]) == 80


def test_verbs_without_paging_take_no_query() -> None:
    refuse_query(b"")
    with pytest.raises(BadParameterError, match="None is allowed here"):
        refuse_query(b"limit=1")


@given(
    offset=st.integers(0, 10**16 - 1),
    limit=st.integers(0, 10**16 - 1),
    fields=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1, max_size=40).filter(
            lambda name: not name.startswith("-")
        ),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    strings=st.booleans(),
)
def test_both_forms_say_the_same(offset: int, limit: int, fields: list[str], strings: bool) -> None:
    form = "string" if strings else "number"
    sort = ",".join(f"-{name}" for name in fields)
    query = f"skip={offset}&limit={limit}&sort={quote_plus(sort)}&big_integers={form}".encode()
    keys = [{"field": name, "order": "desc"} for name in fields]
    assert parse_query(query) == parse_body(body(offset=offset, limit=limit, sort=keys, big_integers=form))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_page_request_or_a_bad_parameter(garbage: bytes) -> None:
    for parse in (parse_query, parse_body):
        with suppress(BadParameterError):
            parse(garbage)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["offset", "limit", "sort", "big_integers", "cell_limit"]), JSON_VALUES)
)
def test_any_json_object_is_a_well_typed_page_request_or_a_bad_parameter(values: dict[str, Any]) -> None:
    try:
        parameters = parse_body(body(**values))
    except BadParameterError:
        return
    assert parameters.offset >= 0
    assert parameters.limit is None or parameters.limit >= 0
    assert all(key["field"] and key["order"] in ("asc", "desc") for key in parameters.sort)


def test_a_query_string_is_as_long_as_is_allowed() -> None:
    longest = b"cursor=" + b"a" * (MAXIMUM_QUERY_BYTES - 7)
    query = parse_query(longest)
    assert query is not None
    assert query.cursor == longest[7:].decode()
    with pytest.raises(BadParameterError, match="longer than"):
        parse_query(longest + b"a")


@pytest.mark.parametrize("name", ["offset", "skip"])
def test_a_cursor_has_a_place_of_its_own(name: str) -> None:
    """Also beside an offset of 0, which nobody tells from none later."""
    with pytest.raises(BadParameterError, match="cannot be combined"):
        parse_query(b"cursor=a&" + name.encode() + b"=0")
    with pytest.raises(BadParameterError, match="cannot be combined"):
        parse_body(body(cursor="a", offset=0))
