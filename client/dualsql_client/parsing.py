"""Rows out of NDJSON; the rule: a block at once, and exactly, whichever parser there is.

One call for many lines takes half the time of one for each. orjson (the extra dualsql-client[fast]) halves it again;
but it makes floats of whole numbers beyond 64 bits, so a block with that many digits in a row is left to json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from dualsql_client.errors import FetchError
from dualsql_client.framing import Block
from dualsql_client.wire import Row

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MANY_DIGITS = b"0" * 19
"""As many as a whole number beyond 64 bits has at least."""


def rows_of(block: Block) -> list[Row]:
    """The rows of whole lines.

    Raises:
        FetchError: a line is no JSON object.
    """
    array = b"[" + block.data[:-1].replace(b"\n", b",") + b"]"
    try:
        rows = _loads(array)
    except (ValueError, RecursionError):
        raise _no_rows() from None
    # A line of half a row or of two would be seen in the number; what is between the brackets is a list.
    if len(rows) != block.rows or not all(type(row) is dict for row in rows):
        raise _no_rows()
    return rows


def _loads(array: bytes) -> list[Any]:
    rows: list[Any]
    fast_loads = _fast_loads()
    if fast_loads is not None and _MANY_DIGITS not in array.translate(_ZEROS):
        try:
            rows = fast_loads(array)
        except ValueError:
            pass  # json reads some things more: numbers beyond a double, deeper nesting
        else:
            return rows
    rows = json.loads(array)
    return rows


@cache
def _fast_loads() -> Callable[[bytes], Any] | None:
    try:
        from orjson import loads
    except ImportError:  # the extra is not installed
        return None
    return loads


def _no_rows() -> FetchError:
    return FetchError("The stream's lines are not rows in JSON.", status=200)
