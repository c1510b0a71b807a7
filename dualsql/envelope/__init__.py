"""Answers of tools in the envelopes of docs/specification.md, S8 and S12.

Of dualsql it imports `errors`, `log`, and `formats.text`, how a cell is written as text.

@wrap_tool_response
async def start_instance(name: str) -> dict[str, str]:
    return {"instance": name, "status": "running"}

`shapes` has the shapes, `validation` their JSON Schemas, and `mcp` their conversion to MCP. docs/envelope.md shows
each with an example.
"""

from dualsql.envelope.displays import Display, DisplayType, display, readable
from dualsql.envelope.mcp import (
    VARY,
    RequestedForm,
    ToolResult,
    dual_mode_tool_result,
    from_mcp_content,
    present,
    requested_form,
    to_mcp_tool_result,
)
from dualsql.envelope.middleware import ValidateResponses
from dualsql.envelope.responses import (
    create_dual_mode_error,
    create_dual_mode_response,
    create_error_response,
    create_success_response,
    staged_data,
)
from dualsql.envelope.shapes import (
    DualModeAnswer,
    ErrorBody,
    Response,
    StagedData,
    image_item,
    resource_item,
    text_item,
)
from dualsql.envelope.validation import (
    DUAL_MODE_SCHEMA,
    RESPONSE_SCHEMA,
    dual_mode_schema,
    validate_dual_mode,
    validate_response,
)
from dualsql.envelope.values import Bounds, plain_value
from dualsql.envelope.wrapping import (
    AnswerAudit,
    AnswerEvent,
    FaultReport,
    log_answers,
    log_faults,
    watch_tool,
    wrap_dual_mode,
    wrap_tool_response,
)

__all__ = [
    "DUAL_MODE_SCHEMA",
    "RESPONSE_SCHEMA",
    "VARY",
    "AnswerAudit",
    "AnswerEvent",
    "Bounds",
    "Display",
    "DisplayType",
    "DualModeAnswer",
    "ErrorBody",
    "FaultReport",
    "RequestedForm",
    "Response",
    "StagedData",
    "ToolResult",
    "ValidateResponses",
    "create_dual_mode_error",
    "create_dual_mode_response",
    "create_error_response",
    "create_success_response",
    "display",
    "dual_mode_schema",
    "dual_mode_tool_result",
    "from_mcp_content",
    "image_item",
    "log_answers",
    "log_faults",
    "plain_value",
    "present",
    "readable",
    "requested_form",
    "resource_item",
    "staged_data",
    "text_item",
    "to_mcp_tool_result",
    "validate_dual_mode",
    "validate_response",
    "watch_tool",
    "wrap_dual_mode",
    "wrap_tool_response",
]
