"""What `dualsql conformance` does with its options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2
from mcp import MCPError

from dualsql.conformance.clients import check_client
from dualsql.conformance.probe import Caller, Untestable
from dualsql.conformance.run import SentenceOutcome, check_server, is_conforming, report
from dualsql.conformance.standard import optional_parts, required_parts

_UNREACHABLE = (
    OSError,
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    MCPError,
    TimeoutError,
)


class ConformanceError(Exception):
    """Nothing can be checked: an option is wrong, or the server or the command cannot be reached."""


@dataclass(frozen=True, slots=True)
class Check:
    """The options of the command: a server's URL, or a client's command."""

    url: str | None
    client: str | None
    tool: str | None
    arguments: str
    base_url: str | None
    parts: tuple[str, ...]
    token: str | None
    stranger_token: str | None


async def check(wanted: Check, *, as_json: bool) -> tuple[str, bool]:
    """The report, and whether no MUST failed.

    Raises:
        ConformanceError: nothing can be checked; the message says why to a person.
    """
    outcomes = await _outcomes(wanted)
    text = json.dumps([each.to_json() for each in outcomes], indent=1) if as_json else report(outcomes)
    return text, is_conforming(outcomes)


async def _outcomes(wanted: Check) -> list[SentenceOutcome]:
    if wanted.url is None:
        try:
            return await check_client(wanted.client or "")
        except (OSError, IndexError) as error:
            raise ConformanceError(f"The command {wanted.client!r} cannot be started.") from error
    parts = {*required_parts(), *optional_parts()}
    if unknown := set(wanted.parts) - parts:
        raise ConformanceError(
            f"There is no part {min(unknown)!r}. The parts are {', '.join(sorted(parts))}."
        )
    tokens: dict[Caller, str] = {"owner": wanted.token or "", "stranger": wanted.stranger_token or ""}
    try:
        return await check_server(
            wanted.url,
            tool=wanted.tool,
            arguments=_arguments(wanted.arguments) if wanted.tool else None,
            base_url=wanted.base_url,
            parts=wanted.parts,
            tokens={caller: token for caller, token in tokens.items() if token},
        )
    except (*_UNREACHABLE, Untestable, ExceptionGroup) as error:
        cause = _first(error)
        line = (str(cause) or type(cause).__name__).splitlines()[0].rstrip(".")
        if isinstance(cause, Untestable):
            raise ConformanceError(f"{line[:1].upper()}{line[1:]}. Give --tool and --arguments.") from error
        raise ConformanceError(f"There is no MCP endpoint at {wanted.url!r}: {line}.") from error


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise ConformanceError("--arguments is not JSON.") from error
    if not isinstance(arguments, dict):
        raise ConformanceError("--arguments is no JSON object.")
    return arguments


def _first(error: BaseException) -> BaseException:
    """The first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
