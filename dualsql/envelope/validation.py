"""The JSON Schemas of both envelopes (draft 2020-12), and validation against them.

The schemas use only keywords that the validation here supports. Fields that they do not name are allowed. Messages
name fields and types, never a value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from itertools import islice
from math import isfinite
from typing import Any, Final

from dualsql.envelope.values import BOUNDS, Bounds, is_plain

Schema = dict[str, Any]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

# RFC 3339; `format` beside it is only an annotation to most validators.
TIMESTAMP_PATTERN: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
# Nothing that a browser would run: web addresses, paths on the same server, and pictures within the URL.
IMAGE_URL_PATTERN: Final = r"^(https?://[^\s\\/][^\s\\]*|/([^\s\\/][^\s\\]*)?|data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+)$"

_TEXT: Final[Schema] = {"type": "string"}
_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_SIZE: Final[Schema] = {"type": "integer", "minimum": 0}
_OBJECT: Final[Schema] = {"type": "object"}


def _when(then: Schema, **constants: object) -> Schema:
    properties = {name: {"const": value} for name, value in constants.items()}
    return {"if": {"properties": properties, "required": list(properties)}, "then": then}


def _item(kind: str, required: list[str], properties: Schema) -> Schema:
    return _when({"required": required, "properties": properties}, type=kind)


CONTENT_ITEM_SCHEMA: Final[Schema] = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": _NAME},
    "allOf": [
        _item("text", ["text"], {"text": _TEXT}),
        _item(
            "image",
            ["url", "altText"],
            {
                "url": {"type": "string", "pattern": IMAGE_URL_PATTERN},
                "altText": _TEXT,
                "width": _SIZE,
                "height": _SIZE,
                "caption": _TEXT,
            },
        ),
        _item(
            "resource",
            ["resourceType", "identifier", "name"],
            {
                "resourceType": _NAME,
                "identifier": _NAME,
                "name": _TEXT,
                "description": _TEXT,
                "metadata": _OBJECT,
            },
        ),
    ],
}

ERROR_SCHEMA: Final[Schema] = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": _NAME, "message": _NAME, "details": _OBJECT},
}

RESPONSE_SCHEMA: Final[Schema] = {
    "$schema": DRAFT,
    "title": "Tool response",
    "type": "object",
    "required": ["success", "timestamp", "content"],
    "properties": {
        "success": {"type": "boolean"},
        "timestamp": {"type": "string", "format": "date-time", "pattern": TIMESTAMP_PATTERN},
        "content": {"type": "array", "minItems": 1, "items": CONTENT_ITEM_SCHEMA},
        "data": _OBJECT,
        "error": ERROR_SCHEMA,
    },
    "allOf": [
        _when({"not": {"required": ["error"]}}, success=True),
        _when({"required": ["error"]}, success=False),
    ],
}
"""JSON Schema of a Response (specification S12)."""

DISPLAY_SCHEMA: Final[Schema] = {
    "type": "object",
    "required": ["type", "content"],
    "properties": {"type": {"enum": ["text", "markdown", "html"]}, "content": _TEXT},
}

_STAGED: Final[Schema] = {
    "properties": {
        "dataAccessId": _NAME,
        "operation": _NAME,
        "table": _NAME,
        "payloadSize": _SIZE,
        "entities": _SIZE,
        "rows": {"type": "array"},
        "queryAccess": {"type": "object", "properties": {"endpoint": _NAME, "example": _TEXT}},
    },
}

# In other data these words are columns like any other.
DATA_SCHEMA: Final[Schema] = {
    "type": "object",
    "allOf": [{"if": {"required": ["dataAccessId"]}, "then": _STAGED}],
}

_METADATA: Final[Schema] = {
    "type": "object",
    "properties": {
        "operation": _NAME,
        "timestamp": {"type": "number", "minimum": 0},
        "status": {"enum": ["success", "error", "staged"]},
        "executionTime": {"type": "number", "minimum": 0},
        "cached": {"type": "boolean"},
        "schema": _OBJECT,
    },
}


def dual_mode_schema(data: Mapping[str, Any] = DATA_SCHEMA) -> Schema:
    """The schema of a dual-mode answer whose `data` has the schema `data`; a tool publishes it as its outputSchema."""
    succeeded = {
        "required": ["data", "metadata"],
        "properties": {"metadata": {"required": ["operation", "timestamp", "status"]}},
        "not": {"required": ["error"]},
    }
    return {
        "$schema": DRAFT,
        "title": "Dual-mode answer",
        "type": "object",
        "required": ["success"],
        "properties": {
            "success": {"type": "boolean"},
            "data": dict(data),
            "error": ERROR_SCHEMA,
            "display": DISPLAY_SCHEMA,
            "metadata": _METADATA,
        },
        "allOf": [_when(succeeded, success=True), _when({"required": ["error"]}, success=False)],
    }


DUAL_MODE_SCHEMA: Final[Schema] = dual_mode_schema()
"""JSON Schema of a dual-mode answer, for any data."""


_MOST_ISSUES = 20
_TOO_MUCH = "The response is not JSON that may be sent: it is too large, too deep, or holds a text that is not Unicode."

Issues = Iterator[str]


def validate_response(response: object, *, bounds: Bounds = BOUNDS) -> list[str]:
    """The faults of a Response, one sentence each, at most twenty; an empty list if it is valid."""
    return validate(response, RESPONSE_SCHEMA, bounds=bounds)


def validate_dual_mode(answer: object, *, bounds: Bounds = BOUNDS) -> list[str]:
    """The faults of a DualModeAnswer, one sentence each, at most twenty; an empty list if it is valid."""
    return validate(answer, DUAL_MODE_SCHEMA, bounds=bounds)


def validate(value: object, schema: Schema, *, bounds: Bounds = BOUNDS) -> list[str]:
    """The faults of `value` by one of the schemas of this package."""
    if not is_plain(value, bounds.of_envelope()):
        return [
            next(
                (f"The response is not JSON: {fault}" for fault in _unplain("", value, bounds.depth)),
                _TOO_MUCH,
            )
        ]
    # Two rules may find the same fault.
    return list(dict.fromkeys(islice(_issues("", value, schema), _MOST_ISSUES)))


def _unplain(path: str, value: Any, levels: int) -> Issues:
    """The parts of a value that JSON has no form for: path and type of each."""
    if type(value) is dict and levels:
        for name, each in value.items():
            if type(name) is not str:
                yield f"a name in {_path_name(path)} is {_article(type(name).__name__)}, and no text."
            else:
                yield from _unplain(_join(path, name), each, levels - 1)
    elif type(value) is list and levels:
        for number, each in enumerate(value):
            yield from _unplain(f"{path}[{number}]", each, levels - 1)
    elif type(value) is float and not isfinite(value):
        yield f"{_path_name(path)} is NaN or infinite; null stands for that."
    elif isinstance(value, date | time):
        yield f"{_path_name(path)} is {_article(type(value).__name__)} of Python's; isoformat() makes a text of it."
    elif value is not None and type(value) not in (str, int, float, bool, dict, list):
        yield f"{_path_name(path)} is {_article(type(value).__name__[:40])} of Python's."


def _issues(path: str, value: Any, schema: Schema) -> Issues:
    if "type" in schema and not _TYPES[schema["type"]](value):
        yield f"{_path_name(path)} must be {_article(schema['type'])}, not {_name_of(value)}."
        return
    for keyword, rule in schema.items():
        check = _KEYWORDS.get(keyword)
        if check is not None:
            yield from check(path, value, rule)
    if "if" in schema and not any(_issues(path, value, schema["if"])):
        yield from _with_reason(_issues(path, value, schema["then"]), schema["if"])


def _require(path: str, value: Any, names: list[str]) -> Issues:
    if isinstance(value, Mapping):
        yield from (f"{_path_name(_join(path, name))} is missing." for name in names if name not in value)


def _properties(path: str, value: Any, properties: Mapping[str, Schema]) -> Issues:
    if isinstance(value, Mapping):
        for name, schema in properties.items():
            if name in value:
                yield from _issues(_join(path, name), value[name], schema)


def _items(path: str, value: Any, schema: Schema) -> Issues:
    if isinstance(value, list):
        for position, each in enumerate(value):
            yield from _issues(f"{path}[{position}]", each, schema)


def _all_of(path: str, value: Any, schemas: list[Schema]) -> Issues:
    for schema in schemas:
        yield from _issues(path, value, schema)


def _not(path: str, value: Any, schema: Schema) -> Issues:
    if not any(_issues(path, value, schema)):
        names = " and ".join(_path_name(_join(path, name)) for name in schema["required"])
        yield f"{names} must not be there."


def _const(path: str, value: Any, constant: Any) -> Issues:
    # True is 1 to Python, and another value to JSON.
    if value != constant or type(value) is not type(constant):
        yield f"{_path_name(path)} must be {_word(constant)}."


def _enum(path: str, value: Any, words: list[str]) -> Issues:
    if not isinstance(value, str) or value not in words:
        yield f"{_path_name(path)} must be one of {', '.join(words)}."


def _pattern(path: str, value: Any, pattern: str) -> Issues:
    # fullmatch, because `$` of Python's also matches before a line break at the end.
    if isinstance(value, str) and not re.fullmatch(pattern[1:-1], value):
        yield f"{_path_name(path)} must be {_PATTERNS[pattern]}."


def _minimum(path: str, value: Any, least: float) -> Issues:
    if _is_number(value) and value < least:
        yield f"{_path_name(path)} must be at least {least}."


def _min_length(path: str, value: Any, least: int) -> Issues:
    if isinstance(value, str) and len(value) < least:
        yield f"{_path_name(path)} must not be empty."


def _min_items(path: str, value: Any, least: int) -> Issues:
    if isinstance(value, list) and len(value) < least:
        yield f"{_path_name(path)} must not be empty."


_KEYWORDS: Mapping[str, Callable[[str, Any, Any], Issues]] = {
    "required": _require,
    "properties": _properties,
    "items": _items,
    "allOf": _all_of,
    "not": _not,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "minimum": _minimum,
    "minLength": _min_length,
    "minItems": _min_items,
}

_PATTERNS: Mapping[str, str] = {
    TIMESTAMP_PATTERN: "a date and time with its zone, such as 2026-01-31T12:00:00Z",
    IMAGE_URL_PATTERN: "an http or https URL, a path on the same server, or a data: URL of a PNG, JPEG, GIF or WebP",
}


def _with_reason(issues: Issues, condition: Schema) -> Issues:
    constants = condition.get("properties", {})
    reason = " and ".join(
        f"{name} is {_word(constants[name]['const']) if name in constants else 'there'}"
        for name in condition["required"]
    )
    yield from (f"{issue.removesuffix('.')}, because {reason}." for issue in issues)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    # 1.0 is an integer to JSON Schema.
    "integer": lambda value: _is_number(value) and value % 1 == 0,
}


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    order = ("boolean", "integer", "number", "string", "array", "object")
    return next(_article(name) for name in order if _TYPES[name](value))


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'aio' else 'a'} {name}"


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _path_name(path: str) -> str:
    return path or "The response"
