"""Queries over a result, and the bodies of their requests."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NotRequired, cast
from uuid import UUID

from typing_extensions import TypedDict, Unpack

from dualsql_client import detect
from dualsql_client.answers import FetchResult, exact_total, read_page, require_confirmed
from dualsql_client.budget import Budget
from dualsql_client.errors import FetchError
from dualsql_client.keywords import checked_keywords
from dualsql_client.progress import ProgressCallback
from dualsql_client.transport import Transport
from dualsql_client.wire import Column, Profile, ProfileKind, Row, SortKey
from dualsql_client.wire_requests import Bucket, Operator, PageBody, RowsBody

if TYPE_CHECKING:
    from dualsql_client.parsed import ParsedDualResponse


Sort = str | SortKey | Sequence[str | SortKey]
"""An order: "-enrollment,name", {"field": "enrollment", "order": "desc"}, or several keys; the first decides first."""

Value = str | int | float | bool | Decimal | date | datetime | time | timedelta | UUID | bytes
"""A value to compare a column with."""

Group = TypedDict("Group", {"column": str, "bucket": NotRequired[Bucket], "as": NotRequired[str]})
"""A column that rows are grouped by; dates may be cut to a bucket."""

Aggregate = TypedDict(
    "Aggregate",
    {
        "function": str,
        "column": NotRequired[str],
        "fraction": NotRequired[float],
        "as": NotRequired[str],
    },
)
"""An aggregate of each group: {"function": "median", "column": "tuition"}; `fraction` is a percentile's.

