"""Hooks that are plain functions. Loaded with the first statement that such a hook may change."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import CompoundSelect, Select, TextualSelect

from dualsql.errors import ConfigurationError
from dualsql.freeze.document import Statement
from dualsql.tenancy.rules import Function, HookContext


def apply_functions(functions: Iterable[Function], statement: Statement, context: HookContext) -> Statement:
    """The statement after all functions; see `Policy.apply_functions`."""
    for function in functions:
        columns = len(statement.selected_columns)
        statement = function(statement, context)
        if not isinstance(statement, Select | CompoundSelect | TextualSelect):
            raise ConfigurationError(
                f"A hook must return a statement, and returned a {type(statement).__name__}.",
                hint="Use a function (not async) that returns the statement to run.",
            )
        # The columns were described before: with other columns, values would have wrong names.
        if len(statement.selected_columns) != columns:
            raise ConfigurationError(
                "A hook changed the columns of a statement.", hint="A hook may only remove rows."
            )
    return statement
