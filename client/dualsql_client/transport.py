"""Requests to the configured address: credentials, retries, bounds, waiting for a pending result."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypedDict, Unpack, cast
from urllib.parse import urlencode

from dualsql_client.addresses import is_this_computer, leaves_origin, resource_id
from dualsql_client.budget import Budget, Retry, retry_after
from dualsql_client.errors import (
    UNROUTED,
    FetchError,
    FetchTimeoutError,
    NotConfiguredError,
    ParseError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UntrustedOriginError,
    fetch_error,
    pages_only,
    query_failed,
)
from dualsql_client.identifiers import is_checked
from dualsql_client.lifetimes import ServerClock

_LONGEST_TOKEN = 16 * 1024


class HTTPAuth(Protocol):
    """The part of an httpx.Auth or httpx2.Auth that the client uses."""

    @property
    def auth_flow(self) -> Callable[..., Any]: ...


TokenProvider = Callable[[], Awaitable[str]]
"""Called without arguments for a bearer token: at the first request, and again after an answer with status 401."""

Auth = HTTPAuth | TokenProvider | tuple[str, str]


class Credentials:
    """The credentials of requests, from `auth=`."""

    def __init__(self, auth: Auth | None) -> None:
        is_httpx = auth is None or isinstance(auth, tuple) or hasattr(auth, "auth_flow")
        if not is_httpx and not callable(auth):
            raise TypeError(
                "auth takes an Auth of httpx, a name with a password, or an async function that returns a token. "
                "For a token that does not change, write headers={'Authorization': 'Bearer ...'}."
            )
        self._provide = None if is_httpx else cast(TokenProvider, auth)
        # auth=None would remove the HTTP client's own auth.
        self.options: Mapping[str, Any] = {"auth": auth} if is_httpx and auth is not None else {}
        self._token: str | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """The headers of the first attempt of a request.

        Raises:
            NotConfiguredError: the provider returned no token.
        """
        if self._provide is None:
            return {}
        if self._token is None:
            await self._renew(None)
        return {"authorization": f"Bearer {self._token}"}

    async def renewed_headers(self, refused: Mapping[str, str]) -> Mapping[str, str] | None:
        """The headers of a second attempt after status 401; None without other credentials.

        Raises:
            NotConfiguredError: the provider returned no token.
        """
        if self._provide is None:
            return None
        await self._renew(refused["authorization"].removeprefix("Bearer "))
        headers = await self.headers()
        return None if headers == refused else headers

    async def _renew(self, refused: str | None) -> None:
        # Many requests may be refused at once; only the first of them renews the token.
        async with self._lock:
            if self._token == refused and self._provide is not None:
                self._token = _checked_token(await self._provide())


def _checked_token(token: object) -> str:
    if (
        isinstance(token, str)
        and 0 < len(token) <= _LONGEST_TOKEN
        and token.isascii()
        and token.isprintable()
        and " " not in token
    ):
        return token
    # The message omits the value, which may be a valid token with a line break.
    raise NotConfiguredError(
        "The token provider given as auth= returned no token.", hint="Return the token alone, as a str."
    )


# With TimeoutException, the roots of the error trees of both libraries. A test checks that there are no others.
_FAILURES = ("HTTPError", "InvalidURL", "StreamError", "CookieConflict")

# Errors of an established connection. With ConnectError, which sent nothing, these are the temporary errors.
_BREAKS = ("ReadError", "WriteError", "CloseError", "RemoteProtocolError")

# For a server that has never answered: the address may be that of another protocol.
_STRANGER_SECONDS = 5.0

# The routes of POST that only read: /refine creates another result each time.
_READING_POSTS = frozenset({"", "/rows", "/query", "/sql"})

# Their output is bounded by their input; brotli and zstandard may expand a few bytes to gigabytes at once.
_CONTENT_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
# The last two request answers of another shape (S8). An HTTP client that is shared with an MCP client may have them; a
# request cannot remove them, but empty values override them.
_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "gzip",
    "x-response-format": "",
    "x-execution-context": "",
}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_PATIENCE = 0.8
"""The part of the time of a request after which a page is late: the answer that says so has to arrive in the rest."""
_LONGEST_PATIENCE = 86_400
_RESPOND_ASYNC = "respond-async"
_JSON_TYPE = re.compile(r"application/(?:.*\+)?json")
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


class _Options(TypedDict, total=False):
    """Options of a request about one resource.

    Attributes:
        below: the path below the resource's address, such as "/pin".
        budget: of a call that reads several answers.
        waits: where a page takes too long, wait until the server has kept the rows of the result.
    """

    query: Mapping[str, str] | None
    below: str
    budget: Budget | None
    waits: bool


class Transport:
    """Sends requests to resources below one base URL.

    Args:
        base_url: checked by `addresses.checked_base_url`.
        headers, auth: for every request.
        seconds: time for one request with its whole body.
        maximum_bytes: size of the largest answer that is read, after decompression; of a stream, of one row.
        maximum_stream_bytes: size of the longest stream, and of all pages of a result together.

    A repeatable request (see `_is_repeatable`) is sent again when its connection breaks, unless it has a signed link,
    which may be for a single use.

    Attributes:
        has_streams: False for a server that has turned out to have pages only.
        has_posts: False for a server that has turned out to have pages by GET only.
        carries_link: `http` adds a signed link to every request.
        clock: of the server.
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
        self.base_url = base_url
        self._http = http
        self._headers = {name.lower(): value for name, value in headers.items()} | _HEADERS
        self._credentials = Credentials(auth)
        self.clock = ServerClock()
        self._seconds = seconds
        self.maximum_bytes = maximum_bytes
        self.maximum_stream_bytes = maximum_stream_bytes
        self.retry = retry
        self.has_streams = self.has_posts = True
        # On one computer, compression takes more time than it saves.
        self._stream_coding = "identity" if is_this_computer(base_url) else "gzip"
        self.carries_link = "link" in (getattr(http, "params", None) or {})
        self._is_answered = self._is_reached = False
        self._timeouts, self._failures = _errors_of(http)
        self._breaks = _errors_of(http, _BREAKS)[1]
        self._unreachable = _errors_of(http, ("ConnectError",))[1]

    def budget(self) -> Budget:
        """The budget of a call that reads all rows."""
        return Budget(self.retry, maximum_bytes=self.maximum_stream_bytes)

    @property
    def longest_wait(self) -> float:
        """Seconds without progress after which attempts end: fewer for a server that has never answered."""
        return math.inf if self._is_answered else _STRANGER_SECONDS

    def url_of(self, uri: str) -> str:
        """The URL of the resource below the configured address; a URL in the tool result is not used.

        Raises:
            ParseError: the URI has no id.
        """
        identifier = resource_id(uri)
        if identifier is None:
            raise ParseError("The resource's URI has no id that can be fetched.")
        return f"{self.base_url}/{identifier}"

    async def send(
        self, method: str, uri: str, body: Mapping[str, Any] | None = None, **options: Unpack[_Options]
    ) -> Any:
        """The decoded JSON of the answer; None when it has no content.

        Raises:
            FetchError: the request failed, or its answer is unusable or an error.
            ResourceFailedError: the rows could not be kept.
        """
        try:
            return await self._read_answer(method, uri, body, **options)
        except FetchError as error:
            await self.require_more_than_pages(uri, error, is_below="below" in options)
            raise

    async def _read_answer(
        self,
        method: str,
        uri: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        below: str = "",
        budget: Budget | None = None,
        waits: bool = False,
    ) -> Any:
        parameters = f"?{urlencode(query)}" if query else ""
        url, repeats = self.url_of(uri) + below + parameters, _is_repeatable(method, below)
        send = partial(self._send, method, url, body, repeats=repeats, budget=budget)
        # A cursor of the database's rows is refused among kept ones. Other servers do not keep rows.
        if not waits or "cursor" in (body or {}) or not is_checked(resource_id(uri) or ""):
            return (await send())[0]
        prefer = f"{_RESPOND_ASYNC}, wait={int(min(max(1.0, self._seconds * _PATIENCE), _LONGEST_PATIENCE))}"
        answer, headers = await send(more_headers={"prefer": prefer})
        # RFC 7240: a list, as `Prefer` is.
        if _RESPOND_ASYNC not in re.split(r"[\s,;]+", headers.get("preference-applied", "").lower()):
            return answer
        with budget.paused() if budget is not None else nullcontext():
            await self._wait_for_rows(uri)
        return (await send())[0]

    async def require_more_than_pages(self, uri: str, error: FetchError, *, is_below: bool) -> None:
        """Check whether a request was refused because the server has no such route, by a page of the result.

        Args:
            is_below: the route is one below the resource, which a server may lack: it answers as for no resource.

        Raises:
            FetchError: it has only pages, or it has no such result.
        """
        is_unrouted = error.is_unrouted or (is_below and error.status == 404)
        # The check would use up a link for a single use.
        if not is_unrouted or self.carries_link:
            return
        try:
            answer = await self.page(uri, {"offset": 0, "limit": 1})
        except (ResourceNotFoundError, ResourceExpiredError) as missing:
            raise missing from None
        except FetchError:
            return
        if not isinstance(answer, dict) or "data" not in answer:
            return
        raise pages_only(error.status, has_posts=self.has_posts) from None

    async def _wait_for_rows(self, uri: str) -> None:
        """Wait until the server has kept the rows of a result."""

        async def report(_: Any) -> None:
            """Nothing: the call has no progress."""

        metadata = await wait_while(is_refreshing, transport=self, uri=uri, seconds=None, report=report)
        kept = metadata.get("kept") if isinstance(metadata, dict) else None
        if isinstance(kept, dict) and "error" in kept:
            raise query_failed(kept["error"])

    async def page(
        self, uri: str, body: Mapping[str, Any], *, budget: Budget | None = None, waits: bool = False
    ) -> Any:
        """The decoded JSON of POST /{id}; of GET /{id}?skip=&limit= from a server without POST.

        Args:
            waits: see `send`.

        Raises:
            FetchError: the request failed, or its answer is unusable or an error; or the server has GET only, and the
                request has a sort or a cursor, or the answer may be another page.
        """
        post_error: FetchError | None = None
        if self.has_posts:
            try:
                return await self._read_answer("POST", uri, body, budget=budget, waits=waits)
            except FetchError as error:
                if not error.is_unrouted:
                    raise
                post_error = error
        try:
            answer = await self._page_by_get(uri, body, budget)
        except FetchError as error:
            if post_error is not None and error.status in UNROUTED:
                raise post_error from None
            raise
        self.has_streams = self.has_posts = False
        return answer

    async def _page_by_get(self, uri: str, body: Mapping[str, Any], budget: Budget | None) -> Any:
        unsupported = next((name for name in ("sort", "cursor") if name in body), None)
        # A server of the reference design ignores `skip` where there is no `limit`, and sends everything.
        offset, limit = body.get("offset", 0), 1 if unsupported else body.get("limit", _ROWS_BY_GET)
        query = {"skip": str(offset), "limit": str(limit)}
        answer = await self._read_answer("GET", uri, query=query, budget=budget)
        fields: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
        has_position = any(fields.get(name) is not None for name in ("skip", "offset", "next_offset"))
        if "data" not in fields or (offset and not has_position):
            raise FetchError(
                "The server takes no POST, and its answer to GET does not say which rows of the result it has.",
                status=200,
                hint=_CHECK_ADDRESS,
            )
        if unsupported:  # said only now: the result may be missing
            raise FetchError(
                f"The server takes no POST, and its pages by GET have no {unsupported}.",
                hint="Fetch the rows by offset, in the result's own order.",
            )
        return answer

    async def describe(self, uri: str) -> tuple[Any, float | None]:
        """The decoded JSON of GET /{id}, and the seconds of its Retry-After header.

        Raises:
            FetchError: the request failed, or its answer is unusable or an error.
        """
        answer, headers = await self._send("GET", self.url_of(uri))
        return answer, retry_after(headers.get("retry-after"))

    async def list(self, parameters: Mapping[str, str | int], *, budget: Budget) -> Any:
        """The decoded JSON of GET on the collection itself.

        Raises:
            FetchError: the request failed, or its answer is unusable or an error.
        """
        # With the slash: redirects are not followed.
        url = f"{self.base_url}/?{urlencode(parameters)}"
        try:
            return (await self._send("GET", url, budget=budget))[0]
        except FetchError as error:
            if not error.is_unrouted:
                raise
            refused = f"The server has no list of results: it answered with status {error.status}."
            raise FetchError(refused, status=error.status, hint=_CHECK_ADDRESS) from None

    @asynccontextmanager
    async def stream(
        self, uri: str, body: Mapping[str, Any], media_type: str
    ) -> AsyncIterator[tuple[Mapping[str, str], AsyncGenerator[bytes, None]]]:
        """The headers and the body of POST /{id}/rows, after decompression; the timeout is that of each piece.

        Raises:
            FetchError: the request failed, or its answer is unusable or an error; or the body broke off, then without a
                status.
        """
        url = f"{self.url_of(uri)}/rows"
        headers = self._headers | {"accept": media_type, "accept-encoding": self._stream_coding}
        with self._mapped_errors():
            async with AsyncExitStack() as stack:
                # The libraries limit the time to the next byte, and not that of all headers.
                async with asyncio.timeout(self._seconds):
                    response = await stack.enter_async_context(self._answer("POST", url, body, headers))
                    await self._check_status(response, url)
                _check_stream(response, media_type)
                yield response.headers, self._pieces(response)

    async def _pieces(self, response: HTTPResponse) -> AsyncGenerator[bytes, None]:
        with self._mapped_errors():
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
        more_headers: Mapping[str, str] = _NO_HEADERS,
    ) -> tuple[Any, Mapping[str, str]]:
        limits = Budget(self.retry) if budget is None else budget
        while True:
            try:
                return await self._send_once(method, url, body, budget, more_headers)
            except FetchError as error:
                is_repeated = repeats and error.may_pass and not self.carries_link
                # An answer with an error status is returned to the caller, except in a call that reads all rows: like
                # a stream, it continues after the restart of a server.
                if not is_repeated or (budget is None and error.status is not None):
                    raise
                most = self.longest_wait if budget is not None else min(self.longest_wait, self._seconds)
                delay = limits.delay(error.retry_after, most=most)
                if delay is None:
                    limits.annotated(error)
                    raise
            await asyncio.sleep(delay)

    async def _send_once(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None,
        budget: Budget | None,
        more_headers: Mapping[str, str],
    ) -> tuple[Any, Mapping[str, str]]:
        with self._mapped_errors():
            async with (
                asyncio.timeout(self._seconds),
                self._answer(method, url, body, {**self._headers, **more_headers}) as response,
            ):
                await self._check_status(response, url)
                answer = None if response.status_code == 204 else await self._json(response, budget)
                return answer, response.headers

    @asynccontextmanager
    async def _answer(
        self, method: str, url: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> AsyncIterator[HTTPResponse]:
        credentials = await self._credentials.headers()
        async with self._request(method, url, body, {**headers, **credentials}) as response:
            self._note_time(response)
            is_refused = response.status_code == 401
            renewed = await self._credentials.renewed_headers(credentials) if is_refused else None
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
            # The client fetches only from configured addresses (decision 16); a redirect may lead to another.
            follow_redirects=False,
            **self._credentials.options,
        )

    def _note_time(self, response: HTTPResponse) -> None:
        self._is_answered = self._is_reached = True
        self.clock.note(response.headers.get("date"), response.headers.get("age"))

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except self._timeouts as error:
            raise FetchTimeoutError(
                f"The server sent no complete answer within {self._seconds:g} seconds."
            ) from error
        except self._failures as error:
            request_error = FetchError(
                f"The request to the server failed ({type(error).__name__}).",
                hint="Check that base_url is right and the server is running.",
            )
            self._is_reached = self._is_reached or isinstance(error, self._breaks)
            # If no server has ever answered, the address is probably wrong.
            request_error.may_pass = isinstance(error, self._breaks) or (
                self._is_reached and isinstance(error, self._unreachable)
            )
            raise request_error from error

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
            # Such as the error page of a proxy: the status is enough.
            return None

    async def _json(self, response: HTTPResponse, budget: Budget | None = None) -> Any:
        status = response.status_code
        if not _JSON_TYPE.fullmatch(_media_type(response)):
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
    """Refuse an answer of another type, and a stream whose end cannot be distinguished from a break."""
    status, headers = response.status_code, response.headers
    if _media_type(response) != media_type:
        raise FetchError(f"The server's answer is not {media_type}.", status=status, hint=_CHECK_ADDRESS)
    _check_coding(response)
    # A body that ends with its connection (HTTP/1.0) looks complete wherever it breaks. A transport without a network
    # has no version.
    version = response.extensions.get("http_version", b"")
    if version.startswith(b"HTTP/1") and not ("transfer-encoding" in headers or "content-length" in headers):
        raise FetchError("The server's answer does not say where it ends.", status=status)


