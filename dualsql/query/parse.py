"""Reads queries from JSON. Unknown keys are refused, and sizes are checked before anything is read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dualsql.columns.exact import read_document
from dualsql.errors import BadParameterError, LimitExceededError, refuse_unknown
from dualsql.http.parameters import MAXIMUM_COLUMNS, json_object
from dualsql.query.aggregates import AGGREGATES
from dualsql.query.model import (
    BUCKETS,
    MAXIMUM_ALIAS,
    NOT_HERE,
    OPERATORS,
    AggregateColumn,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Group,
    Negation,
    QuerySort,
    StructuredQuery,
    aggregate_name,
    answer_names,
    group_name,
)
from dualsql_client.addresses import is_web, resource_id, uri_of_url
from dualsql_client.identifiers import is_checked
from dualsql_client.wire_requests import Operator

MAXIMUM_DEPTH = 10
"""Levels of nested conditions."""

MAXIMUM_CONDITIONS = 200
MAXIMUM_VALUES = 1_000
"""Values of one "in"."""

MAXIMUM_GROUPS = 8
MAXIMUM_MEASURES = 50
MAXIMUM_ORDER = 16
MAXIMUM_NAME = 256
"""Characters of a column's name."""

MAXIMUM_CALL = 400
"""Characters of an aggregate in the form of a call."""

_LONGEST_EXCERPT = 60
_LONGEST_JSON = 64 * 1024

KEYS = ("columns", "filters", "group_by", "aggregates", "having", "order_by")
"""The keys of a query."""

WINDOW_KEYS = ("limit", "offset")
"""Further keys of a refinement: the rows of the answer to keep."""

Word = TypeVar("Word", bound=str)

_EXAMPLES = {
    "columns": '["name", "state"]',
    "filters": '[{"column": "state", "op": "eq", "value": "NJ"}]',
    "having": '[{"column": "count", "op": "gt", "value": 10}]',
    "group_by": '["state", {"column": "founded", "bucket": "year"}]',
    "aggregates": '[{"function": "sum", "column": "enrollment"}]',
    "order_by": '[{"column": "count", "order": "desc"}]',
}
_LISTS = {
    "several": 'Such as {"column": "state", "op": "in", "value": ["NJ", "NY"]}.',
    "two": 'Such as {"column": "size", "op": "between", "value": [10, 20]}.',
}


def read_structured_query(values: Any) -> StructuredQuery:
    """Read a query from a JSON object; see `dualsql_client.query.Question`.

    Raises:
        BadParameterError: the object is malformed or contradicts itself. Columns are looked up later.
        LimitExceededError: the object is too large.
    """
    if not isinstance(values, Mapping):
        raise BadParameterError(
            "A question is a JSON object.", hint=f'Such as {{"filters": {_EXAMPLES["filters"]}}}.'
        )
    refuse_unknown(values, (*KEYS, *WINDOW_KEYS), "key")
    parameters = {key: value for key, value in values.items() if value is not None}
    question = StructuredQuery(
        columns=_columns(parameters["columns"]) if "columns" in parameters else None,
        condition=_conditions(parameters, "filters"),
        groups=tuple(_group(part) for part in _items(parameters, "group_by", MAXIMUM_GROUPS)),
        aggregates=tuple(_aggregate(part) for part in _items(parameters, "aggregates", MAXIMUM_MEASURES)),
        having=_conditions(parameters, "having"),
        order=_order(_items(parameters, "order_by", MAXIMUM_ORDER)),
        limit=_whole("limit", parameters["limit"]) if "limit" in parameters else None,
        offset=_whole("offset", parameters.get("offset", 0)),
    )
    if question.is_grouped:
        names = answer_names(question)
        keys = (replace(key, column=_default_name(key.column, names)) for key in question.order)
        question = replace(question, order=tuple(keys))
    _require_unique_names(question)
    if question.is_grouped and question.columns is not None:
        raise _malformed("columns are of rows, and these are groups.", "columns", "Leave columns out.")
    if question.having is not None and not question.is_grouped:
        raise _malformed("having is about groups, and there are none.", "having", "Use filters, or group_by.")
    return question


