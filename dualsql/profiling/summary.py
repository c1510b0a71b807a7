"""What one pass over the rows tells of every column; the rule: one statement, whatever number of columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, String, func

from dualsql.profiling.data import Data
from dualsql.profiling.subjects import Subject
from dualsql.statement import AnySelect

SHOWN = 101
"""Characters of a text that leave the database: one more than is shown."""


class Summary(NamedTuple):
    """How many rows there are, and figures by the name of the column."""

    rows: int
    figures: Mapping[str, dict[str, Any]]


def summary(data: Data) -> AnySelect:
    """The statement: one row, read by `read_summary`."""
    outputs = [
        expression.label(f"f{number}_{figure}")
        for number, subject in enumerate(data.subjects)
        for figure, expression in _expressions(subject, data)
    ]
    return data.asked(func.count().label("rows"), *outputs)


def read_summary(data: Data, row: Sequence[Any]) -> Summary:
    """The figures of the one row."""
    values = iter(row)
    rows = int(next(values))
    found: dict[str, dict[str, Any]] = {}
    for subject in data.subjects:
        # Values of a row come in the order in which they were asked for.
        read = {figure: next(values) for figure, _ in _expressions(subject, data)}
        if read:
            read["nulls"] = rows - int(read.pop("known"))
            if "about" in read:
                read |= {"distinct": int(read.pop("about")), "distinct_kind": "approximate"}
        found[subject.name] = read
    return Summary(rows, found)


def _expressions(subject: Subject, data: Data) -> Iterator[tuple[str, ColumnElement[Any]]]:
    if subject.is_masked:
        return
    value, capabilities = subject.value, data.capabilities
    yield "known", func.count(value)
    if subject.has_range:
        yield "minimum", shown(subject, func.min(value))
        yield "maximum", shown(subject, func.max(value))
    if subject.is_text:
        yield "longest", func.max(getattr(func, capabilities.text_length)(value))
    if subject.is_grouped and capabilities.approximate_distinct:
        yield "about", getattr(func, capabilities.approximate_distinct)(value)


def shown(subject: Subject, value: ColumnElement[Any]) -> ColumnElement[Any]:
    """The value, or so much of a text as can be shown: a cell may hold megabytes."""
    return func.substr(value, 1, SHOWN, type_=String()) if subject.is_text else value
