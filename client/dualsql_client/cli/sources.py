"""What a person names on the command line; the rule: an address is fetched from if the person wrote it, never if a
tool result did.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args
from urllib.parse import parse_qs, urlsplit

import httpx

from dualsql_client.address import resource_id
from dualsql_client.client import DualResponseClient
from dualsql_client.errors import NotConfiguredError, ParseError
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.plain import printable
from dualsql_client.wire import StreamFormat

MAXIMUM_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A result to fetch.

    Attributes:
        base_url: where from.
        tool_result: JSON in which there is one dual response.
        link: the token of a signed link; None without one.
        format: what the address asks for; None if it asks for none.
    """

    base_url: str
    tool_result: object
    link: str | None = None
    format: StreamFormat | None = None

    @asynccontextmanager
    async def opened(self, token: str | None) -> AsyncIterator[ParsedDualResponse]:
        """The dual response; its connections are closed at the end of the block.

        Args:
            token: a bearer token, sent to `base_url` only.

        Raises:
            ParseError, NotConfiguredError: there is none, or its address is none.
        """
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(params={"link": self.link} if self.link else None) as http:
            yield _only(DualResponseClient(self.base_url, http, headers), self.tool_result)


def read_source(said: str, base_url: str | None) -> Source:
    """What `said` names: the address of a resource, with or without `/rows`, or a file with a tool result.

    Args:
        said: `-` is the standard input.
        base_url: for a file; an address has its own.

    Raises:
        ParseError: it names nothing that can be read.
        NotConfiguredError: for a file nobody has said where to fetch from.
    """
    if said.lower().startswith(("http://", "https://")):
        return _of_address(said)
    tool_result = _read_json(said)
    if base_url is None:
        raise _unconfigured(_only(DualResponseClient(), tool_result))
    return Source(base_url=base_url, tool_result=tool_result)


def _of_address(url: str) -> Source:
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/rows")
    above, _, identifier = path.rpartition("/")
    uri = f"resource://{identifier}"
    if resource_id(uri) is None:
        raise ParseError("The address names no resource.", hint="It ends in a resource's id, or in /rows.")
    asked = parse_qs(parts.query)
    wanted = asked.get("format", [""])[0]
    return Source(
        base_url=f"{parts.scheme}://{parts.netloc}{above}",
        tool_result={
            "results": [], "resource": {"uri": uri, "name": ""}, "metadata": {"total_count": None}
        },
        link=asked.get("link", [None])[0],
        format=cast(StreamFormat, wanted) if wanted in get_args(StreamFormat) else None,
    )  # fmt: skip


def _read_json(said: str) -> object:
    try:
        if said == "-":
            written = sys.stdin.buffer.read(MAXIMUM_FILE_BYTES + 1)
        else:
            with Path(said).open("rb") as file:
                written = file.read(MAXIMUM_FILE_BYTES + 1)
        if len(written) > MAXIMUM_FILE_BYTES:
            raise ParseError(f"The tool result is larger than {MAXIMUM_FILE_BYTES:,} bytes.")
        return json.loads(written)
    except OSError as error:
        raise ParseError(
            f"{said} cannot be read: {error.strerror}.", hint="Give a URL, or a file with a tool result."
        ) from error
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{said} is not JSON.", hint="Give a URL, or a file with a tool result.") from error


def _only(client: DualResponseClient, tool_result: object) -> ParsedDualResponse:
    found = client.find(tool_result)
    if len(found) > 1:
        uris = ", ".join(printable(parsed.resource_uri, 80) for parsed in found[:10])
        raise ParseError(
            f"There are {len(found)} dual responses in it: {uris}.", hint="Name one by its address."
        )
    return client.parse(tool_result, strict=True)


def _unconfigured(parsed: ParsedDualResponse) -> NotConfiguredError:
    # Its word is not taken for it; who reads it may.
    said = printable(parsed.resource_url or "", 300)
    where = f" This one names {said} itself." if said else ""
    return NotConfiguredError(
        f"A tool result is not trusted to say where to fetch from.{where}",
        hint="Name your server: --base-url https://api.example.com/resources",
    )
