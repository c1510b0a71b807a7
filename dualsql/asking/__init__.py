"""A question about a stored result to a Select over it; the rule: pure, closed, and every value is bound.

question    what can be asked, as data
reading     JSON to a question
statements  a question and a result to a Select; conditions, measures, literals: the parts of one
abilities   what each database makes of them
text        the same in SQL
words       what was asked, for people
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualsql.asking.question import Inquiry, Question, TextQuestion
from dualsql.asking.reading import KEYS, WINDOW_KEYS, read_question
from dualsql.asking.statements import answering_question
from dualsql.asking.text import TEXT_KEYS, answering_text, read_text
from dualsql.asking.words import in_words
from dualsql.dialects import Capabilities
from dualsql.plan import Shape
from dualsql.statement import AnySelect

__all__ = [
    "KEYS",
    "TEXT_KEYS",
    "WINDOW_KEYS",
    "Inquiry",
    "Question",
    "TextQuestion",
    "answering",
    "in_words",
    "read_inquiry",
    "read_question",
    "read_text",
]


def read_inquiry(values: Any) -> Inquiry:
    """The question that a JSON object is; one with `sql` is asked in SQL.

    Raises:
        BadParameterError, LimitExceededError: it is none, or there is too much of it.
    """
    if isinstance(values, Question | TextQuestion):
        return values
    return read_text(values) if isinstance(values, Mapping) and "sql" in values else read_question(values)


def answering(
    inquiry: Inquiry, result: Shape, capabilities: Capabilities, dialect: str, *, is_fenced: bool = False
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
