"""What is said of a request that another server refuses: the result is missing, or the route is."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dualsql_client import DualResponseClient, FetchError, ParsedDualResponse, ResourceNotFoundError
from tests.client.hosting import RESOURCE_ID, structured
from tests.client.refusals import CALLS, ROWS, Expected, serving_refusals
from tests.javascript.running import node, run

Call = Callable[[ParsedDualResponse, Path], Awaitable[Any]]


async def _rows_of_page(parsed: ParsedDualResponse, **options: Any) -> list[Any]:
    return (await parsed.fetch(**options)).data


_CALLS: dict[str, Call] = {
    "page": lambda parsed, _: _rows_of_page(parsed),
    "sort": lambda parsed, _: _rows_of_page(parsed, sort="id"),
    "cursor": lambda parsed, _: _rows_of_page(parsed, cursor="abc"),
    "rows": lambda parsed, _: parsed.fetch_all(batch_size=3),
    "query": lambda parsed, _: parsed.query(aggregates=["count"]),
    "sql": lambda parsed, _: parsed.sql("SELECT 1"),
    "profile": lambda parsed, _: parsed.profile(),
    "pin": lambda parsed, _: parsed.pin(),
    "unpin": lambda parsed, _: parsed.unpin(),
    "delete": lambda parsed, _: parsed.delete(),
    "refine": lambda parsed, _: parsed.refine(limit=1),
    "metadata": lambda parsed, _: parsed.get_metadata(),
    "file": lambda parsed, folder: parsed.save(folder / "rows.csv"),
}


async def _check(client: DualResponseClient, expected: Expected, folder: Path) -> None:
    parsed = client.parse_structured(structured(uri=f"resource://{expected.id}"))
    assert parsed is not None
    call = _CALLS[expected.call](parsed, folder)
    match expected.outcome:
        case "rows":
            assert await call == ROWS
        case "false":
            assert await call is False
        case message:
            with pytest.raises(FetchError, match=message) as error:
                await call
            assert re.search(expected.hint, error.value.hint), expected
            assert isinstance(error.value, ResourceNotFoundError) == (expected.id != RESOURCE_ID)


async def test_what_is_said_of_each_refusal(http: Any, tmp_path: Path) -> None:
    async with serving_refusals() as table:
        assert {expected.call for expected in table} == _CALLS.keys() == set(CALLS)
        for expected in table:
            # A client for each call: one that has met the server knows what it lacks.
            await _check(DualResponseClient(expected.base_url, http=http), expected, tmp_path)
        for base_url in dict.fromkeys(expected.base_url for expected in table):
            client = DualResponseClient(base_url, http=http)
            with pytest.raises(FetchError, match="has no list of results") as error:
                await anext(client.list_resources())
            assert "Run the tool" not in error.value.hint
            for expected in table:  # and the same of one that has
                if expected.base_url == base_url:
                    await _check(client, expected, tmp_path)


@pytest.mark.long
async def test_the_javascript_client_says_the_same() -> None:
    async with serving_refusals() as table:
        await run(node(), "refusals.test.mjs", given=[expected._asdict() for expected in table])
