"""JSON to a question. Unknown keys are refused, and sizes are checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from dualsql.errors import BadParameterError, LimitExceededError, refuse_unknown
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.comparisons import BUCKETS, OPERATORS
from dualsql.query.model import (
    AggregateColumn,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Group,
    Negation,
    QuerySort,
    StructuredQuery,
    names_of,
)
from dualsql_client.query import Function, Operator

MAXIMUM_DEPTH = 10
"""Levels of conditions inside conditions."""

MAXIMUM_CONDITIONS = 200
MAXIMUM_VALUES = 1_000
"""Values of one "in"."""

MAXIMUM_COLUMNS = 10_000
MAXIMUM_GROUPS = 8
MAXIMUM_MEASURES = 50
MAXIMUM_ORDER = 16
MAXIMUM_NAME = 256
"""Characters of a column's name."""

MAXIMUM_ALIAS = 63
"""Bytes of a name that a question gives: PostgreSQL cuts longer ones, and two would be one; MariaDB refuses them."""

KEYS = ("columns", "filters", "group_by", "aggregates", "having", "order_by")
"""The keys of a question."""

WINDOW_KEYS = ("limit", "offset")
"""Further keys of a refinement: which rows of the answer it keeps."""

Word = TypeVar("Word", bound=str)

_EXAMPLES = {
    "columns": '["name", "state"]',
    "filters": '[{"column": "state", "op": "eq", "value": "NJ"}]',
    "having": '[{"column": "count", "op": "gt", "value": 10}]',
    "group_by": '["state", {"column": "founded", "bucket": "year"}]',
    "aggregates": '[{"function": "sum", "column": "enrollment"}]',
    "order_by": '[{"column": "count", "order": "desc"}]',
}


def read_structured_query(values: Any) -> StructuredQuery:
    """The question that a JSON object is; see `dualsql_client.query.Question`.

    Raises:
        BadParameterError: it is malformed or contradicts itself. Columns are looked up later.
        LimitExceededError: it is too large.
    """
    if not isinstance(values, Mapping):
        raise BadParameterError(
            "A question is a JSON object.", hint=f'Such as {{"filters": {_EXAMPLES["filters"]}}}.'
        )
    refuse_unknown(values, (*KEYS, *WINDOW_KEYS), "key")
    given = {key: value for key, value in values.items() if value is not None}
    question = StructuredQuery(
        columns=_columns(given["columns"]) if "columns" in given else None,
        condition=_conditions(given, "filters"),
        groups=tuple(_group(part) for part in _listed(given, "group_by", MAXIMUM_GROUPS)),
        aggregates=tuple(_aggregate(part) for part in _listed(given, "aggregates", MAXIMUM_MEASURES)),
        having=_conditions(given, "having"),
        order=_order(_listed(given, "order_by", MAXIMUM_ORDER)),
        limit=_whole("limit", given["limit"]) if "limit" in given else None,
        offset=_whole("offset", given.get("offset", 0)),
    )
    _require_sense(question)
    return question


def _require_sense(question: StructuredQuery) -> None:
    names = names_of(question)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _malformed(
            f"Two columns of the answer are called {twice!r}.", "aggregates", 'Name one: "as": "other".'
        )
    if question.is_grouped and question.columns is not None:
        raise _malformed("columns are of rows, and these are groups.", "columns", "Leave columns out.")
    if question.having is not None and not question.is_grouped:
        raise _malformed("having is about groups, and there are none.", "having", "Use filters, or group_by.")


def _listed(given: Mapping[str, Any], key: str, most: int) -> Sequence[Any]:
    found = given.get(key, [])
    if not isinstance(found, list | tuple):
        raise _malformed(f"{key} is a list.", key)
    if len(found) > most:
        raise _too_many(key, most)
    return found


def _columns(value: Any) -> tuple[str, ...]:
    names = [_name(name, "columns") for name in _listed({"columns": value}, "columns", MAXIMUM_COLUMNS)]
    if not names or len(set(names)) != len(names):
        raise _malformed("columns takes names, one at least and each once.", "columns")
    return tuple(names)


