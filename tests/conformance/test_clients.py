"""Both clients against careful and careless servers, and commands that do what no client may."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from dualsql.conformance.clients import check_client
from dualsql.conformance.run import report
from tests.javascript.running import SOURCE, node

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


async def test_a_command_that_is_no_client_fails() -> None:
    outcomes = await check_client(shlex.join([sys.executable, "-c", "print('no JSON')"]))
    assert {each.verdict for each in outcomes} == {"failed"}
