"""The magic `%dualsql` of IPython: shows a result by its URL. Load it with `%load_ext dualsql_client`."""

from __future__ import annotations

import os
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from dualsql_client.errors import ParseError
from dualsql_client.preview import ROWS
from dualsql_client.sync_client import SyncDualResponseClient
from dualsql_client.sync_parsed import SyncParsedDualResponse


def load_ipython_extension(shell: Any) -> None:
    """Register `%dualsql`. IPython calls this for `%load_ext dualsql_client`."""
    shell.register_magic_function(dualsql, "line", "dualsql")


def dualsql(line: str) -> SyncParsedDualResponse:
    """Show a result: its first rows, its total and its page.

        %dualsql http://127.0.0.1:8000/resources/ID
        schools = %dualsql ID

    The environment variable DUALSQL_BASE_URL is the address for an id alone. DUALSQL_TOKEN is sent as a bearer token.

    Raises:
        ParseError: the line is no URL or id.
        FetchError: see `dualsql_client.errors`.
    """
    base_url, _, name = line.strip().strip("'\"").rpartition("/")
    base_url = base_url or os.environ.get("DUALSQL_BASE_URL", "")
    if not (base_url.startswith(("http://", "https://")) and urlsplit(line.strip()).query == ""):
        raise ParseError(
            "Give the URL of a result, or its id with DUALSQL_BASE_URL set.",
            hint="%dualsql http://127.0.0.1:8000/resources/ID",
        )
    client = _client(base_url, os.environ.get("DUALSQL_TOKEN", ""))
    result = client.parse(f"resource://{name}", strict=True)
    metadata, page = result.wait_until_ready(), result.fetch(limit=ROWS)
    parsed = result._parsed  # noqa: SLF001 - the response that this one wraps
    parsed.name, parsed.columns, parsed.sample = metadata.name, metadata.columns, page.data
    return result


@cache
def _client(base_url: str, token: str) -> SyncDualResponseClient:
    """The client of a server. It stays open: the results of earlier cells use it."""
    return SyncDualResponseClient(base_url, headers={"authorization": f"Bearer {token}"} if token else None)
