"""JSON shapes that readers and features use, and a server without features does not."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from dualsql_client.wire import ColumnType, Covered, ToolProblem


class ServiceDescription(TypedDict):
    """Head of the well-known document, and entry in `capabilities.extensions`; `defaults` has times in seconds.

    `version` is that of the standard (docs/standard), `parts` its optional parts that the server has.
    """

    baseUrl: str
    version: int
    parts: list[str]
    wellKnown: str
    uriTemplate: str
    defaults: dict[str, Any]


class StreamSummary(TypedDict):
    """Under SUMMARY_KEY, alone in the last line of a complete NDJSON stream."""

    rows: int
    complete: Literal[True]


class StreamProblem(TypedDict):
    """Under PROBLEM_KEY, alone in the last line of an NDJSON stream that failed after `rows` rows."""

    code: str
    message: str
    hint: str
    details: dict[str, Any]
    rows: int
    complete: Literal[False]


class ProblemContent(TypedDict):
    """`structuredContent` of a tool result that is an error."""

    error: ToolProblem


ProfileKind = Literal["sample", "full"]
"""Whether a profile covers all rows, or the first rows in the result's own order."""

StatisticName = Literal["nulls", "distinct", "minimum", "maximum", "most_frequent", "histogram", "longest"]


class FrequentValue(TypedDict):
    """A value and how many rows have it."""

    value: Any
    count: int


class Bin(TypedDict):
    """The number of values from `low` to below `high`; the last bin includes `high`, the highest value."""

    low: Any
    high: Any
    count: int


class Estimated(TypedDict):
    """The `statistics` that are estimates, from a random sample of `rows` rows."""

    rows: int
    statistics: list[StatisticName]


class ColumnProfile(TypedDict):
    """The statistics of one column, over the rows of `covers`.

    A statistic that is absent does not exist for this type, or is listed in `missing`: the time limit came first.
    The statistics listed in `estimated` are estimates, because there was no time to read all rows.
    Values have the column's encoding; texts are cut to 100 characters. `longest` is the length of the longest text.
    A `masked` column has no statistics.
    """

    name: str
    type: ColumnType
    covers: Covered
    masked: bool
    missing: list[StatisticName]
    nulls: NotRequired[int]
    distinct: NotRequired[int]
    distinct_kind: NotRequired[Literal["exact", "approximate"]]
    minimum: NotRequired[Any]
    maximum: NotRequired[Any]
    most_frequent: NotRequired[list[FrequentValue]]
    histogram: NotRequired[list[Bin]]
    longest: NotRequired[int]
    estimated: NotRequired[Estimated]


class Profile(TypedDict):
    """Answer of GET /{id}/profile.

    `complete` is false if a statistic is missing or estimated, or if there were too many columns: `left_out` of them
    have no statistics.
    """

    kind: ProfileKind
    covers: Covered
    complete: bool
    left_out: int
    columns: list[ColumnProfile]
