"""The JSON shapes that cross between server and client. Both packages read them from here."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NotRequired, get_args

from typing_extensions import TypedDict

ColumnType = Literal["string", "number", "boolean", "date"]
"""What a person would call the column; the specification's four words."""

Encoding = Literal[
    "text",  # JSON string
    "integer",  # JSON number, exact to 64 bits: read it with a parser that keeps them
    "integer-string",  # decimal digits in a JSON string
    "float",  # JSON number; NaN and the infinities are null
    "decimal",  # exact decimal digits in a JSON string
    "boolean",
    "date",  # ISO 8601, or one of INFINITIES
    "time",  # ISO 8601
    "datetime",  # ISO 8601, with its offset where the column has a zone; or one of INFINITIES
    "interval",  # ISO 8601 duration, PnDTnS
    "uuid",
    "base64",  # bytes, RFC 4648 section 4
    "json",  # the value itself
    "array",  # JSON array; `items` says how each element is written
    "any",  # the database gives no type: each value as JSON has it
]
"""How a value of the column is written in JSON. NULL is null in every encoding."""

ENCODINGS: frozenset[str] = frozenset(get_args(Encoding))

INFINITIES = ("infinity", "-infinity")
"""Of dates and timestamps: later and earlier than all others, on databases that have them. No Python date holds one."""

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "between", "contains", "starts_with", "is_null"]
"""How a column is compared. A row without a value meets none of these but `is_null`, nor their `not`, as in SQL."""

Bucket = Literal["year", "quarter", "month", "week", "day", "hour"]
"""What a date is cut to; a week begins on Monday."""

PageOrder = Literal["total", "partial"]
"""Whether the order of the rows is the same at every reading. In a partial one, pages may repeat rows or lose some."""

TotalCountKind = Literal["exact", "estimated", "capped", "none"]
"""What `total_count` is worth.

exact: so many rows were counted. estimated: the database's planner takes it for so many. capped: at least so many;
whoever counted stopped there, or a page saw more than were counted. none: it is null.
"""

Row = dict[str, Any]
"""One row: its cells by the names of the columns, in the encodings that the columns name."""


class Column(TypedDict):
    """One column of a result."""

    name: str
    type: ColumnType
    encoding: Encoding
    items: NotRequired[Encoding]


IMPLIED_ENCODINGS: Mapping[ColumnType, Encoding] = {
    "string": "text",
    "number": "integer",
    "boolean": "boolean",
    "date": "date",
}
"""The encoding of a column of this type in a tool result that names none."""


class ShownColumn(TypedDict):
    """One column in a tool result, which a model reads: without the encoding that its type implies."""

    name: str
    type: ColumnType
    encoding: NotRequired[Encoding]
    items: NotRequired[Encoding]


class SortKey(TypedDict):
    """One key of a requested order."""

    field: str
    order: NotRequired[Literal["asc", "desc"]]


class PageBody(TypedDict, total=False):
    """Body of POST /{id}. `sort` takes one key or several, the first decides first.

    `cursor` is a page's next_cursor or previous_cursor, and stands in place of `offset`; the sort is repeated.
    """

    offset: int
    cursor: str
    limit: int
    sort: SortKey | list[SortKey] | None
    big_integers: Literal["number", "string"]


class Page(TypedDict):
    """Answer of POST /{id} and of GET /{id} with paging parameters.

    `has_next` was seen, not computed from a total; `total_count` is worth what its kind says. Of a page by cursor,
    `offset` is counted from the page that gave it. The cursors are null at the ends, and where only offsets lead on.
    `cached` rows are those of an earlier reading, kept for a while. `notes` are remarks on how a query was read and
    answered.
    """

    data: list[Row]
    columns: list[Column]
    total_count: int | None
    total_count_kind: TotalCountKind
    returned_count: int
    offset: int
    skip: int
    has_next: bool
    has_previous: bool
    has_prev: bool
    next_offset: int | None
    order: PageOrder
    cached: bool
    next_cursor: str | None
    previous_cursor: str | None
    expires_at: str | None
    notes: NotRequired[list[str]]


