"""The answers of tools, for a program, and the tools of a server."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from dualsql_client.conversions import parameter_details
from dualsql_client.errors import ToolFailedError
from dualsql_client.markdown import MarkdownAnswer, ParseStrategy, parse_markdown
from dualsql_client.object_walk import Fields, fields_of
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.preview import printable
from dualsql_client.wire import Row

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
    """All tools of a client's `list_tools`, or of fastmcp's `list_tools_mcp`."""
    tools: list[ToolDescription] = []
    cursors: set[str] = set()
    options: dict[str, Any] = {}
    for _ in range(_MAXIMUM_PAGES):
        page = await list_tools(**options)
        fields: Mapping[Any, Any] = {"tools": page} if isinstance(page, list) else fields_of(page) or {}
        tools += [_describe(tool) for tool in fields.get("tools", ())]
        cursor = fields.get("next_cursor", fields.get("nextCursor"))
        # A faulty server could repeat its cursors for ever.
        if not isinstance(cursor, str) or cursor in cursors:
            break
        cursors.add(cursor)
        options["cursor"] = cursor
    return tools


def _describe(tool: Any) -> ToolDescription:
    fields = fields_of(tool) or {}
    return ToolDescription(
        name=str(fields.get("name", "")),
        description=str(fields.get("description") or ""),
        input_schema=fields.get("input_schema", fields.get("inputSchema")),
        output_schema=fields.get("output_schema", fields.get("outputSchema")),
    )


def search_tools(tools: Iterable[ToolDescription], query: str) -> list[ToolDescription]:
    """The tools with every word of the query, or a similar one, in name or description; the best match first."""
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


Query = Callable[["ToolAnswer", str], Awaitable[list[Row]]]
Source = Literal["dual response", "dual mode", "structure", "json", "markdown", "nothing"]

_MAXIMUM_TEXT = 2_000
_QUOTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The values of one answer; None for those that it does not have.

    Attributes:
        tool: the name of the tool.
        source: the part of the answer that was read. With "markdown", the values are from a text. A "dual response" in
            a dual-mode envelope has the `data_access_id`, `table`, `operation` and `metadata` of the envelope, too.
        data: of the structure, of a JSON block, or the rows of a table.
        data_access_id, table: of staged data, which `query` reads.
        response: the dual response, if it is one.
        error: code, message and details; None when the call succeeded.
        text: the text for a person.
        fields: the values of `expected_fields`, by these names.
        missing: the names of `expected_fields` without a value.
        raw: the result of the MCP client.
    """

    tool: str
    source: Source
    data: Any = None
    data_access_id: str | None = None
    table: str | None = None
    operation: str | None = None
    response: ParsedDualResponse | None = None
    error: ToolFailedError | None = None
    text: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    missing: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    raw: Any = None
    _query: Query | None = field(default=None, repr=False)

    @property
    def success(self) -> bool:
        """Whether the call succeeded."""
        return self.error is None

    @property
    def rows(self) -> list[Row] | None:
        """The rows in the answer itself; None without any, or if they cannot be identified."""
        return rows_in(self.data)

    @property
    def has_more(self) -> bool:
        """Whether the answer is marked as having more rows."""
        fields = _mapping(self.data)
        return _field_of(fields, "hasMore") is True or _field_of(fields, "truncated") is True

    @property
    def next_cursor(self) -> str | None:
        """The cursor of the next rows, of an answer that has one."""
        return _text(_field_of(_mapping(self.data), "nextCursor"))

    async def query(self, sql: str) -> list[Row]:
        """The rows of a statement over the staged data, or over the rows of the dual response.

        Raises:
            ToolFailedError: there is nothing to query, or the server rejected the statement.
            FetchError: see `dualsql_client.errors`.
        """
        if self._query is None or (self.data_access_id is None and self.response is None):
            raise ToolFailedError(f"{self.tool} has staged no data to query.")
        return await self._query(self, sql)


def rows_in(data: Any) -> list[Row] | None:
    """The rows that `data` is, or has under `rows`, `results` or `result`; with `columns`, rows may be lists."""
    if not isinstance(data, Mapping):
        return _mappings(data)
    rows = next((data[name] for name in ("rows", "results", "result") if name in data), None)
    are_lists = isinstance(rows, list) and bool(rows) and all(isinstance(row, list) for row in rows)
    return _rows_of_lists(rows, data["columns"]) if "columns" in data and are_lists else _mappings(rows)


def _mappings(rows: Any) -> list[Row] | None:
    is_table = isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)
    return [dict(row) for row in rows] if is_table else None


def _rows_of_lists(rows: Any, columns: Any) -> list[Row] | None:
    entries = columns if isinstance(columns, list) else []
    names = [column.get("name") if isinstance(column, Mapping) else column for column in entries]
    # A dict would lose one of two columns with the same name.
    is_table = len(set(map(str, names))) == len(names) and all(len(row) == len(names) for row in rows)
    if not is_table or not all(isinstance(name, str) for name in names):
        return None
    return [{str(name): value for name, value in zip(names, row, strict=True)} for row in rows]


