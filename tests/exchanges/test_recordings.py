"""The recordings hold what they should, and a difference is found: the comparison can fail."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.routing import Match, Route

from dualsql.errors import DualResponseError
from tests.exchanges.conftest import RECORDINGS
from tests.exchanges.recording import Exchanges, differences, read, shortened, without_wording
from tests.exchanges.subject import make_server, routes_of

FEWEST = {"rest": 400, "mcp": 150, "client": 100, "cli": 40, "documents": 60}
LARGEST = 1_500_000

NOT_REACHED = {
    "CALLER_GONE": "nobody is there to take the answer down",
    "SLOW_BODY": "it takes a slow sender",
    "OLD_PROTOCOL": "it takes HTTP/1.0",
    "DATABASE_BUSY": "it takes a crowd",
    "DATABASE_UNREACHABLE": "it takes a database that fails",
    "SERVER_UNAVAILABLE": "it takes a server that starts or stops",
    "STORAGE_ERROR": "it takes a store that fails",
    "TAMPERED_RESOURCE": "it takes a changed row",
    "COUNT_EXECUTION_FAILED": "it takes a count that fails where the rows do not",
    "QUERY_CANCELLED": "of fastmcp's tasks alone",
    "VALUE_NOT_REPRESENTABLE": "it takes odd rows",
    "MISSING_EXTRA": "it takes an environment without a package",
    "NO_TOTAL_ORDER": "it takes odd statements",
    "RATE_LIMITED": "how long to wait is another number each time",
    "INSUFFICIENT_SCOPE": "it takes tokens with scopes",
}


def recorded(kind: str) -> list[dict[str, Any]]:
    """Everything recorded of a kind, whatever the engine."""
    return [one for file in sorted((RECORDINGS / kind).glob("*.jsonl")) for one in read(file)]


@pytest.mark.parametrize("kind", FEWEST)
def test_enough_is_recorded(kind: str) -> None:
    assert len(recorded(kind)) >= FEWEST[kind]


def test_recordings_are_small_and_of_tests_that_are() -> None:
    assert sum(file.stat().st_size for file in RECORDINGS.rglob("*.jsonl")) <= LARGEST
    assert {folder.name for folder in RECORDINGS.iterdir()} == set(FEWEST)


def test_every_route_has_an_exchange(sqlite_schools: str) -> None:
    asked = [one["asked"].split(" ")[:2] for one in recorded("rest") if one["asked"][0].isupper()]
    paths = {
        (method, re.sub(r"<id-\d+>", "abc", path.partition("?")[0]).removeprefix("/resources"))
        for method, path in (words for words in asked if len(words) == 2)
    }
    missing = []
    for route in routes_of(make_server(sqlite_schools)):
        assert isinstance(route, Route)
        for method in route.methods or ("OTHER",):
            scopes: list[dict[str, Any]] = [
                {"type": "http", "method": said, "path": path} for said, path in paths
            ]
            if method != "OTHER":
                scopes = [scope for scope in scopes if scope["method"] == method]
            if not any(route.matches(scope)[0] is not Match.NONE for scope in scopes):
                missing.append(f"{method} {route.path}")
    assert missing == []


def test_every_parameter_that_the_service_announces_is_asked_with() -> None:
    everything = recorded("rest")
    service = next(one for one in everything if one["asked"].endswith("resource-link-service"))
    queries = "\n".join(one["asked"] for one in everything)
    missing = []
    for endpoint in service["answer"]["body"]["endpoints"]:
        query, body = endpoint["parameters"]["query"], endpoint["parameters"]["body"]
        missing += [f"?{name}" for name in query if not re.search(rf"[?&]{name}=", queries)]
        missing += [name for name in body if f'"{name}":' not in queries]
    assert missing == []


def _codes(value: Any) -> set[str]:
    held: list[Any] = list(value.values()) if isinstance(value, dict) else value
    own = {value["code"]} if isinstance(value, dict) and isinstance(value.get("code"), str) else set()
    return own.union(*map(_codes, held)) if isinstance(held, list) else own


def _errors(error: type[DualResponseError]) -> set[str]:
    return {error.code}.union(*map(_errors, error.__subclasses__()))


def test_every_code_that_can_be_reached_is_recorded(sqlite_schools: str) -> None:
    routes_of(make_server(sqlite_schools))  # REST has errors of its own, which are met when it is
    actual = set().union(*(_codes(recorded(kind)) for kind in FEWEST))
    assert _errors(DualResponseError) - actual == set(NOT_REACHED)


SAID: dict[str, Any] = {
    "status": 400,
    "body": {
        "code": "BAD_PARAMETER",
        "message": "limit is out of bounds.",
        "data": [{"id": 1, "name": "A school"}, {"id": 2, "name": "Another"}],
        "text": "Schools: 2 rows.\n\n|id|\n|-|\n|1|",
    },
}


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(answer: Any) -> None:
        *outer, last = path.split(".")
        for name in outer:
            answer = answer[int(name)] if isinstance(answer, list) else answer[name]
        answer[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "is_wording"),
    [
        (_set("status", 422), False),
        (_set("body.code", "UNKNOWN_COLUMN"), False),
        (_set("body.data.0.id", 1.0), False),
        (_set("body.data.0.id", True), False),
        (_set("body.data.1.name", "Other"), False),
        (_set("body.more", None), False),
        (lambda answer: answer["body"].pop("data"), False),
        (lambda answer: answer["body"]["data"].reverse(), False),
        (lambda answer: answer["body"].update(code=answer["body"].pop("code")), False),
        (_set("body.text", "Schools: 2 rows.\n\n|id|\n|-|\n|2|"), False),
        (_set("body.text", "Two schools.\n\n|id|\n|-|\n|1|"), True),
        (_set("body.message", "limit is too large."), True),
    ],
    ids=range(12),
)
def test_a_difference_is_found(change: Callable[[dict[str, Any]], None], is_wording: bool) -> None:
    before: list[dict[str, Any]] = [{"asked": "GET /", "answer": SAID}]
    now = copy.deepcopy(before)
    assert differences(before, now) == []
    change(now[0]["answer"])
    assert differences(before, now) != []
    assert bool(differences(before, now, any_wording=True)) is not is_wording


def test_exchanges_that_are_more_fewer_or_others_are_found() -> None:
    one, other = {"asked": "GET /", "answer": 1}, {"asked": "GET /x", "answer": 1}
    assert differences([one], [one, one])
    assert differences([one, one], [one])
    assert differences([one], [other])
    assert differences([one, other], [other, one])


def test_a_recorded_value_that_is_altered_is_found() -> None:
    for kind in FEWEST:
        for file in (RECORDINGS / kind).glob("*.jsonl"):
            had = read(file)
            altered = copy.deepcopy(had)
            altered[-1]["answer"] = {"altered": altered[-1]["answer"]}
            assert differences(had, had) == []
            assert differences(altered, had)
            assert differences(altered, had, any_wording=True)


def test_what_is_long_is_told_by_its_digests() -> None:
    long = {"message": "a" * 7_000, "rows": list(range(1_000))}
    short = shortened(long)
    assert short["$length"] > 7_000 and len(short["$head"]) == 300
    other_words = shortened({**long, "message": "b" * 7_000})
    assert other_words != short and without_wording(other_words) == without_wording(short)
    assert without_wording(shortened({**long, "rows": [1]})) != without_wording(short)


def test_what_differs_between_runs_is_told_alike() -> None:
    def told(one: str, other: str, minutes: int) -> list[dict[str, Any]]:
        begun = datetime(2026, 11, 22, 5, minutes, tzinfo=UTC)
        exchanges = Exchanges(begun=begun)
        instant = f"2026-11-22T05:{minutes + 15:02}:00.125Z"
        for uri in (one, other, one):
            exchanges.add(
                f"GET {uri}", {"uri": f"resource://{uri}", "expires_at": instant, "seconds": minutes}
            )
        return exchanges.had

    first = told("q4T-9_hXv2ZkLwPmB7sYd1RcE0a", "A4T-9_hXv2ZkLwPmB7sYd1RcE0a", 1)
    assert first == told("q5T-9_hXv2ZkLwPmB7sYd1RcE0a", "B4T-9_hXv2ZkLwPmB7sYd1RcE0a", 30)
    assert [one["asked"] for one in first] == ["GET <id-1>", "GET <id-2>", "GET <id-1>"]
    assert first[0]["answer"] == {
        "uri": "resource://<id-1>",
        "expires_at": "<now+15m>",
        "seconds": "<duration>",
    }
