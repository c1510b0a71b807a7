"""Single values of a query string or a JSON body; the rule: strict about the form, and bounded before it is clever."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import orjson

from dualsql.errors import BadParameterError
from dualsql.suggesting import refuse_unknown
from dualsql_client.wire import SortKey

MAXIMUM_QUERY_BYTES = 8 * 1024
MAXIMUM_NAME_LENGTH = 256
# JavaScript's safe integers end at 16 digits, and so does the largest offset a setting should allow.
MAXIMUM_DIGITS = 16

_DIGITS = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_INTEGER_FORMS = {"number": False, "string": True}


def split_query(query_string: bytes) -> dict[str, str]:
    """The parameters by name; a name that is given twice is refused."""
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


def json_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object that a body is."""
    return _object(_decode(body), "The body")


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadParameterError(f"{what} must be a JSON object.")
    return value


def integer_text(name: str, text: str) -> int:
    """A whole number out of a query string."""
    if len(text) > MAXIMUM_DIGITS or not _DIGITS.fullmatch(text):
        raise _not_an_integer(name)
    return int(text)


def integer_value(name: str, value: Any) -> int:
    """A whole number out of JSON."""
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


def integer_form(value: Any) -> bool:
    """Whether whole numbers are wanted as strings."""
    if not isinstance(value, str) or value not in _INTEGER_FORMS:
        raise BadParameterError(
            "big_integers must be 'number' or 'string'.", details={"name": "big_integers"}
        )
    return _INTEGER_FORMS[value]


def flag_value(name: str, value: Any) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise BadParameterError(f"{name} must be true or false.", details={"name": name})
    return value


def sort_text(text: str) -> tuple[SortKey, ...]:
    """`-enrollment,name` as keys."""
    keys = [(part[1:], "desc") if part.startswith("-") else (part, "asc") for part in text.split(",")]
    return _distinct([_sort_key(field, order) for field, order in keys])


def sort_value(value: Any) -> tuple[SortKey, ...]:
    """One key, a list of keys, or null."""
    if value is None:
        return ()
    keys = [_object(key, "A sort key") for key in (value if isinstance(value, list) else [value])]
    for key in keys:
        refuse_unknown(key, ("field", "order"), "key of sort")
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
