"""`dualsql serve sales.csv`: the database of the files, and what is shown while and after they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from dualsql.cli.options import ServeOptions
from dualsql.databases.file_cache import CACHED_FROM, FileCache, file_cache_folder, private_folder
from dualsql.databases.file_selection import find_files, kind_in_place
from dualsql.databases.files import FileLoader, LoadedTable, files_url
from dualsql.databases.workbooks import ROW_NUMBER
from dualsql.errors import ConfigurationError

_LISTED = 20
_LISTED_COLUMNS = 8
_REPORT_SECONDS = 10
"""How often the progress of reading files is printed where the output is no terminal."""


@dataclass(frozen=True, slots=True)
class ServedFiles:
    """The database of the files.

    Attributes:
        loader: makes it; None for a database file, which is served where it is.
        cache: of databases of earlier starts; None without it.
    """

    loader: FileLoader | None = None
    cache: FileCache | None = None

    @property
    def row_number(self) -> str | None:
        """The column that numbers the rows of each table; None for a database file."""
        return None if self.loader is None else ROW_NUMBER

    def share(self) -> float:
        """The share of the files that is read."""
        return 1.0 if self.loader is None else self.loader.share()

    async def load(self, show: Callable[[str], object], console: Any) -> None:
        """Read the files, unless an earlier attempt to start, or the cache, has done so.

        Args:
            show: is called with a line now and then.
            console: of rich, to draw a bar; None for none.
        """
        loader = self.loader
        if loader is None or loader.database.exists():
            return
        if self.cache is not None and self.cache.restore(loader):
            show(
                "The files are unchanged: what the last start read is served. --no-file-cache reads them anew."
            )
            return
        place = None if self.cache is None else self.cache.path_of(loader)
        size = sum(path.stat().st_size for path in loader.paths)
        if console is None and size >= CACHED_FROM:
            show(f"Reading {size / 1e6:,.0f} MB of files.")
        working = asyncio.ensure_future(asyncio.to_thread(loader.run))
        try:
            with _bar(console) as update:
                await _watch(working, loader.share, update, (lambda _line: None) if console else show)
            working.result()
        except BaseException:
            loader.stop()
            await asyncio.wait({working})
            raise
        # A file that could not be read may be the next time, when a package is installed.
        if self.cache is not None and place is not None and not loader.unread:
            await asyncio.to_thread(self.cache.keep, loader, place)

    def names(self) -> Sequence[str]:
        """The names of the files that were read; none of a database file."""
        return [] if self.loader is None else list(dict.fromkeys(table.file for table in self.loader.tables))

    def summary(self) -> Iterator[str]:
        """The files that were read, and those that were not."""
        if self.loader is None:
            return
        yield "The files were read once. Start the server again to read them anew."
        tables, unread = self.loader.tables, self.loader.unread
        yield from (f"  {_line_of(table)}" for table in tables[:_LISTED])
        if len(tables) > _LISTED:
            yield f"  and {len(tables) - _LISTED} more tables"
        yield from (f"Not read: {file}: {reason}" for file, reason in unread[:_LISTED])
        if len(unread) > _LISTED:
            yield f"Not read: {len(unread) - _LISTED} more files."


def names_in_words(names: Sequence[str], what: str = "") -> str:
    """The names in a line: the first 20, and how many more there are."""
    more = f" and {len(names) - _LISTED} more{what and f' {what}'}" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _line_of(table: LoadedTable) -> str:
    columns = [
        f"{name} {kind}" + (f" ({nulls:,} NULL)" if nulls else "")
        for name, kind, nulls in table.columns[:_LISTED_COLUMNS]
    ]
    more = len(table.columns) - _LISTED_COLUMNS
    names = ", ".join([*columns, *([f"and {more} more columns"] if more > 0 else [])])
    notes = f". Note: {'; '.join(table.notes)}" if table.notes else ""
    return f"{table.name} ({table.file}): {table.rows:,} row{'s' * (table.rows != 1)}, {names}{notes}"


async def _watch(
    working: asyncio.Future[None],
    share: Callable[[], float],
    update: Callable[[float], object],
    show: Callable[[str], object],
) -> None:
    """Report the share that is done, until the work has ended."""
    seconds = 0.0
    while not working.done():
        await asyncio.wait({working}, timeout=0.2)
        update(share())
        seconds += 0.2
        if seconds >= _REPORT_SECONDS:
            seconds = 0.0
            show(f"{share():.0%} of the files are read.")


@contextmanager
def _bar(console: Any) -> Iterator[Callable[[float], object]]:
    if console is None:
        yield lambda _share: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("Reading the files", total=1.0)
        yield lambda share: progress.update(task, completed=share)


@contextmanager
def with_database(
    options: ServeOptions, show: Callable[[str], object]
) -> Iterator[tuple[ServeOptions, ServedFiles]]:
    """The options with the URL of a database: for files, that of a new file in a folder of its own.

    Raises:
        ConfigurationError: nothing is given to serve, or files and a database.
    """
    if not options.files:
        if not options.database:
            raise ConfigurationError(
                "Nothing is given to serve.",
                hint="Give files, or a database: dualsql serve sales.csv, or dualsql serve --database URL --all",
            )
        yield options, ServedFiles()
        return
    if options.database:
        raise ConfigurationError("Files and --database cannot be combined.", hint="Give one of them.")
    files = find_files(options.files)
    if files.links:
        show(f"Not served, because they are links in a folder: {names_in_words(files.links)}.")
    if files.unknown:
        show(f"Not served, because they are of no known kind: {names_in_words(files.unknown)}.")
    is_selected = options.schema is not None or options.tables is not None
    # Files were chosen by name. A database may have tables that are not meant to be served, so it needs --all.
    everything = options.everything or not is_selected
    options_of_files = replace(options, files=list(files.paths), everything=everything)
    kind = kind_in_place(files.paths)
    if kind is not None:
        url = URL.create(kind, database=str(files.paths[0]))
        yield replace(options_of_files, database=url.render_as_string()), ServedFiles()
        return
    with _folder_of(options_of_files, files.paths) as (folder, cache):
        url = files_url(folder)
        loader = FileLoader(files.paths, Path(url.database or ""), encoding=options.encoding)
        yield replace(options_of_files, database=url.render_as_string()), ServedFiles(loader, cache)


@contextmanager
def _folder_of(options: ServeOptions, paths: Sequence[Path]) -> Iterator[tuple[Path, FileCache | None]]:
    """A private folder for the database; beside the cache, if the files are large."""
    parent = None
    if not options.no_file_cache and sum(path.stat().st_size for path in paths) >= CACHED_FROM:
        parent = file_cache_folder()
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with private_folder(parent) as folder:
        yield folder, None if parent is None else FileCache(parent)
