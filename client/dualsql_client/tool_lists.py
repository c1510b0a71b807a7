"""The tools of an MCP server; the rule: whatever client lists them, a page that leads back ends the list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from dualsql_client.nodes import fields_of

_MAXIMUM_PAGES = 100
_MAXIMUM_WORDS = 20
_LEAST_LIKENESS = 0.75


class ToolDescription(NamedTuple):
    """One tool of a server; a schema is None where it publishes none."""

    name: str
    description: str
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None


async def list_all(list_tools: Any) -> list[ToolDescription]:
    """All tools that a client's `list_tools`, or fastmcp's `list_tools_mcp`, gives."""
    tools: list[ToolDescription] = []
    cursors: set[str] = set()
    options: dict[str, Any] = {}
    for _ in range(_MAXIMUM_PAGES):
        page = await list_tools(**options)
        fields: Mapping[Any, Any] = {"tools": page} if isinstance(page, list) else fields_of(page) or {}
        tools += [_described(tool) for tool in fields.get("tools", ())]
        cursor = fields.get("next_cursor", fields.get("nextCursor"))
        if not isinstance(cursor, str) or cursor in cursors:
            break
        cursors.add(cursor)
        options["cursor"] = cursor
    return tools


def _described(tool: Any) -> ToolDescription:
    fields = fields_of(tool) or {}
    return ToolDescription(
        name=str(fields.get("name", "")),
        description=str(fields.get("description") or ""),
        input_schema=fields.get("input_schema", fields.get("inputSchema")),
        output_schema=fields.get("output_schema", fields.get("outputSchema")),
    )


def search(tools: Iterable[ToolDescription], query: str) -> list[ToolDescription]:
    """The tools that have every word of the query, or one very like it, in name or description; the best first."""
    words = re.findall(r"\w+", query.lower())[:_MAXIMUM_WORDS]
    scored = [(_score(tool, words), tool) for tool in tools]
    return [tool for score, tool in sorted(scored, key=lambda pair: -pair[0]) if score > 0]


def _score(tool: ToolDescription, words: Sequence[str]) -> float:
    scores = [_score_of_word(tool, word) for word in words]
    return sum(scores) if scores and min(scores) > 0 else 0.0


def _score_of_word(tool: ToolDescription, word: str) -> float:
    name = tool.name.lower()
    parts = re.findall(r"[^\W_]+", name)
    if word in parts:
        return 3.0
    if word in name:
        return 2.0
    if word in tool.description.lower():
        return 1.0
    likeness = max((SequenceMatcher(None, word, part).ratio() for part in parts), default=0.0)
    return likeness / 2 if likeness >= _LEAST_LIKENESS else 0.0
