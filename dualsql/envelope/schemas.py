"""The JSON Schemas of both envelopes (draft 2020-12); the rule: they are the only definition, validation reads them.

Only keywords that `validation` understands are used. Fields that are not named here are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
