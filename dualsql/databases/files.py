"""Files as tables: CSV, Parquet and spreadsheets are copied into a database of one file, which is then served.

A workbook is read whole, in a process of its own: one cell at the end of a sheet of a kilobyte makes the reader ask for
all memory, and abort.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from dualsql.databases.backends import known_backends
from dualsql.errors import ConfigurationError
from dualsql.settings import TABLE_PREFIX

TABBED = (".tsv", ".tsv.gz")
CSV = (".csv", ".csv.gz", *TABBED)
PARQUET = (".parquet",)
SPREADSHEETS = (".xlsx", ".xls", ".ods")
SUFFIXES = (*CSV, *PARQUET, *SPREADSHEETS)
_MOST_FILES = 1_000
# Workbooks hold numbers as doubles, in which larger whole numbers have lost digits.
_LARGEST_WHOLE = 2**53


class FileImport(Protocol):
    """Copies files of rows into a new database of one file. Paths are literal: a name with `*` is no pattern.

    Attributes:
        error: the class of what the methods raise for a file that cannot be read.
    """

    error: type[Exception]

    def add_parquet(self, path: Path, table: str) -> None:
        """Copy a Parquet file into a new table."""

    def add_csv(self, path: Path, table: str, *, has_tabs: bool) -> None:
        """Copy CSV whose first row holds the names into a new table. `has_tabs`: values are separated by tabs."""

    def add_cells(self, path: Path, table: str, columns: Mapping[str, str]) -> None:
        """Copy CSV without a row of names into a new table of these columns, whose SQL types are given."""

    def interrupt(self) -> None:
        """Stop the copy, from another thread."""

    def close(self) -> None:
        """Close the database."""


class FileDatabase(NamedTuple):
    """The database into which files are copied.

    Attributes:
        name: SQLAlchemy's.
        suffix: of its own file.
        open_import: see `Backend.open_import`.
    """

    name: str
    suffix: str
    open_import: Callable[[Path], FileImport]


def database_of_files() -> FileDatabase:
    """The first database into which files can be copied."""
    return next(
        FileDatabase(name, backend.file_suffixes[0], backend.open_import)
        for name, backend in known_backends()
        if backend.open_import is not None
    )


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files to serve.

    Attributes:
        paths: absolute, without links.
        left_out: the names of files of a folder that are not served: links.
    """

    paths: Sequence[Path]
    left_out: Sequence[str]


def find_files(given: Iterable[Path]) -> FoundFiles:
    """The given files, and those directly in the given folders.

    Raises:
        ConfigurationError: one does not exist or is of no known kind, a folder has none, or there are too many.
    """
    paths: list[Path] = []
    left_out: list[str] = []
    for path in given:
        if path.is_dir():
            found = sorted(each for each in path.iterdir() if _is_known(each) and each.name[0] != ".")
            # A link in a folder may lead anywhere; whoever names a link means what it leads to.
            left_out += [each.name for each in found if each.is_symlink()]
            inside = [each for each in found if each.is_file() and not each.is_symlink()]
            if not inside:
                raise ConfigurationError(f"The folder {_shown(path)} has no files to serve.", hint=_KINDS)
            paths += inside
        elif not path.is_file():
            raise ConfigurationError(
                f"There is no file {_shown(path)}.",
                hint="Check the path. A database has its URL in --database.",
            )
        elif not _is_known(path):
            raise ConfigurationError(f"The file {_shown(path)} is of no known kind.", hint=_KINDS)
        else:
            paths.append(path)
    if len(paths) > _MOST_FILES:
        raise ConfigurationError(f"{len(paths):,} files are given; at most {_MOST_FILES:,} can be served.")
    return FoundFiles(list(dict.fromkeys(path.resolve() for path in paths)), left_out)


_KINDS = f"Files can be {', '.join(SUFFIXES)}."


