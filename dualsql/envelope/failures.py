"""What a caller learns of an exception; the rule: an error of ours says what it was written to say, any other nothing.

A foreign exception's text can hold a URL, a password or another tenant's value. The caller gets a fixed sentence and
an incident's number; the log has the exception under the same number.
"""

from __future__ import annotations

import logging
from typing import Any

from dualsql.envelope.responses import error_body
from dualsql.envelope.shapes import ErrorBody
from dualsql.errors import DualResponseError
from dualsql.incidents import log_failure, log_unforeseen, new_incident

logger = logging.getLogger(__name__)

TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
_FIXED = "The tool failed for a reason that is not told here."
_SUGGESTION = "Tell the operator the incident; the server's log has the cause."


def error_of(error: BaseException, tool: str) -> ErrorBody:
    """The `error` of an answer for what the tool raised."""
    if not isinstance(error, DualResponseError):
        return _incident(error, tool)
    message, hint = error.told
    told: dict[str, Any] = {"suggestion": str(hint)} if hint else {}
    if error.__cause__ is not None:  # its hint sends the reader to the log
        told["incident"] = _log(error, tool)
    try:
        return error_body(str(message), error.code, {**error.details, **told})
    except DualResponseError:  # its details are too large, or have no JSON
        return error_body(str(message), error.code, told)


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
