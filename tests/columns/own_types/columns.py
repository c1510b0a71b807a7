"""A table with a column of each own type, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from typing import Any
from uuid import UUID

import sqlalchemy_utils as utils  # type: ignore[import-untyped]
from sqlalchemy import Column, Enum as SQLEnum, Integer, MetaData, PickleType, String, Table

from tests.columns.own_types import types as own
from tests.columns.own_types.types import Level, Money

ALL = frozenset({"equal", "range", "sort", "group", "extremes", "sum"})
ORDERED = ALL - {"sum"}
EQUAL = frozenset({"equal", "group"})
COMPARED = frozenset({"equal"})
NOTHING: frozenset[str] = frozenset()


class Colour(Enum):
    """Stored by value."""

    red = "r"
    blue = "b"


@dataclass(frozen=True)
class Case:
    """A column.

    Attributes:
        values: what rows hold, NULL among them; one twice.
        encoding: as it is announced.
        answers: what has to be answered, and not refused.
    """

    name: str
    type: Any
    values: Sequence[Any]
    encoding: str
    answers: frozenset[str]


def _instants(zone: Any = None) -> list[Any]:
    days = [(2024, 1, 9), (2023, 12, 31), (2024, 10, 1), (2024, 1, 9)]
    return [datetime(*day, 10, 30, tzinfo=zone) for day in days] + [None]


_TEXTS = ["b", "a", "ab", "b", None]
_NAMES = ["Germany", "Austria", "Italy", "Germany", None]
_DAYS = [date(2024, 1, 9), date(2023, 12, 31), date(2024, 10, 1), date(2024, 1, 9), None]
_NUMBERS = [9, 10, -2, 9, None]
_AMOUNTS = [1.25, 10.5, -9.0, 1.25, None]
_DECIMALS = [Decimal("9.50"), Decimal("10.25"), Decimal("-2.00"), Decimal("9.50"), None]
_DOCUMENTS = [{"a": 1}, {"b": [1, 2]}, {}, {"a": 1}, None]
_LISTS = [["b", "a"], ["a"], ["c"], ["b", "a"], None]
_MONEY = [Money(5, "EUR"), Money(1, "USD"), Money(9, "EUR"), Money(5, "EUR"), None]
_LEVELS = [Level.low, Level.high, Level.low, Level.low, None]
_UUIDS = [UUID(int=5), UUID(int=2**127), UUID(int=7), UUID(int=5), None]
_ADDRESSES = [
    IPv4Address("10.0.0.9"),
    IPv4Address("10.0.0.10"),
    IPv4Address("9.0.0.1"),
    IPv4Address("10.0.0.9"),
    None,
]

CASES = [
    Case("json_bytes", own.JSONBytes(), ["abcd", [1, 2], {"a": {"b": None}}, "abcd", None], "json", NOTHING),
    Case("json_text", own.JSONText(), _DOCUMENTS, "json", NOTHING),
    Case("microseconds", own.Microseconds(), _instants(), "datetime", COMPARED),
    Case("sorted_microseconds", own.SortedMicroseconds(), _instants(), "datetime", ORDERED - {"group"}),
    Case("text_list", own.TextList(), _LISTS, "json", NOTHING),
    Case("cents", own.Cents(), _AMOUNTS, "float", EQUAL),
    Case("exact_cents", own.ExactCents(), _DECIMALS, "decimal", EQUAL),
    Case("utc_instant", own.UTCInstant(), _instants(UTC), "datetime", ORDERED - {"group"}),
    Case("local_instant", own.LocalInstant(), _instants(own.BERLIN), "datetime", ORDERED - {"group"}),
    Case("lowered", own.Lowered(), _TEXTS, "text", ORDERED),
    Case("stripped", own.Stripped(), _TEXTS, "text", NOTHING),
    Case("passed", own.Passed(), _TEXTS, "text", ORDERED),
    Case("backwards", own.Backwards(), _TEXTS, "text", EQUAL),
    Case("enciphered", own.Enciphered(), _TEXTS, "text", EQUAL),
    Case("sealed", own.Sealed(), _TEXTS, "text", NOTHING),
    Case("yes_no", own.YesNo(), [True, False, True, True, None], "boolean", EQUAL),
    Case("negated", own.Negated(), _NUMBERS, "integer", EQUAL),
    Case("level", own.LevelNumber(), _LEVELS, "any", COMPARED),
    Case("guid", own.GUID(), _UUIDS, "uuid", EQUAL),
    Case("address", own.Address(), _ADDRESSES, "any", COMPARED),
    Case("german_date", own.GermanDate(), _DAYS, "date", EQUAL),
    Case("seconds", own.Seconds(), [timedelta(seconds=n) for n in (90, 5, 86_400, 90)] + [None], "interval", COMPARED),
    Case("day_number", own.DayNumber(), _DAYS, "date", EQUAL),
    Case("sorted_day_number", own.SortedDayNumber(), _DAYS, "date", ORDERED),
    Case("minutes", own.Minutes(), [time(9, 5), time(10, 0), time(0, 1), time(9, 5), None], "time", EQUAL),
    Case("country", own.Country(), _NAMES, "text", EQUAL),
    Case("digits_of_decimal", own.DigitsOfDecimal(), _DECIMALS, "decimal", EQUAL),
    Case("digits", own.Digits(), _NUMBERS, "integer", EQUAL),
    Case("rounded", own.Rounded(), [1.25, 1.21, 0.5, 1.25, None], "float", NOTHING),
    Case("shouted", own.Shouted(), ["b", "B", "a", "b", None], "text", NOTHING),
    Case("float_of_decimal", own.FloatOfDecimal(), _AMOUNTS, "float", ALL),
    Case("hex_bytes", own.HexBytes(), [b"\x02", b"\x01\x00", b"", b"\x02", None], "base64", COMPARED),
    Case("named", own.Named(), _TEXTS, "text", ORDERED),
    Case("mixed", own.Mixed(), [5, "x", 7, 5, None], "any", COMPARED),
    Case("money", own.MoneyText(), _MONEY, "any", NOTHING),
    Case("pickled", own.Pickled(), _DOCUMENTS, "json", NOTHING),
    Case("pickles", PickleType(), _DOCUMENTS, "any", NOTHING),
    Case(
        "colour",
        SQLEnum(Colour, values_callable=lambda cls: [each.value for each in cls], native_enum=False),
        [Colour.red, Colour.blue, Colour.red, Colour.red, None],
        "text",
        EQUAL,
    ),
    Case("utils_uuid", utils.UUIDType(), _UUIDS, "uuid", EQUAL),
    Case("utils_uuid_text", utils.UUIDType(binary=False), _UUIDS, "uuid", EQUAL),
    Case("utils_email", utils.EmailType(), ["b@x", "a@x", "ab@x", "b@x", None], "text", ORDERED),
    Case("utils_address", utils.IPAddressType(), _ADDRESSES, "any", COMPARED),
    Case("utils_json", utils.JSONType(), [*_DOCUMENTS[:4], {"z": None}], "json", NOTHING),
    Case("utils_list", utils.ScalarListType(), _LISTS, "json", NOTHING),
    Case("utils_numbers", utils.ScalarListType(int), [[1, 2], [3], [20], [1, 2], None], "json", NOTHING),
    Case("utils_choice", utils.ChoiceType(Level, impl=Integer()), _LEVELS, "any", COMPARED),
    Case("utils_cipher", utils.StringEncryptedType(String, "a key of sixteen"), _TEXTS, "text", EQUAL),
]  # fmt: skip

METADATA = MetaData()
TABLE = Table(
    "own",
    METADATA,
    Column("id", Integer, primary_key=True),
    *(Column(case.name, case.type) for case in CASES),
)
ROWS = [{"id": number + 1} | {case.name: case.values[number] for case in CASES} for number in range(5)]
