"""The results of tools: `Answer`, the two result adapters (dual responses and plain data), and their schemas."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

from pydantic import PydanticUserError, TypeAdapter
from sqlalchemy import CompoundSelect, Select, TextualSelect

from dualsql.envelope import (
    RequestedForm,
    create_dual_mode_response,
    dual_mode_schema,
    dual_mode_tool_result,
    plain_value,
    readable,
)
from dualsql.errors import ConfigurationError
from dualsql.freeze.document import Statement
from dualsql.mcp.calls import IS_IDENTIFIED, CallContext, WrongOutputError, tool_call, without_titles
from dualsql.mcp.negotiation import (
    TASK_OFFER,
    ResultStyle,
    ToolCall,
    problem_result,
    problem_tool_result,
    progress,
    response_result,
)
from dualsql.mcp.options import ResultKeywords
from dualsql.resource import CALLS, Principal
from dualsql.response import DualResponse, text_block
from dualsql.settings import ResultsFormat
from dualsql_client.keywords import checked_keywords
from dualsql_client.wire import ToolProblem

if TYPE_CHECKING:
    from dualsql.server import ResultServer

logger = logging.getLogger(__name__)


class AnswerKeywords(ResultKeywords, total=False):
    """The options of an `Answer`, as in `DualResponseServer.create_response`."""

    name: str | None
    metadata: Mapping[str, Any] | None
    is_text: bool


class Answer:
    """A Select and the options of its result, which override those of the tool.

    Args:
        select: as for `DualResponseServer.create_response`.
        description: a sentence that the model reads above the rows; it is kept in the resource's metadata.
        options: as for `DualResponseServer.create_response`. An option that is omitted or None is taken from the tool.

    Attributes:
        options: those that are not None, by name.
    """

    __slots__ = ("description", "options", "select")

    @checked_keywords(AnswerKeywords)
    def __init__(
        self, select: Statement, *, description: str | None = None, **options: Unpack[AnswerKeywords]
    ) -> None:
        self.select = select
        self.description = description
        self.options: Mapping[str, Any] = {
            name: value for name, value in options.items() if value is not None
        }


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_TEXT = {"type": "string"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}

_RESULTS: dict[ResultsFormat, dict[str, Any]] = {
    "rows": _OBJECTS,
    "columnar": {"type": "object", "additionalProperties": {"type": "array"}},
}
_RESOURCE = _object(uri=_TEXT, url=_TEXT, name=_TEXT)
_METADATA = _object(
    total_count={"type": ["integer", "null"]}, sample_count={"type": "integer"}, columns={"type": "array"}
)
_ERROR = {"type": "object"}


def output_schema(results_format: ResultsFormat) -> dict[str, Any]:
    """The JSON Schema of `structuredContent`: a dual response, or `error`.

    It is an outline, because hosts show it to models: the names in the answer say what is in each part.
    `dualsql_client.wire` has all of it.
    """
    return or_error(_object(results=_RESULTS[results_format], resource=_RESOURCE, metadata=_METADATA))


def or_error(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object, or of `error` in its place."""
    names = schema.get("required", [])
    plain_schema = {key: value for key, value in schema.items() if key != "required"}
    either = {"anyOf": [{"required": names}, {"required": ["error"]}]} if names else {}
    return {**plain_schema, "properties": {**schema.get("properties", {}), "error": _ERROR}, **either}