def _is_known(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def _shown(path: Path) -> str:
    return repr(str(path)[:200])


def files_url(folder: Path) -> str:
    """The URL of the database in `folder` that files are copied to."""
    name, suffix, _ = database_of_files()
    return f"{name}:///{folder / f'files{suffix}'}"


@dataclass(slots=True)
class FileLoader:
    """Copies files into a new database. `run` takes long and runs in a thread; `stop` ends it.

    Attributes:
        paths: of `find_files`.
        database: the file of the database.
        memory: bytes that reading a workbook may take, where the system keeps such limits.
    """

    paths: Sequence[Path]
    database: Path
    memory: int = field(default_factory=lambda: _memory_of_machine() // 4)
    _import: FileImport | None = None
    _reader: subprocess.Popen[str] | None = None
    _is_stopped: bool = False
    _names: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Copy the files.

        Raises:
            ConfigurationError: the extra `files` is not installed, or a file cannot be read.
        """
        with _installed():
            target = self._import = database_of_files().open_import(self.database)
        try:
            for path in self.paths:
                try:
                    self._load(path, target)
                except (target.error, OSError, ValueError) as error:
                    reason = str(error).strip().partition("\n")[0][:300]
                    raise ConfigurationError(
                        f"The file {_shown(path)} cannot be read.", hint=reason
                    ) from error
        finally:
            target.close()
        if not self._names:
            raise ConfigurationError(
                "The files have no rows of names.", hint="The first row holds the names."
            )

    def stop(self) -> None:
        """Interrupt `run`, from another thread."""
        self._is_stopped = True
        if self._reader is not None:
            self._reader.kill()
        if self._import is not None:
            self._import.interrupt()

    def _load(self, path: Path, target: FileImport) -> None:
        name = path.name.lower()
        if self._is_stopped:
            raise ValueError("It was not read.")
        if path.resolve() != path:  # files before it may have taken minutes
            raise ValueError("It was replaced by a link after it was found.")
        if name.endswith(PARQUET):
            target.add_parquet(path, self._named(path))
        elif name.endswith(CSV):
            target.add_csv(path, self._named(path), has_tabs=name.endswith(TABBED))
        else:
            self._load_sheets(path, target)

    def _load_sheets(self, path: Path, target: FileImport) -> None:
        with _installed():
            import_module("python_calamine")
        with TemporaryDirectory(dir=self.database.parent) as folder:
            for sheet in self._sheets_of(path, folder):
                table = self._named(path, sheet.name if sheet.is_one_of_several else "")
                target.add_cells(Path(sheet.file), table, sheet.columns)

    def _sheets_of(self, path: Path, folder: str) -> Sequence[_Sheet]:
        """The sheets of a workbook, which another process writes into the folder.

        Raises:
            ValueError: it is no workbook, or takes more memory than it may.
        """
        # -P: no module of the folder that the server was started in takes the place of an installed one.
        program = [sys.executable, "-P", "-c", f"from {__name__} import write_sheets; write_sheets()"]
        self._reader = subprocess.Popen(  # noqa: S603 - this program
            [*program, str(path), folder, str(self.memory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a panic of the reader
            text=True,
            encoding="utf-8",
        )
        if self._is_stopped:
            self._reader.kill()
        written, _ = self._reader.communicate()
        if self._reader.returncode:
            most = f" Reading it may take {self.memory / 2**30:.1f} GiB of memory." if self.memory else ""
            raise ValueError(f"It is too large, or damaged.{most}")
        found = json.loads(written)
        if "error" in found:
            raise ValueError(found["error"])
        return [_Sheet(*each) for each in found["sheets"]]

    def _named(self, path: Path, sheet: str = "") -> str:
        """A new name for a table: letters, digits and underscores, so that SQL needs no quotes."""
        stem = path.name[: -len(next(end for end in SUFFIXES if path.name.lower().endswith(end)))]
        name = re.sub(r"\W+", "_", f"{stem} {sheet}" if sheet else stem).strip("_")[:60] or "rows"
        if name[0].isdigit() or name.lower().startswith(TABLE_PREFIX):
            name = f"file_{name}"
        found, number = name, 1
        while found.lower() in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found.lower())
        return found


class _Sheet(NamedTuple):
    """A sheet as a file.

    Attributes:
        columns: the SQL type by name.
        file: of CSV, without a line of names.
    """

    name: str
    is_one_of_several: bool
    columns: Mapping[str, str]
    file: str


def write_sheets() -> None:
    """The program of the process that reads a workbook: writes each sheet as CSV, and prints what they are as JSON.

    Its arguments are the path, the folder to write into, and the bytes of memory that it may take.
    """
    path, folder, memory = sys.argv[1:]
    _limit_memory(int(memory))
    calamine: Any = import_module("python_calamine")
    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            found: dict[str, Any] = {"sheets": list(_written_sheets(book, Path(folder)))}
    except (calamine.CalamineError, OSError, ValueError) as error:
        found = {"error": str(error)}
    sys.stdout.buffer.write(json.dumps(found).encode())


def _written_sheets(book: Any, folder: Path) -> Iterator[_Sheet]:
    names = book.sheet_names
    for number, sheet in enumerate(names):
        rows = book.get_sheet_by_name(sheet).to_python()
        if not rows or all(cell == "" for cell in rows[0]):
            continue
        head, *body = rows
        columns = list(_column_names(head))
        # Rows are equally long.
        cells = list(zip(*body)) if body else [()] * len(columns)  # noqa: B905
        kinds = [_kind(values) for values in cells]
        staged = folder / f"{number}.csv"
        with staged.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([_written(value) for value in row] for row in body)
        yield _Sheet(sheet, len(names) > 1, dict(zip(columns, kinds, strict=True)), str(staged))


def _memory_of_machine() -> int:
    """In bytes; 0 where it is not known, as on Windows."""
    if not hasattr(os, "sysconf"):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _limit_memory(most: int) -> None:
    """Fail instead of taking more memory than this; Windows has no such limit, and macOS does not keep it."""
    if most:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            "Serving files needs packages that are not installed.", hint='pip install "dualsql[serve,files]"'
        ) from error


def _column_names(head: Sequence[Any]) -> Iterator[str]:
    """Names of columns, each once; the empty ones are numbered."""
    used: set[str] = set()
    for number, cell in enumerate(head, 1):
        name = _written(cell).strip() or f"column{number}"
        found, copy = name, 1
        while found.lower() in used:
            copy += 1
            found = f"{name}_{copy}"
        used.add(found.lower())
        yield found


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


def _written(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
