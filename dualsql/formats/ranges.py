"""PostgreSQL's ranges as text. Loaded with the first one."""

from __future__ import annotations

import re
from typing import Any

from dualsql.columns.exact import Unfit


def range_text(value: Any) -> str:
    """A range as text; in PostgreSQL's spelling if Python has no class for a bound."""
    bounds = (value.lower, value.upper)
    if not any(type(bound) is Unfit for bound in bounds):
        return str(value)
    return f"{value.bounds[0]}{_bound(bounds[0])},{_bound(bounds[1])}{value.bounds[1]}"


def _bound(value: Any) -> str:
    if value is None:
        return ""
    text = value.text if isinstance(value, Unfit) else str(value)
    text = _WHOLE_HOURS.sub("", text.replace("T", " "))
    return f'"{text}"' if " " in text else text


# A zone of whole hours is +02 in PostgreSQL, and +02:00 in Python.
_WHOLE_HOURS = re.compile("(?<=[+-][0-9]{2}):00(?= BC|$)")


def multirange(value: Any) -> Any:
    """The ranges of a multirange; in PostgreSQL's spelling if Python has no class for a bound."""
    is_odd = any(type(bound) is Unfit for one in value for bound in (one.lower, one.upper))
    return f"{{{','.join(map(range_text, value))}}}" if is_odd else value
