"""Arguments of a tool call that do not fit: refused before the tool runs, in our words on either SDK.

The SDKs drop arguments that they do not know, or answer with a validator's text and its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dualsql.errors import BadParameterError
from dualsql.response import call_tool_result, text_block
from dualsql.suggesting import refuse_unknown

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_SHOWN = 3
_CONDITIONS = {"where", "condition", "filter"}
_IN_SQL = "Use filters, or write the condition in sql: SELECT * FROM data WHERE ..."


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, and no others."""
    return {**schema, "additionalProperties": False}


def misfit(tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> CallToolResult | None:
    """The answer to arguments that the tool does not have; None where it has them all."""
    known = list(schema.get("properties", {}))
    try:
        refuse_unknown(arguments, known, "argument")
    except BadParameterError as error:
        asked = str(error.details["name"]).lower()
        hint = _IN_SQL if asked in _CONDITIONS and {"filters", "sql"} <= set(known) else error.hint
        return malformed(tool, f"{error.message} {hint}")
    return None


def misfits(tool: str, error: ValidationError) -> CallToolResult:
    """The answer to values that do not fit: each argument and what it should be, without the value that was given."""
    found: dict[str, str] = {}
    for each in error.errors(include_url=False, include_input=False):
        found.setdefault(str(each["loc"][0]) if each["loc"] else "arguments", each["msg"])
    said = [f"{name}: {message.removesuffix('.')}." for name, message in found.items()]
    return malformed(tool, " ".join(said[:_SHOWN]))


def malformed(tool: str, said: str) -> CallToolResult:
    """The answer to a malformed call, on either SDK: a text, and no structure (docs/decisions/0017)."""
    return call_tool_result(
        {"content": [text_block(f"Error executing tool {tool}: {said}")], "isError": True}
    )
