"""A short document is never a long statement: everything that multiplies is counted before SQLAlchemy sees it."""

from __future__ import annotations

import time
import zlib
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, select
from sqlalchemy.dialects import oracle, sqlite

from dualsql.errors import DualResponseError, TamperedError
from dualsql.freeze import Registry, thaw
from dualsql.freeze.codec import Encoder
from dualsql.freeze.document import MAGIC, VERSION
from tests.freeze.hostile import forged
from tests.freeze.judge import OPEN, SIZE
from tests.quick import case_of

SECONDS = 10.0  # of the processor, on a busy machine; measured: 1.5

TABLE = ["table", {"name": "customers"}]
ID = ["column", {"of": 0, "key": "id"}]
X = ["label", {"name": "x", "of": 1, "type": "Integer"}]


def doubled(count: int) -> list[Any]:
    nodes: list[Any] = [TABLE, ID]
    nodes += [
        ["binary", {"left": number, "right": number, "operator": "add", "type": "Integer"}]
        for number in range(1, count + 1)
    ]
    return [*nodes, ["select", {"columns": [count + 1]}]]


def doubled_in_ctes(count: int) -> list[Any]:
    nodes: list[Any] = [TABLE, ID]
    column = 1
    for number in range(count):
        start = len(nodes)
        for step in range(12):
            last = column if step == 0 else start + step - 1
            nodes.append(["binary", {"left": last, "right": last, "operator": "add", "type": "Integer"}])
        nodes += [
            ["label", {"name": "x", "of": start + 11, "type": "Integer"}],
            ["select", {"columns": [start + 12]}],
            ["cte", {"name": f"c{number}", "of": start + 13}],
            ["column", {"of": start + 14, "key": "x"}],
        ]
        column = start + 15
    return [*nodes, ["select", {"columns": [column]}]]


def doubled_in_from(count: int) -> list[Any]:
    """Each subquery stands twice in the FROM of the next, for no other reason than that a column names it."""
    nodes: list[Any] = [TABLE, ID, X, ["select", {"columns": [2]}]]
    for number in range(count):
        start = len(nodes)
        nodes += [
            ["subquery", {"name": f"a{number}", "of": start - 1}],
            ["column", {"of": start, "key": "x"}],
            ["subquery", {"name": f"b{number}", "of": start - 1}],
            ["column", {"of": start + 2, "key": "x"}],
            ["binary", {"left": start + 1, "right": start + 3, "operator": "add", "type": "Integer"}],
            ["label", {"name": "x", "of": start + 4, "type": "Integer"}],
            ["select", {"columns": [start + 5]}],
        ]
    return nodes


def nested(levels: int, width: int) -> list[Any]:
    columns = [[f"c{number}", "Integer"] for number in range(width)]
    nodes: list[Any] = [
        ["values", {"columns": columns, "rows": [[[1] * width]], "name": "v"}],
        ["select", {"columns": [0]}],
    ]
    for number in range(levels):
        nodes += [
            ["subquery", {"name": f"s{number}", "of": len(nodes) - 1}],
            ["select", {"columns": [len(nodes)]}],
        ]
    return nodes


def rows(count: int) -> list[Any]:
    return [
        ["values", {"columns": [["a", "Integer"]], "rows": [[[1]] * count], "name": "v"}],
        ["select", {"columns": [0]}],
    ]


def aliases(count: int) -> list[Any]:
    nodes: list[Any] = [TABLE, *(["alias", {"name": f"a{number}", "of": 0}] for number in range(count))]
    return [*nodes, ["select", {"columns": list(range(1, count + 1))}]]


def negated(count: int) -> list[Any]:
    nodes: list[Any] = [TABLE, ID]
    nodes += [["unary", {"element": number, "operator": "neg"}] for number in range(1, count + 1)]
    return [*nodes, ["select", {"columns": [count + 1]}]]


def ctes(count: int) -> list[Any]:
    nodes: list[Any] = [TABLE, ID, X, ["select", {"columns": [2]}]]
    for number in range(count):
        start = len(nodes)
        nodes += [
            ["cte", {"name": f"c{number}", "of": start - 1}],
            ["column", {"of": start, "key": "x"}],
            ["select", {"columns": [start + 1]}],
        ]
    return nodes


def _document(nodes: list[Any], clones: list[Any] | None = None) -> bytes:
    return forged({"nodes": nodes, "clones": clones or [], "text": False})


