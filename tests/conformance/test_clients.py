"""Both clients against careful and careless servers, and commands that do what no client may."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from dualsql.conformance import clients
from dualsql.conformance.clients import check_client
from dualsql.conformance.run import report
from tests.javascript.running import SOURCE, node
from tests.serve.test_workers import is_running
from tests.waiting import until

HERE = Path(__file__).parent


@pytest.mark.long
async def test_the_python_client() -> None:
    outcomes = await check_client(shlex.join([sys.executable, str(HERE / "python_client.py")]))
    assert {each.verdict for each in outcomes} == {"passed"}, report(outcomes)


@pytest.mark.long
async def test_the_javascript_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALSQL_CLIENT", SOURCE.as_uri())
    outcomes = await check_client(shlex.join([node(), str(HERE / "client.mjs")]))
    assert {each.verdict for each in outcomes} == {"passed"}, report(outcomes)


# Follows redirects, and whatever address a result names; ends by the total; takes an error for the end.
NAIVE = """
import json, sys, httpx
job = json.load(sys.stdin)
result, rows = job["toolResult"].get("structuredContent"), []
page, body = {"has_next": bool(result)}, {"limit": 5, "offset": 0}
with httpx.Client(follow_redirects=True) as http:
    while page.get("has_next") and len(rows) < (page.get("total_count", 1) or 0):
        try:
            page = http.post(result["resource"]["url"], json=body).json()
        except (httpx.HTTPError, ValueError):
            break
        rows += page.get("data", [])
        body["offset"] += 5
print(json.dumps({"rows": rows}))
"""


@pytest.mark.long
async def test_what_a_naive_client_does_is_found() -> None:
    outcomes = await check_client(shlex.join([sys.executable, "-c", NAIVE]))
    failed = {each.sentence.number for each in outcomes if each.verdict == "failed"}
    passed = {each.sentence.number for each in outcomes if each.verdict == "passed"}
    assert passed == {"19.1", "19.3", "19.10"}
    assert failed == {f"19.{number}" for number in range(2, 15)} - passed


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo 'no JSON'", "the command ended with code 0 and printed no JSON: b'no JSON"),
        ("echo 1", "the command printed no object"),
        ("exit 3", "the command ended with code 3 and printed no JSON: b''"),
        (
            "head -c 500000 /dev/zero | tr '\\0' '['",
            "the command ended with code 0 and printed no JSON: b'[[",
        ),
        ("cat /dev/zero", "the command printed more than 1048576 bytes"),
    ],
)
async def test_a_command_that_is_no_client_fails(command: str, reason: str) -> None:
    outcomes = await check_client(shlex.join(["sh", "-c", command]))
    assert {each.verdict for each in outcomes} == {"failed"}
    assert all(each.reason.startswith(reason) for each in outcomes), outcomes[0].reason


@pytest.mark.long
async def test_a_command_that_hangs_is_ended_once_with_what_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clients, "SECONDS", 1.0)
    numbers = tmp_path / "numbers"
    command = f"sleep 600 & echo $! >> {numbers}; wait"
    first, *others = await check_client(shlex.join(["sh", "-c", command]))
    assert (first.verdict, first.reason) == ("failed", "the command does not end within 30 seconds")
    assert {each.verdict for each in others} == {"not testable"}
    (number,) = numbers.read_text().split()

    async def has_ended() -> bool:
        return not is_running(int(number))

    await until(has_ended)
