"""How freezing says no; the rule: `refuse` speaks to an engineer who writes, `malformed` tells a forger nothing."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from dualsql.errors import NotFreezableError, TamperedError

Value = TypeVar("Value")


class MalformedError(Exception):
    """A document says what no encoder of ours writes; `thaw` turns it into one TamperedError."""


def refuse(what: str, hint: str) -> NoReturn:
    """The statement holds `what`, which cannot be stored; `hint` says how to write it instead."""
    raise NotFreezableError(
        f"The statement cannot be stored: {what}.", hint=hint, details={"construct": what}
    )


def malformed(what: str) -> NoReturn:
    """The document is not one of ours; `what` goes to the log through the exception chain only."""
    raise MalformedError(what)


def changed() -> NoReturn:
    """The document is for tables or classes that are not, or no longer, what they were."""
    raise NotFreezableError(
        "The stored statement names tables or columns that have changed since.",
        hint="Run the query again to store it anew.",
    )


def tampered() -> TamperedError:
    """The one error for every malformed document."""
    return TamperedError("The stored document is not one that this server wrote.")


def expect(value: object, kind: type[Value]) -> Value:
    """`value`, if it is exactly of the JSON type `kind` (a bool is not an int here)."""
    if type(value) is not kind:
        malformed(f"{type(value).__name__} where {kind.__name__} is due")
    return value
