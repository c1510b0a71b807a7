"""Requests to the one configured address; the rule: nothing is sent elsewhere, nothing unbounded is read.

The HTTP client is httpx's or httpx2's, which share their interface; the errors to expect are taken from the
library the client comes from, so none has to be imported here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from urllib.parse import urlencode

from dualsql_client.address import leaves_origin, resource_id
from dualsql_client.errors import FetchError, FetchTimeoutError, ParseError, UntrustedOriginError
from dualsql_client.problems import fetch_error

# With TimeoutException the roots of both error trees; a test fails when one grows an error beside them.
_FAILURES = ("HTTPError", "InvalidURL", "StreamError", "CookieConflict")

# Their output is bounded by their input; brotli and zstandard turn a few bytes into gigabytes at once.
_CONTENT_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
_HEADERS = {"accept": "application/json", "accept-encoding": "gzip"}
_CHECK_ADDRESS = "Check that base_url is the address of dual response resources."

Errors = tuple[type[Exception], ...]


class HTTPResponse(Protocol):
    """What is used of an httpx.Response or httpx2.Response."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class HTTPClient(Protocol):
    """What is used of an httpx.AsyncClient or httpx2.AsyncClient."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        json: Any | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        follow_redirects: bool = False,
    ) -> AbstractAsyncContextManager[HTTPResponse]: ...

    async def aclose(self) -> None: ...


class Transport:
    """Sends requests to resources below one base URL.

    Args:
        base_url: checked by `address.checked_base_url`.
        headers: sent with every request.
        seconds: time for one request, its whole body included.
        maximum_bytes: size of the largest answer that is read, after decompression.
    """

    def __init__(
        self,
        base_url: str,
        http: HTTPClient,
        headers: Mapping[str, str],
        *,
        seconds: float,
        maximum_bytes: int,
    ) -> None:
        self._base_url = base_url
        self._http = http
        self._headers = {name.lower(): value for name, value in headers.items()} | _HEADERS
        self._seconds = seconds
        self._maximum_bytes = maximum_bytes
        self._timeouts, self._failures = _errors_of(http)

    def url_of(self, uri: str) -> str:
        """Where the rows of the resource are, whatever the tool result says about it.

        Raises:
            ParseError: `uri` names no resource.
        """
        identifier = resource_id(uri)
        if identifier is None:
            raise ParseError("The resource's URI has no id that can be fetched.")
        return f"{self._base_url}/{identifier}"

    async def send(self, method: str, uri: str, body: Mapping[str, Any] | None = None) -> Any:
        """The decoded JSON of the answer; None when it has no content.

        Raises:
            FetchError: no usable answer came, or one that reports a problem.
        """
        return await self._send(method, self.url_of(uri), body)

    async def list(self, parameters: Mapping[str, str | int]) -> Any:
        """The decoded JSON of GET on the collection itself.

        Raises:
            FetchError: no usable answer came, or one that reports a problem.
        """
        return await self._send("GET", f"{self._base_url}/?{urlencode(parameters)}", None)

    async def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> Any:
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream(
                    method,
                    url,
                    json=body,
                    headers=self._headers,
                    timeout=self._seconds,
                    follow_redirects=False,
                ) as response,
            ):
                return await self._answer(response, url)
        except self._timeouts as error:
            raise FetchTimeoutError(
                f"The server gave no full answer within {self._seconds:g} seconds."
            ) from error
        except self._failures as error:
            raise FetchError(
                f"The request to the server failed ({type(error).__name__}).",
                hint="Check that base_url is right and the server is running.",
            ) from error

    async def _answer(self, response: HTTPResponse, url: str) -> Any:
        status = response.status_code
        if 300 <= status < 400:
            raise _redirect_error(status, url, response.headers.get("location", ""))
        if status >= 400:
            raise fetch_error(status, await self._problem(response))
        return None if status == 204 else await self._json(response)

    async def _problem(self, response: HTTPResponse) -> Any:
        try:
            return await self._json(response)
        except FetchError:
            # A proxy's error page, or worse: the status alone has to do.
            return None

    async def _json(self, response: HTTPResponse) -> Any:
        status = response.status_code
        if not _is_json(response.headers.get("content-type", "")):
            raise FetchError("The server's answer is not JSON.", status=status, hint=_CHECK_ADDRESS)
        try:
            return json.loads(await self._read(response))
        except (ValueError, RecursionError) as error:
            raise FetchError("The server's answer is not valid JSON.", status=status) from error

    async def _read(self, response: HTTPResponse) -> bytearray:
        status = response.status_code
        if response.headers.get("content-encoding", "").strip().lower() not in _CONTENT_ENCODINGS:
            raise FetchError(
                "The server's answer is compressed in a way that was not asked for.", status=status
            )
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._maximum_bytes:
                raise FetchError(
                    f"The server's answer is larger than {self._maximum_bytes:,} bytes.",
                    status=status,
                    hint="Ask for fewer rows at once, or raise the client's maximum_response_bytes.",
                )
        return body


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )


def _redirect_error(status: int, url: str, location: str) -> FetchError:
    if leaves_origin(url, location):
        return UntrustedOriginError(
            "The server redirects to another host; it was not followed.", status=status
        )
    return FetchError("The server redirects; redirects are not followed.", status=status, hint=_CHECK_ADDRESS)


def _errors_of(http: HTTPClient) -> tuple[Errors, Errors]:
    for kind in type(http).__mro__:
        if kind.__name__ == "AsyncClient":
            library = sys.modules[kind.__module__.partition(".")[0]]
            return (TimeoutError, library.TimeoutException), tuple(
                getattr(library, name) for name in _FAILURES
            )
    raise TypeError("http= takes an httpx.AsyncClient or an httpx2.AsyncClient")
