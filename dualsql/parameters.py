"""Check what callers ask for against the settings; the rule: a value out of bounds is refused, never bent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from dualsql.errors import BadParameterError, LimitExceededError
from dualsql.formats import json
from dualsql.settings import Settings
from dualsql_client.wire import SortKey

_LONGEST_NAME = 200
_LARGEST_METADATA = 64 * 1024


def checked_name(name: str) -> str:
    """A title of 1 to 200 characters."""
    if not name.strip() or len(name) > _LONGEST_NAME:
        raise BadParameterError(f"A name has 1 to {_LONGEST_NAME} characters.", details={"length": len(name)})
    return name


def checked_lifetime(asked: timedelta | None, settings: Settings) -> timedelta:
    """The lifetime asked for, cut to the longest the operator allows."""
    wanted = settings.default_expiration if asked is None else asked
    if wanted < timedelta():
        raise BadParameterError(
            "An expiration cannot be negative.", details={"seconds": wanted.total_seconds()}
        )
    return min(wanted, settings.maximum_lifetime)


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Plain JSON values, at most 64 KiB of them."""
    encoded = json.dumps(dict(metadata or {}))
    if len(encoded) > _LARGEST_METADATA:
        raise LimitExceededError(
            f"Metadata may take {_LARGEST_METADATA} bytes.",
            hint="Store less of it.",
            details={"bytes": len(encoded)},
        )
    plain: dict[str, Any] = json.loads(encoded)
    return plain


def checked_size(size: int | None, settings: Settings) -> int:
    """Rows of a sample, from 0 on."""
    default = min(settings.default_sample_size, settings.maximum_sample_size)
    return _within("sample_size", default if size is None else size, 0, settings.maximum_sample_size)


def checked_window(offset: int, limit: int | None, sort: Sequence[SortKey], settings: Settings) -> int:
    """The limit to use, once offset, limit and the number of sort keys are found in bounds."""
    _within("offset", offset, 0, settings.maximum_offset)
    _within("the number of sort keys", len(sort), 0, settings.maximum_sort_keys)
    default = min(settings.default_page_size, settings.maximum_page_size)
    return _within("limit", default if limit is None else limit, 1, settings.maximum_page_size)


def _within(what: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise BadParameterError(
            f"{what} is out of bounds.",
            hint=f"Give a number from {least} to {most}.",
            details={"value": value},
        )
    return value
