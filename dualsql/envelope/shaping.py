"""Converts the return value of a tool to an answer of either envelope.

A tool may return plain data, half an envelope (`success` with `data` or `message`), a whole one, an MCP tool result, or
a failure in other words (`{"error": {...}}`, `{"ok": false}`, `{"status": "error"}`). A value that cannot be completed
becomes INVALID_RESPONSE_FORMAT, and the log says why."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Protocol, cast, runtime_checkable

from dualsql.envelope.displays import Display, DisplayType, readable
from dualsql.envelope.mcp import from_mcp_content
from dualsql.envelope.responses import (
    UNKNOWN_ERROR,
    as_object,
    create_dual_mode_response,
    create_success_response,
    dual_mode_error,
    error_body,
    error_text,
    milliseconds,
    now,
)
from dualsql.envelope.shapes import DualModeAnswer, ErrorBody, Response, text_item
from dualsql.envelope.validation import TIMESTAMP_PATTERN, validate_dual_mode, validate_response
from dualsql.envelope.values import Bounds, plain_value

logger = logging.getLogger(__name__)

INVALID_RESPONSE_FORMAT = "INVALID_RESPONSE_FORMAT"
_OWN_FIELDS = frozenset({"success", "timestamp", "content", "data", "error", "message", "code"})
_OF_ERRORS = frozenset({"error", "message", "code", "details", "status", "ok", "timestamp", "hint"})
_MCP_FIELDS = frozenset({"isError", "structuredContent", "_meta", "resultType"})


@runtime_checkable
class BringsItsText(Protocol):
    """A result that has its own text and structure, such as dualsql.DualResponse."""

    def to_text(self) -> str:
        """The text."""

    def to_structured_content(self) -> Mapping[str, Any]:
        """The data for a program."""


@runtime_checkable
class BringsStagedData(BringsItsText, Protocol):
    """A result that is stored, and can say how its rows are queried, such as dualsql.DualResponse."""

    def to_staged_content(self, *, operation: str) -> Mapping[str, Any]:
        """The data of a dual-mode answer."""


def response_of(result: Any, tool: str, bounds: Bounds) -> Response:
    """The return value of `tool` as a Response that passes validate_response.

    Raises:
        LimitExceededError, BadParameterError: the result is too large, or has no JSON.
    """
    if isinstance(result, BringsItsText):
        return create_success_response(result.to_structured_content(), text=result.to_text(), bounds=bounds)
    payload = plain_value(result, bounds)
    if not _is_envelope(payload):
        return create_success_response(payload, bounds=bounds)
    response = _complete(payload, bounds)
    issues = validate_response(response, bounds=bounds)
    return error_response(malformed_answer(issues, tool)) if issues else response


def error_response(error: ErrorBody) -> Response:
    """The Response for a finished error."""
    return Response(success=False, timestamp=now(), content=[text_item(error_text(error))], error=error)


def malformed_answer(issues: list[str], source: str) -> ErrorBody:
    """The error that replaces an answer with these faults. They are also logged."""
    logger.error("the answer of %r is malformed: %s", source, " ".join(issues))
    return error_body("The server made a malformed answer.", INVALID_RESPONSE_FORMAT, {"issues": issues})


def _is_envelope(payload: Any) -> bool:
    if not isinstance(payload, dict):
        return False
    is_whole = isinstance(payload.get("success"), bool) or _is_content(payload.get("content"))
    return is_whole or _says_failure(payload)


def _says_failure(payload: dict[str, Any]) -> bool:
    """Whether the tool says that it failed, in one of the ways in which tools do.

    A text under `error` counts only beside other words of an error: in data it is a column like any other.
    """
    if isinstance(payload.get("success"), bool):
        return payload["success"] is False
    if payload.get("isError") is True or payload.get("ok") is False or payload.get("status") == "error":
        return True
    error = payload.get("error")
    return bool(error) and (
        isinstance(error, dict) or (isinstance(error, str) and payload.keys() <= _OF_ERRORS)
    )


def _is_content(value: Any) -> bool:
    """Whether these are content items, which have a type; the values of a column named "content" have none."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in value)
    )


