"""Cells with exact texts: numbers in documents with all digits, infinities, and what does not fit its column."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dualsql import sqlalchemy_internals as internals
from dualsql_client.wire import INFINITIES

_LONGEST_WHOLE = 4_000
"""Digits of a whole number that Python reads without being asked to: its limit is 4,300."""


class Digits(float):
    """A number in a document whose text differs from that of the float: 0.1234567890123456789, 1.50.

    A float has 17 digits; a number in a document may have any number of digits. It computes as the float and is written
    as its text.

    Attributes:
        text: the number as the database shows it, in JSON syntax.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Digits:
        """Make it from the text of a number."""
        digits = super().__new__(cls, text)
        digits.text = text
        return digits


@dataclass(frozen=True, slots=True)
class Unfit:
    """A cell that does not fit its column, as text: a text in a column of integers, a date before the year 1.

    JSON shows the text and names the column in `$unfit`; CSV shows the text. Arrow and Parquet refuse it: their types
    are fixed before the first row.

    Attributes:
        value: what the database returned. JSON shows it itself, where it is computed: its type was a forecast.
    """

    text: str
    value: Any = field(default=None, compare=False)


class WordedItems(NamedTuple):
    """A list or an object with words for the numbers that JSON does not have; JSON shows it."""

    items: Any


JSON_NULL = Unfit("null")
"""The document null, where a type of the application reads None from it. It is no NULL: `is_null` does not find it."""


PIECE_CHARACTERS = 256 * 1024
"""Characters of a document that are read at once, in up to 10 ms."""


def decoded(text: str, decoder: json.JSONDecoder) -> Any:
    """What `decoder.decode(text)` returns; a large document is read in pieces.

    Raises:
        JSONDecodeError: it is no document.
    """
    if len(text) <= PIECE_CHARACTERS:
        return decoder.decode(text)
    from dualsql.columns.pieces import read_in_pieces

    return read_in_pieces(text, decoder, piece=PIECE_CHARACTERS)


def read_document(text: str | bytes) -> Any:
    """Parse a JSON document."""
    # Raises a TypeError, as json.loads does, for a number: a document of a column without a type may be one.
    text = text if isinstance(text, str) else str(text, "utf-8")
    try:
        return decoded(text, _QUICK)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python's, of a whole number of many digits
        return decoded(text, _THOROUGH)


def _fraction(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else Digits(text)


def _whole(text: str) -> float:
    return int(text) if len(text) <= _LONGEST_WHOLE else Digits(text)


_QUICK = json.JSONDecoder(parse_float=_fraction)
_THOROUGH = json.JSONDecoder(parse_float=_fraction, parse_int=_whole)


def reads_for_an_application(dialect: Any) -> bool:
    """Whether the application set a JSON deserializer on its engine."""
    return internals.json_reader(dialect) not in {None, read_document}


def with_all_digits(dialect: Any) -> None:
    """Make a copy of an engine's dialect parse documents exactly, if SQLAlchemy and not the driver parses them."""
    if not dialect.supports_native_json_deserialization and not reads_for_an_application(dialect):
        internals.set_json_reader(dialect, read_document)


class ValueReader:
    """Converts a driver's objects for the infinities to texts, and leaves other values unchanged."""

    __slots__ = ("high", "low")

    def __init__(self, high: Any, low: Any) -> None:
        self.high = high
        self.low = low

    def __call__(self, value: Any) -> Any:
        if value is self.high:
            return INFINITIES[0]
        return INFINITIES[1] if value is self.low else value

    def changes_any(self, values: Collection[Any]) -> bool:
        """Whether a value may need conversion; it takes a tenth of the time of converting them."""
        return self.high in values or self.low in values
