"""Parses paths, query strings, JSON bodies and Accept headers. Sizes are checked before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl

import orjson
from starlette.datastructures import Headers
from starlette.requests import Request

from dualsql.errors import BadCursorError, BadParameterError, refuse_unknown
from dualsql.formats.table import FORMATS
from dualsql.formats.writer import Format, WriterOptions
from dualsql.http import problems
from dualsql.results.pages import PageRequest
from dualsql.results.streams import Resumption, StreamRequest
from dualsql.settings import Settings
from dualsql.store.rows import ID_PATTERN, is_storable_id
from dualsql_client.wire import RESUME_HEADER, SortKey

RESOURCE_ID: Mapping[str, Any] = {"type": "string", "pattern": f"^{ID_PATTERN}$"}
# A MAC of 32 bytes in base64.
TOKEN: Mapping[str, Any] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"}
DIGEST: Mapping[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
"""The JSON Schemas of an id, and of `resume` and `last`."""

# No resource has this id. The store is still asked, so that the answer takes as long as for any other id.
_NO_RESOURCE = "-" * 27


def resource_id_of(request: Request) -> str:
    """The id of the resource in a request's path."""
    resource_id: str = request.path_params["resource_id"]
    return resource_id if is_storable_id(resource_id) else _NO_RESOURCE


# RFC 9110, 4.1: every recipient should take URIs of 8,000 bytes; nginx takes no longer line by default.
MAXIMUM_QUERY_BYTES = 8 * 1024
MAXIMUM_NAME_LENGTH = 256
MAXIMUM_COLUMNS = 10_000
# JavaScript's safe integers end at 16 digits, and so does the largest offset a setting should allow.
_MOST_DIGITS = 16

PAGE_QUERY = ("offset", "skip", "cursor", "limit", "sort", "big_integers", "cell_limit")
PAGE_BODY = ("offset", "cursor", "limit", "sort", "big_integers", "cell_limit")
# Of `PageRequest`, by the names of their parameters.
_PAGE_FIELDS = {"offset": "offset", "skip": "offset", "limit": "limit", "sort": "sort",
                "big_integers": "integer_strings", "cell_limit": "cell_limit"}  # fmt: skip
LISTING_QUERY = ("limit", "cursor")
COUNT_QUERY = ("count",)

ParameterKind = Literal[
    "format", "names", "sort", "rows", "offset", "cursor", "flag", "words", "token", "digest"
]


class StreamParameter(NamedTuple):
    """A parameter of streams.

    Attributes:
        kind: how its value is written: see `_from_text`, `_value`, and the schemas in `dualsql.openapi.operations`.
        meaning: for callers.
        option: the field of `WriterOptions` that it sets; empty for those that `parse_stream` names.
        words: the words of the kind "words", with their values.
    """

    kind: ParameterKind
    meaning: str
    option: str = ""
    default: Any = None
    words: Mapping[str, Any] | None = None


STREAM_PARAMETERS: Mapping[str, StreamParameter] = {
    "format": StreamParameter("format", "The format; by default the one that Accept prefers."),
    "columns": StreamParameter("names", "The columns, in this order; all by default."),
    "sort": StreamParameter("sort", "The order. In a URL, names joined by commas; - is descending."),
    "limit": StreamParameter("rows", "The most rows."),
    "cursor": StreamParameter(
        "cursor", "next_cursor or previous_cursor of another answer, instead of offset."
    ),
    **{
        each.metadata["parameter"] or each.name: StreamParameter(
            each.metadata["kind"], each.metadata["meaning"], each.name, each.default, each.metadata["words"]
        )
        for each in fields(WriterOptions)
    },
    "resume": StreamParameter("token", f"{RESUME_HEADER} of the stream that broke."),
    "after": StreamParameter("offset", "Rows already received; required with resume."),
    "last": StreamParameter("digest", "The digest of the last row received."),
}
"""By name: in a URL, in a body, in OpenAPI."""

_KINDS: Mapping[str, ParameterKind] = {
    **{name: parameter.kind for name, parameter in STREAM_PARAMETERS.items()},
    **dict.fromkeys(("offset", "skip", "cell_limit"), "offset"),
}


def split_query(query_string: bytes) -> dict[str, str]:
    """The parameters by name. A name that appears twice is refused."""
    if not query_string:
        return {}
    if len(query_string) > MAXIMUM_QUERY_BYTES:
        raise BadParameterError(
            f"The query string is longer than {MAXIMUM_QUERY_BYTES} bytes.", hint="Send the request as POST."
        )
    try:
        # Blank values are malformed, not left out; and a wrong byte must not become U+FFFD in a name.
        pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise BadParameterError("The query string is not percent-encoded UTF-8.") from None
    values = dict(pairs)
    if len(values) != len(pairs):
        raise BadParameterError("A query parameter appears twice.", hint="Give each parameter once.")
    return values


