"""A dual response in the hands of code that waits. Written by scripts/make_sync_client.py."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typing_extensions import Unpack

from dualsql_client.answers import FetchResult, ResourceMetadata
from dualsql_client.formats import FileFormat
from dualsql_client.keywords import checked_keywords
from dualsql_client.parsed import ParsedDualResponse
from dualsql_client.portal import Portal
from dualsql_client.preview import TerminalPreview
from dualsql_client.progress import ProgressCallback
from dualsql_client.query import Filters, Question, Sort, StreamOptions, Value
from dualsql_client.streaming import PartialFile
from dualsql_client.wire import Column, Profile, ProfileKind, Row, TotalCountKind

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class SyncParsedDualResponse:
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

    def __init__(self, portal: Portal, parsed: ParsedDualResponse) -> None:
        self._portal = portal
        self._parsed = parsed

    def __repr__(self) -> str:
        return f"Sync{self._parsed!r}"

    @property
    def name(self) -> str:
        return self._parsed.name

    @property
    def sample(self) -> list[Row]:
        return self._parsed.sample

    @property
    def total_count(self) -> int | None:
        return self._parsed.total_count

    @property
    def total_count_kind(self) -> TotalCountKind:
        return self._parsed.total_count_kind

    @property
    def resource_uri(self) -> str:
        return self._parsed.resource_uri

    @property
    def resource_url(self) -> str | None:
        return self._parsed.resource_url

    @property
    def columns(self) -> list[Column]:
        return self._parsed.columns

    @property
    def executed_at(self) -> datetime | None:
        return self._parsed.executed_at

    @property
    def expires_at(self) -> datetime | None:
        return self._parsed.expires_at

    @property
    def status(self) -> Literal["pending", "ready", "failed"]:
        return self._parsed.status

    @checked_keywords(Question)
    def query(
        self,
        *,
        offset: int = 0,
        limit: int | None = None,
        cursor: str | None = None,
        typed: bool = False,
        **question: Unpack[Question],
    ) -> FetchResult:
        """One page of the answer to a query; the other arguments are those of `fetch`.

        Args:
            question: see Question.

        Raises:
            FetchError: see `dualsql_client.errors`; status 422 for an unknown column, 400 for a query that its
                column does not allow.
        """
        return self._portal.call(
            self._parsed.query, offset=offset, limit=limit, cursor=cursor, typed=typed, **question
        )

    @checked_keywords(Question)
    def query_all(
        self, *, page_size: int | None = None, typed: bool = False, **question: Unpack[Question]
    ) -> list[Row]:
        """Every row of the answer, read page by page.

        Args:
            page_size: rows of a page; None for the server's default.

        Raises:
            FetchError: see `query`.
        """
        return self._portal.call(self._parsed.query_all, page_size=page_size, typed=typed, **question)

    def sql(
        self,
        sql: str,
        *,
        parameters: Mapping[str, Value | None] | None = None,
        offset: int = 0,
        limit: int | None = None,
        cursor: str | None = None,
        typed: bool = False,
    ) -> FetchResult:
        """One page of a SELECT over the relation `data`, which is this result.

        Args:
            parameters: values of `:name` in the text, in the encoding of results: dates and decimals are texts.

        Raises:
            FetchError: see `dualsql_client.errors`; status 403 if the text reads more than this result.
        """
        return self._portal.call(
            self._parsed.sql,
            sql,
            parameters=parameters,
            offset=offset,
            limit=limit,
            cursor=cursor,
            typed=typed,
        )

    def sql_all(
        self,
        sql: str,
        *,
        parameters: Mapping[str, Value | None] | None = None,
        page_size: int | None = None,
        typed: bool = False,
    ) -> list[Row]:
        """Every row of a SELECT over the relation `data`, read page by page.

        Args:
            page_size: rows of a page; None for the server's default.

        Raises:
            FetchError: see `sql`.
        """
        return self._portal.call(
            self._parsed.sql_all, sql, parameters=parameters, page_size=page_size, typed=typed
        )

    def profile(
        self,
        kind: ProfileKind = "sample",
        *,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> Profile:
        """Statistics of the columns: of the first rows, or with "full" of all rows.

        Args:
            columns: names of columns; None for all.
            filters: which rows, as for `query`.

        Raises:
            FetchError: see `query`. Statistics that were not ready in time are no error: `missing` lists them.
        """
        return self._portal.call(self._parsed.profile, kind, columns=columns, filters=filters)

    @checked_keywords(Question)
    def refine(
        self,
        *,
        name: str = "Refined",
        limit: int | None = None,
        offset: int = 0,
        **question: Unpack[Question],
    ) -> SyncParsedDualResponse:
        """Create a new result from a query. It has its own link and lifetime, and can be queried again.

        Args:
            limit, offset: the rows of the answer to include.

        Raises:
            FetchError: see `query`; status 413 if the result was refined too often or too deeply.
        """
        return SyncParsedDualResponse(
            self._portal,
            self._portal.call(self._parsed.refine, name=name, limit=limit, offset=offset, **question),
        )

    def is_expired(self) -> bool:
        """Whether the resource has expired, by the server's clock once it has answered, else by this computer's."""
        return self._parsed.is_expired()

    def time_left(self) -> timedelta | None:
        """The time until the resource expires, by the clock of `is_expired`; None if it is pinned or unknown."""
        return self._parsed.time_left()

    def kept_alive(self) -> AbstractContextManager[None]:
        """Keep the resource from expiring while it is read page by page: `with parsed.kept_alive(): ...`.

        This works if the server's lifetimes slide. The methods that read all rows include it.
        """
        return self._portal.within(self._parsed.kept_alive())

    def _repr_html_(self) -> str:
        return self._parsed._repr_html_()

    def __rich__(self) -> TerminalPreview:
        return self._parsed.__rich__()

    def fetch(
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
        return self._portal.call(
            self._parsed.fetch,
            offset=offset,
            limit=limit,
            sort=sort,
            typed=typed,
            cursor=cursor,
            columns=columns,
            filters=filters,
        )

    def pages(
        self,
        *,
        limit: int | None = None,
        sort: Sort | None = None,
        typed: bool = False,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> Generator[FetchResult, None, None]:
        """All pages in order, each by the cursor of the last. The arguments are those of `fetch`.

        Concurrent inserts and deletes never duplicate or drop other rows. `fetch_stream` is faster.

        Raises:
            FetchError, ParseError: see `fetch`.
        """
        return self._portal.each(
            self._parsed.pages, limit=limit, sort=sort, typed=typed, columns=columns, filters=filters
        )

    @checked_keywords(StreamOptions)
    def fetch_stream(
        self, *, batch_size: int = 500, typed: bool = False, **options: Unpack[StreamOptions]
    ) -> Generator[list[Row], None, None]:
        """All rows in order, in batches of `batch_size`, of which only a few are in memory at once.

        They arrive as one stream, which resumes after a broken connection; from a server without streams, as pages.

        Args:
            options: see StreamOptions.

        Raises:
            StreamBrokenError: the stream broke and could not resume.
            FetchError, ParseError: see `fetch`.
        """
        return self._portal.each(self._parsed.fetch_stream, batch_size=batch_size, typed=typed, **options)

    @checked_keywords(StreamOptions)
    def fetch_all(
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
        return self._portal.call(self._parsed.fetch_all, batch_size=batch_size, typed=typed, **options)

    @checked_keywords(StreamOptions)
    def to_dicts(self, **options: Unpack[StreamOptions]) -> list[Row]:
        """All rows, with Python's own values: `fetch_all(typed=True)`."""
        return self._portal.call(self._parsed.to_dicts, **options)

    @checked_keywords(StreamOptions)
    def to_arrow(self, **options: Unpack[StreamOptions]) -> pa.Table:
        """All rows as a pyarrow.Table of the declared types. Values without a type in Arrow, such as JSON, are text;
        the metadata of a field have its encoding (`dualsql.encoding`).

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: dualsql-client[arrow] is not installed.
        """
        return self._portal.call(self._parsed.to_arrow, **options)

    @checked_keywords(StreamOptions)
    def to_polars(self, **options: Unpack[StreamOptions]) -> pl.DataFrame:
        """All rows as a polars.DataFrame, with the types of `to_arrow`.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: dualsql-client[polars] is not installed.
        """
        return self._portal.call(self._parsed.to_polars, **options)

    @checked_keywords(StreamOptions)
    def to_pandas(self, **options: Unpack[StreamOptions]) -> pd.DataFrame:
        """All rows as a pandas.DataFrame, whose columns keep the types of `to_arrow` (pandas.ArrowDtype): whole
        numbers with NULLs among them stay whole, decimals exact.

        Raises:
            StreamBrokenError, FetchError, ParseError: see `fetch_stream`.
            MissingExtraError: dualsql-client[pandas] is not installed.
        """
        return self._portal.call(self._parsed.to_pandas, **options)

    @checked_keywords(StreamOptions)
    def save(
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
        return self._portal.call(
            self._parsed.save,
            path,
            file_format=file_format,
            partial=partial,
            guard_formulas=guard_formulas,
            **options,
        )

    def get_metadata(self, *, count: str | None = None) -> ResourceMetadata:
        """The current metadata of the resource.

        Args:
            count: count the rows again: "exact", "estimated", "capped:10000", or "auto". This updates `total_count`.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        return self._portal.call(self._parsed.get_metadata, count=count)

    def wait_until_ready(
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
        return self._portal.call(self._parsed.wait_until_ready, timeout, progress=progress)

    def refresh(
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
        return self._portal.call(self._parsed.refresh, timeout, progress=progress)

    def pin(self) -> bool:
        """Keep the resource until it is deleted. A resource that no longer exists is an error.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        return self._portal.call(self._parsed.pin)

    def unpin(self) -> bool:
        """Let a pinned resource expire again, one lifetime from now. Returns True, also when it was not pinned.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        return self._portal.call(self._parsed.unpin)

    def delete(self) -> bool:
        """Delete the resource. Returns False when it no longer exists.

        Raises:
            FetchError: see `dualsql_client.errors`.
        """
        return self._portal.call(self._parsed.delete)
