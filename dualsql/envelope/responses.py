"""Success and error answers in both envelopes.

Data that is too large, or of a type without JSON, is refused and never cut. The text beside it is cut, and says so.
The text of a foreign exception can contain a URL, a password or another tenant's value, so the caller gets a fixed
sentence and an incident number; the log has the exception under that number."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from dualsql.envelope.displays import Display, DisplayType, display, readable
from dualsql.envelope.shapes import (
    ContentItem,
    DualModeAnswer,
    ErrorBody,
    Metadata,
    Response,
    StagedData,
    Status,
    checked_item,
    text_item,
)
from dualsql.envelope.validation import validate_dual_mode
from dualsql.envelope.values import BOUNDS, Bounds, is_plain, plain_value
from dualsql.errors import BadParameterError, DualResponseError, LimitExceededError
from dualsql.formats.text import single_line
from dualsql.log import log_failure, log_unforeseen, new_incident

UNKNOWN_ERROR = "UNKNOWN_ERROR"
MESSAGE_WIDTH = 2_000
"""Characters of the message of an error."""
_CODE_WIDTH = 80


def create_success_response(
    data: Any = None,
    *,
    text: str | None = None,
    content: Sequence[ContentItem] = (),
    bounds: Bounds = BOUNDS,
) -> Response:
    """A success answer.

    Args:
        data: any value with a JSON form; a value that is no object is put under `result`. Default: no `data`.
        text: the text content; made from the data if it is not given.
        content: further items, after the text.

    Raises:
        LimitExceededError: the data is larger than `bounds`, or holds itself, or the content is far larger.
        BadParameterError: the data has no JSON, or an item of the content is none.
    """
    payload = plain_value(data, bounds)
    message = readable(payload, bounds=bounds) if text is None else text
    response = Response(
        success=True, timestamp=now(), content=[text_item(message), *map(checked_item, content)]
    )
    if payload is not None:
        response["data"] = as_object(payload)
    if content and not is_plain(
        response, bounds.of_envelope()
    ):  # each item is in order: together they are too much
        raise LimitExceededError("The content is too large.", hint="Send fewer or smaller items.")
    return response


def create_error_response(
    message: str, code: str = UNKNOWN_ERROR, details: Mapping[str, Any] | None = None
) -> Response:
    """An error answer. The message becomes one line.

    `details["suggestion"]`, what to do next, stands in the text too.

    Raises:
        LimitExceededError, BadParameterError: the details are too large, or have no JSON.
    """
    error = error_body(message, code, details)
    return Response(success=False, timestamp=now(), content=[text_item(error_text(error))], error=error)


def error_body(message: str, code: str = UNKNOWN_ERROR, details: Any = None) -> ErrorBody:
    """The `error` of either envelope."""
    error = ErrorBody(
        code=single_line(code, _CODE_WIDTH) or UNKNOWN_ERROR,
        message=single_line(message, MESSAGE_WIDTH) or "Unknown error.",
    )
    payload = plain_value(details)
    if payload not in (None, {}):
        error["details"] = as_object(payload)
    return error


def error_text(error: ErrorBody) -> str:
    """The text of an error."""
    suggestion = error.get("details", {}).get("suggestion")
    advice = f"\n{single_line(suggestion, MESSAGE_WIDTH)}" if isinstance(suggestion, str) else ""
    return f"Error: {error['message']}{advice}"


def as_object(payload: Any) -> dict[str, Any]:
    """Plain data as an object: specification S12's schema and older MCP clients take nothing else."""
    return payload if isinstance(payload, dict) else {"result": payload}


