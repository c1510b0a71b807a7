"""Files as tables of DuckDB.

A column of CSV gets a type only if every value is written as that type writes it: 007 stays a text, and so does a date
such as 01/02/2024, which could be read in two ways. DuckDB's own detection would change both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


class DuckDBFileImport:
    """See `dualsql.databases.files.FileImport`."""

    def __init__(self, database: Path) -> None:
        import_module("duckdb_sqlalchemy")  # the file is read with it
        duckdb = import_module("duckdb")
        self.error: type[Exception] = duckdb.Error
        # Without extensions from the network, and with the memory that queries have later.
        config = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": "25%",
        }
        self._connection = duckdb.connect(str(database), config=config)
        # DuckDB takes a program without a file (`python -c`) for a notebook, and draws a bar on its standard output.
        self._execute("SET enable_progress_bar = false")

    def add_parquet(self, path: Path, table: str) -> None:
        """See `FileImport.add_parquet`."""
        source = f"read_parquet({_file(path)}, hive_partitioning = false)"
        self._execute(f"CREATE TABLE {_quoted(table)} AS {self._without_nanoseconds(source)}")

    def add_csv(self, path: Path, table: str, *, has_tabs: bool) -> None:
        """See `FileImport.add_csv`."""
        # Fixed where DuckDB would otherwise guess: it might skip lines, or take them for comments.
        # hive_partitioning: folders of the path that are named like "year=2024" would become columns.
        tabs = r", delim = '\t'" if has_tabs else ""
        source = (
            f"read_csv({_file(path)}, header = true, all_varchar = true, allow_quoted_nulls = false, skip = 0, "
            f"comment = '', quote = '\"', escape = '\"', hive_partitioning = false{tabs})"
        )
        self._execute(f"CREATE TEMP TABLE staged AS FROM {source}")
        columns = [column[0] for column in self._execute("FROM staged LIMIT 0").description]
        cast = ", ".join(
            f"CAST({_quoted(column)} AS {type_}) AS {_quoted(column)}"
            for column, type_ in zip(columns, self._types(columns), strict=True)
        )
        self._execute(f"CREATE TABLE {_quoted(table)} AS SELECT {cast} FROM staged")
        self._execute("DROP TABLE staged")

    def add_cells(self, path: Path, table: str, columns: Mapping[str, str]) -> None:
        """See `FileImport.add_cells`."""
        described = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in columns.items())
        self._execute(
            f"CREATE TABLE {_quoted(table)} AS FROM read_csv({_file(path)}, "
            f"columns = {{{described}}}, header = false, auto_detect = false, quote = '\"', escape = '\"', "
            "hive_partitioning = false)"
        )

    def interrupt(self) -> None:
        """See `FileImport.interrupt`."""
        self._connection.interrupt()

    def close(self) -> None:
        """See `FileImport.close`."""
        self._connection.close()

    def _without_nanoseconds(self, source: str) -> str:
        """The query of a source, whose columns of TIMESTAMP_NS, which DuckDB's driver cuts, are instants or texts."""
        described = self._execute(f"FROM {source} LIMIT 0").description
        fine = [_quoted(name) for name, kind, *_ in described if str(kind) == "TIMESTAMP_NS"]
        if not fine:
            return f"FROM {source}"
        asked = ", ".join(f"coalesce(bool_and(epoch_ns({name}) % 1000 = 0), true)" for name in fine)
        are_whole = self._execute(f"SELECT {asked} FROM {source}").fetchone()
        kinds = ("TIMESTAMP" if is_whole else "VARCHAR" for is_whole in are_whole)
        replaced = ", ".join(
            f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(fine, kinds, strict=True)
        )
        return f"SELECT * REPLACE ({replaced}) FROM {source}"

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

    def _execute(self, statement: str) -> Any:
        return self._connection.execute(statement)


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