_OTHERS = {"rows": (STREAM_PARAMETERS, "Send it to /rows."), "pages": (PAGE_QUERY, "Send it without /rows.")}
"""The parameters of a route for a result's rows, and where they are sent, for a request of the other one."""


def query_values(
    texts: Mapping[str, str], allowed: Collection[str], other: str | None = None
) -> dict[str, Any]:
    """The parameters of a query string as a body has them: `sort=-enrollment,name` is a list of two objects.

    A column whose name contains a comma or starts with a hyphen can be named only in a body.
    """
    _refuse_others(texts, allowed, "query parameter", other)
    return {name: _from_text(_KINDS[name], text) for name, text in texts.items()}


def _from_text(kind: ParameterKind, text: str) -> Any:
    """The value in JSON. A text that has none stays a text, which the reader of the kind refuses."""
    match kind:
        case "names":
            return text.split(",")
        case "sort":
            return [
                {"field": part.removeprefix("-"), "order": "desc" if part.startswith("-") else "asc"}
                for part in text.split(",")
            ]
        case "rows" | "offset" if len(text) <= _MOST_DIGITS and re.fullmatch("0|[1-9][0-9]*", text):
            return int(text)
        case "flag":
            return {"true": True, "false": False}.get(text, text)
        case _:
            return text


def json_object(body: bytes) -> Mapping[str, Any]:
    """Parse a body that must be a JSON object."""
    try:
        return _object(orjson.loads(body), "The body")
    except orjson.JSONDecodeError:
        hint = 'Send an object such as {"limit": 100}.'
        raise BadParameterError("The body is not valid JSON.", hint=hint) from None


def body_values(body: bytes, allowed: Collection[str], other: str | None = None) -> dict[str, Any]:
    """The values of a JSON body. A key with null is as if left out."""
    values = json_object(body)
    _refuse_others(values, allowed, "key", other)
    return without_nulls(values)


def _refuse_others(names: Collection[str], allowed: Collection[str], what: str, other: str | None) -> None:
    """Refuse a name that is not allowed here; `other` is the route that may have it, "rows" or "pages"."""
    if set(allowed).issuperset(names):
        return
    elsewhere, hint = _OTHERS[other] if other else ((), "")
    if name := next((name for name in names if name in elsewhere and name not in allowed), None):
        raise BadParameterError(
            f"{name} is for {other}.", hint=hint, details={"name": name, "known": [*allowed]}
        )
    refuse_unknown(names, allowed, what)


def without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not null: programs write null for what they leave out."""
    return {name: value for name, value in values.items() if value is not None}


def parse_listing(query_string: bytes) -> tuple[int | None, str | None]:
    """Limit and cursor of GET on the collection; the cursor is not decoded."""
    values = query_values(split_query(query_string), LISTING_QUERY)
    return _value(values, "limit"), values.get("cursor")


def refuse_query(query_string: bytes) -> None:
    """Refuse all query parameters: POST has its body, and PUT and DELETE have no parameters."""
    refuse_unknown(split_query(query_string), (), "query parameter")


def parse_page(values: Mapping[str, Any], *, takes_text: bool = False) -> PageRequest:
    """The page that the values of a body or a query string describe. Other names are ignored."""
    fields: dict[str, Any] = {}
    for name in filter(_PAGE_FIELDS.__contains__, values):
        value = _value(values, name)
        if fields.setdefault(_PAGE_FIELDS[name], value) != value:
            raise BadParameterError(
                "skip and offset have different values.", hint="They mean the same: give one of them."
            )
    return PageRequest(**fields, cursor=_cursor(values), takes_text=takes_text)


def parse_stream(values: Mapping[str, Any], headers: Headers) -> StreamRequest:
    """The stream that the values of a body or a query string describe; see `dualsql_client.wire_requests.RowsBody`.

    Raises:
        BadParameterError: a value is malformed.
        NotAcceptableError: no format is named, and Accept allows none.
    """
    return StreamRequest(
        columns=_value(values, "columns"),
        sort=_value(values, "sort", ()),
        limit=_value(values, "limit"),
        cursor=_cursor(values),
        options=WriterOptions(
            **{
                parameter.option: _value(values, name)
                for name, parameter in STREAM_PARAMETERS.items()
                if parameter.option and name in values
            }
        ),
        resumption=_resumption(values),
        format=chosen_format(values.get("format"), headers).name,
    )


def _resumption(values: Mapping[str, Any]) -> Resumption | None:
    if "resume" not in values:
        for name in ("after", "last"):
            if name in values:
                raise BadParameterError(f"{name} requires resume.", details={"name": name})
        return None
    if "after" not in values:
        raise BadParameterError(
            "resume requires after: the number of rows already received.", details={"name": "after"}
        )
    return Resumption(
        token=_value(values, "resume"), after=_value(values, "after"), last=_value(values, "last")
    )


def _cursor(values: Mapping[str, Any]) -> str | None:
    """The cursor, not decoded."""
    if "cursor" in values and ("offset" in values or "skip" in values):
        raise BadParameterError("cursor and offset cannot be combined.", hint="Give one of them.")
    cursor = values.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise BadCursorError
    return cursor


def _value(values: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of a parameter, read by its kind."""
    return _READERS[_KINDS[name]](name, values[name]) if name in values else default


