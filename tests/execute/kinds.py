"""The kinds of engines that queries run on, and a query that is slow on each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import reduce

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from dualsql import DualResponseServer
from tests.schools import School

KINDS = ("sqlite", "postgresql", "mariadb", "duckdb", "sqlite in threads")

MakeServer = Callable[..., Awaitable[DualResponseServer]]

# Every way to choose nine schools: years of work, on any engine.
_copies = [aliased(School, name=f"slow_{number}") for number in range(9)]
_first, *_others = _copies
_sum = reduce(lambda left, right: left + right, (copy.id % 7 for copy in _others), _first.id % 7)
_joined = reduce(
    lambda found, copy: found.join(copy, copy.id != _first.id + 100), _others, select(func.sum(_sum))
)
SLOW = _joined.where(_sum != -1)
