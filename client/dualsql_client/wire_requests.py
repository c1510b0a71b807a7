"""The JSON that a client sends. The server reads it by its tables of parameters and operators, which tests compare."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from dualsql_client.wire import SortKey, StreamFormat

Operator = Literal[
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "in",
    "between",
    "contains",
    "contains_any_case",
    "starts_with",
    "is_null",
]
"""A comparison of a column. As in SQL, a NULL satisfies none but `is_null`, and no `not` of the others."""

Bucket = Literal["year", "quarter", "month", "week", "day", "hour"]
"""The unit that a date is truncated to; a week begins on Monday."""


class PageBody(TypedDict, total=False):
    """Body of POST /{id}. `sort` is one key or several, the first key first.

    `cursor` is a page's next_cursor or previous_cursor, instead of `offset`; it needs the same sort.
    """

    offset: int
    cursor: str
    limit: int
    sort: SortKey | list[SortKey] | None
    big_integers: Literal["number", "string"]
    cell_limit: int


class RowsBody(TypedDict, total=False):
    """Body of POST /{id}/rows; GET has the same names as parameters, lists joined by commas.

    `text_columns` are returned as text, whatever their type, also in Arrow and Parquet. With `summary` false, NDJSON
    has rows only, and the end of the HTTP body ends the stream. `resume`, `after` and `last` resume a broken stream:
    its token, the number of complete rows received, and `row_digest` of the last of them.
    """

    format: StreamFormat
    columns: list[str]
    text_columns: list[str]
    sort: SortKey | list[SortKey] | None
    limit: int
    cursor: str
    big_integers: Literal["number", "string"]
    guard_formulas: bool
    excel: bool
    summary: bool
    resume: str
    after: int
    last: str
