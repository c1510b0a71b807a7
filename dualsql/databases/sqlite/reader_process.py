"""The program of a reader process: runs statements on a SQLite file with apsw, and writes their rows.

It is started without the package (`python -I -S reader_process.py FILE FOLDER...`, with the file of `row_objects` and
the folders of apsw and orjson), so that it is small. Requests are lines of JSON. Answers are messages: two lengths, a
header in JSON, and a body, which is the buffers of columns for a stream, and the JSON of its objects for a page. It
ends with its parent, and after a time without requests.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import re
import select
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain, islice
from typing import Any, NamedTuple

_IDLE_SECONDS = 60.0
_INSTRUCTIONS, _INSTRUCTIONS_OF_PAGES = 100_000, 2_000
"""Between two looks at the time. Those of a page may each copy a long text."""

# Packed in groups whose objects the cache of a core holds (3,000 rows at a time take a tenth more CPU), and written a
# few groups at a time (one at a time takes half as much CPU more in the server).
_FIRST_ROWS, _GROUP_ROWS, _GROWTH, _MOST_GROUPS, _BATCH_BYTES = 100, 1_000, 4, 4, 512 * 1024
_LINE_ROWS = 500
_PIECE = 100
"""Rows that are read before one of them is measured."""

LENGTHS = struct.Struct("=II")

READ_FREELY = frozenset(
    """AddImm Affinity And BeginSubrtn Blob ClrSubtype CollSeq Column Compare Copy DecrJumpZero DeferredSeek Delete
    ElseEq EndCoroutine Eq Explain Filter FilterAdd FinishSeek Found Ge Gosub Goto Gt Halt HaltIfNull IdxGE
    IdxGT IdxInsert IdxLE IdxLT IdxRowid If IfEmpty IfNoHope IfNot IfNotOpen IfNotZero IfNullRow IfPos Init
    InitCoroutine Insert Int64 Integer IsNull IsTrue Jump Last Le Lt MakeRecord Move MustBeInt Ne NewRowid
    Next NoConflict Noop Not NotExists NotFound NotNull Null NullRow OffsetLimit Once OpenAutoindex OpenDup
    OpenEphemeral OpenPseudo OpenRead Or Permutation Prev RealAffinity ReopenIdx ResetSorter ResultRow
    Return Rewind RowData RowSetAdd RowSetRead RowSetTest Rowid SCopy SeekGE SeekGT SeekHit SeekLE SeekLT
    SeekRowid SeekScan Sequence SequenceTest Sort SorterCompare SorterData SorterInsert SorterNext
    SorterOpen SorterSort String String8 Transaction Variable Yield ZeroOrNull""".split()
)
"""Instructions whose result is the same in every version of SQLite.

