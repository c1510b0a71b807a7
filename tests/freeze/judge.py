"""What a forged document becomes: judged on every dialect, and by SQLite, which says what it would read.

`judged` returns None for a refused document, and the SQL by dialect for one that was thawed. It fails where a
document brings text of its own, reads a table that is not registered, breaks a driver's placeholders, gives two
SQL texts under one cache key, raises another error than ours, or takes too long.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from typing import Any

from dualsql.errors import DualResponseError
from dualsql.freeze import UNCOMPILABLE, Registry, thaw
from dualsql.freeze.document import pack
from dualsql.freeze.types import FUNCTIONS
from tests.freeze.dialects import DIALECTS
from tests.freeze.own import ELEMENTS
from tests.freeze.shop import Base, metadata

MARKERS = [
    "zq'\"`]);--zq",
    "zq\\'zq",
    "zq%(x)s%szq",
    "zq:x;/*zq*/",
    "zq]]``\"\"''zq",
    "zq$1?#zq",
    "zq\x00zq",
    "zq\n--zq",
]
SECONDS = 2.0
VAULT = "vault"


class KnownPrints(Registry):
    """What a forger sees who can compute fingerprints: everything is in the open but the secret."""

    def fingerprint(self, named: Any) -> str:
        return "known"


OPEN = KnownPrints([metadata, Base], elements=ELEMENTS)
SIZE = OPEN.maximum_size

# --- text outside of quotes -------------------------------------------------------------------------------------

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[(?:[^\]]|\]\])*\]"""
_ESCAPED = r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|`(?:[^`]|``)*`"""
# MySQL and MariaDB read a backslash as an escape; brackets quote on SQL Server (and SQLite) only.
_PLAIN = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_TEXT = {
    **dict.fromkeys(("mysql", "mariadb"), re.compile(_ESCAPED, re.DOTALL)),
    **dict.fromkeys(("mssql", "sqlite"), re.compile(_QUOTED, re.DOTALL)),
    **dict.fromkeys(("postgresql", "asyncpg", "psycopg", "oracle"), re.compile(_PLAIN, re.DOTALL)),
}


def unquoted(sql: str, dialect: str) -> str:
    """The text with everything inside quotes taken away."""
    return _TEXT[dialect].sub("''", sql)


def _check_text(sql: str, dialect: str, compiled: Any) -> None:
    bare = unquoted(sql, dialect)
    for name in _parameter_names(compiled):
        bare = bare.replace(name, "name")  # without it, `a-x-b` would be a comment
    assert "zq" not in bare, (dialect, sql)
    assert not re.search(r"--|/\*|;|\\|\x00", bare), (dialect, sql)
    assert bare.count("'") % 2 == 0, (dialect, sql)
    style = DIALECTS[dialect].paramstyle
    if style in ("format", "pyformat"):
        _check_placeholders(sql.replace("%%", ""), style, compiled)


def _parameter_names(compiled: Any) -> set[str]:
    """The names of parameters as they are written: with nothing in them that could end a name."""
    return {name for name in _parameters(compiled) if re.fullmatch(r"[\w$#?/ ]+", name)}


def _parameters(compiled: Any) -> set[str]:
    expanded = compiled._post_compile_expanded_state
    names = compiled.params if expanded is None else expanded.parameters
    return {*names, *compiled.escaped_bind_names.values()}


def _check_placeholders(sql: str, style: str, compiled: Any) -> None:
    """A driver formats the whole text, quoted names included: each % must be a placeholder of a known parameter."""
    if style == "format":
        assert re.sub("%s", "", sql).count("%") == 0, sql
        return
    for rest in sql.split("%")[1:]:
        name = re.match(r"\(([^()]*)\)s", rest)
        assert name, sql
        assert name[1] in _parameters(compiled), sql


# --- the tables that SQLite would read --------------------------------------------------------------------------

_OPERATORS = {"like", "glob", "regexp", "match", "->", "->>"}
_HARMLESS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)


class TouchedTables:
    """A database with one table that no registry knows; it notes whatever a statement would touch."""

    def __init__(self) -> None:
        self._touched: set[str] = set()
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("ATTACH ':memory:' AS sales")
        for table in OPEN.tables.values():
            columns = ", ".join(f'"{column.name}"' for column in table.c)
            self._connection.execute(f"CREATE TABLE {table} ({columns})")
        self._connection.execute(f"CREATE TABLE {VAULT} (gold TEXT)")
        for function in ("json_each", "json_tree"):  # made on first use, which looks like a CREATE TABLE
            self._connection.execute(f"SELECT * FROM {function}('[]')")
        self._connection.set_authorizer(self._note)

    def check(self, sql: str, count: int) -> None:
        """Fail if `sql`, prepared but not run, would do anything but read registered tables."""
        self._touched.clear()
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute(f"EXPLAIN {sql}", [None] * count).close()
        if f"{VAULT} AS (" not in sql and f"AS {VAULT}" not in sql:  # a CTE or an alias may have the name
            assert not self._touched, (self._touched, sql)

    def _note(self, action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_READ:
            if first == VAULT or (first or "").startswith("sqlite_"):
                self._touched.add(f"reads {first}")
        elif action == sqlite3.SQLITE_FUNCTION:
            if not self._is_function(second or ""):
                self._touched.add(f"calls {second}")
        elif action not in _HARMLESS:
            self._touched.add(f"does {action} {first} {second}")
        return sqlite3.SQLITE_OK

    @staticmethod
    def _is_function(name: str) -> bool:
        return name.lower() in FUNCTIONS | _OPERATORS


TOUCHED_TABLES = TouchedTables()

# --- one SQL text for one cache key -----------------------------------------------------------------------------

_BY_KEY: dict[Any, str] = {}
# SQLAlchemy leaves the text of anonymous names out of its keys; they are names and nothing else.
_NAME = re.compile(r"__\[POSTCOMPILE_[^\]]*\]|\"(?:[^\"]|\"\")*_[0-9]+\"|\w*_[0-9]+\b")


def _check_cache_key(statement: Any, sql: str) -> None:
    key = statement._generate_cache_key()
    if key is not None:
        # Nor do they hold LATERAL before a function, which reads the row beside it with or without the word.
        text = _NAME.sub("?", sql).replace("LATERAL ", "")
        assert _BY_KEY.setdefault(key.key, text) == text, (
            f"one cache key for two texts: {_BY_KEY[key.key]!r} and {text!r}"
        )


# --- all of it --------------------------------------------------------------------------------------------------


def judged(document: bytes) -> dict[str, str] | None:
    """The SQL by dialect of a document that was thawed, or None for one that was refused in our own way."""
    started = time.process_time()
    try:
        statement = thaw(document, OPEN)
    except DualResponseError:
        assert time.process_time() - started < SECONDS
        return None
    rendered = {}
    for name, dialect in DIALECTS.items():
        compiled = _compiled(statement, dialect)
        if compiled is not None:
            rendered[name] = compiled.string
            _check_text(compiled.string, name, compiled)
    if "sqlite" in rendered:
        _judge_by_sqlite(statement)
    assert time.process_time() - started < SECONDS * len(DIALECTS)
    return rendered


def _judge_by_sqlite(statement: Any) -> None:
    plain = statement.compile(dialect=DIALECTS["sqlite"])
    _check_cache_key(statement, plain.string)
    compiled = _compiled(statement, DIALECTS["sqlite"])
    TOUCHED_TABLES.check(compiled.string, len(compiled.positiontup or ()))


def _compiled(statement: Any, dialect: Any) -> Any:
    """The statement with literals filled in; None where SQLAlchemy says, in its many ways, that it cannot."""
    try:
        return statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    except UNCOMPILABLE:
        return None


def judged_body(body: Any) -> dict[str, str] | None:
    """`judged` for a document's body, as a forger would pack it; None for one that is not even JSON."""
    try:
        document = pack({**body, "print": "known"}, 50 * SIZE)
    except DualResponseError:
        return None
    return judged(document)
