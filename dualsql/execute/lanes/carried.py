"""Bound values for a statement that takes none; the rule: a value is never part of the SQL.

COPY takes no parameters. A value is sent as one to set_config(), for this transaction alone, and the statement reads
it back with current_setting(), cast to the type that the server found for the parameter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# Whatever may hold a dollar sign that begins no parameter comes first: texts and quoted names.
_PARAMETER = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)""")

# What makes a text mean something else than it seems to: dollar quotes, escapes, comments.
_OPAQUE = re.compile(r"\$\$|\$[A-Za-z_]|\b[EeUu]&?'|--|/\*")

_MOST_VALUES = 200
_BUILT_IN = 16_384
"""Object ids below it are PostgreSQL's own, the same on every server."""

_INSTANTS = frozenset({1082, 1114, 1184})
"""date, timestamp, timestamptz: as text, they depend on the session's DateStyle."""


def setting_of(number: int) -> str:
    """The setting that carries a parameter's value."""
    return f"dualsql.value_{number}"


def without_parameters(sql: str, parameters: Sequence[Any], types: Sequence[Any]) -> str | None:
    """The statement with each `$n` read from its setting; None where that cannot be done without a doubt.

    Args:
        types: of the parameters, as asyncpg's prepared statement tells them.
    """
    if len(parameters) > _MOST_VALUES or any(value is None for value in parameters) or _OPAQUE.search(sql):
        return None
    seen: set[int] = set()

    def read(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        number = int(match[1])
        seen.add(number)
        return f"(current_setting('{setting_of(number)}')::{type_name(types[number - 1])})"

    written = _PARAMETER.sub(read, sql)
    return written if seen == set(range(1, len(parameters) + 1)) else None


def setting_statement(types: Sequence[Any]) -> str:
    """SQL that takes the parameters of those types and puts each into its setting."""
    written = [_as_text(f"${number}::{type_name(type_)}", type_) for number, type_ in enumerate(types, 1)]
    settings = [f"set_config('{setting_of(n)}', {text}, true)" for n, text in enumerate(written, 1)]
    return f"SELECT {', '.join(settings)}"


def _as_text(value: str, type_: Any) -> str:
    return f"to_json({value}) #>> '{{}}'" if type_.oid in _INSTANTS else f"({value})::text"


def type_name(type_: Any) -> str:
    """A type's name as SQL."""
    name = type_.name.removesuffix("[]")
    schema = "pg_catalog" if type_.oid < _BUILT_IN else type_.schema
    return f"{_quoted(schema)}.{_quoted(name)}{type_.name[len(name) :]}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
