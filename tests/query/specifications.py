"""Questions made by hypothesis. Each is one that can be answered, and its values are Python's."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from dualsql.formats.json import dumps, loads
from tests.query.readings import ROWS, TEXTS

Spec = dict[str, Any]

_ORDERED = ("id", "small", "big", "price", "ratio", "day", "moment", "clock", "span", "text")
_EQUAL = (*_ORDERED, "word", "flag", "code", "blob")
_COLUMNS = ("tenant", *_EQUAL, "secret")
# What every engine sorts alike: texts only where they are groups, by code point.
_SORTED = ("small", "big", "price", "ratio", "day", "moment", "clock")
_GROUPED = ("text", "word", "small", "big", "price", "flag", "tenant", "clock", "ratio", "secret", "day")
_OF_TEXTS = ("contains", "contains_any_case", "starts_with")
_DAY_BUCKETS = ("year", "quarter", "month", "week", "day")


def _values(column: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([row[column] for row in ROWS if row[column] is not None])


@st.composite
def _comparison(draw: st.DrawFn) -> Spec:
    operator = draw(
        st.sampled_from(("eq", "ne", "in", "lt", "le", "gt", "ge", "between", "is_null", *_OF_TEXTS))
    )
    if operator == "is_null":
        return {"column": draw(st.sampled_from(_COLUMNS)), "op": operator, "value": draw(st.booleans())}
    if operator in _OF_TEXTS:
        part = draw(st.sampled_from((*TEXTS, "%", "_", "b", "ebra", "ZEB", "ÄB", "İ", "ı", "ΑΣ", "Ας", "SS")))
        return {"column": "text", "op": operator, "value": part}
    column = draw(st.sampled_from(_EQUAL if operator in {"eq", "ne", "in"} else _ORDERED))
    if operator == "in":
        return {
            "column": column,
            "op": operator,
            "value": draw(st.lists(_values(column), min_size=1, max_size=4)),
        }
    if operator == "between":
        bounds = [draw(_values(column)), draw(_values(column))]
        return {"column": column, "op": operator, "value": bounds}
    return {"column": column, "op": operator, "value": draw(_values(column))}


_CONDITION = st.recursive(
    _comparison(),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=5,
)
_FILTERS = st.lists(_CONDITION, max_size=2)


def _keys(columns: tuple[str, ...] | list[str]) -> st.SearchStrategy[list[Spec]]:
    key = st.fixed_dictionaries(
        {"column": st.sampled_from(columns), "order": st.sampled_from(("asc", "desc"))}
    )
    return st.lists(key, max_size=2, unique_by=lambda found: str(found["column"]))


@st.composite
def rows_asked(draw: st.DrawFn) -> Spec:
    """A question for rows."""
    spec: Spec = {"filters": draw(_FILTERS), "order_by": draw(_keys(_SORTED))}
    if draw(st.booleans()):
        spec["columns"] = draw(st.lists(st.sampled_from(_COLUMNS), min_size=1, max_size=4, unique=True))
    return spec


_GROUP = st.one_of(
    st.fixed_dictionaries({"column": st.sampled_from(_GROUPED)}),
    st.fixed_dictionaries({"column": st.just("day"), "bucket": st.sampled_from(_DAY_BUCKETS)}),
    st.fixed_dictionaries({"column": st.just("moment"), "bucket": st.sampled_from((*_DAY_BUCKETS, "hour"))}),
)


def _figures() -> st.SearchStrategy[Spec]:
    numbers = st.sampled_from(("id", "small", "big", "price", "ratio"))
    simple = st.sampled_from(("sum", "avg", "median"))
    fraction = st.sampled_from((0.0, 0.1, 0.25, 0.9, 1.0))
    return st.one_of(
        st.just({"function": "count"}),
        st.fixed_dictionaries(
            {"function": st.sampled_from(("count", "count_distinct")), "column": st.sampled_from(_EQUAL)}
        ),
        st.fixed_dictionaries({"function": simple, "column": numbers}),
        st.fixed_dictionaries(
            {
                "function": st.sampled_from(("min", "max")),
                "column": st.sampled_from([name for name in _ORDERED if name != "span"]),
            }
        ),
        st.fixed_dictionaries({"function": st.just("percentile"), "column": numbers, "fraction": fraction}),
    )


@st.composite
def groups_asked(draw: st.DrawFn) -> Spec:
    """A question for figures of groups."""
    groups = draw(st.lists(_GROUP, max_size=2, unique_by=lambda part: (part["column"], part.get("bucket"))))
    figures = draw(
        st.lists(
            _figures(),
            min_size=0 if groups else 1,
            max_size=4,
            unique_by=lambda part: tuple(sorted(part.items())),
        )
    )
    spec: Spec = {"filters": draw(_FILTERS), "group_by": groups, "aggregates": figures}
    if {"function": "count"} in figures:
        if draw(st.booleans()):
            spec["having"] = [{"column": "count", "op": "gt", "value": draw(st.integers(0, 12))}]
        spec["order_by"] = draw(_keys(["count"]))
    return spec


def as_json(spec: Mapping[str, Any]) -> Spec:
    """The question as it is sent: values as results show them."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return b64encode(value).decode()
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        return value

    question: Spec = loads(dumps(plain(dict(spec))))
    return question


def for_polars(spec: Mapping[str, Any]) -> Spec:
    """The question with UUIDs as texts, which polars has no type for."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return str(value) if isinstance(value, UUID) else value

    question: Spec = plain(dict(spec))
    return question
