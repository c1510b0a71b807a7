"""Finds dual responses in tool results. The client fetches only from configured addresses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Literal, Self, overload

from dualsql_client import detect, local_servers
from dualsql_client.addresses import checked_base_url, reference, resource_id
from dualsql_client.answers import ResourceMetadata, read_listing, read_metadata
from dualsql_client.budget import Retry
from dualsql_client.detect import Detected
from dualsql_client.errors import NotConfiguredError, ParseError, UntrustedOriginError
from dualsql_client.origins import Origin, Origins, describe_host
from dualsql_client.parsed import ParsedDualResponse, status_of
from dualsql_client.transport import Auth, HTTPClient, Transport
from dualsql_client.wire import Row

_RETRY = Retry()


class DualResponseClient:
    """Finds dual responses in tool results and fetches their rows.

    Args:
        base_url: address of the server's REST resources; every request goes to `base_url/id`, unless the tool result
            names one of `origins`. Without either the client fetches results of the servers that hosts have started on
            this machine for this user (`dualsql serve --stdio`), and fetching others raises NotConfiguredError.
        http: an httpx.AsyncClient or httpx2.AsyncClient to send with; the caller closes it.
        headers: sent with every request to `base_url`.
        timeout: of one request with its whole answer; of a stream, of each piece. Seconds or a timedelta.
        maximum_response_bytes: size of the largest answer that is read; of a stream, of its largest row or batch.
        maximum_stream_bytes: size of the longest stream that is read, after decompression; of a result that is read
            page by page, of all its pages.
        retry: how often, how soon and for how long requests are repeated and broken streams are resumed: see Retry.
        auth: for `base_url`: an Auth of the library of `http`, a user name with a password, or an async function that
            returns a bearer token. It is called once, and again after an answer with status 401.
        origins: addresses of other servers' resources; a tool result whose URL is below one of them is fetched there.
            Without a `base_url`, a result with any other URL cannot be fetched.

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
        self._http = http
        self._transport_at = partial(
            Transport,
            seconds=timeout.total_seconds() if isinstance(timeout, timedelta) else timeout,
            maximum_bytes=maximum_response_bytes,
            maximum_stream_bytes=maximum_stream_bytes,
            retry=retry,
        )
        transports = [
            self._transport_at(
                checked_base_url(origin.base_url), self._sender(), origin.headers, auth=origin.auth
            )
            for origin in configured
        ]
        self._local: dict[str, Transport] | None = None if configured else {}
        self._transport = transports[0] if base_url is not None else None
        self._origins = Origins(self._transport, transports)

    def _sender(self) -> HTTPClient:
        if self._http is None:
            import httpx

            self._http = self._own_http = httpx.AsyncClient()
        return self._http

    def _local_transport(self, uri: str) -> Transport | None:
        """The transport to this machine's server whose mark is in the id; None for a client with its own addresses."""
        address = None if self._local is None else local_servers.address_of(resource_id(uri) or "")
        if self._local is None or address is None:
            return None
        if address not in self._local:
            self._local[address] = self._transport_at(checked_base_url(address), self._sender(), {})
        return self._local[address]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, unless the caller passed `http`."""
        if self._own_http is not None:
            await self._own_http.aclose()

    @overload
    def parse(self, tool_result: object, *, strict: Literal[True]) -> ParsedDualResponse: ...
    @overload
    def parse(self, tool_result: object, *, strict: bool = False) -> ParsedDualResponse | None: ...
    def parse(self, tool_result: object, *, strict: bool = False) -> ParsedDualResponse | None:
        """The dual response in a tool result of any SDK; None when there is none, or more than one.

        Takes result objects, models, dataclasses, mappings, JSON text and lists of those. A result marked as
        an error contains none.

        Raises:
            ParseError: with `strict`, instead of returning None.
        """
        responses = self.find(tool_result)
        if len(responses) == 1:
            return responses[0]
        if strict:
            raise _parse_error(responses)
        return None

    def parse_structured(self, structured_content: object) -> ParsedDualResponse | None:
        """The dual response in a tool result's structuredContent; None if it is something else."""
        detected = detect.read_structure(structured_content, self._origins)
        return None if detected is None else self._from_detected(detected)

    def find(self, anything: object) -> list[ParsedDualResponse]:
        """All dual responses in a run result, a message list or the like; one per resource."""
        return [self._from_detected(detected) for detected in detect.find(anything, self._origins)]

    async def find_in(self, events: AsyncIterable[object]) -> AsyncGenerator[ParsedDualResponse, None]:
        """The dual responses in a stream of events, each as soon as an event contains it.

        A resource that arrived as a bare link is yielded again when its sample arrives.
        """
        latest: dict[str, Detected] = {}
        async for event in events:
            for detected in detect.find(event, self._origins):
                if detect.is_more_complete(detected, latest.get(detected.key)):
                    latest[detected.key] = detected
                    yield self._from_detected(detected)

    async def open(self, resource: str) -> ParsedDualResponse:
        """A result by its id, its URI or its URL, without a tool result. It requests the metadata from the server.

        Its `sample` is empty; `fetch` and the other methods read the rows. A URL must be below `base_url` or one of
        `origins`.

        Args:
            resource: such as `abc123`, `resource://abc123` or `https://api.example.com/resources/abc123`.

        Raises:
            ParseError: `resource` is none of the three.
            NotConfiguredError: the client has no `base_url`, and several `origins` or none.
            UntrustedOriginError: the URL is below none of them; nothing was sent.
            FetchError: see `dualsql_client.errors`; ResourceNotFoundError if the caller has no such result.
        """
        uri, url = reference(resource)
        transport = self._origins.choose(uri, None) if url is None else self._origins.at(uri, url)
        transport = transport or self._local_transport(uri)
        if transport is None and url is not None and len(self._origins):
            raise UntrustedOriginError(
                f"{describe_host(url)} is not an address of a result that this client may fetch.",
                hint="Give the address of its resources to the client: base_url= or origins=['https://...'].",
            )
        if transport is None:
            raise NotConfiguredError(
                "The client has no base_url, and fetches only from configured addresses.",
                hint="DualResponseClient('https://api.example.com/resources').",
            )
        return self._from_metadata(transport, read_metadata(await transport.send("GET", uri)))

    async def query_staged_data(self, data_access_id: str, sql: str) -> list[Row]:
        """All rows of one SELECT over a stored result, whose relation is `data`: `SELECT state FROM data`.

        Args:
            data_access_id: the resource's id or URI.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            ParseError: `data_access_id` is neither.
            FetchError: see `dualsql_client.errors`.
        """
        uri, url = reference(data_access_id)
        if url is not None:
            raise ParseError("That is not the id of a resource.")
        return await self._from_detected(Detected(uri=uri, name="")).sql_all(sql)

    async def list_resources(self, *, page_size: int = 100) -> AsyncGenerator[ParsedDualResponse, None]:
        """The caller's own live results, newest first. The `headers` of this client identify the caller.

        Their `sample` is empty; `fetch` and the other methods read the rows.

        Args:
            page_size: results in one request, at most 100.

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
            resources, cursor = read_listing(await self._transport.list(parameters, budget=budget))
            for metadata in resources:
                with budget.paused():
                    yield self._from_metadata(self._transport, metadata)
            # A faulty server could repeat its cursors for ever.
            if cursor is None or cursor in cursors:
                return
            cursors.add(cursor)
            budget.page(len(resources))
            parameters["cursor"] = cursor

    def _from_metadata(self, transport: Transport, metadata: ResourceMetadata) -> ParsedDualResponse:
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

    def _from_detected(self, detected: Detected) -> ParsedDualResponse:
        transport = self._origins.choose(detected.uri, detected.url) or self._local_transport(detected.uri)
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


def _parse_error(responses: list[ParsedDualResponse]) -> ParseError:
    if responses:
        return ParseError(
            f"There are {len(responses)} dual responses, and one was expected.",
            hint="Take all of them with client.find().",
            details={"resources": [parsed.resource_uri for parsed in responses]},
        )
    return ParseError(
        "The input contains no dual response.",
        hint="Pass the whole tool result; if the call failed, its text says why.",
    )
