"""What is asked of a server, in the wire's shapes; the rule: what is left open is left to the server."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from dualsql_client.progress import OnProgress, Tell
from dualsql_client.wire import PageRequest, RowsRequest, SortKey


class StreamOptions(TypedDict, total=False):
    """What all that read a whole result may be told.

    Keys:
        columns: names of the columns wanted, in that order; all by default.
        text_columns: names of those that are given as text, whatever they hold: for Arrow and what is made of it,
            where a cell does not fit its column's type.
        sort: one key or several, as for `fetch`.
        limit: the most rows.
        on_progress: called with the rows so far and their total, as they arrive.
        progress: True for a bar in the terminal, which needs dualsql-client[progress]; or a function that is called
            with a Progress.
    """

    columns: Sequence[str]
    text_columns: Sequence[str]
    sort: SortKey | Sequence[SortKey] | None
    limit: int
    on_progress: OnProgress | None
    progress: bool | Tell


def beside(cursor: str, offset: int) -> PageRequest:
    """The page that a cursor leads to.

    Raises:
        ValueError: an offset is given, too.
    """
    if offset:
        raise ValueError("Give a cursor or an offset: they are two ways to say one thing.")
    return PageRequest(cursor=cursor)


def page_request(
    start: PageRequest, limit: int | None, sort: SortKey | Sequence[SortKey] | None
) -> PageRequest:
    """The body of POST /{id}."""
    request = start.copy()
    if limit is not None:
        request["limit"] = limit
    if sort is not None:
        request["sort"] = _sort_keys(sort)
    return request


def rows_request(options: StreamOptions) -> RowsRequest:
    """The body of POST /{id}/rows."""
    request = RowsRequest()
    if "columns" in options:
        request["columns"] = list(options["columns"])
    if "text_columns" in options:
        request["text_columns"] = list(options["text_columns"])
    if "limit" in options:
        request["limit"] = options["limit"]
    if (sort := options.get("sort")) is not None:
        request["sort"] = _sort_keys(sort)
    return request


def _sort_keys(sort: SortKey | Sequence[SortKey]) -> SortKey | list[SortKey]:
    return sort if isinstance(sort, dict) else list(sort)