def _complete(payload: dict[str, Any], bounds: Bounds) -> Response:
    """The envelope with its missing fields added; other fields are kept."""
    stated = payload.get("success")
    success = stated if stated is not None else not _says_failure(payload) and payload.get("error") is None
    fields = {name: value for name, value in payload.items() if name not in _MCP_FIELDS and value is not None}
    data = fields.get("data", payload.get("structuredContent"))
    if data is not None:
        fields["data"] = as_object(data)
    if not success:
        fields["error"] = error_body_of(fields)
    fields |= {"success": success, "timestamp": _timestamp_of(fields)}
    fields["content"] = _content_of(fields, bounds)
    return cast(Response, fields)


def _content_of(fields: Mapping[str, Any], bounds: Bounds) -> Any:
    content = fields.get("content")
    if isinstance(content, list) and _is_content(content):
        return [from_mcp_content(item) for item in content]
    if content:  # something that validation will name
        return content
    error: ErrorBody | None = fields.get("error") if fields["success"] is False else None
    return [text_item(error_text(error) if error else _text_of(fields, bounds))]


def _text_of(fields: Mapping[str, Any], bounds: Bounds) -> str:
    """The message and the other texts."""
    rest = {name: value for name, value in fields.items() if name not in _OWN_FIELDS}
    data = fields.get("data") or rest or None
    message = fields.get("message")
    if not isinstance(message, str):
        return readable(data, bounds=bounds)
    return message if data is None else f"{message}\n\n{readable(data, bounds=bounds)}"


def error_body_of(fields: Mapping[str, Any]) -> ErrorBody:
    """The error as the tool gave it: an object, a text, or a message beside it."""
    error = fields.get("error")
    body = error if isinstance(error, dict) else {"message": error}
    body = {name: value for name, value in body.items() if value is not None}
    message = _first_text(body.get("message"), fields.get("message"), _message_of(fields))
    code = _first_text(body.get("code"), fields.get("code"), UNKNOWN_ERROR)
    return cast(ErrorBody, {**body, **error_body(message, code, body.get("details"))})


def _message_of(fields: Mapping[str, Any]) -> str | None:
    """The first text of the content, which is where MCP has the message."""
    content = fields.get("content")
    items = content if isinstance(content, list) and _is_content(content) else []
    return next((item["text"] for item in items if item["type"] == "text" and "text" in item), None)


def _first_text(*values: Any) -> str:
    return next((value for value in values if isinstance(value, str) and value), "")


def _timestamp_of(fields: Mapping[str, Any]) -> str:
    timestamp = fields.get("timestamp")
    # Without its ^ and $: Python's $ also matches before a line break at the end.
    is_one = isinstance(timestamp, str) and re.fullmatch(TIMESTAMP_PATTERN[1:-1], timestamp)
    return cast(str, timestamp) if is_one else now()


def dual_mode_of(
    result: Any, operation: str, *, shown: DisplayType, seconds: float, bounds: Bounds
) -> DualModeAnswer:
    """The return value of the tool as an answer that passes validate_dual_mode.

    Raises:
        LimitExceededError, BadParameterError: the result is too large, or has no JSON.
    """
    if isinstance(result, BringsStagedData):
        return _staged_response(result, operation, shown=shown, seconds=seconds, bounds=bounds)
    if isinstance(result, BringsItsText):
        result = result.to_structured_content()
    payload = plain_value(result, bounds)
    if _is_answer(payload):
        answer = cast(DualModeAnswer, payload)
        answer["metadata"]["executionTime"] = milliseconds(seconds)
        issues = validate_dual_mode(answer, bounds=bounds)
        return dual_mode_error(malformed_answer(issues, operation), operation=operation) if issues else answer
    if isinstance(payload, dict) and _says_failure(payload):
        return dual_mode_error(error_body_of(payload), operation=operation, shown=shown, seconds=seconds)
    if isinstance(payload, dict) and payload.get("success") is True and "data" in payload:
        payload = payload["data"]
    return create_dual_mode_response(
        payload, operation=operation, shown=shown, seconds=seconds, bounds=bounds
    )


def _staged_response(
    result: BringsStagedData, operation: str, *, shown: DisplayType, seconds: float, bounds: Bounds
) -> DualModeAnswer:
    display: Display | DisplayType = shown
    if shown == "markdown":
        display = {"type": "markdown", "content": result.to_text()}
    return create_dual_mode_response(
        result.to_staged_content(operation=operation),
        operation=operation,
        shown=display,
        seconds=seconds,
        bounds=bounds,
    )


def _is_answer(payload: Any) -> bool:
    return (
        isinstance(payload, dict)
        and isinstance(payload.get("success"), bool)
        and isinstance(payload.get("metadata"), dict)
        and ("data" in payload or "error" in payload)
    )
