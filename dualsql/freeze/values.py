"""Values and names in documents: bind values as tagged JSON, and names with the numbers of anonymous ones.

Reading returns the exact Python types that were written. Nothing is unpickled.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import Any, Protocol

from sqlalchemy.dialects.postgresql import BitString, Range
from sqlalchemy.dialects.postgresql.ranges import MultiRange
from sqlalchemy.engine import Row
from sqlalchemy.sql.elements import conv, quoted_name

from dualsql import sqlalchemy_internals as internals
from dualsql.freeze.document import expect, malformed, refuse

# Reading is recursive, so nested lists are limited: they must not reach Python's recursion limit.
_DEEPEST = 32
_LARGEST_JSON_INT = 2**63
_FARTHEST_EXPONENT = 150_000  # PostgreSQL's numeric ends at 131,072 digits
_LONGEST_INT = 4_000  # digits; Python itself refuses to parse more than 4,300

EXACT = (bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, uuid.UUID, type(None))
"""Types whose class and repr identify a value: 1, 1.0 and True are equal, and so are Decimal 1.0 and 1.00."""


def exact_forms(values: Iterable[Any]) -> tuple[Any, ...] | None:
    """The values in an unambiguous form, which can be hashed; None if a value has none."""
    forms: list[Any] = []
    for value in values:
        if type(value) in EXACT:
            forms.append((type(value), repr(value)))
        elif type(value) in {list, tuple} and (parts := exact_forms(value)) is not None:
            forms.append((type(value), parts))
        else:
            return None
    return tuple(forms)


Writer = Callable[[Any, "Values", int], Any]
Reader = Callable[[Any, "Values", int], Any]


class Values:
    """Writes and reads bind values; `enums` are the Enum classes of registered columns, by name."""

    def __init__(self, enums: Mapping[str, type[Enum]]) -> None:
        self._enums = enums

    def write(self, value: Any, depth: int = 0) -> Any:
        """`value` as JSON: the value itself if JSON has its type, otherwise [tag, payload]."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int and -_LARGEST_JSON_INT <= value < _LARGEST_JSON_INT:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth > _DEEPEST:
            refuse("a value nested too deeply", f"Nest at most {_DEEPEST} levels.")
        if isinstance(value, Enum):
            return self._write_enum(value)
        entry = _WRITERS.get(kind)
        if entry is None:
            refuse(
                f"a value of type {kind.__module__}.{kind.__qualname__}",
                "Pass a plain Python value: int, float, str, bytes, Decimal, datetime, UUID, list or dict.",
            )
        tag, writer = entry
        return [tag, writer(value, self, depth + 1)]

    def read(self, wire: Any, depth: int = 0) -> Any:
        """The reverse of `write`."""
        if type(wire) is not list:
            if type(wire) is dict:
                malformed("object as a value")
            return wire
        tag, payload = wire
        if depth > _DEEPEST:
            malformed("value nested too deeply")
        if tag == "enum":
            return self._read_enum(payload)
        return _FORMS[tag][2](payload, self, depth + 1)

    def _write_enum(self, value: Enum) -> Any:
        cls = type(value)
        name = f"{cls.__module__}.{cls.__qualname__}"
        if self._enum(name) is not cls:
            refuse(
                f"a member of {cls.__qualname__}, a class that its module does not have by this name",
                "Use the member's value, define the class at the top of a module, or register a table with an Enum "
                "column of that class.",
            )
        return ["enum", [name, value.name]]

    def _read_enum(self, payload: Any) -> Enum:
        name, member = expect(payload, list)
        cls = self._enum(expect(name, str))
        if cls is None:
            malformed("class of an enum")
        return cls.__members__[member]

    def _enum(self, name: str) -> type[Enum] | None:
        """The class of a registered column, or of a module: a TypeDecorator does not name the class of its values."""
        return self._enums.get(name) or _enum_of_a_module(name)


