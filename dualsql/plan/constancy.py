"""Tell what gives the same value whenever it is asked; the rule: an order that moves by itself is no order.

Only what databases are known to have under these names is looked for: a function of the operator's own that throws
dice is not recognized.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.sql.elements import BindParameter, Cast
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import iterate

_RANDOM = frozenset(
    """gen_random_uuid newid nextval rand random random_normal randomblob uuid uuid_generate_v1
    uuid_generate_v4 uuid_short uuidv4 uuidv7""".split()
)
_CLOCKS = frozenset(
    """clock_timestamp curdate current_date current_time current_timestamp curtime getdate localtime
    localtimestamp now statement_timestamp sysdate timeofday transaction_timestamp unix_timestamp
    utc_date utc_time utc_timestamp""".split()
)
# Clocks when they get no more arguments than this, or are told "now".
_CLOCKS_AT_TIMES = {
    "age": 1,
    "date": 0,
    "datetime": 0,
    "julianday": 0,
    "strftime": 1,
    "time": 0,
    "unixepoch": 0,
}
_NOW = frozenset({"now", "today", "tomorrow", "yesterday"})


def is_random(element: Any) -> bool:
    """Whether two readings of the same row may differ."""
    return any(_name_of(part) in _RANDOM for part in iterate(element))


def tells_time(element: Any) -> bool:
    """Whether the value depends on when it is asked for."""
    return any(_is_clock(part) for part in iterate(element))


def _is_clock(part: Any) -> bool:
    name = _name_of(part)
    if name in _CLOCKS:
        return True
    if name not in _CLOCKS_AT_TIMES and not isinstance(part, Cast):
        return False
    arguments = [part.clause] if isinstance(part, Cast) else list(part.clauses)
    return len(arguments) <= _CLOCKS_AT_TIMES.get(name, -1) or any(map(_says_now, arguments))


def _says_now(argument: Any) -> bool:
    return isinstance(argument, BindParameter) and str(argument.value).strip().lower() in _NOW


def _name_of(part: Any) -> str:
    return str(getattr(part, "name", "")).lower() if isinstance(part, FunctionElement) else ""
