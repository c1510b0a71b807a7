"""The checks against a correct server, and against servers that violate one sentence each."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dualsql.conformance.probe import Caller, is_below
from dualsql.conformance.rows_server import RowsServer
from dualsql.conformance.run import SentenceOutcome, check_server
from dualsql.conformance.standard import Sentence, sentences
from tests.client.hosting import listening_socket, origin_of, serving
from tests.conformance.mutants import TOKENS, Mutant

ANA, BOB = TOKENS
UNTESTABLE = {"14.5", "18.1", "18.2", "20.1", "20.2"}
MUTANTS = [each for each in sentences() if each.part != "client" and each.number not in UNTESTABLE]
CALLERS: dict[Caller, str] = {"owner": ANA, "stranger": BOB}


async def outcomes_of(
    fault: str = "", part: str = "", kind: type[RowsServer] = Mutant
) -> dict[str, SentenceOutcome]:
    with listening_socket() as bound:
        server = kind(origin_of(bound))
        if isinstance(server, Mutant):
            server.fault = fault
        async with serving(server.application(), bound):
            parts = [part] if part else []
            outcomes = await check_server(f"{server.origin}/mcp", parts=parts, tokens=CALLERS)
    if not fault:
        now = datetime.now(UTC)
        left = [each for each in server.resources.values() if not each.is_deleted]
        assert all(each.expires_at and each.expires_at < now for each in left)
    return {each.sentence.number: each for each in outcomes}


async def test_a_correct_server_passes() -> None:
    outcomes = await outcomes_of()
    assert {number: each.reason for number, each in outcomes.items() if each.verdict == "failed"} == {}
    assert {number for number, each in outcomes.items() if each.verdict != "passed"} == UNTESTABLE


async def test_a_server_with_the_required_parts_alone_passes() -> None:
    outcomes = await outcomes_of(kind=RowsServer)
    verdicts = {each.sentence.part: each.verdict for each in outcomes.values() if each.verdict != "passed"}
    assert set(verdicts.values()) == {"not offered", "not testable"}


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
            alone = await check_server(endpoint, parts=["pages"], tokens=CALLERS)
            assert elsewhere.requests == []
            base_url = f"{elsewhere.origin}/resources"
            await check_server(endpoint, parts=["pages"], base_url=base_url, tokens=CALLERS)
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
