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
    SECONDS,
    Exchange,
    Probe,
    ProbedResult,
    Target,
    Untestable,
    Violation,
    probing,
    require,
)
from dualsql.conformance.standard import Sentence, sentences, standard

MOST_SECONDS = 600.0
"""For a run, the last of them to delete what it made."""
_CLEANING_SECONDS = 60.0

Verdict = Literal["passed", "failed", "not offered", "not testable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceOutcome:
    """The outcome of one sentence.

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
        labels = {"number": self.sentence.number, "part": self.sentence.part, "level": self.sentence.level}
        details = {"reason": self.reason, "text": self.sentence.text} if self.reason else {}
        exchange = {} if self.exchange is None else {"exchange": self.exchange}
        return {**labels, "verdict": self.verdict, **details, **exchange}


def is_conforming(outcomes: Sequence[SentenceOutcome]) -> bool:
    """Whether no MUST failed."""
    return not any(each.verdict == "failed" and each.sentence.level == "MUST" for each in outcomes)


async def check_server(target: Target, parts: Sequence[str] = ()) -> list[SentenceOutcome]:
    """The outcome of each sentence for servers; of these parts only, if some are named.

    Raises:
        Untestable: there is no such tool, or its call fails.
        OSError, httpx.HTTPError, MCPError: the endpoint cannot be reached.
    """
    end = asyncio.get_running_loop().time() + MOST_SECONDS
    async with asyncio.timeout_at(end), probing(target) as probe:
        with suppress(Violation):  # the checks say what is wrong with it
            await probe.shared()
        offered = await _parts_of(probe)
        return [
            await _outcome(sentence, probe, offered, end - _CLEANING_SECONDS)
            for sentence in sentences()
            if sentence.part != "client" and (not parts or sentence.part in parts)
        ]


async def _parts_of(probe: Probe) -> set[str]:
    """The parts that the server has."""
    try:
        announced = (await probe.service()).get("parts")
    except (Violation, httpx.HTTPError):
        announced = None
    optional = ["discovery", *map(str, announced)] if isinstance(announced, list) else []
    return {*standard()["required"], "versions", *optional}


async def _outcome(sentence: Sentence, probe: Probe, offered: set[str], end: float) -> SentenceOutcome:
    """The outcome of a sentence, whose check ends at this time of the loop."""
    if not {sentence.part, sentence.needs or sentence.part} <= offered:
        return SentenceOutcome(sentence=sentence, verdict="not offered")
    probe.last = None
    try:
        if not sentence.check and not sentence.steps:
            raise Untestable("from outside")
        async with asyncio.timeout_at(end) as limit:
            if sentence.check:
                await getattr(checks, sentence.check)(probe)
            await _follow(sentence, probe)
    except Untestable as error:
        return SentenceOutcome(sentence=sentence, verdict="not testable", reason=str(error))
    except TimeoutError:
        if limit.expired():
            reason = f"the run is bounded to {MOST_SECONDS:.0f} seconds"
            return SentenceOutcome(sentence=sentence, verdict="not testable", reason=reason)
        reason = f"it did not answer within {SECONDS:.0f} seconds"
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
    """Send the requests of a sentence, if it has some, and compare the answers."""
    if not sentence.steps:
        return
    result = await (probe.create() if sentence.fresh else probe.shared())
    values: dict[str, Any] = {}
    if any("$number" in json.dumps(step) for step in sentence.steps):
        values["number"] = (await probe.numbers())[0]
    for step in sentence.steps:
        if step.get("as") and not probe.target.tokens.get("stranger"):
            raise Untestable("it needs the tokens of two callers")
        answer = await _send(probe, result, step, values)
        await _compare(probe, step, answer, values)
        if "alike" in step:
            other = await _send(probe, result, {**step, "at": step["alike"]}, values)
            _require_alike(answer, other, result)


async def _send(
    probe: Probe, result: ProbedResult, step: Mapping[str, Any], values: Mapping[str, Any]
) -> Exchange:
    return await probe.send(
        step["send"],
        step.get("at", ""),
        result=result,
        query=step.get("query"),
        body=_fill(step.get("json"), values),
        text=step.get("text"),
        caller=step.get("as", "owner"),
    )


def _fill(value: Any, values: Mapping[str, Any]) -> Any:
    """The value with each text "$name" replaced by what an earlier answer gave."""
    if isinstance(value, dict):
        return {name: _fill(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, values) for each in value]
    return values[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def _is_expected(status: int, expected: Any) -> bool:
    if expected == "4xx":
        return 400 <= status < 500
    if expected == "error":
        return status >= 400
    return bool(status in expected if isinstance(expected, list) else status == expected)


async def _compare(probe: Probe, step: Mapping[str, Any], answer: Exchange, values: dict[str, Any]) -> None:
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
        values[name] = body[source]
    if "rows" in step:
        start, stop = step["rows"]
        stop = start + len(body["data"]) if stop is None else stop
        require(step["rows"][1] is not None or body["data"], "the page has no rows")
        rows = (await probe.rows())[start:stop]
        require(body["data"] == rows, f"the rows are not those from {start} to {stop}")


_VARYING = {"date", "content-length", "server"}


def _require_alike(answer: Exchange, other: Exchange, result: ProbedResult) -> None:
    """The same answer, whatever of it names the resource."""
    for name, one, unknown in (
        ("status", answer.status, other.status),
        ("headers", answer.headers.keys() - _VARYING, other.headers.keys() - _VARYING),
        ("body", answer.text.replace(result.id, "ID"), other.text.replace(result.id[::-1], "ID")),
    ):
        require(
            one == unknown, f"the {name} tells a foreign resource from an unknown one: {one}, {unknown}"[:300]
        )


def report(outcomes: Sequence[SentenceOutcome]) -> str:
    """The report for a person: each failure, what was not tested and why, then the numbers by part."""
    lines, untested = [], dict[str, list[str]]()
    for each in outcomes:
        if each.verdict == "failed":
            lines.append(f"{each.sentence.number} {each.sentence.level}: {each.sentence.text}")
            lines.append(f"    {each.reason}")
            if each.exchange is not None:
                lines.append(f"    {each.exchange['request'][:300]}")
                lines.append(f"    -> {each.exchange['status']} {each.exchange['body'][:300]}")
        elif each.verdict == "not testable":
            untested.setdefault(each.reason, []).append(each.sentence.number)
    lines += [f"Not testable, {reason}: {', '.join(numbers)}" for reason, numbers in untested.items()]
    for part in dict.fromkeys(each.sentence.part for each in outcomes):
        verdicts = Counter(each.verdict for each in outcomes if each.sentence.part == part)
        lines.append(f"{part:10} " + ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items()))
    verdict = "conforms" if is_conforming(outcomes) else "does not conform"
    lines.append(f"It {verdict} to {standard()['title']}, version {standard()['version']}.")
    if failed := [each.sentence.number for each in outcomes if each.verdict == "failed"]:
        lines.append(f"Failed: {', '.join(failed)}")
    return "\n".join(lines)
