"""Finds dual responses in tool results. The client fetches only from configured addresses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Literal, Self, overload

from dualsql_client import detect
from dualsql_client.addresses import checked_base_url, reference
from dualsql_client.answers import ResourceMetadata, read_listing, read_metadata
from dualsql_client.budget import Retry
from dualsql_client.detect import Detected
from dualsql_client.errors import NotConfiguredError, ParseError, UntrustedOriginError
from dualsql_client.origins import Origin, Origins, described
from dualsql_client.parsed import ParsedDualResponse, status_of
from dualsql_client.transport import Auth, HTTPClient, Transport
from dualsql_client.wire import Row

_RETRY = Retry()


class DualResponseClient:
    """Finds dual responses in tool results and fetches their rows.

    Args:
        base_url: address of the server's REST resources; every request goes to `base_url/id`, unless the tool result
            names one of `origins`. Without either the client parses, and fetching raises NotConfiguredError.
        http: an httpx.AsyncClient or httpx2.AsyncClient to send with; it stays the caller's to close.
        headers: sent with every request to `base_url`.
        timeout: of one request with its whole answer; of a stream, of each piece of it. Seconds or a timedelta.
        maximum_response_bytes: size of the largest answer that is read; of a stream, of its largest row or batch.
        maximum_stream_bytes: size of the longest stream that is read, after decompression; of a result that is read
            page by page, of all its pages.
        retry: how often, how soon and for how long requests are repeated and broken streams are resumed: see Retry.
        auth: for `base_url`: an Auth of the library of `http`, a user name with a password, or an async function that
            returns a bearer token. It is called once, and again for a request that is refused with 401.
        origins: addresses of other servers' resources; a tool result whose URL is below one of them is fetched there.
            One that names another host is not fetched where there is no `base_url`.

    Raises:
        NotConfiguredError: `base_url`, or one of `origins`, is no plain http or https address.
    """

    def __init__(
        self,
        base_url: str | None = None,
        http: HTTPClient | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | timedelta = 30.0,
        *,
        maximum_response_bytes: int = 64 * 1024 * 1024,
        maximum_stream_bytes: int = 64 * 1024**3,
        retry: Retry = _RETRY,
        auth: Auth | None = None,
        origins: Sequence[Origin | str] = (),
    ) -> None:
        self._own_http: HTTPClient | None = None
        configured = [origin if isinstance(origin, Origin) else Origin(base_url=origin) for origin in origins]
        if base_url is not None:
            configured.insert(0, Origin(base_url=base_url, headers=headers or {}, auth=auth))
        addresses = [checked_base_url(origin.base_url) for origin in configured]
        sender: HTTPClient | None = http
        if configured and sender is None:
            import httpx

            sender = self._own_http = httpx.AsyncClient()
        transports = [
            Transport(
                address,
                sender,
                origin.headers,
                auth=origin.auth,
                seconds=timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
                maximum_bytes=maximum_response_bytes,
                maximum_stream_bytes=maximum_stream_bytes,
                retry=retry,
            )
            for address, origin in zip(addresses, configured, strict=True)
            if sender is not None
        ]
        self._transport = transports[0] if base_url is not None else None
        self._origins = Origins(self._transport, transports)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, unless they belong to the `http` that was given."""
        if self._own_http is not None:
            await self._own_http.aclose()

    @overload
    def parse(self, tool_result: object, *, strict: Literal[True]) -> ParsedDualResponse: ...
    @overload
    def parse(self, tool_result: object, *, strict: bool = False) -> ParsedDualResponse | None: ...
    def parse(self, tool_result: object, *, strict: bool = False) -> ParsedDualResponse | None:
        """The dual response in a tool result of any SDK; None when there is none, or more than one.

        Takes result objects, models, dataclasses, mappings, JSON text and lists of those. A result marked as
        an error is none.

        Raises:
            ParseError: with `strict`, instead of returning None.
        """
        found = self.find(tool_result)
        if len(found) == 1:
            return found[0]
        if strict:
            raise _parse_error(found)
        return None

    def parse_structured(self, structured_content: object) -> ParsedDualResponse | None:
        """The dual response in a tool result's structuredContent; None if it is something else."""
        detected = detect.read_structure(structured_content, is_configured=self._origins.has)
        return None if detected is None else self._parsed(detected)

    def find(self, anything: object) -> list[ParsedDualResponse]:
        """All dual responses in a run result, a message list or the like; one per resource."""
        found = detect.find(anything, is_configured=self._origins.has)
        return [self._parsed(detected) for detected in found]

    async def find_in(self, events: AsyncIterable[object]) -> AsyncGenerator[ParsedDualResponse, None]:
        """The dual responses in a stream of events, each as soon as one holds it.

        A resource that first came as a bare link comes once more, when its sample does. A URI in a text counts for
        nothing here: events hold pieces of texts, and a URI that was cut is another one.
        """
        known: dict[str, detect.Detected] = {}
        async for event in events:
            for detected in detect.find(event, in_texts=False, is_configured=self._origins.has):
                if detect.is_more_complete(detected, known.get(detected.key)):
                    known[detected.key] = detected
                    yield self._parsed(detected)

    async def open(self, resource: str) -> ParsedDualResponse:
        """A result by its id, its URI or its URL, without a tool result. The server is asked for its metadata.

        Its `sample` is empty; `fetch` and its kin read the rows. A URL must be below `base_url` or one of `origins`.

        Args:
            resource: such as `abc123`, `resource://abc123` or `https://api.example.com/resources/abc123`.

        Raises:
            ParseError: that is none of the three.
            NotConfiguredError: the client has no `base_url`, and several `origins` or none.
            UntrustedOriginError: the URL is elsewhere; nothing was sent.
            FetchError: see `dualsql_client.errors`; ResourceNotFoundError where the caller sees no such result.
        """
        uri, url = reference(resource)
        transport = self._origins.choose(uri, None) if url is None else self._origins.named(uri, url)
        if transport is None and url is not None and len(self._origins):
            raise UntrustedOriginError(
                f"{described(url)} is not an address of a result that this client may fetch.",
                hint="Give the address of its resources to the client: base_url= or origins=['https://...'].",
            )
        if transport is None:
            raise NotConfiguredError(
                "The client has no base_url, and fetches only from configured addresses.",
                hint="DualResponseClient('https://api.example.com/resources').",
            )
        return self._listed(transport, read_metadata(await transport.send("GET", uri)))

    async def query_staged_data(self, data_access_id: str, sql: str) -> list[Row]:
        """All rows that one SELECT gives over a stored result, which it calls `data`: `SELECT state FROM data`.

        Args:
            data_access_id: the resource's id or URI.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            ParseError: that is no id.
            FetchError: see `dualsql_client.errors`.
        """
        uri, url = reference(data_access_id)
        if url is not None:
            raise ParseError("That is not the id of a resource.")
        return await self._parsed(Detected(uri=uri, name="")).sql_all(sql)

    async def list_resources(self, *, page_size: int = 100) -> AsyncGenerator[ParsedDualResponse, None]:
        """The caller's own live results, newest first. The `headers` of this client identify the caller.

        Their `sample` is empty; `fetch` and its kin read the rows.

        Args:
            page_size: how many are asked for at once, at most 100.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            FetchError: see `dualsql_client.errors`; status 401 if the server cannot identify the caller.
        """
        if self._transport is None:
            raise NotConfiguredError("The client has no base_url to list the resources of.")
        parameters: dict[str, str | int] = {"limit": page_size}
        cursors: set[str] = set()
        budget = self._transport.budget()
        while True:
            listed, cursor = read_listing(await self._transport.list(parameters, budget=budget))
            for metadata in listed:
                with budget.paused():
                    yield self._listed(self._transport, metadata)
            # A server that leads in a circle must not keep anyone asking.
            if cursor is None or cursor in cursors:
                return
            cursors.add(cursor)
            budget.page(len(listed))
            parameters["cursor"] = cursor

    def _listed(self, transport: Transport, metadata: ResourceMetadata) -> ParsedDualResponse:
        return ParsedDualResponse(
            name=metadata.name,
            sample=[],
            total_count=metadata.total_count,
            total_count_kind=metadata.total_count_kind,
            resource_uri=metadata.uri,
            resource_url=transport.url_of(metadata.uri),
            columns=metadata.columns,
            executed_at=metadata.created_at,
            expires_at=metadata.expires_at,
            status=status_of(metadata.status),
            _transport=transport,
        )

    def _parsed(self, detected: Detected) -> ParsedDualResponse:
        transport = self._origins.choose(detected.uri, detected.url)
        return ParsedDualResponse(
            name=detected.name,
            sample=detected.sample or [],
            total_count=detected.total_count,
            total_count_kind=detected.total_count_kind,
            resource_uri=detected.uri,
            resource_url=transport.url_of(detected.uri) if transport else detected.url,
            columns=detected.columns,
            executed_at=detected.executed_at,
            expires_at=detected.expires_at,
            status="pending" if detected.is_pending else "ready",
            _transport=transport,
            _has_origins=len(self._origins) > 0,
        )


def _parse_error(found: list[ParsedDualResponse]) -> ParseError:
    if found:
        return ParseError(
            f"There are {len(found)} dual responses, and one was expected.",
            hint="Take all of them with client.find().",
            details={"resources": [parsed.resource_uri for parsed in found]},
        )
    return ParseError(
        "The input contains no dual response.",
        hint="Pass the whole tool result; if the call failed, its text says why.",
    )
