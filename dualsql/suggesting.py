"""Refuse a name that nothing has; the rule: whoever misspelt it is told what it may have been."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from dualsql.errors import BadParameterError

_COMPARED = 80
"""Characters: comparing names costs the product of their lengths, and this one is the caller's."""


def refuse_unknown(given: Collection[str], known: Collection[str], what: str) -> None:
    """Raises BadParameterError, which guesses, for a name that is not known here."""
    unknown = next((name for name in given if name not in known), None)
    if unknown is None:
        return
    name = unknown[:_COMPARED]
    close = get_close_matches(name, known, n=1)
    allowed = f"Known here: {', '.join(known)}." if known else "None is accepted here."
    hint = f"Did you mean {close[0]!r}?" if close else allowed
    raise BadParameterError(f"Unknown {what} {name!r}.", hint=hint, details={"name": name, "known": [*known]})
