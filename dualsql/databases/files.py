"""Files as tables: CSV, Parquet and spreadsheets are copied into a DuckDB file, which is then served like any other.

A column of CSV gets a type only if every value is written as that type writes it: 007 stays a text, and so does a date
such as 01/02/2024, which could be read in two ways. DuckDB's own detection would change both.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dualsql.errors import ConfigurationError
from dualsql.settings import TABLE_PREFIX

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet",)
SPREADSHEETS = (".xlsx", ".xls", ".ods")
SUFFIXES = (*CSV, *PARQUET, *SPREADSHEETS)
_MOST_FILES = 1_000
_LARGEST_WHOLE = 2**53


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
            raise ConfigurationError(f"There is no file {_shown(path)}.", hint="Check the path.")
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


@dataclass(slots=True)
class FileLoader:
    """Copies files into a new DuckDB file. `run` takes long and runs in a thread; `stop` ends it.

    Attributes:
        paths: of `find_files`.
        database: where the DuckDB file is written.
    """

    paths: Sequence[Path]
    database: Path
    _connection: Any = None
    _names: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Copy the files.

        Raises:
            ConfigurationError: the extra `files` is not installed, or a file cannot be read.
        """
        duckdb = _needed("duckdb")
        # Without extensions from the network.
        config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        self._connection = duckdb.connect(str(self.database), config=config)
        try:
            for path in self.paths:
                try:
                    self._load(path)
                except (duckdb.Error, OSError, ValueError) as error:
                    reason = str(error).strip().partition("\n")[0][:300]
                    raise ConfigurationError(
                        f"The file {_shown(path)} cannot be read.", hint=reason
                    ) from error
        finally:
            self._connection.close()
        if not self._names:
            raise ConfigurationError(
                "The files have no rows of names.", hint="The first row holds the names."
            )

    def stop(self) -> None:
        """Interrupt `run`, from another thread."""
        if self._connection is not None:
            self._connection.interrupt()

    def _load(self, path: Path) -> None:
        name = path.name.lower()
        if name.endswith(PARQUET):
            source = f"read_parquet({_file(path)}, hive_partitioning = false)"
            self._execute(f"CREATE TABLE {_quoted(self._named(path))} AS FROM {source}")
        elif name.endswith(CSV):
            self._load_csv(path)
        else:
            self._load_sheets(path)

    def _load_csv(self, path: Path) -> None:
        # Fixed where DuckDB would otherwise guess: it might skip lines, or take them for comments.
        tabs = r", delim = '\t'" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ""
        source = (
            f"read_csv({_file(path)}, header = true, all_varchar = true, allow_quoted_nulls = false, skip = 0, "
            f"comment = '', quote = '\"', escape = '\"'{tabs})"
        )
        self._execute(f"CREATE TEMP TABLE staged AS FROM {source}")
        columns = [column[0] for column in self._execute("FROM staged LIMIT 0").description]
        cast = ", ".join(
            f"CAST({_quoted(column)} AS {type_}) AS {_quoted(column)}"
            for column, type_ in zip(columns, self._types(columns), strict=True)
        )
        self._execute(f"CREATE TABLE {_quoted(self._named(path))} AS SELECT {cast} FROM staged")
        self._execute("DROP TABLE staged")

    def _types(self, columns: Sequence[str]) -> list[str]:
        """The types that write every value of the staged columns as the file does."""
        # The first rows name one type to ask all rows for: a third of the time of asking for every type.
        first = self._ask(dict.fromkeys(columns, _ANY_TYPE), "(FROM staged LIMIT 1000)")
        likely = {name: [_kind_named(found)] if found else _ANY_TYPE for name, found in first.items()}
        found = self._ask({name: kinds for name, kinds in likely.items() if kinds != ["VARCHAR"]}, "staged")
        failed = [name for name, type_ in found.items() if type_ is None and likely[name] != _ANY_TYPE]
        found |= self._ask(dict.fromkeys(failed, _ANY_TYPE), "staged")
        return [found.get(name) or "VARCHAR" for name in columns]

    def _ask(self, kinds: Mapping[str, Sequence[str]], relation: str) -> dict[str, str | None]:
        """The first of its kinds that each column is; None for a column that is none or has no values."""
        if not kinds:
            return {}
        questions = [
            f"coalesce({', '.join(_QUESTIONS[kind] for kind in asked)})".replace("%c", _quoted(name))
            for name, asked in kinds.items()
        ]
        answers = self._execute(f"SELECT {', '.join(questions)} FROM {relation}").fetchone()
        return dict(zip(kinds, answers, strict=True))

    def _load_sheets(self, path: Path) -> None:
        calamine = _needed("python_calamine")
        try:
            book = calamine.CalamineWorkbook.from_path(str(path))
        except calamine.CalamineError as error:
            raise ValueError(str(error)) from error
        with book:
            names = book.sheet_names
            for sheet in names:
                rows = book.get_sheet_by_name(sheet).to_python()
                if rows and any(cell != "" for cell in rows[0]):
                    self._load_sheet(path, sheet if len(names) > 1 else "", rows)

    def _load_sheet(self, path: Path, sheet: str, rows: list[list[Any]]) -> None:
        head, *body = rows
        columns = list(_column_names(head))
        # Rows are equally long.
        cells = list(zip(*body)) if body else [()] * len(columns)  # noqa: B905
        kinds = [_kind(values) for values in cells]
        staged = self.database.with_name("sheet.csv")
        with staged.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([_written(value) for value in row] for row in body)
        described = ", ".join(
            f"{_text(name)}: {_text(kind)}" for name, kind in zip(columns, kinds, strict=True)
        )
        try:
            self._execute(
                f"CREATE TABLE {_quoted(self._named(path, sheet))} AS FROM read_csv({_file(staged)}, "
                f"columns = {{{described}}}, header = false, auto_detect = false, quote = '\"', escape = '\"')"
            )
        finally:
            staged.unlink()

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

    def _execute(self, statement: str) -> Any:
        return self._connection.execute(statement)


