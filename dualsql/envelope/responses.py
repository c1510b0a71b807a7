"""Answers in the envelope of seeds/004; the rule: whatever goes in, what comes out passes validate_response.

Data too large, or of a type without JSON, is refused and never cut: the text beside it is cut, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dualsql.envelope.displays import readable
from dualsql.envelope.items import checked_item, text_item
from dualsql.envelope.shapes import ContentItem, ErrorBody, Response
from dualsql.envelope.values import BOUNDS, Bounds, is_plain, plain
from dualsql.errors import LimitExceededError
from dualsql.formats.text import single_line

UNKNOWN_ERROR = "UNKNOWN_ERROR"
_MESSAGE_WIDTH = 2_000
_CODE_WIDTH = 80


def create_success_response(
    data: Any = None,
    *,
    text: str | None = None,
    content: Sequence[ContentItem] = (),
    bounds: Bounds = BOUNDS,
) -> Response:
    """An answer that all went well.

    Args:
        data: any value with a JSON form; what is no object is put under `result`. Without it there is no `data`.
        text: what is read; made of the data if it is not given.
        content: further items, after the text.

    Raises:
        LimitExceededError: the data is larger than `bounds`, or holds itself, or the content is far larger.
        BadParameterError: the data has no JSON, or an item of the content is none.
    """
    made = plain(data, bounds)
    shown = readable(made, bounds=bounds) if text is None else text
    response = Response(
        success=True, timestamp=now(), content=[text_item(shown), *map(checked_item, content)]
    )
    if made is not None:
        response["data"] = as_object(made)
    if content and not is_plain(
        response, bounds.of_envelope()
    ):  # each item is in order: together they are too much
        raise LimitExceededError("The content is too large.", hint="Send fewer or smaller items.")
    return response


def create_error_response(
    message: str, code: str = UNKNOWN_ERROR, details: Mapping[str, Any] | None = None
) -> Response:
    """An answer that something went wrong. The message becomes one line; it says to a model what happened.

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
        message=single_line(message, _MESSAGE_WIDTH) or "Unknown error.",
    )
    made = plain(details)
    if made not in (None, {}):
        error["details"] = as_object(made)
    return error


def error_text(error: ErrorBody) -> str:
    """What is read of an error."""
    suggestion = error.get("details", {}).get("suggestion")
    advice = f"\n{single_line(suggestion, _MESSAGE_WIDTH)}" if isinstance(suggestion, str) else ""
    return f"Error: {error['message']}{advice}"


def as_object(made: Any) -> dict[str, Any]:
    """Plain data as an object: seeds/004's schema and older MCP clients take nothing else."""
    return made if isinstance(made, dict) else {"result": made}


def now() -> str:
    """This moment as the envelope has it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
