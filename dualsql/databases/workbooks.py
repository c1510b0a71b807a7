"""Workbooks and SQLite files as CSV that DuckDB reads: each sheet and table is written to a file.

A workbook is read whole, in a process of its own: one cell at the end of a sheet of a kilobyte makes the reader ask for
all memory, and abort.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

ROW_NUMBER = "rowid"
"""The column of each table that numbers the rows of its file, from 0; DuckDB's own of a table."""

# Workbooks hold numbers as doubles, in which larger whole numbers have lost digits.
_LARGEST_WHOLE = 2**53


class Sheet(NamedTuple):
    """A sheet, or a table, as a file.

    Attributes:
        columns: the SQL type by name.
        file: of CSV, without a line of names.
        notes: on what is not there as it was.
    """

    name: str
    is_one_of_several: bool
    columns: Mapping[str, str]
    file: str
    notes: list[str]


class Sheets(NamedTuple):
    """The sheets of a workbook.

    Attributes:
        notes: on sheets that are not read.
    """

    sheets: Sequence[Sheet]
    notes: Sequence[str]


def read_workbook(
    path: Path, folder: str, memory: int, started: Callable[[subprocess.Popen[str]], object]
) -> Sheets:
    """The sheets of a workbook, which another process writes into the folder.

    Args:
        memory: bytes that it may take, where the system keeps such limits; 0 for any.
        started: gets the process, to end it.

    Raises:
        ValueError: it is no workbook, or takes more memory than it may.
    """
    # -P: no module of the folder that the server was started in takes the place of an installed one.
    # This file alone: with the package, the process would start in half a second.
    reader = subprocess.Popen(  # noqa: S603 - this program
        [sys.executable, "-P", __file__, str(path), folder, str(memory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a panic of the reader
        text=True,
        encoding="utf-8",
    )
    started(reader)
    output, _ = reader.communicate()
    if reader.returncode:
        most = f" Reading it may take {memory / 2**30:.1f} GiB of memory." if memory else ""
        raise ValueError(f"It is too large, or damaged.{most}")
    workbook = json.loads(output)
    if "error" in workbook:
        raise ValueError(f"It is damaged, or no workbook: {workbook['error']}")
    return Sheets([Sheet(*each) for each in workbook["sheets"]], workbook["notes"])


def write_sheets() -> None:
    """The program of the process that reads a workbook: writes each sheet as CSV, and prints what they are as JSON.

    Its arguments are the path, the folder to write into, and the bytes of memory that it may take.
    """
    path, folder, memory = sys.argv[1:]
    _limit_memory(int(memory))
    calamine: Any = import_module("python_calamine")
    notes: list[str] = []
    empty: list[str] = []
    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            sheets = list(_sheets_of(book, Path(path), Path(folder), notes, empty))
            if sheets and empty:
                # With the first table, and not among what was not read: nothing is missing.
                sheets[0].notes.append(_without_cells(empty))
        description: dict[str, Any] = {"sheets": sheets, "notes": notes}
    except (calamine.CalamineError, OSError, ValueError) as error:
        description = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(description).encode())


def _sheets_of(book: Any, path: Path, folder: Path, notes: list[str], empty: list[str]) -> Iterator[Sheet]:
    names = book.sheet_names
    visible = {each.name: str(each.visible).rpartition(".")[2] for each in book.sheets_metadata}
    for number, name in enumerate(names):
        sheet = book.get_sheet_by_name(name)
        rows = sheet.to_python()
        if not rows:
            empty.append(name)
            continue
        if all(cell == "" for cell in rows[0]):
            notes.append(f"The sheet {name[:60]!r} is not read: its first row has no names.")
            continue
        head, *body = rows
        columns = list(column_names(map(_text_of_cell, head)))
        # Rows are equally long.
        cells = list(zip(*body)) if body else [()] * len(columns)  # noqa: B905
        kinds = [_kind(values) for values in cells]
        staged = folder / f"{number}.csv"
        _write_rows(staged, body)
        hidden = [] if visible[name] == "Visible" else ["is hidden"]
        facts = [*hidden, *nameless(map(_text_of_cell, head)), *_missing_values(path, number)]
        yield Sheet(name, len(names) > 1, dict(zip(columns, kinds, strict=True)), str(staged), facts)


def _without_cells(names: Sequence[str]) -> str:
    listed = ", ".join(repr(name[:60]) for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"no table for {'sheets' if len(names) > 1 else 'the sheet'} without cells: {listed}{more}"


_LISTED = 5
_CELL = re.compile(rb"<c [^>]*?(?:/>|>.*?</c>)", re.DOTALL)
_ERRORS = re.compile(rb"<v>(#[A-Z0-9/!?]{3,12})</v>")
_LARGEST_SHEET = 64 * 1024**2


def _missing_values(path: Path, number: int) -> Iterator[str]:
    """The cells of an .xlsx that are NULL: errors such as #N/A, and formulas that no program has computed."""
    try:
        with ZipFile(path) as book:
            member = book.getinfo(f"xl/worksheets/sheet{number + 1}.xml")
            if member.file_size > _LARGEST_SHEET:
                return
            cells = _CELL.findall(book.read(member))
    except (BadZipFile, KeyError, OSError):
        return  # of another format, or with other names within
    errors = sorted(
        {match[1].decode() for cell in cells if b't="e"' in cell and (match := _ERRORS.search(cell))}
    )
    if errors:
        count = sum(b't="e"' in cell for cell in cells)
        yield f"{count:,} cell{'s' * (count != 1)} with {', '.join(errors)} {'are' if count != 1 else 'is'} NULL"
    empty = sum(b"<f" in cell and not re.search(rb"<v>[^<]", cell) for cell in cells)
    if empty:
        yield (
            f"{empty:,} formula{'s' * (empty != 1)} without a value {'are' if empty != 1 else 'is'} NULL: open and "
            "save the workbook in a program that computes them"
        )


def read_sqlite(path: Path, folder: str, is_stopped: Callable[[], bool]) -> Iterator[Sheet]:
    """The tables of a SQLite file, each written into the folder.

    Args:
        is_stopped: is asked now and then whether to give up.

    Raises:
        ValueError: it is no SQLite file, or `is_stopped`.
    """
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = bytes
            rows = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            )
            for number, (name,) in enumerate(rows.fetchall()):
                file = Path(folder) / f"{number}.csv"
                yield _write_table(connection, name.decode(), file, is_stopped)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ValueError(f"SQLite cannot read it: {error}") from error


_ROWS_BETWEEN_QUESTIONS = 10_000
_KIND_OF_STORAGE = {
    frozenset({"integer"}): "BIGINT",
    frozenset({"real"}): "DOUBLE",
    frozenset({"blob"}): "BLOB",
}


def _write_table(
    connection: sqlite3.Connection, table: str, file: Path, is_stopped: Callable[[], bool]
) -> Sheet:
    quoted = f'"{table.replace(chr(34), chr(34) * 2)}"'
    # Not by PRAGMA table_info, which leaves generated columns out.
    described = connection.execute(f"SELECT * FROM {quoted} LIMIT 0").description  # noqa: S608 - quoted
    quoted_names = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name, *_ in described]
    columns = column_names(name for name, *_ in described)
    types = ", ".join(f"typeof({name})" for name in quoted_names)
    combinations = connection.execute(f"SELECT DISTINCT {types} FROM {quoted}").fetchall()  # noqa: S608 - quoted
    kinds = {
        name: _KIND_OF_STORAGE.get(
            frozenset(row[place].decode() for row in combinations) - {"null"}, "VARCHAR"
        )
        for place, name in enumerate(columns)
    }
    # In the order of the file, as pages of SQLite itself have it.
    rows = connection.execute(f"SELECT * FROM {quoted}")  # noqa: S608 - quoted
    with file.open("wb") as output:
        for number, row in enumerate(rows):
            if not number % _ROWS_BETWEEN_QUESTIONS and is_stopped():
                raise ValueError("It was not read.")
            try:
                cells = [_csv_cell(value, kind) for value, kind in zip(row, kinds.values(), strict=True)]
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"Row {number + 1} of its table {table[:60]!r} has a text, or bytes among texts, "
                    "that is not UTF-8."
                ) from error
            output.write(b",".join(cells) + b"\n")
    return Sheet(table, is_one_of_several=True, columns=kinds, file=str(file), notes=[])