def inline_refs(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with every `$ref` replaced by its definition, a recursive one by an open schema.

    Some hosts do not resolve references, and the official SDK does not accept them in a given schema.
    """
    definitions = schema.get("$defs", {})

    def read(part: Any, open_names: tuple[str, ...]) -> Any:
        if isinstance(part, list):
            return [read(each, open_names) for each in part]
        if not isinstance(part, dict):
            return part
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        around = {key: read(value, open_names) for key, value in part.items() if key not in ("$ref", "$defs")}
        if not name or name in open_names:
            return around
        return {**read(definitions[name], (*open_names, name)), **around}

    inlined_schema: dict[str, Any] = read(schema, ())
    return inlined_schema


_WARNED: WeakSet[ResultServer] = WeakSet()
STATEMENTS = (Select, CompoundSelect, TextualSelect)
"""What a tool may return as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DualResultAdapter:
    """Makes a dual response of a Select, an `Answer` or a `DualResponse`.

    Attributes:
        name: of the tool.
        options: of `create_response`, which an `Answer` may override.
    """

    dual: ResultServer
    name: str
    options: Mapping[str, Any]
    style: ResultStyle

    @property
    def output_schema(self) -> dict[str, Any]:
        if self.style.envelope == "dual_mode":
            return dict(dual_mode_schema())
        return output_schema(self.style.results_format)

    async def result(
        self, output: Any, context: CallContext, principal: Principal | None
    ) -> Mapping[str, Any]:
        self._warn_of_no_token(context)
        offer, start = TASK_OFFER.get(), time.perf_counter()
        async with progress(context.report):
            response = await self._response(output, context, principal, None if offer is None else offer.wait)
        if offer is not None and response.status == "pending":
            offer.started = response.resource_id, self.style
        call = ToolCall(self.name, context.form)
        seconds = time.perf_counter() - start
        return response_result(response, self.style, call, client=context.client, seconds=seconds)

    def problem_result(self, problem: ToolProblem, form: RequestedForm) -> Mapping[str, Any]:
        return problem_result(problem, self.style.envelope, ToolCall(self.name, form))

    def _warn_of_no_token(self, context: CallContext) -> None:
        """Warn once: the server authenticates callers over REST, and was called over HTTP by MCP without a token."""
        is_http = context.ids is not None and context.ids.address is not None
        is_known = context.token is not None or IS_IDENTIFIED.get()
        if (
            is_http
            and not is_known
            and self.dual.access.authenticate is not None
            and self.dual not in _WARNED
        ):
            _WARNED.add(self.dual)
            logger.warning(
                "The tool %r was called over HTTP without a verified token, so its caller is anonymous: authenticate= "
                "identifies callers of REST alone. Give the MCP server a token_verifier (fastmcp: auth), or serve both "
                "by dualsql.serve.serve_app.",
                self.name,
            )

    async def _response(
        self, output: Any, context: CallContext, principal: Principal | None, wait: timedelta | None
    ) -> DualResponse:
        if isinstance(output, DualResponse):
            return output
        answer = Answer(output) if isinstance(output, STATEMENTS) else output
        if not isinstance(answer, Answer):
            raise WrongOutputError(
                f"returned a {type(output).__name__}. Return a Select, such as select(table), or an Answer; "
                "a tool of plain data is one of plain_tool, or of the MCP server itself."
            )
        options = {**self.options, **answer.options}
        calls = [tool_call(self.name, context.arguments)]
        options["metadata"] = {**(options.get("metadata") or {}), CALLS: calls}
        if answer.description is not None:
            options["metadata"] = {**options["metadata"], "description": answer.description}
        if context.is_task:
            # No client waits: longer than the query can run, since it ends at `pending_timeout`.
            options["wait"] = 2 * self.dual.settings.pending_timeout
        elif options.get("wait") is None:
            options["wait"] = wait
        response = await self.dual.create_response(answer.select, principal=principal, **options)
        return replace(response, description=answer.description)


class PlainResultAdapter:
    """Makes a tool result of plain data: the data is the structured content, and the text is written from it.

    Args:
        return_type: the return annotation of the function: a TypedDict, a pydantic model, a dataclass or a dict.
        text_budget: characters of the text, which states what it omits.
        operation: the name of the tool, if its answers have the dual-mode envelope; otherwise None.

    Raises:
        ConfigurationError: the annotation is not the type of a JSON object.
    """

    def __init__(self, return_type: Any, *, text_budget: int, operation: str | None = None) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(return_type)
            schema = without_titles(inline_refs(self._adapter.json_schema(mode="serialization")))
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
        self.output_schema = or_error(schema) if operation is None else dict(dual_mode_schema(schema))
        self._budget = text_budget
        self._operation = operation

    async def result(
        self, output: Any, context: CallContext, principal: Principal | None
    ) -> Mapping[str, Any]:
        start = time.perf_counter()
        # The result is validated, because the protocol requires that it matches the published schema.
        valid = self._adapter.validate_python(output, by_alias=True, by_name=True)
        data = plain_value(self._adapter.dump_python(valid, mode="json", by_alias=True))
        if self._operation is not None:
            answer = create_dual_mode_response(
                data,
                operation=self._operation,
                # Plain text, because Markdown's escapes would change ids that a model copies.
                shown={"type": "text", "content": readable(data, budget=self._budget)},
                seconds=time.perf_counter() - start,
            )
            return dual_mode_tool_result(answer, context.form)
        text = readable(data, budget=self._budget)
        return {"content": [text_block(text)], "structuredContent": data, "isError": False}

    def problem_result(self, problem: ToolProblem, form: RequestedForm) -> Mapping[str, Any]:
        if self._operation is None:
            return problem_tool_result(problem)
        return problem_result(problem, "dual_mode", ToolCall(self._operation, form))