def _require_unique_names(question: StructuredQuery) -> None:
    """Refuse an answer with two columns of one name.

    Some databases do not tell names apart by their case. The name of a group is one of the result, which may be so.
    """
    names = answer_names(question)
    uses, uses_in_any_case = Counter(names), Counter(name.casefold() for name in names)
    aggregates = {aggregate.name for aggregate in question.aggregates}
    for name in names:
        if uses[name] > 1 or (name in aggregates and uses_in_any_case[name.casefold()] > 1):
            raise _malformed(
                f"Two columns of the answer are called {name!r}.", "aggregates", 'Name one: "as": "other".'
            )


def _items(parameters: Mapping[str, Any], key: str, most: int) -> Sequence[Any]:
    items = _decode(parameters.get(key, []))
    if isinstance(items, str | Mapping):
        items = [items]  # models often write a single one without a list
    if not isinstance(items, list | tuple):
        raise _malformed(f"{key} is a list.", key)
    if len(items) > most:
        raise _too_many(key, most)
    return items


def _decode(value: Any) -> Any:
    """Decode a list or object that a model wrote as a JSON string. Return any other value unchanged."""
    if not isinstance(value, str) or value[:1] not in {"[", "{"} or len(value) > _LONGEST_JSON:
        return value
    try:
        decoded = read_document(value)
    # json's decoder recurses: a text of "[[[[..." is deeper than Python's stack.
    except (ValueError, RecursionError):
        return value
    return decoded if isinstance(decoded, list | dict) else value


_LONG_NUMBER = re.compile(rb"[0-9.]{16}")
"""A part of each number that may differ from the double that is read for it."""


def exact_object(body: bytes) -> Mapping[str, Any]:
    """Parse a body that must be a JSON object. Numbers keep their digits: orjson reads 2**100 for 2**100 + 1."""
    values = json_object(body)
    if not _LONG_NUMBER.search(body):
        return values
    try:
        exact: Mapping[str, Any] = read_document(body)
    except RecursionError:  # deeper than any query
        return values
    return exact


def _columns(value: Any) -> tuple[str, ...]:
    names = [_name(name, "columns") for name in _items({"columns": value}, "columns", MAXIMUM_COLUMNS)]
    if not names or len(set(names)) != len(names):
        raise _malformed("columns takes names, one at least and each once.", "columns")
    return tuple(names)


def _conditions(parameters: Mapping[str, Any], key: str) -> Condition | None:
    value = _decode(parameters.get(key))
    if value is None or value in ([], {}):
        return None
    if isinstance(value, list | tuple):
        value = {"and": value}
    _require_bounded(value, key)
    return _condition(value, key)


def _require_bounded(value: Any, key: str) -> None:
    """Refuse too deep or too many conditions, without recursion."""
    pending, number = [(value, 0)], 0
    while pending:
        part, depth = pending.pop()
        number += 1
        if depth > MAXIMUM_DEPTH:
            raise LimitExceededError(
                f"{key} is nested deeper than {MAXIMUM_DEPTH}.",
                hint="Use fewer levels.",
                details={"name": key},
            )
        if number > MAXIMUM_CONDITIONS:
            raise _too_many(key, MAXIMUM_CONDITIONS)
        if isinstance(part, Mapping):
            inner = [part[word] for word in ("and", "or", "not") if word in part]
            pending += [
                (one, depth + 1)
                for item in inner
                for one in (item if isinstance(item, list | tuple) else [item])
            ]


def _condition(value: Any, key: str) -> Condition:
    if not isinstance(value, Mapping):
        raise _malformed(f"A condition of {key} is an object.", key)
    value = _with_names(value, _CONDITION_KEYS)
    if "not" in value:
        refuse_unknown(value, ("not",), "key beside not")
        return Negation(_condition(value["not"], key))
    for word, kind in (("and", AllOf), ("or", AnyOf)):
        if word in value:
            refuse_unknown(value, (word,), f"key beside {word}")
            return kind(_several(value[word], word, key))
    if len(value) == 1 and not {"column", "op", "value"} & set(value):
        ((column, operand),) = value.items()
        if isinstance(column, str) and isinstance(operand, str | int | float):
            value = operand if len(str(operand)) <= _LONGEST_EXCERPT else "..."
            rewrite = {"column": column[:_LONGEST_EXCERPT], "op": "eq", "value": value}
            raise _malformed(
                f"{column[:_LONGEST_EXCERPT]!r} is no key of {key}.", key, f"Write {json.dumps(rewrite)}."
            )
    refuse_unknown(value, ("column", "op", "value"), f"key of {key}")
    return _comparison(value, key)


