"""Values that the application's own types make, as they are given back in a question."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from dualsql.errors import ValueNotRepresentableError
from dualsql.formats import json
from dualsql.meanings import Meaning, Meanings


def taken(value: Any, meaning: Meaning, meanings: Meanings) -> Any:
    """A value that was shown, as the application's type takes it: it would be shown the same again.

    Raises:
        ValueError: the type takes none such, would show another one, or stores it differently each time.
    """
    if meaning.shown_class is not None:
        if meaning.reading_of(value) != value:
            raise ValueError("shown as another one")
        return value
    written = json.dumps(value)
    for candidate in _candidates(value):
        with suppress(ValueError, ValueNotRepresentableError):
            if json.dumps(meanings.converted(meaning.reading_of(candidate))) == written:
                return candidate
    raise ValueError("not taken")


def _candidates(value: Any) -> Iterator[Any]:
    """What a value of no declared kind may stand for: itself, or what is written like it."""
    yield value
    if isinstance(value, str):
        for read in (UUID, datetime.fromisoformat, date.fromisoformat, time.fromisoformat, Decimal):
            with suppress(ValueError, ArithmeticError):
                yield read(value)
