"""The JSON shapes that cross between server and client. Both packages read them from here.

Annotations are evaluated: each that is a text would be compiled at import, which takes as long as all else here.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NotRequired, get_args

from typing_extensions import TypedDict

ColumnType = Literal["string", "number", "boolean", "date"]
"""The type of a column for a person: one of the specification's four words."""

Encoding = Literal[
    "text",  # JSON string
    "integer",  # JSON number, exact to 64 bits: it needs a parser that keeps them
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
    "any",  # the database has no type: each value is a JSON value
]
"""The encoding of a column's values in JSON. NULL is null in every encoding."""

ENCODINGS: frozenset[str] = frozenset(get_args(Encoding))

INFINITIES = ("infinity", "-infinity")
"""Dates and timestamps of some databases, later and earlier than all others. Python's types have no such values."""

PageOrder = Literal["total", "partial"]
"""Whether the order of the rows is the same for every request. In a partial one, pages may repeat rows or lose some."""

TotalCountKind = Literal["exact", "estimated", "capped", "none"]
"""Whether `total_count` is exact.

exact: the rows were counted. estimated: by the database's planner. capped: a lower bound; the count stopped there, or a
page has rows beyond it. none: it is null.
"""

Row = dict[str, Any]
"""One row: values by the name of their column, in the column's encoding."""


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
"""The encoding of a column without one in a tool result, by its type."""


class ShownColumn(TypedDict):
    """One column in a tool result, for a model: without the encoding that its type implies."""

    name: str
    type: ColumnType
    encoding: NotRequired[Encoding]
    items: NotRequired[Encoding]


class SortKey(TypedDict):
    """One key of a requested order."""

    field: str
    order: NotRequired[Literal["asc", "desc"]]


class CutCell(TypedDict):
    """A cell of a page of which only the beginning is there: the page was asked for with `cell_limit`.

    `row` counts from 0 in the page. `characters` are those of the whole text; a document or a list is its JSON.
    """

    row: int
    column: str
    characters: int


class Page(TypedDict):
    """Answer of POST /{id} and of GET /{id} with paging parameters.

    `has_next` comes from the rows, not from a total; `total_count_kind` says whether `total_count` is exact. The
    `offset` of a page by cursor is relative to the page that had the cursor. The cursors are null at the ends, and in
    orders that only offsets can page through. `cached` rows come from a cache. `notes` are remarks on how the server
    understood and answered a query. `cut` lists the cells that a `cell_limit` cut.
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
    cut: NotRequired[list[CutCell]]


StreamFormat = Literal["ndjson", "json", "csv", "arrow", "parquet", "xlsx"]

RESUME_HEADER = "Dualsql-Resume"
"""The token to resume a stream with."""
NO_RESUME_HEADER = "Dualsql-No-Resume"
"""Why the stream cannot be resumed: NO_TOTAL_ORDER or FORMAT."""
TOTAL_COUNT_HEADER = "Dualsql-Total-Count"
"""The number of all rows of the result, if known."""
TOTAL_COUNT_KIND_HEADER = "Dualsql-Total-Count-Kind"
"""The TotalCountKind of that number."""
NOTES_HEADER = "Dualsql-Notes"
"""Remarks on how the rows of a stream were read: a JSON list of sentences, in ASCII."""
ROWS_TRAILER = "Dualsql-Rows"
"""The number of rows of a complete answer, from a server that sends trailers."""

SUMMARY_KEY = "$summary"
PROBLEM_KEY = "$problem"
UNFIT_KEY = "$unfit"
"""A key of JSON rows: the names of the columns whose cells in this row do not fit the column's encoding.

Such a cell is the database's text of its value. A computed cell is the value itself if JSON can hold it. A row without
such cells does not have the key.
"""


def row_digest(row: bytes) -> str:
    """The digest of a row for `last`, from its bytes without line break or separator."""
    return sha256(row).hexdigest()[:32]


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


ResourceStatus = Literal["pending", "ready", "failed", "pinned"]
"""pending: the query still runs. failed: the query failed. pinned: ready, and kept until it is deleted."""


class ToolProblem(TypedDict):
    """Why there is no result: `code` is stable, `hint` says what to do next."""

    code: str
    message: str
    hint: str
    details: dict[str, Any]


class KeptDescription(TypedDict):
    """Whether the rows are kept from one run of the query, and when it began; or the `reason` why they are not.

    `rows_so_far` is present while the query runs; `error` is that of the last refresh, if it failed.
    """

    kept: bool
    as_of: NotRequired[str]
    rows: NotRequired[int]
    bytes: NotRequired[int]
    reason: NotRequired[str]
    rows_so_far: NotRequired[int]
    error: NotRequired[ToolProblem]


class ResourceDescription(TypedDict):
    """Answer of GET /{id}. `error` is that of a failed query; `kept` is present if the rows are to be kept."""

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
    """Answer of GET on the collection: a principal's own resources, newest first.

    `unreadable` is the number of rows that were left out because they cannot be read, if there are any.
    """

    resources: list[ListedResource]
    next_cursor: str | None
    unreadable: NotRequired[int]


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


class ResourceLink(TypedDict):
    """The address of the full result; `url` is for the application only, and a model does not fetch it.

    `mimeType` is that of the content at `url`, `description` from the tool.
    """

    uri: str
    url: str
    name: str
    mimeType: str
    description: NotRequired[str]


class Covered(TypedDict):
    """The number of rows that a profile covers, and whether these are all; null if the time limit came first."""

    rows: int | None
    of: Literal["all", "sample"]


class ProfileNotes(TypedDict):
    """The notes of a profile for a model: by column, and only what the sample does not show."""

    covers: Covered
    complete: bool
    notes: dict[str, str]


class ResultMetadata(TypedDict):
    """The description of the full result, for a model.

    `results` has `sample_count` rows: the first, or those of `sample` ("tail", "random:SEED", "spread"). With
    `cells_cut_to`, longer cells are cut to so many characters; with `column_count`, rows and `columns` have only the
    first of so many columns.
    `status` is present while the query still runs: there are no rows and no total yet, and `hint` says what to do.
    `executed_at` is the time of the query; absent while it still runs. `as_of` is present if the rows are kept: the
    time when their query began.
    `notes` are remarks on how the server understood and answered the query.
    """

    total_count: int | None
    total_count_kind: TotalCountKind
    sample_count: int
    executed_at: NotRequired[str]
    as_of: NotRequired[str]
    status: NotRequired[Literal["pending"]]
    hint: NotRequired[str]
    cells_cut_to: NotRequired[int]
    column_count: NotRequired[int]
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
    """The same, shorter: `results` has the values of each column by its name."""

    results: dict[str, list[Any]]
    resource: ResourceLink
    metadata: ResultMetadata


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
