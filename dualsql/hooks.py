"""Narrow every statement to its caller; the rule: at every execution, with the principal who asks now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import CompoundSelect, Select, TextualSelect

from dualsql.errors import ConfigurationError
from dualsql.resource import Principal
from dualsql.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """For whom and on which source a statement is about to run."""

    principal: Principal | None
    source: str


Hook = Callable[[Statement, HookContext], Statement]
"""Given a thawed statement, the one to run in its place: the same columns, fewer rows.

The statement may be a set operation or text().columns(), which have no .where(): narrow
`select(statement.subquery())` there, or refuse. A hook that raises stops the request.
"""


def narrowed(statement: Statement, hooks: Sequence[Hook], context: HookContext) -> Statement:
    """The statement after all hooks.

    Raises:
        ConfigurationError: a hook returned something else than a statement of the same columns.
    """
    for hook in hooks:
        columns = len(statement.selected_columns)
        statement = hook(statement, context)
        if not isinstance(statement, Select | CompoundSelect | TextualSelect):
            raise ConfigurationError(
                f"A hook returned a {type(statement).__name__}.",
                hint="A hook is a plain function that returns the statement to run.",
            )
        if len(statement.selected_columns) != columns:
            raise ConfigurationError(
                "A hook changed the columns of a statement.", hint="A hook may only take rows away."
            )
    return statement
