"""Values of a question as those of a column; the rule: what a result shows can be handed back, in the same spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, cast, types

from dualsql.asking.abilities import bound
from dualsql.columns import ResultColumn, has_zone, plain_type
from dualsql.dialects import Capabilities
from dualsql.errors import BadParameterError
from dualsql.formats.made import taken
from dualsql_client.conversions import decimal
from dualsql_client.rows import decoder

_LARGEST = 2**63
_MOST_DIGITS = 60
_LONGEST_NUMBER = 100
_MONTHS = re.compile(
    r"P(?:(?P<years>-?[0-9]{1,9})Y)?(?:-?[0-9]{1,9}M)?(?:-?[0-9]{1,9}D)?"
    r"(?:T(?=.)(?:-?[0-9]{1,9}H)?(?:-?[0-9]{1,9}M)?(?:-?[0-9]{1,9}(?:\.[0-9]{1,6})?S)?)?(?<=[YMDHS])",
    re.ASCII,
)
_MOST_YEARS = 170_000_000
_DIGITS = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)

_SPELLED = {
    "integer": "a whole number of 64 bits",
    "float": "a number",
    "decimal": 'a number, or its digits in a text, such as "12.50"',
    "boolean": "true or false",
    "text": "a text",
    "date": 'a date, such as "2026-01-31"',
    "time": 'a time of day, such as "08:30:00"',
    "datetime": 'an instant, such as "2026-01-31T08:30:00"',
    "interval": 'a duration, such as "P1DT2H"',
    "uuid": "a UUID",
    "base64": "bytes in base64",
    "any": "a text, a number, true or false",
}


def literal(column: ResultColumn, value: Any, capabilities: Capabilities) -> ColumnElement[Any]:
    """The value, to be compared with the column.

    Raises:
        BadParameterError: the column holds nothing of the kind.
    """
    described = column.describe()
    encoding = described["encoding"]
    if encoding == "any" and described["type"] == "number":
        encoding = "float"
    keeps_months = encoding == "interval" and capabilities.has_months and not column.meaning.is_made
    if keeps_months and has_months(value):
        return cast(bound(value, types.Text()), column.type)
    try:
        read = _READERS[encoding](column, value)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        raise _wrong(column, encoding) from None
    if isinstance(read, datetime):
        if capabilities.spells_instants and not isinstance(column.type, types.TypeDecorator):
            read = (
                read.replace(tzinfo=None)
                if read.tzinfo is None
                else read.astimezone(UTC).replace(tzinfo=None)
            )
        else:
            _require_zone(column, read, capabilities)
    if encoding in {"date", "datetime"} and isinstance(read, str) and not capabilities.has_infinite_dates:
        raise _wrong(column, encoding)
    if column.meaning.is_made:
        return bound(_as_made(column, read), column.type)
    found = bound(read, _type_of(column, encoding))
    # A number of four bytes is shown in its shortest form, which is equal to it among its own kind alone.
    is_single = capabilities.has_single_reals and isinstance(plain_type(column.type), types.REAL)
    return cast(found, types.REAL()) if is_single else found


def digits(column: ResultColumn, value: Any) -> Decimal:
    """The value of a column of decimals.

    Raises:
        BadParameterError: it is no number.
    """
    try:
        return _decimal(column, value)
    except (ValueError, TypeError, ArithmeticError):
        raise _wrong(column, "decimal") from None


def _as_made(column: ResultColumn, value: Any) -> Any:
    try:
        return taken(value, column.meaning, column.meanings)
    except ValueError:
        raise BadParameterError(
            f"The values of the column {column.name[:80]!r} are kept in another form ({column.meaning.name}), "
            "which this one cannot be turned into and back.",
            hint="Write a value as the column shows it, or filter by another column.",
            details={"column": column.name},
        ) from None


def _type_of(column: ResultColumn, encoding: str) -> Any:
    if column.meaning.binds is not None:
        return (
            column.meaning.stored
        )  # what is shown is what is stored, and not what the application would make of it
    if encoding == "integer":
        # Not the column's: a number of 32 bits is compared with one of 64.
        return types.BigInteger()
    if encoding == "float":
        return types.Double()
    if isinstance(plain_type(column.type), types.Numeric):
        # Not the column's: a quotient has more digits than the type that SQLAlchemy takes it for.
        return types.Numeric()
    return column.type


def has_months(value: Any) -> bool:
    """Whether it is a duration that a database keeps with its months, which no number of days is equal to."""
    found = _MONTHS.fullmatch(value) if isinstance(value, str) else None
    return found is not None and abs(int(found["years"] or 0)) <= _MOST_YEARS


def _wrong(column: ResultColumn, encoding: str) -> BadParameterError:
    return BadParameterError(
        f"A value is no {encoding}, which the column {column.name[:80]!r} holds.",
        hint=f"Write {_SPELLED[encoding]}.",
        details={"column": column.name, "encoding": encoding},
    )


def _integer(_: ResultColumn, value: Any) -> int:
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -_LARGEST <= value < _LARGEST:
        raise ValueError
    return value


def _float(_: ResultColumn, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _decimal(_: ResultColumn, value: Any) -> Decimal:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or len(str(value)) > _LONGEST_NUMBER
    ):
        raise TypeError
    read = decimal(repr(value) if isinstance(value, float) else str(value))
    # MariaDB has 65 digits; an exponent would be a short way to write very many.
    if not read.is_finite() or len(format(read, "f")) > _MOST_DIGITS:
        raise ValueError
    return read


def _boolean(_: ResultColumn, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _text(column: ResultColumn, value: Any) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError
    value.encode()  # a half of a surrogate pair is no text
    plain = column.shown
    if isinstance(plain, types.Enum) and value not in plain.enums:
        raise BadParameterError(
            f"{value[:80]!r} is no value of the column {column.name[:80]!r}.",
            hint=f"It holds one of: {', '.join(plain.enums[:20])}.",
            details={"column": column.name, "values": list(plain.enums[:100])},
        )
    return value


def _any(column: ResultColumn, value: Any) -> Any:
    if isinstance(value, str):
        return _text(column, value)
    if isinstance(value, bool) or (column.meaning.is_made and isinstance(value, int)):
        return value
    if type(value) is int:
        return _integer(column, value)
    return _float(column, value)


def _decoded(column: ResultColumn, value: Any) -> Any:
    decode = decoder(column.describe())
    if not isinstance(value, str) or decode is None:
        raise TypeError
    read = decode(value)
    if isinstance(read, datetime) and read.tzinfo is not None:
        read.astimezone(UTC)  # which the ends of year 1 and of year 9999 may not have
    return read


def _require_zone(column: ResultColumn, instant: datetime, capabilities: Capabilities) -> None:
    wants_zone = has_zone(column, keeps_zones=capabilities.keeps_zones)
    if (instant.tzinfo is not None) is not wants_zone:
        raise BadParameterError(
            f"The column {column.name[:80]!r} holds instants {'with' if wants_zone else 'without'} a zone.",
            hint='Write "2026-01-31T08:30:00+00:00".' if wants_zone else 'Write "2026-01-31T08:30:00".',
            details={"column": column.name},
        )


_READERS: Mapping[str, Callable[[ResultColumn, Any], Any]] = {
    "integer": _integer,
    "float": _float,
    "decimal": _decimal,
    "boolean": _boolean,
    "text": _text,
    "date": _decoded,
    "time": _decoded,
    "datetime": _decoded,
    "interval": _decoded,
    "uuid": _decoded,
    "base64": _decoded,
    "any": _any,
}
