"""Columns as a server describes them; the rule: what is not described is read as JSON has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from dualsql_client.wire import ENCODINGS, Column, ColumnType, Encoding

# Other servers of the pattern name the database's type; these are the four words of the specification.
_TYPES: Mapping[object, ColumnType] = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "float": "number",
    "decimal": "number",
    "boolean": "boolean",
    "date": "date",
    "datetime": "date",
    "timestamp": "date",
}


def read_columns(described: object) -> list[Column] | None:
    """The columns of an answer or tool result; None when they are no list of named columns.

    A column without an encoding, or with one this client does not know, is read as "any".
    """
    if described is None:
        return []
    if not isinstance(described, list):
        return None
    columns = [_column(entry) for entry in described]
    return None if None in columns else cast("list[Column]", columns)


def _column(entry: object) -> Column | None:
    if not isinstance(entry, Mapping) or not isinstance(name := entry.get("name"), str):
        return None
    column = Column(name=name, type=_type(entry.get("type")), encoding=_encoding(entry.get("encoding")))
    if "items" in entry:
        column["items"] = _encoding(entry["items"])
    return column


def _type(word: object) -> ColumnType:
    return _TYPES.get(word, "string") if isinstance(word, str) else "string"


def _encoding(word: object) -> Encoding:
    return cast(Encoding, word) if isinstance(word, str) and word in ENCODINGS else "any"
