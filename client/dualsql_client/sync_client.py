"""Tool results in, dual responses out, for code that waits. Written by scripts/make_sync_client.py."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Literal, Self, overload

from dualsql_client.budget import Retry
from dualsql_client.client import _RETRY, DualResponseClient
from dualsql_client.origins import Origin
from dualsql_client.portal import Portal, each_of, step_through
from dualsql_client.sync_parsed import SyncParsedDualResponse
from dualsql_client.transport import Auth, HTTPClient
from dualsql_client.wire import Row


class SyncDualResponseClient:
    """Finds dual responses in tool results and fetches their rows.

    Everything waits, in scripts and in notebooks. The requests are sent from a thread, which ends with `close`.

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
        self._client = DualResponseClient(
            base_url,
            http,
            headers,
            timeout,
            maximum_response_bytes=maximum_response_bytes,
            maximum_stream_bytes=maximum_stream_bytes,
            retry=retry,
            auth=auth,
            origins=origins,
        )
        self._portal = Portal(self._client.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless the caller passed `http`."""
        self._portal.close()

    @overload
    def parse(self, tool_result: object, *, strict: Literal[True]) -> SyncParsedDualResponse: ...

    @overload
    def parse(self, tool_result: object, *, strict: bool = False) -> SyncParsedDualResponse | None: ...

    def parse(self, tool_result: object, *, strict: bool = False) -> SyncParsedDualResponse | None:
        """The dual response in a tool result of any SDK; None when there is none, or more than one.

        Takes result objects, models, dataclasses, mappings, JSON text and lists of those. A result marked as
        an error contains none.

        Raises:
            ParseError: with `strict`, instead of returning None.
        """
        parsed = self._client.parse(tool_result, strict=strict)
        return None if parsed is None else SyncParsedDualResponse(self._portal, parsed)

    def parse_structured(self, structured_content: object) -> SyncParsedDualResponse | None:
        """The dual response in a tool result's structuredContent; None if it is something else."""
        parsed = self._client.parse_structured(structured_content)
        return None if parsed is None else SyncParsedDualResponse(self._portal, parsed)

    def find(self, anything: object) -> list[SyncParsedDualResponse]:
        """All dual responses in a run result, a message list or the like; one per resource."""
        return [SyncParsedDualResponse(self._portal, parsed) for parsed in self._client.find(anything)]

    def find_in(self, events: Iterable[object]) -> Generator[SyncParsedDualResponse, None, None]:
        """The dual responses in a stream of events, each as soon as an event contains it.

        A resource that arrived as a bare link is yielded again when its sample arrives.
        """
        for parsed in step_through(self._client.find_in(each_of(events))):
            yield SyncParsedDualResponse(self._portal, parsed)

    def open(self, resource: str) -> SyncParsedDualResponse:
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
        return SyncParsedDualResponse(self._portal, self._portal.call(self._client.open, resource))

    def query_staged_data(self, data_access_id: str, sql: str) -> list[Row]:
        """All rows of one SELECT over a stored result, whose relation is `data`: `SELECT state FROM data`.

        Args:
            data_access_id: the resource's id or URI.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            ParseError: `data_access_id` is neither.
            FetchError: see `dualsql_client.errors`.
        """
        return self._portal.call(self._client.query_staged_data, data_access_id, sql)

    def list_resources(self, *, page_size: int = 100) -> Generator[SyncParsedDualResponse, None, None]:
        """The caller's own live results, newest first. The `headers` of this client identify the caller.

        Their `sample` is empty; `fetch` and the other methods read the rows.

        Args:
            page_size: results in one request, at most 100.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            FetchError: see `dualsql_client.errors`; status 401 if the server cannot identify the caller.
        """
        for parsed in self._portal.each(self._client.list_resources, page_size=page_size):
            yield SyncParsedDualResponse(self._portal, parsed)