def _enum_of_a_module(name: str) -> type[Enum] | None:
    """A class of an imported module, read without running its code."""
    path = name.split(".")
    for length in range(len(path) - 1, 0, -1):
        item: Any = sys.modules.get(".".join(path[:length]))
        for part in path[length:]:
            item = getattr(item, "__dict__", {}).get(part)
        if isinstance(item, type) and issubclass(item, Enum):
            return item
    return None


def _write_items(value: Any, values: Values, depth: int) -> list[Any]:
    return [values.write(item, depth) for item in value]


def _items(cls: Callable[[list[Any]], Any]) -> Reader:
    return lambda payload, values, depth: cls([values.read(item, depth) for item in expect(payload, list)])


def _text(parse: Callable[[str], Any]) -> Reader:
    return lambda payload, _values, _depth: parse(expect(payload, str))


def _write_dict(value: dict[Any, Any], values: Values, depth: int) -> list[Any]:
    return [[values.write(k, depth), values.write(v, depth)] for k, v in value.items()]


def _read_dict(payload: Any, values: Values, depth: int) -> dict[Any, Any]:
    return {values.read(k, depth): values.read(v, depth) for k, v in expect(payload, list)}


def _write_range(value: Range[Any], values: Values, depth: int) -> list[Any]:
    return [values.write(value.lower, depth), values.write(value.upper, depth), value.bounds, value.is_empty]


def _read_range(payload: Any, values: Values, depth: int) -> Range[Any]:
    lower, upper, bounds, empty = expect(payload, list)
    if bounds not in ("[)", "(]", "()", "[]") or type(empty) is not bool:
        malformed("bounds of a range")
    return Range(values.read(lower, depth), values.read(upper, depth), bounds=bounds, empty=empty)


def _write_timedelta(value: timedelta, _values: Values, _depth: int) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(payload: Any, _values: Values, _depth: int) -> timedelta:
    days, seconds, microseconds = (expect(part, int) for part in expect(payload, list))
    return timedelta(days, seconds, microseconds)


def _write_int(value: int, _values: Values, _depth: int) -> str:
    # 4,000 digits are 13,288 bits; bit_length() costs nothing, where str() is quadratic in the digits.
    if value.bit_length() > 3 * _LONGEST_INT:
        refuse("a number that is too long", "Use a number that a database can hold.")
    return str(value)