def integer_value(name: str, value: Any) -> int:
    """A whole number from JSON."""
    # bool is a kind of int in Python; in JSON, true is not 1.
    if type(value) is not int or value < 0 or value >= 10**_MOST_DIGITS:
        raise BadParameterError(
            f"{name} must be a whole number from 0 with at most {_MOST_DIGITS} digits.",
            hint="Write plain digits: no sign, fraction or exponent.",
            details={"name": name},
        )
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadParameterError(f"{name} must be true or false.", details={"name": name})
    return value


def _sort(name: str, value: Any) -> tuple[SortKey, ...]:
    """Sort keys: one key, or a list of keys."""
    keys = [_object(key, "A sort key") for key in (value if isinstance(value, list) else [value])]
    for key in keys:
        refuse_unknown(key, ("field", "order"), "key of sort")
        if not _is_name(key.get("field")):
            raise BadParameterError(
                f"A sort key needs a column name of 1 to {MAXIMUM_NAME_LENGTH} characters.",
                hint='Write sort=-enrollment,name in a URL, or {"field": "enrollment", "order": "desc"} in a body.',
                details={"name": name},
            )
        if key.get("order", "asc") not in ("asc", "desc"):
            raise BadParameterError("order is malformed.", hint="Write asc or desc.", details={"name": name})
    if len({key["field"] for key in keys}) != len(keys):
        raise BadParameterError("A column appears twice in sort.", details={"name": name})
    return tuple(SortKey(field=key["field"], order=key.get("order", "asc")) for key in keys)


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadParameterError(f"{what} must be a JSON object.")
    return value


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAXIMUM_NAME_LENGTH


def _word(name: str, value: Any) -> Any:
    words = STREAM_PARAMETERS[name].words or {}
    if not isinstance(value, str) or value not in words:
        allowed = " or ".join(map(repr, words))
        raise BadParameterError(f"{name} must be {allowed}.", details={"name": name})
    return words[value]


