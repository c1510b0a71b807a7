"""What a tool returned, as a DualModeAnswer; the rule: the same as in `shaping`, for the envelope of seeds/001."""

from __future__ import annotations

from typing import Any, cast

from dualsql.envelope.displays import DisplayType
from dualsql.envelope.dual_mode import create_dual_mode_response, dual_mode_error, milliseconds
from dualsql.envelope.shapes import DualModeAnswer
from dualsql.envelope.shaping import BringsItsText, error_told, malformed
from dualsql.envelope.validation import validate_dual_mode
from dualsql.envelope.values import Bounds, plain


def dual_mode_of(
    result: Any, operation: str, *, shown: DisplayType, seconds: float, bounds: Bounds
) -> DualModeAnswer:
    """What the tool returned, as an answer that passes validate_dual_mode.

    Raises:
        LimitExceededError, BadParameterError: the result is too large, or has no JSON.
    """
    if isinstance(result, BringsItsText):
        result = result.to_structured_content()
    made = plain(result, bounds)
    if _is_answer(made):
        answer = cast(DualModeAnswer, made)
        answer["metadata"]["executionTime"] = milliseconds(seconds)
        issues = validate_dual_mode(answer, bounds=bounds)
        return dual_mode_error(malformed(issues, operation), operation=operation) if issues else answer
    if isinstance(made, dict) and made.get("success") is False:
        return dual_mode_error(error_told(made), operation=operation, shown=shown, seconds=seconds)
    if isinstance(made, dict) and made.get("success") is True and "data" in made:
        made = made["data"]
    return create_dual_mode_response(made, operation=operation, shown=shown, seconds=seconds, bounds=bounds)


def _is_answer(made: Any) -> bool:
    return (
        isinstance(made, dict)
        and isinstance(made.get("success"), bool)
        and isinstance(made.get("metadata"), dict)
        and ("data" in made or "error" in made)
    )
