"""The dual-mode answer of seeds/001; the rule: `data` and `display` say the same, and `cached` is never a guess.

`success` stands in every answer, which the seed's own examples of success leave out: its clients test `!success`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from dualsql.envelope.displays import Display, DisplayType, display
from dualsql.envelope.responses import UNKNOWN_ERROR, as_object, error_body
from dualsql.envelope.shapes import DualModeAnswer, ErrorBody, Metadata, StagedData, Status
from dualsql.envelope.validation import validate_dual_mode
from dualsql.envelope.values import BOUNDS, Bounds, plain
from dualsql.errors import BadParameterError
from dualsql.formats.text import single_line

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
    """The `data` of a result that is kept: how it is called, how large it is, how it is queried.

    Args:
        data_access_id: the kept result's id; a name, and not a right to it.
        payload_size: bytes. What is None is left out, for nobody knows it.
        entities: rows.
        endpoint, example: `queryAccess`: where SQL is sent to, and a query that works there.
    """
    access = _known(endpoint=endpoint, example=example)
    known = _known(payloadSize=payload_size, entities=entities, table=table, queryAccess=access or None)
    return cast(StagedData, {"dataAccessId": data_access_id, "operation": operation, **known})


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
    """An answer for code and people alike. Its status is "staged" if the data has a dataAccessId, else "success".

    Args:
        data: any value with a JSON form; what is no object is put under `result`.
        operation: the tool's name.
        shown: how the data is displayed; or a display that is made, and escaped, already.
        seconds: how long it took; the answer has milliseconds.
        cached: only where a result cache answered.
        schema: the JSON Schema of the data.

    Raises:
        LimitExceededError: the data is larger than `bounds`, or holds itself.
        BadParameterError: the data has no JSON, or is not as staged data is; or there is no such display.
    """
    made = plain(data, bounds)
    held = {} if made is None else as_object(made)
    metadata = _metadata(operation, "staged" if "dataAccessId" in held else "success", seconds)
    metadata["cached"] = cached
    if schema is not None:
        metadata["schema"] = plain(schema)
    seen: Display = display(made, shown, bounds=bounds) if isinstance(shown, str) else plain(shown, bounds)
    answer = DualModeAnswer(success=True, data=held, display=seen, metadata=metadata)
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
    """An answer that something went wrong; `suggestion` says what to do next and becomes `details.suggestion`.

    Raises:
        LimitExceededError, BadParameterError: the details are too large, or have no JSON.
    """
    told = {**(details or {}), **_known(suggestion=suggestion)}
    return dual_mode_error(error_body(message, code, told), operation=operation, shown=shown, seconds=seconds)


def dual_mode_error(
    error: ErrorBody, *, operation: str, shown: DisplayType = "markdown", seconds: float = 0.0
) -> DualModeAnswer:
    """An answer with an error that was made already."""
    suggestion = error.get("details", {}).get("suggestion")
    read = {"Error": error["message"], "Code": error["code"]} | _known(Suggestion=suggestion)
    return DualModeAnswer(
        success=False,
        error=error,
        display=display(read, shown),
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


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
