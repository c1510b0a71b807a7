"""Values in one comparable form, from wherever they came: a row of SQLAlchemy's, JSON, a CSV cell, an Arrow table.

`plain` takes what Python holds; `read` takes what a format wrote, and goes by the announced encoding alone.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from tests.models.models import OrderStatus

Plain = tuple[str, Any] | None
"""A kind and a value that compares and hashes; None for NULL."""

_INTERVAL = re.compile(r"(-?)P(\d+)DT(\d+)H(\d+)M(\d+)(\.\d+)?S")


class NullDocument:
    """What SQLAlchemy reads of a JSON null, where `document` reads it: shown as null, and no SQL NULL."""


def document(text: str | bytes) -> Any:
    """A JSON document, for the engine that the expected rows are read by."""
    return NullDocument() if (content := json.loads(text)) is None else content


NULL_DOCUMENT: Plain = ("json", "null")


def plain(value: Any) -> Plain:
    """A Python value in comparable form."""
    if isinstance(value, NullDocument):
        return NULL_DOCUMENT
    if isinstance(value, enum.Enum):
        # What the database holds: the value where the type says so, else the name.
        value = value.value if isinstance(value, OrderStatus) else value.name
    if value is None:
        return None
    for classes, kind, make in _KINDS:
        if isinstance(value, classes):
            return kind, make(value)
    raise TypeError(f"no comparable form of {type(value).__name__}")


def _number(value: Any) -> str:
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return str(exact) if not exact.is_finite() else format(exact.normalize() + 0, "f")


def _instant(value: dt.datetime) -> str:
    return value.isoformat() if value.tzinfo is None else value.astimezone(dt.UTC).isoformat()


def _document(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


_KINDS: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (bool, "boolean", bool),
    ((int, float, Decimal), "number", _number),
    (dt.datetime, "datetime", _instant),
    ((dt.date, dt.time), "date", lambda value: value.isoformat()),
    (dt.timedelta, "interval", lambda value: value),
    ((bytes, bytearray, memoryview), "bytes", bytes),
    (UUID, "uuid", str),
    (str, "text", str),
    ((dict, list, tuple), "json", _document),
)


def read(value: Any, column: Mapping[str, Any]) -> Plain:
    """What a format wrote of a value, as the column's announced encoding says it is to be read."""
    if value is None:
        return None
    encoding = column["encoding"]
    try:
        return wording(plain(value)) if encoding == "any" else plain(_READERS[encoding](value))
    except (TypeError, ValueError, KeyError) as error:
        return "unread", f"{value!r} as {encoding}: {type(error).__name__}"


def _truth(value: Any) -> bool:
    return {"true": True, "false": False}[value] if isinstance(value, str) else _checked(value, bool)


def _checked(value: Any, *classes: type) -> Any:
    if not isinstance(value, classes):
        raise TypeError(f"{value!r} is no {classes[0].__name__}")
    return value


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, str) else _checked(value, int)


def _fraction(value: Any) -> Any:
    return Decimal(value) if isinstance(value, str) else _checked(value, float, int, Decimal)


def _interval(value: Any) -> dt.timedelta:
    if isinstance(value, dt.timedelta):
        return value
    match = _INTERVAL.fullmatch(value)
    assert match is not None, value
    sign, days, hours, minutes, seconds, fraction = match.groups()
    size = dt.timedelta(days=int(days), hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    size += dt.timedelta(microseconds=int((fraction or ".0")[1:].ljust(6, "0")))
    return -size if sign else size


def _from_iso(cls: Any) -> Callable[[Any], Any]:
    return lambda value: cls.fromisoformat(value) if isinstance(value, str) else _checked(value, cls)


def _array(value: Any) -> list[Any]:
    return json.loads(value) if isinstance(value, str) else list(value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "integer": _whole,
    "integer-string": _whole,
    "float": _fraction,
    "decimal": _fraction,
    "boolean": _truth,
    "text": lambda value: _checked(value, str),
    "uuid": lambda value: UUID(_checked(value, str)),
    "date": _from_iso(dt.date),
    "time": _from_iso(dt.time),
    "datetime": _from_iso(dt.datetime),
    "interval": _interval,
    "base64": lambda value: value if isinstance(value, bytes) else b64decode(value, validate=True),
    "array": _array,
    "json": lambda value: value,
}


def wording(value: Plain) -> Plain:
    """A value of a column whose type nobody knows: formats that have types write it as a text."""
    if value is None:
        return None
    text = (_iso_duration(value[1]) if isinstance(value[1], dt.timedelta) else str(value[1])).lower()
    try:
        return "any", _number(Decimal(text))
    except InvalidOperation:
        return "any", text


def _iso_duration(value: dt.timedelta) -> str:
    """As every format writes one."""
    size = abs(value)
    minutes, seconds = divmod(size.seconds, 60)
    fraction = f".{size.microseconds:06d}" if size.microseconds else ""
    sign = "-" if value != size else ""
    return f"{sign}P{size.days}DT{minutes // 60}H{minutes % 60}M{seconds}{fraction}S"


def csv_rows(text: str) -> list[list[str | None]]:
    """The records of a CSV file, where an empty field is None and "" is an empty text."""
    rows: list[list[str | None]] = [[]]
    for match in _FIELD.finditer(text):
        if match.start() == len(text):
            break
        quoted, bare, end = match.groups()
        rows[-1].append(quoted.replace('""', '"') if quoted is not None else bare or None)
        if end != ",":
            rows.append([])
    return rows[:-1] if not rows[-1] else rows


_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r\n|\Z)')
