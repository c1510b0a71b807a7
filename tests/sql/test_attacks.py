"""No text of the corpus becomes a statement, in any dialect; each is refused fast and in our own words."""

from __future__ import annotations

import logging
import time

import pytest

from dualsql.errors import DualResponseError, ForbiddenSQLError, InvalidSQLError, UnknownColumnError
from dualsql.sql import read_select
from tests.sql.attacks import ATTACKS
from tests.tenancy.tenants.sites import REGISTRY

DIALECTS = ("postgresql", "sqlite", "mysql", "duckdb", pytest.param("hive", marks=pytest.mark.long))
REFUSALS = (ForbiddenSQLError, InvalidSQLError, UnknownColumnError)

# What an attack on one engine may mean on another: there, it names nothing but a column or a table of that name.
DEADLINE = 5.0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_corpus_is_refused_to_the_last_one(dialect: str) -> None:
    accepted = [text for text in ATTACKS if not _is_refused(text, dialect)]
    assert accepted == []


def _is_refused(text: str, dialect: str) -> bool:
    try:
        read_select(text, REGISTRY, dialect)
    except REFUSALS as error:
        return bool(error.message and error.hint)
    return False


def test_there_are_as_many_as_were_promised() -> None:
    assert len(set(ATTACKS)) >= 300


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_refusal_is_quick(dialect: str) -> None:
    begun = time.process_time()
    for text in ATTACKS:
        with pytest.raises(DualResponseError):
            read_select(text, REGISTRY, dialect)
    assert time.process_time() - begun < DEADLINE


def test_a_text_does_not_reach_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for text in ATTACKS:
            with pytest.raises(DualResponseError):
                read_select(text, REGISTRY, "postgresql")
    assert caplog.text == ""
