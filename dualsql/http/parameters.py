"""Query strings and JSON bodies to a page request; the rule: pure, strict, and bounded before it is clever.

Here a value is checked for its form. Whether an offset is too deep or a column exists is decided
where the page is read, the same for every channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dualsql.errors import BadCursorError, BadParameterError
from dualsql.http.fields import (
    integer_form,
    integer_text,
    integer_value,
    json_object,
    sort_text,
    sort_value,
    split_query,
)
from dualsql.suggesting import refuse_unknown
from dualsql_client.wire import SortKey

PAGE_QUERY = ("offset", "skip", "cursor", "limit", "sort", "big_integers")
PAGE_BODY = ("offset", "cursor", "limit", "sort", "big_integers")
LISTING_QUERY = ("limit", "cursor")
_LINK = b"link="


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParameters:
    """Which rows are asked for; `limit` None leaves the size to the server."""

    offset: int = 0
    limit: int | None = None
    sort: tuple[SortKey, ...] = ()
    integer_strings: bool = False
    cursor: str | None = None


def parse_query(query_string: bytes) -> PageParameters | None:
    """Read `?skip=&limit=&sort=-enrollment,name&big_integers=string`; None when nothing was asked.

    `offset` is another name for `skip`. A column whose name holds a comma or starts with a hyphen
    cannot be written here; POST can name it.

    Raises:
        BadParameterError: a name is unknown or repeated, or a value is malformed.
    """
    values = split_query(query_string)
    refuse_unknown(values, PAGE_QUERY, "query parameter")
    if not values:
        return None
    return PageParameters(
        offset=_one_offset(values),
        limit=integer_text("limit", values["limit"]) if "limit" in values else None,
        sort=sort_text(values["sort"]) if "sort" in values else (),
        integer_strings=integer_form(values.get("big_integers", "number")),
        cursor=cursor_value(values),
    )


def parse_count(query_string: bytes) -> str | None:
    """How the rows shall be counted, of `?count=exact`; None when it is not asked.

    Raises:
        BadParameterError: rows are asked for in the same request.
    """
    values = split_query(query_string)
    if "count" not in values:
        return None
    refuse_unknown(values, ("count",), "query parameter beside count")
    return values["count"]


def refuse_query(query_string: bytes) -> None:
    """Accept no query parameters at all: POST says it in its body, PUT and DELETE have nothing to say."""
    refuse_unknown(split_query(query_string), (), "query parameter")


def parse_listing(query_string: bytes) -> tuple[int | None, str | None]:
    """Limit and cursor of GET on the collection; the cursor is as opaque as it came."""
    values = split_query(query_string)
    refuse_unknown(values, LISTING_QUERY, "query parameter")
    limit = integer_text("limit", values["limit"]) if "limit" in values else None
    return limit, values.get("cursor")


def split_link(query_string: bytes) -> tuple[str | None, bytes]:
    """The signed link of a query string, and the rest of it; neither is in any message.

    Raises:
        BadParameterError: two links are given.
    """
    parts = query_string.split(b"&")
    links = [part for part in parts if part.startswith(_LINK)]
    if not links:
        return None, query_string
    if len(links) > 1:
        raise BadParameterError("A query parameter is given twice.", hint="Give each parameter once.")
    rest = b"&".join(part for part in parts if part is not links[0])
    return links[0].removeprefix(_LINK).decode("latin-1"), rest


def parse_body(body: bytes) -> PageParameters:
    """Read `{"offset": 0, "limit": 100, "sort": {"field": "name", "order": "desc"}}`; all keys are optional.

    `sort` is one key, a list of keys, or null. `big_integers` means what it means in a URL.

    Raises:
        BadParameterError: not JSON, not an object, an unknown key, or a value of a wrong type.
    """
    values = json_object(body)
    refuse_unknown(values, PAGE_BODY, "key")
    return PageParameters(
        offset=integer_value("offset", values.get("offset", 0)),
        limit=integer_value("limit", values["limit"]) if "limit" in values else None,
        sort=sort_value(values.get("sort")),
        integer_strings=integer_form(values.get("big_integers", "number")),
        cursor=cursor_value(values),
    )


def _one_offset(values: Mapping[str, str]) -> int:
    given = {integer_text(name, values[name]) for name in ("offset", "skip") if name in values}
    if len(given) > 1:
        raise BadParameterError("skip and offset contradict each other.", hint="They are one: give either.")
    return given.pop() if given else 0


def cursor_value(values: Mapping[str, Any]) -> str | None:
    """The cursor, as opaque as it came; null is none."""
    cursor = values.get("cursor")
    if cursor is None:
        return None
    if not isinstance(cursor, str):
        raise BadCursorError
    if "offset" in values or "skip" in values:
        raise BadParameterError("cursor and offset are two ways to say one thing.", hint="Give either.")
    return cursor