apsw has another version than Python's own sqlite3. Functions and aggregates (sum and round were changed in 3.43), CAST
and || (digits of numbers as text), arithmetic (of texts, which are read as numbers: 3.40 and 3.54 read '4626701e-20' as
two doubles) and virtual tables may differ, and a statement that has them is declined. Comparisons are not: they differ
for a text in so rare a form that is compared with a number. The same list keeps a statement from writing, attaching
files and loading code.
"""


_PARTIAL_INDEX = "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND sql LIKE '%WHERE%' LIMIT 1"

_MERGES = re.compile(r"\b(UNION(?! ALL)|INTERSECT|EXCEPT)\b")
"""In a line of EXPLAIN QUERY PLAN."""


class Declined(Exception):  # noqa: N818 - no error: the caller reads the statement itself
    """The statement is not one that is read here."""


class Packed(NamedTuple):
    """One column of some rows.

    Attributes:
        kind: what its values are, all but NULLs.
        valid: a byte a row, 0 for NULL; empty if none is.
        lengths: of texts and bytes: one for all, or each.
        data: the values.
    """

    kind: str
    rows: int
    nulls: int = 0
    valid: bytes | bytearray = b""
    lengths: int | bytes | Sequence[int] = b""
    data: bytes = b""


def packed(column: Sequence[Any], places: list[int]) -> Packed:
    """A column, of at least one row.

    struct and join() refuse values of other classes, so that no value is converted.

    Args:
        places: of NULLs in columns before, of the same rows; those of this column are added.
    """
    first = next((value for value in column if value is not None), None)
    if first is None:
        return Packed("nulls", len(column), len(column))
    kind, pack, filler = _PACKERS[type(first)]
    try:
        return Packed(kind, len(column), 0, b"", *pack(column))
    except (TypeError, struct.error):
        pass
    values, valid = list(column), bytearray(b"\1") * len(column)
    for nulls in _searched(values, places):
        for place in nulls:
            if values[place] is None:
                values[place], valid[place] = filler, 0
        try:
            return Packed(kind, len(column), valid.count(0), valid, *pack(values))
        except (TypeError, struct.error):
            pass
    text = json.dumps([_spelled(value) for value in column])
    return Packed("values", len(column), data=text.encode())


def joined(parts: Sequence[Packed]) -> tuple[list[Any], list[list[Any]]]:
    """A column of several groups of rows, all of one kind: how it is written, and its buffers in pieces."""
    kind, nulls = parts[0].kind, sum(part.nulls for part in parts)
    if kind == "nulls":
        return [kind, nulls], []
    buffers: list[list[Any]] = [[part.data for part in parts]]
    if kind in {"texts", "bytes"}:
        buffers.insert(0, _joined_lengths(parts))
    if nulls:
        buffers.insert(0, [part.valid or b"\1" * part.rows for part in parts])
    return [kind, nulls], buffers


def _joined_lengths(parts: Sequence[Packed]) -> list[bytes]:
    """The lengths with 0 before them, whose sums are the offsets, of a byte each or of four; none if all are one."""
    first = parts[0].lengths
    if isinstance(first, int) and all(part.lengths == first for part in parts):
        return []
    each: list[Any] = [
        bytes([part.lengths]) * part.rows if isinstance(part.lengths, int) else part.lengths for part in parts
    ]
    if all(type(lengths) is bytes for lengths in each):
        return [b"\0", *each]
    return [struct.pack("=i", 0), *(struct.pack(f"={len(lengths)}i", *lengths) for lengths in each)]


def _searched(values: Sequence[Any], places: list[int]) -> Iterator[Sequence[int]]:
    """Where NULLs may be: the `places`, then all others, for which a search takes longer than to pack the column."""
    yield places
    found, place = [], -1
    with suppress(ValueError):
        while True:
            place = values.index(None, place + 1)
            found.append(place)
    places += found
    yield found


@lru_cache(maxsize=16)
def _numbers(count: int, kind: str) -> struct.Struct:
    return struct.Struct(f"{count}{kind}")


def _of_integers(column: Sequence[Any]) -> tuple[Any, bytes]:
    return b"", _numbers(len(column), "q").pack(*column)


def _of_floats(column: Sequence[Any]) -> tuple[Any, bytes]:
    # struct would take a whole number for a float.
    if set(map(type, column)) != {float}:
        raise TypeError
    return b"", _numbers(len(column), "d").pack(*column)


def _of_texts(column: Sequence[Any]) -> tuple[Any, bytes]:
    text = "".join(column)
    data = text.encode()
    if len(data) != len(text):
        return _of_bytes([value.encode() for value in column])
    return _length_of_all(column, text) or _lengths(column), data


def _length_of_all(column: Sequence[str], text: str) -> int:
    """The length of each of these texts, which are `text` together; 0 if they may differ.

    It takes a third of the time of their lengths.
    """
    size, rest = divmod(len(text), len(column))
    if rest or size != len(column[0]) or size > 255 or "\0" in text:
        return 0
    # What separates them is then at every place where it is between texts of this length.
    separators = "\0".join(column)[size :: size + 1]
    return size if separators == "\0" * (len(column) - 1) else 0


def _of_bytes(column: Sequence[Any]) -> tuple[Any, bytes]:
    return _lengths(column), b"".join(column)


def _lengths(column: Sequence[Any]) -> bytes | Sequence[int]:
    # A byte each takes half the time.
    try:
        return bytes(map(len, column))
    except ValueError:
        return list(map(len, column))


_PACKERS: Mapping[type[Any], tuple[str, Callable[[Sequence[Any]], tuple[Any, bytes]], Any]] = {
    int: ("integers", _of_integers, 0),
    str: ("texts", _of_texts, ""),
    float: ("floats", _of_floats, 0.0),
    bytes: ("bytes", _of_bytes, b""),
}


def _spelled(value: Any) -> Any:
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def read_parameters(values: Sequence[Any]) -> list[Any]:
    """The bound values; bytes are lists of their base64."""
    return [base64.b64decode(value[0]) if isinstance(value, list) else value for value in values]


def _require_readable(connection: Any, sql: str, parameters: Sequence[Any]) -> None:
    """Raise Declined if an instruction of the statement is not in READ_FREELY, or it merges rows of several SELECTs.

    Of values that are equal in a collation, UNION, INTERSECT and EXCEPT keep one, and not every version the same.
    """
    steps = connection.execute(sql, parameters, explain=1)
    if not {step[1] for step in steps} <= READ_FREELY:
        raise Declined
    if any(_MERGES.search(step[3]) for step in connection.execute(sql, parameters, explain=2)):
        raise Declined


def _names_of(running: Any) -> list[str]:
    # Called before the first row: a cursor without rows has no description afterwards.
    return [column[0] for column in running.get_description()]


class _Form:
    """What all pages of a statement have in common, which is sent once."""

    def __init__(self, definition: Mapping[str, Any], row_objects: Any) -> None:
        self.sql: str = definition["sql"]
        names, kinds = json.loads(definition["columns"])
        self.objects = row_objects.PlainObjects(names, kinds).objects
        self.terms = definition
        self._columns, self._byte_length = len(names), row_objects.byte_length

    def unwritten(self, rows: Sequence[Sequence[Any]], size: int) -> int:
        """Bytes of the cells that are not written: of rows after so many, and of keys after the columns."""
        rest = rows[size:]
        if rows and len(rows[0]) > self._columns:
            rest = [*rest, *(row[self._columns :] for row in rows[:size])]
        return sum(map(self._byte_length, rest))


class _PageConnection:
    """A connection for pages.

    Attributes:
        known: forms that are read here, and whose columns the server was told.
        is_outdated: the tables or views are others since the connection was opened.
    """

    def __init__(self, apsw: Any, connection: Any) -> None:
        self._connection = connection
        # SQLite would plan a statement anew for each LIMIT, which takes a twentieth of a page. A partial index may be
        # used for one value and not for another one.
        if not connection.execute(_PARTIAL_INDEX).fetchall():
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._schema = connection.pragma("schema_version")
        self._data = connection.data_version()
        self.known: set[_Form] = set()
        self.is_outdated = False

    def page(self, form: _Form, parameters: Sequence[Any]) -> tuple[list[str], list[Any]]:
        """The names of the columns, none if the form is known, and all rows."""
        names: list[str] = []
        running = self._connection.cursor()
        if form not in self.known:
            _require_readable(self._connection, form.sql, parameters)

            def note_names(running: Any, *_: Any) -> bool:
                names.extend(_names_of(running))
                return True

            running.exec_trace = note_names
        rows = running.execute(form.sql, parameters).fetchall()
        # A view that is another one may call functions. The version of the schema only grows: one that is the same now
        # was the same when the rows were read.
        if self._connection.data_version() != self._data:
            self.is_outdated = self._connection.pragma("schema_version") != self._schema
            self._data = self._connection.data_version()
        return names, rows


MOST_FORMS = 1_000


def _are_joinable(group: Sequence[Packed], other: Sequence[Packed]) -> bool:
    kinds = [part.kind for part in group]
    return "values" not in kinds and kinds == [part.kind for part in other]


class Reader:
    """Answers requests.

    Attributes:
        parent: the process that sends them.
    """

    def __init__(self, apsw: Any, orjson: Any, row_objects: Any, out: int) -> None:
        self._apsw, self._orjson, self._row_objects = apsw, orjson, row_objects
        self._forms: dict[int, _Form] = {}
        self._out = out
        self.parent = os.getppid()
        self._ends_at = 0.0
        self._pages: _PageConnection | None = None

    def answer(self, request: dict[str, Any]) -> None:
        """Write the rows of the request's statement, and how it ended."""
        if "form" in request:
            self._answer_page(request)
        else:
            self._ends_at = time.monotonic() + request["seconds"]
            self._answer_stream(request)

    def _answer_page(self, request: dict[str, Any]) -> None:
        """Write the objects of all rows at once, and the first and the last row."""
        apsw = self._apsw
        try:
            form = self._form(request)
            pages, names, read = self._page(form, read_parameters(request["parameters"]))
            rows = read[request["size"] - 1 :: -1] if request["is_reversed"] else read[: request["size"]]
            edges = rows[:1] + rows[1:][-1:]
            if not self._row_objects.INFINITIES.isdisjoint(chain.from_iterable(edges)):
                raise Declined
            text = self._orjson.dumps(form.objects(rows))
            if len(text) + form.unwritten(read, len(rows)) > form.terms["largest_page"]:
                self._write({"too_large": True})  # perhaps: the server counts the bytes itself
                return
            header = self._orjson.dumps({"names": names, "count": len(read), "edges": edges})
            self._write(header, [text])
            pages.known.add(form)
        except (Declined, apsw.TooBigError, LookupError, OverflowError, TypeError, ValueError):
            self._pages = None  # a connection explains statements by the tables and views of its last rows
            self._write({"declined": True})
        # The server reads the rows itself then, and reports the same error.
        except apsw.Error:
            self._pages = None
            self._write({"failed": True})

    def _form(self, request: dict[str, Any]) -> _Form:
        """The form of a page; the request has its definition, or an earlier one had."""
        if "sql" in request:
            # The server forgets its forms at the same one, and uses no number again.
            if len(self._forms) == MOST_FORMS:
                self._forms, self._pages = {}, None
            self._forms[request["form"]] = _Form(request, self._row_objects)
        return self._forms[request["form"]]

    def _page(self, form: _Form, parameters: Sequence[Any]) -> tuple[_PageConnection, list[str], list[Any]]:
        self._ends_at = time.monotonic() + form.terms["seconds"]
        while True:
            if self._pages is None or self._pages.is_outdated:
                self._pages = _PageConnection(self._apsw, self._open(form.terms))
            page = self._pages.page(form, parameters)
            if not self._pages.is_outdated:
                return self._pages, *page

    def _answer_stream(self, request: dict[str, Any]) -> None:
        apsw, count = self._apsw, 0
        try:
            with closing(self._open(request)) as connection:
                running = self._run(connection, request)
                written = self._lines(running, request) if "lines" in request else self._rows(running)
                for rows in written:
                    count += rows
            self._write({"end": True})
        except UnicodeDecodeError:
            self._write({"unreadable": True})
        except (apsw.Error, Declined, OverflowError, TypeError) as error:
            code = getattr(error, "extendedresult", 0)
            if count or code & 0xFF == apsw.SQLITE_INTERRUPT:
                self._write({"code": code, "message": str(error)})
            else:
                self._write({"declined": True})

    def _run(self, connection: Any, request: dict[str, Any]) -> Any:
        parameters = read_parameters(request["parameters"])
        _require_readable(connection, request["sql"], parameters)
        running = connection.cursor()
        running.exec_trace = self._write_names
        return running.execute(request["sql"], parameters)

    def _lines(self, running: Any, request: dict[str, Any]) -> Iterator[int]:
        """Write the rows as lines, or the values of those that are not plain; yields how many, each time."""
        write = getattr(self._row_objects.PlainObjects(*json.loads(request["columns"])), request["lines"])
        count = _FIRST_ROWS
        while rows := self._row_objects.read_rows(partial(islice, running), count, _BATCH_BYTES, _PIECE):
            header = {"rows": len(rows)}
            try:
                data = write(rows, self._orjson.dumps)
            except (TypeError, ValueError):
                header["values"] = True
                data = json.dumps([list(map(_spelled, row)) for row in rows]).encode()
            self._write(header, [data])
            yield len(rows)
            count = max(1, min(_BATCH_BYTES * len(rows) // len(data), count * _GROWTH, _LINE_ROWS))

    def _rows(self, running: Any) -> Iterator[int]:
        """Write the rows as columns; yields how many, each time."""
        count, groups, size = _FIRST_ROWS, list[list[Packed]](), 0
        while rows := self._row_objects.read_rows(partial(islice, running), count, _BATCH_BYTES, _PIECE):
            places: list[int] = []
            group = [packed(column, places) for column in zip(*rows)]  # noqa: B905 - rows are equally long
            if groups and not _are_joinable(groups[-1], group):
                yield self._write_rows(groups)
                groups, size = [], 0
            groups.append(group)
            bytes_ = sum(len(part.data) + part.rows for part in group)
            size += bytes_
            if len(rows) < _GROUP_ROWS or size >= _BATCH_BYTES or len(groups) == _MOST_GROUPS:
                yield self._write_rows(groups)
                groups, size = [], 0
            count = max(1, min(_BATCH_BYTES * len(rows) // bytes_, count * _GROWTH, _GROUP_ROWS))
        if groups:
            yield self._write_rows(groups)

    def _open(self, request: Mapping[str, Any]) -> Any:
        # Without the mutex, which a connection of one thread does not need: rows take two thirds of the time.
        flags = self._apsw.SQLITE_OPEN_READONLY | self._apsw.SQLITE_OPEN_NOMUTEX
        connection, is_page = self._apsw.Connection(request["path"], flags=flags), "form" in request

        def is_over() -> bool:
            # A page ends soon, whether its parent lives or not.
            return time.monotonic() > self._ends_at or not (is_page or os.getppid() == self.parent)

        connection.set_progress_handler(is_over, _INSTRUCTIONS_OF_PAGES if is_page else _INSTRUCTIONS)
        connection.set_busy_timeout(int(request["lock_seconds"] * 1000))
        connection.limit(self._apsw.SQLITE_LIMIT_LENGTH, request["largest_value"])
        return connection

    def _write_names(self, running: Any, *_: Any) -> bool:
        self._write({"names": _names_of(running)})
        return True

    def _write_rows(self, groups: Sequence[Sequence[Packed]]) -> int:
        """Write groups of rows as columns; the number of rows."""
        columns, buffers = [], []
        for parts in zip(*groups):  # noqa: B905 - rows are equally long
            (kind, nulls), pieces = joined(parts)
            sizes = [sum(map(len, buffer)) for buffer in pieces]
            columns.append([kind, nulls, sizes])
            for buffer, size in zip(pieces, sizes):  # noqa: B905 - made of them
                # Arrow needs its buffers at addresses that are multiples of eight.
                buffers += [*buffer, _PADDING[size % 8]]
        rows = sum(group[0].rows for group in groups)
        self._write({"rows": rows, "columns": columns}, buffers)
        return rows

    def _write(self, header: dict[str, Any] | bytes, buffers: Sequence[bytes] = ()) -> int:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        size = sum(map(len, buffers))
        begin = [LENGTHS.pack(len(text), size), text]
        count = 0
        if len(buffers) < _MOST_BUFFERS:
            # Without a copy, which would take a sixth of the time of the rows.
            count = os.writev(self._out, [*begin, *buffers])
        total = LENGTHS.size + len(text) + size
        if count < total:
            left = memoryview(b"".join([*begin, *buffers]))[count:]
            while left:
                left = left[os.write(self._out, left) :]
        return total


_MOST_BUFFERS = 1_000 if hasattr(os, "writev") else 0
"""Buffers that are written by one call; Linux takes 1,024."""

_PADDING = [b"", *(bytes(8 - over) for over in range(1, 8))]


def _requests(lines: int, loads: Callable[[bytes], Any]) -> Iterator[dict[str, Any]]:
    """Requests, until there is none for some time."""
    unread = b""
    while True:
        line, newline, rest = unread.partition(b"\n")
        if newline:
            unread = rest
            yield loads(line)
            continue
        # Windows cannot wait for a pipe: there, the process ends with its parent.
        if sys.platform != "win32" and not select.select([lines], [], [], _IDLE_SECONDS)[0]:
            return
        data = os.read(lines, 65536)
        if not data:
            return
        unread += data


def _module_of(path: str) -> Any:
    spec: Any = spec_from_file_location("row_objects", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Answer the requests of standard input on standard output."""
    row_objects, *folders = sys.argv[1:]
    sys.path += folders
    import apsw
    import orjson

    # Rows have no cycles.
    gc.disable()
    reader = Reader(apsw, orjson, _module_of(row_objects), sys.stdout.fileno())
    for request in _requests(sys.stdin.fileno(), orjson.loads):
        try:
            reader.answer(request)
        except BrokenPipeError:  # the parent has ended
            return


if __name__ == "__main__":
    main()