def _needed(module: str) -> Any:
    from importlib import import_module

    try:
        if module == "duckdb":
            import_module("duckdb_sqlalchemy")
        return import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            "Serving files needs packages that are not installed.", hint='pip install "dualsql[serve,files]"'
        ) from error


def _file(path: Path) -> str:
    """The path as a text in SQL. `*`, `?` and `[` in a name would be a pattern, which may match other files."""
    return _text(re.sub(r"([*?\[])", r"[\1]", str(path)))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_NUMBER = "-?(0|[1-9][0-9]*)"
_INSTANT = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
_CONDITIONS = {
    "BIGINT": f"regexp_full_match(%c, '{_NUMBER}') AND %c <> '-0' AND try_cast(%c AS BIGINT) IS NOT NULL",
    "DOUBLE": f"regexp_full_match(%c, '{_NUMBER}([.][0-9]+)?([eE][-+]?[0-9]+)?') AND isfinite(try_cast(%c AS DOUBLE)) "
    "AND length(regexp_replace(regexp_extract(%c, '^[^eE]+'), '[-.]', '', 'g')) <= 15",
    "BOOLEAN": "lower(%c) IN ('true', 'false')",
    "DATE": "regexp_full_match(%c, '[0-9]{4}-[0-9]{2}-[0-9]{2}') AND try_cast(%c AS DATE) IS NOT NULL",
    "TIMESTAMP": f"regexp_full_match(%c, '{_INSTANT}') AND try_cast(%c AS TIMESTAMP) IS NOT NULL",
}
_WHOLE = "max(length(regexp_extract(%c, '^-?([0-9]+)', 1)))"
_SCALE = "coalesce(max(length(regexp_extract(%c, '[.]([0-9]+)$', 1))), 0)"
_DECIMAL = (
    f"CASE WHEN bool_and(regexp_full_match(%c, '{_NUMBER}([.][0-9]+)?')) AND {_WHOLE} + {_SCALE} <= 38 "
    f"THEN format('DECIMAL({{}}, {{}})', {_WHOLE} + {_SCALE}, {_SCALE}) END"
)
_WHEN = {
    kind: f"CASE WHEN bool_and({condition}) FILTER (%c IS NOT NULL) THEN '{kind}' END"
    for kind, condition in _CONDITIONS.items()
}
_QUESTIONS: Mapping[str, str] = {
    "BIGINT": _WHEN.pop("BIGINT"),
    "DECIMAL": _DECIMAL,
    **_WHEN,
    "VARCHAR": "CASE WHEN count(%c) > 0 THEN 'VARCHAR' END",
}
"""By kind, an aggregate in SQL over a column of texts, %c: the type if every value is written so, else NULL."""

_ANY_TYPE = list(_QUESTIONS)


def _kind_named(type_: str) -> str:
    return type_.partition("(")[0]


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
