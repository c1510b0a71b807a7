"""What becomes of what a function returns: a dual response, or plain data; the rule: text and structure each say it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from pydantic import PydanticUserError, TypeAdapter
from sqlalchemy import CompoundSelect, Select, TextualSelect

from dualsql.envelope import Wanted, dual_mode_schema, plain, readable
from dualsql.errors import ConfigurationError
from dualsql.mcp.answer import Answer
from dualsql.mcp.calls import Caller
from dualsql.mcp.negotiating import Call, refused, written
from dualsql.mcp.patience import OFFER, Style, reporting
from dualsql.mcp.schema import inlined, or_error, output_schema
from dualsql.response import DualResponse, problem_tool_result, text_block
from dualsql.settings import Settings
from dualsql_client.wire import ToolProblem

_STATEMENTS = (Select, CompoundSelect, TextualSelect)


class Responder(Protocol):
    """What is asked of a DualResponseServer."""

    settings: Settings

    async def create_response(self, *args: Any, **options: Any) -> DualResponse:
        """Store a Select as a resource and show its first rows; see DualResponseServer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DualManner:
    """A Select becomes a dual response.

    Attributes:
        answer: what holds where the function does not say otherwise.
    """

    dual: Responder
    name: str
    answer: Mapping[str, Any]
    style: Style

    @property
    def output_schema(self) -> dict[str, Any]:
        """See `dualsql.mcp.calls.Manner`."""
        if self.style.envelope == "dual_mode":
            return dict(dual_mode_schema())
        return output_schema(self.style.results_format)

    async def result(self, returned: Any, caller: Caller) -> Mapping[str, Any]:
        """See `dualsql.mcp.calls.Manner`."""
        offer, started = OFFER.get(), time.perf_counter()
        async with reporting(caller.report):
            response = await self._respond(returned, caller, None if offer is None else offer.wait)
        if offer is not None and response.status == "pending":
            offer.taken = response.resource_id, self.style
        call = Call(self.name, caller.wanted)
        seconds = time.perf_counter() - started
        return written(response, self.style, call, client=caller.client, seconds=seconds)

    def refused(self, problem: ToolProblem, wanted: Wanted) -> Mapping[str, Any]:
        """See `dualsql.mcp.calls.Manner`."""
        return refused(problem, self.style.envelope, Call(self.name, wanted))

    async def _respond(self, returned: Any, caller: Caller, wait: timedelta | None) -> DualResponse:
        if isinstance(returned, DualResponse):
            return returned
        answer = Answer(returned) if isinstance(returned, _STATEMENTS) else returned
        if not isinstance(answer, Answer):
            raise TypeError(f"the tool returned a {type(returned).__name__}, and neither Select nor Answer")
        options = {**self.answer, **_said(answer)}
        description = options.pop("description", None)
        if description is not None:
            options["metadata"] = {**options.get("metadata", {}), "description": description}
        if caller.is_task:
            # It has all the time there is for a query, which ends before this does.
            options["wait"] = 2 * self.dual.settings.pending_timeout
        elif options.get("wait") is None:
            options["wait"] = wait
        response = await self.dual.create_response(answer.select, principal=caller.principal, **options)
        return replace(response, description=description)


def _said(answer: Answer) -> dict[str, Any]:
    names = (
        "name", "description", "sample_size", "sample", "expiration", "count", "profile", "metadata", "source", "wait",
        "is_text",
    )  # fmt: skip
    return {name: value for name in names if (value := getattr(answer, name)) is not None}


class PlainManner:
    """An object of plain data is itself the structure, and the text is made of it.

    Args:
        returned: the annotation of what the function returns: a TypedDict, a pydantic model, a dataclass, a dict.
        text_budget: characters of the text; what has no place in it is said to be missing.

    Raises:
        ConfigurationError: it is not the type of an object.
    """

    def __init__(self, returned: Any, *, text_budget: int) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(returned)
            schema = inlined(self._adapter.json_schema(mode="serialization"))
        except PydanticUserError as error:
            raise ConfigurationError(
                "What the tool's function returns has no JSON schema.",
                hint="Annotate it: a TypedDict of typing_extensions, a pydantic model, a dataclass or a dict.",
            ) from error
        if schema.get("type") != "object" or "error" in schema.get("properties", {}):
            raise ConfigurationError(
                "A tool of plain data returns an object, and none that has an error of its own.",
                hint="Annotate what its function returns: a TypedDict, a pydantic model, a dataclass or a dict.",
            )
        self.output_schema = or_error(schema)
        self._budget = text_budget

    async def result(self, returned: Any, caller: Caller) -> Mapping[str, Any]:
        """See `dualsql.mcp.calls.Manner`."""
        # Validated, for the protocol obliges a server to keep to the schema that it has published.
        checked = self._adapter.validate_python(returned, by_alias=True, by_name=True)
        data = plain(self._adapter.dump_python(checked, mode="json", by_alias=True))
        text = readable(data, budget=self._budget)
        return {"content": [text_block(text)], "structuredContent": data, "isError": False}

    def refused(self, problem: ToolProblem, wanted: Wanted) -> Mapping[str, Any]:
        """See `dualsql.mcp.calls.Manner`."""
        return problem_tool_result(problem)