BOMBS: dict[str, list[Any]] = {
    "terms": doubled(60),
    "terms just too many": doubled(16),
    "terms in CTEs": doubled_in_ctes(60),
    "subqueries in FROM": doubled_in_from(60),
    "wide and deep": nested(140, 1_000),
    "rows": rows(200_000),
    "aliases": aliases(25_000),
    "negations": negated(20_000),
    "a chain of CTEs": ctes(2_000),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", [case_of(name, is_long=name == "aliases") for name in BOMBS])
def test_a_bomb_is_refused(name: str) -> None:
    document = _document(BOMBS[name])
    started = time.process_time()
    with pytest.raises(TamperedError):
        thaw(document, OPEN)
    assert time.process_time() - started < SECONDS


WORST: dict[str, list[Any]] = {
    "terms": doubled(14),
    "subqueries in FROM": doubled_in_from(12),
    "wide": nested(50, 1_000),
    "rows": rows(55_000),
    "aliases": aliases(8_000),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    "name", [case_of(name, is_long=name in ("wide", "rows", "aliases")) for name in WORST]
)
def test_the_worst_that_is_accepted_is_bearable(name: str) -> None:
    started = time.process_time()
    statement = thaw(_document(WORST[name]), OPEN)
    for dialect in (sqlite.dialect(), oracle.dialect()):
        try:
            text = str(statement.compile(dialect=dialect))
        except RecursionError:
            continue
        assert len(text) < 5_000_000
    assert time.process_time() - started < SECONDS


@pytest.mark.parametrize(
    "clones",
    [[[2, 3], [3, 2]], [[2, 3], [3, 4], [4, 2]], [[2, 3], [4, 3]], [[2, 2]]],
)
def test_lineage_that_never_ends_is_refused(clones: list[Any]) -> None:
    nodes = [TABLE, ID, *[["alias", {"name": "a", "of": 0}]] * 60]
    with pytest.raises(TamperedError):
        thaw(_document([*nodes, ["select", {"columns": [1]}]], clones), OPEN)


def test_a_long_descent_is_refused() -> None:
    nodes = [TABLE, ID, *[["alias", {"name": "a", "of": 0}]] * 60]
    clones = [[number, number + 1] for number in range(2, 60)]
    with pytest.raises(TamperedError):
        thaw(_document([*nodes, ["select", {"columns": [1]}]], clones), OPEN)


def test_a_source_is_no_clone_of_another_name() -> None:
    """It took the other's place in FROM, and SQLAlchemy's cache key is the same as without it."""
    nodes = [TABLE, ID, *(["alias", {"name": name, "of": 0}] for name in "ab"), ["select", {"columns": [1]}]]
    with pytest.raises(TamperedError):
        thaw(_document(nodes, [[2, 3]]), OPEN)


def test_a_bomb_is_not_inflated() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    started = time.process_time()
    for claimed in (10, SIZE, SIZE + 1, 2**32 - 1):
        with pytest.raises(TamperedError):
            thaw(bytes([MAGIC, VERSION]) + claimed.to_bytes(4, "big") + bomb, OPEN)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "value",
    [["int", "9" * 5_000], ["decimal", "1e999999999"], ["decimal", "1e-999999999"], ["uuid", "1" * 10_000]],
)
def test_a_number_that_would_fill_the_memory_is_refused(value: Any) -> None:
    bind = ["bind", {"name": "p", "value": value, "type": "Integer"}]
    with pytest.raises(TamperedError):
        thaw(_document([bind, ["select", {"columns": [0]}]]), OPEN)


@pytest.mark.parametrize("depth", [40, 400, 1_000])
def test_values_and_types_of_endless_depth_are_refused(depth: int) -> None:
    value: Any = 1
    kind: Any = "Integer"
    for _ in range(depth):
        value, kind = ["list", [value]], ["ARRAY", {"item_type": kind}]
    with pytest.raises(DualResponseError):
        thaw(_document([["bind", {"name": "p", "value": value}], ["select", {"columns": [0]}]]), OPEN)
    if depth > 100:
        with pytest.raises(DualResponseError):
            thaw(_document([["bind", {"name": "p", "type": kind}], ["select", {"columns": [0]}]]), OPEN)


def test_ctes_that_read_each_other_twice_are_written_once() -> None:
    table = Table("bombs", MetaData(), Column("id", Integer, primary_key=True))
    cte = select(table.c.id).cte("c0")
    for number in range(1, 60):
        left, right = cte.alias(), cte.alias()
        cte = select(left.c.id).join(right, left.c.id == right.c.id).cte(f"c{number}")
    # Before, each of them was attempted by each of its readers: 2 to the power of 60 times.
    assert len(Encoder(Registry(table.metadata)).encode(select(cte.c.id))) < 2_000
