"""Files as tables of DuckDB.

A column of CSV gets a type only if every value is written as that type writes it: 007 stays a text, and so does a date
such as 01/02/2024, which could be read in two ways. DuckDB's own detection would change both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dualsql.databases.duckdb.in_place import attach, text_literal
from dualsql.databases.text_files import CSVForm
from dualsql.databases.workbooks import ROW_NUMBER, column_names

_NUMBER_IN_FILE = "file_row_number"
_PATTERN = re.compile(r"[*?\[]")


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
            # Each table would wait for the disk (0.2 s for 16 small ones). A crash of the machine ends the server too.
            "fsync_mode": "NONE",
        }
        self._is_copying = False
        self._attached: str | None = None
        self._views: set[str] = set()
        self._connection = duckdb.connect(str(database), config=config)
        [has_bar] = self._execute("SELECT current_setting('enable_progress_bar')").fetchone()
        try:
            # DuckDB measures its progress only with a bar, which it draws on the standard output.
            self._execute("SET enable_progress_bar_print = false")
            self._execute("SET enable_progress_bar = true")
        except duckdb.Error:
            # In Jupyter without ipywidgets there is no bar, and no change of the settings.
            if has_bar:
                raise

    def discard(self, tables: Iterable[str]) -> None:
        for table in (*tables, "staged", "documents"):
            kind = "VIEW" if table in self._views else "TABLE"
            self._execute(f"DROP {kind} IF EXISTS {_identifier(table)}")
        if self._attached is not None:
            self._execute(f"DETACH {self._attached}")
            self._attached = None

    def add_parquet(self, path: Path, table: str) -> Sequence[str]:
        source = f"read_parquet({_file(path)}, hive_partitioning = false"
        is_pattern = _PATTERN.search(str(path)) is not None  # DuckDB would ask for the folder
        if is_pattern or _NUMBER_IN_FILE in self._columns_of(f"{source})"):
            self._read_all(f"CREATE TABLE {_identifier(table)} AS {self._selection(f'{source})')}")
        else:
            self._view(f"{source}, {_NUMBER_IN_FILE} = true)", _NUMBER_IN_FILE, table)
        wide = self._execute(
            f"SELECT name FROM parquet_schema({_file(path)}) WHERE precision > 38"
        ).fetchall()
        return [f"{name}: decimals of more than 38 digits are read as DOUBLE" for (name,) in wide]

    def tables_of(self, path: Path) -> Sequence[tuple[str, str]]:
        self._attached = attach(self._connection, path)
        # No views: with access to files, which this connection has, they may read any file of the machine.
        tables: Sequence[tuple[str, str]] = self._execute(
            "SELECT schema_name, table_name FROM duckdb_tables() "
            f"WHERE database_name = '{self._attached}' AND NOT internal"
        ).fetchall()
        return tables

    def add_table_of(self, schema: str, name: str, table: str) -> None:
        source = f"{self._attached}.{_identifier(schema)}.{_identifier(name)}"
        if ROW_NUMBER in map(str.lower, self._columns_of(source)):
            self._read_all(f"CREATE TABLE {_identifier(table)} AS {self._selection(source)}")
        else:
            self._view(source, ROW_NUMBER, table)

    def add_json(self, path: Path, table: str) -> None:
        self._read_all(f"CREATE TEMP TABLE documents AS FROM read_json_objects({_file(path)})")
        keys = self._execute(
            "SELECT key FROM (SELECT rowid AS n, unnest(json_keys(json)) AS key, "
            "generate_subscripts(json_keys(json), 1) AS position FROM documents) "
            "GROUP BY key ORDER BY min((n, position))"
        )
        names = [name for (name,) in keys.fetchmany(_MOST_COLUMNS + 1)]
        if len(names) > _MOST_COLUMNS:
            raise ValueError(f"Its objects have more than {_MOST_COLUMNS:,} different names.")
        [others] = self._execute(
            "SELECT count(*) FROM documents WHERE json_type(json) <> 'OBJECT'"
        ).fetchone()
        if not others and not names:
            raise ValueError("It is empty, or its objects are.")
        if others:
            raise ValueError('It has values that are no objects. Each row must be an object: {"name": value}')
        # By JSON pointers (RFC 6901).
        pointers = {name: f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names}
        values = {name: f"json -> {text_literal(pointer)}" for name, pointer in pointers.items()}
        types = self._aggregates(
            [f"list(DISTINCT json_type({value}))" for value in values.values()], "documents"
        )
        allowed = {
            alias: _kinds_of_json(frozenset(kinds or ()) - {None, "NULL"})
            for alias, kinds in zip(column_names(names), types, strict=True)
        }
        cells = (
            f"{_document(value) if kinds == ['JSON'] else value.replace(' -> ', ' ->> ', 1)} AS {_identifier(alias)}"
            for (alias, kinds), value in zip(allowed.items(), values.values(), strict=True)
        )
        self._execute(f"CREATE TEMP TABLE staged AS SELECT {', '.join(cells)} FROM documents")
        self._execute("DROP TABLE documents")
        self._create(table, self._types(allowed, {}), {})

    def add_csv(self, path: Path, table: str, form: CSVForm) -> Sequence[str]:
        names = list(column_names(form.names))
        if len(names) > _MOST_COLUMNS:
            raise ValueError(f"It has more than {_MOST_COLUMNS:,} columns.")
        columns = ", ".join(f"{text_literal(name)}: 'VARCHAR'" for name in names)
        # Fixed where DuckDB would otherwise guess: it might skip lines, or take them for comments.
        # hive_partitioning: folders of the path that are named like "year=2024" would become columns.
        source = (
            f"read_csv({_file(path)}, columns = {{{columns}}}, header = true, auto_detect = false, "
            f"delim = {text_literal(form.delimiter)}, quote = '\"', escape = '\"', comment = '', skip = 0, "
            "allow_quoted_nulls = false, hive_partitioning = false)"
        )
        self._execute(f"CREATE TEMP TABLE staged AS FROM {source} LIMIT {_SAMPLE + 1}")
        [rows] = self._execute("SELECT count(*) FROM staged").fetchone()
        if rows > _SAMPLE:
            if self._create_at_once(source, table, names):
                return []
            self._execute("DROP TABLE staged")
            self._read_all(f"CREATE TEMP TABLE staged AS FROM {source}")
        errors = self._errors_in(names)
        types = self._types(dict.fromkeys(names, _ANY_TYPE), errors)
        # In a column of texts, they may be texts.
        errors = {name: count for name, count in errors.items() if types[name] != "VARCHAR"}
        self._create(table, types, errors)
        return [f"{name}: {count:,} of {_LISTED_ERRORS} are NULL" for name, count in errors.items()]

    def add_cells(self, path: Path, table: str, columns: Mapping[str, str]) -> None:
        types = ", ".join(f"{text_literal(name)}: {text_literal(kind)}" for name, kind in columns.items())
        self._execute(
            f"CREATE TABLE {_identifier(table)} AS FROM read_csv({_file(path)}, "
            f"columns = {{{types}}}, header = false, auto_detect = false, quote = '\"', escape = '\"', "
            "allow_quoted_nulls = false, hive_partitioning = false)"
        )

    def describe(self, table: str) -> tuple[int, Sequence[tuple[str, str, int | None]]]:
        columns = self._columns_of(_identifier(table))
        if table in self._views:
            [rows] = self._execute(f"SELECT count(*) FROM {_identifier(table)}").fetchone()
            return rows, [(name, kind, None) for name, kind in columns.items() if name != ROW_NUMBER]
        counts = ["count(*)", *(f"count({_identifier(name)})" for name in columns)]
        rows, *present = self._aggregates(counts, _identifier(table))
        counted = zip(columns.items(), present, strict=True)
        return rows, [(name, kind, rows - count) for (name, kind), count in counted]

    def progress(self) -> float:
        if not self._is_copying:
            return 0.0
        try:
            return max(float(self._connection.query_progress()), 0.0) / 100
        except self.error:  # it was closed
            return 0.0

    def reason_of(self, error: Exception) -> tuple[str, str]:
        reason = _AFTER_REASON.split(str(error).strip())[0]
        return reason, " ".join(remedy for words, remedy in _REMEDIES.items() if words in reason)

    def interrupt(self) -> None:
        with suppress(self.error):  # it was closed
            self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()

    def _columns_of(self, source: str) -> Mapping[str, str]:
        """The types by name."""
        columns = self._execute(f"FROM {source} LIMIT 0").description
        return {name: str(kind) for name, kind, *_ in columns}

    def _view(self, source: str, number: str, table: str) -> None:
        """A view that reads in place. `number`: the column of the source that numbers its rows."""
        self._execute(f"CREATE VIEW {_identifier(table)} AS {self._selection(source, number)}")
        self._views.add(table)

    def _selection(self, source: str, number: str | None = None) -> str:
        """A SELECT of the source: columns that no format of dualsql writes are JSON or texts."""
        kinds = {name: kind for name, kind in self._columns_of(source).items() if name != number}
        # The driver cuts nanoseconds.
        fine = [_identifier(name) for name, kind in kinds.items() if kind == "TIMESTAMP_NS"]
        checks = ", ".join(f"coalesce(bool_and(epoch_ns({name}) % 1000 = 0), true)" for name in fine)
        are_whole = self._execute(f"SELECT {checks} FROM {source}").fetchone() if fine else ()
        whole = {name for name, is_whole in zip(fine, are_whole, strict=True) if is_whole}
        columns = [
            f"{_as_servable(_identifier(name), kind, is_whole=_identifier(name) in whole)} AS {_identifier(alias)}"
            for (name, kind), alias in zip(kinds.items(), column_names(kinds), strict=True)
        ]
        numbered = [] if number is None else [f"{number} AS {ROW_NUMBER}"]
        return f"SELECT {', '.join([*columns, *numbered])} FROM {source}"

    def _create(self, table: str, types: Mapping[str, str], errors: Mapping[str, int]) -> None:
        """The table of the staged texts, with these types."""
        cells = ", ".join(
            f"CAST({_without_errors(name) if name in errors else _identifier(name)} AS {type_}) AS {_identifier(name)}"
            for name, type_ in types.items()
        )
        self._execute(f"CREATE TABLE {_identifier(table)} AS SELECT {cells} FROM staged")
        self._execute("DROP TABLE staged")

    def _create_at_once(self, source: str, table: str, names: Sequence[str]) -> bool:
        """Read the file into the table, with the types of the staged rows. False if a value is of another type.

        Each value is checked as it is read: a third of the time of staging all of them as texts.
        """
        if self._errors_in(names):
            return False
        types = self._types(dict.fromkeys(names, _ANY_TYPE), {}, default="")
        casts = {name: (_identifier(name), _for_rows_to_come(type_)) for name, type_ in types.items()}
        are_fast = self._aggregates([f"bool_and({_fast_check(*cast)})" for cast in casts.values()], "staged")
        cells = ", ".join(
            f"{_cast_with_check(*cast, is_fast=is_fast)} AS {_identifier(name)}"
            for (name, cast), is_fast in zip(casts.items(), are_fast, strict=True)
        )
        try:
            self._read_all(f"CREATE TABLE {_identifier(table)} AS SELECT {cells} FROM {source}")
        except self.error as error:
            if type(error).__name__ != "ConversionException" and _OTHER_TYPE not in str(error):
                raise
            return False
        self._execute("DROP TABLE staged")
        return True

    def _errors_in(self, names: Sequence[str]) -> dict[str, int]:
        """How many errors of a spreadsheet each column has, without those that have none."""
        counts = self._aggregates(
            [f"count(*) FILTER ({_identifier(name)} IN ({_ERRORS}))" for name in names], "staged"
        )
        return {name: count for name, count in zip(names, counts, strict=True) if count}

    def _types(
        self, allowed: Mapping[str, Sequence[str]], errors: Mapping[str, int], default: str = "VARCHAR"
    ) -> dict[str, str]:
        """The types that write every value of the staged columns as the file does.

        Args:
            errors: columns in which errors of a spreadsheet are no values.
            default: the type of a column without values.
        """
        columns = {name: _without_errors(name) if name in errors else _identifier(name) for name in allowed}
        fixed = {name: kinds[0] for name, kinds in allowed.items() if len(kinds) == 1}
        rest = {name: kinds for name, kinds in allowed.items() if name not in fixed}
        # The first rows name one type to ask all rows for: a third of the time of asking for every type.
        first = self._first_kinds(rest, columns, "(FROM staged LIMIT 1000)")
        likely = {name: [_kind_of(type_)] if type_ else rest[name] for name, type_ in first.items()}
        types = self._first_kinds(
            {name: kinds for name, kinds in likely.items() if kinds != ["VARCHAR"]}, columns, "staged"
        )
        failed = [name for name, type_ in types.items() if type_ is None and first[name]]
        types |= self._first_kinds({name: rest[name] for name in failed}, columns, "staged")
        return {name: fixed.get(name) or types.get(name) or first[name] or default for name in allowed}

    def _first_kinds(
        self, kinds: Mapping[str, Sequence[str]], columns: Mapping[str, str], relation: str
    ) -> dict[str, str | None]:
        """The first of its kinds that each column is; None for a column that is none or has no values."""
        questions = [
            f"coalesce({', '.join(_QUESTIONS[kind] for kind in each)})".replace("%c", columns[name])
            for name, each in kinds.items()
        ]
        return dict(zip(kinds, self._aggregates(questions, relation), strict=True))

    def _aggregates(self, expressions: Sequence[str], relation: str) -> list[Any]:
        """Their values. DuckDB takes 7 s to read a query of 3,200 aggregates, and 0.2 s for eight of 400."""
        return [
            value
            for start in range(0, len(expressions), _AT_ONCE)
            for value in self._execute(
                f"SELECT {', '.join(expressions[start : start + _AT_ONCE])} FROM {relation}"
            ).fetchone()
        ]

    def _read_all(self, statement: str) -> None:
        """Execute what reads a whole file, and report its progress by `progress`."""
        self._is_copying = True
        try:
            self._execute(statement)
        finally:
            self._is_copying = False

    def _execute(self, statement: str) -> Any:
        return self._connection.execute(statement)


_AFTER_REASON = re.compile(r"\n+  file = |\n\nLINE 1: |\nPossible fixes:|\nPossible Solution:")
"""What follows the reason in an error: the statement, the options of the reader of CSV, and advice on them."""
_REMEDIES = {
    "Expected Number of Columns": "Each line needs as many fields as the first one: quote fields with delimiters.",
    "unterminated quote": "A quote within a field is written twice, and a field that has one in quotes.",
    "state machine": "Write all lines with the same end.",
    "No magic bytes": "It is no Parquet file, or was cut off: write or copy it anew.",
    "too small to be a Parquet": "It is empty, or was cut off: write or copy it anew.",
    "not a valid DuckDB": "It is a database of another kind, or is damaged.",
    "Could not set lock": "Another program has it open: close it there, or serve a copy.",
    "Maximum line size": "Split the file, or write its long texts elsewhere.",
}
_MOST_COLUMNS = 2_000
_AT_ONCE = 25
_SAMPLE = 20_000
"""Rows of CSV by which types are chosen at first. A file that has no more is staged whole."""
_OTHER_TYPE = "dualsql: a value of another type"
_ERRORS = "'#N/A', '#VALUE!', '#REF!', '#DIV/0!', '#NUM!', '#NAME?', '#NULL!'"
"""What spreadsheets write for a cell without a value."""
_LISTED_ERRORS = "#N/A and other errors"


def _without_errors(column: str) -> str:
    return f"CASE WHEN {_identifier(column)} NOT IN ({_ERRORS}) THEN {_identifier(column)} END"


def _document(value: str) -> str:
    """The value; null is NULL, as in columns of other types."""
    return f"CASE WHEN json_type({value}) <> 'NULL' THEN {value} END"


def _kinds_of_json(types: frozenset[str]) -> Sequence[str]:
    """The types that a column of values with these types may have."""
    return _KINDS_OF_JSON.get(_NUMBERS_OF_JSON if types and types <= _NUMBERS_OF_JSON else types, ["JSON"])


def _as_servable(column: str, kind: str, *, is_whole: bool) -> str:
    """The column, in a type that all formats can write."""
    if kind == '"NULL"':  # of Parquet, or an empty table
        return f"CAST({column} AS VARCHAR)"
    if fixed := re.fullmatch(r"([^\[\]]+)\[\d+\]", kind):
        return f"CAST({column} AS {fixed[1]}[])"
    if kind == "TIMESTAMP_NS":
        return f"CAST({column} AS {'TIMESTAMP' if is_whole else 'VARCHAR'})"
    if kind in {"TIMESTAMP_S", "TIMESTAMP_MS"}:
        return f"CAST({column} AS TIMESTAMP)"
    if kind.startswith("TIMESTAMP_NS["):
        return f"CAST({column} AS VARCHAR[])"
    is_of_decimals = re.fullmatch(r"DECIMAL\(\d+,\d+\)(\[\])?", kind)
    if not is_of_decimals and re.match(r"(STRUCT|MAP|UNION)\(|.*[\])]\[\d*\]$", kind):
        return f"to_json({column})"
    return column


def _file(path: Path) -> str:
    """The path as a literal in SQL. `*`, `?` and `[` in a name would be a pattern, which may match other files."""
    return text_literal(_PATTERN.sub(r"[\g<0>]", str(path)))


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_NUMBER = "-?(0|[1-9][0-9]*)"
_DATE_TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
_CONDITIONS = {
    "BIGINT": f"regexp_full_match(%c, '{_NUMBER}') AND %c <> '-0' AND try_cast(%c AS BIGINT) IS NOT NULL",
    "DOUBLE": f"regexp_full_match(%c, '{_NUMBER}([.][0-9]+)?([eE][-+]?[0-9]+)?') AND isfinite(try_cast(%c AS DOUBLE)) "
    "AND length(regexp_replace(regexp_extract(%c, '^[^eE]+'), '[-.]', '', 'g')) <= 15",
    "BOOLEAN": "lower(%c) IN ('true', 'false')",
    "DATE": "regexp_full_match(%c, '[0-9]{4}-[0-9]{2}-[0-9]{2}') AND try_cast(%c AS DATE) IS NOT NULL",
    "TIMESTAMP": f"regexp_full_match(%c, '{_DATE_TIME}') AND try_cast(%c AS TIMESTAMP) IS NOT NULL",
    "TIMESTAMP WITH TIME ZONE": f"regexp_full_match(%c, '{_DATE_TIME}(Z|[-+][0-9]{{2}}(:?[0-9]{{2}})?)') "
    "AND try_cast(%c AS TIMESTAMPTZ) IS NOT NULL",
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
_NUMBERS_OF_JSON = frozenset({"BIGINT", "UBIGINT", "DOUBLE"})
_KINDS_OF_JSON: Mapping[frozenset[str], Sequence[str]] = {
    _NUMBERS_OF_JSON: ["BIGINT", "DECIMAL", "DOUBLE", "VARCHAR"],
    frozenset({"BOOLEAN"}): ["BOOLEAN"],
    frozenset({"VARCHAR"}): ["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "VARCHAR"],
    frozenset(): ["VARCHAR"],
}
"""By the types of all values of a column: the types that its texts may have. A text such as "12" is no number."""

_CHECKS: Mapping[str, str] = {
    "BIGINT": "%c::BIGINT::VARCHAR = %c",
    "DECIMAL": "starts_with(%c::%t::VARCHAR, %c) AND NOT ends_with(%c, '.')",
    "DATE": "%c GLOB '[0-9]???-??-?[0-9]'",
    "BOOLEAN": "strlen(%c) >= 4",  # not t, f, 1, 0, yes, no
}
"""By kind, what holds for a value that `_CONDITIONS` take, or fails to cast; they may refuse more, and take no more."""

_FAST_CHECKS: Mapping[str, str] = {
    "DECIMAL": "%c::%t::VARCHAR = %c",  # with all digits of its scale
    "TIMESTAMP": "%c GLOB '[0-9]???-??-?[0-9][T ][0-9][0-9]:[0-9][0-9]:[0-9][0-9]'",  # with seconds, and no fraction
}
"""The same, for values that are written in the most frequent way."""


def _for_rows_to_come(type_: str) -> str:
    """The type for rows that may have more digits before the point than those that named it."""
    if _kind_of(type_) != "DECIMAL":
        return type_
    whole, scale = map(int, re.findall(r"\d+", type_))
    return f"DECIMAL({18 if whole <= 18 else 38}, {scale})"


def _fast_check(column: str, type_: str) -> str:
    return _FAST_CHECKS.get(_kind_of(type_), "false").replace("%c", column).replace("%t", type_)


def _cast_with_check(column: str, type_: str, *, is_fast: bool) -> str:
    """The value in its type, or an error."""
    if type_ == "VARCHAR":
        return column
    if not type_:  # no value so far
        return f"CASE WHEN {column} IS NULL THEN NULL::VARCHAR ELSE error('{_OTHER_TYPE}') END"
    kind = _kind_of(type_)
    check = _CHECKS.get(kind, _CONDITIONS.get(kind, "")).replace("%c", column).replace("%t", type_)
    holds = _fast_check(column, type_) if is_fast else check
    # Faster than "... IS NOT FALSE THEN value ELSE error", which says the same.
    return f"CASE WHEN NOT ({holds}) THEN error('{_OTHER_TYPE}') ELSE {column}::{type_} END"


def _kind_of(type_: str) -> str:
    return type_.partition("(")[0]
