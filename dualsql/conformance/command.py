"""The command `dualsql conformance`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import httpx2
from mcp import MCPError

from dualsql.conformance.clients import check_client
from dualsql.conformance.probe import Caller, Target, Untestable
from dualsql.conformance.run import SentenceOutcome, check_server, is_conforming, report
from dualsql.conformance.standard import standard

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


async def check_conformance(
    url: str | None,
    client: str | None,
    *,
    tool: str | None,
    arguments: str,
    base_url: str | None,
    parts: Sequence[str],
    tokens: Mapping[Caller, str | None],
    as_json: bool,
) -> tuple[str, bool]:
    """The report of a server or of a client, and whether no MUST failed; the options are those of the command.

    Raises:
        ConformanceError: nothing can be checked; the message says why to a person.
    """
    if (url is None) is (client is None):
        raise ConformanceError("Give the URL of a server, or --client COMMAND, one of them.")
    if client is not None:
        outcomes = await _check_client(client)
    else:
        nonempty_tokens = {caller: token for caller, token in tokens.items() if token}
        target = Target(url or "", tool or "", _arguments(arguments), base_url or "", nonempty_tokens)
        outcomes = await _check_server(target, parts)
    text = json.dumps([each.to_json() for each in outcomes], indent=1) if as_json else report(outcomes)
    return text, is_conforming(outcomes)


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise ConformanceError("--arguments is not JSON.") from error
    if not isinstance(arguments, dict):
        raise ConformanceError("--arguments is no JSON object.")
    return arguments


async def _check_client(command: str) -> list[SentenceOutcome]:
    try:
        return await check_client(command)
    except (OSError, ValueError) as error:
        raise ConformanceError(f"The command {command!r} cannot be started: {error}.") from error


async def _check_server(target: Target, parts: Sequence[str]) -> list[SentenceOutcome]:
    names = {*standard()["required"], *standard()["optional"]}
    if unknown := set(parts) - names:
        raise ConformanceError(
            f"There is no part {min(unknown)!r}. The parts are {', '.join(sorted(names))}."
        )
    try:
        return await check_server(target, parts)
    except (*_UNREACHABLE, Untestable) as error:
        line = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        if isinstance(error, Untestable):
            end = "" if line.endswith(("?", "!")) else "."
            raise ConformanceError(
                f"{line[:1].upper()}{line[1:]}{end} Give --tool and --arguments."
            ) from error
        hint = " Give --token, or another one." if line.endswith(("401", "403")) else ""
        raise ConformanceError(f"The MCP endpoint {target.url!r} cannot be used: {line}.{hint}") from error
