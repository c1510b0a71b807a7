"""Asking a result instead of fetching it; the rule: the database answers over all rows, and sends the answer alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import Unpack

from dualsql_client import detect
from dualsql_client.answers import FetchResult, read_page
from dualsql_client.errors import FetchError
from dualsql_client.figures import Profile, ProfileKind
from dualsql_client.keywords import checked_keywords
from dualsql_client.questions import Question, plain_question
from dualsql_client.transport import Allowance, Transport
from dualsql_client.wire import Column, Row

if TYPE_CHECKING:
    from dualsql_client.parsed import ParsedDualResponse


class Asking:
    """What a dual response can be asked."""

    __slots__ = ()

    resource_uri: str
    columns: list[Column]

    @checked_keywords(Question)
    async def query(
        self,
        *,
        offset: int = 0,
        limit: int | None = None,
        cursor: str | None = None,
        typed: bool = False,
        **question: Unpack[Question],
    ) -> FetchResult:
        """One page of the answer to a question; the other arguments are those of `fetch`.

        Args:
            question: see Question.

        Raises:
            FetchError: see `dualsql_client.errors`; status 422 names a column that is not there, 400 what cannot be
                asked of one.
        """
        window = _window(offset, limit, cursor)
        return await self._asked("query", {**plain_question(question), **window}, typed=typed)

    @checked_keywords(Question)
    async def query_all(
        self, *, page_size: int | None = None, typed: bool = False, **question: Unpack[Question]
    ) -> list[Row]:
        """Every row of the answer, read page by page.

        Args:
            page_size: rows of a page; None for the server's default.

        Raises what `query` raises.
        """
        return await self._all_asked("query", plain_question(question), page_size, typed=typed)

    async def sql(
        self,
        sql: str,
        *,
        parameters: Mapping[str, str | int | float | bool | None] | None = None,
        offset: int = 0,
        limit: int | None = None,
        cursor: str | None = None,
        typed: bool = False,
    ) -> FetchResult:
        """One page of what a SELECT over the relation `data` gives, which is this result.

        Args:
            parameters: values of `:name` in the text.

        Raises:
            FetchError: see `dualsql_client.errors`; status 403 for what is more than a question about this result.
        """
        window = _window(offset, limit, cursor)
        asked = {"sql": sql, "parameters": dict(parameters or {}), **window}
        return await self._asked("sql", asked, typed=typed)

    async def sql_all(
        self,
        sql: str,
        *,
        parameters: Mapping[str, str | int | float | bool | None] | None = None,
        page_size: int | None = None,
        typed: bool = False,
    ) -> list[Row]:
        """Every row that a SELECT over the relation `data` gives, read page by page.

        Args:
            page_size: rows of a page; None for the server's default.

        Raises what `sql` raises.
        """
        asked = {"sql": sql, "parameters": dict(parameters or {})}
        return await self._all_asked("sql", asked, page_size, typed=typed)

    async def profile(self, kind: ProfileKind = "sample", *, columns: Sequence[str] | None = None) -> Profile:
        """What its columns are like: of the first rows, or with "full" of all of them.

        Args:
            columns: those that are looked at; None for all.

        Raises:
            FetchError: see `query`. Figures that there was no time for are no error, but `missing`.
        """
        asked = {"kind": kind} | ({} if columns is None else {"columns": ",".join(columns)})
        found = await self._configured().send("GET", self.resource_uri, query=asked, below="/profile")
        if not isinstance(found, dict) or "columns" not in found:
            raise FetchError("The server's answer is no profile.")
        return cast("Profile", found)

    @checked_keywords(Question)
    async def refine(
        self,
        *,
        name: str = "Refined",
        limit: int | None = None,
        offset: int = 0,
        **question: Unpack[Question],
    ) -> ParsedDualResponse:
        """A new result, made of the answer to a question: it has a link and a life of its own, and can be asked again.

        Args:
            limit, offset: which rows of the answer are kept.

        Raises:
            FetchError: see `query`; status 413 when it was refined too often or too deeply.
        """
        kept: dict[str, Any] = {"offset": offset} | ({} if limit is None else {"limit": limit})
        body = {**plain_question(question), **kept, "name": name}
        answer = await self._configured().send("POST", self.resource_uri, body, below="/refine")
        found = detect.read_structure(answer)
        if found is None:
            raise FetchError("The server's answer is no dual response.")
        return replace(
            cast("ParsedDualResponse", self),
            name=found.name,
            sample=found.sample or [],
            total_count=found.total_count,
            total_count_kind=found.total_count_kind,
            resource_uri=found.uri,
            resource_url=self._configured().url_of(found.uri),
            columns=found.columns,
            executed_at=found.executed_at,
            expires_at=found.expires_at,
            status="ready",
        )

    async def _asked(
        self, what: str, body: Mapping[str, Any], *, typed: bool, allowance: Allowance | None = None
    ) -> FetchResult:
        transport = self._configured()
        answer = await transport.send("POST", self.resource_uri, body, below=f"/{what}", allowance=allowance)
        return read_page(answer, offset=body.get("offset"), known_columns=(), typed=typed)

    async def _all_asked(
        self, what: str, body: Mapping[str, Any], page_size: int | None, *, typed: bool
    ) -> list[Row]:
        """The rows of all pages, each beside the one before where the server gives cursors."""
        rows: list[Row] = []
        allowance = Allowance(self._configured().maximum_stream_bytes)
        cursors: set[str] = set()
        cursor: str | None = None
        while True:
            window = _window(0 if cursor else len(rows), page_size, cursor)
            page = await self._asked(what, {**body, **window}, typed=typed, allowance=allowance)
            rows += page.data
            cursor = page.next_cursor
            if not page.has_next:
                return rows
            if cursor in cursors:
                raise FetchError("The server gives the same page again and again.", status=200)
            if cursor is not None:
                cursors.add(cursor)

    def _configured(self) -> Transport:
        raise NotImplementedError


def _window(offset: int, limit: int | None, cursor: str | None) -> dict[str, Any]:
    if cursor is not None and offset:
        raise ValueError("Give a cursor or an offset: they are two ways to say one thing.")
    found: dict[str, Any] = {"offset": offset} if cursor is None else {"cursor": cursor}
    return found if limit is None else {**found, "limit": limit}
