"""Query strings and JSON bodies to a page request; the rule: pure, strict, and bounded before it is clever.

Here a value is checked for its form. Whether an offset is too deep or a column exists is decided
where the page is read, the same for every channel.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl

import orjson

from dualsql.errors import BadParameterError
from dualsql_client.wire import SortKey

MAXIMUM_QUERY_BYTES = 8 * 1024
MAXIMUM_NAME_LENGTH = 256
# JavaScript's safe integers end at 16 digits, and so does the largest offset a setting should allow.
MAXIMUM_DIGITS = 16

_QUERY_NAMES = ("offset", "skip", "limit", "sort", "big_integers")
_BODY_NAMES = ("offset", "limit", "sort", "big_integers")
_LINK = b"link="
_DIGITS = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_INTEGER_FORMS = {"number": False, "string": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParameters:
    """Which rows are asked for; `limit` None leaves the size to the server."""

    offset: int = 0
    limit: int | None = None
    sort: tuple[SortKey, ...] = ()
    integer_strings: bool = False


def parse_query(query_string: bytes) -> PageParameters | None:
    """Read `?skip=&limit=&sort=-enrollment,name&big_integers=string`; None when nothing was asked.

    `offset` is another name for `skip`. A column whose name holds a comma or starts with a hyphen
    cannot be written here; POST can name it.

    Raises:
        BadParameterError: a name is unknown or repeated, or a value is malformed.
    """
    values = _split(query_string)
    _refuse_unknown(values, _QUERY_NAMES, "query parameter")
    if not values:
        return None
    return PageParameters(
        offset=_one_offset(values),
        limit=_integer_text("limit", values["limit"]) if "limit" in values else None,
        sort=_sort_text(values["sort"]) if "sort" in values else (),
        integer_strings=_integer_form(values.get("big_integers", "number")),
    )


def refuse_query(query_string: bytes) -> None:
    """Accept no query parameters at all: POST says it in its body, PUT and DELETE have nothing to say."""
    _refuse_unknown(_split(query_string), (), "query parameter")


def parse_listing(query_string: bytes) -> tuple[int | None, str | None]:
    """Limit and cursor of GET on the collection; the cursor is as opaque as it came."""
    values = _split(query_string)
    _refuse_unknown(values, ("limit", "cursor"), "query parameter")
    limit = _integer_text("limit", values["limit"]) if "limit" in values else None
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
    values = _object(_decode(body), "The body")
    _refuse_unknown(values, _BODY_NAMES, "key")
    return PageParameters(
        offset=_integer_value("offset", values.get("offset", 0)),
        limit=_integer_value("limit", values["limit"]) if "limit" in values else None,
        sort=_sort_value(values.get("sort")),
        integer_strings=_integer_form(values.get("big_integers", "number")),
    )


def _split(query_string: bytes) -> dict[str, str]:
    if len(query_string) > MAXIMUM_QUERY_BYTES:
        raise BadParameterError(f"A query string has at most {MAXIMUM_QUERY_BYTES} bytes.", hint="Use POST.")
    try:
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise BadParameterError("The query string is not percent-encoded UTF-8.") from None
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadParameterError("A query parameter is given twice.", hint="Give each parameter once.")
    return values


def _decode(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        hint = 'Send an object such as {"limit": 100}.'
        raise BadParameterError("The body is not valid JSON.", hint=hint) from None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadParameterError(f"{what} must be a JSON object.")
    return value


def _refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    # Comparing names costs the product of their lengths, and this one is the caller's.
    name = unknown[:80]
    close = get_close_matches(name, known, n=1)
    allowed = f"Known here: {', '.join(known)}." if known else "None is accepted here."
    hint = f"Did you mean {close[0]!r}?" if close else allowed
    raise BadParameterError(f"Unknown {what} {name!r}.", hint=hint, details={"name": name, "known": [*known]})


def _one_offset(values: Mapping[str, str]) -> int:
    given = {_integer_text(name, values[name]) for name in ("offset", "skip") if name in values}
    if len(given) > 1:
        raise BadParameterError("skip and offset contradict each other.", hint="They are one: give either.")
    return given.pop() if given else 0


def _integer_text(name: str, text: str) -> int:
    if len(text) > MAXIMUM_DIGITS or not _DIGITS.fullmatch(text):
        raise _not_an_integer(name)
    return int(text)


def _integer_value(name: str, value: Any) -> int:
    # bool is a kind of int in Python; in JSON, true is not 1.
    if type(value) is not int or value < 0 or value >= 10**MAXIMUM_DIGITS:
        raise _not_an_integer(name)
    return value


def _not_an_integer(name: str) -> BadParameterError:
    return BadParameterError(
        f"{name} must be a whole number of at most {MAXIMUM_DIGITS} digits, not negative.",
        hint="Write plain digits: no sign, fraction or exponent.",
        details={"name": name},
    )


def _integer_form(value: Any) -> bool:
    if not isinstance(value, str) or value not in _INTEGER_FORMS:
        raise BadParameterError(
            "big_integers must be 'number' or 'string'.", details={"name": "big_integers"}
        )
    return _INTEGER_FORMS[value]


def _sort_text(text: str) -> tuple[SortKey, ...]:
    keys = [(part[1:], "desc") if part.startswith("-") else (part, "asc") for part in text.split(",")]
    return _distinct([_sort_key(field, order) for field, order in keys])


def _sort_value(value: Any) -> tuple[SortKey, ...]:
    if value is None:
        return ()
    keys = [_object(key, "A sort key") for key in (value if isinstance(value, list) else [value])]
    for key in keys:
        _refuse_unknown(key, ("field", "order"), "key of sort")
    return _distinct([_sort_key(key.get("field"), key.get("order", "asc")) for key in keys])


def _sort_key(field: Any, order: Any) -> SortKey:
    if not isinstance(field, str) or not 0 < len(field) <= MAXIMUM_NAME_LENGTH:
        raise BadParameterError(
            f"A sort key needs a column name of 1 to {MAXIMUM_NAME_LENGTH} characters.",
            hint='Write sort=-enrollment,name in a URL, {"field": "enrollment", "order": "desc"} in a body.',
            details={"name": "sort"},
        )
    if order == "asc":
        return {"field": field, "order": "asc"}
    if order == "desc":
        return {"field": field, "order": "desc"}
    raise BadParameterError("order must be 'asc' or 'desc'.", details={"name": "sort"})


def _distinct(keys: list[SortKey]) -> tuple[SortKey, ...]:
    if len({key["field"] for key in keys}) != len(keys):
        raise BadParameterError("A column appears twice in sort.", details={"name": "sort"})
    return tuple(keys)