def read_answer(
    tool: str,
    raw: Any,
    *,
    response: ParsedDualResponse | None,
    strategy: ParseStrategy,
    expected_fields: Sequence[str],
    query: Query | None,
) -> ToolAnswer:
    """The result of a call of `tool` as an answer."""
    text = joined_text(raw)
    failed = is_failed(raw)
    common: dict[str, Any] = {"tool": tool, "raw": raw, "text": text, "_query": query}
    structure = _structure(raw, text)
    if response is not None:
        values = _of_dual_response(structure, text or "", expected_fields, tool)
        return ToolAnswer(**common, **{**values, "data": response.sample, "response": response})
    if structure is not None:
        return ToolAnswer(**common, **_of_structure(structure, expected_fields, tool, failed=failed))
    if text is None:
        error = ToolFailedError(f"{tool} failed and did not say why.") if failed else None
        return ToolAnswer(**common, source="nothing", error=error, missing=tuple(expected_fields))
    markdown = parse_markdown(text, strategy=strategy, expected_fields=expected_fields)
    return ToolAnswer(**common, **_of_markdown(markdown, expected_fields, failed=failed))


def is_bare_text(raw: Any) -> bool:
    """Whether the result of a call is a text that is no JSON, and has no structure."""
    text = joined_text(raw)
    return text is not None and _structure(raw, text) is None


_MAXIMUM_FIELDS = 100


def field_names(output_schema: Mapping[str, Any] | None) -> Sequence[str]:
    """The names of the values in a tool's output schema; of a dual-mode answer, those of its data."""
    root = _mapping(output_schema)
    properties = _properties(root, root)
    # Both SDKs wrap what is no object as `result`, and specification S8 has the values of a tool in `data`.
    inner = properties.get("result" if properties.keys() == {"result"} else "data")
    is_wrapped = properties.keys() == {"result"} or {"data", "display"} <= properties.keys()
    names = _properties(_mapping(inner), root) if is_wrapped else properties
    return [str(name) for name in names][:_MAXIMUM_FIELDS]


