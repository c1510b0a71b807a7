"""One call of a tool: its arguments, its function, and the result or the problem."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, Union, get_args, get_origin

from anyio import to_thread
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, TimeoutError as PoolTimeoutError

from dualsql.envelope import RequestedForm
from dualsql.envelope.responses import MESSAGE_WIDTH
from dualsql.errors import (
    BadParameterError,
    Cause,
    ConfigurationError,
    DatabaseBusyError,
    DualResponseError,
    NotFreezableError,
    QueryExecutionError,
    UnauthenticatedError,
    ValueNotRepresentableError,
    refuse_unknown,
)
from dualsql.events import EVENTS, ErrorAnswered, Measurement, RowsShown
from dualsql.formats import json
from dualsql.formats.text import INT64_BOUND, single_line
from dualsql.log import log_failure, log_unforeseen, new_incident
from dualsql.mcp.negotiation import Report, with_structured_text
from dualsql.request_log import LoggedRequest, RequestIds, logged_request
from dualsql.resource import Principal
from dualsql.response import call_tool_result, text_block
from dualsql_client.conversions import parameter_details
from dualsql_client.wire import ToolProblem

if TYPE_CHECKING:
    from mcp_types import CallToolResult


logger = logging.getLogger(__name__)

PrincipalOf = Callable[[Any], Principal]
"""Returns the principal of a verified access token."""


TOOL_ERROR = "TOOL_ERROR"
"""The code of a problem whose message the tool's author wrote, by raising the SDK's ToolError."""


class MalformedCallError(Exception):
    """The arguments of a call contradict each other in a way that a JSON Schema cannot express."""


class WrongOutputError(TypeError):
    """A tool returned what is no result. The message goes to the log, without a traceback: no frame is the author's."""


IS_IDENTIFIED: ContextVar[bool] = ContextVar("dualsql_is_identified", default=False)
"""Whether `authenticate` has read the request of this call."""


def tool_error_problem(error: Exception) -> ToolProblem:
    """The problem for a ToolError of an SDK: its text is written for the model."""
    return ToolProblem(code=TOOL_ERROR, message=single_line(str(error), MESSAGE_WIDTH), hint="", details={})


def problem_for(error: Exception, tool: str) -> ToolProblem:
    """The problem that the caller of `tool` gets for `error`.

    The SDKs differ in what they show of an exception, and one of them showed a database's URL. So the text of an
    exception that is not a DualResponseError goes to the log only; the caller gets the number of the incident.
    """
    if isinstance(error, SQLAlchemyError):
        cause, error = error, _translate(error)
        error.__cause__ = cause
    if not isinstance(error, DualResponseError):
        return _incident_problem(error, tool)
    if error.__cause__ is not None or error.caller_words is not None:
        log_failure(logger, error, f"the tool {tool!r}", level=logging.WARNING)
    else:
        # Not its message, which may have a value or an id.
        logger.info("The tool %r answered %s", tool, error.code)
    message, hint = error.for_caller
    return ToolProblem(code=error.code, message=message, hint=hint, details=dict(error.details))


def _translate(error: SQLAlchemyError) -> DualResponseError:
    """The error for a statement that the tool's own code ran; `create_response` translates its errors itself."""
    if isinstance(error, PoolTimeoutError):
        return DatabaseBusyError("No database connection became free in time.")
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return DatabaseBusyError("The database broke off the connection.")
    return QueryExecutionError("The database could not run the query.")


def _incident_problem(error: Exception, tool: str) -> ToolProblem:
    incident = new_incident()
    if isinstance(error, WrongOutputError):
        logger.error("incident %s: the tool %r %s", incident, tool, error)
    else:
        log_unforeseen(logger, error, "incident %s: the tool %r failed", incident, tool)
    return ToolProblem(
        code=DualResponseError.code,
        message="The tool failed.",
        hint=f"Tell the operator of the server the incident {incident}.",
        details={"incident": incident},
    )


# A failure of a value may be that of an INTEGER column, which holds 32 bits.
_INT32_BOUND = 2**31


