"""The bounds of what one request may ask for, and of how many streams run."""

from __future__ import annotations

from typing import Any

import pytest

from dualsql import (
    BadParameterError,
    LimitExceededError,
    PageRequest,
    Settings,
    SortKey,
    StreamRequest,
    TooManyQueriesError,
)
from tests.http.application import running

BOUNDS = Settings(maximum_sort_keys=2)
KEYS = [SortKey(field="name", order="asc")] * 3


@pytest.mark.parametrize(
    "request_",
    [
        PageRequest(limit=True),
        PageRequest(offset=True),
        StreamRequest(limit=True),
        PageRequest(cursor="abc", offset=3),
        PageRequest(sort=KEYS),
        StreamRequest(sort=tuple(KEYS)),
        StreamRequest(limit=-1),
        StreamRequest(limit=BOUNDS.maximum_stream_rows + 1),
    ],
    ids=repr,
)
def test_a_request_out_of_bounds_is_refused(request_: Any) -> None:
    with pytest.raises((BadParameterError, LimitExceededError)):
        request_.checked(BOUNDS)


async def test_a_stream_beyond_the_maximum_is_refused_until_one_ends(institutions_url: str) -> None:
    async with running(institutions_url, maximum_streams=1) as application:
        resource_id = (await application.create()).rpartition("/")[2]
        first, second, third = [await application.server.stream(resource_id, None) for _ in range(3)]
        await anext(first.chunks)
        with pytest.raises(TooManyQueriesError):
            await anext(second.chunks)
        await first.chunks.aclose()
        assert [chunk async for chunk in third.chunks]
