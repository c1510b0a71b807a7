"""A dual response in the application. It fetches pages, streams, tables and files of the rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
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
    is_refreshing,
    read_metadata,
    read_page,
    rows_so_far,
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
    checked_keywords,
    failed_with,
    needed,
)
from dualsql_client.formats import ARROW, CSV, NDJSON, DownloadFormat, FileFormat
from dualsql_client.framing import Block
from dualsql_client.lifetimes import kept_alive
from dualsql_client.ndjson import decode_rows, rows_of
from dualsql_client.origins import described
from dualsql_client.preview import html, preview, rich_group
from dualsql_client.progress import Meter, Tell
from dualsql_client.query import QueryMethods, Sort, StreamOptions, page_at, page_request, rows_request
from dualsql_client.streaming import Partial, PartialFile, RowStream, format_of, read_table, write
from dualsql_client.transport import Transport, wait_until_settled
from dualsql_client.wire import Column, PageBody, Row, TotalCountKind

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from rich.console import Group


@dataclass(slots=True, kw_only=True, eq=False)
class ParsedDualResponse(QueryMethods):
    """The sample a model saw, and the way to every row.

    Attributes:
        sample: the rows in the tool result, as JSON has them; empty when it held only a link.
        total_count: all rows of the result; None when the server did not count them.
        total_count_kind: "exact", "estimated", "capped" (a lower bound), or "none".
        resource_uri: the resource as the tool result names it, such as `resource://abc123`.
        resource_url: where the rows are fetched: `base_url` and the resource's id. Without a `base_url` it is
            what the tool result says, untrusted and never fetched.
        columns: of the sample; a page brings its own. Empty when only a link was found.
        executed_at: when the query ran, if the tool result says so; dualsql's do not, and `get_metadata` does.
        expires_at: when the resource expires, brought up to date by every page and by `pin`; None for a
            pinned one, or when it is not known.
        status: "pending" while the query still runs, then "ready" or "failed"; as it was last heard of.
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
        return (left := self.time_left()) is not None and left <= timedelta()

    def time_left(self) -> timedelta | None:
        """Until it expires, as `is_expired` sees it; None for a pinned one, or when it is not known."""
        if self.expires_at is None:
            return None
        return self.expires_at - (self._transport.clock.now() if self._transport else datetime.now(UTC))

    def kept_alive(self) -> AbstractAsyncContextManager[None]:
        """Keep the resource from expiring while it is read page by page: `async with parsed.kept_alive(): ...`.

        This works if the server's lifetimes slide. The methods that read all rows do it themselves.
        """
        return kept_alive(partial(self.fetch, limit=1), self.time_left)

    def _repr_html_(self) -> str:
        return html(preview(self, is_configured=self._transport is not None))

    def __rich__(self) -> Group:
        return rich_group(preview(self, is_configured=self._transport is not None))

    async def fetch(
        self,
        *,
        offset: int = 0,
        limit: int | None = None,
        sort: Sort | None = None,
        typed: bool = False,
        cursor: str | None = None,
    ) -> FetchResult:
        """Fetch one page.

        Args:
            offset: position of its first row, from 0.
            limit: the most rows it may have; None for the server's default.
            sort: the order, the first key decides first: "-enrollment,name", where `-` is descending, or
                `{"field": "enrollment", "order": "desc"}`, or several keys.
            typed: values as Decimal, datetime, date, time, timedelta, UUID and bytes instead of JSON's.
            cursor: `next_cursor` or `previous_cursor` of a page, in place of an offset; with the same sort.

        Raises:
            NotConfiguredError: the client has no `base_url`.
            FetchError: see `dualsql_client.errors`.
            ParseError: with `typed`, a value is not what its column says.
        """
        start = PageBody(offset=offset) if cursor is None else page_at(cursor, offset)
        return await self._page(page_request(start, limit, sort), typed=typed)

    @checked_keywords(StreamOptions)
    async def fetch_stream(
        self, *, batch_size: int = 500, typed: bool = False, **options: Unpack[StreamOptions]
    ) -> AsyncGenerator[list[Row], None]:
        """All rows in order, in batches of `batch_size`; no more than a few of them are held at once.

        They come as one stream, which resumes where its connection breaks; from a server that has no
        streams, as pages.

        Args:
            options: see StreamOptions.

        Raises:
            StreamBrokenError: the stream broke and could not resume.
            FetchError, ParseError: see `fetch`.
        """
        held: list[Row] = []
        async with aclosing(self._rows(batch_size, options, typed=typed, is_iterated=True)) as blocks:
            async for rows in blocks:
                held += rows
                # Cut off once for each block: to remove each batch from the start would move the rest each time.
                whole = len(held) - len(held) % batch_size
                for start in range(0, whole, batch_size):
                    yield held[start : start + batch_size]
                held = held[whole:]
        if held:
            yield held

    @checked_keywords(StreamOptions)
    async def fetch_all(
        self, *, batch_size: int = 500, typed: bool = False, **options: Unpack[StreamOptions]
    ) -> list[Row]:
        """All rows in one list; `fetch_stream` is for results that do not fit in memory.

        Args:
            batch_size: rows of a page, from a server that has no streams.
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
        """All rows as a pyarrow.Table of the declared types. JSON, and what else Arrow has no type for, is text; each
        field says in its metadata (`dualsql.encoding`) how that is written.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: it needs dualsql-client[arrow].
        """
        needed("pyarrow", "arrow")
        return await read_table(self._required(self._metered(self._stream(ARROW, options), options)))

    @checked_keywords(StreamOptions)
    async def to_polars(self, **options: Unpack[StreamOptions]) -> pl.DataFrame:
        """All rows as a polars.DataFrame, with the types of `to_arrow`.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: it needs dualsql-client[polars].
        """
        polars = needed("polars", "polars")
        # Asked for here, because to_arrow would name its own extra.
        needed("pyarrow", "polars")
        frame: pl.DataFrame = polars.from_arrow(await self.to_arrow(**options))
        return frame

    @checked_keywords(StreamOptions)
    async def to_pandas(self, **options: Unpack[StreamOptions]) -> pd.DataFrame:
        """All rows as a pandas.DataFrame, whose columns keep the types of `to_arrow` (pandas.ArrowDtype): whole
        numbers with NULLs among them stay whole, decimals exact.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: it needs dualsql-client[pandas].
        """
        pandas = needed("pandas", "pandas")
        needed("pyarrow", "pandas")
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
        """Write all rows to a file, in the format that its suffix names: `.csv`, `.ndjson` or `.jsonl`, `.parquet`,
        `.arrows` or `.arrow` (both Arrow's stream format), `.xlsx`, `.duckdb`, or `.sqlite`, `.sqlite3` or `.db`.

        It is written beside, under another name, and replaces what is at `path` once it is whole. It holds the bytes
        of the stream, without the record at its end that counts the rows. A database is made of an Arrow stream: it
        has one table, named after the result (`rows`, where its name is not known), and an existing file is refused,
        since it may have others.

        Args:
            path: of the file; its folder must exist.
            file_format: "csv", "ndjson", "parquet", "arrow", "xlsx", "duckdb" or "sqlite", whatever the suffix.
            partial: what becomes of the rows that came when the download stops. "discard" deletes them. "keep" leaves
                them beside the file. "continue" does so too, and goes on with those that are there. Parquet, Excel
                and databases have no rows before their end: they begin anew.
            guard_formulas: of CSV: cells that a spreadsheet would run as a formula get an apostrophe before them.
            options: see StreamOptions.

        Returns:
            The path of the file.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            ValueError: no format has that suffix, or that name; what is there is of another result;
                `guard_formulas` for another format than CSV.
            FileExistsError: there is a file where a database is to be.
            OSError: the file cannot be written.
            MissingExtraError: a database needs dualsql-client[duckdb], or dualsql-client[arrow] for SQLite.
        """
        target = Path(path)
        if guard_formulas and (database_of(target, file_format) or format_of(target, file_format) is not CSV):
            raise ValueError(
                "guard_formulas is for CSV: no other file has cells that a spreadsheet would run."
            )
        if (database := database_of(target, file_format)) is not None:
            rows = self._required(self._metered(self._stream(ARROW, options), options))
            await write_database(rows, target, database, self.name or await self._told_name())
            return target
        stream = self._stream(format_of(target, file_format), options)
        if guard_formulas:
            stream.request["guard_formulas"] = True
        keeps = partial != "discard" and stream.format.is_resumable
        kept = Partial(target, stream, is_continued=partial == "continue") if keeps else None
        await write(self._required(self._metered(stream, options)), target, kept)
        return target

    async def _told_name(self) -> str:
        """The name as the server says it. A signed link is not asked: it may allow one request."""
        return "" if self._configured().carries_link else (await self.get_metadata()).name

    async def get_metadata(self, *, count: str | None = None) -> ResourceMetadata:
        """The current metadata of the resource.

        Args:
            count: count the rows anew: "exact", "estimated", "capped:10000", or "auto". `total_count` follows.

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
        self, timeout: float | timedelta | None = None, *, progress: bool | Tell = False
    ) -> ResourceMetadata:
        """Wait for a query that still runs, and return the metadata of the resource.

        Args:
            timeout: for how long, seconds or a timedelta; None for as long as it takes.
            progress: True for a bar in the terminal, or a function that gets a `Progress`, with the rows that the
                server has read of a result whose rows it keeps.

        Raises:
            ResourceFailedError: the query failed.
            FetchTimeoutError: it still runs.
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._settled(is_pending, timeout, progress=progress)
        metadata = read_metadata(answer)
        self._note_expiry(answer)
        self.total_count, self.total_count_kind = metadata.total_count, metadata.total_count_kind
        self.status = status_of(metadata.status)
        if metadata.error is not None and self.status == "failed":
            raise failed_with(metadata.error)
        return metadata

    async def _settled(
        self, waits: Callable[[object], bool], timeout: float | timedelta | None, *, progress: bool | Tell
    ) -> Any:
        """The metadata of the resource once they no longer say what one `waits` for the end of."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        with Meter(self.name, on_progress=None, progress=progress) as meter:

            async def heard(answer: object) -> None:
                rows = rows_so_far(answer)
                if rows is not None:
                    await meter.report(rows, None, 0)

            configured = self._configured()
            return await wait_until_settled(configured, self.resource_uri, seconds, waits=waits, heard=heard)

    async def refresh(
        self, timeout: float | timedelta | None = None, *, progress: bool | Tell = False
    ) -> ResourceMetadata:
        """Let the server run the query again and keep its rows, and wait until it has.

        Until then, the old rows are read. Cursors and streams of the old rows are refused afterwards.

        Args:
            timeout: for how long, seconds or a timedelta; None for as long as it takes. The query goes on after it.
            progress: as for `wait_until_ready`.

        Raises:
            FetchTimeoutError: it still runs.
            ResourceFailedError: the query failed; the result is as it was.
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._configured().send("POST", self.resource_uri, below="/refresh")
        if is_refreshing(answer):
            answer = await self._settled(is_refreshing, timeout, progress=progress)
        metadata = read_metadata(answer)
        self._note_expiry(answer)
        if metadata.kept is not None and "error" in metadata.kept:
            raise failed_with(metadata.kept["error"])
        self.total_count, self.total_count_kind = metadata.total_count, metadata.total_count_kind
        return metadata

    async def pin(self) -> bool:
        """Keep the resource until it is deleted. A resource that is gone already is an error.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        await self._configured().send("PUT", self.resource_uri)
        self.expires_at = None
        return True

    async def unpin(self) -> bool:
        """Let a pinned resource expire again, one lifetime from now; True, too, when it was not pinned.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        answer = await self._configured().send("DELETE", self.resource_uri, below="/pin")
        self._note_expiry(answer)
        return True

    async def delete(self) -> bool:
        """Delete the resource; False when it was gone already.

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
        transport, has_begun = self._configured(), False
        try:
            if transport.has_streams:
                texts = options.get("text_columns", ())
                stream = self._stream(NDJSON, options, is_iterated=is_iterated)
                async with aclosing(self._metered(stream, options, batch_size)) as blocks:
                    async for block in blocks:
                        has_begun, rows = True, rows_of(block)
                        if typed:
                            decoded = [c for c in await self._known_columns() if c["name"] not in texts]
                            decode_rows(rows, decoded)
                        yield rows
                return
        except FetchError as error:
            # Either there is no such resource, or a server older than streams does not know the address.
            if has_begun or not (error.is_unrouted or error.status == 404):
                raise
        async with aclosing(self._pages(batch_size, options, typed=typed, is_iterated=is_iterated)) as pages:
            async for page in pages:
                # Only now: a resource that is gone answers 404 as well.
                transport.has_streams = False
                yield page

    def _stream(
        self, wanted: DownloadFormat, options: StreamOptions, *, is_iterated: bool = False
    ) -> RowStream:
        return RowStream(
            transport=self._configured(),
            uri=self.resource_uri,
            format=wanted,
            request=rows_request(options),
            is_iterated=is_iterated,
        )

    async def _required(self, blocks: AsyncGenerator[Block, None]) -> AsyncGenerator[Block, None]:
        """The blocks of a stream that nothing can replace: an error says so if the server has no streams."""
        try:
            async with aclosing(blocks):
                async for block in blocks:
                    yield block
        except FetchError as error:
            await self._configured().require_more_than_pages(self.resource_uri, error)
            raise

    async def _metered(
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
        offset: int | None = 0
        columns, most = options.get("columns"), options.get("limit")
        budget = self._configured().budget()
        with self._meter(options) as meter:
            async with self.kept_alive():
                while offset is not None and offset != most:
                    size = batch_size if most is None else min(batch_size, most - offset)
                    asked = page_request(PageBody(offset=offset), size, options.get("sort"))
                    page = await self._page(asked, typed=typed, budget=budget)
                    offset = page.next_offset
                    await meter.report(page.offset + len(page.data), page.total_count, 0)
                    if offset is not None:
                        budget.page(len(page.data), exact_total(page))
                    with budget.paused() if is_iterated else nullcontext():
                        yield (
                            page.data
                            if columns is None
                            else [{n: row[n] for n in columns} for row in page.data]
                        )

    async def _page(self, asked: PageBody, *, typed: bool, budget: Budget | None = None) -> FetchResult:
        transport = self._configured()
        answer = await transport.page(self.resource_uri, asked, budget=budget)
        page = read_page(answer, offset=asked.get("offset"), known_columns=self.columns, typed=typed)
        self._note_expiry(answer)
        return page

    async def _known_columns(self) -> list[Column]:
        if not self.columns:
            self.columns = (await self.get_metadata()).columns
        return self.columns

    def _meter(self, options: StreamOptions, batch_size: int | None = None) -> Meter:
        return Meter(
            self.name,
            on_progress=options.get("on_progress"),
            progress=options.get("progress", False),
            batch_size=batch_size,
        )

    def _note_expiry(self, answer: Mapping[str, Any]) -> None:
        if "expires_at" in answer:
            self.expires_at = read_instant(answer["expires_at"])

    def _configured(self) -> Transport:
        if self._transport is not None:
            return self._transport
        if self._has_origins and self.resource_url is not None:
            raise UntrustedOriginError(
                f"The tool result says that its rows are at {described(self.resource_url)}, which was not configured.",
                hint="If that is right, give its address to the client: origins=['https://...'].",
            )
        raise NotConfiguredError("The client has no base_url, and fetches only from configured addresses.")


def status_of(said: str) -> Literal["pending", "ready", "failed"]:
    """A server's word for the status of a resource, as far as its rows are concerned."""
    return "pending" if said == "pending" else "failed" if said == "failed" else "ready"
