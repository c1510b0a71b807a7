"""Samples other than the first rows of a Select: the same rows at every read, or an error.

tail       in the reverse of the total order
spread     at even ranks of the total order
scattered  in the order of a hash of the keys
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select, types

from dualsql.columns.result import with_criteria_of
from dualsql.errors import NoTotalOrderError
from dualsql.freeze.document import AnySelect
from dualsql.plan.keys import Key, clauses_of
from dualsql.plan.keyset import carried_around
from dualsql.plan.page import Ordered
from dualsql.plan.shape import is_distinct, reads_row_by_row, unlabelled

_PRIME = 2**31 - 1
"""Products of two smaller numbers fit into 64 bits, and taking the fifth power modulo it mixes up no two of them."""


def tail(rows: Ordered, size: int) -> AnySelect:
    """The last rows, the very last one first.

    Raises:
        NoTotalOrderError: the rows have no total order.
    """
    statement, keys = _with_keys(rows)
    clauses = clauses_of([key.reversed() for key in keys], rows.capabilities)
    return statement.order_by(*clauses).limit(size)


def spread(rows: Ordered, ranks: Sequence[int]) -> AnySelect:
    """The rows at these ranks, counted from 1, in order.

    Raises:
        NoTotalOrderError: the rows have no total order.
    """
    statement, keys = _with_keys(rows)
    rows_by_rank = statement.add_columns(_rank(keys, rows).label("dualsql_rank")).subquery("ranked")
    *columns, rank = rows_by_rank.c
    at_ranks = select(*columns).where(rank.in_(ranks)).order_by(rank)
    return with_criteria_of(rows.shape.select, at_ranks)


def scattered(rows: Ordered, size: int, seed: int) -> AnySelect:
    """Pseudo-random rows; the same ones for the same seed while the data is unchanged.

    Raises:
        NoTotalOrderError: the rows have no stable keys.
    """
    statement, keys = _with_keys(rows)
    clauses = clauses_of(keys, rows.capabilities)
    return statement.order_by(_hash(keys, rows, seed), *clauses).limit(size)


def even_ranks(total: int, size: int) -> list[int]:
    """`size` ranks from the first to the last of `total` rows, as evenly as whole numbers are."""
    size = min(size, total)
    return [1 + number * (total - 1) // max(size - 1, 1) for number in range(size)]


def _with_keys(rows: Ordered) -> tuple[AnySelect, Sequence[Key]]:
    """The statement without its order, and keys for a new order."""
    if rows.order.obstacle:
        raise NoTotalOrderError(
            f"Only the first rows can be sampled. {rows.order.obstacle}",
            hint='Use sample="head", or order the query by columns of its result.',
        )
    keys = [key._replace(author_clause=None) for key in rows.order.keys]
    statement = rows.shape.select
    if rows.shape.is_cut or is_distinct(statement) or not reads_row_by_row(statement):
        return carried_around(rows, keys)
    return statement.order_by(None), keys


def _rank(keys: Sequence[Key], rows: Ordered) -> ColumnElement[Any]:
    clauses = clauses_of(keys, rows.capabilities)
    return func.row_number().over(order_by=clauses)


def _hash(keys: Sequence[Key], rows: Ordered, seed: int) -> ColumnElement[Any]:
    # Databases hash differently, so a sample differs between databases.
    scramble = rows.capabilities.query.scramble
    values = [unlabelled(key.expression) for key in keys]
    if scramble is not None:
        return scramble(values, seed)
    is_number = len(values) == 1 and isinstance(rows.shape.meanings.of(values[0].type).stored, types.Integer)
    return _mixed(values[0] if is_number else _rank(keys, rows), seed)


def _mixed(number: ColumnElement[Any], seed: int) -> ColumnElement[Any]:
    """A hash of whole numbers for a database without hash functions: arithmetic modulo a prime, within 64 bits."""
    factor, shift = 48_271 + 2 * (seed % 1_000_003), (seed * 69_621 + 12_345) % _PRIME
    # SQL's % keeps the sign of its left side, hence the second one.
    start = ((number % _PRIME + _PRIME) % _PRIME * factor + shift) % _PRIME
    square = start * start % _PRIME
    fifth = square * square % _PRIME * start % _PRIME
    return (fifth * 16_807 + shift) % _PRIME