def refused_argument(error: Exception, arguments: Mapping[str, Any]) -> BadParameterError | None:
    """The error for an argument that no database accepts, if this is why the statement of a tool failed.

    The tool may pass an argument on to its statement. A number beyond all types is then the caller's error, and not an
    error of the query.
    """
    if not isinstance(error, QueryExecutionError | NotFreezableError):
        return None
    largest = _INT32_BOUND if getattr(error, "is_of_a_value", False) else INT64_BOUND
    for name, value in arguments.items():
        kind = _beyond_databases(value, largest)
        if kind:
            refusal = BadParameterError(
                f"The argument {name[:80]!r} is {kind} that the database does not take.",
                hint="Give a smaller one." if kind == "a number" else "Write it without control characters.",
                details={"name": name[:80]},
            )
            refusal.__cause__ = error
            return refusal
    return None


def _beyond_databases(value: Any, largest: int) -> str:
    """The part of an argument that no column can hold, in words; empty if there is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "" if -largest <= value < largest else "a number"
    if isinstance(value, Decimal):
        return "" if value.is_finite() and abs(value.adjusted()) < _MOST_DIGITS else "a number"
    if isinstance(value, str):
        return "a text" if _ODD_CHARACTER.search(value) else ""
    inside = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    )
    return next(filter(None, (_beyond_databases(one, largest) for one in inside)), "")


_MOST_DIGITS = 60
_ODD_CHARACTER = re.compile("[\x00\ud800-\udfff]")


_REPORTED = 3  # the largest number of invalid arguments in one answer
_CONDITIONS = {"where", "condition", "filter"}
_IN_SQL = "Use filters, or write the condition in sql: SELECT * FROM data WHERE ..."


def close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, in plain types and with other properties forbidden.

    The SDKs drop unknown arguments, or answer with a validator's text and address.
    """
    return {**in_plain_types(schema), "additionalProperties": False}


def in_plain_types(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without titles, and without null as a type of optional parameters.

    Pydantic repeats each name as a title and writes an optional text as `anyOf` of text and null. Some hosts refuse a
    parameter without a `type`. Null is still accepted, because pydantic validates arguments, not this schema.
    """
    return _change(schema, _in_plain_types)


def without_titles(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without titles, in which pydantic repeats each name."""
    return _change(schema, _without_title)


def _in_plain_types(schema: dict[str, Any]) -> dict[str, Any]:
    plain_schema = _without_title(schema)
    if plain_schema.get("default", ...) is None and _NULL in plain_schema.get("anyOf", ()):
        del plain_schema["default"]
        others = [each for each in plain_schema.pop("anyOf") if each != _NULL]
        plain_schema = {**(others[0] if len(others) == 1 else {"anyOf": others}), **plain_schema}
    if plain_schema.get("additionalProperties") is True:
        del plain_schema["additionalProperties"]  # true is the default
    return plain_schema


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "title"}


_NULL = {"type": "null"}
_KEYS_OF_SCHEMAS = frozenset({"properties", "$defs", "patternProperties"})
_VALUES = frozenset({"default", "enum", "const", "examples", "required"})

Change = Callable[[dict[str, Any]], dict[str, Any]]


