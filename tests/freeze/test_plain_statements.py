"""What the cache keys of plain statements tell is what compiling the statements tells."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Date,
    Integer,
    MetaData,
    Numeric,
    Select,
    String,
    Table,
    TypeDecorator,
    and_,
    bindparam,
    func,
    not_,
    or_,
    quoted_name,
    select,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import operators

from dualsql import sqlalchemy_internals as internals
from dualsql.errors import DualResponseError
from dualsql.freeze import UNCOMPILABLE, Proofs, Registry, form_of, freeze, is_plain, prove_equal, thaw
from dualsql.freeze.codec import node_kind_of
from dualsql.freeze.document import AnySelect, unpack
from dualsql.freeze.fields import _MEMOS
from dualsql.freeze.types import is_memoized
from tests.freeze.dialects import DIALECTS
from tests.freeze.hostile import forged, mutate
from tests.freeze.judge import OPEN, SIZE
from tests.freeze.shop import SHAPES, customers, customers_, orders, orders_

pytestmark = pytest.mark.filterwarnings("ignore")  # changed statements make SQLAlchemy warn

_EVERY = {
    "condition": select(customers.c.id, customers_.name.label("n")).where(customers_.id < 100),
    "join": (
        select(orders_.id, customers_.name, (customers_.id == orders_.id).label("same"))
        .join_from(orders, customers, orders_.customer_id == customers_.id, isouter=True)
        .where(or_(customers_.name == "a", and_(customers_.id > 1, orders_.id > 1)))
    ),
    "sort": (
        select(customers, not_(customers_.id != 3).label("x"))
        .distinct()
        .where(customers_.id >= 1)
        .order_by(customers_.name.desc().nulls_last(), customers_.id)
    ),
    "aggregate": (
        select(orders_.paid, func.count().label("n"), func.sum(orders_.price), func.max(customers_.name))
        .join_from(orders, customers, orders_.customer_id == customers_.id)
        .group_by(orders_.paid)
        .having(func.count(orders_.id) > 1)
        .order_by(func.avg(orders_.price).desc(), orders_.paid)
    ),
    "negative": select(orders, (orders_.price <= 2).label("low")).where(orders_.id.in_([1]) == True),  # noqa: E712
}


def _plain_bodies() -> dict[str, Any]:
    bodies = {}
    for name, statement in {**_EVERY, **SHAPES}.items():
        try:
            body = unpack(freeze(statement, OPEN), SIZE)
        except DualResponseError:
            continue
        if is_plain(body):
            bodies[name] = body
    return bodies


BODIES = _plain_bodies()


def _thawed(body: Any, registry: Registry = OPEN) -> AnySelect:
    statement = thaw(forged(body), registry)
    assert isinstance(statement, Select)
    return statement


def _has_one_form(changed: Any, statement: AnySelect) -> bool:
    try:
        return form_of(changed) == form_of(statement)
    except (*UNCOMPILABLE, NotImplementedError):
        return False  # no statement any more: it is not frozen


def _require_equal(changed: Any, statement: AnySelect) -> None:
    for dialect in DIALECTS.values():
        prove_equal(changed, statement, dialect)


@pytest.mark.parametrize("name", BODIES)
def test_every_dialect_compiles_them_and_finds_them_equal(name: str) -> None:
    assert _has_one_form(_thawed(BODIES[name]), _thawed(BODIES[name]))
    _require_equal(_thawed(BODIES[name]), _thawed(BODIES[name]))


def test_each_kind_is_among_them() -> None:
    tags = {tag for body in BODIES.values() for tag, _ in body["nodes"]}
    conditions = {"table", "column", "label", "bind", "binary", "boolean", "unary", "select"}
    assert tags == conditions | {"function", "grouping", "list"}
    assert set(_EVERY) - BODIES.keys() == {"negative"}  # a list of values is none of them


class _Faulty(TypeDecorator[int]):
    """A type whose code fails where a column of it is written."""

    impl = Integer
    cache_ok = True

    def column_expression(self, column: Any) -> Any:
        raise ValueError(column)


class _Strange(TypeDecorator[int]):
    """A type that knows no dialect."""

    impl = Integer
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        raise RuntimeError(dialect)


class _Written(TypeDecorator[str]):
    """A type that writes SQL."""

    impl = String
    cache_ok = True

    def column_expression(self, column: Any) -> Any:
        return func.lower(column)


_OWN = Table(
    "own",
    MetaData(),
    Column("id", Integer, primary_key=True),
    *(Column(name, type_()) for name, type_ in (("f", _Faulty), ("s", _Strange), ("w", _Written))),
    Column("v", Integer().with_variant(_Faulty(), "sqlite")),
)


def _error(call: Callable[[], object]) -> object:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever the code of a type raises
        return type(error), str(error), getattr(error, "details", None)
    return None


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("name", ["f", "s", "w", "v"])
def test_types_that_write_sql_have_the_errors_of_compiling(name: str, dialect: str) -> None:
    registry, proofs = Registry([_OWN.metadata]), Proofs()
    for statement in (select(_OWN.c[name]), select(_OWN.c.id, _OWN.c[name].label("x")), select(_OWN.c.id)):
        error = _error(partial(prove_equal, statement, statement, DIALECTS[dialect]))
        for _ in range(2):
            known = proofs.known(statement)
            frozen = partial(freeze, statement, registry, dialect=DIALECTS[dialect], proofs=proofs)
            assert known or _error(frozen) == error
            assert not (known and error)
    assert is_plain(unpack(freeze(select(_OWN.c.id, _OWN.c.w), registry), SIZE))


_OTHERS: dict[type, Callable[[Any], list[Any]]] = {
    bool: lambda value: [not value],
    int: lambda value: [value + 1, float(value), bool(value)],
    str: lambda value: [value + "x", type(value)(value + "x")],
    type(None): lambda _: [True, "x", operators.eq, customers.c.id, (customers.c.id == 7,)],
    tuple: lambda value: [value[:-1], (*value, *value[-1:]), value[::-1], (customers.c.id == 7,)],
    list: lambda value: [value[:-1], [*value, *value[-1:]], value[::-1]],
}
_TYPES = [Integer(), String(), String(5), Numeric(2, 1), Boolean(), Date()]
_OPERATORS = [operators.eq, operators.ne, operators.lt, operators.and_, operators.or_, operators.desc_op]


def _changes(elements: list[Any]) -> Iterator[tuple[int, str, Any]]:
    """(number of an element, attribute, other value)."""
    for number, element in enumerate(elements):
        if isinstance(element, Table | Column):
            continue  # of the registry, also in what was read back
        cls: Any = type(element)
        kind = node_kind_of(element)
        assert kind is not None
        written = {field.attribute for field in kind.fields}
        for attribute in vars(element).keys() | written:
            if attribute not in written and (attribute in _MEMOS or is_memoized(cls, attribute)):
                continue  # SQLAlchemy computes it
            value = getattr(element, attribute, None)
            others = _OTHERS.get(type(value), lambda _: [])(value)
            if attribute == "type":
                others = _TYPES
            elif callable(value):
                others = _OPERATORS
            elif hasattr(value, "__visit_name__"):
                others = [customers.c.id, orders.c.paid, bindparam(None, 7, type_=Integer())]
            yield from ((number, attribute, other) for other in others)


@pytest.mark.quick(10)
@pytest.mark.parametrize("name", BODIES)
def test_an_attribute_that_changes_sql_is_seen(name: str) -> None:
    statement = _thawed(BODIES[name])
    different, alike = 0, 0
    for number, attribute, other in _changes(list(internals.elements_of(statement))):
        changed = _thawed(BODIES[name])
        element: Any = list(internals.elements_of(changed))[number]
        vars(element)[attribute] = other
        if _has_one_form(changed, statement):
            alike += 1
            _require_equal(changed, statement)
        else:
            different += 1
    assert different > alike


def _outcome(statement: AnySelect, proofs: Proofs | None) -> object:
    try:
        known = None if proofs is None else proofs.known(statement)
        return freeze(statement, OPEN, proofs=proofs) if known is None else known
    except (*UNCOMPILABLE, NotImplementedError, DualResponseError) as error:
        return type(error)


_LABELS = ["x", "X", quoted_name("x", True), quoted_name("x", None), quoted_name("x y", False), "x y", None]
_CHANGES: list[Callable[[AnySelect], AnySelect]] = [
    lambda each: each.where(customers_.id == 1),
    lambda each: each.where(customers_.id == True),  # noqa: E712
    lambda each: each.where(customers_.id == bindparam("id_1", 1)),
    lambda each: each.execution_options(yield_per=5),
    lambda each: each.execution_options(tenant=5),
    lambda each: each.params(id_1=9),
    lambda each: each.distinct().with_for_update(),
    lambda each: each.join(orders, onclause=None),
]


def test_a_known_form_has_the_document_that_a_new_one_would_have() -> None:
    proofs, rng, known = Proofs(), random.Random(1), 0
    for _ in range(1_000):
        column = rng.choice([customers.c.id, customers.c.name]).label(rng.choice(_LABELS))
        statement = reduce(
            lambda one, change: change(one), rng.sample(_CHANGES, rng.randrange(3)), select(column)
        )
        is_known = proofs.known(statement) is not None
        one, other = _outcome(statement, proofs), _outcome(statement, None)
        if one != other:  # the order of its nodes is that of the calls
            assert isinstance(one, bytes)
            assert isinstance(other, bytes)
            _require_equal(thaw(one, OPEN), _thawed(unpack(other, SIZE)))
        known += is_known
    assert known > 100


def _mutants(seed: int, count: int) -> int:
    rng = random.Random(seed)
    alike = 0
    for _ in range(count):
        body = BODIES[rng.choice(list(BODIES))]
        try:
            changed = thaw(forged(mutate(body, rng)), OPEN)
        except DualResponseError:
            continue
        if _has_one_form(changed, _thawed(body)):
            alike += 1
            _require_equal(changed, _thawed(body))
    return alike


def test_a_change_of_a_document_is_seen() -> None:
    assert _mutants(seed=1, count=600)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_changes_of_a_document_are_seen(seed: int) -> None:
    assert _mutants(seed, count=3_000)