def now() -> str:
    """The current time as the envelope writes it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


logger = logging.getLogger(__name__)

TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
_FIXED = "The tool failed for a reason that is not told here."
_SUGGESTION = "Tell the operator the incident; the server's log has the cause."


def error_of(error: BaseException, tool: str) -> ErrorBody:
    """The `error` of an answer for an exception of the tool."""
    if not isinstance(error, DualResponseError):
        return _incident(error, tool)
    message, hint = error.for_caller
    details: dict[str, Any] = {"suggestion": str(hint)} if hint else {}
    if error.__cause__ is not None:  # its hint sends the reader to the log
        details["incident"] = _log(error, tool)
    try:
        return error_body(str(message), error.code, {**error.details, **details})
    except DualResponseError:  # its details are too large, or have no JSON
        return error_body(str(message), error.code, details)


def _incident(error: BaseException, tool: str) -> ErrorBody:
    incident = _log(error, tool)
    return error_body(_FIXED, TOOL_EXECUTION_ERROR, {"incident": incident, "suggestion": _SUGGESTION})


def _log(error: BaseException, tool: str) -> str:
    incident = new_incident()
    if isinstance(error, DualResponseError):
        log_failure(logger, error, f"the tool {tool!r}", incident=incident)
    else:
        log_unforeseen(logger, error, "incident %s: the tool %r failed", incident, tool)
    return incident


_NAME_WIDTH = 200


def staged_data(
    *,
    data_access_id: str,
    operation: str,
    payload_size: int | None = None,
    entities: int | None = None,
    table: str | None = None,
    endpoint: str | None = None,
    example: str | None = None,
) -> StagedData:
    """The `data` of a stored result: its name, its size, how to query it.

    Args:
        data_access_id: the stored result's id; it names the result and gives no access.
        payload_size: bytes. Arguments that are None are left out.
        entities: rows.
        endpoint, example: `queryAccess`: the path for SQL, below the resource's URL, and a query that works there.
    """
    access = _without_none(endpoint=endpoint, example=example)
    optional = _without_none(
        payloadSize=payload_size, entities=entities, table=table, queryAccess=access or None
    )
    return cast(StagedData, {"dataAccessId": data_access_id, "operation": operation, **optional})


def create_dual_mode_response(
    data: Any = None,
    *,
    operation: str,
    shown: Display | DisplayType = "markdown",
    seconds: float = 0.0,
    cached: bool = False,
    schema: Mapping[str, Any] | None = None,
    bounds: Bounds = BOUNDS,
) -> DualModeAnswer:
    """A dual-mode success answer. Its status is "staged" if the data has a dataAccessId, else "success".

    Args:
        data: any value with a JSON form; what is no object is put under `result`.
        operation: the tool's name.
        shown: the kind of display; or a finished display, already escaped.
        seconds: how long it took; the answer has milliseconds.
        cached: True only if a result cache answered.
        schema: the JSON Schema of the data.

    Raises:
        LimitExceededError: the data is larger than `bounds`, or holds itself.
        BadParameterError: the data has no JSON, or is not as staged data is; or there is no such display.
    """
    payload = plain_value(data, bounds)
    fields = {} if payload is None else as_object(payload)
    metadata = _metadata(operation, "staged" if "dataAccessId" in fields else "success", seconds)
    metadata["cached"] = cached
    if schema is not None:
        metadata["schema"] = plain_value(schema)
    display_part: Display = (
        display(payload, shown, bounds=bounds) if isinstance(shown, str) else plain_value(shown, bounds)
    )
    answer = DualModeAnswer(success=True, data=fields, display=display_part, metadata=metadata)
    if issues := validate_dual_mode(answer, bounds=bounds):
        raise BadParameterError(f"Not a dual-mode answer: {issues[0]}", details={"issues": issues})
    return answer


def create_dual_mode_error(
    message: str,
    code: str = UNKNOWN_ERROR,
    *,
    operation: str,
    suggestion: str | None = None,
    details: Mapping[str, Any] | None = None,
    shown: DisplayType = "markdown",
    seconds: float = 0.0,
) -> DualModeAnswer:
    """A dual-mode error answer; `suggestion` says what to do next and becomes `details.suggestion`.

    Raises:
        LimitExceededError, BadParameterError: the details are too large, or have no JSON.
    """
    all_details = {**(details or {}), **_without_none(suggestion=suggestion)}
    return dual_mode_error(
        error_body(message, code, all_details), operation=operation, shown=shown, seconds=seconds
    )


def dual_mode_error(
    error: ErrorBody, *, operation: str, shown: DisplayType = "markdown", seconds: float = 0.0
) -> DualModeAnswer:
    """A dual-mode answer with a finished error."""
    suggestion = error.get("details", {}).get("suggestion")
    fields = {"Error": error["message"], "Code": error["code"]} | _without_none(Suggestion=suggestion)
    return DualModeAnswer(
        success=False,
        error=error,
        display=display(fields, shown),
        metadata=_metadata(operation, "error", seconds),
    )


def _metadata(operation: str, status: Status, seconds: float) -> Metadata:
    return Metadata(
        operation=single_line(operation, _NAME_WIDTH) or "unknown",
        timestamp=time.time_ns() // 1_000_000,
        status=status,
        executionTime=milliseconds(seconds),
        cached=False,
    )


def milliseconds(seconds: float) -> float:
    """A duration as `executionTime` has it."""
    return round(max(seconds, 0.0) * 1_000, 1)


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
