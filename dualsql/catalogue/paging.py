"""Long lists in pieces; the rule: a cursor is a place in the caller's own list, so a forged one opens nothing."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from dualsql.errors import BadParameterError

Item = TypeVar("Item")

_LONGEST_CURSOR = 8_192


def paged(
    items: Sequence[Item], place: Callable[[Item], str], *, cursor: str | None, limit: int
) -> tuple[Sequence[Item], str | None]:
    """At most `limit` items after the cursor, and the cursor for what comes after them (None at the end).

    Args:
        place: a text by which `items` are sorted. What comes or goes between two pages moves nothing else.

    Raises:
        BadParameterError: the cursor is none of ours.
    """
    start = 0 if cursor is None else bisect_right(items, _read(cursor), key=place)
    page = items[start : start + limit]
    is_last = start + limit >= len(items)
    return page, None if is_last else _write(place(page[-1]))


def _write(place: str) -> str:
    return urlsafe_b64encode(place.encode("utf-8", "surrogatepass")).rstrip(b"=").decode()


def _read(cursor: str) -> str:
    try:
        if len(cursor) > _LONGEST_CURSOR:
            raise ValueError
        place = urlsafe_b64decode(cursor.encode("ascii") + b"==").decode("utf-8", "surrogatepass")
    except ValueError:
        place = ""
    if not place or _write(place) != cursor:
        raise BadParameterError("The cursor is none of this server's.", hint="Start without one.")
    return place
