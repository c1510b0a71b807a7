"""What is said of an answer that has not its shape; and that the published schemas say the same."""

from __future__ import annotations

import copy
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from dualsql.envelope import (
    DUAL_MODE_SCHEMA,
    RESPONSE_SCHEMA,
    create_dual_mode_error,
    create_dual_mode_response,
    create_error_response,
    create_success_response,
    dual_mode_schema,
    image_item,
    resource_item,
    staged_data,
    text_item,
    validate_dual_mode,
    validate_response,
)
from dualsql.envelope.shapes import ContentItem
from dualsql.envelope.validation import _KEYWORDS, _PATTERNS, IMAGE_URL_PATTERN, validate
from dualsql.envelope.values import is_plain
from dualsql.errors import BadParameterError, LimitExceededError
from tests.envelope.values import envelopes, json_values

GOOD: dict[str, Any] = {
    "success": True,
    "timestamp": "2026-01-31T12:00:00Z",
    "content": [
        {"type": "text", "text": "Two servers."},
        {
            "type": "image",
            "url": "https://example.com/cpu.png",
            "altText": "CPU",
            "width": 800,
            "caption": "A day",
        },
        {
            "type": "resource",
            "resourceType": "url",
            "identifier": "http://localhost",
            "name": "UI",
            "metadata": {},
        },
    ],
    "data": {"count": 2},
}
BAD: dict[str, Any] = {
    "success": False,
    "timestamp": "2026-01-31T12:00:00.123+02:00",
    "content": [{"type": "text", "text": "Error: gone"}],
    "error": {"code": "GONE", "message": "gone", "details": {"suggestion": "Start it again."}},
}


def changed(answer: dict[str, Any], path: str, value: Any = None) -> dict[str, Any]:
    """A copy with another value at `path`; without one, the place is removed."""
    other: Any = copy.deepcopy(answer)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    inner = other
    for part in parents:
        inner = inner[part]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    assert isinstance(other, dict)
    return other


def test_an_answer_in_order_has_no_faults() -> None:
    assert validate_response(GOOD) == validate_response(BAD) == []


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ([], "The response must be an object, not an array."),
        (None, "The response must be an object, not null."),
        (changed(GOOD, "success"), "success is missing."),
        (changed(GOOD, "success", "yes"), "success must be a boolean, not a string."),
        (changed(GOOD, "success", 1), "success must be a boolean, not an integer."),
        (changed(GOOD, "success", 0), "success must be a boolean, not an integer."),
        (changed(GOOD, "timestamp"), "timestamp is missing."),
        (changed(GOOD, "timestamp", 1.5), "timestamp must be a string, not a number."),
        (
            changed(GOOD, "timestamp", "2026-01-31 12:00"),
            "timestamp must be a date and time with its zone, such as 2026-01-31T12:00:00Z.",
        ),
        (changed(GOOD, "content"), "content is missing."),
        (changed(GOOD, "content", "text"), "content must be an array, not a string."),
        (changed(GOOD, "content", []), "content must not be empty."),
        (changed(GOOD, "content.0", 7), "content[0] must be an object, not an integer."),
        (changed(GOOD, "content.0.type"), "content[0].type is missing."),
        (changed(GOOD, "content.0.type", ""), "content[0].type must not be empty."),
        (changed(GOOD, "content.0.text"), "content[0].text is missing, because type is text."),
        (changed(GOOD, "content.1.altText"), "content[1].altText is missing, because type is image."),
        (changed(GOOD, "content.1.width", -1), "content[1].width must be at least 0, because type is image."),
        (
            changed(GOOD, "content.1.url", "javascript:alert(1)"),
            f"content[1].url must be {_PATTERNS[IMAGE_URL_PATTERN]}, because type is image.",
        ),
        (changed(GOOD, "content.2.name"), "content[2].name is missing, because type is resource."),
        (changed(GOOD, "data", [1]), "data must be an object, not an array."),
        ({**GOOD, "error": BAD["error"]}, "error must not be there, because success is true."),
        (changed(BAD, "error"), "error is missing, because success is false."),
        (changed(BAD, "error", "gone"), "error must be an object, not a string."),
        (changed(BAD, "error.code"), "error.code is missing."),
        (changed(BAD, "error.message", ""), "error.message must not be empty."),
        (changed(BAD, "error.details", ["a"]), "error.details must be an object, not an array."),
    ],
)
def test_every_fault_is_a_sentence(answer: Any, fault: str) -> None:
    assert validate_response(answer) == [fault]
    assert not Draft202012Validator(RESPONSE_SCHEMA).is_valid(answer)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "odd", [float("nan"), b"bytes", {1: 2}, (1,), "half \ud800", object(), [[[]]] * 300_000]
)
def test_what_is_not_json_is_a_fault(odd: Any) -> None:
    [fault] = validate_response({**GOOD, "data": {"odd": odd}})
    assert fault.startswith("The response is not JSON")


