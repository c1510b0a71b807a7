"""Converts any value of a tool to plain JSON values, exactly. A value without a JSON form is refused.

It never uses `repr`, because the `repr` of an unknown object may contain a password. It counts everything it reads,
because a generator or a value that contains itself may never end.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Set
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

from dualsql.errors import BadParameterError, LimitExceededError
from dualsql.formats.text import INT64_BOUND, duration

_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_BITS = 4_096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one answer may hold: levels of nesting, values, and characters of all its texts together."""

    depth: int = 32
    values: int = 100_000
    characters: int = 2_000_000

    def of_envelope(self) -> Bounds:
        """Bounds of a whole answer whose data is within these: its text repeats some of the data."""
        return Bounds(
            depth=self.depth + 8, values=2 * self.values + 10_000, characters=2 * self.characters + 100_000
        )


BOUNDS = Bounds()


def plain_value(value: Any, bounds: Bounds = BOUNDS) -> Any:
    """`value` as dicts with text keys, lists, texts, numbers, booleans and None.

    Decimals, dates, UUIDs and whole numbers beyond 64 bits become texts, bytes base64, enums their values, NaN and
    the infinities None. Dataclasses, named tuples, rows and pydantic models become objects. Half a surrogate pair,
    which UTF-8 cannot write, becomes U+FFFD.

    Raises:
        LimitExceededError: it is larger or deeper than `bounds`, or holds itself.
        BadParameterError: it has no JSON, or two of its keys would be one.
    """
    return _ValueReader(bounds).read(value, bounds.depth)


def is_plain(value: Any, bounds: Bounds = BOUNDS) -> bool:
    """Whether `value` is JSON as it stands, within `bounds`."""
    try:
        return _same(plain_value(value, bounds), value)
    except (BadParameterError, LimitExceededError):
        return False


def _same(plain: Any, value: Any) -> bool:
    if type(plain) is not type(value):
        return False
    if isinstance(plain, dict):
        return plain.keys() == value.keys() and all(_same(plain[key], value[key]) for key in plain)
    if isinstance(plain, list):
        return len(plain) == len(value) and all(map(_same, plain, value))
    return bool(plain == value)


class _ValueReader:
    """Reads one value and counts its parts."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.values = 0
        self.characters = 0

    def read(self, value: Any, levels: int) -> Any:
        """The plain form of a value that may nest so many levels deep."""
        self.values += 1
        if self.values > self.bounds.values:
            self._refuse("values", self.bounds.values)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str | bytes | bytearray):
            return self._text(value)
        for kinds, write in _SCALARS:
            if isinstance(value, kinds):
                output = write(value)
                return self._text(output) if isinstance(output, str) else output
        if isinstance(value, enum.Enum):
            return self.read(value.value, levels)
        if levels <= 0:
            self._refuse("levels of nesting", self.bounds.depth)
        return self._read_inner(value, levels - 1)

    def _read_inner(self, value: Any, levels: int) -> Any:
        fields = _fields(value)
        if fields is not None:
            return self._object(fields, levels)
        if isinstance(value, list | tuple | Set):
            return [self.read(each, levels) for each in value]
        raise BadParameterError(
            f"A value of type {type(value).__name__[:80]} has no JSON form.",
            hint="Answer with dicts, lists, texts, numbers, dates, dataclasses or pydantic models.",
        )

    def _object(self, fields: Iterable[tuple[Any, Any]], levels: int) -> dict[str, Any]:
        fields_by_name: dict[str, Any] = {}
        for name, value in fields:
            key = self._key(name)
            if key in fields_by_name:
                raise BadParameterError(
                    "Two keys of one object are the same text.", hint="Use texts as keys."
                )
            fields_by_name[key] = self.read(value, levels)
        return fields_by_name

    def _key(self, name: Any) -> str:
        key = self.read(name, 1)
        if isinstance(key, dict | list):
            raise BadParameterError("A key of an object is not a text.", hint="Use texts as keys.")
        return key if isinstance(key, str) else json.dumps(key)

    def _text(self, text: str | bytes | bytearray) -> str:
        self.characters += len(text)
        if self.characters > self.bounds.characters:
            self._refuse("characters", self.bounds.characters)
        if not isinstance(text, str):
            return b64encode(text).decode("ascii")
        # A subclass may have a __str__ of its own.
        return text if text.isascii() and type(text) is str else _SURROGATE.sub("\ufffd", str.__str__(text))

    def _refuse(self, what: str, limit: int) -> NoReturn:
        raise LimitExceededError(
            f"The answer has more than {limit:,} {what}.",
            hint="Answer with a sample, and a link to the rest.",
            details={"limit": limit, "of": what},
        )


def _fields(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """The names and values of anything that becomes a JSON object."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    # A named tuple, a row of SQLAlchemy's; a model of pydantic's, by the names its JSON schema has.
    if callable(as_dict := getattr(value, "_asdict", None)):
        return _items_of(as_dict())
    if callable(dump := getattr(value, "model_dump", None)):
        return _items_of(dump(mode="json", by_alias=True))
    return None


def _items_of(value: Any) -> Iterable[tuple[Any, Any]] | None:
    return value.items() if isinstance(value, Mapping) else None


def _integer(value: int) -> int | str:
    if -INT64_BOUND <= value < INT64_BOUND:
        return int(value)
    if value.bit_length() > _MOST_BITS:
        raise LimitExceededError("An integer of the answer has too many digits.")
    return str(int(value))


def _float(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _iso(value: dt.date | dt.time) -> str:
    return value.isoformat()


def _decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return None
    # As a database writes it, unless its exponent would make that endless.
    return f"{value:f}" if abs(value.adjusted()) < _MOST_BITS else str(value)


_SCALARS: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = [
    (int, _integer),
    (float, _float),
    (Decimal, _decimal),
    ((dt.date, dt.time), _iso),
    (dt.timedelta, duration),
    (UUID, str),
]
