"""JSON documents of a database, read with every digit of their numbers.

A Python float has 17 digits, and a number of a document any number: 0.1234567890123456789, 1.50. A number whose text
is not that of the float is a `Digits`: a float to whoever computes with it, its own text where it is written.
"""

from __future__ import annotations

import json
from typing import Any

_LONGEST_WHOLE = 4_000
"""Digits of a whole number that Python reads without being asked to: its limit is 4,300."""


class Digits(float):
    """A number of a document.

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
    # Raises a TypeError, as json.loads does, for a number: a document of SQLite may be one.
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
    return getattr(dialect, "_json_deserializer", None) not in {None, read_document}


def with_all_digits(dialect: Any) -> None:
    """Have a copy of an engine's dialect read documents so, where SQLAlchemy and not the driver reads them."""
    reads = hasattr(dialect, "_json_deserializer") and not dialect.supports_native_json_deserialization
    if reads and not reads_for_an_application(dialect):
        dialect._json_deserializer = read_document  # noqa: SLF001
