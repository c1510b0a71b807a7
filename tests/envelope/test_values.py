"""Values of tools as JSON: exact or refused, and never more than the bounds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import json
from collections import UserDict, namedtuple
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from pydantic import BaseModel, Field
from sqlalchemy import create_engine, text

from dualsql.envelope import Bounds, plain_value
from dualsql.envelope.values import is_plain
from dualsql.errors import BadParameterError, LimitExceededError
from tests.envelope.values import anything, json_values

UTC = dt.UTC


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    y: Decimal


class School(BaseModel):
    name: str
    opened: dt.date = Field(alias="openedOn")


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**53 + 1, 2**53 + 1),
        (2**63, "9223372036854775808"),
        (float("nan"), None),
        (float("-inf"), None),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), None),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (dt.timedelta(days=-1, seconds=3661), "-P0DT22H58M59S"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\x00\xff", "AP8="),
        ("half \ud800 a pair", "half \ufffd a pair"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Point(1, Decimal("2.5")), {"x": 1, "y": "2.5"}),
        (Pair(1, [2]), {"left": 1, "right": [2]}),
        (School(name="a", openedOn=dt.date(2026, 1, 2)), {"name": "a", "openedOn": "2026-01-02"}),
        (UserDict(a=1), {"a": 1}),
        ({1: "a", "b": None, dt.date(2026, 1, 2): (1, 2)}, {"1": "a", "b": None, "2026-01-02": [1, 2]}),
        ({None: 1, False: 2}, {"null": 1, "false": 2}),
        (frozenset({1}), [1]),
    ],
)
def test_each_value_has_one_form(value: Any, expected: Any) -> None:
    plain = plain_value(value)
    assert plain == expected and type(plain) is type(expected)


def test_a_row_of_sqlalchemy_is_an_object() -> None:
    with create_engine("sqlite://").connect() as connection:
        rows = connection.execute(text("SELECT 1 AS a, 'x' AS b")).all()
    assert plain_value(rows) == [{"a": 1, "b": "x"}]


@given(json_values)
def test_json_stays_as_it_is(value: Any) -> None:
    assert plain_value(value) == value
    assert is_plain(value)


@given(anything)
def test_what_is_made_can_be_sent_or_is_refused(value: Any) -> None:
    try:
        plain = plain_value(value)
    except (BadParameterError, LimitExceededError):
        return
    json.dumps(plain, allow_nan=False, ensure_ascii=False).encode()
    assert is_plain(plain) and plain_value(plain) == plain


def holding_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["again"] = [value]
    return value


def doubled(times: int) -> list[Any]:
    """Few objects that would be 2**times values."""
    value: list[Any] = []
    for _ in range(times):
        value = [value, value]
    return value


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "value",
    [
        holding_itself(),
        doubled(31),
        nested(100_000),
        "x" * 2_000_001,
        ["x" * 1000] * 2_001,
        b"x" * 2_000_001,
        {"x" * 2_000_001: 1},
        [0] * 100_001,
        10**5_000,
    ],
    ids=["cycle", "doubling", "deep", "long", "long together", "bytes", "key", "many", "digits"],
)
def test_what_is_too_much_is_refused(value: Any) -> None:
    with pytest.raises(LimitExceededError):
        plain_value(value)
    assert not is_plain(value)


class Secretive:
    def __repr__(self) -> str:
        return "password=hunter2"

    __str__ = __repr__


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise AssertionError("nobody asks a text for its text")


@pytest.mark.parametrize(
    "value",
    [
        Secretive(),
        Secretive,
        object(),
        itertools.count(),
        (i for i in [1]),
        print,
        {(1, 2): 3},
        {1: "a", "1": "b"},
        1j,
    ],
)
def test_what_has_no_json_is_refused_without_a_word_of_it(value: Any) -> None:
    with pytest.raises(BadParameterError) as refused:
        plain_value([value])
    assert "hunter2" not in str(refused.value)


def test_a_text_with_a_mind_of_its_own_is_a_text() -> None:
    assert type(plain_value(Loud("a"))) is str


def test_the_bounds_can_be_set() -> None:
    assert plain_value([[1]], Bounds(depth=2))
    with pytest.raises(LimitExceededError, match="more than 1 levels"):
        plain_value([[1]], Bounds(depth=1))
    with pytest.raises(LimitExceededError, match="more than 2 values"):
        plain_value([1, 2], Bounds(values=2))


@pytest.mark.parametrize(
    "value", [(1,), {1: 1}, float("nan"), b"", Colour.RED, {"a": Level.HIGH}, Decimal(1), "\ud800"]
)
def test_what_is_not_json_as_it_stands_is_known(value: Any) -> None:
    assert not is_plain(value)