StreamFormat = Literal["ndjson", "json", "csv", "arrow", "parquet", "xlsx"]

RESUME_HEADER = "Dualsql-Resume"
"""The token of a stream that can be gone on with."""
NO_RESUME_HEADER = "Dualsql-No-Resume"
"""Why one cannot: NO_TOTAL_ORDER, or FORMAT."""
TOTAL_COUNT_HEADER = "Dualsql-Total-Count"
"""Rows of the whole result, where that is known; and what the number is worth, a TotalCountKind:"""
TOTAL_COUNT_KIND_HEADER = "Dualsql-Total-Count-Kind"
NOTES_HEADER = "Dualsql-Notes"
"""How the rows of a stream were read, where that is not as usual: a JSON list of sentences, in ASCII."""
ROWS_TRAILER = "Dualsql-Rows"
"""Rows of an answer that is whole, from a server that sends trailers."""

SUMMARY_KEY = "$summary"
PROBLEM_KEY = "$problem"
UNFIT_KEY = "$unfit"
"""In a row of JSON, where some of its cells are not what their columns' encodings say: a list of these columns' names.

Such a cell is a text: what the database holds, as it writes it. A computed cell is the value itself, where JSON has it.
A row without the key has none.
"""


class RowsBody(TypedDict, total=False):
    """Body of POST /{id}/rows; GET has the same names as parameters, lists joined by commas.

    `text_columns` are given as text, whatever they hold: in Arrow and Parquet as columns of texts. With `summary`
    false, NDJSON has rows only, and the end of the HTTP body says that it is whole. `resume`, `after` and `last` go on
    with a broken stream: its token, the number of complete rows received, and `row_digest` of the last of them.
    """

    format: StreamFormat
    columns: list[str]
    text_columns: list[str]
    sort: SortKey | list[SortKey] | None
    limit: int
    cursor: str
    big_integers: Literal["number", "string"]
    guard_formulas: bool
    summary: bool
    resume: str
    after: int
    last: str


class StreamSummary(TypedDict):
    """Under SUMMARY_KEY, alone in the last line of an NDJSON stream that is whole."""

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


def row_digest(row: bytes) -> str:
    """What `last` says of a row: its bytes as they came, without line break or separator."""
    return sha256(row).hexdigest()[:32]


ResourceStatus = Literal["pending", "ready", "failed", "pinned"]
"""pending: the query still runs. failed: it could not be run. pinned: ready, and kept until it is deleted."""


class ToolProblem(TypedDict):
    """Why there is no result: `code` is stable, `hint` says what to do next."""

    code: str
    message: str
    hint: str
    details: dict[str, Any]


class KeptDescription(TypedDict):
    """Whether rows are those of one run, which are kept, and when it began; or why they are read from the database.

    `rows_so_far` is there while a run is read whose rows will be kept; `error` says why the last refresh failed.
    """

    kept: bool
    as_of: NotRequired[str]
    rows: NotRequired[int]
    bytes: NotRequired[int]
    reason: NotRequired[str]
    rows_so_far: NotRequired[int]
    error: NotRequired[ToolProblem]


class ResourceDescription(TypedDict):
    """Answer of GET /{id}. `error` says why a failed one has no rows; `kept` is there if they were to be kept."""

    status: ResourceStatus
    name: str
    uri: str
    total_count: int | None
    total_count_kind: TotalCountKind
    columns: list[Column]
    created_at: str
    expires_at: str | None
    access_count: int
    last_accessed_at: str | None
    metadata: dict[str, Any]
    error: NotRequired[ToolProblem]
    kept: NotRequired[KeptDescription]


class ListedResource(ResourceDescription):
    """One entry of a listing."""

    url: str


