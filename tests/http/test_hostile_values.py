"""Values that Python cannot convert, or converts to what fails later, are refused on every route."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.application import Application
from tests.quick import case_of

TEXTS = (
    "9" * 5_000, "-" + "9" * 5_000, "1e999", "1e-999", "1E+1000000000", "sNaN", "-sNaN", "NaN", "nan1", "Infinity",
    "-inf",
    "²", "٣", "1_000", "0x10", " 1", "+1", "1.0", "", "0001-01-01", "10000-01-01", "24:00", "2024-02-30",
    "9999-12-31T23:59:59.999999+23:59", "0" * 400, "{", "[[", "true", "null",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *TEXTS,
    10**400,
    -(10**400),
    1e308,
    True,
    None,
    [],
    {},
    [[1]],
    2**63,
    2**64,
    0.1,
    "\ud800",
)
COLUMNS = ("id", "name", "enrollment", "budget", "tuition", "founded")
OPERATORS = ("eq", "lt", "in", "between", "contains", "starts_with")
PARAMETERS = (
    "offset",
    "limit",
    "sort",
    "cursor",
    "big_integers",
    "cell_limit",
    "skip",
    "page",
    "columns",
    "kind",
    "format",
    "count",
)
ROWS = ("format", "columns", "sort", "limit", "resume", "text_columns", "big_integers", "guard_formulas")
HEADERS = (
    "accept",
    "accept-encoding",
    "if-none-match",
    "if-modified-since",
    "range",
    "authorization",
    "origin",
)


def bodies() -> Iterator[tuple[str, Any]]:
    for value in VALUES:
        for column in COLUMNS:
            for operator in OPERATORS:
                given = [value, value] if operator in ("in", "between") else value
                yield "query", {"filters": [{"column": column, "op": operator, "value": given}]}
        for key in (
            "limit",
            "offset",
            "order_by",
            "group_by",
            "aggregates",
            "filters",
            "columns",
            "format",
            "cursor",
        ):
            yield "query", {key: value}
            yield "refine", {key: value}
        yield "sql", {"sql": "SELECT :a AS a FROM data WHERE tuition > :a", "parameters": {"a": value}}
        yield "sql", {"sql": "SELECT id FROM data", "limit": value}
        yield "sql", {"sql": value}
        yield "", {"limit": value}
        yield "", {"sort": {"field": "id", "order": value}}


@pytest.mark.parametrize(
    "part", [case_of(part, is_long=part > 0, is_exhaustive=part > 2) for part in range(12)]
)
async def test_bodies(application: Application, part: int) -> None:
    path = await application.create()
    found = []
    for kind, body in list(bodies())[part::12]:
        answer = await application.http.post(
            f"{path}/{kind}".rstrip("/"), content=_dumped(body), headers={"content-type": "application/json"}
        )
        if answer.status_code >= 500 and answer.status_code not in (502, 503):
            found.append((kind, str(body)[:150], answer.text[:300]))
    assert found == []


def _dumped(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.long
async def test_parameters_and_headers(application: Application) -> None:
    path = await application.create()
    found = []
    for text in TEXTS:
        asked: list[tuple[str, Any, Any]] = [("", {name: text}, {}) for name in PARAMETERS]
        asked += [("/rows", {name: text}, {}) for name in ROWS]
        asked += [("/profile", {name: text}, {}) for name in ("kind", "columns")]
        asked += [("", {}, {name: text.encode()}) for name in HEADERS]
        for at, parameters, headers in asked:
            answer = await application.http.get(path + at, params=parameters, headers=headers)
            if answer.status_code >= 500:
                found.append((at, parameters, headers, answer.text[:300]))
    assert [str(one)[:500] for one in found] == []


async def test_a_number_that_would_take_gigabytes_to_write_out(application: Application) -> None:
    path = await application.create()
    question = {"filters": [{"column": "tuition", "op": "lt", "value": "1E+400000000"}]}
    tracemalloc.start()
    answer = await application.http.post(f"{path}/query", json=question)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 400
    assert most < 50_000_000
    assert "tuition" in answer.json()["message"]
