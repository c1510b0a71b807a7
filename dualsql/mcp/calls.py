"""One call of a tool: its arguments, its function, and the result or the problem."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Union, get_args, get_origin

from anyio import to_thread
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from dualsql.envelope import Wanted
from dualsql.errors import (
    BadParameterError,
    ConfigurationError,
    DatabaseBusyError,
    DualResponseError,
    QueryExecutionError,
    UnauthenticatedError,
    refuse_unknown,
)
from dualsql.formats.text import single_line
from dualsql.log import log_failure, log_unforeseen, new_incident
from dualsql.mcp.negotiation import Report, for_its_reader
from dualsql.resource import Principal
from dualsql.response import call_tool_result, text_block
from dualsql_client.wire import ToolProblem

if TYPE_CHECKING:
    from mcp_types import CallToolResult


logger = logging.getLogger(__name__)

_LONGEST_WORDS = 2_000

TOOL_ERROR = "TOOL_ERROR"
"""The code of what a tool's author says with the ToolError of the SDK."""


class MalformedCallError(Exception):
    """The arguments of a call do not go together, which no schema of an SDK can say."""


def spoken_problem(error: Exception) -> ToolProblem:
    """What a tool's author has said to the model by raising `error`."""
    return ToolProblem(code=TOOL_ERROR, message=single_line(str(error), _LONGEST_WORDS), hint="", details={})


def problem_of(error: Exception, tool: str) -> ToolProblem:
    """What is said of `error`; what is not ours is in the log, under the incident in `details`."""
    if isinstance(error, SQLAlchemyError):
        cause, error = error, _translated(error)
        error.__cause__ = cause
    if not isinstance(error, DualResponseError):
        return _hidden(error, tool)
    if error.__cause__ is not None:
        log_failure(logger, error, f"the tool {tool!r}", level=logging.WARNING)
    else:
        logger.info("The tool %r answered %s: %s", tool, error.code, error)
    message, hint = error.told
    return ToolProblem(code=error.code, message=message, hint=hint, details=dict(error.details))


def _translated(error: SQLAlchemyError) -> DualResponseError:
    """For what a tool runs by itself; what `create_response` runs is translated where it is run."""
    if isinstance(error, PoolTimeoutError):
        return DatabaseBusyError("No database connection became free in time.")
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return DatabaseBusyError("The database broke off the connection.")
    return QueryExecutionError("The database could not run the query.")


def _hidden(error: Exception, tool: str) -> ToolProblem:
    incident = new_incident()
    log_unforeseen(logger, error, "incident %s: the tool %r failed", incident, tool)
    return ToolProblem(
        code=DualResponseError.code,
        message="The tool failed.",
        hint=f"Tell the operator of the server the incident {incident}.",
        details={"incident": incident},
    )


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


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of `function`, its annotations evaluated.

    Raises:
        ConfigurationError: its parameters cannot be given by name, or its annotations not be read.
    """
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, ValueError, TypeError) as error:
        raise ConfigurationError(
            "The signature of the tool's function cannot be read.",
            hint="What its annotations name must be found in its module at run time, not under TYPE_CHECKING alone.",
        ) from error
    for parameter in signature.parameters.values():
        if parameter.kind not in _BY_NAME:
            raise ConfigurationError(
                f"MCP gives arguments by name, which {parameter.name!r} cannot take.",
                hint="Use plain parameters: no *args, no **kwargs, none that is positional only.",
            )
    return signature


class Callers:
    """The parameters of a function that are told who calls: those annotated `Principal`, or `Principal | None`.

    No client sees them, as none sees a Context.

    Attributes:
        others: the parameters that clients give.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters
        kinds = {name: _kinds(parameter.annotation) for name, parameter in parameters.items()}
        self._names = [
            name for name, found in kinds.items() if Principal in found and found <= {Principal, NoneType}
        ]
        self.others = [parameter for name, parameter in parameters.items() if name not in self._names]
        self._is_required = any(NoneType not in kinds[name] for name in self._names)

    def arguments(self, principal: Principal | None) -> Mapping[str, Principal | None]:
        """The arguments that no client gives.

        Raises:
            UnauthenticatedError: nobody is known to call, and the function has no word for nobody.
        """
        if principal is None and self._is_required:
            raise UnauthenticatedError("This tool answers only callers that are known.")
        return dict.fromkeys(self._names, principal)


def _kinds(annotation: Any) -> set[Any]:
    """The types that an annotation names."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_kinds, get_args(annotation)))
    return {annotation if isinstance(annotation, type) else object}


def shaped(
    run: Callable[..., Awaitable[Any]],
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[inspect.Parameter],
    returns: Any,
) -> Callable[..., Awaitable[Any]]:
    """A coroutine function that calls `run`, with the documentation of `function` and the signature given."""

    async def tool(**arguments: Any) -> Any:
        return await run(**arguments)

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = function.__doc__
    tool.__module__ = getattr(function, "__module__", None) or __name__
    # Of the parameters that have none, SDKs make what they like.
    annotated = {p.name: p.annotation for p in parameters if p.annotation is not inspect.Parameter.empty}
    tool.__annotations__ = {**annotated, "return": returns}
    vars(tool)["__signature__"] = inspect.Signature(parameters, return_annotation=returns)
    return tool


class CallContext(NamedTuple):
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


class SDKProfile(NamedTuple):
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


class ResultAdapter(Protocol):
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
    manner: ResultAdapter
    principal: Callable[[Any], Principal]
    registration: Mapping[str, Any]

    async def call(
        self, arguments: Mapping[str, Any], introduce: Callable[[], CallContext], customs: SDKProfile
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
