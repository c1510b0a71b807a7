"""One call of a tool: its function, then what that returned or a problem; the rule: it always ends in a result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from anyio import to_thread

from dualsql.envelope import Wanted
from dualsql.mcp.arguments import malformed
from dualsql.mcp.negotiating import for_its_reader
from dualsql.mcp.patience import Report
from dualsql.mcp.problems import MalformedCallError, problem_of, spoken_problem
from dualsql.mcp.signatures import Callers
from dualsql.resource import Principal
from dualsql.response import call_tool_result
from dualsql_client.wire import ToolProblem

if TYPE_CHECKING:
    from mcp_types import CallToolResult


class Introduction(NamedTuple):
    """What an SDK knows of a caller.

    Attributes:
        client: the name of the host's client.
        token: the access token that the SDK has verified.
        report: tells it how the call goes on.
        is_task: nobody waits for the call: it may take its time.
        wanted: who reads the answer, as the headers of the call say.
    """

    client: str | None
    token: Any | None
    report: Report | None = None
    is_task: bool = False
    wanted: Wanted = Wanted()


class Caller(NamedTuple):
    """Who calls: the name of the host's client, and whom its access token stands for; the rest as introduced."""

    client: str | None
    principal: Principal | None
    report: Report | None = None
    is_task: bool = False
    wanted: Wanted = Wanted()


class Customs(NamedTuple):
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


class Manner(Protocol):
    """How what a function returns becomes a result."""

    @property
    def output_schema(self) -> dict[str, Any]:
        """What every result looks like, an error too."""
        ...

    async def result(self, returned: Any, caller: Caller) -> Mapping[str, Any]:
        """The tool result, as the wire has it."""
        ...

    def refused(self, problem: ToolProblem, wanted: Wanted) -> Mapping[str, Any]:
        """The tool result for a problem, as the wire has it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function, and all that is to be known of it.

    Attributes:
        parameters: those that a client gives, and those of the SDK's.
        callers: those that are told who calls.
        manner: what becomes of what it returns.
        principal: whom a verified access token stands for.
        registration: further keywords of the SDK's own registration.
    """

    function: Callable[..., Any]
    name: str
    title: str | None
    description: str
    parameters: Sequence[inspect.Parameter]
    callers: Callers
    manner: Manner
    principal: Callable[[Any], Principal]
    registration: Mapping[str, Any]

    async def call(
        self, arguments: Mapping[str, Any], introduce: Callable[[], Introduction], customs: Customs
    ) -> CallToolResult | Any:
        """The result of one call; an error is one, too, unless it is the SDK's to answer."""
        wanted = Wanted()
        try:
            introduction = introduce()
            wanted = introduction.wanted
            token = introduction.token
            principal = None if token is None else self.principal(token)
            caller = Caller(introduction.client, principal, *introduction[2:])
            returned = await self._run({**arguments, **self.callers.arguments(caller.principal)})
            if isinstance(returned, customs.through):
                return returned
            result = await self.manner.result(returned, caller)
        except customs.passed:
            raise
        except MalformedCallError as error:
            return malformed(self.name, str(error))
        except Exception as error:  # noqa: BLE001 - the outermost edge: an SDK would show what is not ours
            is_spoken = isinstance(error, customs.spoken) and not isinstance(error, customs.hidden)
            problem = spoken_problem(error) if is_spoken else problem_of(error, self.name)
            result = self.manner.refused(problem, wanted)
        return call_tool_result(for_its_reader(result, wanted))

    async def _run(self, arguments: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**arguments)
        # It may do more than build a Select. Not asyncio.to_thread, which waits for ever if it raises StopIteration.
        returned = await to_thread.run_sync(partial(self.function, **arguments), abandon_on_cancel=True)
        return await returned if inspect.isawaitable(returned) else returned
