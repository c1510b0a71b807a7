"""A dual response in the application. It fetches pages, streams, tables and files of the rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Unpack

from dualsql_client.answers import (
    FetchResult,
    ResourceMetadata,
    exact_total,
    is_pending,
    read_metadata,
    read_page,
    require_confirmed,
    with_columns,
)
from dualsql_client.budget import Budget
from dualsql_client.conversions import read_instant
from dualsql_client.database_files import database_of, write_database
from dualsql_client.errors import (
    FetchError,
    NotConfiguredError,
    ResourceExpiredError,
    ResourceNotFoundError,
    UntrustedOriginError,
    import_extra,
    query_failed,
)
from dualsql_client.formats import ARROW, CSV, NDJSON, DownloadFormat, FileFormat
from dualsql_client.framing import Block
from dualsql_client.keywords import checked_keywords
from dualsql_client.lifetimes import kept_alive
from dualsql_client.ndjson import decode_rows, rows_of
from dualsql_client.origins import describe_host
from dualsql_client.preview import TerminalPreview, html, preview
from dualsql_client.progress import Meter, ProgressCallback
from dualsql_client.query import (
    Filters,
    QueryMethods,
    Sort,
    StreamOptions,
    each_page,
    names_of,
    narrowing_body,
    page_at,
    page_body,
    rows_request,
)
from dualsql_client.rewriting import is_rewritten
from dualsql_client.streaming import Partial, PartialFile, RowStream, format_of, read_table, write
from dualsql_client.transport import Transport, is_refreshing, rows_so_far, wait_while
from dualsql_client.wire import UNFIT_KEY, Column, Row, TotalCountKind
from dualsql_client.wire_requests import PageBody

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


@dataclass(slots=True, kw_only=True, eq=False)
class ParsedDualResponse(QueryMethods):
    """The sample that the model has read, and the methods that fetch every row.

    Attributes:
        sample: the rows in the tool result, with JSON's values; empty for a bare link.
        total_count: all rows of the result; None when the server did not count them.
        total_count_kind: "exact", "estimated", "capped" (a lower bound), or "none".
        resource_uri: the URI in the tool result, such as `resource://abc123`.
        resource_url: the address of the rows: `base_url` and the resource's id. Without a `base_url` it is the URL
            in the tool result, which is untrusted and never fetched.
        columns: of the sample, which has only the first of very many; a page has its own. Empty for a bare link.
        executed_at: the time of the query, if the tool result has it.
        expires_at: when the resource expires, updated by every page and by `pin`; None for a pinned one, or when it is
            unknown.
        status: "pending" while the query still runs, then "ready" or "failed", from the last answer.
    """

    name: str
    sample: list[Row]
    total_count: int | None
    total_count_kind: TotalCountKind
    resource_uri: str
    resource_url: str | None
    columns: list[Column]
    executed_at: datetime | None
    expires_at: datetime | None
    status: Literal["pending", "ready", "failed"] = "ready"
    _transport: Transport | None = field(default=None, repr=False)
    _has_origins: bool = field(default=False, repr=False)

    def is_expired(self) -> bool:
        """Whether the resource has expired, by the server's clock once it has answered, else by this computer's."""
        return (lifetime := self.time_left()) is not None and lifetime <= timedelta()

    def time_left(self) -> timedelta | None:
        """The time until the resource expires, by the clock of `is_expired`; None if it is pinned or unknown."""
        if self.expires_at is None:
            return None
        return self.expires_at - (self._transport.clock.now() if self._transport else datetime.now(UTC))

    def kept_alive(self) -> AbstractAsyncContextManager[None]:
        """Keep the resource from expiring while it is read page by page: `async with parsed.kept_alive(): ...`.

        This works if the server's lifetimes slide. The methods that read all rows include it.
        """
        return kept_alive(partial(self._page, PageBody(offset=0, limit=1), typed=False), self.time_left)

    def _repr_html_(self) -> str:
        return html(preview(self, is_configured=self._transport is not None))

    def __rich__(self) -> TerminalPreview:
        return TerminalPreview(preview(self, is_configured=self._transport is not None))

    async def fetch(
        self,
        *,
        offset: int = 0,
        limit: int | None = None,
        sort: Sort | None = None,
        typed: bool = False,
        cursor: str | None = None,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> FetchResult:
        """Fetch one page. Where it takes too long, the call waits until the server has kept the rows, if it keeps any.

        Args:
            offset: position of its first row, from 0.
            limit: the most rows; None for the server's default.
            sort: the order, the first key first: "-enrollment,name", where `-` is descending, or
                `{"field": "enrollment", "order": "desc"}`, or several keys.
            typed: values as Decimal, datetime, date, time, timedelta, UUID and bytes instead of JSON's.
            cursor: `next_cursor` or `previous_cursor` of a page, instead of an offset; with the same other arguments.
            columns: names of columns, in this order; all by default.
            filters: which rows, as for `query`: `where("state").eq("NJ")`. The database applies them.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            FetchError: see `dualsql_client.errors`.
            ParseError: with `typed`, a value does not fit its column's encoding.
        """
        start = PageBody(offset=offset) if cursor is None else page_at(cursor, offset)
        return await self._fetch(page_body(start, limit, sort), columns, filters, typed=typed)

    async def pages(
        self,
        *,
        limit: int | None = None,
        sort: Sort | None = None,
        typed: bool = False,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> AsyncGenerator[FetchResult, None]:
        """All pages in order, each by the cursor of the last. The arguments are those of `fetch`.

        Concurrent inserts and deletes never duplicate or drop other rows. `fetch_stream` is faster.

        Raises:
            FetchError, ParseError: see `fetch`.
        """

        async def page(start: PageBody, budget: Budget) -> FetchResult:
            request = page_body(start, limit, sort)
            return await self._fetch(request, columns, filters, typed=typed, budget=budget)

        async with self.kept_alive(), aclosing(each_page(page, self._configured().budget())) as pages:
            async for each in pages:
                yield each

    @checked_keywords(StreamOptions)
    async def fetch_stream(
        self, *, batch_size: int = 500, typed: bool = False, **options: Unpack[StreamOptions]
    ) -> AsyncGenerator[list[Row], None]:
        """All rows in order, in batches of `batch_size`, of which only a few are in memory at once.

        They arrive as one stream, which resumes after a broken connection; from a server without streams, as pages.

        Args:
            options: see StreamOptions.

        Raises:
            StreamBrokenError: the stream broke and could not resume.
            FetchError, ParseError: see `fetch`.
        """
        pending: list[Row] = []
        async with aclosing(self._rows(batch_size, options, typed=typed, is_iterated=True)) as blocks:
            async for rows in blocks:
                pending += rows
                # Cut once for each block: removing each batch from the start would copy the rest each time.
                end = len(pending) - len(pending) % batch_size
                for start in range(0, end, batch_size):
                    yield pending[start : start + batch_size]
                pending = pending[end:]
        if pending:
            yield pending

    @checked_keywords(StreamOptions)
    async def fetch_all(
        self, *, batch_size: int = 500, typed: bool = False, **options: Unpack[StreamOptions]
    ) -> list[Row]:
        """All rows in one list; `fetch_stream` is for results that do not fit in memory.

        Args:
            batch_size: rows of a page, from a server without streams.
            typed: values as in `fetch`.
            options: see StreamOptions.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
        """
        rows: list[Row] = []
        async with aclosing(self._rows(batch_size, options, typed=typed)) as blocks:
            async for block in blocks:
                rows += block
        return rows

    @checked_keywords(StreamOptions)
    async def to_dicts(self, **options: Unpack[StreamOptions]) -> list[Row]:
        """All rows, with Python's own values: `fetch_all(typed=True)`."""
        return await self.fetch_all(typed=True, **options)

    @checked_keywords(StreamOptions)
    async def to_arrow(self, **options: Unpack[StreamOptions]) -> pa.Table:
        """All rows as a pyarrow.Table of the declared types. Values without a type in Arrow, such as JSON, are text;
        the metadata of a field have its encoding (`dualsql.encoding`).

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: dualsql-client[arrow] is not installed.
        """
        import_extra("pyarrow", "arrow")
        return await read_table(
            self._require_stream(self._meter_blocks(self._stream(ARROW, options), options))
        )

    @checked_keywords(StreamOptions)
    async def to_polars(self, **options: Unpack[StreamOptions]) -> pl.DataFrame:
        """All rows as a polars.DataFrame, with the types of `to_arrow`.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: dualsql-client[polars] is not installed.
        """
        polars = import_extra("polars", "polars")
        # Imported here, because the error of to_arrow names another extra.
        import_extra("pyarrow", "polars")
        frame: pl.DataFrame = polars.from_arrow(await self.to_arrow(**options))
        return frame

    @checked_keywords(StreamOptions)
    async def to_pandas(self, **options: Unpack[StreamOptions]) -> pd.DataFrame:
        """All rows as a pandas.DataFrame, whose columns keep the types of `to_arrow` (pandas.ArrowDtype): whole
        numbers with NULLs among them stay whole, decimals exact.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: dualsql-client[pandas] is not installed.
        """
        pandas = import_extra("pandas", "pandas")
        import_extra("pyarrow", "pandas")
        table = await self.to_arrow(**options)
        frame: pd.DataFrame = table.to_pandas(types_mapper=pandas.ArrowDtype)
        return frame

    @checked_keywords(StreamOptions)
    async def save(
        self,
        path: str | PathLike[str],
        *,
        file_format: FileFormat | None = None,
        partial: PartialFile = "discard",
        guard_formulas: bool = False,
        **options: Unpack[StreamOptions],
    ) -> Path:
        """Write all rows to a file, in the format of its suffix: `.csv`, `.tsv`, `.ndjson` or `.jsonl`, `.json` (an
        array), all of them also with `.gz` or `.zst`; `.parquet`, `.arrows` or `.arrow` (both Arrow's stream format),
        `.xlsx`, `.duckdb`, or `.sqlite`, `.sqlite3` or `.db`.

        The rows are written to a temporary file in the same folder, which replaces the file at `path` when it is
        complete. It has the bytes of the stream, without the summary record at the end; TSV, JSON and compressed files
        are written from them. A database is built from an
        Arrow stream: it has one table, named after the result (`rows` if the name is unknown). An existing file is
        not replaced by a database, since it may have other tables.

        Args:
            path: of the file; its folder must exist.
            file_format: "csv", "ndjson", "parquet", "arrow", "xlsx", "duckdb" or "sqlite", whatever the suffix.
            partial: what happens to the received rows when the download stops. "discard" deletes them. "keep" keeps
                them in a file next to `path`. "continue" does so, too, and resumes from the rows of an earlier
                download. Parquet, Excel, databases, TSV, JSON and compressed files always start again.
            guard_formulas: for CSV: put an apostrophe before cells that a spreadsheet would run as a formula.
            options: see StreamOptions.

        Returns:
            The path of the file.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            ValueError: no format has this suffix or name; the rows to continue with are of another result;
                `guard_formulas` for another format than CSV.
            FileExistsError: the file of a database exists.
            OSError: the file cannot be written.
            MissingExtraError: a database needs dualsql-client[duckdb], or dualsql-client[arrow] for SQLite.
        """
        target = Path(path)
        if guard_formulas and (database_of(target, file_format) or format_of(target, file_format) is not CSV):
            raise ValueError(
                "guard_formulas is for CSV: no other file has cells that a spreadsheet would run."
            )
        if (database := database_of(target, file_format)) is not None:
            rows = self._require_stream(self._meter_blocks(self._stream(ARROW, options), options))
            await write_database(rows, target, database, self.name or await self._fetch_name())
            return target
        stream = self._stream(format_of(target, file_format), options)
        if guard_formulas:
            stream.request["guard_formulas"] = True
        keeps = partial != "discard" and stream.format.is_resumable and not is_rewritten(target)
        partial_file = Partial(target, stream, is_continued=partial == "continue") if keeps else None
        await write(self._require_stream(self._meter_blocks(stream, options)), target, partial_file)
        return target

    async def _fetch_name(self) -> str:
        """The name from the metadata; empty with a signed link, which may allow only one request."""
        return "" if self._configured().carries_link else (await self.get_metadata()).name

    async def get_metadata(self, *, count: str | None = None) -> ResourceMetadata:
        """The current metadata of the resource.

        Args:
            count: count the rows again: "exact", "estimated", "capped:10000", or "auto". This updates `total_count`.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        query = {} if count is None else {"count": count}
        answer = await self._configured().send("GET", self.resource_uri, query=query)
        metadata = read_metadata(answer)
        self._note_expiry(answer)
        if count is not None or self.status == "pending":
            self.total_count, self.total_count_kind = metadata.total_count, metadata.total_count_kind
        self.status = status_of(metadata.status)
        return metadata

    async def wait_until_ready(
        self, timeout: float | timedelta | None = None, *, progress: bool | ProgressCallback = False
    ) -> ResourceMetadata:
        """Wait for a query that still runs, and return the metadata of the resource.

        Args:
            timeout: the longest wait, seconds or a timedelta; None for no limit.
            progress: True for a bar in the terminal, or a function that gets a `Progress`, with the number of rows that
                the server has read so far, if it keeps the rows of the result.

        Raises:
            ResourceFailedError: the query failed.
            FetchTimeoutError: the query still runs.
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._wait_while(is_pending, timeout, progress=progress)
        metadata = read_metadata(answer)
        self._note_expiry(answer)
        self.total_count, self.total_count_kind = metadata.total_count, metadata.total_count_kind
        self.status = status_of(metadata.status)
        if metadata.error is not None and self.status == "failed":
            raise query_failed(metadata.error)
        return metadata

    async def _wait_while(
        self,
        is_running: Callable[[object], bool],
        timeout: float | timedelta | None,
        *,
        progress: bool | ProgressCallback,
    ) -> Any:
        """The first metadata of the resource for which `is_running` is False."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        with Meter(self.name, progress=progress) as meter:

            async def report(answer: object) -> None:
                rows = rows_so_far(answer)
                if rows is not None:
                    await meter.report(rows, None, 0)

            transport = self._configured()
            return await wait_while(
                is_running, transport=transport, uri=self.resource_uri, seconds=seconds, report=report
            )

    async def refresh(
        self, timeout: float | timedelta | None = None, *, progress: bool | ProgressCallback = False
    ) -> ResourceMetadata:
        """Let the server run the query again and keep its rows, and wait for its end.

        Until then, requests return the old rows. Afterwards, cursors and streams of the old rows are refused.

        Args:
            timeout: the longest wait, seconds or a timedelta; None for no limit. The query continues after it.
            progress: as for `wait_until_ready`.

        Raises:
            FetchTimeoutError: the query still runs.
            ResourceFailedError: the query failed; the result is unchanged.
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._configured().send("POST", self.resource_uri, below="/refresh")
        if is_refreshing(answer):
            answer = await self._wait_while(is_refreshing, timeout, progress=progress)
        metadata = read_metadata(answer)
        self._note_expiry(answer)
        if metadata.kept is not None and "error" in metadata.kept:
            raise query_failed(metadata.kept["error"])
        self.total_count, self.total_count_kind = metadata.total_count, metadata.total_count_kind
        return metadata

    async def pin(self) -> bool:
        """Keep the resource until it is deleted. A resource that no longer exists is an error.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        await self._configured().send("PUT", self.resource_uri)
        self.expires_at = None
        return True

    async def unpin(self) -> bool:
        """Let a pinned resource expire again, one lifetime from now. Returns True, also when it was not pinned.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._configured().send("DELETE", self.resource_uri, below="/pin")
        self._note_expiry(answer)
        return True

    async def delete(self) -> bool:
        """Delete the resource. Returns False when it no longer exists.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        try:
            await self._configured().send("DELETE", self.resource_uri)
        except (ResourceNotFoundError, ResourceExpiredError):
            return False
        return True

    async def _rows(
        self, batch_size: int, options: StreamOptions, *, typed: bool, is_iterated: bool = False
    ) -> AsyncGenerator[list[Row], None]:
        if batch_size < 1:
            raise ValueError("batch_size must be at least 1.")
        transport, has_rows = self._configured(), False
        try:
            if transport.has_streams:
                text_columns = names_of(options.get("text_columns")) or ()
                stream = self._stream(NDJSON, options, is_iterated=is_iterated)
                async with aclosing(self._meter_blocks(stream, options, batch_size)) as blocks:
                    async for block in blocks:
                        has_rows, rows = True, rows_of(block)
                        if typed:
                            columns = await self._columns_of(rows)
                            decode_rows(rows, [c for c in columns if c["name"] not in text_columns])
                        yield rows
                return
        except FetchError as error:
            # Either the resource does not exist, or the server has no streams.
            if has_rows or not (error.is_unrouted or error.status == 404):
                raise
        async with aclosing(self._pages(batch_size, options, typed=typed, is_iterated=is_iterated)) as pages:
            async for page in pages:
                # Only after a page: for a missing resource the answer is 404, too.
                transport.has_streams = False
                yield page

    def _stream(
        self, form: DownloadFormat, options: StreamOptions, *, is_iterated: bool = False
    ) -> RowStream:
        return RowStream(
            transport=self._configured(),
            uri=self.resource_uri,
            format=form,
            request=rows_request(options),
            is_iterated=is_iterated,
        )

    async def _require_stream(self, blocks: AsyncGenerator[Block, None]) -> AsyncGenerator[Block, None]:
        """The blocks of a stream that pages cannot replace: without streams on the server, the error says so."""
        try:
            async with aclosing(blocks):
                async for block in blocks:
                    yield block
        except FetchError as error:
            await self._configured().require_more_than_pages(self.resource_uri, error, is_below=True)
            raise

    async def _meter_blocks(
        self, stream: RowStream, options: StreamOptions, batch_size: int | None = None
    ) -> AsyncGenerator[Block, None]:
        with self._meter(options, batch_size) as meter:
            try:
                async with self.kept_alive(), aclosing(stream.blocks()) as blocks:
                    async for block in blocks:
                        await meter.report(stream.rows, stream.total, stream.bytes)
                        yield block
            except FetchError:
                await meter.finish()
                raise
            await meter.finish()

    async def _pages(
        self, batch_size: int, options: StreamOptions, *, typed: bool, is_iterated: bool
    ) -> AsyncGenerator[list[Row], None]:
        if options.get("text_columns"):
            raise FetchError(
                "The server has no streams, and its pages have no text_columns.",
                hint="Leave text_columns out, and write the values as text yourself.",
            )
        offset: int | None = 0
        most = options.get("limit")
        budget = self._configured().budget()
        with self._meter(options) as meter:
            async with self.kept_alive():
                while offset is not None and offset != most:
                    size = batch_size if most is None else min(batch_size, most - offset)
                    request = page_body(PageBody(offset=offset), size, options.get("sort"))
                    page = await self._page(request, typed=typed, budget=budget)
                    offset = page.next_offset
                    total = exact_total(page)
                    total = total if total is None or most is None else min(total, most)
                    await meter.report(page.offset + len(page.data), total, 0)
                    if offset is not None:
                        budget.page(len(page.data), exact_total(page))
                    with budget.paused() if is_iterated else nullcontext():
                        yield with_columns(page.data, names_of(options.get("columns")))

    async def _fetch(
        self,
        request: PageBody,
        columns: Sequence[str] | None,
        filters: Filters | None,
        *,
        typed: bool,
        budget: Budget | None = None,
    ) -> FetchResult:
        """A page of the rows, or with columns or filters, of the answer to a query."""
        if columns is None and filters is None:
            return await self._page(request, typed=typed, budget=budget, waits=True)
        return await self._post(
            "query", narrowing_body(request, columns, filters), typed=typed, budget=budget
        )

    async def _page(
        self, request: PageBody, *, typed: bool, budget: Budget | None = None, waits: bool = False
    ) -> FetchResult:
        transport = self._configured()
        answer = await transport.page(self.resource_uri, request, budget=budget, waits=waits)
        page = read_page(answer, offset=request.get("offset"), columns=self.columns, typed=typed)
        require_confirmed(page, request)
        self._note_expiry(answer)
        return page

    async def _columns_of(self, rows: Sequence[Row]) -> list[Column]:
        # A tool result of very many columns names only the first.
        if not self.columns or (rows and len(rows[0].keys() - {UNFIT_KEY}) > len(self.columns)):
            self.columns = (await self.get_metadata()).columns
        return self.columns

    def _meter(self, options: StreamOptions, batch_size: int | None = None) -> Meter:
        return Meter(self.name, progress=options.get("progress", False), batch_size=batch_size)

    def _note_expiry(self, answer: Mapping[str, Any]) -> None:
        if "expires_at" in answer:
            self.expires_at = read_instant(answer["expires_at"])

    def _configured(self) -> Transport:
        if self._transport is not None:
            return self._transport
        if self._has_origins and self.resource_url is not None:
            host = describe_host(self.resource_url)
            raise UntrustedOriginError(
                f"The tool result says that its rows are at {host}, which was not configured.",
                hint="If that is right, give its address to the client: origins=['https://...'].",
            )
        raise NotConfiguredError("The client has no base_url, and fetches only from configured addresses.")


def status_of(status: str) -> Literal["pending", "ready", "failed"]:
    """The status of a resource's rows, from that of the resource."""
    return "pending" if status == "pending" else "failed" if status == "failed" else "ready"