def _change(schema: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Apply `change` to a schema and to each schema in it."""
    return {name: _changed_value(name, value, change) for name, value in change(dict(schema)).items()}


def _changed_value(keyword: str, value: Any, change: Change) -> Any:
    """The value of a schema's keyword."""
    # Data, and no schema: a default may be an object with a key "title".
    if keyword in _VALUES:
        return value
    if isinstance(value, dict):
        if keyword in _KEYS_OF_SCHEMAS:
            return {name: _change(each, change) for name, each in value.items()}
        return _change(value, change)
    if isinstance(value, list):
        return [_change(each, change) if isinstance(each, dict) else each for each in value]
    return value


def without_empty_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without unknown ones that are null or an empty text: models fill in what they do not need.

    A null for a parameter with another default, which takes no null, is left out, too.
    """
    properties = schema.get("properties", {})
    return {
        name: value
        for name, value in arguments.items()
        if value not in (None, "") or (name in properties and (value == "" or _takes_null(properties[name])))
    }


def _takes_null(schema: Mapping[str, Any]) -> bool:
    """Whether null is for the validator: a value of the parameter, its default, or an error."""
    return "default" not in schema or _NULL in schema.get("anyOf", ())


def unknown_argument(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """A message about an argument that is not in the schema; None if there is none."""
    names = list(schema.get("properties", {}))
    try:
        refuse_unknown(arguments, names, "argument")
    except BadParameterError as error:
        unknown = str(error.details["name"]).lower()
        hint = _IN_SQL if unknown in _CONDITIONS and {"filters", "sql"} <= set(names) else error.hint
        return f"{error.message} {hint}"
    return None


_EXPECTED: Mapping[str, str] = {
    "missing": "{name} is required.",
    "missing_argument": "{name} is required.",
    "missing_keyword_only_argument": "{name} is required.",
    **dict.fromkeys(("string_type", "string_sub_type"), "{name} must be a text."),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "{name} must be a whole number."),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "{name} must be a number."),
    **dict.fromkeys(("bool_type", "bool_parsing"), "{name} must be true or false."),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "{name} must be a list."),
    **dict.fromkeys(
        ("dict_type", "model_type", "mapping_type"), '{name} must be an object: {{"name": value}}.'
    ),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing"), "{name} must be a date: 2026-01-31."
    ),
    "literal_error": "{name} must be {expected}.",
    "enum": "{name} must be {expected}.",
    "greater_than_equal": "{name} must be at least {ge}.",
    "greater_than": "{name} must be more than {gt}.",
    "less_than_equal": "{name} must be at most {le}.",
    "less_than": "{name} must be less than {lt}.",
    "string_too_short": "{name} must have {min_length} or more characters.",
    "string_too_long": "{name} must have {max_length} characters at most.",
    "too_short": "{name} must have {min_length} or more items.",
    "too_long": "{name} must have {max_length} items at most.",
}
"""Type of pydantic's error -> what the argument has to be."""


def invalid_arguments(error: ValidationError) -> str:
    """A message about invalid values: each argument and what it has to be, without the value."""
    problems: dict[str, str] = {}
    for each in error.errors(include_url=False, include_input=False):
        name = str(each["loc"][0]) if each["loc"] else "arguments"
        sentence = _EXPECTED.get(each["type"])
        # Another message was written by the author of the tool.
        other = f"{name}: {each['msg'].removesuffix('.')}."
        problems.setdefault(
            name, other if sentence is None else sentence.format(name=name, **each.get("ctx", {}))
        )
    return " ".join(list(problems.values())[:_REPORTED])


def malformed_call(tool: str, message: str) -> CallToolResult:
    """The answer to a malformed call, the same on both SDKs: a text, and no structure (docs/decisions/0017)."""
    return call_tool_result(
        {"content": [text_block(f"Error executing tool {tool}: {message}")], "isError": True}
    )


INVALID_PARAMETERS = "INVALID_PARAMETERS"
"""The code of a malformed call, for callers that asked for data."""

Refuse = Callable[[str, Mapping[str, Any], Mapping[str, Any], RequestedForm], "CallToolResult"]
"""`Tool.malformed`: returns the answer to a malformed call."""

_JSON = (str, int, float, list, dict)


def refuse_nothing(
    message: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], form: RequestedForm
) -> CallToolResult:
    """Placeholder in the tool object of an SDK until the tool is registered."""
    raise NotImplementedError


_NONE: Mapping[str, Any] = {}

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of `function`, its annotations evaluated.

    Raises:
        ConfigurationError: a parameter cannot be given by name, or an annotation cannot be evaluated.
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


def publish_without(function: Callable[..., Any], name: str, *, required: Mapping[str, Any] = _NONE) -> None:
    """Remove a parameter with a default from the signature of `function`.

    Args:
        required: annotations of parameters that become required by this.
    """
    signature = signature_of(function)
    parameters = [
        each.replace(annotation=required[each.name], default=each.empty) if each.name in required else each
        for each in signature.parameters.values()
        if each.name != name
    ]
    vars(function)["__signature__"] = signature.replace(parameters=parameters)


class PrincipalParameters:
    """The parameters of a function that get the caller: those annotated `Principal` or `Principal | None`.

    They are not in the published schema, like an SDK's Context.

    Attributes:
        names: of these parameters.
        others: the remaining parameters.
    """

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters
        kinds = {name: _types_in(parameter.annotation) for name, parameter in parameters.items()}
        self.names = [
            name
            for name, classes in kinds.items()
            if Principal in classes and classes <= {Principal, NoneType}
        ]
        self.others = [parameter for name, parameter in parameters.items() if name not in self.names]
        self._is_required = any(NoneType not in kinds[name] for name in self.names)

    def arguments(self, principal: Principal | None) -> Mapping[str, Principal | None]:
        """The values of these parameters.

        Raises:
            UnauthenticatedError: the caller is anonymous, and a parameter does not take None.
        """
        if principal is None and self._is_required:
            raise UnauthenticatedError("This tool answers only callers that are known.")
        return dict.fromkeys(self.names, principal)


