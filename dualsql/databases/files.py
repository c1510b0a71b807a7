"""Files as tables: what can be read is copied into a database of one file, which is then served.

A file that cannot be read is named with its reason, and the others are served.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import URL

from dualsql.databases.file_selection import CSV, DUCKDB, JSON, PARQUET, SQLITE, SUFFIXES, TABBED, excerpt
from dualsql.databases.plugins import loadable_backends
from dualsql.databases.text_files import (
    CSVForm,
    TextFile,
    as_utf8,
    copy_as_utf8,
    csv_form,
    first_fault,
)
from dualsql.databases.workbooks import Sheet, memory_of_machine, nameless, read_sqlite, read_workbook
from dualsql.errors import ConfigurationError
from dualsql.packages import importing
from dualsql.settings import TABLE_PREFIX

T = TypeVar("T")


_LONGEST_REASON = 1_000
_LONGEST_LINE = 200


class FileImport(Protocol):
    """Copies files of rows into a new database of one file. Paths are literal: a name with `*` is no pattern.

    Attributes:
        error: the class of what the methods raise for a file that cannot be read.
    """

    error: type[Exception]

    def discard(self, tables: Iterable[str]) -> None:
        """Drop these tables and what was staged for them, and close the database of `tables_of`."""

    def add_parquet(self, path: Path, table: str) -> Sequence[str]:
        """Make a view that reads a Parquet file in place, or copy it into a new table. Returns notes on its values."""

    def tables_of(self, path: Path) -> Sequence[tuple[str, str]]:
        """Schema and name of the tables of a database of the same kind. `discard` closes it."""

    def add_table_of(self, schema: str, name: str, table: str) -> None:
        """Make a view that reads one of `tables_of` in place, or copy it into a new table."""

    def add_json(self, path: Path, table: str) -> None:
        """Copy JSON in UTF-8, an array or objects one after the other, into a new table."""

    def add_csv(self, path: Path, table: str, form: CSVForm) -> Sequence[str]:
        """Copy CSV in UTF-8 into a new table. Returns notes on what became NULL."""

    def add_cells(self, path: Path, table: str, columns: Mapping[str, str]) -> None:
        """Copy CSV without a row of names into a new table of these columns, whose SQL types are given."""

    def describe(self, table: str) -> tuple[int, Sequence[tuple[str, str, int | None]]]:
        """How many rows a table has, and of each column its name, its type and how many of its values are NULL.

        The last is None for a file that is read in place: it would be read whole.
        """

    def progress(self) -> float:
        """The share of the copy that is done, from another thread."""

    def reason_of(self, error: Exception) -> tuple[str, str]:
        """The reason that an `error` gives, in lines, and what to do, which may be empty."""

    def interrupt(self) -> None:
        """Stop the copy, from another thread."""

    def close(self) -> None:
        """Close the database."""


class FileDatabase(NamedTuple):
    """The database into which files are copied.

    Attributes:
        name: SQLAlchemy's.
        suffix: of its own file.
        open_import, read_in_place: see `Backend`.
    """

    name: str
    suffix: str
    open_import: Callable[[Path], FileImport]
    read_in_place: Callable[[Path, Sequence[Path]], None]


def database_of_files() -> FileDatabase:
    """The first database into which files can be copied."""
    return next(
        FileDatabase(name, backend.file_suffixes[0], backend.open_import, backend.read_in_place)
        for name, backend in loadable_backends()
        if backend.open_import is not None
    )


def _stop_error(path: Path) -> ConfigurationError:
    return ConfigurationError(f"The file {excerpt(path)} was not read.", hint="The server was stopped.")


def files_url(folder: Path) -> URL:
    """The URL of the database in `folder` that files are copied to."""
    kind = database_of_files()
    return URL.create(kind.name, database=str(folder / f"files{kind.suffix}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table that was read.

    Attributes:
        file: the name of its file.
        columns: name, type and how many values are NULL; None for a file that is read in place.
        notes: on what is not there as it is written in the file.
    """

    name: str
    file: str
    rows: int
    columns: Sequence[tuple[str, str, int | None]]
    notes: Sequence[str]


class UnreadFile(NamedTuple):
    """A file that cannot be read."""

    file: str
    reason: str


