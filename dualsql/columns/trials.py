"""Finds out what a TypeDecorator of the application returns, by calling its code with plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Any
from uuid import UUID

from sqlalchemy import types
from sqlalchemy.engine import Dialect

from dualsql import sqlalchemy_internals as internals
from dualsql.columns.own_types import Meaning, OwnCode, SQLType, implementations, is_instance, package_of

_NUMBERS = (int, float, Decimal)


def tried_meaning(type_: SQLType, dialect: Dialect, stored: SQLType, *, keeps_zones: bool) -> Meaning:
    """What is known of the values of a type that may have code of the application.

    Args:
        stored: the type without that code. keeps_zones: the database returns an instant with its zone.
    """
    binds, reads = _own_code(type_, dialect)
    if binds is None and reads is None:
        return Meaning(shown=stored, stored=stored)
    name = type(type_).__name__
    if reads is None:
        return Meaning(shown=stored, stored=stored, binds=binds, name=name)
    trial = _Trial(stored, binds, reads, name, keeps_zones)
    return _with_its_nulls(trial.by_reading() or trial.by_binding())


def _own_code(type_: SQLType, dialect: Dialect) -> tuple[OwnCode | None, OwnCode | None]:
    """The application's code that converts values on their way in and out."""
    binds: OwnCode | None = None
    reads: OwnCode | None = None
    layers: list[Any] = list(implementations(type_, dialect))
    for layer in layers[:-1]:
        if _replaces(layer, *_WHOLE):
            return _unknown, _unknown
        if _replaces(layer, "process_bind_param"):
            binds = _then(binds, _with_dialect(layer.process_bind_param, dialect))
        if _replaces(layer, "process_result_value"):
            reads = _then(_with_dialect(layer.process_result_value, dialect), reads)
    is_dialects = package_of(layers[-1]) in ("sqlalchemy", package_of(dialect))
    return (binds, reads) if is_dialects or not _replaces(layers[-1], *_WHOLE) else (_unknown, _unknown)


_WHOLE = ("bind_processor", "result_processor", "bind_expression", "column_expression")
"""Other methods of a TypeDecorator that convert values. They need a driver or run in SQL, so they are not tried."""


def _unknown(value: Any) -> Any:
    """Replaces code that can only run with a statement."""
    raise NotImplementedError


def _with_dialect(code: Callable[[Any, Dialect], Any], dialect: Dialect) -> OwnCode:
    return lambda value: code(value, dialect)


def _then(first: OwnCode | None, second: OwnCode | None) -> OwnCode | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


