"""How a text was read: notes of the statement that it became."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from dualsql.resource import NOTES_OPTION, notes_of

StatementT = TypeVar("StatementT")


def with_notes(statement: StatementT, notes: Sequence[str]) -> StatementT:
    """The statement with these notes in place of its own."""
    found: Any = statement
    if tuple(notes) == notes_of(statement):
        return statement
    noted: StatementT = found.execution_options(**{NOTES_OPTION: tuple(notes)})
    return noted
