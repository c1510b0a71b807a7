"""How freezing says no; the rule: `refuse` speaks to an engineer who writes, `malformed` tells a forger nothing."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from dualsql.errors import NotFreezableError, TamperedError

Value = TypeVar("Value")


class MalformedError(Exception):
    """A document says what no encoder of ours writes; `thaw` turns it into one TamperedError."""


def refuse(what: str, hint: str, *, where: str | None = None) -> NoReturn:
    """The statement holds `what`, which cannot be stored; `hint` says how to write it instead."""
    error = NotFreezableError(
        f"The statement cannot be stored: {what}.", hint=hint, details={"construct": what}
    )
    raise error if where is None else located(error, where)


def located(error: NotFreezableError, where: str) -> NotFreezableError:
    """The error with the place in the statement, unless it has one."""
    if "where" not in error.details:
        error.details["where"] = where
        error.message = f"{error.message.removesuffix('.')}, in {where}."
    return error


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