def _media_type(response: HTTPResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _redirect_error(status: int, url: str, location: str) -> FetchError:
    if leaves_origin(url, location):
        return UntrustedOriginError(
            "The server redirects to another host; it was not followed.", status=status
        )
    return FetchError("The server redirects; redirects are not followed.", status=status, hint=_CHECK_ADDRESS)


def _is_repeatable(method: str, below: str) -> bool:
    """Whether a request may be sent twice: it only reads, or sets the same value again.

    DELETE of a resource may not: the answer to the second one is 404.
    """
    return (
        method in {"GET", "PUT"}
        or (method == "POST" and below in _READING_POSTS)
        or (method == "DELETE" and below == "/pin")
    )


def _errors_of(http: HTTPClient, names: Sequence[str] = _FAILURES) -> tuple[Errors, Errors]:
    """The timeout errors of the HTTP client's library, and its errors of these names."""
    for kind in type(http).__mro__:
        if kind.__name__ == "AsyncClient":
            library = sys.modules[kind.__module__.partition(".")[0]]
            return (TimeoutError, library.TimeoutException), tuple(getattr(library, name) for name in names)
    raise TypeError("http= takes an httpx.AsyncClient or an httpx2.AsyncClient")


_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
"""Seconds between two requests for the metadata of a running query; they double each time."""

_LONGEST_RETRY_AFTER = 60.0
"""The most seconds that a server may request between them."""


def is_refreshing(answer: object) -> bool:
    """Whether the metadata are those of a result whose query runs again."""
    return rows_so_far(answer) is not None


def rows_so_far(answer: object) -> int | None:
    """The number of rows read so far by a query that still runs; None when the metadata have none."""
    record = answer.get("kept") if isinstance(answer, dict) else None
    rows = record.get("rows_so_far") if isinstance(record, dict) else None
    return rows if type(rows) is int else None


async def wait_while(
    is_running: Callable[[Any], bool],
    *,
    transport: Transport,
    uri: str,
    seconds: float | None,
    report: Callable[[Any], Awaitable[object]],
) -> Any:
    """The first metadata of a resource for which `is_running` is False.

    Args:
        report: called with the metadata before them.

    Raises:
        FetchTimeoutError: there were none within so many seconds.
        FetchError: requests for the metadata failed repeatedly.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _poll(is_running, transport, uri, report)
    except TimeoutError as error:
        raise FetchTimeoutError(
            f"The query still runs after {seconds:g} seconds.", hint="Wait again, or fetch the rows later."
        ) from error


async def _poll(
    is_running: Callable[[Any], bool],
    transport: Transport,
    uri: str,
    report: Callable[[Any], Awaitable[object]],
) -> Any:
    wait, budget = _FIRST_WAIT, Budget(transport.retry)
    while True:
        try:
            answer, requested = await transport.describe(uri)
        except FetchError as error:
            requested = error.retry_after
            if not error.may_pass or budget.delay(min(requested or 0.0, _LONGEST_RETRY_AFTER)) is None:
                raise
        else:
            budget = Budget(transport.retry)
            if not is_running(answer):
                return answer
            await report(answer)
        await asyncio.sleep(max(wait, min(requested or 0.0, _LONGEST_RETRY_AFTER)))
        wait = min(2 * wait, _LONGEST_WAIT)
