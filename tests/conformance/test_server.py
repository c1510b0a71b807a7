"""The checks against a correct server, and against servers that violate one sentence each."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dualsql.conformance.played import TOKENS, Played
from dualsql.conformance.probe import Caller
from dualsql.conformance.run import SentenceOutcome, check_server
from dualsql.conformance.standard import Sentence, sentences
from tests.client.hosting import listening_socket, origin_of, serving

ANA, BOB = TOKENS
UNTESTABLE = {"14.5", "18.1", "18.2", "20.1", "20.2"}
MUTANTS = [each for each in sentences() if each.part != "client" and each.number not in UNTESTABLE]
CALLERS: dict[Caller, str] = {"owner": ANA, "stranger": BOB}


async def outcomes_of(
    fault: str = "", *, has_parts: bool = True, part: str = ""
) -> dict[str, SentenceOutcome]:
    with listening_socket() as bound:
        played = Played(origin_of(bound), fault, has_parts)
        async with serving(played.application(), bound):
            parts = [part] if part else []
            outcomes = await check_server(f"{played.origin}/mcp", parts=parts, tokens=CALLERS)
    if not fault:
        now = datetime.now(UTC)
        left = [each for each in played.resources.values() if not each.is_deleted]
        assert all(each.expires_at and each.expires_at < now for each in left)
    return {each.sentence.number: each for each in outcomes}


async def test_a_correct_server_passes() -> None:
    outcomes = await outcomes_of()
    assert {number: each.reason for number, each in outcomes.items() if each.verdict == "failed"} == {}
    assert {number for number, each in outcomes.items() if each.verdict != "passed"} == UNTESTABLE


async def test_a_server_with_the_required_parts_alone_passes() -> None:
    outcomes = await outcomes_of(has_parts=False)
    verdicts = {each.sentence.part: each.verdict for each in outcomes.values() if each.verdict != "passed"}
    assert set(verdicts.values()) == {"not offered", "not testable"}


@pytest.mark.quick(6)
@pytest.mark.parametrize("sentence", MUTANTS, ids=[each.number for each in MUTANTS])
async def test_a_violation_is_found_by_name(sentence: Sentence) -> None:
    outcome = (await outcomes_of(sentence.number, part=sentence.part))[sentence.number]
    assert outcome.verdict == "failed", outcome.reason
