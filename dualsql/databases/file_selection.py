"""Which files are served, and what kind of database they are in: it reads no file, and imports none of what does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dualsql.errors import ConfigurationError

COMPRESSED = (".gz", ".zst")


def _with_compressed(*suffixes: str) -> tuple[str, ...]:
    return tuple(f"{suffix}{more}" for suffix in suffixes for more in ("", *COMPRESSED))


TABBED = _with_compressed(".tsv")
CSV = (*_with_compressed(".csv"), *TABBED)
JSON = _with_compressed(".json", ".jsonl", ".ndjson")
PARQUET = (".parquet",)
SPREADSHEETS = (".xlsx", ".xls", ".ods")
SQLITE = (".sqlite", ".sqlite3", ".db")
DUCKDB = (".duckdb",)
SUFFIXES = (*CSV, *JSON, *PARQUET, *SPREADSHEETS, *SQLITE, *DUCKDB)
_MOST_FILES = 1_000


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files to serve.

    Attributes:
        paths: absolute, without links.
        links, unknown: the names of files of a folder that are not served: links, and files of no known kind.
    """

    paths: Sequence[Path]
    links: Sequence[str]
    unknown: Sequence[str]


def kind_in_place(paths: Sequence[Path]) -> str | None:
    """SQLAlchemy's name of the database that the only file is, if it can be served where it is."""
    if len(paths) != 1 or set(str(paths[0])) & set("?%#"):
        return None
    suffix = paths[0].suffix.lower()
    return "sqlite" if suffix in SQLITE else "duckdb" if suffix in DUCKDB else None


COPIED_INTO = "duckdb"
"""SQLAlchemy's name of the database into which files are copied."""


def find_files(arguments: Iterable[Path]) -> FileSelection:
    """The files of the arguments, and those directly in their folders.

    Raises:
        ConfigurationError: one does not exist or is of no known kind, a folder has none, or there are too many.
    """
    paths: list[Path] = []
    links: list[str] = []
    unknown: list[str] = []
    for path in arguments:
        try:
            _add_files(path, paths, links, unknown)
        except OSError as error:
            raise ConfigurationError(
                f"{excerpt(path)} cannot be read: {error.strerror}.",
                hint="Check the rights on it and on its folders.",
            ) from error
    if len(paths) > _MOST_FILES:
        raise ConfigurationError(
            f"{len(paths):,} files are given; at most {_MOST_FILES:,} can be served.",
            hint="Name some of them, such as sales/2024-*.csv, or join them: each is a table of its own.",
        )
    return FileSelection(list(dict.fromkeys(path.resolve() for path in paths)), links, unknown)


def _add_files(path: Path, paths: list[Path], links: list[str], unknown: list[str]) -> None:
    """Add the files of one argument to the lists."""
    if path.is_dir():
        present = sorted(each for each in path.iterdir() if each.name[0] != ".")
        candidates = [each for each in present if _has_suffix(each)]
        unknown += [
            each.name for each in present if not each.name.lower().endswith(_ENDINGS) and each.is_file()
        ]
        # A link in a folder may lead anywhere. A link that is an argument is followed.
        links += [each.name for each in candidates if each.is_symlink()]
        inside = [each for each in candidates if each.is_file() and not each.is_symlink()]
        if not inside:
            raise ConfigurationError(f"The folder {excerpt(path)} has no files to serve.", hint=_KINDS)
        paths += inside
    elif not path.is_file():
        what = "The link leads to no file" if path.is_symlink() else "There is no file"
        raise ConfigurationError(
            f"{what}: {excerpt(path)}.",
            hint="Check the path. A database has its URL in --database.",
        )
    elif not _has_suffix(path):
        raise ConfigurationError(f"The file {excerpt(path)} is of no known kind.", hint=_KINDS)
    else:
        paths.append(path)


_ENDINGS = (*SUFFIXES, *(f"{suffix}{part}" for suffix in SQLITE for part in ("-wal", "-shm", "-journal")))
"""Ends of the names of files that are served, and of those that SQLite keeps beside a database."""
_KINDS = f"Files can be {', '.join(SUFFIXES)}."


def _has_suffix(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def excerpt(path: Path) -> str:
    """The path in an error."""
    return repr(str(path)[:200])
