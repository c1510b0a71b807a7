"""The dual-mode answer of specification S8, and which halves of it a caller gets."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st
from starlette.datastructures import Headers

from dualsql.envelope import (
    RequestedForm,
    create_dual_mode_error,
    create_dual_mode_response,
    present,
    requested_form,
    staged_data,
    validate_dual_mode,
)
from dualsql.errors import BadParameterError


def test_staged_data_says_where_the_rows_are() -> None:
    data = staged_data(
        data_access_id="r1",
        operation="find",
        payload_size=2_040_000,
        entities=25,
        table="protein",
        endpoint="/query",
        example="SELECT * FROM protein LIMIT 10",
    )
    assert data == {
        "dataAccessId": "r1",
        "operation": "find",
        "payloadSize": 2_040_000,
        "entities": 25,
        "table": "protein",
        "queryAccess": {"endpoint": "/query", "example": "SELECT * FROM protein LIMIT 10"},
    }


def test_what_nobody_knows_is_left_out() -> None:
    assert staged_data(data_access_id="r1", operation="find") == {"dataAccessId": "r1", "operation": "find"}


def test_an_answer_has_data_display_and_metadata() -> None:
    answer = create_dual_mode_response(
        {"schools": 3}, operation="count_schools", seconds=0.0457, schema={"type": "object"}
    )
    metadata = answer["metadata"]
    assert answer["success"] is True
    assert answer["data"] == {"schools": 3}
    assert answer["display"] == {"type": "markdown", "content": "- **schools:** 3"}
    assert abs(time.time() * 1_000 - metadata.pop("timestamp")) < 60_000  # type: ignore[misc]
    assert metadata == {
        "operation": "count_schools",
        "status": "success",
        "executionTime": 45.7,
        "cached": False,
        "schema": {"type": "object"},
    }


def test_an_answer_about_kept_rows_is_staged() -> None:
    data = staged_data(data_access_id="r1", operation="find")
    assert create_dual_mode_response(data, operation="find")["metadata"]["status"] == "staged"


def test_words_of_staged_data_are_columns_elsewhere() -> None:
    data = {"rows": 3, "table": None, "entities": "many", "payloadSize": -1}
    assert validate_dual_mode(create_dual_mode_response(data, operation="x")) == []


def test_cached_is_what_the_caller_says() -> None:
    assert create_dual_mode_response(1, operation="x", cached=True)["metadata"]["cached"] is True
    with pytest.raises(BadParameterError, match=r"metadata\.cached must be a boolean"):
        create_dual_mode_response(1, operation="x", cached="yes")  # type: ignore[arg-type]


def test_a_display_may_be_made_elsewhere() -> None:
    display = {"type": "html", "content": "<p>Three</p>"}
    assert create_dual_mode_response(3, operation="x", shown=display)["display"] == display  # type: ignore[arg-type]
    for wrong in ({"type": "pdf", "content": ""}, {"content": "x"}, {"type": "html", "content": 3}):
        with pytest.raises(BadParameterError):
            create_dual_mode_response(3, operation="x", shown=wrong)  # type: ignore[arg-type]


def test_an_error_is_apart_from_data_and_readable() -> None:
    answer = create_dual_mode_error(
        'Table "protein" does not exist.',
        "UNKNOWN_TABLE",
        operation="query",
        suggestion='Use "entries".',
        details={"tables": ["entries"]},
        seconds=0.001,
    )
    assert answer["success"] is False and "data" not in answer
    assert answer["error"] == {
        "code": "UNKNOWN_TABLE",
        "message": 'Table "protein" does not exist.',
        "details": {"tables": ["entries"], "suggestion": 'Use "entries".'},
    }
    assert answer["display"]["content"] == (
        '- **Error:** Table "protein" does not exist.\n- **Code:** UNKNOWN\\_TABLE\n- **Suggestion:** Use "entries".'
    )
    assert answer["metadata"]["status"] == "error"
    assert answer["metadata"]["executionTime"] == 1.0
    assert validate_dual_mode(answer) == []


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, RequestedForm()),
        ({}, RequestedForm("markdown", "chat")),
        ({"X-Response-Format": "json"}, RequestedForm("json", "chat")),
        ({"x-response-format": " JSON "}, RequestedForm("json", "chat")),
        ({"X-Execution-Context": "code"}, RequestedForm("markdown", "code")),
        ({"X-Response-Format": "markdown", "X-Execution-Context": "code"}, RequestedForm("markdown", "code")),
        ({"X-Response-Format": "xml", "X-Execution-Context": "sql"}, RequestedForm()),
        ({"X-Response-Format": "json, markdown"}, RequestedForm()),
        ([("X-Response-Format", "json"), ("X-Response-Format", "markdown")], RequestedForm()),
        ([("X-Response-Format", "json"), ("X-Response-Format", "json")], RequestedForm("json", "chat")),
        ([(b"x-response-format", b"json"), (b"\xff", b"\xff")], RequestedForm("json", "chat")),
        ({"X-Response-Format": "json" + "x" * 10**6}, RequestedForm()),
        ({"X-Response-Format": ""}, RequestedForm()),
    ],
)  # fmt: skip
def test_headers_say_who_asks(headers: Any, expected: RequestedForm) -> None:
    assert requested_form(headers) == expected


def test_headers_of_starlette_and_httpx() -> None:
    pairs = {"X-Response-Format": "json", "X-Execution-Context": "code"}
    assert (
        requested_form(Headers(pairs))
        == requested_form(httpx.Headers(pairs))
        == RequestedForm("json", "code")
    )
    assert (
        requested_form(Headers(raw=[(b"x-response-format", b"json"), (b"x-response-format", b"markdown")]))
        == RequestedForm()
    )


@given(
    st.lists(
        st.tuples(st.sampled_from([b"X-Response-Format", b"x-execution-context"]) | st.binary(), st.binary())
    )
)
def test_no_header_makes_it_fail(headers: list[tuple[bytes, bytes]]) -> None:
    assert isinstance(requested_form(headers), RequestedForm)


@pytest.mark.parametrize("answer", [
    create_dual_mode_response({"a": 1}, operation="x"),
    create_dual_mode_error("Gone.", operation="x"),
], ids=["data", "error"])  # fmt: skip
def test_code_gets_no_display(answer: Any) -> None:
    assert present(answer, RequestedForm()) == answer
    for question in (
        RequestedForm("json", "chat"),
        RequestedForm("markdown", "code"),
        RequestedForm("json", "code"),
    ):
        seen = present(answer, question)
        assert "display" not in seen
        assert {**seen, "display": answer["display"]} == answer
        assert validate_dual_mode(seen) == []
    assert "display" in answer
