"""Requests to the configured address: credentials, retries, bounds, waiting for a pending result."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Protocol, cast
from urllib.parse import urlencode

from dualsql_client.addresses import is_this_computer, leaves_origin, resource_id
from dualsql_client.budget import Budget, Retry, retry_after
from dualsql_client.errors import (
    FetchError,
    FetchTimeoutError,
    NotConfiguredError,
    ParseError,
    UntrustedOriginError,
    fetch_error,
    pages_only,
)
from dualsql_client.lifetimes import ServerClock

_LONGEST_TOKEN = 16 * 1024


class HTTPAuth(Protocol):
    """The part of an httpx.Auth or httpx2.Auth that the client uses. It is passed to the library that it comes from."""

    @property
    def auth_flow(self) -> Callable[..., Any]: ...


TokenProvider = Callable[[], Awaitable[str]]
"""Called without arguments for a bearer token: at the first request, and again when the server refused the last one."""

Auth = HTTPAuth | TokenProvider | tuple[str, str]


class Credentials:
    """The credentials of a request, from `auth=`."""

    def __init__(self, auth: Auth | None) -> None:
        is_httpx = auth is None or isinstance(auth, tuple) or hasattr(auth, "auth_flow")
        self._provide = None if is_httpx else cast(TokenProvider, auth)
        # Without the option, and not with None, which would take the HTTP client's own auth away.
        self.options: Mapping[str, Any] = {"auth": auth} if is_httpx and auth is not None else {}
        self._token: str | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """The headers of a request that has not been refused.

        Raises:
            NotConfiguredError: the provider gave no token.
        """
        if self._provide is None:
            return {}
        if self._token is None:
            await self._renew(None)
        return {"authorization": f"Bearer {self._token}"}

    async def renewed_headers(self, refused: Mapping[str, str]) -> Mapping[str, str] | None:
        """The headers to try once more with; None where there are no others.

        Raises:
            NotConfiguredError: the provider gave no token.
        """
        if self._provide is None:
            return None
        await self._renew(refused["authorization"].removeprefix("Bearer "))
        headers = await self.headers()
        return None if headers == refused else headers

    async def _renew(self, refused: str | None) -> None:
        # Many requests may be refused at once; the first of them asks for all.
        async with self._lock:
            if self._token == refused and self._provide is not None:
                self._token = _checked(await self._provide())


def _checked(token: object) -> str:
    is_one = isinstance(token, str) and 0 < len(token) <= _LONGEST_TOKEN
    if (
        not is_one
        or not cast(str, token).isascii()
        or not cast(str, token).isprintable()
        or " " in cast(str, token)
    ):
        # Not told what it is: it may be a good one with a line break at its end.
        raise NotConfiguredError(
            "The token provider given as auth= returned no token.", hint="Return the token alone, as a str."
        )
    return cast(str, token)


# With TimeoutException the roots of both error trees; a test fails when one grows an error beside them.
_FAILURES = ("HTTPError", "InvalidURL", "StreamError", "CookieConflict")

# A connection that was made and broke; with ConnectError, which sent nothing, all that another attempt may not meet.
_BREAKS = ("ReadError", "WriteError", "CloseError", "RemoteProtocolError")

# For a server that has never answered: its address may be another protocol's.
_STRANGER_SECONDS = 5.0

# POST below a resource that only reads: /refine makes another result each time.
_READING_POSTS = frozenset({"", "/rows", "/query", "/sql"})

# Their output is bounded by their input; brotli and zstandard turn a few bytes into gigabytes at once.
_CONTENT_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
# The last two ask for answers of another shape (S8) than is read here, and an HTTP client that is shared with an MCP
# client may have them. A request can only override them: empty, they ask for nothing.
_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "gzip",
    "x-response-format": "",
    "x-execution-context": "",
}
_ROWS_BY_GET = 100
_CHECK_ADDRESS = "Check that base_url is the address of dual response resources."

Errors = tuple[type[Exception], ...]


class HTTPResponse(Protocol):
    """The part of an httpx.Response or httpx2.Response that the client uses."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def extensions(self) -> Mapping[str, Any]: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...


