"""Any value and any nesting of expressions comes back; hypothesis looks for the one that does not."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlalchemy import Select, and_, between, bindparam, case, cast, func, not_, or_, select, tuple_
from sqlalchemy.dialects.postgresql import Range
from sqlalchemy.types import Integer, String

from dualsql.freeze import freeze, prove_equal, thaw
from tests.freeze.dialects import DIALECTS
from tests.freeze.shop import REGISTRY, Status, customers_, orders, orders_

SQLITE = DIALECTS["sqlite"]
QUIET = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def _unfolded(moment: Any) -> Any:
    """Without `fold`, which no database keeps and which means nothing beside an offset."""
    return moment.replace(fold=0)


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_zones = st.integers(-840, 840).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False),
    _text,
    st.binary(max_size=20),
    st.decimals(allow_nan=False),
    st.datetimes(timezones=st.none() | _zones).map(_unfolded),
    st.dates(),
    st.times(timezones=st.none() | _zones).map(_unfolded),
    st.timedeltas(),
    st.uuids(),
    st.sampled_from(Status),
    st.ip_addresses(),
    st.builds(Range, st.integers(0, 5), st.integers(5, 9), bounds=st.sampled_from(["[)", "[]", "()"])),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(_text, inner, max_size=4),
    ),
    max_leaves=12,
)


@QUIET
@given(_values)
def test_a_value_comes_back_with_its_type(value: Any) -> None:
    wire = orjson.loads(orjson.dumps(REGISTRY.values.write(value)))
    actual = REGISTRY.values.read(wire)
    assert actual == value
    assert repr(actual) == repr(value)


def test_not_a_number_comes_back() -> None:
    assert math.isnan(REGISTRY.values.read(REGISTRY.values.write(math.nan)))


@pytest.mark.long
@QUIET
@given(_values)
def test_a_bound_value_comes_back(value: Any) -> None:
    statement = select(customers_.id).where(customers_.id == bindparam("x", value, String))
    document = freeze(statement, REGISTRY, dialect=SQLITE)
    assert thaw(document, REGISTRY).compile(dialect=SQLITE).params == {"x": value}


def _arithmetic(parts: tuple[Any, Any, str]) -> Any:
    left, right, operator = parts
    return {"+": left + right, "-": left - right, "*": left * right, "/": left / right, "%": left % right}[
        operator
    ]


def _compared(left: Any, right: Any, operator: str) -> Any:
    return {"<": left < right, "==": left == right, "!=": left != right}[operator]


_other = orders.alias("other")
_numbers: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([customers_.id, orders_.price, orders_.customer_id])
    | st.integers(0, 99).map(lambda n: bindparam(None, n)),
    lambda inner: st.one_of(
        st.tuples(inner, inner, st.sampled_from("+-*/%")).map(_arithmetic),
        inner.map(lambda e: -e),
        inner.map(func.abs),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: func.coalesce(*items)),
        st.tuples(inner, inner).map(lambda pair: case((pair[0] > 1, pair[1]), else_=0)),
        inner.map(lambda e: cast(e, Integer)),
    ),
    max_leaves=8,
)
_conditions = st.recursive(
    st.one_of(
        st.tuples(_numbers, _numbers, st.sampled_from(["<", "==", "!="])).map(lambda t: _compared(*t)),
        st.tuples(_numbers, _numbers, _numbers).map(lambda t: between(*t)),
        st.tuples(_numbers, st.lists(st.integers(), max_size=3)).map(lambda t: t[0].in_(t[1])),
        _numbers.map(lambda e: e.is_(None)),
        st.tuples(_numbers, _numbers).map(lambda t: tuple_(*t).in_([(1, 2)])),
        _numbers.map(lambda e: select(_other.c.id).where(_other.c.price == e).exists()),
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(lambda items: and_(*items)),
        st.lists(inner, min_size=2, max_size=4).map(lambda items: or_(*items)),
        inner.map(not_),
    ),
    max_leaves=8,
)


def _comes_back(columns: list[Any], condition: Any) -> None:
    statement = select(*columns).where(condition).order_by(columns[0])
    thawed = thaw(freeze(statement, REGISTRY, dialect=SQLITE), REGISTRY)
    prove_equal(statement, thawed, SQLITE)
    # Nor does it differ once it is built upon: a filter that is added later binds the same way.
    assert isinstance(thawed, Select)
    prove_equal(statement.where(customers_.name == "t"), thawed.where(customers_.name == "t"), SQLITE)


_nestings = given(st.lists(_numbers, min_size=1, max_size=3), _conditions)


@pytest.mark.long
@settings(QUIET, max_examples=60)
@_nestings
def test_any_nesting_comes_back(columns: list[Any], condition: Any) -> None:
    _comes_back(columns, condition)


@pytest.mark.exhaustive
@settings(QUIET, max_examples=1_000)
@_nestings
def test_a_thousand_nestings_come_back(columns: list[Any], condition: Any) -> None:
    _comes_back(columns, condition)
