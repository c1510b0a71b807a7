"""Configuration snippets for MCP hosts. They name the variable that holds a secret, and never the secret."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TOKEN = "DUALSQL_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable that hosts read the token from."""


def over_http(name: str, url: str, *, has_token: bool = False) -> Iterator[tuple[str, str]]:
    """Titles and snippets for hosts that reach the server over HTTP."""
    header = f' --header "Authorization: Bearer ${TOKEN}"' if has_token else ""
    yield "Claude Code", f"claude mcp add --transport http {shlex.quote(name)} {url}{header}"
    entry: dict[str, Any] = {"type": "http", "url": url}
    yield (
        "VS Code, .vscode/mcp.json",
        _json(
            {"servers": {name: {**entry, **_bearer("${input:token}")}}, **_TOKEN_INPUT}
            if has_token
            else {"servers": {name: entry}}
        ),
    )
    authorized = _bearer(f"${{env:{TOKEN}}}") if has_token else {}
    yield "Cursor, .cursor/mcp.json", _json({"mcpServers": {name: {"url": url, **authorized}}})


def over_stdio(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Titles and snippets for hosts that start the server over stdio."""
    variables = "".join(f"--env {key}={shlex.quote(value)} " for key, value in environment.items())
    # --env takes all words up to the next option, so another option follows it.
    added = f"{variables}--transport stdio {shlex.quote(name)}"
    yield "Claude Code", f"claude mcp add {added} -- {shlex.join(command)}"
    program = {"command": command[0], "args": list(command[1:]), "env": dict(environment)}
    yield "VS Code, .vscode/mcp.json", _json({"servers": {name: {"type": "stdio", **program}}})
    yield "Cursor, .cursor/mcp.json", _json({"mcpServers": {name: program}})


_TOKEN_INPUT = {"inputs": [{"type": "promptString", "id": "token", "description": TOKEN, "password": True}]}


def _bearer(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


def _json(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, ensure_ascii=False)