class HTTPClient(Protocol):
    """The part of an httpx.AsyncClient or httpx2.AsyncClient that the client uses."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        json: Any | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        follow_redirects: bool = False,
        auth: Any = ...,
    ) -> AbstractAsyncContextManager[HTTPResponse]: ...

    async def aclose(self) -> None: ...


class Transport:
    """Sends requests to resources below one base URL.

    Args:
        base_url: checked by `addresses.checked_base_url`.
        headers, auth: sent with every request.
        seconds: time for one request, its whole body included.
        maximum_bytes: size of the largest answer that is read, after decompression; of a stream, of one row.
        maximum_stream_bytes: size of the longest stream, and of all pages of a result together.

    A request that reads, or that leaves things as the first one did, is sent again when its connection breaks: see
    `_is_repeatable`. None is that carries a signed link, which may be for a single use.

    Attributes:
        has_streams: False once the server has shown that it knows only pages.
        has_posts: False once the server has shown that it gives pages by GET only.
        carries_link: `http` adds a signed link to every request.
        clock: the server's.
    """

    def __init__(
        self,
        base_url: str,
        http: HTTPClient,
        headers: Mapping[str, str],
        *,
        auth: Auth | None = None,
        seconds: float,
        maximum_bytes: int,
        maximum_stream_bytes: int,
        retry: Retry,
    ) -> None:
        self._base_url = base_url
        self._http = http
        self._headers = {name.lower(): value for name, value in headers.items()} | _HEADERS
        self._credentials = Credentials(auth)
        self.clock = ServerClock()
        self._seconds = seconds
        self.maximum_bytes = maximum_bytes
        self.maximum_stream_bytes = maximum_stream_bytes
        self.retry = retry
        self.has_streams = self.has_posts = True
        # Between two programs of one computer, compression costs more time than it saves.
        self._stream_coding = "identity" if is_this_computer(base_url) else "gzip"
        self.carries_link = "link" in (getattr(http, "params", None) or {})
        self._is_answered = self._is_reached = False
        self._timeouts, self._failures = _errors_of(http)
        self._breaks = _errors_of(http, _BREAKS)[1]
        self._unreachable = _errors_of(http, ("ConnectError",))[1]

    def budget(self) -> Budget:
        """Of one call that reads all rows."""
        return Budget(self.retry, maximum_bytes=self.maximum_stream_bytes)

    @property
    def longest_wait(self) -> float:
        """Seconds for which it is worth trying again, as far as this server is known."""
        return math.inf if self._is_answered else _STRANGER_SECONDS

    def url_of(self, uri: str) -> str:
        """The URL of the resource below the configured address, whatever the tool result says.

        Raises:
            ParseError: `uri` names no resource.
        """
        identifier = resource_id(uri)
        if identifier is None:
            raise ParseError("The resource's URI has no id that can be fetched.")
        return f"{self._base_url}/{identifier}"

    async def send(
        self,
        method: str,
        uri: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        below: str = "",
        budget: Budget | None = None,
    ) -> Any:
        """The decoded JSON of the answer; None when it has no content.

        Args:
            below: of the resource's own address, such as "/pin".
            budget: of a call that reads several answers.

        Raises:
            FetchError: no usable answer came, or one that reports a problem.
        """
        asked = f"?{urlencode(query)}" if query else ""
        url, repeats = self.url_of(uri) + below + asked, _is_repeatable(method, below)
        try:
            return (await self._send(method, url, body, repeats=repeats, budget=budget))[0]
        except FetchError as error:
            if below or method not in ("GET", "POST"):
                await self.require_more_than_pages(uri, error)
            raise

    async def require_more_than_pages(self, uri: str, refused: FetchError) -> None:
        """Find out whether a request was refused because the server has pages by GET and nothing else.

        Raises:
            FetchError: it is so.
        """
        # The page would spend a link for a single use.
        if not refused.is_unrouted or self.carries_link:
            return
        try:
            await self._page_by_get(uri, {"limit": 1}, None)
        except FetchError:
            return
        raise pages_only(refused.status) from None

    async def page(self, uri: str, body: Mapping[str, Any], *, budget: Budget | None = None) -> Any:
        """The decoded JSON of POST /{id}; of GET /{id}?skip=&limit= from a server that takes no POST.

        Raises:
            FetchError: no usable answer came, or one that reports a problem; or the server has GET only, and the page
                is sorted, asked for by a cursor, or maybe another one than was asked for.
        """
        refused: FetchError | None = None
        if self.has_posts:
            try:
                return await self.send("POST", uri, body, budget=budget)
            except FetchError as error:
                if not error.is_unrouted:
                    raise
                refused = error
        try:
            answer = await self._page_by_get(uri, body, budget)
        except FetchError as error:
            if refused is not None and error.is_unrouted:
                raise refused from None
            raise
        self.has_streams = self.has_posts = False
        return answer

    async def _page_by_get(self, uri: str, body: Mapping[str, Any], budget: Budget | None) -> Any:
        if unknown := [name for name in ("sort", "cursor") if name in body]:
            raise FetchError(
                f"The server takes no POST, and its pages by GET have no {unknown[0]}.",
                hint="Fetch the rows by offset, in the result's own order.",
            )
        # A server of the reference design ignores `skip` where there is no `limit`, and sends everything.
        offset, limit = body.get("offset", 0), body.get("limit", _ROWS_BY_GET)
        query = {"skip": str(offset), "offset": str(offset), "limit": str(limit)}
        answer = await self.send("GET", uri, query=query, budget=budget)
        fields: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
        is_placed = any(fields.get(name) is not None for name in ("skip", "offset", "next_offset"))
        if "data" not in fields or (offset and not is_placed):
            raise FetchError(
                "The server takes no POST, and its answer to GET does not say which rows of the result it has.",
                status=200,
                hint=_CHECK_ADDRESS,
            )
        return answer

    async def describe(self, uri: str) -> tuple[Any, float | None]:
        """The decoded JSON of GET /{id}, and after how many seconds the server wants to be asked again.

        Raises:
            FetchError: no usable answer came, or one that reports a problem.
        """
        answer, headers = await self._send("GET", self.url_of(uri))
        return answer, retry_after(headers.get("retry-after"))

    async def list(self, parameters: Mapping[str, str | int], *, budget: Budget) -> Any:
        """The decoded JSON of GET on the collection itself.

        Raises:
            FetchError: no usable answer came, or one that reports a problem.
        """
        # With the slash: a redirect to it would not be followed.
        return (await self._send("GET", f"{self._base_url}/?{urlencode(parameters)}", budget=budget))[0]

    @asynccontextmanager
    async def stream(
        self, uri: str, body: Mapping[str, Any], media_type: str
    ) -> AsyncIterator[tuple[Mapping[str, str], AsyncGenerator[bytes, None]]]:
        """The headers and the body of POST /{id}/rows, after decompression; each piece may take the whole timeout.

        Raises:
            FetchError: no usable answer came, or one that reports a problem; or the body broke off, then without
                a status.
        """
        url = f"{self.url_of(uri)}/rows"
        headers = self._headers | {"accept": media_type, "accept-encoding": self._stream_coding}
        with self._failures_told():
            async with AsyncExitStack() as opened:
                # The libraries bound the time to the next byte, not that of all headers.
                async with asyncio.timeout(self._seconds):
                    answered = self._answered("POST", url, body, headers)
                    response = await opened.enter_async_context(answered)
                    await self._check_status(response, url)
                _check_stream(response, media_type)
                yield response.headers, self._pieces(response)

    async def _pieces(self, response: HTTPResponse) -> AsyncGenerator[bytes, None]:
        with self._failures_told():
            async for piece in response.aiter_bytes():
                yield piece

    async def _send(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeats: bool = True,
        budget: Budget | None = None,
    ) -> tuple[Any, Mapping[str, str]]:
        limits = Budget(self.retry) if budget is None else budget
        while True:
            try:
                return await self._sent(method, url, body, budget)
            except FetchError as error:
                is_repeated = repeats and error.may_pass and not self.carries_link
                # What the server has answered is the caller's to judge, but for a call that reads all rows: as a
                # stream, it outlasts a restart.
                if not is_repeated or (budget is None and error.status is not None):
                    raise
                most = self.longest_wait if budget is not None else min(self.longest_wait, self._seconds)
                delay = limits.delay(error.retry_after, most=most)
                if delay is None:
                    limits.annotated(error)
                    raise
            await asyncio.sleep(delay)

    async def _sent(
        self, method: str, url: str, body: Mapping[str, Any] | None, budget: Budget | None
    ) -> tuple[Any, Mapping[str, str]]:
        with self._failures_told():
            async with (
                asyncio.timeout(self._seconds),
                self._answered(method, url, body, self._headers) as response,
            ):
                await self._check_status(response, url)
                answer = None if response.status_code == 204 else await self._json(response, budget)
                return answer, response.headers

    @asynccontextmanager
    async def _answered(
        self, method: str, url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> AsyncIterator[HTTPResponse]:
        who = await self._credentials.headers()
        async with self._request(method, url, body, {**headers, **who}) as response:
            self._note_time(response)
            is_refused = response.status_code == 401
            renewed = await self._credentials.renewed_headers(who) if is_refused else None
            if renewed is None:
                yield response
                return
        async with self._request(method, url, body, {**headers, **renewed}) as response:
            self._note_time(response)
            yield response

    def _request(
        self, method: str, url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HTTPResponse]:
        return self._http.stream(
            method,
            url,
            json=body,
            headers=headers,
            timeout=self._seconds,
            # Only configured addresses are fetched from (decision 16), and a redirect may lead anywhere.
            follow_redirects=False,
            **self._credentials.options,
        )

    def _note_time(self, response: HTTPResponse) -> None:
        self._is_answered = self._is_reached = True
        self.clock.note(response.headers.get("date"), response.headers.get("age"))

    @contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except self._timeouts as error:
            raise FetchTimeoutError(
                f"The server sent no complete answer within {self._seconds:g} seconds."
            ) from error
        except self._failures as error:
            failed = FetchError(
                f"The request to the server failed ({type(error).__name__}).",
                hint="Check that base_url is right and the server is running.",
            )
            self._is_reached = self._is_reached or isinstance(error, self._breaks)
            # Where nobody has ever answered the address is more likely wrong than its server away.
            failed.may_pass = isinstance(error, self._breaks) or (
                self._is_reached and isinstance(error, self._unreachable)
            )
            raise failed from error

    async def _check_status(self, response: HTTPResponse, url: str) -> None:
        status = response.status_code
        if 300 <= status < 400:
            raise _redirect_error(status, url, response.headers.get("location", ""))
        if status >= 400:
            error = fetch_error(status, await self._problem(response))
            error.retry_after = retry_after(response.headers.get("retry-after"))
            raise error

    async def _problem(self, response: HTTPResponse) -> Any:
        try:
            return await self._json(response)
        except FetchError:
            # A proxy's error page, or worse: the status alone has to do.
            return None

    async def _json(self, response: HTTPResponse, budget: Budget | None = None) -> Any:
        status = response.status_code
        if not _is_json(response.headers.get("content-type", "")):
            raise FetchError("The server's answer is not JSON.", status=status, hint=_CHECK_ADDRESS)
        body = await self._read(response)
        if budget is not None:
            budget.spend(len(body))
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise FetchError("The server's answer is not valid JSON.", status=status) from error

    async def _read(self, response: HTTPResponse) -> bytearray:
        status = response.status_code
        _check_coding(response)
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self.maximum_bytes:
                raise FetchError(
                    f"The server's answer is larger than {self.maximum_bytes:,} bytes.",
                    status=status,
                    hint="Ask for fewer rows at once, or raise the client's maximum_response_bytes.",
                )
        return body


def _check_coding(response: HTTPResponse) -> None:
    if response.headers.get("content-encoding", "").strip().lower() not in _CONTENT_ENCODINGS:
        raise FetchError(
            "The server's answer is compressed in a way that was not asked for.", status=response.status_code
        )


def _check_stream(response: HTTPResponse, media_type: str) -> None:
    """Refuse an answer of another kind, and a stream whose end looks the same as a break."""
    status, headers = response.status_code, response.headers
    if headers.get("content-type", "").partition(";")[0].strip().lower() != media_type:
        raise FetchError(f"The server's answer is not {media_type}.", status=status, hint=_CHECK_ADDRESS)
    _check_coding(response)
    # A body that ends where the connection does (HTTP/1.0) looks whole wherever it is cut. Without a version it came
    # over no network.
    version = response.extensions.get("http_version", b"")
    if version.startswith(b"HTTP/1") and not ("transfer-encoding" in headers or "content-length" in headers):
        raise FetchError("The server's answer does not say where it ends.", status=status)


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


def _is_repeatable(method: str, below: str) -> bool:
    """Whether a request may be sent twice: it only reads, or sets the same value again.

    DELETE of a resource is not: the second one would be told that there is none.
    """
    return (
        method in {"GET", "PUT"}
        or (method == "POST" and below in _READING_POSTS)
        or (method == "DELETE" and below == "/pin")
    )


def _errors_of(http: HTTPClient, names: Sequence[str] = _FAILURES) -> tuple[Errors, Errors]:
    """The timeouts of the library that the client comes from, and its errors of these names."""
    for kind in type(http).__mro__:
        if kind.__name__ == "AsyncClient":
            library = sys.modules[kind.__module__.partition(".")[0]]
            return (TimeoutError, library.TimeoutException), tuple(getattr(library, name) for name in names)
    raise TypeError("http= takes an httpx.AsyncClient or an httpx2.AsyncClient")


_FIRST, _LONGEST = 0.1, 5.0
"""Seconds between the first two questions, and the most that the client waits by itself."""

_LONGEST_ASKED = 60.0
"""The most that a server may ask to be left alone."""


async def wait_until_settled(
    transport: Transport,
    uri: str,
    seconds: float | None,
    *,
    waits: Callable[[Any], bool],
    heard: Callable[[Any], Awaitable[object]],
) -> Any:
    """The metadata of a resource once they no longer say what one `waits` for the end of.

    Args:
        heard: is called with metadata that do.

    Raises:
        FetchTimeoutError: they still do after so many seconds.
        FetchError: no usable answer came, again and again.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _settled(transport, uri, waits, heard)
    except TimeoutError as error:
        raise FetchTimeoutError(
            f"The query still runs after {seconds:g} seconds.", hint="Wait again, or fetch the rows later."
        ) from error


async def _settled(
    transport: Transport,
    uri: str,
    waits: Callable[[Any], bool],
    heard: Callable[[Any], Awaitable[object]],
) -> Any:
    pause, attempts = _FIRST, Budget(transport.retry)
    while True:
        try:
            answer, asked = await transport.describe(uri)
        except FetchError as error:
            asked = error.retry_after
            if not error.may_pass or attempts.delay(min(asked or 0.0, _LONGEST_ASKED)) is None:
                raise
        else:
            attempts = Budget(transport.retry)
            if not waits(answer):
                return answer
            await heard(answer)
        await asyncio.sleep(max(pause, min(asked or 0.0, _LONGEST_ASKED)))
        pause = min(2 * pause, _LONGEST)