class ResourceListing(TypedDict):
    """Answer of GET on the collection: a principal's own resources, newest first."""

    resources: list[ListedResource]
    next_cursor: str | None


class Pinned(TypedDict):
    """Answer of PUT /{id}."""

    status: Literal["pinned"]
    expires_at: None


class Unpinned(TypedDict):
    """Answer of DELETE /{id}/pin."""

    status: Literal["ready"]
    expires_at: str


class Problem(TypedDict):
    """Every error body. `error` is the specification's word, `code` the stable name."""

    error: str
    message: str
    code: str
    hint: str
    details: dict[str, Any]


class Described(TypedDict, total=False):
    """What a tool says of one result of its own."""

    description: str


class ResourceLink(Described):
    """Where the full result lives; `url` is for the application, never followed by a model.

    `mimeType` is that of what is at `url`, if it is not JSON.
    """

    uri: str
    url: str
    name: str
    mimeType: NotRequired[str]


class Covered(TypedDict):
    """How many rows a profile looked at, and whether these are all; null where time ran out first."""

    rows: int | None
    of: Literal["all", "sample"]


class ProfileNotes(TypedDict):
    """What a model should know of a profile: by column, and only what the sample does not show."""

    covers: Covered
    complete: bool
    notes: dict[str, str]


class ResultMetadata(TypedDict):
    """What a model may want to know about the full result.

    `results` shows `sample_count` rows: the first, or those that `sample` says ("tail", "random:SEED", "spread"); with
    `cells_cut_to`, longer cells are their beginning, of so many characters.
    `status` is there while the query still runs: nothing is shown or counted yet, and `hint` says what to do.
    `as_of` is there if the rows are kept: when the run began that they are of.
    `notes` are remarks on how the query was read and answered.
    """

    total_count: int | None
    total_count_kind: TotalCountKind
    sample_count: int
    as_of: NotRequired[str]
    status: NotRequired[Literal["pending"]]
    hint: NotRequired[str]
    cells_cut_to: NotRequired[int]
    sample: NotRequired[str]
    columns: list[ShownColumn]
    profile: NotRequired[ProfileNotes]
    notes: NotRequired[list[str]]
    expires_at: str | None


class StructuredContent(TypedDict):
    """`structuredContent` of a tool result that is a dual response."""

    results: list[Row]
    resource: ResourceLink
    metadata: ResultMetadata


class ColumnarContent(TypedDict):
    """The same in fewer characters: `results` has the values of each column by its name."""

    results: dict[str, list[Any]]
    resource: ResourceLink
    metadata: ResultMetadata


class ProblemContent(TypedDict):
    """`structuredContent` of a tool result that is an error."""

    error: ToolProblem


ProfileKind = Literal["sample", "full"]
"""Whether all rows are looked at, or the first so many of the result's own order."""

StatisticName = Literal["nulls", "distinct", "minimum", "maximum", "most_frequent", "histogram", "longest"]


class FrequentValue(TypedDict):
    """A value and how many rows have it."""

    value: Any
    count: int


class Bin(TypedDict):
    """How many values lie from `low` on and below `high`; of the last bin `high` is the highest value itself."""

    low: Any
    high: Any
    count: int


class Estimated(TypedDict):
    """Which `statistics` are estimates, from so many `rows` that were chosen at random."""

    rows: int
    statistics: list[StatisticName]


class ColumnProfile(TypedDict):
    """What is known of one column, of the rows that `covers` tells.

    A figure that is not there does not exist for this type, or is named in `missing`: time ran out before it.
    Figures that are named in `estimated` are estimates: there was no time to count all rows.
    Values are written as the column's rows are; texts are their first 100 characters, `longest` counts them.
    A `masked` column has no figures at all.
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

    `complete` is false when a figure is missing or estimated, or when `left_out` columns were too many to be looked at.
    """

    kind: ProfileKind
    covers: Covered
    complete: bool
    left_out: int
    columns: list[ColumnProfile]
