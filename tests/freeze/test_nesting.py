"""No short document is long to thaw or to compile, whichever kind of node stands in which other, however deep."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Integer, cast, literal, select
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

from dualsql.errors import DualResponseError, NotFreezableError
from dualsql.freeze import UNCOMPILABLE, Registry, freeze, thaw
from dualsql.freeze.codec import DEEPEST, KINDS, MOST_CONVERSIONS, rare_kinds
from dualsql.freeze.fields import INFIX, PREFIXED
from tests.freeze.hostile import forged
from tests.freeze.nesting import LEAVES, WIDE, Frame, frames, nested
from tests.quick import case_of

# Forged statements make SQLAlchemy warn: that is no failure here.
pytestmark = pytest.mark.filterwarnings("ignore")

SECONDS = 3.0  # of the processor; measured: 1, for 120 joins of one another
DIALECTS = (postgresql.dialect(), mysql.dialect(), sqlite.dialect(), mssql.dialect(), oracle.dialect())
FRAMES = frames()
PARTS = 40


class TooLongError(BaseException):
    """Not caught by what catches exceptions."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End the block after so many seconds of the processor."""

    def stop(*_: Any) -> None:
        raise TooLongError

    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def is_bearable(nodes: list[Any]) -> bool:
    """Whether the document is refused, or becomes SQL or an error of SQLAlchemy, soon."""
    text = any(node[0] in ("text", "text select") for node in nodes)
    try:
        with limited(SECONDS):
            statement = thaw(forged({"nodes": nodes, "clones": [], "text": text}), WIDE)
            for dialect in DIALECTS:
                try:
                    statement.compile(dialect=dialect)
                except (*UNCOMPILABLE, NotImplementedError):
                    continue
    except DualResponseError:
        return True
    except TooLongError:
        return False
    return True


def unbearable(pairs: list[tuple[Frame, Frame]], depth: int) -> list[str]:
    return [
        f"{outer.tag}.{outer.field} in {inner.tag}.{inner.field}"
        for outer, inner in pairs
        if not all(map(is_bearable, nested(outer, inner, depth)))
    ]


def test_every_kind_is_nested() -> None:
    """A new kind needs a statement in the shop, a twin in ALIKE, or to be a leaf."""
    assert {tag for tag, _ in FRAMES} | LEAVES == {*KINDS, *rare_kinds()}


@pytest.mark.parametrize("depth", [40, case_of(12, is_long=True), case_of(DEEPEST - 20, is_long=True)])
def test_each_kind_in_itself(depth: int) -> None:
    assert unbearable([(frame, frame) for frame in FRAMES.values()], depth // 2) == []


def chains(operator: str, type_name: str) -> Iterator[list[Any]]:
    """The operator on its own value 40 times: to the left, to the right, on both sides, as an operator of one value."""
    for sides in (("left",), ("right",), ("left", "right"), ("element",)):
        nodes: list[Any] = [["bind", {"name": "b", "value": 1, "type": "Integer"}]]
        for number in range(40):
            operands = {"left": 0, "right": 0} | dict.fromkeys(sides, number)
            node = {"element": number} if sides == ("element",) else operands
            tag = "unary" if sides == ("element",) else "binary"
            nodes.append([tag, node | {"operator": operator, "type": type_name}])
        yield [*nodes, ["select", {"columns": [len(nodes) - 1]}]]


@pytest.mark.parametrize(
    "type_name", ["Integer", *(case_of(name, is_long=True) for name in ("String", "JSON"))]
)
def test_each_operator_on_itself(type_name: str) -> None:
    """A database's compiler may write an operand more than once: SQLite has no XOR, MySQL no NULL in its JSON."""
    assert [
        name for name in sorted(INFIX | PREFIXED) if not all(map(is_bearable, chains(name, type_name)))
    ] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.exhaustive if part else ()) for part in range(PARTS)]
)
def test_each_kind_in_each_other(part: int) -> None:
    pairs = [(outer, inner) for outer in FRAMES.values() for inner in FRAMES.values()]
    assert unbearable(pairs[part::PARTS], 20) == []


def test_conversions_of_conversions() -> None:
    """SQLAlchemy takes twice as long for each: forty would never end."""
    value: Any = literal(1)
    for depth in range(1, 41):
        value = cast(value, Integer)
        if depth > MOST_CONVERSIONS:
            with limited(SECONDS), pytest.raises(NotFreezableError):
                freeze(select(value), Registry([]))
        with limited(SECONDS):
            assert freeze(select(value.label("x")), Registry([]))
