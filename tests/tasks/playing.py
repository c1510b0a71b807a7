"""A player of tasks: it makes the calls that a model would make, and does what the first hint of an error says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcp import Client
from mcp_types import CallToolResult


@dataclass(frozen=True)
class Call:
    """A call of a tool. The text LAST in an argument is the URI of the last result, and LINK its URL."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """What a person asks, and how a model goes about it.

    Attributes:
        truth: SQL whose rows are the answer, run without dualsql.
        choice: of what a hint offers, the one that the model takes; by default the first.
        rewrite: what the hint of an error says, and the SQL that a model writes after it.
    """

    asks: str
    truth: str
    calls: Sequence[Call]
    choice: str = ""
    rewrite: tuple[str, str] = ("", "")


@dataclass
class Report:
    """How one task went."""

    answer: CallToolResult | None = None
    extra: int = 0
    errors: list[str] = field(default_factory=list)


def tables(**arguments: Any) -> Call:
    return Call("list_tables", arguments)


def find(*terms: str) -> Call:
    return Call("search_catalog", {"terms": list(terms)})


def describe(*names: str, **arguments: Any) -> Call:
    return Call("describe_table", {"table": list(names), **arguments})


def sql(query: str, **arguments: Any) -> Call:
    return Call("execute_query", {"query": query, **arguments})


def ask(**arguments: Any) -> Call:
    return Call("query_result", {"resource": "LAST", **arguments})


def refine(**arguments: Any) -> Call:
    return Call("refine_result", {"resource": "LAST", **arguments})


async def play(client: Client, task: Task) -> Report:
    """Make the calls of `task`. After an error, follow its hint once."""
    report, last = Report(), {"LAST": "", "LINK": ""}
    for call in task.calls:
        result = await _call(client, call, last)
        if result.is_error:
            text = text_of(result)
            report.errors.append(text)
            report.extra += 1
            hint, query = task.rewrite
            second = sql(query) if hint and hint in text else followed(call, text, task.choice)
            result = await _call(client, second, last)
            if result.is_error:
                raise AssertionError(f"{task.asks}: the hint did not help:\n{text}\n{text_of(result)}")
        resource = (result.structured_content or {}).get("resource")
        if resource is not None:
            last = {"LAST": resource["uri"], "LINK": resource["url"]}
        report.answer = result
    return report


async def _call(client: Client, call: Call, last: Mapping[str, str]) -> CallToolResult:
    arguments = json.dumps(call.arguments)
    for word, link in last.items():
        arguments = arguments.replace(word, link)
    return await client.call_tool(call.tool, json.loads(arguments))


def text_of(result: CallToolResult) -> str:
    block = result.content[0]
    assert block.type == "text"
    return block.text


_NAME = r"'((?:[^']|'')+)'"


def followed(call: Call, said: str, choice: str) -> Call:
    """The call as the first hint of an error says, which a model has read as its text."""
    for pattern, follow in _HINTS:
        match = re.search(pattern, said)
        if match is not None:
            return follow(call, match, choice)
    raise AssertionError(f"no hint that can be followed: {said}")


def _again(_: Call, match: re.Match[str], __: str) -> Call:
    return Call(match[1], json.loads(match[2]))


def _meant(call: Call, match: re.Match[str], choice: str) -> Call:
    offers = [offer.strip() for offer in match[2].split(" or ")]
    return _renamed(call, match[1], choice if choice in offers else offers[0])


def _quoted(call: Call, match: re.Match[str], _: str) -> Call:
    query = str(call.arguments["query"]).replace(f'"{match[1]}"', f"'{match[1]}'")
    return replace(call, arguments={**call.arguments, "query": query})


def _limited(call: Call, match: re.Match[str], _: str) -> Call:
    query = re.sub(r"(?i)\btop\s+\(?\d+\)?(\s+(percent|with ties))?", "", str(call.arguments["query"]))
    return replace(call, arguments={**call.arguments, "query": f"{query.rstrip('; ')} LIMIT {match[1]}"})


def _cut(call: Call, match: re.Match[str], _: str) -> Call:
    return replace(call, arguments={**call.arguments, "group_by": [json.loads(match[1])]})


def _renamed_argument(call: Call, match: re.Match[str], _: str) -> Call:
    arguments = {match[2] if name == match[1] else name: value for name, value in call.arguments.items()}
    return replace(call, arguments=arguments)


def _edited(pattern: str, replacement: str) -> Callable[[Call, re.Match[str], str], Call]:
    """The call with another query, as a hint describes it."""
    return lambda call, _, __: replace(
        call, arguments={**call.arguments, "query": re.sub(pattern, replacement, call.arguments["query"])}
    )


def _of_result(call: Call, _: re.Match[str], __: str) -> Call:
    text = re.sub(r"(?i)\bfrom \w+", "FROM data", str(call.arguments["sql"]))
    return replace(call, arguments={**call.arguments, "sql": text})


def _rewritten(call: Call, match: re.Match[str], _: str) -> Call:
    return replace(call, arguments={**call.arguments, match[1]: [json.loads(match[2])]})


def _copied(call: Call, _: re.Match[str], __: str) -> Call:
    return replace(call, arguments={**call.arguments, "resource": "LAST"})


_HINTS: Sequence[tuple[str, Callable[[Call, re.Match[str], str], Call]]] = (
    (r"Make it again: (\w+) (\{.*\})$", _again),
    (rf"Unknown argument {_NAME}\. Did you mean '(\w+)'\?", _renamed_argument),
    (r"Text is written in single quotes: '(.*)'\.", _quoted),
    (r"Look at the tables with list_tables", lambda _, __, ___: tables()),
    (r"does not read the result, which is called data\. Write FROM data", _of_result),
    (r"is no key of (\w+)\. Write (\{.*\})\.", _rewritten),
    (rf"{_NAME}[^']*?Did you mean ([^?]+)\?", _meant),
    (r"Write names in double quotes", _edited("`", '"')),
    (r"Send the SELECT itself", _edited(r"^EXPLAIN\s+", "")),
    (
        r"Write strftime\('%Y-%m-01', x\) for months",
        _edited(r"date_trunc\('month', (\w+)\)", r"strftime('%Y-%m-01', \1)"),
    ),
    (r"Copy the URI of the earlier result", _copied),
    (r"has no function (\w+)\(\)\. Write (\w+)\(", _meant),
    (r"Write LIMIT (\d+) at the end", _limited),
    (r"Cut it: (\{[^}]*\})", _cut),
    (rf"The column {_NAME} is ambiguous\. Write ([^.]+\.[^.]+(?: or [^.]+\.[^.]+)*)\.$", _meant),
)


def _renamed(call: Call, name: str, other: str) -> Call:
    """The call with another name in all texts of its arguments; outside of SQL it needs no quotes."""
    word = re.compile(rf'(?<![\w."])"?{re.escape(name)}"?(?![\w"])', re.IGNORECASE)

    def renamed(key: str, value: Any) -> Any:
        if isinstance(value, str):
            plain = other if key in {"query", "sql"} else other.strip("\"'`")
            return word.sub(lambda _: plain, value)
        if isinstance(value, dict):
            return {key: part if key == "value" else renamed(key, part) for key, part in value.items()}
        return [renamed(key, part) for part in value] if isinstance(value, list) else value

    return replace(call, arguments={key: renamed(key, value) for key, value in call.arguments.items()})
