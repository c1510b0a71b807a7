"""The collector is on again after every batch, and stays off where an application wants it off."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from dualsql.formats.cells import without_collector


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_in_the_block_and_on_again() -> None:
    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_is_on_again_after_a_failure() -> None:
    with pytest.raises(LookupError), without_collector():
        raise LookupError
    assert gc.isenabled()


def test_blocks_that_overlap_end_with_it_on() -> None:
    one, other = without_collector(), without_collector()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert gc.isenabled()


def test_who_switched_it_off_finds_it_off() -> None:
    gc.disable()
    with without_collector():
        pass
    assert not gc.isenabled()
