"""Wrapped tools: whatever they return or raise, the answer has its shape, and tells nothing it should not."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, get_type_hints

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from dualsql import DualResponse
from dualsql.envelope import (
    RESPONSE_SCHEMA,
    AnswerEvent,
    Bounds,
    create_dual_mode_response,
    create_error_response,
    create_success_response,
    log_answers,
    staged_data,
    validate_dual_mode,
    validate_response,
    wrap_dual_mode,
    wrap_tool_response,
)
from dualsql.errors import ConfigurationError, QueryExecutionError, UnknownColumnError
from tests.envelope.values import anything, envelopes

SECRET = "postgresql://admin:hunter2@db.internal/prod"


def answering(value: Any) -> Callable[[], Any]:
    return lambda: value


@pytest.mark.long
@given(anything | envelopes)
def test_whatever_a_tool_returns_its_answer_is_valid(value: Any) -> None:
    assert validate_response(wrap_tool_response(answering(value))()) == []
    assert validate_dual_mode(wrap_dual_mode(answering(value))()) == []


@pytest.mark.long
@given(anything, st.text(), st.text(), anything)
def test_whatever_is_put_into_an_answer_it_is_valid_or_refused(
    data: Any, message: str, code: str, details: Any
) -> None:
    wrapped = [
        wrap_tool_response(lambda: create_success_response(data, text=message)),
        wrap_tool_response(lambda: create_error_response(message, code, details)),
    ]
    for tool in wrapped:
        answer = tool()
        assert validate_response(answer) == []
        json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()


def test_data_is_wrapped_and_read_out() -> None:
    @wrap_tool_response
    def describe(name: str) -> dict[str, Any]:
        return {"name": name, "opened": date(2026, 1, 2)}

    answer = describe("Ana")
    assert answer["data"] == {"name": "Ana", "opened": "2026-01-02"}
    assert answer["content"] == [{"type": "text", "text": "name: Ana\nopened: 2026-01-02"}]
    moment = datetime.fromisoformat(answer["timestamp"])
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)


async def test_an_async_tool_stays_one() -> None:
    @wrap_tool_response
    async def later(name: str) -> list[str]:
        await asyncio.sleep(0)
        return [name]

    assert inspect.iscoroutinefunction(later)
    assert (await later("a"))["data"] == {"result": ["a"]}


class Later:
    async def __call__(self) -> int:
        return 1


async def test_so_do_objects_and_functions_that_hand_on_a_coroutine() -> None:
    async def one() -> int:
        return 1

    async def broken() -> int:
        raise ValueError(SECRET)

    def handed(tool: Callable[[], Awaitable[int]]) -> Awaitable[int]:
        return tool()

    assert (await wrap_tool_response(Later())())["data"] == {"result": 1}
    assert (await wrap_tool_response(handed)(one))["data"] == {"result": 1}
    assert (await wrap_tool_response(handed)(broken))["error"]["code"] == "TOOL_EXECUTION_ERROR"


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ({"success": True, "data": [1]}, {"data": {"result": [1]}, "text": "result:\n- 1"}),
        ({"success": True, "message": "Started."}, {"text": "Started.", "message": "Started."}),
        ({"success": True, "message": "Started.", "data": {"id": 7}}, {"text": "Started.\n\nid: 7"}),
        ({"success": True, "id": 7}, {"text": "id: 7", "id": 7}),
        ({"success": True}, {"text": "Done."}),
        ({"success": True, "content": []}, {"text": "Done."}),
        ({"success": False, "message": "Gone."}, {"code": "UNKNOWN_ERROR", "text": "Error: Gone."}),
        ({"success": False, "error": "Gone."}, {"code": "UNKNOWN_ERROR", "text": "Error: Gone."}),
        ({"success": False, "error": {"message": "Gone.", "code": "GONE"}}, {"code": "GONE", "text": "Error: Gone."}),
        ({"success": False, "error": {"details": None}}, {"text": "Error: Unknown error."}),
        ({"success": False, "error": {"message": "a", "details": [1]}}, {"details": {"result": [1]}}),
        (
            {"success": False, "error": {"message": "Gone.", "details": {"suggestion": "Run it again."}}},
            {"text": "Error: Gone.\nRun it again."},
        ),
        ({"content": [{"type": "text", "text": "hello"}]}, {"text": "hello", "success": True}),
        ({"content": [{"type": "text", "text": "boom"}], "isError": True}, {"text": "boom", "message": "boom"}),
        ({"content": [{"type": "text", "text": "boom"}], "error": "Gone.", "id": 1}, {"message": "Gone."}),
        ({"content": "a column", "id": 1}, {"data": {"content": "a column", "id": 1}}),
        ({"content": [{"id": 1}]}, {"data": {"content": [{"id": 1}]}}),
        ({"ok": True, "error": None}, {"data": {"ok": True, "error": None}}),
        ({"error": {}, "id": 1}, {"data": {"error": {}, "id": 1}}),
        ({"status": "errors", "ok": 0}, {"data": {"status": "errors", "ok": 0}}),
        ({"error": "0.3", "name": "slope"}, {"data": {"error": "0.3", "name": "slope"}}),
        ({"error": {"code": "GONE", "message": "Gone."}}, {"code": "GONE", "text": "Error: Gone."}),
        ({"error": {"code": "GONE", "message": "Gone."}, "id": 7}, {"code": "GONE", "text": "Error: Gone.", "id": 7}),
        ({"error": "Gone."}, {"code": "UNKNOWN_ERROR", "text": "Error: Gone."}),
        ({"ok": False, "message": "Gone."}, {"code": "UNKNOWN_ERROR", "text": "Error: Gone."}),
        ({"ok": False}, {"text": "Error: Unknown error."}),
        ({"status": "error", "message": "Gone.", "code": "GONE"}, {"code": "GONE", "text": "Error: Gone."}),
        ({"isError": True, "message": "Gone."}, {"text": "Error: Gone."}),
        ("plain\ntext", {"text": "plain\ntext", "data": {"result": "plain\ntext"}}),
        (None, {"text": "Done."}),
    ],
)  # fmt: skip
def test_half_an_envelope_is_made_whole(returned: Any, expected: dict[str, Any]) -> None:
    answer = wrap_tool_response(answering(returned))()
    assert validate_response(answer) == []
    error = answer.get("error", {})
    seen = {**error, **answer, "text": answer["content"][0].get("text")}
    assert {name: seen[name] for name in expected} == expected


def test_a_whole_answer_stays_as_it_is() -> None:
    response = create_success_response({"a": 1}, text="One.")
    assert wrap_tool_response(answering(response))() == response
    failed = create_error_response("Gone.", "GONE", {"suggestion": "Look again."})
    assert wrap_tool_response(answering(failed))() == failed


@pytest.mark.parametrize(
    "returned",
    [
        {"success": True, "content": [{"text": "no type"}]},
        {"success": True, "content": "text"},
        {"success": True, "error": {"code": "A", "message": "b"}},
        {"success": True, "content": [{"type": "image", "url": "javascript:alert(1)", "altText": "x"}]},
    ],
)
def test_what_cannot_be_made_whole_is_an_error_that_says_why(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = wrap_tool_response(answering(returned), name="tool")()
    assert answer["error"]["code"] == "INVALID_RESPONSE_FORMAT"
    [issue] = answer["error"]["details"]["issues"]
    assert issue in caplog.text and "'tool'" in caplog.text
    assert "alert" not in str(answer)


def test_a_dual_response_brings_its_own_text() -> None:
    response = DualResponse(
        resource_id="r1", resource_uri="resource://r1", resource_url="http://127.0.0.1/r1", name="Schools",
        sample=[{"a": 1}], total_count=3, total_count_kind="exact",
        columns=[{"name": "a", "type": "number", "encoding": "integer"}],
        created_at=datetime.now(UTC), expires_at=None,
    )  # fmt: skip
    answer = wrap_tool_response(answering(response))()
    assert answer["content"] == [{"type": "text", "text": response.to_text()}]
    assert answer["data"]["resource"]["uri"] == "resource://r1"
    dual_mode = wrap_dual_mode(answering(response), operation="find")()
    assert dual_mode["data"] == response.to_staged_content(operation="find")
    assert dual_mode["data"].items() >= answer["data"].items()
    assert (dual_mode["data"]["dataAccessId"], dual_mode["data"]["entities"]) == ("r1", 3)
    assert dual_mode["data"]["queryAccess"]["endpoint"] == "/sql"
    assert json.dumps(dual_mode).count("http://127.0.0.1/r1") == 1
    assert (dual_mode["metadata"]["status"], dual_mode["metadata"]["operation"]) == ("staged", "find")
    assert dual_mode["display"] == {"type": "markdown", "content": response.to_text()}
    html = wrap_dual_mode(answering(response), shown="html")()
    assert (html["display"]["type"], html["metadata"]["status"]) == ("html", "staged")
    from_wire = wrap_tool_response(answering(response.to_mcp_tool_result()))()
    assert from_wire["data"] == answer["data"]
    assert from_wire["content"][1]["identifier"] == "resource://r1"


def raising(error: BaseException) -> Callable[[], Any]:
    def tool() -> Any:
        raise error

    return tool


@pytest.mark.parametrize("wrap", [wrap_tool_response, wrap_dual_mode])
def test_a_foreign_exception_is_an_incident(
    wrap: Callable[..., Callable[[], Any]], caplog: pytest.LogCaptureFixture
) -> None:
    answer = wrap(raising(ValueError(SECRET)))()
    assert "hunter2" not in json.dumps(answer)
    assert "ValueError" not in json.dumps(answer)
    incident = answer["error"]["details"]["incident"]
    assert re.fullmatch("[0-9a-f]{16}", incident)
    [record] = [record for record in caplog.records if incident in record.getMessage()]
    assert record.exc_info and str(record.exc_info[1]) == SECRET
    assert answer["error"]["code"] == "TOOL_EXECUTION_ERROR"


def test_two_incidents_have_two_numbers() -> None:
    tool = wrap_tool_response(raising(KeyError(SECRET)))
    assert tool()["error"]["details"] != tool()["error"]["details"]


def test_an_error_of_ours_says_what_it_was_written_to_say() -> None:
    answer = wrap_tool_response(raising(UnknownColumnError("nmae", ["name", "city"])))()
    assert answer["error"] == {
        "code": "UNKNOWN_COLUMN",
        "message": "The result has no column 'nmae'.",
        "details": {
            "column": "nmae",
            "columns": ["name", "city"],
            "suggestions": ["name"],
            "suggestion": "Did you mean 'name'?",
        },
    }
    assert answer["content"] == [
        {"type": "text", "text": "Error: The result has no column 'nmae'.\nDid you mean 'name'?"}
    ]


def test_its_cause_is_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    def query() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError as error:
            raise QueryExecutionError("The database refused the statement.") from error

    answer = wrap_tool_response(query)()
    assert "hunter2" not in json.dumps(answer)
    assert "hunter2" in caplog.text
    assert answer["error"]["details"]["incident"] in caplog.text


def test_an_error_of_ours_may_be_badly_made() -> None:
    error = QueryExecutionError(404, hint=405)  # type: ignore[arg-type]
    answer = wrap_tool_response(raising(error))()
    assert answer["content"] == [{"type": "text", "text": "Error: 404\n405"}]


def test_details_without_json_do_not_hide_the_error() -> None:
    answer = wrap_tool_response(raising(QueryExecutionError("No.", hint="Ask.", details={"a": object()})))()
    assert answer["error"]["message"] == "No."
    assert answer["error"]["details"] == {"suggestion": "Ask."}


class RaisingObject(dict[str, Any]):
    """Its reading fails, or brings the secret up."""

    def items(self) -> Any:
        raise RuntimeError(SECRET)


def test_a_result_that_cannot_be_read_is_an_incident() -> None:
    answer = wrap_tool_response(answering(RaisingObject(a=1)))()
    assert answer["error"]["code"] == "TOOL_EXECUTION_ERROR"
    assert "hunter2" not in str(answer)


@pytest.mark.quick(1)
@pytest.mark.parametrize("value", [[0] * 200_000, "x" * 3_000_000])
def test_a_result_too_large_is_refused_and_not_cut(value: Any) -> None:
    answer = wrap_tool_response(answering(value))()
    assert answer["error"]["code"] == "LIMIT_EXCEEDED"
    assert "sample" in answer["error"]["details"]["suggestion"]
    assert wrap_tool_response(answering(value), bounds=Bounds(values=300_000, characters=10**7))()["success"]


@pytest.mark.parametrize(
    "failure",
    [
        {"error": {"code": "GONE", "message": "Gone."}},
        {"ok": False, "error": {"code": "GONE", "message": "Gone."}},
        {"status": "error", "code": "GONE", "message": "Gone."},
        {"success": False, "code": "GONE", "message": "Gone."},
        {"isError": True, "code": "GONE", "message": "Gone."},
    ],
    ids=lambda failure: next(iter(failure)),
)
def test_a_failure_in_any_words_is_no_success(failure: dict[str, Any]) -> None:
    for wrap in (wrap_tool_response, wrap_dual_mode):
        answer: Any = wrap(answering(failure))()
        assert (answer["success"], answer["error"]) == (False, {"code": "GONE", "message": "Gone."})
        assert answer.get("metadata", {}).get("status", "error") == "error"


async def test_a_cancelled_call_stays_cancelled() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    task = asyncio.ensure_future(wrap_tool_response(forever)())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_nor_is_an_interrupt_an_answer() -> None:
    with pytest.raises(KeyboardInterrupt):
        wrap_tool_response(raising(KeyboardInterrupt()))()


def test_wrong_arguments_are_an_answer_too() -> None:
    def tool(a: int) -> int:
        return a

    async def later(a: int) -> int:
        return a

    assert wrap_tool_response(tool)()["success"] is False  # type: ignore[call-arg]
    assert asyncio.run(wrap_tool_response(later)())["success"] is False  # type: ignore[arg-type,call-arg]


def test_a_wrapped_tool_looks_like_the_tool() -> None:
    def tool(a: int, *, b: str = "x") -> list[int]:
        """What it does."""
        return [a]

    wrapped = wrap_tool_response(tool)
    assert (wrapped.__name__, wrapped.__doc__) == ("tool", "What it does.")
    assert str(inspect.signature(wrapped)).startswith("(a: int, *, b: str = 'x') -> ")
    hints = get_type_hints(wrapped)
    assert TypeAdapter(hints.pop("return")).json_schema() == RESPONSE_SCHEMA
    assert hints == {"a": int, "b": str}


def test_annotations_for_type_checkers_only_do_no_harm() -> None:
    def tool(a):  # type: ignore[no-untyped-def]
        return a

    tool.__annotations__ = {"a": "SomewhereElse", "return": "list[SomewhereElse]"}
    signature = inspect.signature(wrap_tool_response(tool))
    assert TypeAdapter(signature.return_annotation).json_schema() == RESPONSE_SCHEMA
    assert signature.parameters["a"].annotation == "SomewhereElse"
    built_in: Callable[..., int] = max
    assert wrap_tool_response(built_in)(1, 2)["data"] == {"result": 2}


def test_the_audit_has_names_and_sizes_and_no_row() -> None:
    events: list[AnswerEvent] = []
    data = {"rows": [{"name": "Ana Secret"}], "Ana Secret": 1}
    answer = wrap_tool_response(answering(data), name="find", audit=events.append)()
    wrap_tool_response(raising(ValueError(SECRET)), name="find", audit=events.append)()
    wrap_dual_mode(answering(data), operation="find", audit=events.append)()
    actual, failed, dual = events
    assert (actual.tool, actual.success, actual.code, actual.content_types) == ("find", True, None, ("text",))
    assert actual.data_bytes == len(json.dumps(answer["data"]))
    assert actual.text_characters == len(answer["content"][0]["text"])
    assert (failed.success, failed.code, failed.data_bytes) == (False, "TOOL_EXECUTION_ERROR", 0)
    assert failed.incident
    assert (dual.envelope, dual.content_types) == ("dual_mode", ("markdown",))
    assert "Secret" not in str(events) and "hunter2" not in str(events)
    assert all(event.seconds >= 0 for event in events)


def test_an_event_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dualsql.audit")
    wrap_tool_response(answering({"a": "Ana"}), name="find\nforged line", audit=log_answers)()
    assert re.search(r"answer tool='find\\nforged line' envelope=response success=True", caplog.text)
    assert "Ana" not in caplog.text


def test_no_answer_without_its_event() -> None:
    def broken(event: AnswerEvent) -> None:
        raise OSError(SECRET)

    answer = wrap_tool_response(answering({"a": 1}), audit=broken)()
    assert answer["success"] is False and "data" not in answer
    assert "hunter2" not in str(answer)


def test_a_hook_nobody_would_await_is_refused() -> None:
    async def hook(event: AnswerEvent) -> None: ...

    with pytest.raises(ConfigurationError, match="synchronous function"):
        wrap_tool_response(answering(1), audit=hook)  # type: ignore[arg-type]


def test_a_dual_mode_answer_that_knows_more_stays() -> None:
    response = create_dual_mode_response({"a": 1}, operation="find", cached=True, shown="html")
    answer = wrap_dual_mode(answering(response), operation="other")()
    assert answer["metadata"]["cached"] is True
    assert answer["metadata"]["operation"] == "find"
    assert answer["display"] == response["display"]


def test_half_a_dual_mode_answer_is_made_whole() -> None:
    failed = wrap_dual_mode(answering({"success": False, "error": {"message": "Gone.", "code": "GONE"}}))()
    assert failed["error"] == {"code": "GONE", "message": "Gone."}
    assert wrap_dual_mode(answering({"success": True, "data": {"a": 1}}))()["data"] == {"a": 1}
    staged = staged_data(data_access_id="r1", operation="find", entities=25)
    assert wrap_dual_mode(answering(staged))()["metadata"]["status"] == "staged"
    malformed = {"success": True, "data": 3, "metadata": {}}
    assert wrap_dual_mode(answering(malformed))()["error"]["code"] == "INVALID_RESPONSE_FORMAT"