_CONDITION_KEYS = {"field": "column", "operator": "op"}
_GROUP_KEYS = {"field": "column", "alias": "as"}
_AGGREGATE_KEYS = {**_GROUP_KEYS, "func": "function", "fn": "function", "op": "function"}
_ORDER_KEYS = {"field": "column", "direction": "order", "dir": "order"}
"""Other accepted names of keys, used if the key itself is missing."""


def _with_names(value: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    return (
        {names[key] if names.get(key, key) not in value else key: part for key, part in value.items()}
        if (any(key in names for key in value))
        else value
    )


_SIGNS: Mapping[str, Operator] = {
    sign: name for name, operator in OPERATORS.items() for sign in operator.signs
}
_OPPOSITES: Mapping[str, Operator] = {
    word: name for name, operator in OPERATORS.items() for word in operator.opposites
}
_NEGATIONS: Mapping[str, Operator] = {
    word: name for name, operator in OPERATORS.items() for word in operator.negations
}
_FUNCTIONS: Mapping[str, str] = {
    sign: name for name, aggregate in AGGREGATES.items() for sign in aggregate.signs
}
"""Other accepted spellings of names, from the tables of operators and aggregates."""


def _normalize(word: Any) -> Any:
    """ "IS NOT NULL" as is_not_null."""
    return "_".join(word.lower().replace("-", " ").split()) if isinstance(word, str) else word


def _look_up(table: Mapping[str, Any], word: Any) -> Any:
    """The entry of the table for a word, or else the value itself; JSON's lists and objects are in no table."""
    return table.get(word, word) if isinstance(word, str) else word


def _several(parts: Any, word: str, key: str) -> tuple[Condition, ...]:
    if not isinstance(parts, list | tuple) or not parts:
        raise _malformed(f'"{word}" takes a list of conditions, one at least.', key)
    return tuple(_condition(part, key) for part in parts)


def _comparison(value: Mapping[str, Any], key: str) -> Comparison | Negation:
    word = _normalize(value.get("op", "eq"))
    if not isinstance(word, str):
        return _read_comparison({**value, "op": word}, key)
    if word in _NEGATIONS:
        return Negation(_read_comparison({**value, "op": _NEGATIONS[word]}, key))
    # is_not_null is "is_null with false". With false of its own it is refused, as a word that is not known.
    if word in _OPPOSITES and value.get("value", True) in (True, None):
        value, word = {**value, "value": False}, _OPPOSITES[word]
    return _read_comparison({**value, "op": _SIGNS.get(word, word)}, key)


def _read_comparison(value: Mapping[str, Any], key: str) -> Comparison:
    operator = _word(value["op"], tuple(OPERATORS), "op", instead=NOT_HERE)
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


def _values(operands: Any, operator: Operator, key: str) -> tuple[Any, ...]:
    if not isinstance(operands, list | tuple) or not operands:
        raise _malformed(f"{operator} takes a list of values.", key, _LISTS[OPERATORS[operator].takes])
    if OPERATORS[operator].takes == "two" and len(operands) != 2:
        raise _malformed(
            f"{operator} takes two values, the lower one first; both are included.", key, _LISTS["two"]
        )
    if len(operands) > MAXIMUM_VALUES:
        raise _too_many(operator, MAXIMUM_VALUES)
    return tuple(_scalar(value, operator, key) for value in operands)


def _scalar(value: Any, operator: str, key: str) -> Any:
    if not isinstance(value, str | int | float):
        raise _malformed(f"{operator} takes a text, a number, true or false.", key)
    return value


def _group(value: Any) -> Group:
    if isinstance(value, str):
        value = {"column": value}
    if not isinstance(value, Mapping):
        raise _malformed("A group is a column's name, or an object.", "group_by")
    value = _with_names(value, _GROUP_KEYS)
    refuse_unknown(value, ("column", "bucket", "as"), "key of group_by")
    column = _name(value.get("column"), "group_by")
    word = _normalize(value.get("bucket"))
    bucket = None if word is None else _word(word, tuple(BUCKETS), "bucket")
    return Group(_alias(value, "group_by") or group_name(column, bucket), column, bucket)


def _aggregate(value: Any) -> AggregateColumn:
    if isinstance(value, str):
        value = _call(value)
    if not isinstance(value, Mapping):
        raise _malformed("An aggregate is an object.", "aggregates")
    value = _with_names(value, _AGGREGATE_KEYS)
    if len(value) == 1 and not {"function", "column"} & set(value):
        ((key, other),) = value.items()
        if isinstance(key, str) and isinstance(other, str):
            # size is another spelling of count, and more likely a column beside a function's own name.
            pair = sorted((key, other), key=_likeness_to_function, reverse=True)
            rewrite = {"function": pair[0][:_LONGEST_EXCERPT], "column": pair[1][:_LONGEST_EXCERPT]}
            raise _malformed(
                f"{key[:_LONGEST_EXCERPT]!r} is no key of aggregates.",
                "aggregates",
                f"Write {json.dumps(rewrite)}.",
            )
    refuse_unknown(value, ("function", "column", "fraction", "as"), "key of aggregates")
    word = _normalize(value.get("function"))
    function = _word(_look_up(_FUNCTIONS, word), tuple(AGGREGATES), "function")
    if value.get("column") == "*" and function == "count":
        value = {**value, "column": None}
    column = None if value.get("column") is None else _name(value["column"], "aggregates")
    if column is None and AGGREGATES[function].of is not None:
        raise _malformed(f"{function} needs a column.", "aggregates")
    fraction = _fraction(value, function)
    name = _alias(value, "aggregates") or aggregate_name(function, column, fraction)
    return AggregateColumn(name, function, column, fraction)


def _likeness_to_function(name: str) -> int:
    word = _normalize(name)
    return 2 if word in AGGREGATES else int(word in _FUNCTIONS)


# Possessive: with plain quantifiers, a text of MAXIMUM_CALL characters, most of them spaces, took 190 ms and not 0.2.
_CALL = re.compile(r"\s*+(\w++)\s*+\(\s*+(distinct\s++)?(.*?)\s*+\)(?:\s++as\s++(\w++))?\s*+", re.IGNORECASE)


def _call(text: str) -> Mapping[str, Any]:
    """ "count", or a call as SQL writes it: "avg(price)", "COUNT(DISTINCT state) AS states"."""
    match = _CALL.fullmatch(text[:MAXIMUM_CALL])
    if match is None:
        return {"function": text}
    name, distinct, column, alias = match.groups()
    function = "count_distinct" if distinct and name.lower() == "count" else name
    return {"function": function, "column": column or None, "as": alias}


def _fraction(value: Mapping[str, Any], function: str) -> float | None:
    number = value.get("fraction")
    if not AGGREGATES[function].takes_fraction:
        if number is not None:
            raise _malformed(f"{function} has no fraction.", "aggregates", "percentile has one.")
        return None
    if (
        isinstance(number, bool)
        or not isinstance(number, int | float)
        or not 0 <= number <= 1  # NaN is not, either
    ):
        raise _malformed(
            f"A {function} needs a fraction from 0 to 1.", "aggregates", 'Write "fraction": 0.9.'
        )
    return float(number)


def _order(keys: Sequence[Any]) -> tuple[QuerySort, ...]:
    order = tuple(_order_key(key) for key in keys)
    if len({key.column for key in order}) != len(order):
        raise _malformed("A column appears twice in order_by.", "order_by")
    return order


def _order_key(value: Any) -> QuerySort:
    if isinstance(value, str):
        value = _order_words(value)
    if not isinstance(value, Mapping):
        raise _malformed("A key of order_by is a column's name, or an object.", "order_by")
    value = _with_names(value, _ORDER_KEYS)
    refuse_unknown(value, ("column", "order"), "key of order_by")
    word = _normalize(value.get("order", "asc"))
    direction = _word(_look_up(_DIRECTIONS, word), ("asc", "desc"), "order")
    return QuerySort(_name(value.get("column"), "order_by"), direction == "desc")


_DIRECTIONS = {"ascending": "asc", "descending": "desc"}
_ORDER_WORDS = re.compile(r"(.*\S)\s+(asc|desc)", re.IGNORECASE)


def _order_words(text: str) -> Mapping[str, Any]:
    """An item of `order_by`: a name, "-price" or "price desc"."""
    if text.startswith("-"):
        return {"column": text[1:], "order": "desc"}
    match = _ORDER_WORDS.fullmatch(text[:MAXIMUM_CALL])
    return {"column": text} if match is None else {"column": match[1], "order": match[2]}


def _default_name(name: str, names: Sequence[str]) -> str:
    """The name. If it is an aggregate in the form of a call, the default name of that column of the answer."""
    if name in names or "column" not in _call(name):
        return name
    try:
        default = _aggregate(name).name
    except BadParameterError:
        return name
    return default if default in names else name


def _name(value: Any, key: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAXIMUM_NAME:
        raise _malformed(f"A column's name in {key} has 1 to {MAXIMUM_NAME} characters.", key)
    return value


def _alias(value: Mapping[str, Any], key: str) -> str | None:
    name = value.get("as")
    if name is not None and len(_name(name, key).encode(errors="replace")) > MAXIMUM_ALIAS:
        raise _malformed(f"A name given by as has {MAXIMUM_ALIAS} bytes at most.", key)
    if name is not None and "\x00" in name:
        raise _malformed("A name given by as has no NUL characters.", key)
    return name


def _word(value: Any, words: Sequence[Word], what: str, *, instead: Mapping[str, str] = {}) -> Word:
    for word in words:
        if value == word:
            return word
    details = {"name": what, "known": [*words]}
    allowed = f"{what} is one of: {', '.join(words)}."
    if isinstance(value, str):
        # Short words are often similar by chance, so nothing is suggested for them.
        raise BadParameterError(
            f"There is no {what} {value[:MAXIMUM_NAME]!r}.", hint=instead.get(value, allowed), details=details
        )
    raise BadParameterError(allowed, details=details)


_DIGITS = re.compile("[0-9]{1,10}", re.ASCII)


def _whole(name: str, value: Any) -> int:
    # Models write 5 as "5" or, where their host has no whole numbers, as 5.0.
    is_digits = isinstance(value, str) and _DIGITS.fullmatch(value)
    if is_digits or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    # As Settings.maximum_offset: drivers send it as a 32-bit integer.
    if type(value) is not int or not 0 <= value < 2**31:
        raise BadParameterError(f"{name} is a whole number from 0 to {2**31 - 1}.", details={"name": name})
    return value


def _malformed(message: str, key: str, hint: str = "") -> BadParameterError:
    return BadParameterError(
        message, hint=hint or f'Such as "{key}": {_EXAMPLES[key]}.', details={"name": key}
    )


def _too_many(key: str, most: int) -> LimitExceededError:
    return LimitExceededError(
        f"{key} holds more than {most}.", hint="Ask for less at once.", details={"name": key, "maximum": most}
    )


_WORD = re.compile(r"[0-9A-Za-z]+")


def id_in(text: str) -> str:
    """The id of a resource, from its URI as printed in a result, its URL, the URL of its rows, or the id itself."""
    reference = text.strip()
    identifiers: set[str] = {word for word in _WORD.findall(reference) if is_checked(word)}
    if len(identifiers) == 1:
        return identifiers.pop()
    path = reference.partition("?")[0].removesuffix("/rows")
    # Ids of earlier releases have no checksum.
    uri = uri_of_url(path) if is_web(path) else reference
    return resource_id(uri or reference) or reference
