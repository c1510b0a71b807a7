"""The figures of a profile, computed by polars. Nothing of dualsql is in it but the bins it was given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import polars as pl

FREQUENT = 5


def figures(values: Sequence[Any]) -> dict[str, Any]:
    """NULLs, distinct values, range, the most frequent values and the longest text of one column."""
    series = pl.Series([str(value) if isinstance(value, UUID) else value for value in values], strict=False)
    known = series.drop_nulls()
    counted = known.value_counts(sort=True, name="times")
    actual: dict[str, Any] = {
        "nulls": series.null_count(),
        "distinct": known.n_unique(),
        "counts": dict(counted.iter_rows()),
        "minimum": known.min() if len(known) else None,
        "maximum": known.max() if len(known) else None,
    }
    if known.dtype == pl.String:
        actual["longest"] = known.str.len_chars().max()
    return actual


def counts_between(values: Sequence[Any], edges: Sequence[tuple[Any, Any]]) -> list[int]:
    """How many values fall into each bin; the last one takes its upper edge in."""
    series = pl.Series(values, strict=False).drop_nulls()
    last = len(edges) - 1
    return [
        int(series.is_between(low, high, closed="both" if number == last else "left").sum())
        for number, (low, high) in enumerate(edges)
    ]


def read(value: Any, like: Any) -> Any:
    """A value of the wire as polars has it."""
    if isinstance(like, Decimal):
        return Decimal(value)
    if isinstance(like, dt.datetime | dt.date | dt.time):
        return type(like).fromisoformat(value)
    return value
