"""One call of a tool: its function, then a dual response or a problem; the rule: it always ends in a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack

from anyio import to_thread
from sqlalchemy import CompoundSelect, Select, TextualSelect

from dualsql.creation import ResponseOptions
from dualsql.formats.samples import TextFormat
from dualsql.mcp.answer import Answer
from dualsql.mcp.problems import problem_of, spoken_problem
from dualsql.resource import Principal
from dualsql.response import DualResponse, Links, ResultsFormat, call_tool_result, problem_tool_result
from dualsql.settings import Settings
from dualsql.statement import Statement

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_STATEMENTS = (Select, CompoundSelect, TextualSelect)


class Responder(Protocol):
    """What is asked of a DualResponseServer."""

    settings: Settings

    async def create_response(
        self, select: Statement, *, name: str, **options: Unpack[ResponseOptions]
    ) -> DualResponse:
        """Store `select` as a resource and show its first rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls: the name of the host's client, and the access token that was verified for the call."""

    client: str | None
    token: Any | None


class Manners(NamedTuple):
    """How an SDK is spoken to.

    Attributes:
        spoken: errors whose text a tool's author writes for the model ...
        hidden: ... but for those that the SDK raises itself.
        passed: errors that are the SDK's to answer.
        through: results that are.
    """

    spoken: tuple[type[Exception], ...]
    hidden: tuple[type[Exception], ...]
    passed: tuple[type[Exception], ...]
    through: tuple[type, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that returns a Select, and all that is to be known of it.

    Attributes:
        answer: what holds where the function does not say otherwise.
        principal: whom a verified access token stands for.
        registration: further keywords of the SDK's own registration.
    """

    dual: Responder
    function: Callable[..., Any]
    name: str
    title: str | None
    description: str
    answer: Mapping[str, Any]
    links: Links
    text_format: TextFormat
    results_format: ResultsFormat
    principal: Callable[[Any], Principal]
    registration: Mapping[str, Any]

    async def call(
        self, arguments: Mapping[str, Any], find_caller: Callable[[], Caller], manners: Manners
    ) -> CallToolResult | Any:
        """The result of one call; an error is one, too, unless it is the SDK's to answer."""
        try:
            caller = find_caller()
            principal = None if caller.token is None else self.principal(caller.token)
            returned = await self._run(arguments)
            if isinstance(returned, manners.through):
                return returned
            response = await self._respond(returned, principal)
            return response.to_call_tool_result(
                links=self.links,
                text_format=self.text_format,
                results_format=self.results_format,
                client=caller.client,
            )
        except manners.passed:
            raise
        except Exception as error:  # noqa: BLE001 - the outermost edge: an SDK would show what is not ours
            is_spoken = isinstance(error, manners.spoken) and not isinstance(error, manners.hidden)
            problem = spoken_problem(error) if is_spoken else problem_of(error, self.name)
            return call_tool_result(problem_tool_result(problem))

    async def _run(self, arguments: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**arguments)
        # It may do more than build a Select. Not asyncio.to_thread, which waits for ever if it raises StopIteration.
        returned = await to_thread.run_sync(partial(self.function, **arguments), abandon_on_cancel=True)
        return await returned if inspect.isawaitable(returned) else returned

    async def _respond(self, returned: Any, principal: Principal | None) -> DualResponse:
        if isinstance(returned, DualResponse):
            return returned
        answer = Answer(returned) if isinstance(returned, _STATEMENTS) else returned
        if not isinstance(answer, Answer):
            raise TypeError(
                f"{self.name} returned a {type(returned).__name__}, and neither Select nor Answer"
            )
        options = {**self.answer, **_said(answer)}
        description = options.pop("description", None)
        if description is not None:
            options["metadata"] = {**options.get("metadata", {}), "description": description}
        response = await self.dual.create_response(answer.select, principal=principal, **options)
        return replace(response, description=description)


def _said(answer: Answer) -> dict[str, Any]:
    names = ("name", "description", "sample_size", "expiration", "count", "metadata", "source")
    return {name: value for name in names if (value := getattr(answer, name)) is not None}
