"""Bins touch, go from the lowest to the highest value, and are ten at most."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dualsql.profiles.statistics import BINS, edges

VALUES = st.one_of(
    st.tuples(st.integers(), st.integers()),
    st.tuples(
        st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False)
    ),
    st.tuples(
        st.decimals(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False)
    ),
    st.tuples(st.dates(), st.dates()),
    st.tuples(st.datetimes(), st.datetimes()),
)


@given(VALUES)
def test_whatever_the_range(pair: tuple[Any, Any]) -> None:
    lowest, highest = sorted(pair)
    bins = edges(lowest, highest)
    assert bins is not None
    assert (bins[0], bins[-1]) == (lowest, highest)
    assert 2 <= len(bins) <= BINS + 1
    assert all(low < high for low, high in pairwise(bins[:-1])), "no bin but the last may be empty of room"
    assert all(low <= high for low, high in pairwise(bins))


@pytest.mark.parametrize(
    ("lowest", "highest"),
    [
        (None, None),
        ("a", "b"),
        (True, False),
        (1, 2.0),
        (0.0, math.inf),
        (math.nan, 1.0),
        (dt.time(1), dt.time(2)),
    ],
)
def test_what_cannot_be_divided(lowest: Any, highest: Any) -> None:
    assert edges(lowest, highest) is None


def test_whole_numbers_have_whole_edges() -> None:
    assert edges(1, 3) == [1, 2, 3, 3]
    assert edges(0, 99) == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99]
    assert edges(7, 7) == [7, 7]
    assert edges(Decimal(0), Decimal(1)) == [Decimal(n) / 10 for n in range(10)] + [1]


def test_an_infinite_instant_has_no_bins() -> None:
    assert edges(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime.max) is None  # noqa: DTZ901 - as asyncpg gives it
