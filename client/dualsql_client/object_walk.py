"""Finds the mappings inside any object that an SDK returns, with a bounded search.

It reads stored attributes only, so no property and no `__getattr__` of an SDK runs. It compares `type` and does not
call isinstance(), which reads the object's `__class__`."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from types import ModuleType
from typing import Any, cast

from dualsql_client.identifiers import may_hold_id
from dualsql_client.links import ARGUMENTS, is_quotation

MAXIMUM_NODES = 100_000
MAXIMUM_HIDDEN_NODES = 20_000
MAXIMUM_DEPTH = 32
MAXIMUM_JSON_NESTING = 4
MAXIMUM_JSON_CHARACTERS = 16 * 1024 * 1024
MAXIMUM_TEXTS = 1_000
_LONGEST_NAME = 200

Fields = Mapping[Any, Any]

_LISTS = (list, tuple, set, frozenset, deque)
_Text = str | bytes | bytearray | memoryview
_TEXTS = (str, bytes, bytearray, memoryview)
_LEAVES = (int, float, type, ModuleType, type(None))
# Compared first, by identity: most values of a large result have these types.
_PLAIN_LEAVES = frozenset({int, float, bool, type(None)})
_PLAIN_CONTAINERS = frozenset({dict, list})

_SHORTEST_TEXT = 24
"""The id of a result and the JSON of a dual response are longer."""

_BEGINS_JSON = re.compile(r"\s{0,64}(?:\{|\"|\[\s{0,64}(?:[\[{\"\]\d-]|true|false|null))")
_BRACKET = re.compile(r"\{\s{0,64}\"|\[\s{0,64}[\[{\"]")
_BRACKET_OR_STRING = re.compile(rf"{_BRACKET.pattern}|\"\s{{0,64}}[\[{{]\s{{0,64}}\\\"")
"""Also the beginning of a string whose text is JSON."""
_MOST_REPEATED = 8
"""How many times the characters of a text that is not JSON are read as JSON."""
_SHORTEST_BASE64 = 44
"""That of an id."""
_BASE64 = re.compile(
    r"(?:data:[\w.+/-]{0,100}(?:;[\w.+=-]{1,100}){0,4},)?([\w+/-]++(?:\r?\n[\w+/-]++)*+={0,2})\s{0,2}",
    re.ASCII,
)
_ENCODED = re.compile(
    r"(?<![\w+/-])[\w+/-]{60,}+(?:\r?\n[ \t]{0,40}[\w+/-]++(?=\r?\n|=|\Z|[\"'<\\]))*+", re.ASCII
)
"""Base64 or hexadecimal digits within a text, as long as those of the URI of a result, or longer."""
_HEXADECIMAL = re.compile(r"(?:\\?[xX]|0[xX])?([0-9a-fA-F]{60,}+)")
_COMPRESSED = (b"\x1f\x8b", b"x\x01", b"x\x9c", b"x\xda")
"""The beginnings of data of gzip and zlib."""
_MOST_EXPANSION = 32
"""How many times as long compressed data may become: JSON becomes 10 times as long."""
_NUMBERS = re.compile(r"(?<!\d)(?:\d{1,3},\s?){24}")
"""Bytes as JSON has them."""
_AROUND_ENCODED = re.compile(
    r"((?:%(?!25)[0-9a-f]{2})++)|%25([0-9a-f]{2})?|=(3D)|\x1b\[[\d;]{0,20}m", re.IGNORECASE
)
"""How forms and mails write what is in and around base64, and how terminals colour it."""
_FOR_URLS = str.maketrans("-_", "+/", "\r\n")
_BEGINS_LINE = re.compile(r"^(?:data:|>) ?", re.MULTILINE)
"""What begins each line of a server-sent event and of a quotation."""
_SOFT_BREAK = re.compile(r"=\r?\n")
"""Where quoted-printable breaks a line."""
_IN_ARGUMENTS = re.compile(rf"{ARGUMENTS}\Z", re.ASCII | re.IGNORECASE)


class Evidence(IntEnum):
    """What counts as evidence at a place: nothing, dual responses alone, or links as well."""

    NOTHING = 0
    RESPONSES = 1
    ANYTHING = 2


def fields_of(value: object, *, hidden: bool = False) -> Fields | None:
    """Names and values of a mapping, dataclass, pydantic model or any other object that keeps attributes.

    Args:
        hidden: with the attributes whose names begin with one underscore.
    """
    kind = type(value)
    if kind is dict or issubclass(kind, Mapping):
        return cast(Fields, value)
    if issubclass(kind, (*_TEXTS, *_LISTS, *_LEAVES)):
        return None
    slots = {name: item for name in _slots(kind) if (item := _attribute_of(value, name)) is not None}
    # pydantic stores undeclared values (extra="allow") apart from the fields.
    stored = (slots, _attribute_of(value, "__dict__"), _attribute_of(value, "__pydantic_extra__"))
    private = "__" if hidden else "_"
    return {
        name: item for part in stored if part for name, item in part.items() if not name.startswith(private)
    }


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _attribute_of(value: object, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


class Walk:
    """Visits the mappings inside a value, the shallowest first, each once; the caller decides where to `descend`.

    True while values remain to be visited. JSON in a text is opened: the whole text, or values on lines of their own
    and after other words, such as log lines, fenced blocks and server-sent events.

    Args:
        read_text: is called with each text outside of such JSON, and returns what counts inside the JSON in it.
        hidden: visit private attributes, too, and fewer values in all: private attributes lead to many more.

    Attributes:
        met_objects: whether a visited value has attributes.
        scope: what counts at the visited value.
        kind: the name of the class of the visited value.
    """

    def __init__(self, root: object, *, read_text: Callable[[str], Evidence], hidden: bool = False) -> None:
        self.met_objects = False
        self.scope = Evidence.ANYTHING
        self.kind = ""
        self._read_text = read_text
        self._hidden = hidden
        self._maximum = MAXIMUM_HIDDEN_NODES if hidden else MAXIMUM_NODES
        self._queue: deque[tuple[object, int, int, Evidence]] = deque()
        # The values are stored with their ids: another value may get the id of a freed one.
        self._visited: dict[int, tuple[object, Evidence]] = {}
        self._characters = MAXIMUM_JSON_CHARACTERS
        self._depth, self._nesting = -1, 0
        self._push_all((root,), self.scope)

    def __bool__(self) -> bool:
        return bool(self._queue) and len(self._visited) < self._maximum

    def step(self) -> Fields | None:
        """Visit the next value. Returns its fields; None when it is no mapping or was visited before."""
        value, self._depth, self._nesting, self.scope = self._queue.popleft()
        visit = self._visited.get(id(value))
        if visit is not None and visit[1] >= self.scope:
            return None
        self._visited[id(value)] = value, self.scope
        kind = type(value)
        self.kind = kind.__name__
        if kind is dict:
            return value  # type: ignore[return-value]  # a cast would cost time for each row
        if issubclass(kind, _TEXTS):
            self._open(cast("_Text", value))
        elif kind is list and (attributes := _attributes(cast("list[object]", value))):
            return attributes
        elif kind is list and (data := _bytes_of(cast("list[object]", value))):
            self._open(data)
        elif issubclass(kind, _LISTS):
            self._push_all(cast("Iterable[object]", value), self.scope)
        else:
            self.met_objects = True
            return fields_of(value, hidden=self._hidden)
        return None

    def descend(
        self, pairs: Iterable[tuple[object, object]], scope_of: Callable[[object, object], Evidence]
    ) -> None:
        """Visit values of a mapping, too, each in the scope of its name."""
        if self._depth < MAXIMUM_DEPTH:
            self._queue.extend(
                (value, self._depth + 1, self._nesting, scope_of(name, value)) for name, value in pairs
            )

    def _push_all(self, values: Iterable[object], scope: Evidence) -> None:
        if self._depth < MAXIMUM_DEPTH:
            for value in values:
                if _may_lead_on(value):
                    self._queue.append((value, self._depth + 1, self._nesting, scope))

    def _open(self, value: _Text) -> None:
        text = _text_of(value)
        while plain := _of_base64(text):
            text = plain
        values: list[tuple[Any, Evidence]] = []
        rest = text
        is_opened = self._nesting < MAXIMUM_JSON_NESTING and len(text) <= self._characters
        if is_opened:
            self._characters -= len(text)
            whole = _whole(text)
            values, rest = (whole, "") if whole else _json_within(_join_lines(text))
        scope = self.scope
        if rest and scope is Evidence.ANYTHING:
            scope = self._read_text(rest)
        if is_opened and scope is not Evidence.RESPONSES:
            values += _encoded_within(rest)
        self._nesting += 1
        for inner, evidence in values:
            self._push_all((inner,), min(scope, evidence))


def _json_within(text: str) -> tuple[list[tuple[Any, Evidence]], str]:
    """The JSON values within a text that may hold a result, with what counts in each, and the text without them.

    The lines within a value that is no JSON, or is truncated, are no values of their own. The values behind its error
    on the same line may be parts of it: in them, as in strings, only dual responses count, and they remain in the text.
    """
    values: list[tuple[Any, Evidence]] = []
    rest: list[str] = []
    at = line = scanned = value_end = 0
    broken = -1  # the line of such a value
    budget = _MOST_REPEATED * len(text)
    beginning = _BRACKET_OR_STRING if '\\"' in text else _BRACKET
    while budget > 0 and len(values) < MAXIMUM_TEXTS and (bracket := beginning.search(text, at)):
        start = bracket.start()
        line, scanned = max(line, text.rfind("\n", scanned, start) + 1), start
        if -1 < broken < line and text[line] in " \t}]":
            at = text.find("\n", start) + 1 or len(text)
            continue
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            stop = _position(error, len(text))
            # The error counts the lines before it, 32 times as fast as the decoder reads.
            budget -= stop - start + stop // 32 + 64
            at = start + 1
            if text[start] == "{":
                following = text.find("\n", start, stop)
                broken, at = line, max(at, stop if following < 0 else following)
            continue
        if line > broken:
            broken = -1
        if not _may_hold_result(text[start:at]):
            continue
        if broken == line:
            values.append((value, Evidence.RESPONSES))
            continue
        is_argument = _IN_ARGUMENTS.search(text, max(start - _LONGEST_NAME, 0), start)
        if isinstance(value, str):
            is_hidden = is_argument or is_quotation(text, start, at)
            values.append((value, Evidence.NOTHING if is_hidden else Evidence.RESPONSES))
            continue
        values.append((value, Evidence.NOTHING if is_argument else Evidence.ANYTHING))
        rest.append(text[value_end:start])
        value_end = at
    return values, " ".join((*rest, text[value_end:]))


def _position(error: Exception, end: int) -> int:
    """The position at which the decoder stopped; `end` for deep nesting and a string without its end."""
    is_within = isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated string")
    return error.pos if is_within else end  # type: ignore[attr-defined]


def leading_pairs(fields: Fields) -> list[tuple[object, object]]:
    """Names and values that may hold a result. Most rows of a table have none."""
    return [(name, value) for name, value in fields.items() if _may_lead_on(value)]


def _may_lead_on(value: object) -> bool:
    """Whether a value has values, or is a text that may hold a result."""
    kind = type(value)
    if kind in _PLAIN_LEAVES:
        return False
    if kind in _PLAIN_CONTAINERS:
        return True
    if issubclass(kind, _TEXTS):
        return _may_hold_result(cast("_Text", value))
    return not issubclass(kind, _LEAVES)


_DECODER = json.JSONDecoder()


def _may_hold_result(text: _Text) -> bool:
    """Whether the text may contain a dual response or the id of a result."""
    text = _text_of(text)
    if len(text) < _SHORTEST_TEXT:
        return False
    is_encoded = any(mark in text for mark in ("resource", "=\n", "=\r", "\\u00"))
    return (
        is_encoded
        or may_hold_id(text)
        or _base64(text) is not None
        or ("," in text and _NUMBERS.search(text) is not None)
        or _ENCODED.search(_without_escapes(text)) is not None
    )


def _text_of(value: _Text) -> str:
    """A text, or that of bytes in UTF-8 or UTF-16."""
    if isinstance(value, str):
        return value
    try:
        data = value.tobytes() if isinstance(value, memoryview) else value
    except ValueError:  # it is released
        return ""
    return data.decode(_encoding(data), "replace")


def _encoding(data: bytes | bytearray) -> str:
    if data[:2] in (BOM_UTF16_LE, BOM_UTF16_BE):
        return "utf-16"
    # Not the header of a message, such as that of gRPC and of Kafka's schemas.
    is_wide = len(data) > 3 and data[0] and not data[1] and data[2] and not data[3]
    return "utf-16-le" if is_wide else "utf-8-sig"


def _whole(text: str) -> list[tuple[Any, Evidence]]:
    """The JSON that a text is, in a list; an empty list for any other text."""
    if not _BEGINS_JSON.match(text):
        return []
    try:
        return [(json.loads(text), Evidence.ANYTHING)]
    except (ValueError, RecursionError):
        return []


def _base64(text: str) -> str | None:
    """The base64 that a text is, also for URLs or of a data URI; None for any other text."""
    match = _BASE64.fullmatch(text) if len(text) >= _SHORTEST_BASE64 else None
    return match[1] if match else None


def _of_base64(text: str) -> str | None:
    """The text whose base64, whole or truncated, or hexadecimal digits a text is; None for any other text."""
    digits = _HEXADECIMAL.fullmatch("".join(text.split()) if "\n" in text else text)
    encoded = (_base64(text) or "").translate(_FOR_URLS).rstrip("=")
    encoded = encoded[:-1] if len(encoded) % 4 == 1 else encoded + "=" * (-len(encoded) % 4)
    try:
        data = (
            bytes.fromhex(digits[1][: len(digits[1]) // 2 * 2])
            if digits
            else b64decode(encoded, validate=True)
        )
    except ValueError:
        return None
    data = _uncompressed(data)
    try:
        return getincrementaldecoder(_encoding(data))("strict").decode(data)
    except ValueError:
        # Of a binary encoding, such as MessagePack, the links are read.
        plain = data.decode(errors="replace")
        return plain if may_hold_id(plain) else None


def _uncompressed(data: bytes) -> bytes:
    """What gzip or zlib made `data` of, whole or truncated; `data` itself if they did not, or of too much."""
    if not data.startswith(_COMPRESSED):
        return data
    reader = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        plain = reader.decompress(data, _MOST_EXPANSION * len(data))
    except zlib.error:
        return data
    # As node does: behind the end, gzip has further data of its own.
    is_broken = reader.unused_data and data[0] == 0x1F
    return data if reader.unconsumed_tail or is_broken else plain


def _encoded_within(text: str) -> list[tuple[Any, Evidence]]:
    """The texts that are encoded within a text, with what counts in each."""
    text = _without_escapes(text)
    values: list[tuple[Any, Evidence]] = []
    for match in _ENCODED.finditer(text):
        if len(values) == MAXIMUM_TEXTS:
            break
        if plain := _of_base64("".join(match.group().split())):
            start, end = match.span()
            is_argument = _IN_ARGUMENTS.search(text, max(start - _LONGEST_NAME, 0), start)
            is_hidden = is_argument or is_quotation(text, start, end)
            values.append((plain, Evidence.NOTHING if is_hidden else Evidence.ANYTHING))
    return values


def _without_escapes(text: str) -> str:
    if not any(mark in text for mark in ("%", "=3D", "\x1b")):
        return text
    return _AROUND_ENCODED.sub(_without_escape, text)


def _without_escape(match: re.Match[str]) -> str:
    run, byte, sign = match.groups()
    if match[0] == "%25":
        return "%"
    return bytes.fromhex((run or byte or sign or "20").replace("%", "")).decode("latin-1")


def _join_lines(text: str) -> str:
    """A text without what begins and breaks its lines in server-sent events, quotations and mails."""
    return _SOFT_BREAK.sub("", _BEGINS_LINE.sub("", text))


_TYPE = re.compile(r"[A-Z]{1,4}|[a-z]+_?[vV]alue|\$number[A-Z][a-z]+")
"""Names of types: of DynamoDB (S, N, M, BOOL), protobuf, Firestore and OpenTelemetry (stringValue), MongoDB."""
_TEXT_TYPES = frozenset({"S", "stringValue", "string_value"})


def nested_fields(fields: Fields) -> Fields:
    """Fields with dotted names, as a span has its attributes, as fields within fields; any others unchanged."""
    names = [name for name in fields if isinstance(name, str) and "." in name]
    if not names or any(len(name) > _LONGEST_NAME for name in names):
        return fields
    levels: dict[Any, dict[Any, Any]] = {}
    for name, value in fields.items():
        first, _, rest = name.partition(".") if isinstance(name, str) else (name, "", "")
        levels.setdefault(first, {})[rest] = value
    return {
        first: inner[""] if inner.keys() == {""} else nested_fields(inner) for first, inner in levels.items()
    }


def _bytes_of(items: list[object]) -> bytes | None:
    """The bytes that a list of numbers is, as JSON has those of a buffer; None for any other list."""
    if len(items) < _SHORTEST_TEXT or type(items[0]) is not int:
        return None
    return bytes(items) if all(type(item) is int and 0 <= item < 256 for item in items) else None  # type: ignore[arg-type]


_VALUE_TYPES = ("string", "boolean", "bool", "number", "json", "int64", "float64")
"""Types of the values of attributes."""
_Plain = dict[int, Any]
"""Plain values by the ids of typed ones: YAML's aliases make one value stand in many places."""


