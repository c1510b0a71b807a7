"""The result that a command is given: a URL, or a file with a tool result."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args
from urllib.parse import parse_qs, urlsplit

from dualsql_client.addresses import resource_id
from dualsql_client.client import DualResponseClient
from dualsql_client.errors import NotConfiguredError, ParseError
from dualsql_client.formats import FileFormat
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.preview import printable

MAXIMUM_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultSource:
    """A result to fetch.

    Attributes:
        base_url: of the server's resources.
        tool_result: JSON with one dual response.
        link: the token of a signed link; None without one.
        format: from the query of a URL; None without one.
    """

    base_url: str
    tool_result: object
    link: str | None = None
    format: FileFormat | None = None

    @asynccontextmanager
    async def open(self, token: str | None) -> AsyncIterator[ParsedDualResponse]:
        """The dual response; its connections are closed at the end of the block.

        Args:
            token: a bearer token, sent to `base_url` only.

        Raises:
            ParseError: there is no dual response, or several.
            NotConfiguredError: `base_url` is no http or https address.
        """
        headers = {"authorization": f"Bearer {token}"} if token else {}
        import httpx

        # Each request needs the link, also those that resume a stream.
        async with httpx.AsyncClient(params={"link": self.link} if self.link else None) as http:
            yield _only(DualResponseClient(self.base_url, http, headers), self.tool_result)


def read_source(argument: str, base_url: str | None) -> ToolResultSource:
    """The result of a command: the URL or URI of a resource, with or without `/rows`, or a file with a tool result.

    Args:
        argument: of the command; `-` is the standard input.
        base_url: for a URI or a file.

    Raises:
        ParseError: the argument is no URL of a resource and no readable file with a tool result.
        NotConfiguredError: a file was given without a base URL.
    """
    if argument.lower().startswith(("http://", "https://")):
        return _source_at(argument)
    if base_url is not None and "://" in argument and (identifier := resource_id(argument)) is not None:
        return _source_at(f"{base_url.rstrip('/')}/{identifier}")
    tool_result = _read_json(argument)
    if base_url is None:
        raise _base_url_error(_only(DualResponseClient(), tool_result))
    return ToolResultSource(base_url=base_url, tool_result=tool_result)


def _source_at(url: str) -> ToolResultSource:
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/rows")
    above, _, identifier = path.rpartition("/")
    uri = f"resource://{identifier}"
    if resource_id(uri) is None:
        raise ParseError(
            "The URL is not the URL of a resource.", hint="A resource's URL ends in its id or in /rows."
        )
    query = parse_qs(parts.query)
    form = query.get("format", [""])[0]
    return ToolResultSource(
        base_url=f"{parts.scheme}://{parts.netloc}{above}",
        tool_result={
            "results": [], "resource": {"uri": uri, "name": ""}, "metadata": {"total_count": None}
        },
        link=query.get("link", [None])[0],
        format=cast(FileFormat, form) if form in get_args(FileFormat) else None,
    )  # fmt: skip


def _read_json(path: str) -> object:
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MAXIMUM_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MAXIMUM_FILE_BYTES + 1)
        if len(content) > MAXIMUM_FILE_BYTES:
            raise ParseError(f"The tool result is larger than {MAXIMUM_FILE_BYTES:,} bytes.")
        return json.loads(content)
    except OSError as error:
        hint = "Give the URL of a resource, or a file with a tool result."
        if (identifier := resource_id(path)) is not None:
            hint = (
                f"Give its URL, such as https://api.example.com/resources/{identifier}, "
                "or --base-url https://api.example.com/resources"
            )
        raise ParseError(f"{path} cannot be read: {error.strerror}.", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise ParseError(
            f"{path} is not JSON.", hint="Give the URL of a resource, or a file with a tool result."
        ) from error


def _only(client: DualResponseClient, tool_result: object) -> ParsedDualResponse:
    responses = client.find(tool_result)
    if len(responses) > 1:
        uris = ", ".join(printable(parsed.resource_uri, 80) for parsed in responses[:10])
        raise ParseError(
            f"The tool result contains {len(responses)} dual responses: {uris}.",
            hint="Give the URL of one of them.",
        )
    return client.parse(tool_result, strict=True)


def _base_url_error(parsed: ParsedDualResponse) -> NotConfiguredError:
    # The client does not use the URL, but the person may recognize it.
    url = printable(parsed.resource_url or "", 300)
    where = f" This one contains {url}." if url else ""
    return NotConfiguredError(
        f"--base-url is required for a file: a URL in a tool result is not trusted.{where}",
        hint="Give the URL of your server: --base-url https://api.example.com/resources",
    )