def _replaces(type_: SQLType, *methods: str) -> bool:
    """Whether a class of the application, or SQLAlchemy's PickleType, overrides one of the methods."""
    # PickleType is SQLAlchemy's own, and its values are objects of any class.
    owners = (next(cls for cls in type(type_).__mro__ if method in vars(cls)) for method in methods)
    return any(
        owner.__module__.partition(".")[0] != "sqlalchemy" or owner is types.PickleType for owner in owners
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """Values of one Python class, in ascending order if they have an order, and the type that is announced for them."""

    cls: type[Any]
    type: SQLType
    values: Sequence[Any]
    is_zoned: bool | None = None
    has_order: bool = True


_DAYS = [date(1970, 1, 1), date(1999, 12, 31), date(2023, 12, 31), date(2024, 1, 2), date(2024, 2, 1)]

_INSTANTS = [datetime.combine(day, time(3, 4, 5)) for day in _DAYS]

_INTEGERS = [-1, 0, 1, 2, 3, 9, 10, 255, 1_000_000]

_FRACTIONS = ["-1", "0", "0.25", "0.5", "1", "2.5", "9", "10", "1000"]

_TEXTS = ["", " a", "1", "01", "A", "B", "[1]", "a", "a ", "a,b", "b", "b,a", "{}", "é"]

_DOCUMENTS: list[Any] = [{}, {"a": 1}, {"a": [1, 2]}, {"b": "x"}]

_WORDS = """0 10 -1 1.50 true false yes no on off null None active open closed draft new done male female north
low medium high red EUR USD 2024-01-02 2024-01-02T03:04:05 a@x.org A@X.org http://x.org/ 10.0.0.1 +49301234567
00000000-0000-0000-0000-000000000001 deadbeef YWJj PT1S P1D 1,2 a;b a|b <b> a\\b""".split()

_CODES = [one + other for case in (ascii_lowercase, ascii_uppercase) for one in case for other in ("", *case)]

# More values of the same kind, close to each other: code that truncates or rounds makes two of them equal.
_CLOSE: Mapping[type[Any], Sequence[Any]] = {
    float: [0.1234567, 0.1234568],
    Decimal: [Decimal("0.1234567"), Decimal("0.1234568")],
    datetime: [datetime.combine(date(2024, 3, 1), time(4, 5, 6, micro)) for micro in (0, 7)],
    time: [time(4, 5, 6), time(4, 5, 6, 7)],
    timedelta: [timedelta(hours=3), timedelta(hours=3, microseconds=7)],
}

_KINDS: tuple[_Kind, ...] = (
    _Kind(bool, types.Boolean(), [False, True]),
    _Kind(int, types.BigInteger(), _INTEGERS),
    _Kind(float, types.Double(), [float(text) for text in _FRACTIONS]),
    _Kind(Decimal, types.Numeric(), [Decimal(text) for text in _FRACTIONS]),
    _Kind(str, types.String(), _TEXTS),
    _Kind(datetime, types.DateTime(), _INSTANTS, is_zoned=False),
    _Kind(
        datetime,
        types.DateTime(timezone=True),
        [instant.replace(tzinfo=UTC) for instant in _INSTANTS],
        is_zoned=True,
    ),
    _Kind(date, types.Date(), _DAYS),
    _Kind(time, types.Time(), [time(0, 0), time(3, 4, 5), time(13, 0), time(23, 59, 59)]),
    _Kind(timedelta, types.Interval(), [timedelta(seconds=n) for n in (0, 1, 90, 3600, 86_400)]),
    _Kind(UUID, types.Uuid(), [UUID(int=number) for number in (1, 2, 2**127)], has_order=False),
    _Kind(bytes, types.LargeBinary(), [b"", b"\x00\xff", b"1", b"a"]),
    _Kind(dict, types.JSON(), _DOCUMENTS, has_order=False),
    _Kind(list, types.JSON(), [["a"], ["a", "b"], [1, 2]], has_order=False),
)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Calls a type's code with plain values, to find the kind of its values.

    Attributes:
        plain: the stored type.
    """

    plain: SQLType
    binds: OwnCode | None
    reads: OwnCode
    name: str
    keeps_zones: bool

    def by_reading(self) -> Meaning | None:
        """The meaning, found by reading values of the stored type; None if the results are of another kind."""
        stored = _kind_of(self.plain, keeps_zones=self.keeps_zones)
        if stored is None:
            return None
        close = [_zoned(value, stored) for value in _CLOSE.get(stored.cls, ())]
        values = sorted([*stored.values, *close]) if stored.has_order else stored.values
        shown = [_tried(self.reads, value) for value in values]
        kind = _kind_of_values([value for value in shown if value is not None])
        is_number = stored.cls in _NUMBERS
        if kind is None or not (kind.cls is stored.cls or (is_number and kind.cls in _NUMBERS)):
            return None
        is_equal = all(map(_is_as_stored, shown, values))
        if kind.cls is not stored.cls and not is_equal:
            return None
        is_same = is_equal and (kind.cls is not str or self._leaves_texts())
        is_document = kind.cls in (dict, list)
        ascends = kind.has_order and stored.has_order and kind.cls is not str and _ascends(shown)
        return Meaning(
            shown=self.plain if kind.cls is stored.cls and kind.is_zoned is None else kind.type,
            stored=self.plain,
            shown_class=None if is_document else kind.cls,
            binds=self.binds,
            reads=self.reads,
            is_same=is_same,
            keeps_order=ascends or (is_same and not is_document),
            keeps_equality=not is_document and _are_distinct(shown) and self._is_steady(shown),
            keeps_null=_have_no_nulls(shown),
            is_zoned=kind.is_zoned,
            name=self.name,
        )

    def _leaves_texts(self) -> bool:
        """Whether texts are shown unchanged. A type that translates codes shows other texts."""
        return all(_or_nothing(self.reads, text) == text for text in (*_WORDS, *_CODES))

    def by_binding(self) -> Meaning:
        """The meaning, found by binding and reading values of each kind. Without exactly one kind, it is `any`."""
        kinds = [kind for kind in _KINDS if self._takes(kind)]
        classes = {kind.cls for kind in kinds}
        kind = kinds[0] if len(kinds) == 1 else None
        is_document = bool(classes) and (kind is None or kind.cls in (dict, list)) and classes & {dict, list}
        shown = kind.type if kind else types.JSON() if is_document else types.NullType()
        return Meaning(
            shown=shown,
            stored=self.plain,
            shown_class=None if kind is None or is_document else kind.cls,
            binds=self.binds,
            reads=self.reads,
            is_same=False,
            keeps_order=False,
            keeps_equality=bool(kinds)
            and not is_document
            and all(self._is_steady(kind.values) for kind in kinds),
            is_zoned=kind.is_zoned if kind else None,
            name=self.name,
        )

    def _takes(self, kind: _Kind) -> bool:
        """Whether accepted values of the kind come back with this kind, and at least some of them unchanged."""
        pairs = [(value, _or_nothing(self._round_trip, value)) for value in kind.values]
        accepted = [(value, output) for value, output in pairs if output is not None]
        return all(_is_of(output, kind) for _, output in accepted) and any(
            output == value for value, output in accepted
        )

    def _round_trip(self, value: Any) -> Any:
        return self.reads(value if self.binds is None else self.binds(value))

    def _is_steady(self, values: Iterable[Any]) -> bool:
        """Whether each accepted value is stored in the same way each time."""
        for value in values:
            try:
                round_trip(value, self.binds, self.reads)
            except UnsteadyError:
                return False
            except ValueError:
                continue
        return True


class UnsteadyError(ValueError):
    """The type stores a value differently each time, such as a cipher with a random prefix."""


def round_trip(value: Any, binds: OwnCode | None, reads: OwnCode | None) -> Any:
    """The shown value after `value` was stored and read.

    Raises:
        ValueError: the code does not accept it, or stores it differently each time.
    """
    # Any exception of the application's code means that it does not accept the value.
    try:
        stored = value if binds is None else binds(value)
        is_steady = binds is None or bool(binds(value) == stored)
        output = stored if reads is None else reads(stored)
    except Exception as error:
        raise ValueError("not taken") from error
    if not is_steady:
        raise UnsteadyError("stored differently each time")
    return output


def _zoned(value: Any, kind: _Kind) -> Any:
    return value.replace(tzinfo=UTC) if kind.is_zoned else value


_UNREADABLE = object()
"""Stands for a value that the application's code does not take."""


def _tried(code: OwnCode, value: Any) -> Any:
    try:
        return code(value)
    except Exception:  # noqa: BLE001 - the application's code may raise anything
        return _UNREADABLE


def _or_nothing(code: OwnCode, value: Any) -> Any:
    output = _tried(code, value)
    return None if output is _UNREADABLE else output


def _with_its_nulls(meaning: Meaning) -> Meaning:
    """The meaning, as it is where the application's code reads values as None, or None as a value."""
    null = None if meaning.reads is None else _tried(meaning.reads, None)
    if meaning.keeps_null and (null is None or null is _UNREADABLE):
        return meaning
    return meaning._replace(is_same=False, keeps_null=False, keeps_equality=False, keeps_order=False)


def _kind_of(plain: SQLType, *, keeps_zones: bool) -> _Kind | None:
    """The kind of values that one of SQLAlchemy's own types returns."""
    if isinstance(plain, types.Enum):
        return None
    wants_zone = keeps_zones and bool(getattr(plain, "timezone", False))
    if isinstance(plain, types.Numeric | types.Float):
        cls: type[Any] = Decimal if plain.asdecimal else float
    elif isinstance(plain, types.Interval) or internals.type_affinity(plain) is types.Interval:
        cls = timedelta
    elif isinstance(plain, types.Uuid):
        cls = UUID if plain.as_uuid else str
    else:
        cls = next((class_ for kind, class_ in _PYTHON if isinstance(plain, kind)), type(None))
    same = (kind for kind in _KINDS if kind.cls is cls and kind.is_zoned in (None, wants_zone))
    return next(same, None)


_PYTHON: tuple[tuple[type[SQLType], type[Any]], ...] = (
    (types.Boolean, bool),
    (types.Integer, int),
    (types.DateTime, datetime),
    (types.Date, date),
    (types.Time, time),
    (types.LargeBinary, bytes),
    (types.JSON, dict),
    (types.String, str),
)


def _kind_of_values(values: Sequence[Any]) -> _Kind | None:
    """The kind of all values; None if they have different kinds, or there are none."""
    if not values:
        return None
    return next((kind for kind in _KINDS if all(_is_of(value, kind) for value in values)), None)


def _is_of(value: Any, kind: _Kind) -> bool:
    if not is_instance(value, kind.cls):
        return False
    return kind.is_zoned is None or (value.tzinfo is not None) is kind.is_zoned


def _is_as_stored(shown: Any, stored: Any) -> bool:
    if isinstance(shown, datetime) and isinstance(stored, datetime):
        is_utc = shown.tzinfo is None or shown.utcoffset() == timedelta()
        return is_utc and shown.replace(tzinfo=None) == stored.replace(tzinfo=None)
    if isinstance(shown, float) and isinstance(stored, Decimal):
        return shown == float(stored)
    return bool(shown == stored)


def _ascends(values: Sequence[Any]) -> bool:
    return _have_no_nulls(values) and all(one < other for one, other in pairwise(values))


def _have_no_nulls(values: Sequence[Any]) -> bool:
    return all(value is not None for value in values)


def _are_distinct(values: Sequence[Any]) -> bool:
    return not any(one == other for place, one in enumerate(values) for other in values[:place])