def _attributes(items: list[object], depth: int = 0, plain_values: _Plain | None = None) -> Fields | None:
    """A list of names and values, such as attributes, headers and tags, as a mapping; None for any other list."""
    plain_values = {} if plain_values is None else plain_values
    attributes: dict[str, Any] = {}
    for item in items:
        if type(item) is not dict or not 2 <= len(item) <= 3:
            return None
        pair = {str(name).lower(): value for name, value in item.items()}
        kind = pair.get("type")
        if len(pair) == 3 and not (isinstance(kind, str) and kind in _VALUE_TYPES):
            return None
        name = pair.get("key", pair.get("name"))
        if not isinstance(name, str) or name in attributes or "value" not in pair:
            return None
        attributes[name] = untyped(pair["value"], depth, plain_values)
    return attributes or None


def untyped(value: Any, depth: int = 0, plain_values: _Plain | None = None) -> Any:
    """The plain JSON of JSON that names the type of each value; any other value itself."""
    if not isinstance(value, Mapping) or len(value) != 1 or depth > MAXIMUM_DEPTH:
        return value
    ((kind, inner),) = value.items()
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        return value
    plain_values = {} if plain_values is None else plain_values
    if id(value) not in plain_values:
        plain_values[id(value)] = value  # what a value within itself is
        plain_values[id(value)] = _plain(kind, inner, depth + 1, plain_values)
    return plain_values[id(value)]


def _plain(kind: str, inner: Any, depth: int, plain_values: _Plain) -> Any:
    if isinstance(inner, Mapping) and len(inner) == 1:
        inner = inner.get("fields", inner.get("values", inner))
    if isinstance(inner, Mapping):
        return {name: untyped(item, depth, plain_values) for name, item in inner.items()}
    if isinstance(inner, list):
        return _attributes(inner, depth, plain_values) or [
            untyped(item, depth, plain_values) for item in inner
        ]
    if kind == "NULL":
        return None
    try:
        return json.loads(inner) if isinstance(inner, str) and kind not in _TEXT_TYPES else inner
    except (ValueError, RecursionError):
        return inner