def _names(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= MAXIMUM_COLUMNS:
        wrong = f"{name} must be a list of 1 to {MAXIMUM_COLUMNS} column names."
    elif not all(map(_is_name, value)):
        wrong = f"A column name in {name} must have 1 to {MAXIMUM_NAME_LENGTH} characters."
    elif len(set(value)) != len(value):
        wrong = f"A column appears twice in {name}."
    else:
        return tuple(value)
    hint = f'Write {name}=name,city in a URL, or {{"{name}": ["name", "city"]}} in a body.'
    raise BadParameterError(wrong, hint=hint, details={"name": name})


def _token(name: str, value: Any) -> str:
    schema = TOKEN if name == "resume" else DIGEST
    if not isinstance(value, str) or not re.fullmatch(schema["pattern"], value, re.ASCII):
        raise BadParameterError(
            f"{name} is malformed.",
            hint="Send resume as the stream's header gave it, and last as the digest of the last row.",
            details={"name": name},
        )
    return value


_READERS: Mapping[ParameterKind, Callable[[str, Any], Any]] = {
    "names": _names,
    "sort": _sort,
    "rows": integer_value,
    "offset": integer_value,
    "flag": _flag,
    "words": _word,
    "token": _token,
    "digest": _token,
}
"""By kind, functions that check a value in JSON; the others are checked where they are used."""


def read_json_body(request: Request, settings: Settings) -> Awaitable[bytes]:
    """Read a body whose Content-Type is JSON, without parsing it.

    Raises:
        UnsupportedBodyError: another media type, another charset than UTF-8, or compressed.
        BodyTooLargeError, SlowBodyError, CallerGoneError: see `read_body`.
    """
    headers = dict(reversed(list(request.scope["headers"])))  # of equal names, the first
    media_type, _, parameters = headers.get(b"content-type", b"").lower().replace(b" ", b"").partition(b";")
    # A form or text/plain could be posted from any site without a CORS preflight; JSON cannot.
    if media_type != b"application/json" or parameters not in (b"", b"charset=utf-8", b'charset="utf-8"'):
        raise problems.UnsupportedBodyError("The Content-Type of the body is not JSON in UTF-8.")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise problems.UnsupportedBodyError("The body is compressed.")
    return read_body(request, settings)


async def read_body(request: Request, settings: Settings) -> bytes:
    """Read a body of any type.

    Raises:
        BodyTooLargeError: it is longer than `maximum_body_size`; the rest is not read.
        SlowBodyError: it is not complete within `body_timeout`.
        CallerGoneError: the connection closed before the end.
    """
    limit = settings.maximum_body_size
    announced = next((value for name, value in request.scope["headers"] if name == b"content-length"), b"")
    # int() raises ValueError for more than 4,300 digits (sys.set_int_max_str_digits); 20 are too many bytes.
    if announced.isdigit() and int(announced[:20]) > limit:
        raise problems.BodyTooLargeError(limit)
    if hasattr(request, "_body") or request._stream_consumed:  # noqa: SLF001 - `authenticate` has read it
        whole = await request.body()
        if len(whole) > limit:
            raise problems.BodyTooLargeError(limit)
        return whole
    body, is_whole, late = bytearray(), False, "The request body did not arrive in time."
    with problems.Interruption(problems.SlowBodyError, late, settings.body_timeout.total_seconds()):
        while not is_whole:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise problems.CallerGoneError("The connection closed before the body was complete.")
            body += message.get("body", b"")
            if len(body) > limit:
                raise problems.BodyTooLargeError(limit)
            is_whole = not message.get("more_body", False)
    request._body = whole = bytes(body)  # noqa: SLF001 - `authenticate` may read it, too
    return whole


_MOST_RANGES = 100


def preferred_media_type(accepted: Sequence[str], offered: Sequence[str]) -> str | None:
    """The media type of `offered` with the highest weight in Accept; the first one if there is no such header."""
    weights = _weights(accepted)
    if not weights:
        return offered[0]

    def weight(offer: str) -> float:
        # The most precise range that matches decides, not the heaviest (RFC 9110, 12.5.1).
        ranges = (offer, f"{offer.partition('/')[0]}/*", "*/*")
        return next((weights[name] for name in ranges if name in weights), 0.0)

    best = max(offered, key=weight)  # the first one of equal weight
    return best if weight(best) > 0 else None


def preferred_coding(accepted: Sequence[str], offered: Iterable[str]) -> str | None:
    """The content coding of `offered` for these values of Accept-Encoding; None for no coding at all.

    Raises:
        NotAcceptableError: the caller accepts neither an offered coding nor an uncoded answer.
    """
    codings = _weights(accepted)
    weights = {coding: codings.get(coding, codings.get("*", 0.0)) for coding in offered}
    # No coding is acceptable, unless identity or * has the weight 0 (RFC 9110, 12.5.3).
    plain = codings.get("identity", codings.get("*"))
    best = max(weights, key=weights.__getitem__, default=None)
    if best is not None and weights[best] > 0 and weights[best] >= (plain or 0):
        return best
    if plain == 0:
        raise problems.NotAcceptableError(
            "The server supports no content coding that Accept-Encoding allows.",
            hint="Send Accept-Encoding: gzip.",
        )
    return None


def _weights(values: Sequence[str]) -> dict[str, float]:
    """The weight of each range of a header. Parameters other than `q` are ignored."""
    weights = {}
    for item in ",".join(values).lower().split(",", _MOST_RANGES)[:_MOST_RANGES]:
        name, *parameters = [part.strip() for part in item.split(";")]
        text = next((part[2:10] for part in parameters if part.startswith("q=")), "1")
        try:
            weight = float(text)
        except ValueError:
            weight = 0.0
        if name:
            weights[name] = weight if 0 <= weight <= 1 else 0.0  # "nan" compares false
    return weights


def chosen_format(name: Any, headers: Headers) -> Format:
    """The format of that name, or for None the one with the highest weight in Accept.

    Raises:
        BadParameterError: no format has that name.
        NotAcceptableError: none is acceptable.
    """
    if name is not None:
        if not isinstance(name, str):
            raise BadParameterError("format must be a string.", details={"name": "format"})
        return FORMATS[name]
    offered = {format_.media_type: format_ for format_ in FORMATS.values()}
    media_type = preferred_media_type(headers.getlist("accept"), list(offered))
    if media_type is None:
        raise problems.NotAcceptableError(
            "The server has no row format that Accept allows.",
            hint=f"Accept one of: {', '.join(offered)}.",
            details={"formats": {format_.name: format_.media_type for format_ in FORMATS.values()}},
        )
    return offered[media_type]
