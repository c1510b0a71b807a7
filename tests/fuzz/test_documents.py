"""Forged documents: a mutated one becomes harmless SQL or an error of ours, in bounded time."""

from __future__ import annotations

import logging
import zlib

import pytest

from dualsql.freeze.document import pack
from tests.freeze.hostile import BODIES, mutate, mutate_bytes
from tests.freeze.judge import SIZE, judged, judged_body
from tests.freeze.test_hostile import nothing_happens, warm
from tests.fuzz.running import ONE_CASE, cases

__all__ = ["warm"]

# SQLAlchemy's own words on statements that make little sense.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
    pytest.mark.timeout(7200),
]


def test_a_forged_document_is_harmless_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    # pytest keeps each record of a refusal: half a gigabyte in ten minutes.
    caplog.set_level(logging.CRITICAL, "dualsql.freeze")
    bodies = list(BODIES.values())
    documents = [pack({**body, "print": "known"}, SIZE) for body in bodies]
    accepted = 0
    with nothing_happens():
        for case in cases():
            with case.about("a document"):
                if case.number % 8:
                    accepted += judged_body(mutate(case.one_of(bodies), case.choices)) is not None
                elif case.number % 16:
                    judged(mutate_bytes(case.one_of(documents), case.choices))
                else:
                    document = case.one_of(documents)
                    plain = mutate_bytes(zlib.decompress(document[6:]), case.choices)
                    judged(document[:2] + len(plain).to_bytes(4, "big") + zlib.compress(plain, 1))
    assert accepted or ONE_CASE, "the fuzzer reaches behind the checks"