def _conditions(given: Mapping[str, Any], key: str) -> Condition | None:
    value = given.get(key)
    if value is None or value == []:
        return None
    if isinstance(value, list | tuple):
        value = {"and": value}
    _require_bounded(value, key)
    return _condition(value, key)


def _require_bounded(value: Any, key: str) -> None:
    """Refuse too deep or too many conditions, without recursion."""
    pending, seen = [(value, 0)], 0
    while pending:
        part, depth = pending.pop()
        seen += 1
        if depth > MAXIMUM_DEPTH:
            raise LimitExceededError(
                f"{key} is nested deeper than {MAXIMUM_DEPTH}.",
                hint="Use fewer levels.",
                details={"name": key},
            )
        if seen > MAXIMUM_CONDITIONS:
            raise _too_many(key, MAXIMUM_CONDITIONS)
        if isinstance(part, Mapping):
            inner = [part[word] for word in ("and", "or", "not") if word in part]
            pending += [
                (one, depth + 1)
                for held in inner
                for one in (held if isinstance(held, list | tuple) else [held])
            ]


def _condition(value: Any, key: str) -> Condition:
    if not isinstance(value, Mapping):
        raise _malformed(f"A condition of {key} is an object.", key)
    if "not" in value:
        refuse_unknown(value, ("not",), "key beside not")
        return Negation(_condition(value["not"], key))
    for word, kind in (("and", AllOf), ("or", AnyOf)):
        if word in value:
            refuse_unknown(value, (word,), f"key beside {word}")
            return kind(_several(value[word], word, key))
    refuse_unknown(value, ("column", "op", "value"), f"key of {key}")
    return _comparison(value, key)


_SIGNS = {sign: name for name, known in OPERATORS.items() for sign in known.signs}
"""Operators as SQL writes them."""

_OPPOSITES = {word: name for name, known in OPERATORS.items() for word in known.opposites}


def _several(parts: Any, word: str, key: str) -> tuple[Condition, ...]:
    if not isinstance(parts, list | tuple) or not parts:
        raise _malformed(f'"{word}" takes a list of conditions, one at least.', key)
    return tuple(_condition(part, key) for part in parts)


def _comparison(value: Mapping[str, Any], key: str) -> Comparison:
    given = value.get("op", "eq")
    if isinstance(given, str):
        if given in _OPPOSITES and value.get("value", True) in (True, None):
            value, given = {**value, "value": False}, _OPPOSITES[given]
        given = _SIGNS.get(given, given)
    operator = _word(given, tuple(OPERATORS), "op")
    column = _name(value.get("column"), key)
    takes = OPERATORS[operator].takes
    if takes == "flag":
        flag = True if value.get("value") is None else value["value"]
        if not isinstance(flag, bool):
            raise _malformed(f"The value of {operator} is true or false.", key)
        return Comparison(column, operator, flag)
    if value.get("value") is None:
        raise _malformed(f"{operator} needs a value.", key, 'Use {"op": "is_null"} for rows without one.')
    if takes in {"several", "two"}:
        return Comparison(column, operator, _values(value["value"], operator, key))
    return Comparison(column, operator, _scalar(value["value"], operator, key))


def _values(found: Any, operator: Operator, key: str) -> tuple[Any, ...]:
    if not isinstance(found, list | tuple) or not found:
        raise _malformed(f"{operator} takes a list of values.", key)
    if OPERATORS[operator].takes == "two" and len(found) != 2:
        raise _malformed(f"{operator} takes two values, the lower one first; both are included.", key)
    if len(found) > MAXIMUM_VALUES:
        raise _too_many(operator, MAXIMUM_VALUES)
    return tuple(_scalar(value, operator, key) for value in found)


def _scalar(value: Any, operator: str, key: str) -> Any:
    if not isinstance(value, str | int | float):
        raise _malformed(f"{operator} takes a text, a number, true or false.", key)
    return value