def _types_in(annotation: Any) -> set[Any]:
    """The types in an annotation, with `object` for anything that is not a type."""
    if get_origin(annotation) is Annotated:
        return _types_in(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_types_in, get_args(annotation)))
    return {annotation if isinstance(annotation, type) else object}


def with_signature(
    run: Callable[..., Awaitable[Any]],
    function: Callable[..., Any],
    name: str,
    parameters: Sequence[inspect.Parameter],
    returns: Any,
) -> Callable[..., Awaitable[Any]]:
    """A coroutine function that calls `run`, with the docstring of `function` and these parameters."""

    async def tool(**arguments: Any) -> Any:
        return await run(**arguments)

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = function.__doc__
    tool.__module__ = getattr(function, "__module__", None) or __name__
    # A parameter without an annotation stays without one: each SDK has its own default for it.
    annotated = {p.name: p.annotation for p in parameters if p.annotation is not inspect.Parameter.empty}
    tool.__annotations__ = {**annotated, "return": returns}
    vars(tool)["__signature__"] = inspect.Signature(parameters, return_annotation=returns)
    return tool


class CallContext(NamedTuple):
    """The information of an SDK about one call.

    Attributes:
        client: the name that the client gave when it connected.
        token: the access token that the SDK has verified.
        report: sends progress to the client.
        is_task: the call runs as a background task, so no client waits for it.
        form: the form of the answer, from the headers of the call.
        ids: of the request that the call came with; None if it did not come with one.
        arguments: those that are JSON and not null.
    """

    client: str | None
    token: Any | None
    report: Report | None = None
    is_task: bool = False
    form: RequestedForm = RequestedForm()
    ids: RequestIds | None = None
    arguments: Mapping[str, Any] = _NONE


_LONGEST_CALL = 600
"""Characters of the arguments of a call that a result keeps."""


def tool_call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A call for `dualsql.resource.CALLS`: without its arguments, if they are long or cannot be stored."""
    try:
        text = json.dumps(dict(arguments)).decode()
    except (ValueNotRepresentableError, ValueError, TypeError):
        return {"tool": tool}
    return {"tool": tool, "arguments": text} if len(text) <= _LONGEST_CALL else {"tool": tool}


def client_name(session: Any) -> str | None:
    """The name that the client of an SDK's session gave when it connected."""
    params = session.client_params
    return None if params is None else str(params.client_info.name)


class SDKProfile(NamedTuple):
    """How the exceptions and results of one SDK are treated.

    Attributes:
        tool_errors: exceptions whose text a tool's author wrote for the model.
        internal_errors: those among them that the SDK raises itself; their text is not shown.
        passed_errors: exceptions that are raised again, for the SDK to answer.
        passed_results: types of results that are returned to the SDK unchanged.
    """

    tool_errors: tuple[type[Exception], ...]
    internal_errors: tuple[type[Exception], ...]
    passed_errors: tuple[type[Exception], ...]
    passed_results: tuple[type, ...]