@dataclass(slots=True)
class FileLoader:
    """Copies files into a new database. `run` takes long and runs in a thread; `stop` ends it.

    Attributes:
        paths: of `find_files`.
        database: the file of the database.
        memory: bytes that reading a workbook may take, where the system keeps such limits.
        encoding: of text files that are not UTF-8; None to recognise it.
        tables, unread: what `run` has read so far, and the files that it cannot read.
    """

    paths: Sequence[Path]
    database: Path
    memory: int = field(default_factory=lambda: memory_of_machine() // 4)
    encoding: str | None = None
    tables: list[LoadedTable] = field(default_factory=list)
    unread: list[UnreadFile] = field(default_factory=list)
    _import: FileImport | None = None
    _reader: subprocess.Popen[str] | None = None
    _is_stopped: bool = False
    _names: set[str] = field(default_factory=set)
    _every_byte: int = 0
    _bytes_before: int = 0
    _bytes_now: int = 0
    _most_bytes: float = 0

    def run(self) -> None:
        """Copy the files. Those that cannot be read are in `unread` then.

        Raises:
            ConfigurationError: the extra `files` is not installed, no file can be read, or `stop` was called.
        """
        with _require_package(), importing():
            target = database_of_files().open_import(self.database)
        self._every_byte = sum(path.stat().st_size for path in self.paths if path.exists())
        self._import = target
        self.allow()
        try:
            for path in self.paths:
                self._read(path, target)
            if self._is_stopped:
                raise _stop_error(self.paths[-1])
        finally:
            target.close()
        if not self.tables:
            raise self._unreadable()

    def allow(self) -> None:
        """Let the database read in place what is not copied, until these files change."""
        in_place = [path for path in self.paths if path.name.lower().endswith((*PARQUET, *DUCKDB))]
        database_of_files().read_in_place(self.database, in_place)

    def share(self) -> float:
        """The share of the bytes that are read, from another thread."""
        if self._import is None:
            return float(bool(self.tables))  # of a cache
        every = self._every_byte
        now = self._import.progress() * self._bytes_now
        # A file whose first rows name other types than the last ones is read again.
        self._most_bytes = max(self._most_bytes, self._bytes_before + now)
        return min(1.0, self._most_bytes / every) if every else 0.0

    def stop(self) -> None:
        """Interrupt `run`, from another thread."""
        self._is_stopped = True
        if self._reader is not None:
            self._reader.kill()
        if self._import is not None:
            self._import.interrupt()

    def _read(self, path: Path, target: FileImport) -> None:
        names = self._names.copy()
        try:
            self._bytes_now = path.stat().st_size
            self._load(path, target)
        except (target.error, OSError, ValueError) as error:
            self._undo(names, target)
            if self._is_stopped:
                raise _stop_error(path) from error
            self.unread.append(UnreadFile(path.name, _reason_of(error, target)))
        self._bytes_now, self._bytes_before = 0, self._bytes_before + self._bytes_now

    def _undo(self, names: set[str], target: FileImport) -> None:
        """Leave the tables of these names alone."""
        target.discard(self._names - names)
        self._names = names
        self.tables = [table for table in self.tables if table.name.lower() in names]

    def _unreadable(self) -> ConfigurationError:
        if not self.unread:
            return ConfigurationError(
                "The files have no rows of names.", hint="The first row holds the names."
            )
        first, *others = self.unread
        more = f" Neither can {len(others)} more." if others else ""
        return ConfigurationError(f"The file {first.file[:200]!r} cannot be read.{more}", hint=first.reason)

    def _load(self, path: Path, target: FileImport) -> None:
        name = path.name.lower()
        if self._is_stopped:
            raise ValueError("It was not read.")
        if path.resolve() != path:  # files before it may have taken minutes
            raise ValueError("It was replaced by a link after it was found.")
        with TemporaryDirectory(dir=self.database.parent) as folder:
            if name.endswith(CSV):
                self._load_csv(path, target, folder)
            elif name.endswith(JSON):
                self._load_text(path, target, folder, target.add_json)
            elif name.endswith(DUCKDB):
                self._load_database(path, target)
            elif name.endswith(PARQUET):
                self._add(path, "", lambda table: target.add_parquet(path, table), target)
            elif name.endswith(SQLITE):
                for sheet in _some_tables(read_sqlite(path, folder, lambda: self._is_stopped)):
                    self._add_sheet(path, sheet, target)
            else:
                self._load_workbook(path, target, folder)

    def _load_csv(self, path: Path, target: FileImport, folder: str) -> None:
        def add(source: Path, table: str) -> Sequence[str]:
            has_tabs = path.name.lower().endswith(TABBED)
            form = csv_form(source, has_tabs=has_tabs)
            notes = (
                ["no tab is in its first line: read as one column"]
                if has_tabs and len(form.names) == 1
                else []
            )
            return [*notes, *_notes_on(form), *target.add_csv(source, table, form)]

        self._load_text(path, target, folder, add)

    def _load_text(
        self, path: Path, target: FileImport, folder: str, add: Callable[[Path, str], Sequence[str] | None]
    ) -> None:
        """Load a text; again as UTF-8, if bytes beyond its beginning are of another encoding."""

        def load(text: TextFile) -> None:
            notes = [] if text.encoding == "utf-8" else [f"read as {text.encoding}"]
            self._add(path, "", lambda table: [*notes, *(add(text.path, table) or ())], target)

        names = self._names.copy()
        text = as_utf8(path, Path(folder), self.encoding)
        try:
            load(text)
        except target.error:
            if self._is_stopped or text.encoding != "utf-8" or first_fault(path) is None:
                raise
            self._undo(names, target)
            load(copy_as_utf8(path, Path(folder), self.encoding))

    def _load_workbook(self, path: Path, target: FileImport, folder: str) -> None:
        with _require_package():
            import_module("python_calamine")
        book = read_workbook(path, folder, self.memory, self._note_reader)
        for sheet in book.sheets:
            self._add_sheet(path, sheet, target)
        if not book.sheets:
            raise ValueError(" ".join(["It has no sheet with a row of names.", *book.notes]))
        self.unread += (UnreadFile(path.name, note) for note in book.notes)

    def _note_reader(self, reader: subprocess.Popen[str]) -> None:
        self._reader = reader
        if self._is_stopped:
            reader.kill()

    def _load_database(self, path: Path, target: FileImport) -> None:
        for schema, name in _some_tables(target.tables_of(path)):
            add = partial(target.add_table_of, schema, name)
            self._add(path, name if schema == "main" else f"{schema} {name}", add, target)
        target.discard(())

    def _add_sheet(self, path: Path, sheet: Sheet, target: FileImport) -> None:
        def add(table: str) -> Sequence[str]:
            target.add_cells(Path(sheet.file), table, sheet.columns)
            return sheet.notes

        self._add(path, sheet.name if sheet.is_one_of_several else "", add, target)

    def _add(
        self, path: Path, part: str, add: Callable[[str], Sequence[str] | None], target: FileImport
    ) -> None:
        """Add a table, and note what was read."""
        if self._is_stopped:
            raise ValueError("It was not read.")
        table = self._new_name(path, part)
        notes = add(table) or []
        rows, columns = target.describe(table)
        self.tables.append(LoadedTable(name=table, file=path.name, rows=rows, columns=columns, notes=notes))

    def _new_name(self, path: Path, sheet: str = "") -> str:
        """A new name for a table: letters, digits and underscores, so that SQL needs no quotes."""
        stem = path.name[: -len(next(end for end in SUFFIXES if path.name.lower().endswith(end)))]
        name = re.sub(r"\W+", "_", f"{stem} {sheet}" if sheet else stem).strip("_")[:60] or "rows"
        if name[0].isdigit() or name.lower().startswith(TABLE_PREFIX):
            name = f"file_{name}"
        table, number = name, 1
        while table.lower() in self._names:
            number += 1
            table = f"{name}_{number}"
        self._names.add(table.lower())
        return table


def _some_tables(tables: Iterable[T]) -> Iterator[T]:
    """The tables of a file, which must have one."""
    count = 0
    for count, table in enumerate(tables, 1):  # noqa: B007 - counted
        yield table
    if not count:
        raise ValueError("It has no tables.")


_NAMES_LIKE_VALUES = re.compile(r"[-+]?\d+([.,]\d+)?|\d{4}-\d{2}-\d{2}.*")


def _notes_on(form: CSVForm) -> Iterator[str]:
    yield from nameless(form.names)
    if all(_NAMES_LIKE_VALUES.fullmatch(name.strip()) for name in form.names):
        yield "its first line was read as names, and looks like values"


def _reason_of(error: Exception, target: FileImport) -> str:
    """The whole reason in one line, with what to do."""
    reason, remedy = target.reason_of(error) if isinstance(error, target.error) else (str(error), "")
    # The line of the file that it quotes may have megabytes.
    lines = (" ".join(each.split()) for each in reason.splitlines())
    line = " ".join(
        each if len(each) <= _LONGEST_LINE else f"{each[:_LONGEST_LINE]} ..." for each in lines if each
    )
    line = line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]} ..."
    end = "" if line.endswith((".", "?", "!")) else "."
    return f"{line}{end} {remedy}".rstrip()


@contextmanager
def _require_package() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "Serving files needs packages that are not installed.", hint='pip install "dualsql[serve,files]"'
        ) from error