def _properties(schema: Mapping[Any, Any], root: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The properties of a schema, or of the definition that it refers to."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definition = _mapping(_mapping(root.get("$defs")).get(name)) if "$ref" in schema else schema
    return _mapping(definition.get("properties"))


def _structure(raw: Any, text: str | None) -> tuple[Source, Any] | None:
    """The source and the structure of an answer; None when it has only text."""
    fields = fields_of(raw) or {}
    if _is_dual_mode(fields):
        return "dual mode", fields
    structured = fields.get("structured_content", fields.get("structuredContent"))
    if structured is None and isinstance(raw, Mapping) and "content" not in raw:
        structured = raw  # of a client that returns the structure only
    source: Source = "structure"
    if isinstance(structured, Mapping) and set(structured) == {"result"}:
        # Both SDKs wrap values that are no object, such as the text of a tool.
        structured = structured["result"]
    if structured is None or isinstance(structured, str):
        source, structured = "json", _json_in(text)
    if structured is None:
        return None
    is_dual_mode = isinstance(structured, Mapping) and _is_dual_mode(structured)
    return "dual mode" if is_dual_mode else source, structured


def _json_in(text: str | None) -> Any:
    """The JSON object or list that a text is, or None."""
    # A number or a quoted word is JSON, too, and may be the whole text of a tool.
    if text is None or text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_dual_mode(fields: Fields) -> bool:
    """Whether it has the form of specification S8: data and metadata, or `success` false with an error."""
    if fields.get("success") is False and isinstance(fields.get("error"), Mapping):
        return True
    metadata = fields.get("metadata")
    return (
        "data" in fields and isinstance(metadata, Mapping) and bool(metadata.keys() & {"status", "operation"})
    )


def _of_dual_response(
    structure: tuple[Source, Any] | None, text: str, expected: Sequence[str], tool: str
) -> dict[str, Any]:
    """The values of a dual response, and of its dual-mode envelope if it has one."""
    if structure is None or not isinstance(structure[1], Mapping):  # an SDK retains only the text
        labelled = parse_markdown(text, expected_fields=expected).fields
        return {"source": "dual response", **_expected_fields(labelled, expected)}
    values = _of_structure(structure, expected, tool, failed=False)
    source, envelope = structure
    inner = _mapping(envelope.get("data") if source == "dual mode" else envelope)
    metadata = _mapping(inner.get("metadata"))
    return {
        **values,
        "source": "dual response",
        "metadata": values["metadata"] or metadata,
        "error": None,
        **_expected_fields({**metadata, **inner}, expected),
    }


def _of_structure(
    structure: tuple[Source, Any], expected: Sequence[str], tool: str, *, failed: bool
) -> dict[str, Any]:
    source, fields = structure
    envelope = _mapping(fields)
    is_dual_mode = source == "dual mode"
    data = envelope.get("data") if is_dual_mode else fields
    metadata = _mapping(envelope.get("metadata") if is_dual_mode else None)
    values = _mapping(data)
    error = _error(envelope) or (ToolFailedError(f"{tool} failed.") if failed else None)
    return {
        "source": source,
        "data": None if error else data,
        "data_access_id": _text(_field_of(values, "dataAccessId")),
        "table": _text(_field_of(values, "table")),
        "operation": _text(_field_of(values, "operation")) or _text(metadata.get("operation")),
        "metadata": metadata,
        "error": error,
        **_expected_fields(values, expected),
    }


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _expected_fields(values: Fields, names: Sequence[str]) -> dict[str, Any]:
    fields = {name: value for name in names if (value := _field_of(values, name)) is not None}
    return {"fields": fields, "missing": tuple(name for name in names if name not in fields)}


def _of_markdown(answer: MarkdownAnswer, expected: Sequence[str], *, failed: bool) -> dict[str, Any]:
    error = None
    if answer.error or failed:
        error = ToolFailedError(answer.error or answer.raw_text.strip()[:_MAXIMUM_TEXT])
    labelled = {"dataAccessId": answer.data_access_id, "table": answer.table, "operation": answer.operation}
    values = {
        **answer.fields,
        **_mapping(answer.data),
        **{name: value for name, value in labelled.items() if value is not None},
    }
    return {
        "source": "nothing" if answer.is_empty else "markdown",
        "data": None if error else answer.data,
        "data_access_id": answer.data_access_id,
        "table": answer.table,
        "operation": answer.operation,
        "error": error,
        **_expected_fields(values, expected),
    }


def _field_of(fields: Fields, name: str) -> Any:
    """The value under `name`, in snake case or camel case; None without one, or with two."""
    plain = name.replace("_", "").lower()
    values = [
        value
        for key, value in fields.items()
        if isinstance(key, str) and key.replace("_", "").lower() == plain
    ]
    return values[0] if len(values) == 1 else None


def _error(fields: Fields) -> ToolFailedError | None:
    error = fields.get("error")
    if not error or fields.get("success") is True:
        return None
    if isinstance(error, str):
        return ToolFailedError(error[:_MAXIMUM_TEXT])
    if not isinstance(error, Mapping):
        return None
    details = dict(_mapping(error.get("details")))
    return ToolFailedError(
        (_text(error.get("message")) or "The tool failed.")[:_MAXIMUM_TEXT],
        code=(_text(error.get("code")) or "")[:64] or None,
        hint=_text(error.get("hint")) or _text(details.get("suggestion")),
        details=details,
    )


def is_failed(raw: Any) -> bool:
    """Whether the tool result is marked as an error."""
    fields = fields_of(raw) or {}
    return fields.get("is_error", fields.get("isError")) is True


def joined_text(raw: Any) -> str | None:
    """The text blocks of a tool result, joined; None when it has none."""
    if isinstance(raw, str):
        return raw
    fields = fields_of(raw) or {}
    content = fields.get("content", raw if isinstance(raw, list) else None)
    if isinstance(content, str):
        return content
    blocks = [fields_of(block) or {} for block in content] if isinstance(content, list | tuple) else []
    texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
    return "\n".join(texts) if texts else None


_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list, tuple),
    "object": (Mapping,),
}


def parameters_error(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> ToolFailedError | None:
    """INVALID_PARAMETERS, with what was received and expected, if the arguments do not fit a tool's input schema.

    It checks for missing and unknown names, and for values of another JSON type.
    """
    properties = _mapping(schema.get("properties"))
    required = schema.get("required")
    missing = [name for name in required if name not in arguments] if isinstance(required, list) else []
    is_closed = schema.get("additionalProperties") is False
    unknown = [name for name in arguments if name not in properties] if is_closed else []
    wrong = [
        name for name, value in arguments.items() if name in properties and not _fits(value, properties[name])
    ]
    if not (missing or unknown or wrong):
        return None
    faults = {
        "Missing required parameter": missing,
        "Unknown parameter": unknown,
        "Wrong type of parameter": wrong,
    }
    sentences = [f"{fault}: {', '.join(map(str, names[:3]))}." for fault, names in faults.items() if names]
    return ToolFailedError(
        printable(" ".join(sentences), _MAXIMUM_TEXT),
        code="INVALID_PARAMETERS",
        details=parameter_details(arguments, schema),
    )


def _fits(value: Any, schema: Any) -> bool:
    kinds = _JSON_TYPES.get(str(schema.get("type"))) if isinstance(schema, Mapping) else None
    # True is an int in Python, and no number in JSON.
    if kinds is None or (isinstance(value, bool) and bool not in kinds):
        return kinds is None
    return isinstance(value, kinds)


def beginning_of_answer(answer: ToolAnswer) -> str:
    """The beginning of the answer's text, for the error of an answer without data."""
    text = " ".join((answer.text or "")[:_MAXIMUM_TEXT].split())
    return f" It says: {printable(text, _QUOTED)}" if text else ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
