"""The JSON of a profile; the rule: no figure without what it covers, and none that is missing without its name."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from dualsql_client.wire import ColumnType, Covered

ProfileKind = Literal["sample", "full"]
"""Whether all rows are looked at, or the first so many of the result's own order."""

Figure = Literal["nulls", "distinct", "minimum", "maximum", "most_frequent", "histogram", "longest"]


class FrequentValue(TypedDict):
    """A value and how many rows have it."""

    value: Any
    count: int


class Bin(TypedDict):
    """How many values lie from `low` on and below `high`; of the last bin `high` is the highest value itself."""

    low: Any
    high: Any
    count: int


class ColumnFigures(TypedDict):
    """What is known of one column, of the rows that `covers` tells.

    A figure that is not there does not exist for this type, or is named in `missing`: time ran out before it.
    Values are written as the column's rows are; texts are their first 100 characters, `longest` counts them.
    A `masked` column has no figures at all.
    """

    name: str
    type: ColumnType
    covers: Covered
    masked: bool
    missing: list[Figure]
    nulls: NotRequired[int]
    distinct: NotRequired[int]
    distinct_kind: NotRequired[Literal["exact", "approximate"]]
    minimum: NotRequired[Any]
    maximum: NotRequired[Any]
    most_frequent: NotRequired[list[FrequentValue]]
    histogram: NotRequired[list[Bin]]
    longest: NotRequired[int]


class Profile(TypedDict):
    """Answer of GET /{id}/profile.

    `complete` is false when a figure is missing, or when `left_out` columns were too many to be looked at.
    """

    kind: ProfileKind
    covers: Covered
    complete: bool
    left_out: int
    columns: list[ColumnFigures]
