"""What to paste into a host's configuration: right for each, and without a secret."""

from __future__ import annotations

import json

import pytest

from dualsql.serve.hosts import over_http, over_stdio

URL = "http://127.0.0.1:8000/mcp"


@pytest.mark.parametrize("has_token", [False, True])
def test_over_http(has_token: bool) -> None:
    claude, code, cursor = (text for _, text in over_http("my shop", URL, has_token=has_token))
    assert claude.startswith(f"claude mcp add --transport http 'my shop' {URL}")
    entry = json.loads(code)["servers"]["my shop"]
    assert (entry["type"], entry["url"]) == ("http", URL)
    assert json.loads(cursor)["mcpServers"]["my shop"]["url"] == URL
    assert ("$DUALSQL_TOKEN" in claude) == has_token
    if has_token:
        [asked] = json.loads(code)["inputs"]
        assert entry["headers"] == {"Authorization": f"Bearer ${{input:{asked['id']}}}"}
        assert asked["password"] is True
        assert json.loads(cursor)["mcpServers"]["my shop"]["headers"] == {
            "Authorization": "Bearer ${env:DUALSQL_TOKEN}"
        }


def test_over_stdio_a_host_starts_the_program_itself() -> None:
    command = ["dualsql", "serve", "--stdio", "--tables", "a b,c"]
    claude, code, cursor = (
        text for _, text in over_stdio("shop", command, {"DUALSQL_DATABASE_URL": "<url>"})
    )
    added = "--env DUALSQL_DATABASE_URL='<url>' --transport stdio shop"
    assert claude == f"claude mcp add {added} -- dualsql serve --stdio --tables 'a b,c'"
    for server in (json.loads(code)["servers"]["shop"], json.loads(cursor)["mcpServers"]["shop"]):
        assert [server["command"], *server["args"]] == command
        assert server["env"] == {"DUALSQL_DATABASE_URL": "<url>"}