The server has the list of functions, and names them in the error for another function.
"""


class OrderKey(TypedDict):
    """One key of an order; NULLs come last in both directions."""

    column: str
    order: NotRequired[Literal["asc", "desc"]]


class Condition:
    """A condition on rows. `&` and `|` combine conditions, `~` negates one.

    where("state").one_of(["NJ", "NY"]) & ~where("founded").lt(date(1900, 1, 1))
    """

    __slots__ = ("_json",)

    def __init__(self, json: Mapping[str, Any]) -> None:
        self._json = dict(json)

    def __and__(self, other: Condition) -> Condition:
        return Condition({"and": [self._json, other._json]})

    def __or__(self, other: Condition) -> Condition:
        return Condition({"or": [self._json, other._json]})

    def __invert__(self) -> Condition:
        return Condition({"not": self._json})

    def __repr__(self) -> str:
        return f"Condition({self._json!r})"

    def to_json(self) -> dict[str, Any]:
        """The condition as JSON, for a request."""
        return self._json


class Compared:
    """A column to compare; see `where`."""

    __slots__ = ("_column",)

    def __init__(self, column: str) -> None:
        self._column = column

    def eq(self, value: Value) -> Condition:
        """Equal; texts are compared character by character."""
        return self._condition("eq", value)

    def ne(self, value: Value) -> Condition:
        """Not equal; NULLs do not match."""
        return self._condition("ne", value)

    def lt(self, value: Value) -> Condition:
        """Below."""
        return self._condition("lt", value)

    def le(self, value: Value) -> Condition:
        """Below, or equal."""
        return self._condition("le", value)

    def gt(self, value: Value) -> Condition:
        """Above."""
        return self._condition("gt", value)

    def ge(self, value: Value) -> Condition:
        """Above, or equal."""
        return self._condition("ge", value)

    def one_of(self, values: Iterable[Value]) -> Condition:
        """Equal to one of them."""
        return self._condition("in", list(values))

    def between(self, least: Value, most: Value) -> Condition:
        """From `least` to `most`, both included."""
        return self._condition("between", [least, most])

    def contains(self, part: str) -> Condition:
        """A text that contains `part`, compared character by character."""
        return self._condition("contains", part)

    def contains_any_case(self, part: str) -> Condition:
        """A text that contains `part`, in capital or small letters: which, depends on the database."""
        return self._condition("contains_any_case", part)

    def starts_with(self, beginning: str) -> Condition:
        """A text that begins with `beginning`."""
        return self._condition("starts_with", beginning)

    def is_null(self) -> Condition:
        """NULL."""
        return self._condition("is_null", True)  # noqa: FBT003 - a value of the request

    def _condition(self, operator: Operator, value: Any) -> Condition:
        return Condition({"column": self._column, "op": operator, "value": plain_value(value)})


Filters = Condition | Sequence[Condition | Mapping[str, Any]]
"""Which rows: one condition, or several that all hold, of `where` or as JSON."""


def where(column: str) -> Compared:
    """A column, to be compared: `where("state").eq("NJ")`."""
    return Compared(column)


class Question(TypedDict, total=False):
    """A query over a result; see docs/querying.md.

    Keys:
        columns: names of columns; for rows only.
        filters: which rows: one condition, or several that all hold, of `where` or as JSON.
        group_by: columns, or dates cut to a bucket.
        aggregates: computed for each group; for all rows, without groups.
        having: which groups, by columns of the answer.
        order_by: columns of the answer.
    """

    columns: Sequence[str]
    filters: Filters
    group_by: Sequence[str | Group]
    aggregates: Sequence[str | Aggregate]
    having: Filters
    order_by: Sequence[str | OrderKey]


def plain_question(question: Question) -> dict[str, Any]:
    """The query as JSON, for a request."""
    body: dict[str, Any] = {}
    for key, value in question.items():
        if isinstance(value, Condition):
            body[key] = [value.to_json()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            body[key] = [
                part.to_json() if isinstance(part, Condition) else plain_value(part) for part in value
            ]
        elif value is not None:
            # Wrong values are sent, too, and the server rejects them: without a filter, the query would be another one.
            body[key] = value
    return body


def plain_value(value: Any) -> Any:
    """A value as JSON, in the encoding of results."""
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain_value(item) for name, item in value.items()}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, Decimal | UUID) else value


def plain_parameters(parameters: Mapping[str, Value | None] | None) -> dict[str, Any]:
    """Values of a SQL text as JSON."""
    return {name: plain_value(value) for name, value in (parameters or {}).items()}


def _duration(length: timedelta) -> str:
    size = abs(length)
    sign = "-" if length < timedelta() else ""
    # ISO 8601, as results have it; a day always has 24 hours here.
    return f"{sign}P{size.days}DT{size.seconds}.{size.microseconds:06d}S"


class StreamOptions(TypedDict, total=False):
    """Options of the methods that read a whole result.

    Keys:
        columns: names of the columns, in this order; all by default.
        text_columns: names of columns to return as text, whatever their type: for Arrow, and the formats built from it,
            if a cell does not fit its column's type.
        sort: an order, as for `fetch`: "-enrollment,name".
        limit: the most rows.
        progress: True for a bar in the terminal, which needs dualsql-client[progress]; or a function, also a coroutine
            function, that is called with a Progress as rows arrive.
    """

    columns: Sequence[str]
    text_columns: Sequence[str]
    sort: Sort | None
    limit: int
    progress: bool | ProgressCallback


def page_at(cursor: str, offset: int) -> PageBody:
    """The page at a cursor.

    Raises:
        ValueError: the offset is not 0.
    """
    if offset:
        raise ValueError("Give either a cursor or an offset.")
    return PageBody(cursor=cursor)


def page_body(start: PageBody, limit: int | None, sort: Sort | None) -> PageBody:
    """The body of POST /{id}."""
    request = start.copy()
    if limit is not None:
        request["limit"] = limit
    if sort is not None:
        request["sort"] = _sort_keys(sort)
    return request


def narrowing_body(
    request: PageBody, columns: Sequence[str] | None, filters: Filters | None
) -> dict[str, Any]:
    """The body of POST /{id}/query for a page of these columns and rows."""
    question = Question()
    if (names := names_of(columns)) is not None:
        question["columns"] = names
    if filters is not None:
        question["filters"] = filters
    body: dict[str, Any] = {**plain_question(question), **request}
    keys = body.pop("sort", None)
    if keys is not None:
        keys = keys if isinstance(keys, list) else [keys]
        body["order_by"] = [{"column": key["field"], "order": key.get("order", "asc")} for key in keys]
    return body


def rows_request(options: StreamOptions) -> RowsBody:
    """The body of POST /{id}/rows."""
    request = RowsBody()
    if (columns := names_of(options.get("columns"))) is not None:
        request["columns"] = columns
    if (columns := names_of(options.get("text_columns"))) is not None:
        request["text_columns"] = columns
    if options.get("limit") is not None:
        request["limit"] = options["limit"]
    if (sort := options.get("sort")) is not None:
        request["sort"] = _sort_keys(sort)
    return request


def names_of(columns: Sequence[str] | None) -> list[str] | None:
    """Names of columns, as a list; a text is read as a sort is, not letter by letter."""
    if isinstance(columns, str):
        return [name.strip() for name in columns.split(",")]
    return None if columns is None else list(columns)


def _sort_keys(sort: Sort) -> SortKey | list[SortKey]:
    """One key as an object, as the specification has it: the reference server drops a list without an error."""
    if isinstance(sort, Mapping):
        return sort
    names = sort.split(",") if isinstance(sort, str) else sort
    keys = [sort_key(key.strip()) if isinstance(key, str) else key for key in names]
    return keys[0] if len(keys) == 1 else keys


def sort_key(text: str) -> SortKey:
    """The key for `name`, or for `-name`, which is descending."""
    return {"field": text.removeprefix("-"), "order": "desc" if text.startswith("-") else "asc"}


class QueryMethods:
    """The query methods of a dual response."""

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
        """One page of the answer to a query; the other arguments are those of `fetch`.

        Args:
            question: see Question.

        Raises:
            FetchError: see `dualsql_client.errors`; status 422 for an unknown column, 400 for a query that its
                column does not allow.
        """
        window = _window(offset, limit, cursor)
        return await self._post("query", {**plain_question(question), **window}, typed=typed)

    @checked_keywords(Question)
    async def query_all(
        self, *, page_size: int | None = None, typed: bool = False, **question: Unpack[Question]
    ) -> list[Row]:
        """Every row of the answer, read page by page.

        Args:
            page_size: rows of a page; None for the server's default.

        Raises:
            FetchError: see `query`.
        """
        return await self._post_for_all("query", plain_question(question), page_size, typed=typed)

    async def sql(
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
        window = _window(offset, limit, cursor)
        body = {"sql": sql, "parameters": plain_parameters(parameters), **window}
        return await self._post("sql", body, typed=typed)

    async def sql_all(
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
        body = {"sql": sql, "parameters": plain_parameters(parameters)}
        return await self._post_for_all("sql", body, page_size, typed=typed)

    async def profile(
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
        transport = self._configured()
        if filters is None:
            query = {"kind": kind} | ({} if columns is None else {"columns": ",".join(columns)})
            answer = await transport.send("GET", self.resource_uri, query=query, below="/profile")
        else:
            body = {**narrowing_body(PageBody(), columns, filters), "kind": kind}
            answer = await transport.send("POST", self.resource_uri, body, below="/profile")
        if not isinstance(answer, dict) or "columns" not in answer:
            raise FetchError("The server's answer is not a profile.")
        return cast("Profile", answer)

    @checked_keywords(Question)
    async def refine(
        self,
        *,
        name: str = "Refined",
        limit: int | None = None,
        offset: int = 0,
        **question: Unpack[Question],
    ) -> ParsedDualResponse:
        """Create a new result from a query. It has its own link and lifetime, and can be queried again.

        Args:
            limit, offset: the rows of the answer to include.

        Raises:
            FetchError: see `query`; status 413 if the result was refined too often or too deeply.
        """
        window = _window(offset, limit, None)
        body = {**plain_question(question), **window, "name": name}
        answer = await self._configured().send("POST", self.resource_uri, body, below="/refine")
        detected = detect.read_structure(answer)
        if detected is None:
            raise FetchError("The server's answer is not a dual response.")
        # The new result has the transport of this one, with its credentials.
        return replace(
            cast("ParsedDualResponse", self),
            name=detected.name,
            sample=detected.sample or [],
            total_count=detected.total_count,
            total_count_kind=detected.total_count_kind,
            resource_uri=detected.uri,
            resource_url=self._configured().url_of(detected.uri),
            columns=detected.columns,
            executed_at=detected.executed_at,
            expires_at=detected.expires_at,
            status="ready",
        )

    async def _post(
        self, route: str, body: Mapping[str, Any], *, typed: bool, budget: Budget | None = None
    ) -> FetchResult:
        transport = self._configured()
        answer = await transport.send(
            "POST", self.resource_uri, body, below=f"/{route}", budget=budget, waits=True
        )
        page = read_page(answer, offset=body.get("offset"), columns=(), typed=typed)
        require_confirmed(page, body)
        return page

    async def _post_for_all(
        self, route: str, body: Mapping[str, Any], page_size: int | None, *, typed: bool
    ) -> list[Row]:
        async def page(start: PageBody, budget: Budget) -> FetchResult:
            window = start if page_size is None else {**start, "limit": page_size}
            return await self._post(route, {**body, **window}, typed=typed, budget=budget)

        pages = each_page(page, self._configured().budget())
        return [row async for each in pages for row in each.data]

    def _configured(self) -> Transport:
        raise NotImplementedError


async def each_page(
    page_at: Callable[[PageBody, Budget], Awaitable[FetchResult]], budget: Budget
) -> AsyncGenerator[FetchResult, None]:
    """All pages; each one follows the last by its cursor if the server has cursors.

    Args:
        page_at: the page that begins at an offset or a cursor.
    """
    cursors: set[str] = set()
    start = PageBody(offset=0)
    while True:
        page = await page_at(start, budget)
        with budget.paused():
            yield page
        if not page.has_next:
            return
        # A faulty server could repeat its cursors for ever.
        if page.next_cursor in cursors:
            raise FetchError("The server returns the same page repeatedly.", status=200)
        budget.page(len(page.data), exact_total(page))
        if page.next_cursor is None:
            start = PageBody(offset=page.offset + len(page.data))
        else:
            cursors.add(page.next_cursor)
            start = PageBody(cursor=page.next_cursor)


def _window(offset: int, limit: int | None, cursor: str | None) -> dict[str, Any]:
    if cursor is not None and offset:
        raise ValueError("Give either a cursor or an offset.")
    window: dict[str, Any] = {"offset": offset} if cursor is None else {"cursor": cursor}
    return window if limit is None else {**window, "limit": limit}
