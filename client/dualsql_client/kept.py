"""Raw tool results, for agent SDKs that keep only what their model reads; the rule: the SDK notices nothing.

In short:

    kept = KeptResults()
    session = kept.watch(session)  # mcp.ClientSession, mcp.Client, fastmcp.Client, whatever has call_tool
    ...                            # the SDK's agent runs with it
    for parsed in client.find(kept.take()): ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import wraps
from typing import Any, TypeVar

Session = TypeVar("Session")


class KeptResults:
    """The results of the tool calls of the sessions it watches.

    Args:
        maximum: the most that are kept; the oldest go first.
    """

    def __init__(self, *, maximum: int = 1_000) -> None:
        self._results: deque[Any] = deque(maxlen=maximum)

    @property
    def results(self) -> list[Any]:
        """What was kept, the oldest first."""
        return list(self._results)

    def take(self) -> list[Any]:
        """What was kept, which is then forgotten: for one run of an agent after another."""
        results = self.results
        self._results.clear()
        return results

    def watch(self, session: Session, *, drop_links: bool = False) -> Session:
        """Keep what `call_tool` of the session returns from now on; the same session is returned.

        Args:
            drop_links: hand the SDK results without their resource_link blocks: anthropic's takes a result that has one
                for an error.
        """
        original = session.call_tool  # type: ignore[attr-defined]  # whatever has one

        @wraps(original)
        async def call_tool(*args: Any, **options: Any) -> Any:
            result = await original(*args, **options)
            self._results.append(result)
            return _without_links(result) if drop_links else result

        session.call_tool = call_tool  # type: ignore[attr-defined]
        return session


def _without_links(result: Any) -> Any:
    content = [block for block in result.content if block.type != "resource_link"]
    return result.model_copy(update={"content": content})


def keep_structured_content(context: Any) -> Mapping[str, Any] | None:
    """For openai-agents: the `custom_data_extractor` of an MCP server, so that run items hold the structure."""
    structured = context.structured_content
    return None if structured is None or context.is_error else {"structured_content": dict(structured)}
