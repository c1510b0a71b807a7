"""Values in answers that Python cannot convert, or converts to what fails later, give a value or a FetchError."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, get_args

import pytest
from starlette.requests import Request
from starlette.responses import Response

from dualsql_client import DualResponseClient, DualResponseClientError, ParseError, Retry, decode_rows
from dualsql_client.answers import kind_of_total
from dualsql_client.budget import retry_after
from dualsql_client.conversions import MOST_DIGITS_STORED, read_http_date, read_instant
from dualsql_client.preview import total_in_words
from dualsql_client.wire import Column, Encoding
from tests.client.hosting import Host, structured
from tests.quick import case_of

TEXTS = (
    "sNaN", "-sNaN123", "NaN", "Infinity", "-inf", "1E999999999", "-1e-999999999", "1E+150001", "9" * 5_000,
    "9" * 1_000_000, "0." + "9" * 500_000, "²", "٣", "1_000", " 1", "0x10", "", "1e", "P999999999999D",
    f"P{'9' * 5_000}D", f"PT{'9' * 1_000_000}S", "PT0.1234567S", "PT-999999999999999S", "P1Y", "24:00", "0000-01-01",
    "10000-01-01", "-0001-01-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "2024-02-30",
    "2024-01-01T00:00:00+99:99", "2" * 1_000_000, "\ud800", "\0", "{" * 36, "é" * 36, "=" * 40, "AP8", "infinity ",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *TEXTS, 10**5_000, -(10**400), 2**63, -1, 0.1, 1e308, float("inf"), float("nan"), True, [], {}, [[1]], {"a": 1},
    [0, [1], 999_999_999], None,
)  # fmt: skip
HEADERS = (
    "retry-after",
    "date",
    "age",
    "etag",
    "dualsql-total-count",
    "dualsql-total-count-kind",
    "dualsql-resume",
)
FIELDS = (
    "data", "columns", "total_count", "total_count_kind", "returned_count", "offset", "has_next", "has_previous",
    "next_offset", "order", "cached", "next_cursor", "previous_cursor", "expires_at", "created_at", "status", "name",
    "uri", "access_count", "last_accessed_at", "metadata", "error", "code", "message", "hint", "details", "resources",
)  # fmt: skip


@pytest.mark.parametrize("encoding", get_args(Encoding))
def test_a_cell_is_a_value_that_can_be_used_or_our_error(encoding: Encoding) -> None:
    column = Column(name="v", type="string", encoding=encoding)
    array = Column(name="v", type="string", encoding="array", items=encoding)
    for value in VALUES:
        for given, described in ((value, column), ([[value]], array)):
            try:
                [row] = decode_rows([{"v": given}], [described])
            except ParseError:
                continue
            use(row["v"] if described is column else row["v"][0][0])


def use(value: Any) -> None:
    """What an application does with a value; a Decimal may be written out, compared and added to."""
    if isinstance(value, Decimal):
        assert len(format(value, "f")) < 2 * MOST_DIGITS_STORED + 1_000_000
        if value.is_finite():
            assert value < value.next_plus()
            assert str(value + 1)
    elif isinstance(value, timedelta | datetime):
        assert str(value)


@pytest.mark.parametrize(("encoding", "wrong"), [
    ("decimal", "sNaN"), ("decimal", "1E999999999"), ("decimal", 0.1), ("decimal", True),
    ("integer-string", 5.7), ("integer-string", True), ("interval", f"PT{'9' * 1_000}S"), ("interval", "PT0.1234567S"),
])  # fmt: skip
def test_what_would_be_another_value_is_refused(encoding: Encoding, wrong: Any) -> None:
    with pytest.raises(ParseError) as refusal:
        decode_rows([{"v": wrong}], [Column(name="v", type="string", encoding=encoding)])
    assert refusal.value.details["column"] == "v"


def test_the_longest_number_of_a_database_is_read() -> None:
    written = "9" * 131_072 + "." + "9" * 16_383
    [row] = decode_rows([{"v": written}], [Column(name="v", type="number", encoding="decimal")])
    assert format(row["v"], "f") == written


def test_instants_that_have_no_utc_are_none() -> None:
    assert read_instant("0001-01-01T00:00:00+23:59") is None
    assert read_instant("9999-12-31T23:59:59-23:59") is None
    assert read_instant("2024-01-01T00:00:00") == datetime(2024, 1, 1, tzinfo=UTC)


def test_dates_of_http_that_are_none() -> None:
    day = "Mon, 01 Jan 2024 00:00:00"
    for written in (
        f"{day} +99999999999999",
        f"{day} -{'9' * 5_000}",
        "x" * 100_000,
        "Mon, 99 Foo 0000",
        *TEXTS,
    ):
        assert read_http_date(written) is None
        assert retry_after(written) is None or written.isdigit()
    assert read_http_date(f"{day} GMT") == datetime(2024, 1, 1, tzinfo=UTC)


def test_the_word_for_a_total_may_be_anything() -> None:
    words: list[Any] = [[[1]], {}, "roughly", None]
    assert [kind_of_total(3, word) for word in words] == [*["estimated"] * 3, "exact"]


def test_a_total_that_is_no_number_of_rows_is_no_dual_response() -> None:
    client = DualResponseClient()
    for total in (10**5_000, 2**63, -1, True, 1.5, "3"):
        forged: Any = structured()
        forged["metadata"]["total_count"] = total
        for parsed in client.find(forged):
            assert total_in_words(parsed.total_count, parsed.total_count_kind)


def answers(times: int) -> Iterator[tuple[int, dict[str, str], bytes]]:
    """Status, headers and body, some parts of which are forged."""
    draw = random.Random(11)
    encodings = get_args(Encoding)
    for _ in range(times):
        columns = [{"name": "v", "type": "number", "encoding": draw.choice(encodings)}]
        content: dict[str, Any] = {
            "data": [{"v": draw.choice(VALUES)}], "columns": columns, "total_count": 1, "returned_count": 1,
            "offset": 0,             "has_next": False, "status": "ready", "name": "x", "resources": [],
        }  # fmt: skip
        for _ in range(draw.choice((0, 1, 1, 3))):
            content[draw.choice(FIELDS)] = draw.choice(VALUES)
        text = draw.choice(TEXTS)[:9_000]
        forged = {draw.choice(HEADERS): text} if text.isascii() and text.isprintable() else {}
        kind = draw.choice(("application/json", "application/json", "application/x-ndjson"))
        status = draw.choice((200, 200, 200, 404, 410, 429, 503))
        yield status, {"content-type": kind, **forged}, dumped(content)


def dumped(said: dict[str, Any]) -> bytes:
    """JSON, as far as Python writes it."""
    if any(type(value) is int and value > 10**4_000 for value in [*said.values(), said_cell(said)]):
        said = dict.fromkeys(said, 7)
    return json.dumps(said).encode() + b"\n"


def said_cell(said: dict[str, Any]) -> Any:
    """The value of the one cell, where there still is one."""
    data = said["data"]
    return data[0].get("v") if isinstance(data, list) and data and isinstance(data[0], dict) else None


@pytest.mark.parametrize("times", [case_of(40, is_long=False), case_of(1_500, is_exhaustive=True)])
async def test_every_call_gives_rows_or_our_error(host: Host, times: int) -> None:
    current: list[tuple[int, dict[str, str], bytes]] = []

    async def answer(_: Request) -> Response:
        status, headers, body = current[0]
        return Response(body, status, headers)

    faults = []
    limits: dict[str, Any] = {"timeout": 5.0, "retry": Retry(times=0, budget=timedelta(seconds=1))}
    async with DualResponseClient(host.serve(answer), **limits) as client:
        for forged in answers(times):
            current[:] = [forged]
            parsed = client.parse(structured(), strict=True)
            for call in (
                parsed.fetch(typed=True),
                parsed.fetch_all(typed=True),
                parsed.get_metadata(),
                parsed.profile(),
                _listed(client),
            ):
                try:
                    async with asyncio.timeout(5):
                        await call
                except DualResponseClientError:
                    pass
                except Exception as error:  # noqa: BLE001 - what else it raises is what the test is about
                    faults.append(f"{error!r}"[:200] + f" for {forged[:2]} {forged[2][:300]!r}")
    assert faults == []


async def _listed(client: DualResponseClient) -> list[Any]:
    return [one async for one in client.list_resources()]
