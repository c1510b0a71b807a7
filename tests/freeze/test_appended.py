"""A filter that is added to a thawed statement applies to all of it, whatever a forger put beside it.

The oracle is SQLite itself: with `AND customers.id = -1` appended, no statement may return a row.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Select, and_, between, case, exists, func, not_, or_, select, tuple_, type_coerce
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import Boolean

from dualsql.errors import DualResponseError
from dualsql.freeze import freeze, thaw
from dualsql.freeze.document import unpack
from tests.freeze.hostile import ALL_KINDS, forged, mutate, replaced
from tests.freeze.judge import OPEN, SIZE
from tests.freeze.shop import customers, customers_

DIALECT = sqlite.dialect()
OPERATORS = """or_ and_ eq inv neg desc_op asc_op nulls_last_op comma_op between_op not_between_op exists distinct_op
    is_true is_false in_op not_in_op like_op is_ is_not concat_op add collate any_op from_ as_ filter_op null_op
    getitem regexp_match_op match_op""".split()
CUSTOM = [
    ["op", text, precedence, [True, True, True], None, "BASE"]
    for text in ("||", "OR", "=", "IS")
    for precedence in (0, 15)
]
_other = customers.alias("other")
_honest = select(customers_.id).where(
    or_(customers_.id > 0, customers_.name.like("a%"), not_(customers_.id == 1)),
    or_(and_(customers_.id == 1, customers_.name == "b"), between(customers_.id, 0, 9)),
    or_(tuple_(customers_.id, customers_.name).in_([(1, "a")]), case((customers_.id > 1, 1), else_=1) == 1),
    exists(select(_other.c.id).where(or_(_other.c.id == customers_.id, _other.c.id > 0))),
    type_coerce(or_(customers_.id > 0, customers_.id < 9), Boolean),
    func.coalesce(customers_.id.desc().element, 1).label("x") > 0,
    customers_.name.collate("NOCASE") != "zz",
    customers_.id.in_(select(_other.c.id).order_by(_other.c.id.desc())),
)


def _customers() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE customers (id INTEGER, name TEXT, parent_id INTEGER)")
    return connection


_NOBODY = _customers()


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = _customers()
    connection.executemany(
        "INSERT INTO customers VALUES (?, ?, ?)", [(1, "a", None), (2, "b", 1), (3, "abc", 1)]
    )
    connection.set_progress_handler(lambda: True, 2_000_000)
    yield connection
    connection.close()


def _rows(database: sqlite3.Connection, statement: Any) -> list[Any] | None:
    """The rows, or None for a statement that SQLAlchemy or SQLite rejects."""
    try:
        compiled = statement.compile(dialect=DIALECT, compile_kwargs={"literal_binds": True})
        return database.execute(str(compiled)).fetchall()
    except Exception:  # noqa: BLE001 - a forged statement may fail in any way; it must not return rows
        return None


def _forged_statement(body: Any) -> Any:
    try:
        return thaw(forged(body), OPEN)
    except DualResponseError:
        return None


def _attack(database: sqlite3.Connection, body: Any) -> bool:
    """Whether the forged statement runs; it may, but not past the appended filter."""
    statement = _forged_statement(body)
    if not isinstance(statement, Select):
        return False
    narrowed = statement.where(customers_.id == -1)
    actual = _rows(database, narrowed)
    # A count of no rows is a row.
    assert not actual or actual == _rows(_NOBODY, narrowed), str(statement)
    return bool(_rows(database, statement))


@pytest.fixture
def body() -> Any:
    return unpack(freeze(_honest, OPEN, dialect=DIALECT), SIZE)


def test_the_oracle_sees(database: sqlite3.Connection, body: Any) -> None:
    assert _attack(database, body)


@pytest.mark.long
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_no_operator_reaches_beyond(database: sqlite3.Connection, body: Any, step: int) -> None:
    ran = 0
    for number, (_tag, fields) in list(enumerate(body["nodes"]))[::step]:
        for key in ("operator", "modifier", "negate"):
            if key not in fields and key != "modifier":
                continue
            for operator in [*OPERATORS, *CUSTOM]:
                ran += _attack(database, replaced(body, ("nodes", number, 1, key), operator))
    assert ran * step > 50


@pytest.mark.long
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_no_kind_reaches_beyond(database: sqlite3.Connection, body: Any, step: int) -> None:
    """Every node, dressed as every kind, as the only condition and beside an OR."""
    tags = [
        "unary",
        "boolean",
        "chain",
        "list",
        "as boolean",
        "exists",
        "any",
        "label",
        "coerce",
        "grouping",
        "over",
    ]
    tags += [
        "filter",
        "within group",
        "aggregate order",
        "postgresql order",
        "elements",
        "tuple",
        "label reference",
    ]
    count = len(body["nodes"]) - 1
    where = body["nodes"][-1][1]["where"]
    for tag in tags:
        for number in range(0, count, step):
            for operator in ("or_", "inv", "exists", "is_true", "comma_op"):
                fields: dict[str, Any] = {
                    "element": number,
                    "of": number,
                    "target": number,
                    "operator": operator,
                }
                fields |= {
                    "clauses": [number, where[0]],
                    "order": where[1],
                    "arguments": number,
                    "type": "Boolean",
                }
                wanted = {k: v for k, v in fields.items() if k in _KNOWN[tag]}
                select_node = ["select", {**body["nodes"][-1][1], "where": [count]}]
                nodes = [*body["nodes"][:-1], [tag, wanted], select_node]
                assert _attack(database, {**body, "nodes": nodes}) is not None, tag


_KNOWN = {tag: set(kind.by_name) for tag, kind in ALL_KINDS.items()}


def _fuzz(database: sqlite3.Connection, body: Any, seed: int, count: int) -> int:
    rng = random.Random(seed)
    return sum(_attack(database, mutate(body, rng)) for _ in range(count))


@pytest.mark.long
def test_no_mutation_reaches_beyond(database: sqlite3.Connection, body: Any) -> None:
    assert _fuzz(database, body, seed=11, count=1_000) > 20


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_no_mutation_of_many_reaches_beyond(database: sqlite3.Connection, body: Any, seed: int) -> None:
    _fuzz(database, body, seed, count=10_000)
