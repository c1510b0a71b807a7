"""The checks against a correct server, and against servers that violate one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dualsql.conformance import probe, run
from dualsql.conformance.probe import Caller, Target, is_below
from dualsql.conformance.rows_server import RefusalError, RowsResource
from dualsql.conformance.run import SentenceOutcome, check_server
from dualsql.conformance.standard import Sentence, sentences, standard
from tests.client.hosting import listening_socket, origin_of, serving
from tests.conformance.mutants import TOKENS, Mutant, RequiredServer

ANA, BOB = TOKENS
UNTESTABLE = {"14.5", "18.1", "18.2", "20.1", "20.2"}
MUTANTS = [each for each in sentences() if each.part != "client" and each.number not in UNTESTABLE]
CALLERS: dict[Caller, str] = {"owner": ANA, "stranger": BOB}


async def outcomes_of(
    fault: str = "", part: str = "", kind: type[RequiredServer] = Mutant
) -> dict[str, SentenceOutcome]:
    with listening_socket() as bound:
        server = kind(origin_of(bound))
        if isinstance(server, Mutant):
            server.fault = fault
        async with serving(server.application(), bound):
            parts = [part] if part else []
            outcomes = await check_server(Target(f"{server.origin}/mcp", tokens=CALLERS), parts)
    if not fault:
        now = datetime.now(UTC)
        left = [each for each in server.resources.values() if not each.is_deleted]
        assert all(each.expires_at and each.expires_at < now for each in left)
    return {each.sentence.number: each for each in outcomes}


@pytest.mark.long
async def test_a_correct_server_passes() -> None:
    outcomes = await outcomes_of()
    assert {number: each.reason for number, each in outcomes.items() if each.verdict == "failed"} == {}
    assert {number for number, each in outcomes.items() if each.verdict != "passed"} == UNTESTABLE


@pytest.mark.long
async def test_a_server_with_the_required_parts_alone_passes() -> None:
    outcomes = await outcomes_of(kind=RequiredServer)
    verdicts = {each.sentence.part: each.verdict for each in outcomes.values() if each.verdict != "passed"}
    assert set(verdicts.values()) == {"not offered", "not testable"}


class Sorted(Mutant):
    """Writes rows with sorted names, as programs in Go do, and errors in words that a database has, too."""

    def page(self, resource: RowsResource, wanted: Mapping[str, Any], start: str) -> dict[str, Any]:
        page = super().page(resource, wanted, start)
        return {**page, "data": [dict(sorted(row.items())) for row in page["data"]]}

    def answer_error(self, error: RefusalError) -> Response:
        words = "Select a column of the result. See line 1 of the body."
        return super().answer_error(RefusalError(error.status, error.code, words))


@pytest.mark.long
async def test_a_server_may_sort_names_and_choose_its_words() -> None:
    outcomes = await outcomes_of(kind=Sorted)
    assert {number: each.reason for number, each in outcomes.items() if each.verdict == "failed"} == {}


class Announcing(RequiredServer):
    """Announces parts that are no names, and gives a row a page, with more to follow for ever."""

    def routes(self) -> list[Route]:
        async def answer(_: Request) -> Response:
            return JSONResponse({"baseUrl": 1, "version": [], "parts": [{}, 3]})

        return [Route(f"/resources{standard()['well_known']}", answer), *super().routes()]

    def page(self, resource: RowsResource, wanted: Mapping[str, Any], start: str) -> dict[str, Any]:
        page = super().page(resource, {**wanted, "limit": 1, "offset": 0}, start)
        return {**page, "has_next": True, start: wanted.get("offset", 0)}


@pytest.mark.long
async def test_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = await outcomes_of(kind=Announcing)
    assert outcomes["4.7"].verdict == outcomes["7.1"].verdict == "failed"
    monkeypatch.setattr(probe, "MOST_REQUESTS", 50)
    outcomes = await outcomes_of(kind=Announcing)
    assert outcomes["4.12"].reason == outcomes["7.4"].reason == "the run has sent 50 requests"


@pytest.mark.long
async def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_SECONDS", 2.0)
    monkeypatch.setattr(run, "_CLEANING_SECONDS", 1.0)
    outcomes = await outcomes_of()
    assert outcomes["5.4"].reason == "the run is bounded to 2 seconds"
    assert outcomes["2.1"].verdict == "passed"


@pytest.mark.quick(6)
@pytest.mark.parametrize("sentence", MUTANTS, ids=[each.number for each in MUTANTS])
async def test_a_violation_is_found_by_name(sentence: Sentence) -> None:
    outcome = (await outcomes_of(sentence.number, sentence.part))[sentence.number]
    assert outcome.verdict == "failed", outcome.reason


async def test_tokens_are_sent_to_the_server_alone() -> None:
    """A tool result names another address; only `base_url` says that requests go there."""
    with listening_socket() as bound, listening_socket() as other:
        server, elsewhere = Mutant(origin_of(bound)), Mutant(origin_of(other))
        async with serving(server.application(), bound), serving(elsewhere.application(), other):
            endpoint, server.origin = f"{server.origin}/mcp", elsewhere.origin
            alone = await check_server(Target(endpoint, tokens=CALLERS), ["pages"])
            assert elsewhere.requests == []
            base_url = f"{elsewhere.origin}/resources"
            await check_server(Target(endpoint, base_url=base_url, tokens=CALLERS), ["pages"])
    assert {each.verdict for each in alone} == {"failed"}
    assert "see --base-url" in alone[0].reason
    assert elsewhere.requests != []


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("https://a.example/r/1", True),
        ("https://a.example:443/r/1", True),
        ("https://a.example/rr/1", False),
        ("https://a.example/r/../x/1", False),
        ("https://a.example/r/%2e%2e/x", False),
        ("https://a.example@b.example/r/1", False),
        ("https://user@a.example/r/1", False),
        ("http://a.example/r/1", False),
        ("https://a.example:8443/r/1", False),
        ("//a.example/r/1", False),
        ("https://[/r/1", False),
    ],
)
def test_an_address_is_below_another(address: str, is_allowed: bool) -> None:
    assert is_below(address, "https://a.example/r") is is_allowed
