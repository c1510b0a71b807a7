"""Narrow every statement to its caller; the rule: at every execution, with the principal who asks now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dualsql.resource import Principal
from dualsql.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """For whom and on which source a statement is about to run."""

    principal: Principal | None
    source: str


Hook = Callable[[Statement, HookContext], Statement]
"""Given a thawed statement, the one to run in its place: the same columns, fewer rows."""
