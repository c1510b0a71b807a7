"""A run against a server, sentence by sentence, and its report."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import httpx
from mcp import MCPError

from dualsql.conformance import checks
from dualsql.conformance.probe import (
    Caller,
    Exchange,
    Probe,
    ProbedResult,
    Untestable,
    Violation,
    probing,
    require,
)
from dualsql.conformance.standard import Sentence, required_parts, sentences, standard

MOST_SECONDS = 600.0
"""For a run."""

Verdict = Literal["passed", "failed", "not offered", "not testable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceOutcome:
    """What a run says of one sentence.

    Attributes:
        reason: why it failed or was not tested.
        exchange: the request and the answer of a failure.
    """

    sentence: Sentence
    verdict: Verdict
    reason: str = ""
    exchange: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As `dualsql conformance --json` prints it."""
        known = {"number": self.sentence.number, "part": self.sentence.part, "level": self.sentence.level}
        details = {"reason": self.reason, "text": self.sentence.text} if self.reason else {}
        exchange = {} if self.exchange is None else {"exchange": self.exchange}
        return {**known, "verdict": self.verdict, **details, **exchange}


def is_conforming(outcomes: Sequence[SentenceOutcome]) -> bool:
    """Whether no MUST failed."""
    return not any(each.verdict == "failed" and each.sentence.level == "MUST" for each in outcomes)


async def check_server(
    url: str,
    *,
    tool: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    base_url: str | None = None,
    parts: Sequence[str] = (),
    tokens: Mapping[Caller, str] | None = None,
) -> list[SentenceOutcome]:
    """What each sentence for servers gives at the MCP endpoint `url`.

    Args:
        tool, arguments: the call that makes a result; by default the documented tool.
        base_url: of the results; by default the origin of the endpoint.
        parts: only these; by default all.
        tokens: bearer tokens of the owner and of a stranger.

    Raises:
        Untestable: there is no such tool, or its call fails.
        OSError, httpx.HTTPError, MCPError: the endpoint cannot be reached.
    """
    wanted = [each for each in sentences() if each.part != "client" and (not parts or each.part in parts)]
    async with (
        asyncio.timeout(MOST_SECONDS),
        probing(url, tool=tool, arguments=arguments, base_url=base_url, tokens=tokens) as probe,
    ):
        with suppress(Violation):  # the checks say what is wrong with it
            await probe.shared()
        offered = await _offered(probe)
        return [await _outcome(sentence, probe, offered) for sentence in wanted]


async def _offered(probe: Probe) -> set[str]:
    """The parts that the server has."""
    try:
        announced = (await probe.service()).get("parts")
    except (Violation, httpx.HTTPError):
        return set(required_parts())
    named = set(announced) | {"discovery"} if isinstance(announced, list) else set()
    return {*required_parts(), "versions", *named}


async def _outcome(sentence: Sentence, probe: Probe, offered: set[str]) -> SentenceOutcome:
    if not {sentence.part, sentence.needs or sentence.part} <= offered:
        return SentenceOutcome(sentence=sentence, verdict="not offered")
    probe.last = None
    try:
        if not sentence.check and not sentence.steps:
            raise Untestable("from outside")
        if sentence.check:
            await getattr(checks, sentence.check)(probe)
        if sentence.steps:
            await _follow(sentence, probe)
    except Untestable as error:
        return SentenceOutcome(sentence=sentence, verdict="not testable", reason=str(error))
    except (Violation, httpx.HTTPError, MCPError) as error:
        reason = str(error) or type(error).__name__
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        reason = f"the answer has not the shape that it should: {type(error).__name__} {error}"
    else:
        return SentenceOutcome(sentence=sentence, verdict="passed")
    last: Exchange | None = probe.last
    exchange = None if last is None else last.to_json()
    return SentenceOutcome(sentence=sentence, verdict="failed", reason=reason, exchange=exchange)


async def _follow(sentence: Sentence, probe: Probe) -> None:
    """Send the requests of a sentence and compare the answers."""
    result = await (probe.create() if sentence.fresh else probe.shared())
    kept: dict[str, Any] = {}
    if any("$number" in json.dumps(step) for step in sentence.steps):
        kept["number"] = (await probe.numbers())[0]
    for step in sentence.steps:
        if step.get("as") and not probe.tokens.get("stranger"):
            raise Untestable("it needs the tokens of two callers")
        answer = await _send(probe, result, step, kept)
        await _compare(probe, step, answer, kept)
        if "alike" in step:
            other = await _send(probe, result, {**step, "at": step["alike"]}, kept)
            _require_alike(answer, other, result)