class ResultAdapter(Protocol):
    """Makes tool results, as MCP has them in JSON, of what a tool's function returns."""

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the structured content of every result and every problem."""
        ...

    async def result(
        self, output: Any, context: CallContext, principal: Principal | None
    ) -> Mapping[str, Any]:
        """The tool result for what the function returned."""
        ...

    def problem_result(self, problem: ToolProblem, form: RequestedForm) -> Mapping[str, Any]:
        """The tool result for a problem."""
        ...


def cause_of_code(code: str) -> Cause:
    """The cause of the errors with a code; an unknown one is the server's."""
    classes = list[type[DualResponseError]]([DualResponseError])
    for each in classes:  # which grows
        classes += each.__subclasses__()
    return next((each.cause for each in classes if each.code == code), "server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function as a tool, independent of the SDK.

    Attributes:
        parameters: those of the function that are no principal parameters: arguments of clients, and an SDK's Context.
        principal: gives the principal of a verified access token.
        registration: further keyword arguments of the SDK's own registration.
    """

    function: Callable[..., Any]
    name: str
    title: str | None
    description: str
    parameters: Sequence[inspect.Parameter]
    principal_parameters: PrincipalParameters
    adapter: ResultAdapter
    principal: PrincipalOf
    registration: Mapping[str, Any]

    async def call(
        self, arguments: Mapping[str, Any], get_context: Callable[[], CallContext], profile: SDKProfile
    ) -> CallToolResult | Any:
        """The result of one call. An exception becomes a result too, except those that the SDK answers."""
        # Of its own: a session's context is that of the request that opened it.
        record = LoggedRequest(id=new_incident(), method="tools/call", route=self.name)
        with logged_request(record), self._measure(get_context) as measurement:
            try:
                return await self._call(arguments, get_context, profile, record)
            finally:
                EVENTS.report(RowsShown(self.name, record.rows or 0))
                if record.code is not None:
                    is_of_caller = record.code == INVALID_PARAMETERS
                    cause = "caller" if is_of_caller else cause_of_code(record.code)
                    EVENTS.report(ErrorAnswered(record.code, "mcp", cause))
                if measurement is not None:
                    record.trace_id = measurement.trace_id or record.trace_id
                    if record.code is not None:
                        measurement.fail(record.code)

    def _measure(self, get_context: Callable[[], CallContext]) -> AbstractContextManager[Measurement | None]:
        headers: list[tuple[bytes, bytes]] = []
        if EVENTS.listener is not None:
            with suppress(Exception):  # the error of the call itself says what is wrong with it
                ids = get_context().ids
                if ids is not None and ids.traceparent:
                    headers.append((b"traceparent", ids.traceparent.encode()))
        attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.name,
        }
        return EVENTS.measured("tool", f"tools/call {self.name}", attributes, headers=headers)

    async def _call(
        self,
        arguments: Mapping[str, Any],
        get_context: Callable[[], CallContext],
        profile: SDKProfile,
        record: LoggedRequest,
    ) -> CallToolResult | Any:
        form = RequestedForm()
        try:
            context = get_context()
            form = context.form
            if context.ids is not None:
                record.id, record.trace_id, record.address, _ = context.ids
            principal = None if context.token is None else self.principal(context.token)
            record.principal = principal
            output = await self.run({**arguments, **self.principal_parameters.arguments(principal)})
            if isinstance(output, profile.passed_results):
                return output
            passed = {name: value for name, value in arguments.items() if isinstance(value, _JSON)}
            result = await self.adapter.result(output, context._replace(arguments=passed), principal)
        except profile.passed_errors:
            raise
        except MalformedCallError as error:
            record.code = INVALID_PARAMETERS
            return self.malformed(str(error), arguments, {}, form)
        except Exception as error:  # noqa: BLE001 - the outermost edge: an SDK would show a foreign exception's text
            is_tool_error = isinstance(error, profile.tool_errors)
            is_authors = is_tool_error and not isinstance(error, profile.internal_errors)
            refused = refused_argument(error, arguments) or error
            problem = tool_error_problem(error) if is_authors else problem_for(refused, self.name)
            record.code = problem["code"]
            result = self.adapter.problem_result(problem, form)
        return call_tool_result(with_structured_text(result, form))

    def malformed(
        self, message: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], form: RequestedForm
    ) -> CallToolResult:
        """The answer to a malformed call: a text; for a program INVALID_PARAMETERS, with what came and what should."""
        if not form.is_structured:
            return malformed_call(self.name, message)
        received = {
            name: value for name, value in arguments.items() if isinstance(value, _JSON)
        }  # no Context
        details = parameter_details(received, schema)
        problem = ToolProblem(
            code=INVALID_PARAMETERS, message=single_line(message, MESSAGE_WIDTH), hint="", details=details
        )
        return call_tool_result(with_structured_text(self.adapter.problem_result(problem, form), form))

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**arguments)
        # In a thread, because the function may do more than build a Select. asyncio.to_thread is not used: it would
        # wait for ever if the function raised StopIteration.
        output = await to_thread.run_sync(partial(self.function, **arguments), abandon_on_cancel=True)
        return await output if inspect.isawaitable(output) else output
