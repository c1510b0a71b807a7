"""Answers of tools in the envelopes of seeds/004 and seeds/001; the rule: it needs nothing of dualsql but its errors.

@wrap_tool_response
async def start_instance(name: str) -> dict[str, str]:
    return {"instance": name, "status": "running"}

The shapes are in `shapes`, their JSON Schemas in `schemas`, and what either means in MCP in `mcp`. docs/envelope.md
shows each with an example.
"""

from dualsql.envelope.audit import AnswerAudit, AnswerEvent, log_answers
from dualsql.envelope.displays import Display, DisplayType, display, readable
from dualsql.envelope.dual_mode import create_dual_mode_error, create_dual_mode_response, staged_data
from dualsql.envelope.items import image_item, resource_item, text_item
from dualsql.envelope.mcp import ToolResult, dual_mode_tool_result, from_mcp_content, to_mcp_tool_result
from dualsql.envelope.middleware import ValidateResponses
from dualsql.envelope.negotiation import VARY, Wanted, present, wanted
from dualsql.envelope.responses import create_error_response, create_success_response
from dualsql.envelope.schemas import DUAL_MODE_SCHEMA, RESPONSE_SCHEMA, dual_mode_schema
from dualsql.envelope.shapes import DualModeAnswer, ErrorBody, Response, StagedData
from dualsql.envelope.validation import validate_dual_mode, validate_response
from dualsql.envelope.values import Bounds, plain
from dualsql.envelope.wrapping import wrap_dual_mode, wrap_tool_response

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
    "Response",
    "StagedData",
    "ToolResult",
    "ValidateResponses",
    "Wanted",
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
    "plain",
    "present",
    "readable",
    "resource_item",
    "staged_data",
    "text_item",
    "to_mcp_tool_result",
    "validate_dual_mode",
    "validate_response",
    "wanted",
    "wrap_dual_mode",
    "wrap_tool_response",
]