async def _send(
    probe: Probe, result: ProbedResult, step: Mapping[str, Any], kept: Mapping[str, Any]
) -> Exchange:
    return await probe.send(
        step["send"],
        step.get("at", ""),
        result=result,
        query=step.get("query"),
        body=_filled(step.get("json"), kept),
        text=step.get("text"),
        caller=step.get("as", "owner"),
    )


def _filled(value: Any, kept: Mapping[str, Any]) -> Any:
    """The value with each text "$name" replaced by what an earlier answer gave."""
    if isinstance(value, dict):
        return {name: _filled(each, kept) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, kept) for each in value]
    return kept[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def _is_expected(status: int, expected: Any) -> bool:
    if expected == "4xx":
        return 400 <= status < 500
    if expected == "error":
        return status >= 400
    return bool(status in expected if isinstance(expected, list) else status == expected)


async def _compare(probe: Probe, step: Mapping[str, Any], answer: Exchange, kept: dict[str, Any]) -> None:
    expected = step["expect"]
    require(_is_expected(answer.status, expected), f"it was answered {answer.status} in place of {expected}")
    for name, form in step.get("header", {}).items():
        require(re.search(form, answer.headers.get(name, "")), f"the header {name} is not {form!r}")
    if "schema" in step:
        probe.valid(step["schema"], answer.json())
    if "equals" in step and step["equals"] is None:
        require(not answer.content, "there is a body")
    body: Any = answer.json() if {"rows", "equals", "matches", "keep"} & step.keys() else {}
    for name, value in (step.get("equals") or {}).items():
        require(name in body and body[name] == value, f"{name} is {body.get(name)!r} in place of {value!r}")
    for name, form in step.get("matches", {}).items():
        value = body.get(name)
        require(
            isinstance(value, str) and re.search(form, value), f"{name} is {value!r}, which is not {form!r}"
        )
    for name, source in step.get("keep", {}).items():
        require(body.get(source) is not None, f"there is no {source}")
        kept[name] = body[source]
    if "rows" in step:
        start, stop = step["rows"]
        stop = start + len(body["data"]) if stop is None else stop
        require(step["rows"][1] is not None or body["data"], "the page has no rows")
        rows = (await probe.rows())[start:stop]
        require(body["data"] == rows, f"the rows are not those from {start} to {stop}")


_VARYING = {"date", "content-length", "server"}


def _require_alike(answer: Exchange, other: Exchange, result: ProbedResult) -> None:
    """The same answer, whatever of it names the resource."""
    require(
        answer.status == other.status,
        f"a foreign resource is answered {answer.status}, an unknown {other.status}",
    )
    names = [sorted(set(each.headers) - _VARYING) for each in (answer, other)]
    require(names[0] == names[1], "the headers tell a foreign resource from an unknown one")
    body, unknown = (each.content.decode("utf-8", "replace") for each in (answer, other))
    same = body.replace(result.id, "ID") == unknown.replace(result.id[::-1], "ID")
    require(same, "the body tells a foreign resource from an unknown one")


def report(outcomes: Sequence[SentenceOutcome]) -> str:
    """The report for a person: a line for each failure, then the numbers by part."""
    lines = []
    for each in outcomes:
        if each.verdict == "failed":
            lines += [
                f"{each.sentence.number} {each.sentence.level}: {each.sentence.text}",
                f"    {each.reason}",
            ]
            if each.exchange is not None:
                lines.append(f"    {each.exchange['request'][:300]}")
                lines.append(f"    -> {each.exchange['status']} {each.exchange['body'][:300]}")
    for part in dict.fromkeys(each.sentence.part for each in outcomes):
        verdicts = Counter(each.verdict for each in outcomes if each.sentence.part == part)
        lines.append(f"{part:10} " + ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items()))
    failed = [each.sentence.number for each in outcomes if each.verdict == "failed"]
    verdict = "conforms" if is_conforming(outcomes) else "does not conform"
    lines.append(f"It {verdict} to {standard()['title']}, version {standard()['version']}.")
    return "\n".join(lines + ([f"Failed: {', '.join(failed)}"] if failed else []))
