"""What all formats of streams have in common: the writer of a stream, and the traits of a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sqlalchemy.engine import Dialect

from dualsql.columns.result import ResultColumn
from dualsql.errors import DualResponseError

Rows = Sequence[Sequence[Any]]
"""Each row a tuple or a list."""


class ExactRows(list[Sequence[Any]]):
    """Rows that a driver read, each cell of the class that its column announces. No instant's zone has seconds."""


class PlainColumns(NamedTuple):
    """Columns whose values JSON shows as the database has them, or as an instant or a truth value.

    Attributes:
        kinds: of each: int, float, str, date, datetime or bool.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]


class PlainPage(NamedTuple):
    """A page of which only its objects in JSON are needed, from the last to the first if `is_reversed`."""

    columns: PlainColumns
    size: int
    is_reversed: bool


@dataclass(slots=True, eq=False)  # frozen ones take three times as long to make
class WrittenRows:
    """The rows of a page, written as an array of objects in JSON where they were read.

    Attributes:
        count: of the rows that were read, which may be more.
        edges: the first and the last row that is written.
    """

    text: bytes
    count: int
    edges: Rows

    def __len__(self) -> int:
        return self.count


class Chunk(NamedTuple):
    """A piece of a stream that ends with a whole row, and how many rows it holds.

    Attributes:
        held: bytes that the writer keeps of these rows, to be written later.
    """

    data: bytes
    rows: int
    held: int = 0


class StreamEnd(NamedTuple):
    """How a stream ended."""

    rows: int
    complete: bool = True


def option(meaning: str, *, default: Any, parameter: str = "", words: Mapping[str, Any] | None = None) -> Any:
    """A field of `WriterOptions`: a flag, for a tuple a list of columns' names, or one of `words`, with their values.

    `parameter` is what a request calls it; by default as the field.
    """
    kind = "words" if words else "names" if isinstance(default, tuple) else "flag"
    traits = {"kind": kind, "meaning": meaning, "parameter": parameter, "words": words}
    return field(default=default, metadata=traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How values are written. Each field is a parameter of streams: a new one is a field here, and what a writer does.

    Without `summary`, only the end of the HTTP body says that a stream is complete, for readers that take every line
    for a row.
    """

    text_columns: tuple[str, ...] = option("Columns that are written as text.", default=())
    integer_strings: bool = option(
        "Whether whole numbers are numbers or strings, for JavaScript.",
        default=False,
        parameter="big_integers",
        words={"number": False, "string": True},
    )
    guard_formulas: bool = option("CSV: cells that a spreadsheet would compute get a '.", default=False)
    excel: bool = option(
        "CSV: for Excel: with a byte order mark, guarded formulas, and instants as Excel reads them, those with a zone "
        "in UTC.",
        default=False,
    )
    summary: bool = option("false: NDJSON without its last line.", default=True)

    @property
    def guards(self) -> bool:
        """Whether formulas are guarded."""
        return self.guard_formulas or self.excel


class Writer(Protocol):
    """Writes one stream: first head, then rows for each batch, at last end or failure.

    A stream that was cut off must never look complete: that is what `end` and `failure` are for.
    """

    def head(self) -> bytes:
        """The bytes before the first row."""

    def rows(self, rows: Rows) -> Chunk:
        """The bytes of a batch of rows. It may be called in another thread, where the rows are read."""

    def end(self, summary: StreamEnd) -> bytes:
        """The bytes after the last row."""

    def failure(self, error: DualResponseError, summary: StreamEnd) -> bytes | None:
        """The bytes that report what ended the stream; None if the format cannot: the connection is then closed."""


@runtime_checkable
class BatchWriter(Protocol):
    """A writer that also accepts Arrow batches.

    Attributes:
        arrow: the schema of the batches, a `dualsql.formats.arrow.ArrowSchema`.
    """

    arrow: Any

    def batch(self, batch: Any) -> Chunk:
        """A pyarrow.RecordBatch of the schema. Its bytes may come with a later chunk."""


@runtime_checkable
class LineWriter(Protocol):
    """A writer that also accepts lines that were written where the rows were read.

    Attributes:
        line_format: "csv" or "ndjson", a method of `dualsql.formats.row_objects.PlainObjects`.
    """

    line_format: str

    @property
    def plain(self) -> PlainColumns | None:
        """The columns of its rows; None if it would convert a value."""

    def written(self, lines: bytes, rows: int) -> Chunk:
        """These lines, which are so many rows, as a piece of the stream."""


WriterFactory = Callable[[Sequence[ResultColumn], Dialect, WriterOptions], Writer]
"""Makes the writer of one stream."""

FirstRow = Callable[[bytes], tuple[bytes, bytes]]
"""Splits the bytes of some rows into the first row, as its digest is made of it, and what follows."""


ARRAY_SEPARATOR = b",\n"
"""Between two rows of a JSON array."""


class Resuming(NamedTuple):
    """How the rest of a broken stream follows what its reader has.

    Attributes:
        separator: what stands between two rows, where a writer writes it before a row and not after.
        first_row: None where a row has no digest: the reader then says only how many rows it has.
    """

    separator: bytes = b""
    first_row: FirstRow | None = None


class Format(NamedTuple):
    """A format of streams with its traits; nothing else in dualsql knows a format by name.

    Attributes:
        parameters: of the media type, as Content-Type has them: "; charset=utf-8".
        title: its name for people who download a file.
        is_for_spreadsheets: whether people open it in a spreadsheet; these formats are offered to them first.
        guards_formulas: whether `WriterOptions.guard_formulas` changes it. Downloads of pages then set it.
        excel_title: the name of the download for which pages set `WriterOptions.excel`; empty if that changes nothing.
        resuming: None for a format that is not made of a head, rows and an end that can follow each other.
        has_end: whether its last bytes show that the stream is complete. Otherwise the end of the HTTP body has to, and
            HTTP/1.0, whose bodies end with the connection, is refused.
        is_stateless: whether one writer may write several streams, at once too: it notes nothing of a stream.
        is_compressed: whether a content coding would only cost time.
        end_keys: the keys of a last line that marks the end, unless `WriterOptions.summary` leaves it out. A row with
            one of them as its only column would look like that line, and is refused.
    """

    name: str
    media_type: str
    suffix: str
    writer: WriterFactory
    title: str
    is_for_spreadsheets: bool = False
    guards_formulas: bool = False
    excel_title: str = ""
    parameters: str = ""
    resuming: Resuming | None = None
    has_end: bool = True
    is_stateless: bool = False
    is_compressed: bool = False
    end_keys: frozenset[str] = frozenset()