def test_what_holds_itself_is_a_fault() -> None:
    endless: dict[str, Any] = dict(GOOD)
    endless["data"] = endless
    assert len(validate_response(endless)) == 1


def test_faults_are_bounded_and_hold_no_value() -> None:
    faults = validate_response(
        {"success": "secret", "timestamp": "secret", "content": [{"type": ["secret"]}] * 5_000}
    )
    assert len(faults) == 20
    assert "secret" not in " ".join(faults)


def test_a_day_with_a_line_break_behind_it_is_none() -> None:
    assert validate_response(changed(GOOD, "timestamp", GOOD["timestamp"] + "\n"))


STAGED = create_dual_mode_response(
    staged_data(data_access_id="r1", operation="find", payload_size=2_040_000, entities=25, table="t"),
    operation="find",
)


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("success", None, "success is missing."),
        ("metadata", None, "metadata is missing, because success is true."),
        ("data", None, "data is missing, because success is true."),
        (
            "data.payloadSize",
            "2 MB",
            "data.payloadSize must be an integer, not a string, because dataAccessId is there.",
        ),
        ("data.entities", -1, "data.entities must be at least 0, because dataAccessId is there."),
        ("metadata.status", "done", "metadata.status must be one of success, error, staged."),
        ("metadata.operation", None, "metadata.operation is missing, because success is true."),
        ("metadata.cached", "no", "metadata.cached must be a boolean, not a string."),
        ("metadata.executionTime", -0.5, "metadata.executionTime must be at least 0."),
        ("display.type", "pdf", "display.type must be one of text, markdown, html."),
        ("display.content", None, "display.content is missing."),
    ],
)
def test_of_a_dual_mode_answer_too(path: str, value: Any, fault: str) -> None:
    assert validate_dual_mode(STAGED) == []
    answer = changed(dict(STAGED), path, value)
    assert validate_dual_mode(answer) == [fault]
    assert not Draft202012Validator(DUAL_MODE_SCHEMA).is_valid(answer)


def test_a_tool_can_publish_what_its_data_is() -> None:
    schema = dual_mode_schema({"type": "object", "required": ["schools"]})
    Draft202012Validator.check_schema(schema)
    assert validate(create_dual_mode_response({"schools": 3}, operation="count"), schema) == []
    assert validate(create_dual_mode_response(operation="count"), schema) == ["data.schools is missing."]


def keywords_of(schema: Any) -> set[str]:
    """All keywords of a schema, those below `properties` left out that are names."""
    if isinstance(schema, list):
        return set().union(*map(keywords_of, schema))
    if not isinstance(schema, dict):
        return set()
    actual = set(schema)
    for keyword, rule in schema.items():
        if keyword == "properties":
            actual = actual.union(*map(keywords_of, rule.values()))
        elif keyword not in ("const", "enum"):
            actual |= keywords_of(rule)
    return actual


