"""Numbers of documents with all their digits, and values of drivers that stand for infinities."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from dualsql import sqlalchemy_internals as internals
from dualsql_client.wire import INFINITIES

_LONGEST_WHOLE = 4_000
"""Digits of a whole number that Python reads without being asked to: its limit is 4,300."""


class Digits(float):
    """A number of a document whose text is not that of the float: 0.1234567890123456789, 1.50.

    A float has 17 digits, a number of a document may have any number of them. It computes as the float, and is written
    as its text.

    Attributes:
        text: as the database has it, and as JSON may have it.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Digits:
        """Of the text of a number."""
        found = super().__new__(cls, text)
        found.text = text
        return found


def read_document(text: str | bytes) -> Any:
    """The value of a JSON document."""
    # Raises a TypeError, as json.loads does, for a number: a document of a column without a type may be one.
    text = text if isinstance(text, str) else str(text, "utf-8")
    try:
        return _QUICK.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python's, of a whole number of many digits
        return _THOROUGH.decode(text)


def _fraction(text: str) -> float:
    found = float(text)
    return found if repr(found) == text else Digits(text)


def _whole(text: str) -> float:
    return int(text) if len(text) <= _LONGEST_WHOLE else Digits(text)


_QUICK = json.JSONDecoder(parse_float=_fraction)
_THOROUGH = json.JSONDecoder(parse_float=_fraction, parse_int=_whole)


def reads_for_an_application(dialect: Any) -> bool:
    """Whether the application gave its engine a reader of documents of its own."""
    return internals.json_reader(dialect) not in {None, read_document}


def reads_floats(dialect: Any) -> bool:
    """Whether the driver reads documents, and nobody told it how: with json.loads."""
    return dialect.supports_native_json_deserialization and internals.json_reader(dialect) is None


def has_float(document: Any) -> bool:
    """Whether there is a float anywhere in a document."""
    inside = [document]
    while inside:
        found = inside.pop()
        if isinstance(found, float):
            return True
        if isinstance(found, dict | list):
            inside.extend(found.values() if isinstance(found, dict) else found)
    return False


def with_all_digits(dialect: Any) -> None:
    """Have a copy of an engine's dialect read documents so, where SQLAlchemy and not the driver reads them."""
    reads = internals.has_json_reader(dialect) and not dialect.supports_native_json_deserialization
    if reads and not reads_for_an_application(dialect):
        internals.set_json_reader(dialect, read_document)


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads a driver's value: its objects for the infinities as their texts, all else as it is."""

    high: Any
    low: Any

    def __call__(self, value: Any) -> Any:
        if value is self.high:
            return INFINITIES[0]
        return INFINITIES[1] if value is self.low else value

    def changes_any(self, values: Collection[Any]) -> bool:
        """Whether one of the values may be read as another one; a tenth of the time of reading them."""
        return self.high in values or self.low in values