def _group(value: Any) -> Group:
    if isinstance(value, str):
        value = {"column": value}
    if not isinstance(value, Mapping):
        raise _malformed("A group is a column's name, or an object.", "group_by")
    refuse_unknown(value, ("column", "bucket", "as"), "key of group_by")
    column = _name(value.get("column"), "group_by")
    bucket = None if value.get("bucket") is None else _word(value["bucket"], tuple(BUCKETS), "bucket")
    default = column if bucket is None else f"{column}_{bucket}"
    return Group(_alias(value, default, "group_by"), column, bucket)


def _aggregate(value: Any) -> AggregateColumn:
    if isinstance(value, str):
        value = {"function": value}
    if not isinstance(value, Mapping):
        raise _malformed("An aggregate is an object.", "aggregates")
    refuse_unknown(value, ("function", "column", "fraction", "as"), "key of aggregates")
    function = _word(value.get("function"), tuple(AGGREGATES), "function")
    column = None if value.get("column") is None else _name(value["column"], "aggregates")
    if column is None and AGGREGATES[function].of is not None:
        raise _malformed(f"{function} needs a column.", "aggregates")
    fraction = _fraction(value, function)
    default = function if column is None else f"{function}_{column}"
    if fraction is not None:
        default = f"p{fraction * 100:g}_{column}"
    return AggregateColumn(_alias(value, default, "aggregates"), function, column, fraction)


def _fraction(value: Mapping[str, Any], function: Function) -> float | None:
    given = value.get("fraction")
    if not AGGREGATES[function].takes_fraction:
        if given is not None:
            raise _malformed(f"{function} has no fraction.", "aggregates", "percentile has one.")
        return None
    if (
        isinstance(given, bool)
        or not isinstance(given, int | float)
        or not 0 <= given <= 1
        or math.isnan(given)
    ):
        raise _malformed(
            f"A {function} needs a fraction from 0 to 1.", "aggregates", 'Write "fraction": 0.9.'
        )
    return float(given)


def _order(keys: Sequence[Any]) -> tuple[QuerySort, ...]:
    found = tuple(_order_key(key) for key in keys)
    if len({key.column for key in found}) != len(found):
        raise _malformed("A column appears twice in order_by.", "order_by")
    return found


def _order_key(value: Any) -> QuerySort:
    if isinstance(value, str):
        value = {"column": value}
    if not isinstance(value, Mapping):
        raise _malformed("A key of order_by is a column's name, or an object.", "order_by")
    refuse_unknown(value, ("column", "order"), "key of order_by")
    direction = _word(value.get("order", "asc"), ("asc", "desc"), "order")
    return QuerySort(_name(value.get("column"), "order_by"), direction == "desc")


def _name(value: Any, key: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAXIMUM_NAME:
        raise _malformed(f"A column's name in {key} has 1 to {MAXIMUM_NAME} characters.", key)
    return value


def _alias(value: Mapping[str, Any], default: str, key: str) -> str:
    name = value.get("as")
    if name is None:
        # A column that is grouped by keeps the name it has, however long.
        is_made = default != value.get("column")
        return (
            default.encode(errors="replace")[:MAXIMUM_ALIAS].decode(errors="ignore") if is_made else default
        )
    if len(_name(name, key).encode(errors="replace")) > MAXIMUM_ALIAS:
        raise _malformed(f"A name given by as has {MAXIMUM_ALIAS} bytes at most.", key)
    return str(name)


def _word(value: Any, known: Sequence[Word], what: str) -> Word:
    for word in known:
        if value == word:
            return word
    if isinstance(value, str):
        refuse_unknown([value], known, what)
    raise BadParameterError(
        f"{what} is one of: {', '.join(known)}.", details={"name": what, "known": [*known]}
    )


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise BadParameterError(f"{name} is a whole number, not negative.", details={"name": name})
    return value


def _malformed(message: str, key: str, hint: str = "") -> BadParameterError:
    return BadParameterError(
        message, hint=hint or f'Such as "{key}": {_EXAMPLES[key]}.', details={"name": key}
    )


def _too_many(key: str, most: int) -> LimitExceededError:
    return LimitExceededError(
        f"{key} holds more than {most}.", hint="Ask for less at once.", details={"name": key, "maximum": most}
    )
