"""A question in words; the rule: a person reads what was asked, and no more of its values than a line holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dualsql.asking.question import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Group,
    Inquiry,
    Measure,
    Negation,
    OrderKey,
    Question,
    TextQuestion,
)
from dualsql_client.conversions import shown
from dualsql_client.questions import Operator

_LONGEST = 500
_LONGEST_VALUE = 40
_SHOWN_VALUES = 5

_COMPARED: Mapping[Operator, str] = {
    "eq": "is",
    "ne": "is not",
    "lt": "is below",
    "le": "is at most",
    "gt": "is above",
    "ge": "is at least",
    "in": "is one of",
    "between": "is between",
    "contains": "contains",
    "starts_with": "starts with",
    "is_null": "has no value",
}


def in_words(inquiry: Inquiry) -> str:
    """What was asked: "where state is 'NJ'; count for each state; the first 10"."""
    said = "; ".join(_parts_of_text(inquiry) if isinstance(inquiry, TextQuestion) else _parts(inquiry))
    line = " ".join(said.split()) or "all of it"
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _parts_of_text(text: TextQuestion) -> Iterator[str]:
    yield f"SQL: {text.sql}"
    yield from _parts(Question(columns=text.columns, limit=text.limit, offset=text.offset))


def _parts(question: Question) -> Iterator[str]:
    if question.condition is not None:
        yield f"where {_condition(question.condition)}"
    if question.is_grouped:
        figures = ", ".join(map(_measure, question.measures)) or "the values"
        groups = ", ".join(map(_group, question.groups))
        yield f"{figures} for each {groups}" if groups else figures
    if question.having is not None:
        yield f"of these where {_condition(question.having)}"
    if question.columns is not None:
        yield f"columns {', '.join(question.columns)}"
    if question.order:
        yield f"by {', '.join(map(_key, question.order))}"
    if question.offset:
        yield f"after the first {question.offset}"
    if question.limit is not None:
        yield f"at most {question.limit}"


def _condition(condition: Condition) -> str:
    match condition:
        case AllOf(parts):
            return " and ".join(map(_inner, parts))
        case AnyOf(parts):
            return " or ".join(map(_inner, parts))
        case Negation(part):
            return f"not {_inner(part)}"
        case Comparison():
            return _comparison(condition)


def _inner(condition: Condition) -> str:
    said = _condition(condition)
    return f"({said})" if isinstance(condition, AllOf | AnyOf) and len(condition.parts) > 1 else said


def _comparison(found: Comparison) -> str:
    if found.operator == "is_null":
        return f"{found.column} {'has no value' if found.value else 'has a value'}"
    values = found.value if isinstance(found.value, tuple) else (found.value,)
    shown = [_value(value) for value in values[:_SHOWN_VALUES]]
    if len(values) > _SHOWN_VALUES:
        shown.append(f"{len(values) - _SHOWN_VALUES} more")
    joint = " and " if found.operator == "between" else ", "
    return f"{found.column} {_COMPARED[found.operator]} {joint.join(shown)}"


def _value(value: Any) -> str:
    said = shown(value, _LONGEST_VALUE + 1)
    return said if len(said) <= _LONGEST_VALUE else said[: _LONGEST_VALUE - 1] + "…"


def _group(group: Group) -> str:
    return group.column if group.bucket is None else f"{group.bucket} of {group.column}"


def _measure(measure: Measure) -> str:
    if measure.column is None:
        return "count"
    if measure.function == "percentile":
        return f"percentile {measure.fraction:g} of {measure.column}"
    return f"{measure.function.replace('_', ' ')} of {measure.column}"


def _key(key: OrderKey) -> str:
    return f"{key.column} descending" if key.is_descending else key.column