def _read_int(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_INT else malformed("a number too long")


def _is_storable(number: Decimal) -> bool:
    """Whether the number can be written in full, which drivers do, and does not signal."""
    exponent = number.as_tuple().exponent
    return not number.is_snan() and (not isinstance(exponent, int) or abs(exponent) <= _FARTHEST_EXPONENT)


def _write_decimal(value: Decimal, _values: Values, _depth: int) -> str:
    if not _is_storable(value):
        refuse("a number that is too long, or a signaling NaN", "Use a number that a database can hold.")
    return str(value)


def _read_decimal(text: str) -> Decimal:
    number = Decimal(text)
    return number if _is_storable(number) else malformed("a number too long, or one that signals")


def _as_text(value: Any, _values: Values, _depth: int) -> str:
    return str(value)


def _as_iso(value: Any, _values: Values, _depth: int) -> str:
    # A time zone is stored as its offset, because databases compare instants.
    text: str = value.isoformat()
    return text


def _as_base64(value: Any, _values: Values, _depth: int) -> str:
    return b64encode(value).decode("ascii")


# Tag -> the types of its values, and how their payload is written and read.
_FORMS: dict[str, tuple[tuple[type, ...], Writer, Reader]] = {
    "int": ((int,), _write_int, _text(_read_int)),
    "float": ((float,), lambda value, _values, _depth: repr(value), _text(float)),
    "bytes": ((bytes,), _as_base64, _text(lambda text: b64decode(text, validate=True))),
    "bytearray": ((bytearray,), _as_base64, _text(lambda text: bytearray(b64decode(text, validate=True)))),
    "decimal": ((Decimal,), _write_decimal, _text(_read_decimal)),
    "datetime": ((datetime,), _as_iso, _text(datetime.fromisoformat)),
    "date": ((date,), _as_iso, _text(date.fromisoformat)),
    "time": ((time,), _as_iso, _text(time.fromisoformat)),
    "interval": ((timedelta,), _write_timedelta, _read_timedelta),
    "uuid": ((uuid.UUID,), _as_text, _text(uuid.UUID)),
    "list": ((list,), _write_items, _items(list)),
    "tuple": ((tuple, Row), _write_items, _items(tuple)),  # drivers treat a Row as a tuple
    "set": ((set,), _write_items, _items(set)),
    "frozenset": ((frozenset,), _write_items, _items(frozenset)),
    "dict": ((dict,), _write_dict, _read_dict),
    "range": ((Range,), _write_range, _read_range),
    "multirange": ((MultiRange,), _write_items, _items(MultiRange)),
    "bits": ((BitString,), _as_text, _text(BitString)),
    "address": ((IPv4Address, IPv6Address), _as_text, _text(ip_address)),
    "network": ((IPv4Network, IPv6Network), _as_text, _text(ip_network)),
    "interface": ((IPv4Interface, IPv6Interface), _as_text, _text(ip_interface)),
}
_WRITERS = {kind: (tag, write) for tag, (kinds, write, _) in _FORMS.items() for kind in kinds}


#
# Names.


# At least one dialect renders these without quotes: bind names (Oracle), collations (SQL Server). SQLAlchemy replaces
# %():.[] and blanks in bind names on every dialect. -- would begin a comment.
_BIND = re.compile(r"[\w$# .%():?\[\]/]+(?:-[\w$# .%():?\[\]/]+)*-?")
_COLLATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@]*(?:-[A-Za-z0-9_]+)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
ANONYMOUS = re.compile(r"%\((\S+) ((?:[^()%]|%%)*)\)s")
_PLAIN = re.compile(r"(?:[^%]|%%)*")
_BODY = re.compile(r"(?:[^()%]|%%)*")
_LONGEST = 1024
# Seeds for anonymous names of thawed statements. SQLAlchemy's own are decimal or hexadecimal and never begin with "t".
_fresh = itertools.count(1)

_MARKS: dict[str, type[quoted_name]] = {
    "quoted": quoted_name,
    "short": internals.TruncatedLabel,
    "conv": conv,
}
_MARK_OF = {cls: mark for mark, cls in _MARKS.items()}


class Seeds(Protocol):
    """Converts the seed of an anonymous name into its number in the document, or back."""

    def seed(self, original: Any) -> Any: ...


