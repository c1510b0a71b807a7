"""Values that callers send back to a column of the application's own type, for the features that compare with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from dualsql.columns.own_types import Meaning, Meanings
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats.json import dumps


def taken(value: Any, meaning: Meaning, meanings: Meanings) -> Any:
    """The value that the application's type has to bind so that `value` is shown again.

    Raises:
        ValueError: the type does not accept it, would show another value, or stores it differently each time.
    """
    if meaning.shown_class is not None:
        if meaning.reading_of(value) != value:
            raise ValueError("shown as another one")
        return value
    written = dumps(value)
    for candidate in _candidates(value):
        with suppress(ValueError, ValueNotRepresentableError):
            if dumps(meanings.converted(meaning.reading_of(candidate))) == written:
                return candidate
    raise ValueError("not taken")


def _candidates(value: Any) -> Iterator[Any]:
    """The values that look like this one: the value itself, and values of other classes that are written alike."""
    yield value
    if isinstance(value, str):
        for read in (UUID, datetime.fromisoformat, date.fromisoformat, time.fromisoformat, Decimal):
            with suppress(ValueError, ArithmeticError):
                yield read(value)