@pytest.mark.parametrize("schema", [RESPONSE_SCHEMA, DUAL_MODE_SCHEMA])
def test_no_keyword_of_the_schemas_is_overlooked(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    annotations = {"$schema", "title", "format"}
    assert keywords_of(schema) <= set(_KEYWORDS) | {"type", "if", "then"} | annotations


@pytest.mark.long
@pytest.mark.parametrize("schema", [RESPONSE_SCHEMA, DUAL_MODE_SCHEMA])
@given(answer=envelopes.filter(is_plain) | json_values)
def test_another_validator_agrees(schema: dict[str, Any], answer: Any) -> None:
    assert Draft202012Validator(schema).is_valid(answer) == (not validate(answer, schema))


places = st.sampled_from(
    "success timestamp content data error content.0.type content.0.text content.1.url".split()
)


@given(st.sampled_from([GOOD, BAD]), st.lists(st.tuples(places, json_values | st.none()), max_size=3))
def test_another_validator_agrees_close_to_the_edge(
    answer: dict[str, Any], changes: list[tuple[str, Any]]
) -> None:
    for path, value in changes:
        try:
            answer = changed(answer, path, value)
        except (KeyError, IndexError, TypeError):
            continue
    assert Draft202012Validator(RESPONSE_SCHEMA).is_valid(answer) == (not validate_response(answer))


def test_items_are_made_in_order_or_not_at_all() -> None:
    items: list[ContentItem] = [
        text_item("half \ud800"),
        image_item("/charts/1.png", "A chart", width=10, height=20, caption="One"),
        image_item("data:image/png;base64,AAAA", ""),
        resource_item("dual_response", "resource://r1", "Schools", description="All", metadata={"rows": 3}),
    ]
    assert validate_response(create_success_response(content=items)) == []


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        " javascript:x",
        "JavaScript:x",
        "vbscript:x",
        "data:text/html;base64,AAAA",
        "data:image/svg+xml;base64,AA",
        "//evil.example/x.png",
        "/\\evil.example",
        "https://",
        "https://a b",
        "https://a\n",
        "file:///etc/passwd",
        "",
    ],
)
def test_no_picture_is_a_script(url: str) -> None:
    with pytest.raises(BadParameterError):
        image_item(url, "x")


def test_items_that_are_too_much_together_are_refused() -> None:
    with pytest.raises(LimitExceededError):
        create_success_response(content=[text_item("x" * 1_500_000)] * 3)


MALFORMED = [
    lambda: image_item("/a.png", "x", width=-1),
    lambda: image_item("/a.png", "x", width="10"),  # type: ignore[arg-type]
    lambda: text_item(3),  # type: ignore[arg-type]
    lambda: resource_item("", "a", "b"),
    lambda: resource_item("a", "", "b"),
    lambda: resource_item("a", "b", "c", metadata=["no"]),  # type: ignore[arg-type]
    lambda: create_success_response(content=[{"type": "image"}]),  # type: ignore[list-item]
    lambda: create_success_response({"a": object()}),
    lambda: create_error_response("x", details={"a": object()}),
    lambda: create_dual_mode_response({"dataAccessId": 3}, operation="x"),
    lambda: create_dual_mode_error("x", operation="x", details={"a": 1j}),
]


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_what_would_be_malformed_is_refused(number: int) -> None:
    with pytest.raises(BadParameterError):
        MALFORMED[number]()


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (
            {"at": datetime(2026, 1, 2, tzinfo=UTC)},
            "data.at is a datetime of Python's; isoformat() makes a text of it.",
        ),
        ({"rows": [{"on": date(2026, 1, 2)}]}, "data.rows[0].on is a date of Python's; isoformat()"),
        ({"mean": float("inf")}, "data.mean is NaN or infinite; null stands for that."),
        ({"name": b"Ana"}, "data.name is a bytes of Python's."),
        ({1: 2}, "a name in data is an int, and no text."),
    ],
)
def test_what_is_not_json_is_named_with_its_place(data: Any, fault: str) -> None:
    [said] = validate_response({**GOOD, "data": data})
    assert said.startswith(f"The response is not JSON: {fault}")
    assert "2026" not in said and "Ana" not in said
