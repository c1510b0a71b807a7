"""The code of docs/client.md runs and prints what the page says."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, TextContent

from tests.client.hosting import RESOURCE_ID, structured

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
STAGED = "**Staged** ✅\n\n- **Data Access ID:** search_json_1764792555209_7hb77x\n- **Table:** protein\n- Entities: 25"


class MCPClient:
    """Answers as a server without structure does."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=STAGED)])


def tool_result_of(url: str) -> dict[str, Any]:
    return structured(url=f"{url}/{RESOURCE_ID}")


async def test_every_block_runs_and_answers_what_is_printed() -> None:
    scope: dict[str, Any] = {
        "tool_result": structured(),
        "tool_result_of": tool_result_of,
        "mcp_client": MCPClient(),
    }
    blocks = re.findall(r"```(python|json)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for language, code in blocks:
        if language == "json":
            assert scope.pop("answer") == json.loads(code)
            continue
        compiled = compile(code, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(compiled, scope)
        if inspect.isawaitable(running):
            await running
    assert [language for language, _ in blocks].count("json") == 3