def _csv_cell(value: Any, kind: str) -> bytes:
    """A cell of CSV: NULL is nothing, a text is in quotes, bytes as DuckDB writes a BLOB.

    Raises:
        UnicodeDecodeError: a text is not UTF-8.
    """
    if value is None:
        return b""
    if isinstance(value, bytes) and kind == "BLOB":
        return b'"' + b"".join(b"\\x%02X" % byte for byte in value) + b'"'
    if isinstance(value, bytes):
        value.decode()
    text = value if isinstance(value, bytes) else repr(value).encode()
    return b'"' + text.replace(b'"', b'""') + b'"'


def _write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    with path.open("wb") as file:
        for row in rows:
            # Not by csv.writer, which puts the only cell of a row in quotes if it is empty: a text, and no NULL.
            cells = (_csv_cell(_text_of_cell(value).encode() or None, "VARCHAR") for value in row)
            file.write(b",".join(cells) + b"\n")


def _limit_memory(most: int) -> None:
    """Fail instead of taking more memory than this; Windows has no such limit, and macOS does not keep it."""
    if most:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def nameless(head: Iterable[str]) -> Iterator[str]:
    """A note on columns without a name."""
    count = sum(not name.strip() for name in head)
    if count:
        yield f"{count} column{'s' * (count != 1)} without a name"


def column_names(head: Iterable[str]) -> Iterator[str]:
    """Names of columns, each once; the empty ones are numbered."""
    used = {ROW_NUMBER}
    for number, cell in enumerate(head, 1):
        name = cell.strip().replace("\0", "") or f"column{number}"
        unique, copy = name, 1
        while unique.lower() in used:
            copy += 1
            unique = f"{name}_{copy}"
        used.add(unique.lower())
        yield unique


_KIND_OF_CELLS = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    dt.date: "DATE",
    dt.datetime: "TIMESTAMP",
    dt.time: "TIME",
}


def _kind(values: Sequence[Any]) -> str:
    """The type that all cells of a column have; of texts and of mixed cells VARCHAR. An empty cell is NULL."""
    present = [_plain(value) for value in values if value != ""]
    kinds = set(map(type, present))
    if kinds == {int, float}:
        return "DOUBLE"
    if kinds == {dt.date, dt.datetime}:
        return "TIMESTAMP"
    return _KIND_OF_CELLS.get(kinds.pop(), "VARCHAR") if len(kinds) == 1 else "VARCHAR"


def _plain(value: Any) -> Any:
    """A number of a spreadsheet is a double; a whole one is an integer here."""
    is_whole = type(value) is float and value.is_integer() and abs(value) <= _LARGEST_WHOLE
    return int(value) if is_whole else value


def _text_of_cell(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def memory_of_machine() -> int:
    """In bytes; 0 where it is not known, as on Windows."""
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


if __name__ == "__main__":
    write_sheets()
