"""The values to bind where a caller compares a column of an application's own type with a value as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from dualsql.columns.meanings import Meanings
from dualsql.columns.own_types import Meaning
from dualsql.columns.trials import round_trip
from dualsql.errors import ValueNotRepresentableError
from dualsql.formats.json import dumps


def bind_value(value: Any, meaning: Meaning, meanings: Meanings) -> Any:
    """The value that the application's type has to bind so that `value` is shown again.

    Raises:
        ValueError: the type does not accept it, would show another value, or stores it differently each time.
    """
    if meaning.shown_class is not None:
        if round_trip(value, meaning.binds, meaning.reads) != value:
            raise ValueError("it would be shown as another value")
        return value
    json_text = dumps(value)
    for candidate in _candidates(value):
        with suppress(ValueError, ValueNotRepresentableError):
            output = round_trip(candidate, meaning.binds, meaning.reads)
            if dumps(meanings.converted(output)) == json_text:
                return candidate
    raise ValueError("no value of the type is shown like this")


def _candidates(value: Any) -> Iterator[Any]:
    """The values that look like this one: the value itself, and values of other classes that are written alike."""
    yield value
    if isinstance(value, str):
        for parse in (UUID, datetime.fromisoformat, date.fromisoformat, time.fromisoformat, Decimal):
            with suppress(ValueError, ArithmeticError):
                yield parse(value)
