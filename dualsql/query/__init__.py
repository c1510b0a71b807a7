"""A question about a stored result, as a Select over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualsql.capabilities import Capabilities
from dualsql.freeze.document import AnySelect
from dualsql.plan import Shape
from dualsql.query.parse import KEYS, WINDOW_KEYS, read_question
from dualsql.query.question import Question, ResultQuery, TextQuestion, in_words
from dualsql.query.select import TEXT_KEYS, answering_question, answering_text, read_text

__all__ = [
    "KEYS",
    "TEXT_KEYS",
    "WINDOW_KEYS",
    "Question",
    "ResultQuery",
    "TextQuestion",
    "answering",
    "in_words",
    "read_question",
    "read_result_query",
    "read_text",
]


def read_result_query(values: Any) -> ResultQuery:
    """The question that a JSON object is; one with `sql` is asked in SQL.

    Raises:
        BadParameterError, LimitExceededError: it is none, or there is too much of it.
    """
    if isinstance(values, Question | TextQuestion):
        return values
    return read_text(values) if isinstance(values, Mapping) and "sql" in values else read_question(values)


def answering(
    inquiry: ResultQuery, result: Shape, capabilities: Capabilities, dialect: str, *, is_fenced: bool = False
) -> AnySelect:
    """The Select that answers `inquiry` about `result`, on a database of SQLAlchemy's `dialect`.

    Args:
        is_fenced: rows are hidden from whoever asks: what a text computes is computed of the others alone.

    Raises:
        UnknownColumnError, BadParameterError: it names what is not there, or asks what cannot be.
        InvalidSQLError, ForbiddenSQLError, UnknownTableError: a text cannot be read; see `dualsql.sql`.
    """
    if isinstance(inquiry, TextQuestion):
        return answering_text(inquiry, result, capabilities, dialect, is_fenced=is_fenced)
    return answering_question(inquiry, result, capabilities)
