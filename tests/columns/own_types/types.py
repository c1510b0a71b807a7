"""Types as applications write them: what is stored is not what is shown."""

from __future__ import annotations

import json
import pickle
import secrets
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import (
    CHAR,
    BigInteger,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    Numeric,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects import postgresql

_EPOCH = datetime.fromisoformat("1970-01-01")
BERLIN = ZoneInfo("Europe/Berlin")


class _Own(TypeDecorator[Any]):
    """Calls `store` and `show` for values that are not NULL."""

    impl: Any = Text
    cache_ok = True

    def __init_subclass__(cls) -> None:
        cls.cache_ok = True  # SQLAlchemy asks each class anew

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else self.store(value)

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else self.show(value)

    def store(self, value: Any) -> Any:
        return value

    def show(self, value: Any) -> Any:
        return value


class JSONBytes(_Own):
    """Documents in bytes, as Galaxy keeps them."""

    impl = LargeBinary

    def store(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def show(self, value: bytes) -> Any:
        return json.loads(value)


class JSONText(_Own):
    """Documents in text, and nothing but objects."""

    def store(self, value: dict[str, Any]) -> str:
        return json.dumps(dict(value))

    def show(self, value: str) -> Any:
        return json.loads(value)


class Microseconds(_Own):
    """Instants in whole numbers, as Keystone keeps them."""

    impl = BigInteger

    def store(self, value: datetime) -> int:
        return (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)

    def show(self, value: int) -> datetime:
        return _EPOCH + timedelta(microseconds=value)


class SortedMicroseconds(Microseconds):
    """The same, of which the application says that it compares as stored."""


class TextList(_Own):
    """Lists in text."""

    def store(self, value: list[str]) -> str:
        return ",".join(value)

    def show(self, value: str) -> list[str]:
        return value.split(",")


class Cents(_Own):
    """Amounts in cents, shown as floating point."""

    impl = Integer

    def store(self, value: float) -> int:
        return round(value * 100)

    def show(self, value: int) -> float:
        return value / 100


class ExactCents(_Own):
    """Amounts in cents, shown as decimals."""

    impl = Integer

    def store(self, value: Decimal) -> int:
        return int(value.scaleb(2))

    def show(self, value: int) -> Decimal:
        return Decimal(value).scaleb(-2)


class UTCInstant(_Own):
    """Instants that have a zone on every database."""

    impl = DateTime(timezone=True)

    def store(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise ValueError("an instant without a zone")
        return value.astimezone(UTC)

    def show(self, value: datetime) -> datetime:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class LocalInstant(UTCInstant):
    """Instants in the zone of the application."""

    def show(self, value: datetime) -> datetime:
        return super().show(value).astimezone(BERLIN)


class Lowered(TypeDecorator[str]):
    """Texts that are changed on their way in alone, as sqlalchemy-utils keeps addresses of mail."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        return None if value is None else value.lower()


class Stripped(_Own):
    """Texts without the blanks around them, on their way out alone."""

    def show(self, value: str) -> str:
        return value.strip()


class Passed(_Own):
    """Texts through code that changes none."""


class Backwards(_Own):
    """Texts that are stored from their ends."""

    def store(self, value: str) -> str:
        return value[::-1]

    def show(self, value: str) -> str:
        return value[::-1]


class Enciphered(_Own):
    """Texts in a cipher, the same for equal ones."""

    def store(self, value: str) -> str:
        return bytes((byte + 101) % 256 for byte in value.encode()).hex()

    def show(self, value: str) -> str:
        return bytes((byte - 101) % 256 for byte in bytes.fromhex(value)).decode()


class Sealed(_Own):
    """Texts in a cipher with a random beginning."""

    impl = LargeBinary

    def store(self, value: str) -> bytes:
        nonce = secrets.randbits(8)
        return bytes([nonce, *(byte ^ nonce for byte in value.encode())])

    def show(self, value: bytes) -> str:
        return bytes(byte ^ value[0] for byte in value[1:]).decode()


class YesNo(_Own):
    """Truths as letters."""

    impl = CHAR(1)

    def store(self, value: bool) -> str:
        return {True: "Y", False: "N"}[value]

    def show(self, value: str) -> bool:
        return {"Y": True, "N": False}[value]


class Negated(_Own):
    """Numbers in the opposite order."""

    impl = Integer

    def store(self, value: int) -> int:
        return -value

    def show(self, value: int) -> int:
        return -value


class Level(Enum):
    """Not in the order of its values."""

    low = 3
    high = 1


class LevelNumber(_Own):
    """Members of an Enum by number."""

    impl = Integer

    def store(self, value: Any) -> int:
        return int(Level(value).value)

    def show(self, value: int) -> Level:
        return Level(value)


class GUID(_Own):
    """UUIDs, native or as texts, as SQLAlchemy's documentation has them."""

    impl = CHAR

    def load_dialect_impl(self, dialect: Any) -> Any:
        is_native = dialect.name == "postgresql"
        return dialect.type_descriptor(postgresql.UUID() if is_native else CHAR(32))

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return UUID(str(value)).hex

    def show(self, value: Any) -> UUID:
        return value if isinstance(value, UUID) else UUID(value)


class Address(_Own):
    """Addresses in text."""

    impl = String(50)

    def store(self, value: Any) -> str:
        return str(IPv4Address(value))

    def show(self, value: str) -> IPv4Address:
        return IPv4Address(value)


class GermanDate(_Own):
    """Dates in text, whose order is another one."""

    def store(self, value: date) -> str:
        return value.strftime("%d.%m.%Y") if type(value) is date else _refuse(value)

    def show(self, value: str) -> date:
        return datetime.strptime(value, "%d.%m.%Y").replace(tzinfo=UTC).date()


class Seconds(_Own):
    """Lengths of time in seconds."""

    impl = Integer

    def store(self, value: timedelta) -> int:
        return value // timedelta(seconds=1)

    def show(self, value: int) -> timedelta:
        return timedelta(seconds=value)


class DayNumber(_Own):
    """Dates as whole numbers."""

    impl = Integer

    def store(self, value: date) -> int:
        return value.toordinal() if type(value) is date else _refuse(value)

    def show(self, value: int) -> date:
        return date.fromordinal(value)


class SortedDayNumber(DayNumber):
    """The same, of which the application says that it compares as stored."""


class Minutes(_Own):
    """Times of day in minutes."""

    impl = Integer

    def store(self, value: time) -> int:
        return value.hour * 60 + value.minute

    def show(self, value: int) -> time:
        return time(value // 60, value % 60)


class Country(_Own):
    """Names by their codes."""

    _NAMES = {"DE": "Germany", "AT": "Austria", "IT": "Italy"}

    def store(self, value: str) -> str:
        return next((code for code, name in self._NAMES.items() if name == value), value)

    def show(self, value: str) -> str:
        return self._NAMES.get(value, value)


class DigitsOfDecimal(_Own):
    """Decimals in text, which sorts 10 before 9."""

    def store(self, value: Decimal) -> str:
        return str(value) if isinstance(value, Decimal) else _refuse(value)

    def show(self, value: str) -> Decimal:
        return Decimal(value)


class Digits(_Own):
    """Whole numbers in text."""

    def store(self, value: int) -> str:
        return str(value) if type(value) is int else _refuse(value)

    def show(self, value: str) -> int:
        return int(value)


class Rounded(_Own):
    """Numbers that are shown with one digit, and stored with all."""

    impl = Float

    def show(self, value: float) -> float:
        return round(value, 1)


class Shouted(TypeDecorator[str]):
    """Texts that are changed on their way out alone."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Any) -> Any:
        return None if value is None else value.upper()


class FloatOfDecimal(_Own):
    """Decimals that are shown as floating point."""

    impl = Numeric(12, 2)

    def show(self, value: Any) -> float:
        return float(value)


class HexBytes(_Own):
    """Bytes in text."""

    def store(self, value: bytes) -> str:
        return value.hex()

    def show(self, value: str) -> bytes:
        return bytes.fromhex(value)


class Named(TypeDecorator[str]):
    """A type without code."""

    impl = String(20)
    cache_ok = True


class Money:
    """A class that has no JSON form of its own."""

    def __init__(self, amount: int, currency: str) -> None:
        self.amount = amount
        self.currency = currency

    def shown(self) -> dict[str, Any]:
        """The JSON form that the application gives it."""
        return {"amount": self.amount, "currency": self.currency}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.shown() == other.shown()

    def __hash__(self) -> int:
        return hash((self.amount, self.currency))


class MoneyText(_Own):
    """Objects in text."""

    def store(self, value: Money) -> str:
        return f"{value.amount} {value.currency}"

    def show(self, value: str) -> Money:
        amount, currency = value.split(" ")
        return Money(int(amount), currency)


class Mixed(_Own):
    """Whole numbers where a text is one, and texts elsewhere."""

    def store(self, value: Any) -> str:
        return str(value)

    def show(self, value: str) -> Any:
        return int(value) if value.isdigit() else value


class Pickled(_Own):
    """What Python can keep."""

    impl = LargeBinary

    def store(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def show(self, value: bytes) -> Any:
        return pickle.loads(value)


def _refuse(value: Any) -> Any:
    raise TypeError(type(value).__name__)