class Renumbering:
    """Encoder side: object ids become 0, 1, 2 in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def seed(self, original: str) -> int:
        return self._numbers.setdefault(original, len(self._numbers))


class FreshSeeds:
    """Decoder side: a number becomes a seed that no other statement of this process has."""

    def __init__(self) -> None:
        self._seeds: dict[int, str] = {}

    def seed(self, original: object) -> str:
        number = expect(original, int)
        seed = self._seeds.get(number)
        if seed is None:
            seed = self._seeds[number] = f"t{next(_fresh)}"
        return seed


def write_name(name: Any, seeds: Seeds) -> Any:
    """A name as JSON: plain text, ["anon", ...] or [mark, text, quote]."""
    kind = type(name)
    if kind is str:
        return _storable(name, _refuse_name)
    if kind is internals.AnonymousLabel:
        return _write_anonymous(name, seeds)
    mark = _MARK_OF.get(kind)
    if mark is None:
        refuse(f"a name of type {kind.__name__}", "Use a plain string.")
    if name.quote is False and not may_be_unquoted(name):
        refuse(f"the unquoted name {str(name)!r}", "Let SQLAlchemy quote it.")
    return [mark, _storable(str(name), _refuse_name), name.quote]


def read_name(wire: Any, seeds: Seeds) -> str:
    """The reverse of `write_name`. Unquoted text and unknown format directives are refused."""
    if type(wire) is str:
        return _storable(wire, malformed)
    mark, *rest = expect(wire, list)
    if mark == "anon":
        return _read_anonymous(rest, seeds)
    text, quote = rest
    if quote is not None and type(quote) is not bool:
        malformed("quote")
    if quote is False and not may_be_unquoted(expect(text, str)):
        malformed("unquoted name")
    return _MARKS[mark](_storable(expect(text, str), malformed), quote)


def _write_anonymous(name: internals.AnonymousLabel, seeds: Seeds) -> list[Any]:
    whole = ANONYMOUS.fullmatch(name)
    if whole:
        return ["anon", seeds.seed(whole[1]), whole[2]]
    pieces: list[Any] = ["anon"]
    position = 0
    for match in ANONYMOUS.finditer(name):
        if match.start() > position:
            pieces.append(name[position : match.start()])
        pieces += [seeds.seed(match[1]), match[2]]
        position = match.end()
    if position < len(name):
        pieces.append(name[position:])
    return pieces


def _read_anonymous(pieces: list[Any], seeds: Seeds) -> internals.AnonymousLabel:
    """Read an anonymous name: each number is followed by the body of its name, other pieces are text with % doubled."""
    text = ""
    remaining = iter(pieces)
    for piece in remaining:
        if type(piece) is int:
            body = expect(next(remaining), str)
            if not (_storable(body, malformed).isidentifier() or _BODY.fullmatch(body)):
                malformed("body of an anonymous name")
            text += f"%({seeds.seed(piece)} {body})s"
        elif not _PLAIN.fullmatch(_storable(expect(piece, str), malformed)):
            malformed("format directive in a name")
        else:
            text += piece
    return internals.AnonymousLabel(text)


def can_be_stored(name: str) -> bool:
    """Whether a name has no control characters, and is not too long."""
    return len(name) <= _LONGEST and (name.isprintable() or _CONTROL.search(name) is None)


def _storable(name: str, fail: Callable[[str], object]) -> str:
    """`name`; calls `fail`, which raises, if it cannot be stored."""
    if not can_be_stored(name):
        fail("a name with control characters, or too long")
    return name


def _refuse_name(what: str) -> None:
    refuse(what, "Choose a shorter name of printable characters.")


def bodies(name: str) -> str:
    """A name without the seeds of its anonymous parts: its text in the SQL apart from numbers."""
    whole = ANONYMOUS.fullmatch(name)
    return whole[2] if whole else ANONYMOUS.sub(lambda match: match[2], name)


def is_bind_name(name: str) -> bool:
    """Whether `name` is safe in the SQL of dialects that do not quote parameter names."""
    if name.isascii() and name.isidentifier():
        return True
    return _BIND.fullmatch(name) is not None and not ANONYMOUS.search(name)


def may_be_unquoted(name: str) -> bool:
    """Whether `name` is a plain identifier and not a reserved word. CURRENT_USER without quotes would be a call."""
    return _IDENTIFIER.fullmatch(name) is not None and name.lower() not in _reserved()


@cache
def _reserved() -> frozenset[str]:
    """Words that a dialect of SQLAlchemy reserves."""
    from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

    modules = (mssql, mysql, oracle, postgresql, sqlite)
    return frozenset(
        word.lower() for each in modules for word in each.dialect().identifier_preparer.reserved_words
    )


def is_collation(name: str) -> bool:
    """Whether `name` is safe as a collation, which SQL Server renders without quotes."""
    return _COLLATION.fullmatch(name) is not None


def is_identifier(name: str) -> bool:
    """Whether `name` is a plain ASCII identifier."""
    return _IDENTIFIER.fullmatch(name) is not None
